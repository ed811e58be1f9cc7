"""Count, mean and sum of squared deviations of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["ColumnMoments", "Moments"]

_TILE_VALUES = 32_768
"""Values widened to float64 at a time: 256 KiB stay in the cache between the two sums."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMoments:
    """First two moments of each column."""

    count: int
    """Number of rows."""
    mean: NDArray[np.float64]
    """Means, ``(n_features,)``; 0 where there is no row."""
    m2: NDArray[np.float64]
    """Sums of squared deviations from the mean, ``(n_features,)``."""

    def variance(self, *, ddof: int) -> NDArray[np.float64]:
        """Give ``m2 / (count - ddof)``, ``(n_features,)``; NaN where no degree of freedom is left.

        Examples
        --------
        >>> moments = ColumnMoments(count=2, mean=np.array([1.0]), m2=np.array([2.0]))
        >>> moments.variance(ddof=0), moments.variance(ddof=1), moments.variance(ddof=2)
        (array([1.]), array([2.]), array([nan]))
        """
        if self.count <= ddof:
            return np.full_like(self.m2, np.nan)
        return self.m2 / (self.count - ddof)


@dataclass(frozen=True, slots=True)
class Moments:
    """Summary of the mean and the variance of each column, in float64 whatever the data's dtype.

    A column with a NaN or an infinity gets a NaN or an infinity; the other columns are not touched by it.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", Stanford University STAN-CS-79-773, 1979.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = Moments(n_features=1)
    >>> state = summary.update(summary.empty(), Chunk(0, 0, np.array([[1.0], [3.0]], dtype=np.float32)))
    >>> summary.finalize(state)
    ColumnMoments(count=2, mean=array([2.]), m2=array([2.]))
    """

    n_features: int
    """Number of columns."""

    def empty(self) -> ColumnMoments:
        """Give the moments of no rows."""
        return ColumnMoments(0, np.zeros(self.n_features), np.zeros(self.n_features))

    def update(self, state: ColumnMoments, chunk: Chunk) -> ColumnMoments:
        """Add the rows of a chunk."""
        tile_rows = max(1, _TILE_VALUES // self.n_features)
        for start in range(0, chunk.n_rows, tile_rows):
            state = self.merge(state, _moments_of(chunk.X[start : start + tile_rows]))
        return state

    def merge(self, left: ColumnMoments, right: ColumnMoments) -> ColumnMoments:
        """Join the moments of two disjoint sets of rows."""
        count = left.count + right.count
        if count == 0:
            return self.empty()
        with np.errstate(invalid="ignore", over="ignore"):
            # Written so that swapping left and right gives the same bits.
            mean = (left.count * left.mean + right.count * right.mean) / count
            delta = right.mean - left.mean
            m2 = left.m2 + right.m2 + delta * delta * (left.count * right.count / count)
        return ColumnMoments(count, mean, m2)

    def finalize(self, state: ColumnMoments) -> ColumnMoments:
        """Give the moments."""
        return state

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return 8 + 2 * 8 * self.n_features


def _moments_of(rows: NDArray[Any]) -> ColumnMoments:
    deviations = rows.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = deviations.mean(axis=0)
        deviations -= mean
        m2 = np.einsum("ij,ij->j", deviations, deviations)
    return ColumnMoments(len(rows), mean, m2)
