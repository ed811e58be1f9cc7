"""How well scores rank labelled anomalies before the rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

import streamfit.maths.ranking as of_runs
from streamfit.errors import InvalidDataError
from streamfit.scores.checked import as_vector, block_starts, checked_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Measure = Callable[[NDArray[np.float64], Iterable[NDArray[np.float64]]], float]

__all__ = ["average_precision", "roc_auc"]

_LABELLED = np.dtype([("score", np.float64), ("anomaly", np.bool_)])


def roc_auc(labels: Any, scores: Any) -> Any:
    """Give the area under the receiver operating characteristic, over all rows.

    It equals ``sklearn.metrics.roc_auc_score`` up to rounding, and is the same bits for any chunking. All
    scores are held at once, 8 bytes a row, in pieces that were sorted one by one.

    Parameters
    ----------
    labels : dask.array.Array or array-like, (n_rows,)
        1 or True for anomalies, 0 or False for the other rows.
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous. Infinities are ordered like numbers.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The share of pairs of an anomaly and another row in which the anomaly has the higher score; ties
        count one half.

    Raises
    ------
    InvalidDataError
        The labels hold one class only or something else than 0 and 1, a score is NaN, or the lengths
        differ. For dask arrays all but the last are noticed when it is computed.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    >>> float(roc_auc(da.array([0, 1, 1]), da.array([2.0, 2.0, 3.0])))
    0.75
    """
    return _measure(labels, scores, of_runs.roc_auc)


def average_precision(labels: Any, scores: Any) -> Any:
    """Give the average precision, over all rows.

    It equals ``sklearn.metrics.average_precision_score`` up to rounding. Memory is as in `roc_auc`.

    Parameters
    ----------
    labels, scores
        As in `roc_auc`.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The mean over the anomalies of the precision among the rows that score at least as high.

    Raises
    ------
    InvalidDataError
        As in `roc_auc`.

    Examples
    --------
    >>> average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.8333333333333333
    """
    return _measure(labels, scores, of_runs.average_precision)


def _measure(labels: Any, scores: Any, measure: Measure) -> Any:
    truth = as_vector(labels, name="labels")
    checked = checked_scores(scores)
    if truth.shape != checked.shape:
        raise InvalidDataError(
            f"There are {truth.shape[0]} labels and {checked.shape[0]} scores. Give one of each for each row."
        )
    if not isinstance(truth, da.Array) and not isinstance(checked, da.Array):
        labelled = _with_labels(checked, truth, np.zeros(1, dtype=np.int64), block_id=(0,))
        return float(_measure_runs([_by_label(labelled)], measure=measure))
    checked = da.asarray(checked)
    labelled = da.map_blocks(
        _with_labels,
        checked,
        da.asarray(truth).rechunk(checked.chunks),
        block_starts(checked),
        dtype=_LABELLED,
        meta=np.empty(0, dtype=_LABELLED),
    )
    return da.reduction(
        labelled,
        chunk=_by_label,
        aggregate=partial(_measure_runs, measure=measure),
        axis=0,
        concatenate=False,
        # One task takes the runs of all blocks: merging some of them first would only copy them.
        split_every=max(2, labelled.numblocks[0]),
        dtype=np.float64,
        meta=np.empty((), dtype=np.float64),
    )


def _with_labels(
    scores: NDArray[np.float64], labels: NDArray[Any], starts: NDArray[np.int64], *, block_id: tuple[int]
) -> NDArray[Any]:
    strange = (labels != 0) & (labels != 1)
    if strange.any():
        row = int(starts[block_id[0]]) + int(strange.argmax())
        raise InvalidDataError(
            f"The label of row {row} is {labels[strange][0]}. Give 1 for anomalies and 0 for the other rows.",
            row=row,
        )
    labelled = np.empty(len(scores), dtype=_LABELLED)
    labelled["score"] = scores
    labelled["anomaly"] = labels
    return labelled


def _by_label(
    labelled: NDArray[Any],
    axis: Any = 0,  # noqa: ARG001  # dask's signature
    keepdims: bool = False,  # noqa: ARG001
    computing_meta: bool = False,
) -> Any:
    if computing_meta:
        # dask infers an array type from this call and cannot from a tuple.
        return labelled["score"]
    scores, anomaly = labelled["score"], labelled["anomaly"]
    return np.sort(scores[anomaly]), np.sort(scores[~anomaly])


def _measure_runs(
    runs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] | tuple[NDArray[np.float64], NDArray[np.float64]],
    measure: Measure,
    axis: Any = 0,  # noqa: ARG001  # dask's signature
    keepdims: bool = False,  # noqa: ARG001
) -> np.float64:
    # dask gives a single block bare.
    blocks = runs if isinstance(runs, list) else [runs]
    positives = np.sort(np.concatenate([anomalies for anomalies, _ in blocks]))
    return np.float64(measure(positives, (others for _, others in blocks)))
