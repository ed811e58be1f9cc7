"""The engine in this process: dask's threaded scheduler, nothing to start."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from dask.base import compute

from streamfit.errors import InvalidParameterError
from streamfit.run.blas import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ThreadsEngine", "available_cores"]

ResultT = TypeVar("ResultT")


def available_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS has no affinity


@dataclass(frozen=True, slots=True)
class ThreadsEngine:
    """Threads of this process."""

    n_workers: int = field(default_factory=available_cores)
    """Tasks that run at once."""
    name: str = field(default="threads", init=False)
    """Short name."""
    shares_memory: bool = field(default=True, init=False)
    """Tasks run in this process."""

    def __post_init__(self) -> None:
        if self.n_workers < 1:
            raise InvalidParameterError(f"n_workers must be at least 1, got {self.n_workers}.")

    def compute(self, *collections: Any, n_tasks: int | None = None) -> tuple[Any, ...]:
        """Compute dask collections together on at most `n_tasks` threads."""
        n_threads = min(self.n_workers, n_tasks or self.n_workers)
        # One BLAS thread a task: with more, tasks fight over cores and sums depend on their number.
        with one_blas_thread():
            results: tuple[Any, ...] = compute(*collections, scheduler="threads", num_workers=n_threads)
        return results

    def everywhere(self, function: Callable[[], object]) -> None:
        """Call the function here."""
        function()

    def run(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Call the function here."""
        with one_blas_thread():
            return function(*args)
