"""Curves fitted to the distinct scores in order and the amounts of both classes, a piece in memory at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, log_expit

from streamfit.maths.calibration_curves import IsotonicCurve, SigmoidCurve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from streamfit.maths.ranked_values import RankedValues

__all__ = ["fit_isotonic", "fit_sigmoid"]


def fit_isotonic(ascending: Iterable[RankedValues]) -> IsotonicCurve:
    """Fit a rising step-wise function by pooling adjacent violators, as scikit-learn's ``IsotonicRegression`` does.

    What is kept is one entry a pooled group: pooled groups of a part of the scores can be pooled again with those of
    the next part, to what pooling all scores would give.

    Parameters
    ----------
    ascending : iterable of RankedValues
        Distinct scores, the lowest first; amounts of other rows, then of anomalies.

    Examples
    --------
    >>> from streamfit.maths.ranked_values import RankedValues
    >>> piece = RankedValues(np.array([1.0, 2.0, 3.0, 4.0]), (np.array([1, 0, 1, 0]), np.array([0, 1, 0, 1])))
    >>> curve = fit_isotonic([piece])
    >>> curve.thresholds.tolist(), curve.probabilities.tolist()
    ([1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 0.5, 1.0])
    """
    columns: list[NDArray[Any]] | None = None
    for piece in ascending:
        others, anomalies = piece.amounts
        there = (others + anomalies) > 0  # scores of no weight say nothing
        groups = [piece.values[there], piece.values[there], anomalies[there], (others + anomalies)[there]]
        groups = _pooled(groups)
        columns = (
            groups if columns is None else _pooled([np.append(*pair) for pair in zip(columns, groups, strict=True)])
        )
    if columns is None:
        return IsotonicCurve(np.empty(0), np.empty(0))
    first, last, anomalies, amounts = columns
    # The first and the last score of each group, once where they are one.
    thresholds = np.stack([first, last], axis=1).ravel()
    kept = np.append(True, np.diff(thresholds) > 0)
    return IsotonicCurve(thresholds[kept], np.repeat(anomalies / amounts, 2)[kept])


def _pooled(groups: list[NDArray[Any]]) -> list[NDArray[Any]]:
    first, last, anomalies, amounts = groups
    if not len(first):
        return groups
    blocks = isotonic_regression(anomalies / amounts, weights=amounts).blocks
    starts, stops = blocks[:-1], blocks[1:]
    return [first[starts], last[stops - 1], np.add.reduceat(anomalies, starts), np.add.reduceat(amounts, starts)]


def fit_sigmoid(
    pieces: Callable[[], Iterable[RankedValues]], *, n_others: float, n_anomalies: float, scale: tuple[float, float]
) -> SigmoidCurve:
    """Fit a logistic function by maximum likelihood with Platt's smoothed targets, as scikit-learn's calibration does.

    Parameters
    ----------
    pieces : callable
        Gives the distinct scores anew for each step of the search; amounts of other rows, then of anomalies.
    n_others, n_anomalies : float
        Totals of these amounts.
    scale : tuple of float
        A middle and a width of the scores, by which they are standardised while the curve is searched.

    References
    ----------
    Platt, 1999, Probabilistic outputs for support vector machines, section 2.2.
    """
    target_of_others, target_of_anomalies = 1 / (n_others + 2), (n_anomalies + 1) / (n_anomalies + 2)
    middle, width = scale
    total = n_others + n_anomalies

    def terms(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        loss, gradient, curvature = 0.0, np.zeros(2), np.zeros((2, 2))
        for piece in pieces():
            others, anomalies = piece.amounts
            scores = (piece.values - middle) / width
            odds = parameters[0] * scores + parameters[1]
            amounts = others + anomalies
            hits = others * target_of_others + anomalies * target_of_anomalies
            probability = expit(odds)
            loss -= float(hits @ log_expit(odds) + (amounts - hits) @ log_expit(-odds))
            slope = amounts * probability - hits
            gradient += [slope @ scores, slope.sum()]
            spread = amounts * probability * (1 - probability)
            mixed = spread @ scores
            curvature += [[spread @ scores**2, mixed], [mixed, spread.sum()]]
        return loss / total, gradient / total, curvature / total

    search = _Remembered(terms)
    start = np.array([0.0, np.log((n_anomalies + 1) / (n_others + 1))])
    found = minimize(
        search.loss, start, jac=search.gradient, hess=search.curvature, method="trust-exact", options={"gtol": 1e-10}
    )
    slope, intercept = found.x
    return SigmoidCurve(float(slope / width), float(intercept - slope * middle / width))


class _Remembered:
    """One pass over the scores a point, whatever is asked of it."""

    def __init__(
        self, terms: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64], NDArray[np.float64]]]
    ) -> None:
        self._terms = terms
        self._point: bytes | None = None

    def _at(self, parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        if parameters.tobytes() != self._point:
            self._found = self._terms(parameters)
            self._point = parameters.tobytes()
        return self._found

    def loss(self, parameters: NDArray[np.float64]) -> float:
        return self._at(parameters)[0]

    def gradient(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._at(parameters)[1]

    def curvature(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._at(parameters)[2]
