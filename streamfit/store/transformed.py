"""Rows as a mapping gives them: what a transformed chunk is, and what it may not be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.maths.csr_rows import csr_nbytes, place_of_value
from streamfit.plan.layout import SparseSize, StoreLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from streamfit.store.format import ArraySpec

__all__ = ["RowMapping", "TransformedRows"]


class RowMapping(Protocol):
    """A pure function of rows that travels in tasks: each row of the result follows from one row alone.

    Two mappings with the same digest are equal.
    """

    @property
    def digest(self) -> str:
        """Hash of all that the result follows from, but for the rows."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Stored type of the result."""

    @property
    def n_features(self) -> int:
        """Columns of the result."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns of the result, where they are known."""

    @property
    def mean_row_nnz(self) -> float | None:
        """Stored values of a row on average, an estimate, where the result is sparse; None where it is dense."""

    @property
    def work_row_nbytes(self) -> int:
        """Bytes that the result and what is between take for one row."""

    def apply(self, X: Any, *, start: int) -> Any:
        """Map some rows, the first of which has the number `start`; `X` may be changed.

        What is sparse is given in the form of `streamfit.maths.csr_rows.canonical_rows`.

        Raises
        ------
        InvalidDataError
            It refuses the rows, or gives something else than it announced.
        """


class TransformedRows:
    """What the rows of a store become by a mapping, chunk by chunk.

    Parameters
    ----------
    mapping : RowMapping
        The mapping.
    below : StoreLayout
        Geometry of the rows that are mapped.
    keeps_nonfinite : bool
        Whether NaN and infinities are given on, or refused.
    """

    def __init__(self, mapping: RowMapping, below: StoreLayout, *, keeps_nonfinite: bool) -> None:
        self._mapping = mapping
        self._keeps_nonfinite = keeps_nonfinite
        sparse = _sparse_size(mapping, below)
        row_nbytes = mapping.n_features * mapping.dtype.itemsize
        if sparse is not None:
            row_nbytes = -(-sparse.nbytes // below.n_rows)
        # The chunk below, encoded and decoded, and what the transformers make of it.
        beside = 2 * (below.chunk_nbytes + below.aside_rows * below.row_nbytes)
        beside += min(below.chunk_rows, below.n_rows) * mapping.work_row_nbytes
        self.layout = StoreLayout(
            below.n_rows,
            mapping.n_features,
            below.chunk_rows,
            mapping.dtype.itemsize,
            starts=below.starts,
            aside_rows=-(-beside // (2 * row_nbytes)),
            sparse=sparse,
            outputs_nbytes=below.outputs_nbytes,
        )

    def arrays(self, below: Mapping[str, ArraySpec]) -> dict[str, ArraySpec]:
        """Give the arrays of these rows: those below, with other features."""
        X = replace(below["X"], dtype=self._mapping.dtype, n_columns=self._mapping.n_features)
        X = replace(X, sparse=self.layout.sparse is not None)
        return {**below, "X": X}

    def digest(self, below: str) -> str:
        """Give the identity of these rows from that of the rows below."""
        return hashlib.sha256(f"{below} {self._mapping.digest}".encode()).hexdigest()

    def map_into(self, out: NDArray[Any], X: NDArray[Any], *, start: int) -> None:
        """Map the rows of one chunk, the first of which has the number `start`.

        Raises
        ------
        InvalidDataError
            The mapping refuses them, or gives a value that is not finite where such are refused.
        """
        out[...] = self._mapping.apply(X, start=start)
        if not self._keeps_nonfinite and out.dtype.kind == "f":
            self._check_finite(out, start)

    def map_sparse(self, X: Any, *, start: int) -> csr_array:
        """Map the rows of one chunk, the first of which has the number `start`, to sparse ones; see `map_into`."""
        rows = self._mapping.apply(X, start=start)
        if not self._keeps_nonfinite and not np.isfinite(rows.data).all():
            place = int(np.argmin(np.isfinite(rows.data)))
            row, column = place_of_value(rows, place)
            raise self._nonfinite(rows.data[place], start + row, column)
        return rows

    def _check_finite(self, X: NDArray[Any], start: int) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            if np.isfinite(X.sum(dtype=np.float64)):
                return
        finite = np.isfinite(X)
        if finite.all():  # a sum of large numbers
            return
        row, column = np.argwhere(~finite)[0].tolist()
        raise self._nonfinite(X[row, column], start + row, column)

    def _nonfinite(self, value: Any, row: int, column: int) -> InvalidDataError:
        names = self._mapping.feature_names
        name = str(column) if names is None else names[column]
        return InvalidDataError(
            f"{self._mapping.name} gives {value} in row {row}, column {name!r}. Values must be finite: change the "
            'transformer, or ingest with nonfinite="keep".',
            row=row,
            column=name,
        )


def _sparse_size(mapping: RowMapping, below: StoreLayout) -> SparseSize | None:
    """Bytes of all rows, as far as some tell."""
    if mapping.mean_row_nnz is None:
        return None
    itemsize, chunk_rows = mapping.dtype.itemsize, min(below.chunk_rows, below.n_rows)
    return SparseSize(
        csr_nbytes(below.n_rows + below.n_chunks - 1, round(mapping.mean_row_nnz * below.n_rows), itemsize),
        csr_nbytes(chunk_rows, round(mapping.mean_row_nnz * chunk_rows), itemsize),
    )
