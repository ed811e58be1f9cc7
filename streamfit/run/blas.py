"""One BLAS thread a task, however many tasks say so at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pinned_blas"]

_lock = threading.Lock()
_holders: list[threadpool_limits] = []
_depth = 0


@contextmanager
def pinned_blas() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread in this process until the last such block ends.

    With more threads tasks fight over cores, and sums depend on their number. The limit belongs to the
    process: contexts of ``threadpoolctl`` that overlap in different threads would restore each other's
    limits, so the first block sets it and the last one restores what was there.
    """
    global _depth  # noqa: PLW0603  # the limit itself is global to the process
    with _lock:
        _depth += 1
        if _depth == 1:
            _holders.append(threadpool_limits(limits=1))
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _holders.pop().restore_original_limits()
