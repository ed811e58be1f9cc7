"""Look a value's score up by its bin, for all columns of a row, and add them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamfit.maths.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["BinScores"]

_TILE_VALUES = 65_536
"""Values looked up at a time: their scores stay in the cache until they are added up."""


@compiled
def _look_up(
    X: NDArray[Any],
    edges: NDArray[np.float64],
    first: NDArray[np.int64],
    bin_scores: NDArray[np.float64],
    outside: NDArray[np.float64],
    tolerance: float,
    out: NDArray[np.float64],
) -> None:
    # Column c has the bins first[c] - c … first[c + 1] - c - 1 and one edge more, from first[c] + c on.
    for row in range(X.shape[0]):
        for column in range(X.shape[1]):
            value = np.float64(X[row, column])
            start = first[column]
            n_bins = first[column + 1] - start
            edge = start + column
            lowest, highest = edges[edge], edges[edge + n_bins]
            if value <= lowest:
                near = lowest - value <= (edges[edge + 1] - lowest) * tolerance
                out[row, column] = bin_scores[start] if near else outside[column]
            elif value > highest:
                near = value - highest <= (highest - edges[edge + n_bins - 1]) * tolerance
                out[row, column] = bin_scores[start + n_bins - 1] if near else outside[column]
            else:
                # A division finds the bin up to a rounding; the edges decide, closed on the right.
                b = min(np.int64((value - lowest) / (highest - lowest) * n_bins), n_bins - 1)
                while value <= edges[edge + b]:
                    b -= 1
                while value > edges[edge + b + 1]:
                    b += 1
                out[row, column] = bin_scores[start + b]


@dataclass(frozen=True, slots=True, eq=False)
class BinScores:
    """Scores of the bins of all columns, one column after the other.

    Bins are closed on the right, as in ``numpy.digitize(right=True)``; a value up to `tolerance` bin widths
    outside scores as the outermost bin, a value further out as the column's `outside`.
    """

    edges: NDArray[np.float64]
    """Edges, ``n_bins + 1`` a column."""
    first: NDArray[np.int64]
    """Position of each column's first bin in `scores`, and the number of all bins, ``(n_features + 1,)``."""
    scores: NDArray[np.float64]
    """Score of each bin, ``n_bins`` a column."""
    outside: NDArray[np.float64]
    """Score of values far outside, ``(n_features,)``."""
    tolerance: float
    """In bin widths."""

    @classmethod
    def of(cls, edges: Sequence[NDArray[Any]], scores: Sequence[NDArray[np.float64]], *, tolerance: float) -> Self:
        """Join the edges ``(n_bins + 1,)`` and scores ``(n_bins,)`` of the columns."""
        n_bins = [len(column) for column in scores]
        return cls(
            np.concatenate([np.asarray(column, dtype=np.float64) for column in edges]),
            np.concatenate(([0], np.cumsum(n_bins))).astype(np.int64),
            np.concatenate(scores),
            np.array([column.min() for column in scores]),
            tolerance,
        )

    @property
    def tile_nbytes(self) -> int:
        """Bytes that `sums` takes beside its result."""
        return 8 * max(_TILE_VALUES, len(self.outside))

    def sums(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Sum the scores of each row ``(n_rows, n_features)``, with the bits of ``numpy.sum(axis=1)``."""
        total = np.empty(len(X), dtype=np.float64)
        tile_rows = max(1, _TILE_VALUES // X.shape[1])
        tile = np.empty((min(tile_rows, len(X)), X.shape[1]), dtype=np.float64)
        for start in range(0, len(X), tile_rows):
            part = X[start : start + tile_rows]
            found = tile[: len(part)]
            _look_up(part, self.edges, self.first, self.scores, self.outside, self.tolerance, found)
            found.sum(axis=1, out=total[start : start + len(part)])
        return total
