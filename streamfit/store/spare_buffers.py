"""Buffers for encoded chunks that are used again: fresh pages for each chunk cost more than reading its file.

Where the allocator gives freed memory back, as on the command line, a chunk of 4 MiB took 4.8 ms of CPU with memory of
its own, and 2.6 ms with memory that was there (lz4); zstd 9.2 and 6.9 ms.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["spare_buffer"]

_LEAST_NBYTES = 2**17
"""Below, the allocator has memory at hand."""
_MOST_NBYTES = 9 * 2**20
"""A default chunk fits. Two of these at the most outlive a read, as a part of what is fixed in every budget."""

# Without a lock, which a fork might copy while it is held: both ends of a deque are atomic.
_SPARE: deque[NDArray[Any]] = deque(maxlen=2)


@contextmanager
def spare_buffer(nbytes: int, *, most_nbytes: int) -> Iterator[memoryview]:
    """Lend a buffer whose content is undefined. Nobody else has it until the ``with`` block ends.

    Parameters
    ----------
    nbytes : int
        Its bytes.
    most_nbytes : int
        Bytes of the largest that will be asked for by the same reader, so that one serves all its chunks. What is not
        written to takes no memory.
    """
    if not _LEAST_NBYTES <= most_nbytes <= _MOST_NBYTES:
        yield np.empty(nbytes, dtype=np.uint8).data
        return
    try:
        buffer = _SPARE.pop()
    except IndexError:
        buffer = np.empty(0, dtype=np.uint8)
    if len(buffer) < nbytes:
        buffer = np.empty(most_nbytes, dtype=np.uint8)
    try:
        yield buffer.data[:nbytes]
    finally:
        _SPARE.append(buffer)
