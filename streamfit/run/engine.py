"""What runs the verbs. An engine decides where and how many at once, never what is computed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Engine", "chosen_engine", "current_engine"]

ResultT = TypeVar("ResultT")


class Engine(Protocol):
    """Where tasks run. The results are bit-equal on every engine."""

    @property
    def name(self) -> str:
        """Short name, such as ``"threads"``."""

    @property
    def n_workers(self) -> int:
        """Tasks that can run at once."""

    @property
    def shares_memory(self) -> bool:
        """Whether tasks run in this process, so that models and buffers need not be shipped."""

    def compute(self, *collections: Any, n_tasks: int | None = None) -> tuple[Any, ...]:
        """Compute dask collections together.

        Parameters
        ----------
        *collections : dask collections
            What to compute; work that they share is done once.
        n_tasks : int or None
            Most tasks at once, where memory bounds them more than `n_workers` does.
        """

    def everywhere(self, function: Callable[[], object]) -> None:
        """Call a function once in each process that runs tasks, such as one that imports what they use."""

    def run(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Run one long call, such as a segment of an ordered stream, and wait for its result."""


_chosen: ContextVar[Engine | None] = ContextVar("streamfit_engine", default=None)


@contextmanager
def chosen_engine(engine: Engine) -> Iterator[Engine]:
    """Make an engine the current one for a block, in this thread."""
    token = _chosen.set(engine)
    try:
        yield engine
    finally:
        _chosen.reset(token)


def current_engine() -> Engine:
    """Give the engine of the innermost ``connect`` block, else of the active client, else threads here."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    # Whoever made a Client has imported distributed: without it there is none, and no need to import it.
    if "distributed" in sys.modules:
        from streamfit.run.distributed import active_engine

        engine = active_engine()
        if engine is not None:
            return engine
    from streamfit.run.threads import ThreadsEngine

    return ThreadsEngine()
