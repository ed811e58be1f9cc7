"""Rows of a store as its files hold them, in memory that is used again, and in any order from there to a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from streamfit.store.labels import LabelInfo
    from streamfit.store.reader import Reader
    from streamfit.store.writer import StoreWriter

__all__ = ["KEY", "RowBuffer", "block_nbytes", "held_row_nbytes"]

_BLOCK_NBYTES = 2 * 2**20
"""About what is gathered at once: so little that it is still in the cache when it is hashed and written."""

KEY = "key"
"""Name of the array of the rows' keys, beside the arrays of the store."""

_KEY_NBYTES = 8
_ORDER_NBYTES = 32
"""An order and what a sort takes besides, a row."""


def held_row_nbytes(reader: Reader) -> int:
    """Bytes that a held row takes: in every array of its store, in its key, and in an order of the rows."""
    # Sparse rows are joined once all are there.
    copies = 2 if reader.is_sparse else 1
    return copies * _stored_row_nbytes(reader) + _KEY_NBYTES + _ORDER_NBYTES


def _stored_row_nbytes(reader: Reader) -> int:
    return sum(reader.layout.row_nbytes if spec.sparse else spec.row_nbytes for spec in reader.arrays.values())


def _block_rows(reader: Reader) -> int:
    row_nbytes = _stored_row_nbytes(reader) + _KEY_NBYTES
    row_nbytes += 0 if reader.manifest.labels is None else reader.manifest.labels.row_nbytes
    return max(1, _BLOCK_NBYTES // row_nbytes)


def block_nbytes(reader: Reader) -> int:
    """Bytes that rows take while they are gathered, decoded, and taken by a writer."""
    return 3 * max(_BLOCK_NBYTES, reader.layout.row_nbytes)


class RowBuffer:
    """Some rows, all their arrays side by side.

    Parameters
    ----------
    reader : Reader
        A store that has these arrays.
    n_rows : int
        Rows that there is room for.
    """

    def __init__(self, reader: Reader, n_rows: int) -> None:
        self._arrays: dict[str, NDArray[Any]] = {KEY: np.empty(n_rows, dtype=np.uint64)}
        for name, spec in sorted(reader.arrays.items()):  # the order in which a block has them on disk
            if not spec.sparse:
                self._arrays[name] = np.empty(spec.shape(n_rows), dtype=spec.dtype)
        self._block_rows = _block_rows(reader)
        self._block = {name: np.empty_like(values[: self._block_rows]) for name, values in self._arrays.items()}
        self.most_rows = n_rows
        self.n_rows = 0

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Keys of the rows that are held, a view."""
        return self._arrays[KEY][: self.n_rows]

    def clear(self) -> None:
        """Hold no rows."""
        self.n_rows = 0

    def room(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Hold so many more rows, and give where their values are to be put, array by array as in a block."""
        yield from self._room(n_rows).values()

    def _room(self, n_rows: int) -> dict[str, NDArray[Any]]:
        place = slice(self.n_rows, self.n_rows + n_rows)
        self.n_rows += n_rows
        return {name: values[place] for name, values in self._arrays.items()}

    def read_chunk(self, reader: Reader, index: int) -> None:
        """Hold the rows of a chunk too, verified; their keys are left to the caller."""
        start, stop = reader.layout.chunk_bounds(index)
        for name, values in self._room(stop - start).items():
            if name != KEY:
                reader.read_array(name, index, out=values)

    def gather(self, order: NDArray[Any]) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Give held rows in an order, in blocks: views that hold until the next one is asked for."""
        for first in range(0, len(order), self._block_rows):
            places = order[first : first + self._block_rows]
            block = {name: values[: len(places)] for name, values in self._block.items()}
            for name, values in block.items():
                # The default mode would gather into a buffer first, in case that a place is out of range.
                np.take(self._arrays[name][: self.n_rows], places, axis=0, out=values, mode="clip")
            yield block

    def give(self, order: NDArray[Any], writer: StoreWriter, *, labels: LabelInfo | None) -> None:
        """Append held rows to another store, in an order; `labels` are those of the store that they come from."""
        for block in self.gather(order):
            y = None if labels is None else labels.decode(block["y"])
            writer.append(block["X"], y, block.get("sample_weight"), block.get("ids"))
