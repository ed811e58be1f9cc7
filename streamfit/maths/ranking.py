"""How well scores rank anomalies before the rest, from counts of pairs: exact, in any order of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["average_precision", "roc_auc"]


def roc_auc(positives: NDArray[np.float64], negative_runs: Iterable[NDArray[np.float64]]) -> float:
    """Give the share of (positive, negative) pairs in the right order; ties count one half.

    The pairs are counted in integers, so neither the order nor the cut of the runs changes a bit. Beside
    its arguments it needs memory for two integers a row of one run.

    Parameters
    ----------
    positives : ndarray of shape (n_positives,)
        Scores of the anomalies, ascending, without NaN.
    negative_runs : iterable of ndarray
        Scores of the other rows, in runs, without NaN; ascending runs are quicker.

    Returns
    -------
    float
        Area under the receiver operating characteristic, 0 to 1.

    Raises
    ------
    InvalidDataError
        One of the classes has no row.

    Examples
    --------
    >>> roc_auc(np.array([2.0, 3.0]), [np.array([1.0, 2.0]), np.array([])])
    0.875
    """
    n_positives, n_negatives = len(positives), 0
    twice = 0
    for run in negative_runs:
        n_negatives += len(run)
        below = int(np.searchsorted(positives, run, side="left").sum(dtype=np.int64))
        not_above = int(np.searchsorted(positives, run, side="right").sum(dtype=np.int64))
        twice += 2 * n_positives * len(run) - below - not_above
    _require_both(n_positives, n_negatives)
    return twice / (2 * n_positives * n_negatives)


def average_precision(positives: NDArray[np.float64], negative_runs: Iterable[NDArray[np.float64]]) -> float:
    """Give the mean over positives of the precision at their score, as scikit-learn defines it.

    Parameters
    ----------
    positives, negative_runs
        As in `roc_auc`.

    Returns
    -------
    float
        Average precision, above 0 and at most 1.

    Raises
    ------
    InvalidDataError
        One of the classes has no row.

    Examples
    --------
    >>> average_precision(np.array([2.0, 3.0]), [np.array([1.0, 2.0])])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    thresholds, counts = np.unique(positives, return_counts=True)
    # Negatives by the number of thresholds that they reach.
    reached = np.zeros(len(thresholds) + 1, dtype=np.int64)
    for run in negative_runs:
        reached += np.bincount(np.searchsorted(thresholds, run, side="right"), minlength=len(thresholds) + 1)
    _require_both(len(positives), int(reached.sum()))
    false_positives = np.cumsum(reached[:0:-1])[::-1]
    true_positives = np.cumsum(counts[::-1])[::-1]
    precision = true_positives / (true_positives + false_positives)
    return float(np.dot(counts, precision) / len(positives))


def _require_both(n_positives: int, n_negatives: int) -> None:
    if n_positives == 0 or n_negatives == 0:
        raise InvalidDataError(
            f"The labels hold one class only ({n_positives} anomalies, {n_negatives} other rows). "
            "Give labels with both, 1 for anomalies and 0 for the rest."
        )
