"""Held rows of a sparse store: their features are of different sizes, so they are joined when all are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from streamfit.maths.csr_rows import INDEX_DTYPE, joined_rows
from streamfit.run.shuffle_rows import KEY, RowBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from streamfit.store.labels import LabelInfo
    from streamfit.store.reader import Reader
    from streamfit.store.writer import StoreWriter

__all__ = ["SparseRowBuffer", "row_buffer"]

_COUNTS, _DATA, _INDICES = "X.counts", "X.data", "X.indices"


def row_buffer(reader: Reader, n_rows: int) -> RowBuffer:
    """Give room for rows of a store."""
    return SparseRowBuffer(reader, n_rows) if reader.is_sparse else RowBuffer(reader, n_rows)


class SparseRowBuffer(RowBuffer):
    """Some rows of a sparse store. A block has the stored values of each row counted, then all of them.

    Parameters
    ----------
    reader : Reader
        A sparse store that has these arrays.
    n_rows : int
        Rows that there is room for.
    """

    def __init__(self, reader: Reader, n_rows: int) -> None:
        super().__init__(reader, n_rows)
        self._dtype = reader.dtype
        self._n_columns = reader.layout.n_features
        self._parts: list[csr_array] = []

    def clear(self) -> None:
        """Hold no rows."""
        super().clear()
        self._parts = []

    def room(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Hold so many more rows, and give where their values go; each array is full when the next is asked for."""
        yield from super().room(n_rows)
        counts = np.empty(n_rows, dtype=INDEX_DTYPE)
        yield counts
        indptr = np.concatenate(([0], np.cumsum(counts)))
        if (counts < 0).any():
            raise EOFError  # no such rows were written
        data, indices = np.empty(indptr[-1], dtype=self._dtype), np.empty(indptr[-1], dtype=INDEX_DTYPE)
        yield data
        yield indices
        self._parts.append(csr_array((data, indices, indptr), shape=(n_rows, self._n_columns)))

    def read_chunk(self, reader: Reader, index: int) -> None:
        """Hold the rows of a chunk too, verified; their keys are left to the caller."""
        super().read_chunk(reader, index)
        self._parts.append(reader.read_array("X", index))

    def gather(self, order: NDArray[Any]) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Give held rows in an order, in blocks."""
        if self._parts:
            self._parts = [joined_rows(self._parts)]
        n_given = 0
        for block in super().gather(order):
            n_rows = len(block[KEY])
            rows = self._parts[0][order[n_given : n_given + n_rows]]
            n_given += n_rows
            counts = np.diff(rows.indptr).astype(INDEX_DTYPE)
            yield {**block, _COUNTS: counts, _DATA: rows.data, _INDICES: rows.indices.astype(INDEX_DTYPE, copy=False)}

    def give(self, order: NDArray[Any], writer: StoreWriter, *, labels: LabelInfo | None) -> None:
        """Append held rows to another store, in an order; `labels` are those of the store that they come from."""
        for block in self.gather(order):
            indptr = np.concatenate(([0], np.cumsum(block[_COUNTS])))
            X = csr_array((block[_DATA], block[_INDICES], indptr), shape=(len(block[KEY]), self._n_columns))
            y = None if labels is None else labels.decode(block["y"])
            writer.append(X, y, block.get("sample_weight"), block.get("ids"))
