"""How well scores rank labelled anomalies before the rest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import streamfit.maths.ranking as of_pieces
from streamfit.maths.ranked_values import distinct_values
from streamfit.maths.sorted_runs import order_statistics_of_runs, positions
from streamfit.options import check_count
from streamfit.scores.blockwise import joined
from streamfit.scores.labelled import check_undefined, no_value
from streamfit.scores.sorted_classes import n_rows_of, one_class, sorted_labelled
from streamfit.scores.sorting import all_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamfit.maths.sorted_runs import SortedRun
    from streamfit.scores.labelled import MissingLabels, Undefined
    from streamfit.scores.sorting import SortedBlock

__all__ = ["average_precision", "lift", "precision_at_k", "recall_at_k", "roc_auc"]


def roc_auc(
    labels: Any,
    scores: Any,
    *,
    sample_weight: Any = None,
    missing: MissingLabels = "error",
    undefined: Undefined = "error",
) -> Any:
    """Give the area under the receiver operating characteristic, over all rows.

    It is Equal to ``sklearn.metrics.roc_auc_score``, and without weights Bit-equal for any chunking. Each block is
    sorted by itself, on scratch where all rows are many, and the order of all rows is walked over a piece at a time:
    memory for a few blocks and some 100 MB, whatever the number of rows.

    Parameters
    ----------
    labels : dask.array.Array or array-like, (n_rows,)
        1 or True for anomalies, 0 or False for the other rows, NaN where nobody knows.
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous. Infinities are ordered like numbers.
    sample_weight : dask.array.Array or array-like, (n_rows,), or None, default=None
        Weights of the rows, finite and at least 0.
    missing : {"error", "drop"}, default="error"
        What to do with rows without a label.
    undefined : "error" or float, default="error"
        What to give where there are no anomalies, or nothing else: an error, or this number, such as NaN.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The share of pairs of an anomaly and another row in which the anomaly has the higher score; ties
        count one half.

    Raises
    ------
    InvalidDataError
        The labels hold one class only or something else than 0 and 1, a score is NaN, a weight is not finite or
        negative, or the lengths differ. For dask arrays all but the last are noticed when it is computed.
    InvalidParameterError
        `missing` or `undefined` is none of the above.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    >>> import dask.array as da
    >>> float(roc_auc(da.array([0, 1, 1]), da.array([2.0, 2.0, 3.0])))
    0.75
    >>> roc_auc([0, 0], [1.0, 2.0], undefined=math.nan)
    nan
    """
    blocks = sorted_labelled(labels, scores, sample_weight, missing)
    weight = None if sample_weight is None else "weight"
    return joined(blocks, _roc_auc, arguments=(weight, check_undefined(undefined)))


def average_precision(
    labels: Any,
    scores: Any,
    *,
    sample_weight: Any = None,
    missing: MissingLabels = "error",
    undefined: Undefined = "error",
) -> Any:
    """Give the average precision, over all rows.

    It is Equal to ``sklearn.metrics.average_precision_score``, and without weights Bit-equal for any chunking. Memory
    is as in `roc_auc`; computed together, both sort the rows once.

    Parameters
    ----------
    labels, scores, sample_weight, missing, undefined
        As in `roc_auc`.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The mean over the anomalies of the precision among the rows that score at least as high.

    Raises
    ------
    InvalidDataError, InvalidParameterError
        As in `roc_auc`.

    Examples
    --------
    >>> average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.8333333333333333
    """
    blocks = sorted_labelled(labels, scores, sample_weight, missing)
    weight = None if sample_weight is None else "weight"
    return joined(blocks, _average_precision, arguments=(weight, check_undefined(undefined)))


def precision_at_k(
    labels: Any, scores: Any, k: int, *, missing: MissingLabels = "error", undefined: Undefined = "error"
) -> Any:
    """Give the share of anomalies among the `k` rows with the highest scores.

    Where rows are tied with the k-th one, it is the mean over all orders of theirs (McSherry and Najork, 2008, ECIR),
    so that it depends on no order of the rows. Bit-equal for any chunking; memory as in `roc_auc`.

    Parameters
    ----------
    labels, scores, missing
        As in `roc_auc`.
    k : int
        Rows to look at, at least 1; all of them where there are fewer.
    undefined : "error" or float, default="error"
        What to give where no row has a label.

    Returns
    -------
    float, or dask.array.Array of shape ()
        0 to 1.

    Raises
    ------
    InvalidDataError, InvalidParameterError
        As in `roc_auc`; or `k` is below 1, or no integer.

    Examples
    --------
    >>> precision_at_k([0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8], k=2), precision_at_k([0, 1], [3.0, 3.0], k=1)
    (1.0, 0.5)
    """
    return _at_k(labels, scores, k, _precision, missing, undefined)


def recall_at_k(
    labels: Any, scores: Any, k: int, *, missing: MissingLabels = "error", undefined: Undefined = "error"
) -> Any:
    """Give the share of all anomalies that are among the `k` rows with the highest scores.

    Ties, memory and rung are those of `precision_at_k`. It has no value without anomalies.

    Parameters
    ----------
    labels, scores, k, missing
        As in `precision_at_k`.
    undefined : "error" or float, default="error"
        What to give where there are no anomalies.

    Returns
    -------
    float, or dask.array.Array of shape ()
        0 to 1.

    Raises
    ------
    InvalidDataError, InvalidParameterError
        As in `precision_at_k`; or there are no anomalies.

    Examples
    --------
    >>> recall_at_k([0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8], k=1)
    0.5
    """
    return _at_k(labels, scores, k, _recall, missing, undefined)


def lift(labels: Any, scores: Any, k: int, *, missing: MissingLabels = "error", undefined: Undefined = "error") -> Any:
    """Say how many times as frequent anomalies are among the `k` rows with the highest scores as among all rows.

    Ties, memory and rung are those of `precision_at_k`. It has no value without anomalies.

    Parameters
    ----------
    labels, scores, k, missing, undefined
        As in `recall_at_k`.

    Returns
    -------
    float, or dask.array.Array of shape ()
        0 or more; 1 where the order says nothing.

    Raises
    ------
    InvalidDataError, InvalidParameterError
        As in `recall_at_k`.

    Examples
    --------
    >>> lift([0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8], k=2)
    2.0
    """
    return _at_k(labels, scores, k, _lift, missing, undefined)


def _roc_auc(blocks: Sequence[SortedBlock], weight: str | None, policy: Undefined) -> float:
    groups = all_runs(blocks)
    value = of_pieces.roc_auc(distinct_values(groups, weight=weight))
    return no_value(policy, one_class(groups)) if math.isnan(value) else value


def _average_precision(blocks: Sequence[SortedBlock], weight: str | None, policy: Undefined) -> float:
    groups = all_runs(blocks)
    if not groups[0]:
        return no_value(policy, one_class(groups))
    value = of_pieces.average_precision(distinct_values(groups, weight=weight, descending=True))
    return no_value(policy, one_class(groups)) if math.isnan(value) else value


# -- at k --------------------------------------------------------------------------------------------


def _at_k(
    labels: Any,
    scores: Any,
    k: int,
    measure: Callable[[float, int, int, int], float],
    missing: MissingLabels,
    undefined: Undefined,
) -> Any:
    k = check_count("k", k, least=1)
    blocks = sorted_labelled(labels, scores, None, missing)
    return joined(blocks, _measure_at_k, arguments=(k, measure, check_undefined(undefined)))


def _measure_at_k(
    blocks: Sequence[SortedBlock], k: int, measure: Callable[[float, int, int, int], float], policy: Undefined
) -> float:
    others, anomalies = all_runs(blocks)
    n_rows, n_anomalies = n_rows_of(others) + n_rows_of(anomalies), n_rows_of(anomalies)
    if not n_rows:
        return no_value(policy, "No row has a label. Give labels of some rows.")
    if not n_anomalies and measure is not _precision:
        return no_value(policy, one_class((others, anomalies)))
    k = min(k, n_rows)
    (cut,) = order_statistics_of_runs([*others, *anomalies], [n_rows - k])
    above, tied = zip(*(_above_and_at(runs, cut) for runs in (others, anomalies)), strict=True)
    return measure(of_pieces.precision_of_tied_rows(k, above=above, tied=tied), k, n_rows, n_anomalies)


def _above_and_at(runs: Sequence[SortedRun], value: float) -> tuple[int, int]:
    left, right = (int(positions(runs, value, side=side).sum()) for side in ("left", "right"))
    return n_rows_of(runs) - right, right - left


def _precision(precision: float, _k: int, _n_rows: int, _n_anomalies: int) -> float:
    return precision


def _recall(precision: float, k: int, _n_rows: int, n_anomalies: int) -> float:
    return precision * k / n_anomalies


def _lift(precision: float, _k: int, n_rows: int, n_anomalies: int) -> float:
    return precision * n_rows / n_anomalies
