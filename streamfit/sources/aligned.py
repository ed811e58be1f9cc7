"""Arrays in chunks of other makers: read along the edges of their chunks, and what they read where one is missing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import FilledChunksWarning
from streamfit.sources.damaged import reading
from streamfit.sources.source import RowBlock, block_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["AlignedArray", "aligned_blocks", "aligned_nbytes", "warn_of_missing_chunks"]

_MOST_NBYTES = 256 * 2**20
"""Of a block, where the chunks are so tall that a block cannot hold whole ones."""


@dataclass(frozen=True, slots=True)
class AlignedArray:
    """An array that is decoded by chunks."""

    read: Callable[[int, int], Any]
    """Gives the rows from the first number to before the second."""
    n_rows: int
    """Rows."""
    row_nbytes: int
    """Bytes of one row, decoded."""
    chunk_rows: int
    """Rows of what is decoded at once."""
    what: str
    """The array, for messages."""

    @property
    def step(self) -> int:
        """Rows that are read at a time: whole chunks, about 8 MiB, or equal parts of a chunk that is too tall.

        Each part of a tall chunk decodes the chunk again, which takes time where all of it would take memory.
        """
        tall = self.chunk_rows * self.row_nbytes
        if tall > _MOST_NBYTES:
            return -(-self.chunk_rows // -(-tall // _MOST_NBYTES))
        return self.chunk_rows * max(1, block_rows(self.row_nbytes) // self.chunk_rows)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Read some rows.

        Raises
        ------
        InvalidDataError
            They cannot be decoded; the message has their numbers.
        """
        with reading(f"{self.what}, rows {start} to {stop - 1}"):
            return np.asarray(self.read(start, stop))


def aligned_blocks(X: AlignedArray, columns: Mapping[str, AlignedArray], start: int) -> Iterator[RowBlock]:
    """Read a matrix, and columns of equal length that have chunks of their own.

    Parameters
    ----------
    X : AlignedArray
        The matrix.
    columns : mapping of str to AlignedArray
        ``y``, ``sample_weight`` or ``ids``.
    start : int
        First row.
    """
    cursors = {role: _Cursor(column, start) for role, column in columns.items()}
    while start < X.n_rows:
        stop = min((start // X.step + 1) * X.step, X.n_rows)
        yield RowBlock(X.rows(start, stop), **{role: cursor.until(stop) for role, cursor in cursors.items()})
        start = stop


class _Cursor:
    """Reads a column forwards, each of its chunks once."""

    def __init__(self, column: AlignedArray, start: int) -> None:
        self._column = column
        self._held = np.empty(0)
        self._first = self._end = start
        """Rows that are held: the first one that was not given yet, and the one behind the last."""

    def until(self, stop: int) -> NDArray[Any]:
        parts = []
        while self._first < stop:
            if self._first == self._end:
                step = self._column.step
                self._end = min((self._first // step + 1) * step, self._column.n_rows)
                self._held = self._column.rows(self._first, self._end)
            n = min(stop, self._end) - self._first
            parts.append(self._held[:n])
            self._held = self._held[n:]
            self._first += n
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def aligned_nbytes(arrays: Iterable[AlignedArray]) -> int:
    """Give the most bytes that one block takes: what is decoded, and the rows made of it."""
    return 2 * sum(min(array.step, array.n_rows) * array.row_nbytes for array in arrays)


def warn_of_missing_chunks(what: str, *, n_missing: int, n_chunks: int, fill_value: Any) -> None:
    """Warn of chunks that are not stored and read as a number that data may hold.

    A writer may leave out a chunk that holds nothing else, so this is no error. NaN needs no warning: it is refused
    by row and column, or kept by policy.
    """
    value = np.asarray(fill_value)
    if n_missing > 0 and not (value.dtype.kind == "f" and np.isnan(value).all()):
        warnings.warn(
            f"{n_missing} of {n_chunks} chunks of {what} are not stored, and are read as {fill_value}. Writers "
            "leave out chunks of nothing else; if yours does not, they were never written, or are lost.",
            FilledChunksWarning,
            stacklevel=2,
        )
