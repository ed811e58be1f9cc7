"""Extremes, means and squared deviations of all columns of a matrix, read from memory once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamfit.maths.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

__all__ = ["FiniteMoments", "column_moments", "sparse_column_moments"]

_BLOCK_VALUES = 2**14
"""Values that stay in the cache between the sums and the squares around their means."""
_MIN_BLOCK_ROWS = 16


class FiniteMoments(NamedTuple):
    """What is measured, each ``(n_columns,)``, over the finite values of each column."""

    n_finite: NDArray[np.int64]
    """How many they are."""
    minimum: NDArray[np.float64]
    """Smallest one; infinity where there is none."""
    maximum: NDArray[np.float64]
    """Largest one; minus infinity where there is none."""
    mean: NDArray[np.float64]
    """Mean; 0 where there is none."""
    squares: NDArray[np.float64]
    """Sum of squared deviations from the mean."""


def column_moments(X: NDArray[Any], near: NDArray[np.float64] | None = None) -> FiniteMoments:
    """Measure each column of a real matrix, ``(n_rows, n_columns)``, in float64.

    Where values `near` the means are given, ``(n_columns,)``, the means are differences from these: what rounding takes
    from a mean is then as small as the spread of its column, whatever the offset.

    The rows are taken in blocks that stay in the cache: of each block first the means, then the squares around them,
    and the blocks are merged (Chan, Golub and LeVeque 1979). So an offset costs no digits, as in two passes over
    all rows. The result follows from the matrix alone, to the last bit.

    Examples
    --------
    >>> column_moments(np.array([[1.0, np.nan], [3.0, 5.0], [5.0, -np.inf]], dtype=np.float32)).mean.tolist()
    [3.0, 5.0]
    >>> moments = column_moments(np.array([[2], [4]], dtype=np.uint8))
    >>> moments.n_finite.tolist(), moments.minimum.tolist(), moments.squares.tolist()
    ([2], [2.0], [2.0])
    >>> column_moments(np.empty((0, 1))).minimum.tolist()
    [inf]
    """
    block_rows = max(_MIN_BLOCK_ROWS, _BLOCK_VALUES // max(1, X.shape[1]))
    near = np.zeros(X.shape[1]) if near is None else near
    return FiniteMoments(*_column_moments(np.ascontiguousarray(X), near, block_rows))


def sparse_column_moments(X: csr_array, missing: float = np.nan) -> FiniteMoments:
    """Measure each column of CSR rows, whose zeros are not stored; values that are `missing` are left out.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns)
        Each column at most once a row, as `streamfit.maths.csr_rows.canonical_rows` gives them.
    missing : float
        Value that stands for a missing one, not 0; NaN is missing in any case.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> moments = sparse_column_moments(csr_array([[0.0, 2.0], [3.0, np.nan], [0.0, 4.0]]))
    >>> moments.n_finite, moments.minimum, moments.maximum, moments.mean
    (array([3, 2]), array([0., 2.]), array([3., 4.]), array([1., 3.]))
    """
    n_rows, n_columns = X.shape
    values, columns = X.data.astype(np.float64), X.indices
    valid = np.isfinite(values) & (values != missing)
    n_finite = n_rows - np.bincount(columns[~valid], minlength=n_columns)
    values, columns = values[valid], columns[valid]
    n_zeros = n_finite - np.bincount(columns, minlength=n_columns)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.bincount(columns, values, minlength=n_columns) / np.maximum(n_finite, 1)
        squares = np.bincount(columns, (values - mean[columns]) ** 2, minlength=n_columns) + n_zeros * mean * mean
    minimum = np.where(n_zeros > 0, 0.0, np.inf)
    maximum = np.where(n_zeros > 0, 0.0, -np.inf)
    np.minimum.at(minimum, columns, values)
    np.maximum.at(maximum, columns, values)
    return FiniteMoments(n_finite, minimum, maximum, mean, squares)


@compiled
def _column_moments(
    X: NDArray[Any], near: NDArray[np.float64], block_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    n_rows, n_columns = X.shape
    n_finite = np.zeros(n_columns, dtype=np.int64)
    minimum = np.full(n_columns, np.inf)
    maximum = np.full(n_columns, -np.inf)
    mean = np.zeros(n_columns)
    squares = np.zeros(n_columns)
    n_block = np.empty(n_columns, dtype=np.int64)
    low = np.empty(n_columns)
    high = np.empty(n_columns)
    centre = np.empty(n_columns)
    spread = np.empty(n_columns)
    for start in range(0, n_rows, block_rows):
        stop = min(start + block_rows, n_rows)
        n_block[:] = stop - start
        low[:] = np.inf
        high[:] = -np.inf
        centre[:] = 0.0
        spread[:] = 0.0
        for row in range(start, stop):
            for column in range(n_columns):
                value = np.float64(X[row, column])
                centre[column] += value - near[column]
                low[column] = min(value, low[column])
                high[column] = max(value, high[column])
        finite = True
        for column in range(n_columns):
            finite = finite and np.isfinite(centre[column])
        if finite:
            for column in range(n_columns):
                centre[column] /= stop - start
            for row in range(start, stop):
                for column in range(n_columns):
                    deviation = np.float64(X[row, column]) - near[column] - centre[column]
                    spread[column] += deviation * deviation
        else:  # a value is not finite, or the sum of large ones is not
            n_block[:] = 0
            low[:] = np.inf
            high[:] = -np.inf
            centre[:] = 0.0
            for row in range(start, stop):
                for column in range(n_columns):
                    value = np.float64(X[row, column])
                    if np.isfinite(value):
                        n_block[column] += 1
                        centre[column] += value - near[column]
                        low[column] = min(value, low[column])
                        high[column] = max(value, high[column])
            for column in range(n_columns):
                centre[column] /= max(1, n_block[column])
            for row in range(start, stop):
                for column in range(n_columns):
                    value = np.float64(X[row, column])
                    if np.isfinite(value):
                        deviation = value - near[column] - centre[column]
                        spread[column] += deviation * deviation
        for column in range(n_columns):
            n_before = n_finite[column]
            n_now = n_block[column]
            if n_now == 0:
                continue
            n_finite[column] = n_before + n_now
            minimum[column] = min(minimum[column], low[column])
            maximum[column] = max(maximum[column], high[column])
            if n_before == 0:
                mean[column] = centre[column]
                squares[column] = spread[column]
            else:
                share = n_now / (n_before + n_now)
                delta = centre[column] - mean[column]
                mean[column] += delta * share
                squares[column] += spread[column] + delta * delta * (n_before * share)
    return n_finite, minimum, maximum, mean, squares
