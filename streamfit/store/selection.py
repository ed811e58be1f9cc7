"""Which rows of a store belong to a view, as a small frozen value."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.maths.sampling import recut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["Selection"]

_BLOCK_ROWS = 1 << 16
"""Rows of one compressed block: a chunk's rows are found by opening the blocks that it touches."""
_NONE = b""
_ALL = b"*"


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Some rows of a store in ascending order, a compressed bit a row.

    Examples
    --------
    >>> odd = Selection.of_slice(10, range(1, 10, 2))
    >>> odd
    Selection(5 of 10 rows)
    >>> odd.rows_between(2, 8)
    array([3, 5, 7])
    >>> odd.compose(Selection.of_rows(5, np.array([0, 4]))).rows_between(0, 10)
    array([1, 9])
    """

    n_stored: int
    """Rows of the store."""
    n_rows: int
    """Rows that are selected."""
    blocks: tuple[bytes, ...] = field(repr=False)
    """The bits of each 65,536 rows, compressed."""
    digest: str = field(repr=False)
    """Hash of what is selected."""

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Selection) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Selection({self.n_rows} of {self.n_stored} rows)"

    def __dask_tokenize__(self) -> Any:
        return type(self).__qualname__, self.digest

    # -- made of -------------------------------------------------------------------------------------

    @classmethod
    def of_masks(cls, n_stored: int, masks: Iterable[NDArray[np.bool_]]) -> Selection:
        """Select where consecutive masks are True.

        Parameters
        ----------
        n_stored : int
            Rows of the store.
        masks : iterable of ndarray of bool
            Of any lengths, `n_stored` in all.
        """
        digest = hashlib.sha256(str(n_stored).encode())
        blocks, n_rows = [], 0
        for mask in recut(masks, _BLOCK_ROWS):
            bits = np.packbits(mask).tobytes()
            digest.update(bits)
            n_selected = int(np.count_nonzero(mask))
            n_rows += n_selected
            whole = {0: _NONE, len(mask): _ALL}
            blocks.append(whole[n_selected] if n_selected in whole else zlib.compress(bits, 1))
        return cls(n_stored, n_rows, tuple(blocks), digest.hexdigest())

    @classmethod
    def of_slice(cls, n_stored: int, rows: range) -> Selection:
        """Select a range of rows, with a positive step."""
        return cls.of_masks(n_stored, (_mask_of_range(rows, start, stop) for start, stop in _blocks(n_stored)))

    @classmethod
    def of_mask(cls, n_stored: int, mask: NDArray[np.bool_]) -> Selection:
        """Select where a mask is True.

        Raises
        ------
        InvalidParameterError
            It has another length.
        """
        if mask.shape != (n_stored,):
            raise InvalidParameterError(f"The mask has shape {mask.shape}. Give one value for each of {n_stored} rows.")
        return cls.of_masks(n_stored, [mask])

    @classmethod
    def of_rows(cls, n_stored: int, rows: NDArray[Any]) -> Selection:
        """Select rows by their numbers.

        Raises
        ------
        InvalidParameterError
            They are not strictly ascending, or not all there.
        """
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise InvalidParameterError(
                f"A view is selected by a mask or by row numbers, got {rows.dtype} of shape {rows.shape}."
            )
        if rows.size and not (rows[1:] > rows[:-1]).all():
            place = int(np.argmin(rows[1:] > rows[:-1]))
            raise InvalidParameterError(
                f"The rows of a view ascend, got row {rows[place + 1]} after row {rows[place]}. Use np.sort(rows) "
                "without repeats, take(rows) for rows in any order, or shuffle(path) for a store in another order."
            )
        if rows.size and not 0 <= int(rows[0]) <= int(rows[-1]) < n_stored:
            wrong = rows[0] if rows[0] < 0 else rows[-1]
            raise InvalidParameterError(f"Row {wrong} is selected, and there are the rows 0 to {n_stored - 1}.")

        def masks() -> Iterator[NDArray[np.bool_]]:
            for start, stop in _blocks(n_stored):
                mask = np.zeros(stop - start, dtype=np.bool_)
                first, last = np.searchsorted(rows, [start, stop])
                mask[rows[first:last].astype(np.int64) - start] = True
                yield mask

        return cls.of_masks(n_stored, masks())

    def compose(self, inner: Selection) -> Selection:
        """Select from the selected rows: `inner` numbers them from 0."""

        def masks() -> Iterator[NDArray[np.bool_]]:
            position = 0
            for block, mask in enumerate(self._masks()):
                if self.blocks[block] != _NONE:
                    n_selected = int(np.count_nonzero(mask))
                    mask[mask] = inner.mask_between(position, position + n_selected)
                    position += n_selected
                yield mask

        return Selection.of_masks(self.n_stored, masks())

    def complement(self) -> Selection:
        """Select the other rows."""
        return Selection.of_masks(self.n_stored, (~mask for mask in self._masks()))

    # -- read as -------------------------------------------------------------------------------------

    def mask_between(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Tell which of the rows `start` (inclusive) to `stop` (exclusive) are selected, ``(stop - start,)``."""
        mask = np.empty(stop - start, dtype=np.bool_)
        for block in range(start // _BLOCK_ROWS, -(-stop // _BLOCK_ROWS)):
            offset = block * _BLOCK_ROWS
            first, last = max(start, offset), min(stop, offset + _BLOCK_ROWS)
            mask[first - start : last - start] = self._mask(block)[first - offset : last - offset]
        return mask

    def rows_between(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the selected rows from `start` (inclusive) to `stop` (exclusive), ascending."""
        rows: NDArray[np.int64] = np.flatnonzero(self.mask_between(start, stop))
        rows += start
        return rows

    def counts(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the selected rows between consecutive edges, which ascend from 0 to `n_stored`."""
        before = np.zeros(len(edges), dtype=np.int64)
        n_selected, offset = 0, 0
        for mask in self._masks():
            first, last = np.searchsorted(edges, [offset, offset + len(mask)])
            running = np.concatenate(([0], np.cumsum(mask)))
            before[first:last] = n_selected + running[edges[first:last] - offset]
            n_selected, offset = n_selected + int(running[-1]), offset + len(mask)
        before[edges == self.n_stored] = n_selected
        return np.diff(before)

    def _masks(self) -> Iterator[NDArray[np.bool_]]:
        return (self._mask(block) for block in range(len(self.blocks)))

    def _mask(self, block: int) -> NDArray[np.bool_]:
        bits, n_rows = self.blocks[block], min(_BLOCK_ROWS, self.n_stored - block * _BLOCK_ROWS)
        if bits in (_NONE, _ALL):
            return np.full(n_rows, bits == _ALL)
        packed = np.frombuffer(zlib.decompress(bits), dtype=np.uint8)
        return np.unpackbits(packed, count=n_rows).view(np.bool_)


def _blocks(n_rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + _BLOCK_ROWS, n_rows)) for start in range(0, n_rows, _BLOCK_ROWS))


def _mask_of_range(rows: range, start: int, stop: int) -> NDArray[np.bool_]:
    mask = np.zeros(stop - start, dtype=np.bool_)
    first = rows.start if rows.start >= start else start + (rows.start - start) % rows.step
    mask[first - start : max(0, min(rows.stop, stop) - start) : rows.step] = True
    return mask
