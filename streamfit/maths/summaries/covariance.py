"""Mean and scatter matrix of the rows: what principal components follow from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["Covariance", "RowScatter"]

_TILE_VALUES = 131_072
"""Values widened to float64 and centred at a time."""
_LEAST_TILE_ROWS = 256
"""A tile is merged at the cost of as many rows as the matrix has columns: with so many rows that is little."""


@dataclass(frozen=True, slots=True, eq=False)
class RowScatter:
    """Mean and scatter of rows."""

    count: int
    """Number of rows."""
    mean: NDArray[np.float64]
    """Means, ``(n_features,)``; 0 where there is no row."""
    scatter: NDArray[np.float64]
    """Sums of products of deviations from the mean, ``(n_features, n_features)``."""


@dataclass(frozen=True, slots=True)
class Covariance:
    """Summary of the mean and the covariances of all columns, in float64 whatever the data's dtype.

    Rows are centred by the mean of their own few before they are multiplied, so that an offset costs no digits.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", Stanford University STAN-CS-79-773, 1979.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = Covariance(n_features=2)
    >>> rows = np.array([[1e9, 0.0], [1e9 + 2, 1.0]])
    >>> summary.finalize(summary.update(summary.empty(), Chunk(0, 0, rows))).scatter
    array([[2. , 1. ],
           [1. , 0.5]])
    """

    n_features: int
    """Number of columns."""

    def empty(self) -> RowScatter:
        """Give the scatter of no rows."""
        return RowScatter(0, np.zeros(self.n_features), np.zeros((self.n_features, self.n_features)))

    def update(self, state: RowScatter, chunk: Chunk) -> RowScatter:
        """Add the rows of a chunk."""
        tile_rows = max(_LEAST_TILE_ROWS, _TILE_VALUES // self.n_features)
        for start in range(0, chunk.n_rows, tile_rows):
            state = self.merge(state, _scatter_of(chunk.X[start : start + tile_rows]))
        return state

    def merge(self, left: RowScatter, right: RowScatter) -> RowScatter:
        """Join the scatters of two disjoint sets of rows."""
        count = left.count + right.count
        if count == 0:
            return self.empty()
        with np.errstate(invalid="ignore", over="ignore"):
            # Written so that swapping left and right gives the same bits.
            mean = (left.count * left.mean + right.count * right.mean) / count
            delta = (right.mean - left.mean) * np.sqrt(left.count * right.count / count)
            scatter = left.scatter + right.scatter
            scatter += np.outer(delta, delta)
        return RowScatter(count, mean, scatter)

    def finalize(self, state: RowScatter) -> RowScatter:
        """Give mean and scatter."""
        return state

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return 8 + 8 * self.n_features * (1 + self.n_features)


def _scatter_of(rows: NDArray[Any]) -> RowScatter:
    deviations = rows.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = deviations.mean(axis=0)
        deviations -= mean
        # The mean is rounded: what is left of it would be squared with an offset.
        rest = deviations.mean(axis=0)
        deviations -= rest
        return RowScatter(len(rows), mean + rest, deviations.T @ deviations)
