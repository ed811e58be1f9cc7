"""Count, range, mean and squared deviations of the values of each column that are not missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from streamfit.maths.column_moments import FiniteMoments, column_moments, sparse_column_moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["ValidColumns", "ValidMoments", "without_missing"]

_FIRST_ROWS = 16
"""Rows of a chunk whose mean is near enough to all of its values."""


@dataclass(frozen=True, slots=True, eq=False)
class ValidColumns:
    """What is known about the valid values of each column: those that are finite and not missing."""

    n_rows: int
    """Rows in all."""
    count: NDArray[np.int64]
    """Valid values, ``(n_features,)``."""
    n_infinite: NDArray[np.int64]
    """Infinite values, ``(n_features,)``."""
    minimum: NDArray[np.float64]
    """Smallest valid values, ``(n_features,)``; +inf where there is none."""
    maximum: NDArray[np.float64]
    """Largest valid values, ``(n_features,)``; -inf where there is none."""
    mean: NDArray[np.float64]
    """Means of the valid values, ``(n_features,)``; 0 where there is none."""
    rest: NDArray[np.float64]
    """What rounding took from the means; 0 in a result."""
    m2: NDArray[np.float64]
    """Sums of their squared deviations from the mean, ``(n_features,)``."""

    @property
    def n_missing(self) -> NDArray[np.int64]:
        """Missing values, ``(n_features,)``."""
        return self.n_rows - self.count - self.n_infinite

    @property
    def variance(self) -> NDArray[np.float64]:
        """Give ``m2 / count``, ``(n_features,)``; NaN where there is no value."""
        return np.where(self.count > 0, self.m2 / np.maximum(self.count, 1), np.nan)


@dataclass(frozen=True, slots=True)
class ValidMoments:
    """Summary of the valid values of each column, in float64; missing ones are left out and counted.

    Rows may be sparse: what they do not store is 0. Sums are of differences from a value near the mean, and what the
    rounding of a mean takes from it is kept beside it, so that an offset costs no digits.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", Stanford University STAN-CS-79-773, 1979.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = ValidMoments(n_features=2)
    >>> rows = np.array([[1.0, np.nan], [3.0, np.inf], [np.nan, np.nan]], dtype=np.float32)
    >>> columns = summary.finalize(summary.update(summary.empty(), Chunk(0, 0, rows)))
    >>> columns.count, columns.n_missing, columns.n_infinite
    (array([2, 0]), array([1, 2]), array([0, 1]))
    >>> columns.mean, columns.variance
    (array([2., 0.]), array([ 1., nan]))
    """

    n_features: int
    """Number of columns."""
    missing: float = np.nan
    """Value that stands for a missing one; NaN is missing in any case."""

    def empty(self) -> ValidColumns:
        """Give what is known about no rows."""
        n = self.n_features
        return ValidColumns(
            n_rows=0,
            count=np.zeros(n, dtype=np.int64),
            n_infinite=np.zeros(n, dtype=np.int64),
            minimum=np.full(n, np.inf),
            maximum=np.full(n, -np.inf),
            mean=np.zeros(n),
            rest=np.zeros(n),
            m2=np.zeros(n),
        )

    def update(self, state: ValidColumns, chunk: Chunk) -> ValidColumns:
        """Add the rows of a chunk."""
        if chunk.n_rows == 0:
            return state
        X: Any = chunk.X
        if issparse(X):
            return self.merge(state, _of_sparse(X, self.missing))
        return self.merge(state, _of_dense(without_missing(X, self.missing)))

    def merge(self, left: ValidColumns, right: ValidColumns) -> ValidColumns:
        """Join what is known about two disjoint sets of rows."""
        count = left.count + right.count
        divisor = np.maximum(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            # Written so that swapping left and right gives the same bits.
            mean = (left.count * left.mean + right.count * right.mean) / divisor
            rest = (
                left.count * (left.mean - mean + left.rest) + right.count * (right.mean - mean + right.rest)
            ) / divisor
            delta = right.mean - left.mean + (right.rest - left.rest)
            m2 = left.m2 + right.m2 + delta * delta * (left.count.astype(np.float64) * right.count / divisor)
        # Where one side has no value the other one stays as it is, to the bit.
        only_left, only_right = right.count == 0, left.count == 0
        return ValidColumns(
            n_rows=left.n_rows + right.n_rows,
            count=count,
            n_infinite=left.n_infinite + right.n_infinite,
            minimum=np.minimum(left.minimum, right.minimum),
            maximum=np.maximum(left.maximum, right.maximum),
            mean=np.where(only_left, left.mean, np.where(only_right, right.mean, mean)),
            rest=np.where(only_left, left.rest, np.where(only_right, right.rest, rest)),
            m2=np.where(only_left | only_right, left.m2 + right.m2, m2),
        )

    def finalize(self, state: ValidColumns) -> ValidColumns:
        """Give what is known about all rows; a column of one value has exactly this mean, and no deviation."""
        constant = state.minimum == state.maximum
        return replace(
            state,
            mean=np.where(constant, state.minimum, state.mean + state.rest),
            rest=np.zeros(self.n_features),
            m2=np.where(constant, 0.0, state.m2),
        )

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return 8 + 7 * 8 * self.n_features


def without_missing(X: NDArray[Any], missing: float) -> NDArray[Any]:
    """Give the rows with NaN in place of a value that stands for a missing one.

    Examples
    --------
    >>> without_missing(np.array([[-1, 2]]), -1)
    array([[nan,  2.]])
    """
    if np.isnan(missing):
        return X
    found = np.equal(X, missing)
    if not found.any():
        return X
    floats = X.astype(X.dtype if X.dtype.kind == "f" else np.float64)
    floats[found] = np.nan
    return floats


def _of_dense(X: NDArray[Any]) -> ValidColumns:
    first = X[:_FIRST_ROWS].astype(np.float64)
    valid = np.isfinite(first)
    with np.errstate(over="ignore"):
        near = first.sum(axis=0, where=valid) / np.maximum(valid.sum(axis=0), 1)
    near[~np.isfinite(near)] = 0.0
    found = column_moments(X, near)
    # Counted only where there is something to count: that takes a pass.
    infinite = np.isinf(X).sum(axis=0) if (found.n_finite < len(X)).any() else np.zeros_like(found.n_finite)
    return _valid(found, len(X), infinite, near=np.where(found.n_finite > 0, near, 0.0), rest=found.mean)


def _of_sparse(X: Any, missing: float) -> ValidColumns:
    found = sparse_column_moments(X, missing)
    infinite = np.bincount(X.indices[np.isinf(X.data)], minlength=X.shape[1])
    return _valid(found, X.shape[0], infinite, near=found.mean, rest=np.zeros(X.shape[1]))


def _valid(
    found: FiniteMoments,
    n_rows: int,
    infinite: NDArray[np.int64],
    *,
    near: NDArray[np.float64],
    rest: NDArray[np.float64],
) -> ValidColumns:
    return ValidColumns(n_rows, found.n_finite, infinite, found.minimum, found.maximum, near, rest, found.squares)
