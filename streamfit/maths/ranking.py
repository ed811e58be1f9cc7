"""How well scores rank anomalies before the rest, from the distinct scores in order and what has each of them.

A piece holds the amounts of two groups: other rows first, then anomalies. Amounts are counts (int64), of which every
sum is exact, or weights (float64).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from streamfit.maths.ranked_values import RankedValues

__all__ = ["average_precision", "precision_of_tied_rows", "roc_auc"]


def roc_auc(ascending: Iterable[RankedValues]) -> float:
    """Give the share of (anomaly, other row) pairs in the right order; ties count one half.

    Counts are added as integers, so neither the order nor the cut of the rows changes a bit.

    Parameters
    ----------
    ascending : iterable of RankedValues
        Distinct scores, the lowest first.

    Returns
    -------
    float
        Area under the receiver operating characteristic, 0 to 1; NaN where a group is empty.

    Examples
    --------
    >>> from streamfit.maths.ranked_values import RankedValues
    >>> piece = RankedValues(np.array([1.0, 2.0, 3.0]), (np.array([1, 1, 0]), np.array([0, 1, 1])))
    >>> roc_auc([piece])
    0.875
    """
    n_others: Any = 0
    n_anomalies: Any = 0
    twice: Any = 0
    for piece in ascending:
        others, anomalies = piece.amounts
        below = np.cumsum(others) - others + n_others
        twice += (anomalies * (2 * below + others)).sum().item()
        n_others += others.sum().item()
        n_anomalies += anomalies.sum().item()
    if not n_others or not n_anomalies:
        return math.nan
    return float(twice / (2 * n_others * n_anomalies))


def average_precision(descending: Iterable[RankedValues]) -> float:
    """Give the mean over anomalies of the precision at their score, as scikit-learn defines it.

    The terms are added without any rounding but the last (`math.fsum`), so the cut of the rows changes no bit of
    counted rows.

    Parameters
    ----------
    descending : iterable of RankedValues
        Distinct scores, the highest first.

    Returns
    -------
    float
        Average precision, above 0 and at most 1; NaN without anomalies.

    Examples
    --------
    >>> from streamfit.maths.ranked_values import RankedValues
    >>> piece = RankedValues(np.array([3.0, 2.0, 1.0]), (np.array([0, 1, 1]), np.array([1, 1, 0])))
    >>> average_precision([piece])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    totals: list[Any] = [0, 0]
    precise = math.fsum(itertools.chain.from_iterable(_precisions(descending, totals)))
    return precise / totals[1] if totals[1] else math.nan


def _precisions(descending: Iterable[RankedValues], totals: list[Any]) -> Iterator[list[float]]:
    for piece in descending:
        others, anomalies = piece.amounts
        met = np.flatnonzero(anomalies)
        true = np.cumsum(anomalies)[met] + totals[1]
        false = np.cumsum(others)[met] + totals[0]
        totals[0] += others.sum().item()
        totals[1] += anomalies.sum().item()
        weighted: NDArray[np.float64] = anomalies[met] * (true / (true + false))
        yield weighted.tolist()


def precision_of_tied_rows(k: int, *, above: tuple[int, int], tied: tuple[int, int]) -> float:
    """Give the share of anomalies among the `k` highest rows, the mean over all orders of tied rows.

    Parameters
    ----------
    k : int
        Rows that are looked at.
    above : tuple of int
        Other rows, and anomalies, that score higher than the k-th row.
    tied : tuple of int
        Other rows, and anomalies, that score as high.

    References
    ----------
    McSherry and Najork, 2008, Computing information retrieval performance measures efficiently in the presence of tied
    scores, ECIR.

    Examples
    --------
    >>> precision_of_tied_rows(2, above=(0, 1), tied=(3, 1))  # one for sure, and a quarter of one
    0.625
    """
    return (above[1] * sum(tied) + (k - sum(above)) * tied[1]) / (k * sum(tied))
