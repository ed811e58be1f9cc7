"""The engine of a ``distributed.Client``: a local cluster of processes, or a cluster elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import distributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DistributedEngine", "active_engine"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class DistributedEngine:
    """Workers behind a client. Tasks carry a store's path and small states, never data."""

    client: distributed.Client
    """The client; whoever made it closes it."""
    name: str = field(default="distributed", init=False)
    """Short name."""
    shares_memory: bool = field(default=False, init=False)
    """Tasks run in other processes."""

    @property
    def n_workers(self) -> int:
        """Threads of all workers."""
        n_threads: int = sum(self.client.nthreads().values())
        return max(1, n_threads)

    def compute(self, *collections: Any, n_tasks: int | None = None) -> tuple[Any, ...]:  # noqa: ARG002
        """Compute dask collections together.

        `n_tasks` has no effect: the memory of a worker bounds the threads it was started with.
        """
        # No retries: a task that failed by its own fault fails again, and a lost worker is handled by
        # the scheduler itself.
        futures = self.client.compute(list(collections), retries=0)
        with self._cancelled_if_left(futures):
            return tuple(self.client.gather(futures))

    def everywhere(self, function: Callable[[], object]) -> None:
        """Call the function as a task on each worker."""
        futures = [
            self.client.submit(function, workers=[worker], pure=False, retries=0) for worker in self.client.nthreads()
        ]
        with self._cancelled_if_left(futures):
            self.client.gather(futures)

    def run(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Run one call on one worker and wait for its result."""
        future = self.client.submit(function, *args, pure=False, retries=0)
        with self._cancelled_if_left([future]):
            result: ResultT = future.result()
            return result

    @contextmanager
    def _cancelled_if_left(self, futures: list[Any]) -> Iterator[None]:
        """Take work back that nobody waits for any more, after an interrupt or a failed task."""
        try:
            yield
        except BaseException:
            self.client.cancel(futures)
            raise


def active_engine() -> DistributedEngine | None:
    """Give the engine of the client that is active in this context, or None."""
    try:
        client = distributed.get_client()
    except ValueError:  # the documented answer where there is none
        return None
    return DistributedEngine(client)
