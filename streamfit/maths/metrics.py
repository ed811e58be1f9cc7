"""Metrics over all rows, from states that add up: never the mean of the metrics of pieces.

A metric that is not defined for the rows at hand, such as the area under a curve where there is one class
only, is ``nan``; where scikit-learn's value for an empty class is 0, so is it here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "AVERAGES",
    "COUNT_METRICS",
    "RANKING_METRICS",
    "REGRESSION_METRICS",
    "RegressionSums",
    "average_precision",
    "codes_of",
    "confusion_counts",
    "count_metric",
    "negative_log_likelihood",
    "roc_auc",
]

AVERAGES = ("macro", "micro", "weighted")
"""Endings of the metrics that are averaged over classes, such as ``f1_macro``."""

_PER_CLASS = ("f1", "precision", "recall")
COUNT_METRICS = (
    "accuracy",
    "balanced_accuracy",
    *(f"{name}{ending}" for name in _PER_CLASS for ending in ("", *(f"_{average}" for average in AVERAGES))),
)
"""Metrics that follow from the table of true and predicted classes."""

REGRESSION_METRICS = ("mean_absolute_error", "mean_squared_error", "r2")
"""Metrics of numbers."""


# -- classes -----------------------------------------------------------------------------------------


def codes_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Give the position of each label among the sorted classes, and -1 for a label that is not there.

    Examples
    --------
    >>> codes_of(np.array(["b", "x", "a"]), np.array(["a", "b"])).tolist()
    [1, -1, 0]
    """
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[codes] == labels, codes, -1)


def confusion_counts(true: NDArray[np.int64], predicted: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Count the rows of each pair of true class (first axis) and predicted class (second axis).

    Examples
    --------
    >>> confusion_counts(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    pairs = np.bincount(true * n_classes + predicted, minlength=n_classes * n_classes)
    return pairs.reshape(n_classes, n_classes)


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def count_metric(name: str, counts: NDArray[np.int64], positive: int) -> float:
    """Compute one of `COUNT_METRICS`.

    Parameters
    ----------
    name : str
        Name of the metric.
    counts : ndarray of shape (n_classes, n_classes)
        Rows by true and predicted class.
    positive : int
        Class that ``f1``, ``precision`` and ``recall`` without an ending are about.

    Returns
    -------
    float
        Equal to scikit-learn's, with 0 for classes without rows or predictions.

    Examples
    --------
    >>> counts = np.array([[1, 1], [0, 2]])
    >>> count_metric("accuracy", counts, 1), count_metric("recall", counts, 1)
    (0.75, 1.0)
    """
    hits = np.diag(counts).astype(np.float64)
    support = counts.sum(axis=1).astype(np.float64)
    predicted = counts.sum(axis=0).astype(np.float64)
    n_rows = support.sum()
    if name == "accuracy":
        return float(hits.sum() / n_rows)
    if name == "balanced_accuracy":
        return float(np.mean(hits[support > 0] / support[support > 0]))
    base, _, average = name.partition("_")
    if average == "micro":
        hits, support, predicted = (np.atleast_1d(values.sum()) for values in (hits, support, predicted))
    per_class = {
        "precision": lambda: _ratio(hits, predicted),
        "recall": lambda: _ratio(hits, support),
        "f1": lambda: _ratio(2 * hits, support + predicted),
    }[base]()
    if average == "":
        return float(per_class[positive])
    if average == "weighted":
        return float(np.average(per_class, weights=support))
    # Classes that are neither true nor predicted do not count.
    return float(np.mean(per_class[(support > 0) | (predicted > 0)]))


def negative_log_likelihood(codes: NDArray[np.int64], probabilities: NDArray[np.floating[Any]]) -> float:
    """Sum the negative logarithm of the probability of the true class; the mean is the log loss.

    Probabilities are clipped to the resolution of their dtype, as scikit-learn does.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        True classes; -1 for one without a probability, which makes the sum ``nan``.
    probabilities : ndarray of shape (n_rows, n_classes)
        Probabilities of the classes.
    """
    if (codes < 0).any():
        return math.nan
    eps = np.finfo(probabilities.dtype).eps
    true = probabilities[np.arange(len(codes)), codes]
    return float(-np.log(np.clip(true, eps, 1 - eps).astype(np.float64)).sum())


# -- order of scores ---------------------------------------------------------------------------------


def _tied_counts(
    positive: NDArray[np.bool_], scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positive and other rows at or above each distinct score, from the highest score down."""
    order = np.argsort(scores, kind="stable")[::-1]
    ordered = scores[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    true = np.cumsum(positive[order], dtype=np.int64)[ends]
    return true, ends + 1 - true


def roc_auc(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Area under the receiver operating characteristic: the chance that a positive row scores above another.

    Ties count one half. It is exact, in O(n log n).

    Examples
    --------
    >>> roc_auc(np.array([True, False, False]), np.array([0.5, 0.5, 0.1]))
    0.75
    >>> roc_auc(np.array([True, True]), np.array([0.5, 0.1]))
    nan
    """
    if positive.all() or not positive.any() or np.isnan(scores).any():
        return math.nan
    true, false = _tied_counts(positive, scores)
    # Twice the area in whole numbers, exact up to 2**62 pairs.
    doubled = np.sum(np.diff(false, prepend=0) * (true + np.concatenate(([0], true[:-1]))))
    return float(doubled / (2.0 * true[-1] * false[-1]))


def average_precision(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Precision averaged over the recalls at which it changes; ``nan`` where no row is positive.

    Examples
    --------
    >>> average_precision(np.array([True, False, True]), np.array([0.9, 0.5, 0.1]))
    0.833...
    """
    if not positive.any() or np.isnan(scores).any():
        return math.nan
    true, false = _tied_counts(positive, scores)
    return float(np.sum(np.diff(true, prepend=0) / true[-1] * (true / (true + false))))


RANKING_METRICS: dict[str, Callable[[NDArray[np.bool_], NDArray[np.float64]], float]] = {
    "average_precision": average_precision,
    "roc_auc": roc_auc,
}
"""Metrics of two classes that follow from the order of the scores."""


# -- numbers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegressionSums:
    """Sums over rows of true and predicted numbers."""

    n_rows: int = 0
    """Rows."""
    mean: float = 0.0
    """Mean of the true values."""
    squared_deviation: float = 0.0
    """Sum of the squared distances of the true values from their mean."""
    squared_error: float = 0.0
    """Sum of the squared errors."""
    absolute_error: float = 0.0
    """Sum of the absolute errors."""

    @classmethod
    def of(cls, true: NDArray[Any], predicted: NDArray[Any]) -> RegressionSums:
        """Sum the rows of one chunk."""
        true = true.astype(np.float64)
        error = true - predicted
        mean = float(true.mean())
        return cls(
            n_rows=len(true),
            mean=mean,
            squared_deviation=float(np.square(true - mean).sum()),
            squared_error=float(np.square(error).sum()),
            absolute_error=float(np.abs(error).sum()),
        )

    def merge(self, other: RegressionSums) -> RegressionSums:
        """Join the sums of disjoint rows (Chan, Golub and LeVeque, 1979)."""
        n_rows = self.n_rows + other.n_rows
        if n_rows == 0:
            return self
        # From the more rows to the fewer, so that merge(a, b) and merge(b, a) are the same bits.
        fewer, more = sorted((self, other), key=lambda sums: (sums.n_rows, sums.mean))
        apart = fewer.mean - more.mean
        return RegressionSums(
            n_rows=n_rows,
            mean=more.mean + apart * fewer.n_rows / n_rows,
            squared_deviation=self.squared_deviation
            + other.squared_deviation
            + apart * apart * fewer.n_rows * more.n_rows / n_rows,
            squared_error=self.squared_error + other.squared_error,
            absolute_error=self.absolute_error + other.absolute_error,
        )

    def metric(self, name: str) -> float:
        """Compute one of `REGRESSION_METRICS`.

        Examples
        --------
        >>> sums = RegressionSums.of(np.array([1.0, 3.0]), np.array([1.0, 2.0]))
        >>> sums.metric("r2"), sums.metric("mean_squared_error")
        (0.5, 0.5)
        """
        if name == "mean_squared_error":
            return self.squared_error / self.n_rows
        if name == "mean_absolute_error":
            return self.absolute_error / self.n_rows
        if self.n_rows < 2:
            return math.nan
        if self.squared_deviation == 0:
            # scikit-learn's convention for a constant.
            return 1.0 if self.squared_error == 0 else 0.0
        return 1.0 - self.squared_error / self.squared_deviation
