"""Per-column statistics of CSR rows, whose zeros are not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamfit.store.statistics import Statistics

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["sparse_statistics"]


def sparse_statistics(X: csr_array) -> Statistics:
    """Measure the columns of some rows, zeros included.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
        In the form of `streamfit.maths.csr_rows.canonical_rows`, at least one row.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> found = sparse_statistics(csr_array([[0.0, 2.0], [3.0, np.nan], [0.0, 4.0]]))
    >>> found.minimum, found.maximum, found.mean, found.n_nonfinite
    (array([0., 2.]), array([3., 4.]), array([1., 3.]), array([0, 1]))
    """
    n_rows, n_features = X.shape
    finite = np.isfinite(X.data)
    columns, values = X.indices[finite], X.data[finite].astype(np.float64)
    n_nonfinite = np.bincount(X.indices[~finite], minlength=n_features)
    n_finite = n_rows - n_nonfinite
    n_stored = np.bincount(columns, minlength=n_features)
    has_zeros = n_finite > n_stored
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.bincount(columns, values, minlength=n_features) / np.maximum(n_finite, 1)
        stored = np.bincount(columns, (values - mean[columns]) ** 2, minlength=n_features)
        squares = stored + (n_finite - n_stored) * mean**2
    order = np.argsort(columns, kind="stable")
    present = np.flatnonzero(n_stored)
    begins = np.concatenate(([0], np.cumsum(n_stored[present])))[:-1]
    minimum, maximum = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    if len(present):
        minimum[present] = np.minimum.reduceat(values[order], begins)
        maximum[present] = np.maximum.reduceat(values[order], begins)
    minimum[has_zeros] = np.minimum(minimum[has_zeros], 0.0)
    maximum[has_zeros] = np.maximum(maximum[has_zeros], 0.0)
    some = n_finite > 0
    return Statistics(
        n_finite,
        n_nonfinite,
        np.where(some, minimum, np.nan),
        np.where(some, maximum, np.nan),
        np.where(some, mean, np.nan),
        squares,
    )
