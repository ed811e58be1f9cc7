"""Resident memory, sampled while something runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PeakMemory", "resident_nbytes"]

_INTERVAL_SECONDS = 0.02


def resident_nbytes() -> int:
    """Resident bytes of this process and its children; shared pages count once a process."""
    process = psutil.Process()
    total = int(process.memory_info().rss)
    for child in process.children(recursive=True):
        try:
            total += int(child.memory_info().rss)
        except psutil.NoSuchProcess:  # it ended between the two calls
            continue
    return total


class PeakMemory:
    """Highest resident memory inside a ``with`` block, over a given start.

    A thread samples every 20 ms; a peak between two samples is missed.

    Parameters
    ----------
    start_nbytes : int or None, default=None
        Resident bytes to count from; None: those at the beginning of the block.

    Attributes
    ----------
    growth_nbytes : int
        Peak minus start, at least 0.
    """

    def __init__(self, start_nbytes: int | None = None) -> None:
        self.start_nbytes = start_nbytes
        self.growth_nbytes = 0

    def __enter__(self) -> Self:
        """Begin to sample."""
        self._start = resident_nbytes() if self.start_nbytes is None else self.start_nbytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="streamfit-memory", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End with a last sample."""
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            stopped = self._stop.wait(_INTERVAL_SECONDS)
            self.growth_nbytes = max(self.growth_nbytes, resident_nbytes() - self._start)
            if stopped:
                return
