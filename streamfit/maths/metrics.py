"""Metrics of classes over all rows, from values that add up and from orders: never the mean of the metrics of pieces.

A metric that is not defined for the rows at hand, such as the area under a curve where there is one class
only, is ``nan``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["average_precision", "codes_of", "negative_log_likelihood", "roc_auc", "squared_probability_error"]


def codes_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Give the position of each label among the sorted classes, and -1 for a label that is not there.

    Examples
    --------
    >>> codes_of(np.array(["b", "x", "a"]), np.array(["a", "b"])).tolist()
    [1, -1, 0]
    """
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[codes] == labels, codes, -1)


# -- probabilities -----------------------------------------------------------------------------------


def negative_log_likelihood(codes: NDArray[np.int64], probabilities: NDArray[np.floating[Any]]) -> float:
    """Sum the negative logarithm of the probability of the true class; the mean is the log loss.

    Probabilities are clipped to the resolution of their dtype, as scikit-learn does.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        True classes, from 0.
    probabilities : ndarray of shape (n_rows, n_classes)
        Probabilities of the classes.

    Examples
    --------
    >>> negative_log_likelihood(np.array([1]), np.array([[0.5, 0.5]]))
    0.693...
    """
    eps = np.finfo(probabilities.dtype).eps
    true = probabilities[np.arange(len(codes)), codes]
    return float(-np.log(np.clip(true, eps, 1 - eps).astype(np.float64)).sum())


def squared_probability_error(codes: NDArray[np.int64], probabilities: NDArray[np.floating[Any]]) -> float:
    """Sum the squared distances of the probabilities from 1 for the true class and 0 for the others.

    Examples
    --------
    >>> squared_probability_error(np.array([1, 0]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.5
    """
    errors = probabilities.astype(np.float64)
    errors[np.arange(len(codes)), codes] -= 1.0
    return float(np.square(errors).sum())


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
