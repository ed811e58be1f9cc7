"""Tables of true and predicted labels, and how well two divisions of rows into groups agree."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.metrics import codes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Contingency"]


@dataclass(frozen=True, slots=True, eq=False)
class Contingency:
    """How many rows there are of each pair of a true and a predicted label."""

    true: NDArray[Any]
    """Labels of the first axis, ascending."""
    predicted: NDArray[Any]
    """Labels of the second axis, ascending."""
    counts: NDArray[np.int64]
    """Rows, ``(n_true, n_predicted)``."""

    @classmethod
    def of(
        cls, true: NDArray[Any], predicted: NDArray[Any], *, labels: tuple[NDArray[Any] | None, NDArray[Any] | None]
    ) -> Contingency:
        """Count the rows of one chunk.

        Parameters
        ----------
        true, predicted : ndarray of shape (n_rows,)
            Labels.
        labels : tuple of ndarray or None
            Ascending labels of either axis, where they are known. Others that occur are added.

        Examples
        --------
        >>> Contingency.of(np.array(["a", "b"]), np.array([3, 3]), labels=(np.array(["a", "b"]), None)).counts.tolist()
        [[1], [1]]
        """
        (rows, true_codes), (columns, predicted_codes) = (
            _coded(values, known) for values, known in zip((true, predicted), labels, strict=True)
        )
        shape = len(rows), len(columns)
        pairs = np.bincount(true_codes * shape[1] + predicted_codes, minlength=shape[0] * shape[1])
        return cls(rows, columns, pairs.reshape(shape))

    def merge(self, other: Contingency) -> Contingency:
        """Join the counts of disjoint rows."""
        if np.array_equal(self.true, other.true) and np.array_equal(self.predicted, other.predicted):
            return Contingency(self.true, self.predicted, self.counts + other.counts)
        true, predicted = np.union1d(self.true, other.true), np.union1d(self.predicted, other.predicted)
        counts = np.zeros((len(true), len(predicted)), dtype=np.int64)
        for table in (self, other):
            counts[np.ix_(codes_of(table.true, true), codes_of(table.predicted, predicted))] += table.counts
        return Contingency(true, predicted, counts)

    def pairs(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Give the true label, the predicted label and the rows of each pair that occurs."""
        rows, columns = np.nonzero(self.counts)
        return self.true[rows], self.predicted[columns], self.counts[rows, columns]

    # -- agreement of groups: the formulas of sklearn.metrics.cluster, from counts ---------------------

    def _present(self) -> NDArray[np.int64]:
        present: NDArray[np.int64] = self.counts[self.counts.sum(axis=1) > 0][:, self.counts.sum(axis=0) > 0]
        return present

    def _pair_counts(self) -> tuple[int, int, int, int]:
        """Ordered pairs of rows: apart in both, together in the second, in the first, in both. Whole numbers."""
        counts = self._present().astype(object)
        n_rows, squares = int(counts.sum()), int((counts**2).sum())
        first, second = int((counts.sum(axis=1) ** 2).sum()), int((counts.sum(axis=0) ** 2).sum())
        return n_rows**2 - first - second + squares, second - squares, first - squares, squares - n_rows

    def rand(self) -> float:
        """Share of the pairs of rows on which both agree."""
        apart, second, first, together = self._pair_counts()
        n_pairs = apart + second + first + together
        return 1.0 if apart + together == n_pairs else (apart + together) / n_pairs

    def adjusted_rand(self) -> float:
        """Rand index, adjusted so that chance gives 0."""
        tn, fp, fn, tp = self._pair_counts()
        if fn == 0 and fp == 0:
            return 1.0
        return 2 * (tp * tn - fn * fp) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))

    def fowlkes_mallows(self) -> float:
        """Geometric mean of the precision and the recall of pairs."""
        _, second, first, together = self._pair_counts()
        if together == 0:
            return 0.0
        return float(np.sqrt(together / (together + second)) * np.sqrt(together / (together + first)))

    def mutual_info(self) -> float:
        """Mutual information in nats."""
        counts = self._present()
        if 1 in counts.shape:
            return 0.0
        rows, columns = np.nonzero(counts)
        values, n_rows = counts[rows, columns], int(counts.sum())
        shares = values / n_rows
        outer = counts.sum(axis=1)[rows].astype(np.float64) * counts.sum(axis=0)[columns]
        parts = shares * (np.log(values) - log(n_rows)) + shares * (2 * log(n_rows) - np.log(outer))
        parts = np.where(np.abs(parts) < np.finfo(np.float64).eps, 0.0, parts)
        return float(np.clip(parts.sum(), 0.0, None))

    def _entropies(self) -> tuple[float, float]:
        counts = self._present()
        return _entropy(counts.sum(axis=1)), _entropy(counts.sum(axis=0))

    def homogeneity(self) -> float:
        """How far each predicted group holds one true label only."""
        entropy = self._entropies()[0]
        return self.mutual_info() / entropy if entropy else 1.0

    def completeness(self) -> float:
        """How far the rows of each true label are in one predicted group."""
        entropy = self._entropies()[1]
        return self.mutual_info() / entropy if entropy else 1.0

    def v_measure(self) -> float:
        """Harmonic mean of homogeneity and completeness."""
        homogeneity, completeness = self.homogeneity(), self.completeness()
        if homogeneity + completeness == 0:
            return 0.0
        return 2 * homogeneity * completeness / (homogeneity + completeness)

    def normalized_mutual_info(self) -> float:
        """Mutual information by the mean of both entropies."""
        if self._present().shape == (1, 1):
            return 1.0
        information = self.mutual_info()
        return information / float(np.mean(self._entropies())) if information else 0.0

    def adjusted_mutual_info(self) -> float:
        """Mutual information, adjusted so that chance gives 0."""
        from sklearn.metrics.cluster import expected_mutual_information

        counts = self._present()
        if 1 in counts.shape:
            return 1.0 if counts.shape == (1, 1) else 0.0
        expected = expected_mutual_information(counts, int(counts.sum()))
        above, below = self.mutual_info() - expected, float(np.mean(self._entropies())) - expected
        # 0 / 0 where the expectation is the maximum, as it is for equal divisions into single rows.
        above, below = (float(np.copysign(max(abs(part), np.finfo(np.float64).eps), part)) for part in (above, below))
        return above / below


def _entropy(counts: NDArray[np.int64]) -> float:
    if len(counts) == 1:
        return 0.0
    total = counts.sum()
    return float(-np.sum((counts / total) * (np.log(counts) - log(total))))


def _coded(values: NDArray[Any], known: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    labels = np.unique(values) if known is None else known
    codes = codes_of(values, labels)
    if (codes < 0).any():
        labels = np.union1d(labels, values)
        codes = codes_of(values, labels)
    return labels, codes
