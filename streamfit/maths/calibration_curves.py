"""Curves from scores to the probability of being an anomaly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.special import erf, expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.maths.score_statistics import ScoreStatistics

__all__ = ["CalibrationCurve", "IsotonicCurve", "LinearCurve", "SigmoidCurve", "UnifyingCurve"]


class CalibrationCurve(Protocol):
    """A rising function of one score."""

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give probabilities, of the shape of the scores."""


@dataclass(frozen=True, slots=True)
class LinearCurve:
    """Scores between the least and the highest one, as PyOD's ``method="linear"``.

    Examples
    --------
    >>> from streamfit.maths.score_statistics import ScoreStatistics
    >>> LinearCurve(ScoreStatistics.of([np.array([1.0, 3.0])]))(np.array([0.0, 1.5, 9.0])).tolist()
    [0.0, 0.25, 1.0]
    """

    statistics: ScoreStatistics
    """Of the scores that it was fitted to."""

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give probabilities, of the shape of the scores."""
        span = self.statistics.maximum - self.statistics.minimum
        # As scikit-learn's MinMaxScaler does: scores that differ by rounding alone are not scaled.
        span = span if span >= 10 * np.finfo(np.float64).eps else 1.0
        with np.errstate(over="ignore"):
            return np.clip((scores - self.statistics.minimum) / span, 0, 1)


@dataclass(frozen=True, slots=True)
class UnifyingCurve:
    """The error function of standardised scores, as PyOD's ``method="unify"``; where all are equal it divides by 1.

    References
    ----------
    Kriegel, Kröger, Schubert, Zimek, 2011, Interpreting and unifying outlier scores, SDM.
    """

    statistics: ScoreStatistics
    """Of the scores that it was fitted to."""

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give probabilities, of the shape of the scores."""
        with np.errstate(over="ignore"):
            standardised = (scores - self.statistics.mean) / ((self.statistics.std or 1.0) * np.sqrt(2))
        probabilities: NDArray[np.float64] = np.clip(erf(standardised), 0, 1)
        return probabilities


@dataclass(frozen=True, slots=True)
class SigmoidCurve:
    """A logistic function of the scores.

    References
    ----------
    Platt, 1999, Probabilistic outputs for support vector machines.
    """

    slope: float
    """Factor of the score in the logarithm of the odds."""
    intercept: float
    """Logarithm of the odds at a score of 0."""

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give probabilities, of the shape of the scores."""
        # An infinite score times a slope of 0 would be NaN.
        largest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            probabilities: NDArray[np.float64] = expit(self.slope * np.clip(scores, -largest, largest) + self.intercept)
        return probabilities


@dataclass(frozen=True, slots=True, eq=False)
class IsotonicCurve:
    """A rising function that is interpolated between thresholds, and constant beyond them."""

    thresholds: NDArray[np.float64]
    """Ascending scores, as ``IsotonicRegression.X_thresholds_``."""
    probabilities: NDArray[np.float64]
    """Share of anomalies at each of them, as ``IsotonicRegression.y_thresholds_``."""

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give probabilities, of the shape of the scores."""
        return np.interp(scores, self.thresholds, self.probabilities)
