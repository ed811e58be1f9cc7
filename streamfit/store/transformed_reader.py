"""Rows as a mapping gives them, made of those that another reader reads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.store.stored_reader import Reader
from streamfit.store.transformed import TransformedRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from streamfit.store.categories import ColumnCategories
    from streamfit.store.labels import LabelInfo
    from streamfit.store.ref import StoreRef
    from streamfit.store.statistics import Statistics
    from streamfit.store.transformed import RowMapping

__all__ = ["TransformedReader"]


class TransformedReader(Reader):
    """Reads the rows of a store or a view as a mapping gives them, one chunk at a time whoever asks.

    Parameters
    ----------
    ref : StoreRef
        With the mapping.
    mapping : RowMapping
        What is done with the rows.
    below : Reader
        Reads the rows that are mapped, verified.
    """

    def __init__(self, ref: StoreRef, mapping: RowMapping, below: Reader) -> None:
        super().__init__(ref, below.manifest)
        self._below = below
        self._mapping = mapping
        self._rows = TransformedRows(mapping, below.layout, keeps_nonfinite=below.manifest.nonfinite == "keep")
        self.layout = self._rows.layout
        self.dtype = mapping.dtype
        self.arrays = self._rows.arrays(below.arrays)
        self._digest = self._rows.digest(below.digest)

    @property
    def digest(self) -> str:
        """Identity of exactly these rows."""
        return self._digest

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the mapping tells them."""
        return self._mapping.feature_names

    @property
    def categories(self) -> tuple[ColumnCategories, ...]:
        """None: a mapping has made something else of the numbers."""
        return ()

    @property
    def labels(self) -> LabelInfo | None:
        """What is known about the labels of these rows; None without labels."""
        return self._below.labels

    @cached_property
    def statistics(self) -> Statistics:
        """Of the columns, over these rows, measured once in a pass."""
        return self._measured()

    @property
    def n_nonfinite(self) -> NDArray[np.int64]:
        """NaN and infinite values of each column, ``(n_features,)``; nothing is read where such are refused."""
        if self.manifest.nonfinite == "keep" and self.dtype.kind == "f":
            return self.statistics.n_nonfinite
        return np.zeros(self.layout.n_features, dtype=np.int64)

    @property
    def stored_chunks(self) -> Sequence[int]:
        """Numbers of the stored chunks that hold these rows, ascending."""
        return self._below.stored_chunks

    @property
    def read_nbytes(self) -> int:
        """Most bytes of features that are decoded for one chunk."""
        return max(self._below.read_nbytes, self.layout.chunk_nbytes)

    def row_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the numbers of rows in the store, ``(n,)``."""
        return self._below.row_numbers(rows)

    def take(self, name: str, rows: ArrayLike) -> Any:
        """Read some rows of one array, each chunk once and mapped as a whole; see `Reader.take`."""
        return super().take(name, rows) if name == "X" else self._below.take(name, rows)

    def expected_nnz(self, index: int) -> int:
        """Give how many stored values a chunk of sparse features is expected to have, as the first rows tell."""
        start, stop = self.layout.chunk_bounds(index)
        return round((self._mapping.mean_row_nnz or 0) * (stop - start))

    def _read_sparse(self, index: int) -> csr_array:
        X = self._below.read_array("X", index)
        return self._rows.map_sparse(X, start=self.layout.chunk_bounds(index)[0])

    def _read_into(self, name: str, index: int, out: NDArray[Any]) -> None:
        if name != "X":
            self._below.read_array(name, index, out=out)
            return
        # Into memory of its own: a transformer may work in place.
        X = self._below.read_array("X", index)
        self._rows.map_into(out, X, start=self.layout.chunk_bounds(index)[0])
