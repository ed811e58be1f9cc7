"""Rows of sparse matrices in compressed form (CSR): one canonical form, cut and joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "INDEX_DTYPE",
    "CsrBuilder",
    "as_csr",
    "canonical_rows",
    "csr_nbytes",
    "is_sparse",
    "joined_rows",
    "place_of_value",
]

INDEX_DTYPE = np.dtype("<i4")
"""Of column numbers and row pointers: scikit-learn's solvers take no wider ones."""


def is_sparse(X: Any) -> bool:
    """Tell whether `X` is a sparse matrix of scipy, in any form."""
    return bool(issparse(X))


def csr_nbytes(n_rows: int, nnz: int, itemsize: int) -> int:
    """Bytes of `n_rows` rows with `nnz` stored values in memory: values, column numbers, row pointers."""
    return nnz * (itemsize + INDEX_DTYPE.itemsize) + (n_rows + 1) * INDEX_DTYPE.itemsize


def as_csr(X: Any) -> csr_array:
    """Give a sparse matrix as CSR in native byte order: a view of what is so already, else a copy."""
    if X.format != "csr":
        return csr_array(X)
    native = X.data.dtype.newbyteorder("=")
    # scipy lets such values in, and refuses to cut them.
    native = np.dtype(np.float32) if native == np.float16 else native
    return csr_array((X.data.astype(native, copy=False), X.indices, X.indptr), shape=X.shape)


def canonical_rows(X: Any, dtype: np.dtype[Any]) -> csr_array:
    """Give a sparse matrix as CSR with ascending columns, each once a row, and 32-bit indices.

    Entries of the same place are added, as scipy does; stored zeros stay. `X` is not changed.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> X = coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [3, 3, 0])), shape=(2, 5))
    >>> rows = canonical_rows(X, np.dtype("f4"))
    >>> rows.data, rows.indices, rows.indptr
    (array([3., 4.], dtype=float32), array([3, 0], dtype=int32), array([0, 1, 2], dtype=int32))
    """
    rows = as_csr(X) if is_sparse(X) else csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return csr_array(
        (
            rows.data.astype(dtype, copy=False),
            rows.indices.astype(INDEX_DTYPE, copy=False),
            rows.indptr.astype(INDEX_DTYPE, copy=False),
        ),
        shape=rows.shape,
    )


def joined_rows(parts: Sequence[csr_array]) -> csr_array:
    """Put rows below each other; one part is given as it is."""
    return parts[0] if len(parts) == 1 else csr_array(vstack(parts, format="csr"))


def place_of_value(X: csr_array, number: int) -> tuple[int, int]:
    """Give row and column of a stored value by its number.

    Examples
    --------
    >>> place_of_value(csr_array([[0, 0, 0], [0, 5, 7]]), 1)
    (1, 2)
    """
    return int(np.searchsorted(X.indptr, number, side="right")) - 1, int(X.indices[number])


class CsrBuilder:
    """Joins rows as they come into arrays that are made once, so that there is no second copy of all of them.

    Where there are more values than expected the arrays grow by half.

    Parameters
    ----------
    n_rows : int
        Rows at the most.
    nnz : int
        Stored values that are expected; room that they do not need is never touched.
    n_columns : int
        Columns.
    dtype : numpy.dtype
        Of the values.
    """

    def __init__(self, *, n_rows: int, nnz: int, n_columns: int, dtype: np.dtype[Any]) -> None:
        self._data = np.empty(nnz, dtype=dtype)
        self._indices = np.empty(nnz, dtype=INDEX_DTYPE)
        # Beyond the values that 32 bits number, as scipy does.
        self._indptr = np.zeros(n_rows + 1, dtype=INDEX_DTYPE if nnz <= np.iinfo(INDEX_DTYPE).max else np.int64)
        self._n_columns = n_columns
        self._n_rows = 0

    def add(self, rows: csr_array) -> None:
        """Put rows below those that are there."""
        start, n_rows = int(self._indptr[self._n_rows]), rows.shape[0]
        stop = start + rows.nnz
        if stop > len(self._data):
            self._grow(stop + stop // 2)
        self._data[start:stop] = rows.data
        self._indices[start:stop] = rows.indices
        np.add(rows.indptr[1:], start, out=self._indptr[self._n_rows + 1 : self._n_rows + n_rows + 1])
        self._n_rows += n_rows

    def _grow(self, nnz: int) -> None:
        for name in ("_data", "_indices"):
            old = getattr(self, name)
            new = np.empty(nnz, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        if nnz > np.iinfo(INDEX_DTYPE).max:
            self._indptr = self._indptr.astype(np.int64)

    def build(self) -> csr_array:
        """Give the rows so far, as views."""
        indptr = self._indptr[: self._n_rows + 1]
        stop = int(indptr[-1])
        return csr_array((self._data[:stop], self._indices[:stop], indptr), shape=(self._n_rows, self._n_columns))
