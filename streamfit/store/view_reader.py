"""The rows of a view, read through the reader of its store."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.csr_rows import joined_rows
from streamfit.store.stored_reader import Reader
from streamfit.store.view_chunks import ViewChunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from streamfit.store.labels import LabelInfo
    from streamfit.store.ref import StoreRef
    from streamfit.store.selection import Selection
    from streamfit.store.statistics import Statistics

__all__ = ["ViewReader"]


class ViewReader(Reader):
    """Reads some rows of a store, numbered from 0, each stored chunk once a pass.

    Parameters
    ----------
    ref : StoreRef
        With the selection.
    selection : Selection
        Which rows.
    stored : Reader
        Reads the store; what it has verified, it has verified for both.
    """

    def __init__(self, ref: StoreRef, selection: Selection, stored: Reader) -> None:
        super().__init__(ref, stored.manifest)
        self._stored = stored
        self._view = ViewChunks(selection, stored.layout)
        self.layout = self._view.layout
        self._digest = hashlib.sha256(f"{stored.digest} {selection.digest}".encode()).hexdigest()

    @property
    def digest(self) -> str:
        """Identity of exactly these rows."""
        return self._digest

    @cached_property
    def labels(self) -> LabelInfo | None:
        """What is known about the labels of these rows, counted once; None without labels."""
        labels = self.manifest.labels
        if labels is None or labels.kind == "target":
            return labels
        return labels.of_part(self.read_array("y", index) for index in range(self.layout.n_chunks))

    @cached_property
    def statistics(self) -> Statistics:
        """Of the columns, over these rows, measured once in a pass."""
        return self._measured()

    @property
    def n_nonfinite(self) -> NDArray[np.int64]:
        """NaN and infinite values of each column, ``(n_features,)``; where the store has none, nothing is read."""
        stored = self._stored.n_nonfinite
        return self.statistics.n_nonfinite if stored.any() else stored

    @property
    def stored_chunks(self) -> Sequence[int]:
        """Numbers of the stored chunks that hold a row of the view, ascending."""
        chunks: list[int] = self._view.stored.tolist()
        return chunks

    @property
    def read_nbytes(self) -> int:
        """Most bytes of features that are decoded for one chunk of the view."""
        return self._view.most_stored_rows * self.layout.row_nbytes

    def row_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the numbers that rows of the view have in the store, ``(n,)``."""
        return self._view.row_numbers(self._checked_rows(rows))

    def take(self, name: str, rows: ArrayLike) -> Any:
        """Read some rows of one array, each stored chunk once; see `Reader.take`."""
        return self._stored.take(name, self.row_numbers(self._checked_rows(rows)))

    def expected_nnz(self, index: int) -> int:
        """Give how many stored values a chunk of sparse features has at the most, or is expected to have."""
        return sum(self._stored.expected_nnz(part.chunk) for part in self._view.parts(index))

    def _read_sparse(self, index: int) -> csr_array:
        parts = []
        for part in self._view.parts(index):
            stored = self._stored.read_array("X", part.chunk)
            parts.append(stored if part.rows is None else stored[part.rows])
        return joined_rows(parts)

    def _read_into(self, name: str, index: int, out: NDArray[Any]) -> None:
        filled = 0
        for part in self._view.parts(index):
            target = out[filled : filled + part.n_rows]
            filled += part.n_rows
            if part.rows is None:
                self._stored.read_array(name, part.chunk, out=target)
                continue
            stored = self._stored.read_array(name, part.chunk)
            if isinstance(part.rows, slice):
                target[...] = stored[part.rows]
            else:
                # The default mode would gather into a buffer first, in case that an index is out of range.
                np.take(stored, part.rows, axis=0, out=target, mode="clip")
