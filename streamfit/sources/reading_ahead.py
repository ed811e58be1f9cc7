"""Blocks of a source that are read while the one before is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from streamfit.sources.source import RowBlock, Source

__all__ = ["ahead_nbytes", "read_ahead"]


def ahead_nbytes(rows: Source) -> int | None:
    """Bytes that a block takes while the next one is read, or None where blocks are read as they are asked for.

    Files that streamfit reads itself are read ahead. What else gives rows may be code of the user, which need not be
    fit for another thread, or lies in memory, where there is nothing to wait for.
    """
    if not (rows.paths and rows.seekable):
        return None
    return rows.block_nbytes if rows.held_nbytes is None else rows.held_nbytes


def read_ahead(blocks: Iterator[RowBlock]) -> Generator[RowBlock, None, None]:
    """Give the same blocks, and read the next one in a thread meanwhile: one, and never two.

    An error of the source is raised once the blocks before it are used, as it would be without the thread. Close the
    generator: it returns when the thread has ended, which is after the block that it reads.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="streamfit-source") as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block
