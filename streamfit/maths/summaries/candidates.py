"""Histograms with 1, 2, … √n bins a column, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["CandidateHistograms"]


@dataclass(frozen=True, slots=True, eq=False)
class CandidateHistograms:
    """Counts for every candidate number of bins; the result keeps the best number for each column.

    The best number maximises the penalised likelihood of Birgé and Rozenholc (2006, ESAIM: Probability
    and Statistics 10, 24-45), in the form that ``pyod.utils.utility.get_optimal_n_bins`` computes.
    """

    minimum: NDArray[Any]
    """Least value of each column, ``(n_features,)``, in the dtype of the data."""
    maximum: NDArray[Any]
    """Greatest value of each column, ``(n_features,)``, in the dtype of the data."""
    n_rows: int
    """Rows in all; candidates are 1, …, max(2, √n_rows) − 1 bins."""

    @property
    def _n_candidates(self) -> int:
        return max(2, int(np.sqrt(self.n_rows))) - 1

    @property
    def state_nbytes(self) -> int:
        """Bytes of one state: the counts of all candidates of all columns, int64."""
        return 8 * len(self.minimum) * self._n_candidates * (self._n_candidates + 1) // 2

    def empty(self) -> NDArray[np.int64]:
        """Give zero counts, ``(n_features, 1 + 2 + … + n_candidates)``."""
        n = self._n_candidates
        return np.zeros((len(self.minimum), n * (n + 1) // 2), dtype=np.int64)

    def update(self, state: NDArray[np.int64], chunk: Chunk) -> NDArray[np.int64]:
        """Count the values of a chunk once for each candidate."""
        for column in range(len(self.minimum)):
            values = np.ascontiguousarray(chunk.X[:, column])
            limits = (self.minimum[column], self.maximum[column])
            for n_bins in range(1, self._n_candidates + 1):
                start = n_bins * (n_bins - 1) // 2
                state[column, start : start + n_bins] += np.histogram(values, bins=n_bins, range=limits)[0]
        return state

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add counts."""
        return left + right

    def finalize(self, state: NDArray[np.int64]) -> tuple[tuple[NDArray[np.int64], NDArray[Any]], ...]:
        """Give counts ``(n_bins,)`` and edges ``(n_bins + 1,)`` of the best candidate of each column."""
        best = []
        for column, counts in enumerate(state):
            n_bins = 1 + int(np.argmax([self._likelihood(counts, b) for b in range(1, self._n_candidates + 1)]))
            start = n_bins * (n_bins - 1) // 2
            limits = np.array([self.minimum[column], self.maximum[column]])
            best.append((counts[start : start + n_bins].copy(), np.histogram_bin_edges(limits, bins=n_bins)))
        return tuple(best)

    def _likelihood(self, counts: NDArray[np.int64], n_bins: int) -> float:
        start = n_bins * (n_bins - 1) // 2
        histogram = counts[start : start + n_bins]
        penalty = n_bins - 1 + np.power(np.log(n_bins), 2.5)
        # PyOD subtracts the penalty inside the sum, once a bin: kept, since the choice must be PyOD's.
        return float(np.sum(histogram * np.log(n_bins * histogram / self.n_rows + 1) - penalty))
