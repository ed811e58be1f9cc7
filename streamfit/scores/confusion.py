"""Flags against the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

from streamfit.maths.sorted_runs import positions
from streamfit.scores.blockwise import joined, per_block
from streamfit.scores.checked import checked_threshold
from streamfit.scores.labelled import check_missing, known_rows, labelled
from streamfit.scores.sorted_classes import sorted_labelled
from streamfit.scores.sorting import all_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.maths.sorted_runs import SortedRun
    from streamfit.scores.labelled import MissingLabels
    from streamfit.scores.sorting import SortedBlock

__all__ = ["confusion_matrix"]


def confusion_matrix(
    labels: Any, scores: Any, threshold: Any, *, sample_weight: Any = None, missing: MissingLabels = "error"
) -> Any:
    """Count anomalies and other rows above and below a threshold.

    It is ``sklearn.metrics.confusion_matrix(labels, scores > threshold, labels=[0, 1])``: counts are Identical, sums of
    weights Equal. A class without rows has a row of zeros.

    Parameters
    ----------
    labels : dask.array.Array or array-like, (n_rows,)
        1 or True for anomalies, 0 or False for the other rows, NaN where nobody knows.
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous.
    threshold : float or dask.array.Array of shape ()
        A score equal to it is not flagged, as in PyOD.
    sample_weight : dask.array.Array or array-like, (n_rows,), or None, default=None
        Weights of the rows, finite and at least 0.
    missing : {"error", "drop"}, default="error"
        What to do with rows without a label.

    Returns
    -------
    ndarray or dask.array.Array of int64, or float64 with weights, (2, 2)
        ``[[true negatives, false positives], [false negatives, true positives]]``.

    Raises
    ------
    InvalidDataError, InvalidParameterError
        As in `roc_auc`; or the threshold is NaN or no number.

    Examples
    --------
    >>> confusion_matrix([0, 0, 1, 1], [0.1, 0.9, 0.5, 0.8], threshold=0.5)
    array([[1, 1],
           [1, 1]])
    """
    check_missing(missing)
    cut = checked_threshold(threshold)
    dtype = np.int64 if sample_weight is None else np.float64
    if is_dask_collection(cut):
        # It may come from these very scores: they wait for it sorted, not in memory.
        blocks = sorted_labelled(labels, scores, sample_weight, missing)
        arguments = (cut, None if sample_weight is None else "weight")
        return joined(blocks, _split_runs, arguments=arguments, shape=(2, 2), dtype=dtype)
    checked, truth, weights = labelled(labels, scores, sample_weight)
    counts = per_block(_count, checked, truth, weights, arguments=(cut, missing))
    return joined(counts, _add_up, shape=(2, 2), dtype=dtype)


def _count(
    scores: NDArray[np.float64],
    labels: NDArray[Any],
    weights: NDArray[Any] | None,
    start: int,
    threshold: float,
    missing: MissingLabels,
) -> NDArray[Any]:
    known, anomaly, values = known_rows(scores, labels, weights, start, missing)
    cell = 2 * anomaly.astype(np.int64) + (known > threshold)
    return np.bincount(cell, weights=values, minlength=4).reshape(2, 2)


def _add_up(counts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    total: NDArray[Any] = np.add.reduce(counts, axis=0)
    return total


def _split_runs(blocks: Sequence[SortedBlock], threshold: float, weight: str | None) -> NDArray[Any]:
    return np.array([_split(runs, threshold, weight) for runs in all_runs(blocks)])


def _split(runs: Sequence[SortedRun], threshold: float, weight: str | None) -> tuple[Any, Any]:
    places = positions(runs, threshold, side="right").tolist()
    if weight is None:
        return sum(places), sum(run.n_values for run in runs) - sum(places)
    below = sum(float(run.read(0, place, name=weight).sum()) for run, place in zip(runs, places, strict=True))
    above = sum(
        float(run.read(place, run.n_values, name=weight).sum()) for run, place in zip(runs, places, strict=True)
    )
    return below, above
