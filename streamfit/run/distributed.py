"""The engine of a ``distributed.Client``: a local cluster of processes, or a cluster elsewhere."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import distributed
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError

from streamfit.errors import ClusterError, WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DistributedEngine", "active_engine"]

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class DistributedEngine:
    """Workers behind a client. Tasks carry a store's path and small states, never data.

    All that is computed is pure, so what was lost with a scheduler is asked for again when there is one. What a worker
    had is recomputed by the scheduler itself.
    """

    client: distributed.Client
    """The client; whoever made it closes it."""
    patience_seconds: float = _PATIENCE_SECONDS
    """How long to wait for a scheduler that was lost."""
    name: str = field(default="distributed", init=False)
    """Short name."""
    shares_memory: bool = field(default=False, init=False)
    """Tasks run in other processes."""

    @property
    def n_workers(self) -> int:
        """Threads of all workers."""
        n_threads: int = self._again_if_lost(lambda: sum(self.client.nthreads().values()))
        return max(1, n_threads)

    def compute(self, *collections: Any, n_tasks: int | None = None) -> tuple[Any, ...]:  # noqa: ARG002
        """Compute dask collections together.

        `n_tasks` has no effect: the memory of a worker bounds the threads it was started with.
        """

        def computed() -> tuple[Any, ...]:
            # No retries: a task that failed by its own fault fails again.
            futures = self.client.compute(list(collections), retries=0)
            with self._cancelled_if_left(futures):
                return tuple(self.client.gather(futures))

        return self._again_if_lost(computed)

    def everywhere(self, function: Callable[[], object]) -> None:
        """Call the function as a task on each worker."""

        def called() -> None:
            futures = [
                self.client.submit(function, workers=[worker], pure=False, retries=0)
                for worker in self.client.nthreads()
            ]
            with self._cancelled_if_left(futures):
                self.client.gather(futures)

        self._again_if_lost(called)

    def run(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Run one call on one worker and wait for its result."""

        def done() -> ResultT:
            future = self.client.submit(function, *args, pure=False, retries=0)
            with self._cancelled_if_left([future]):
                result: ResultT = future.result()
                return result

        return self._again_if_lost(done)

    @contextmanager
    def _cancelled_if_left(self, futures: list[Any]) -> Iterator[None]:
        """Take work back that nobody waits for any more, after an interrupt or a failed task."""
        try:
            yield
        except BaseException:
            if self.client.status == "running":
                self.client.cancel(futures)
            raise

    def _again_if_lost(self, ask: Callable[[], ResultT]) -> ResultT:
        while True:
            try:
                return ask()
            except distributed.KilledWorker as error:
                raise WorkerLostError(
                    f"{error.allowed_failures + 1} workers died while they ran {error.task!r}, the last one at "
                    f"{error.last_worker}. Most often their memory was too small for it: start workers with more "
                    "memory or fewer threads, or write the store with a smaller chunk_rows. Their logs tell more."
                ) from error
            except (FutureCancelledError, CommClosedError, TimeoutError, OSError) as error:
                if not self._is_lost(error):
                    raise
                logger.warning("the scheduler is lost, it is waited for: %s", " ".join(str(error).split()))
                self._wait_for_scheduler(error)

    def _is_lost(self, error: Exception) -> bool:
        """Whether the scheduler was lost, and not the task that failed."""
        if isinstance(error, FutureCancelledError):
            return "scheduler" in str(error.reason)
        return self.client.status != "running" or isinstance(error, CommClosedError)

    def _wait_for_scheduler(self, error: Exception) -> None:
        deadline = time.monotonic() + self.patience_seconds
        while time.monotonic() < deadline:
            # The client tries to reach the scheduler's address by itself.
            if self.client.status == "running" and self.client.nthreads():
                return
            if self.client.status == "closed":
                break
            time.sleep(_LOOK_SECONDS)
        raise ClusterError(
            f"The scheduler was lost and did not come back within {self.patience_seconds:g} s. Start it and "
            "run the same again: a fit with checkpoint= goes on where it was."
        ) from error


def active_engine() -> DistributedEngine | None:
    """Give the engine of the client that is active in this context, or None."""
    try:
        client = distributed.get_client()
    except ValueError:  # the documented answer where there is none
        return None
    return DistributedEngine(client)
