"""Memory that is freed goes back to the system: a choice for a process of our own, never for a library."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["return_freed_memory"]

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_NBYTES = 4 * 2**20  # smaller ones, such as the tiles of a neighbour search, come and go by the thousand


def return_freed_memory() -> None:
    """Ask glibc to give each large array pages of its own, that are returned as soon as it is freed.

    By default glibc raises that size to 32 MiB as it goes, keeps freed chunks and windows in its heaps, and a
    process looks, and is killed, as if it still used them. Elsewhere this does nothing.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_NBYTES)
