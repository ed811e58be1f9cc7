"""One BLAS thread a task, however many fits say so at once."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_blas_thread"]


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:  # noqa: ARG001  # only imports load other libraries
    """Give what limits the libraries that are loaded: to look for them takes a task longer than a small chunk."""
    return ThreadpoolController()


class _Keeper(threading.Thread):
    """Holds the limit of the process from its start until it is released."""

    def __init__(self) -> None:
        super().__init__(name="streamfit-blas", daemon=True)
        self._held = threading.Event()
        self._released = threading.Event()
        self.start()
        self._held.wait()

    def run(self) -> None:
        with _controller(len(sys.modules)).limit(limits=1, user_api="blas"):
            self._held.set()
            self._released.wait()

    def release(self) -> None:
        self._released.set()
        self.join()


class _SharedLimit:
    """Counts who wants one thread; the first one in starts a keeper, the last one out releases it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_holders = 0
        self._keeper: _Keeper | None = None

    def enter(self) -> None:
        with self._lock:
            if self._keeper is None:
                self._keeper = _Keeper()
            self._n_holders += 1

    def leave(self) -> None:
        with self._lock:
            self._n_holders -= 1
            if self._n_holders == 0 and self._keeper is not None:
                self._keeper.release()
                self._keeper = None


_limit = _SharedLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS and OpenMP on one thread in this block.

    With more threads tasks fight over cores, and sums depend on their number. OpenBLAS has one limit a
    process, which ``threadpoolctl`` lets one thread set: contexts that overlap in several threads would
    restore each other's limits. So one thread of ours keeps it for all who want it. OpenMP has a limit a
    thread, which is set here.
    """
    _limit.enter()
    try:
        with _controller(len(sys.modules)).limit(limits=1, user_api="openmp"):
            yield
    finally:
        _limit.leave()
