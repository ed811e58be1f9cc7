"""One global threshold, and labels from it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.selection import interpolate, order_statistics, percentile, percentile_ranks
from streamfit.options import check_number
from streamfit.scores.checked import checked_scores, checked_threshold, require_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["labels", "threshold"]

_SELECTION_NBYTES = 64 * 2**20
_MERGED_AT_ONCE = 4


def threshold(scores: Any, contamination: float) -> Any:
    """Give the score above which the share `contamination` of the rows lies, as PyOD does.

    It is ``numpy.percentile(scores, 100 * (1 - contamination))``, bit for bit, for any chunking. The scores of
    a dask array are read once and the largest ones held: some ten times ``8 * contamination * n_rows`` bytes
    while pieces are merged, and never more than all scores, 8 bytes a row.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous. Infinities count as the largest and smallest scores.
    contamination : float
        Share of the rows to flag, above 0 and at most 0.5.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The threshold.

    Raises
    ------
    InvalidDataError
        There is no score, a score is NaN, or the threshold would lie at an infinity.
    InvalidParameterError
        `contamination` is outside its range.

    Examples
    --------
    >>> threshold([1.0, 2.0, 3.0, 4.0], contamination=0.25)
    3.25
    >>> threshold([7.0], contamination=0.5)
    7.0
    >>> lazy = threshold(da.arange(5, chunks=2), contamination=0.1)
    >>> float(lazy), float(np.percentile(np.arange(5), 90))
    (3.6, 3.6)
    """
    if not 0 < check_number("contamination", contamination, least=0) <= 0.5:
        raise InvalidParameterError(f"contamination must be above 0 and at most 0.5, got {contamination}.")
    checked = checked_scores(scores)
    require_rows(checked, purpose="A threshold")
    n_rows = checked.shape[0]
    q = 100 * (1 - contamination)
    if not isinstance(checked, da.Array):
        return _finite(percentile(lambda: [checked], n_rows, q, max_nbytes=_SELECTION_NBYTES))
    lower, upper, weight = percentile_ranks(n_rows, q)
    n_kept = n_rows - lower
    return da.reduction(
        checked,
        chunk=partial(_largest_of_block, n=n_kept),
        combine=partial(_largest_of_pieces, n=n_kept),
        aggregate=partial(_between_smallest, n=n_kept, second=upper - lower, weight=weight),
        axis=0,
        concatenate=False,
        split_every=_MERGED_AT_ONCE,
        dtype=np.float64,
        meta=np.empty((), dtype=np.float64),
    )


def labels(scores: Any, threshold: Any) -> Any:
    """Give 1 for scores above the threshold and 0 for the others.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous.
    threshold : float or dask.array.Array of shape ()
        A score equal to it is not flagged, as in PyOD.

    Returns
    -------
    ndarray or dask.array.Array of int64, (n_rows,)
        The labels, in blocks like those of `scores`.

    Raises
    ------
    InvalidDataError
        A score is NaN.
    InvalidParameterError
        The threshold is NaN or no number; a lazy NaN is noticed when it is computed.

    Examples
    --------
    >>> labels([1.0, 2.0, np.inf], threshold=2.0)
    array([0, 0, 1])
    """
    return (checked_scores(scores) > checked_threshold(threshold)).astype(np.int64)


def _largest_of_block(
    block: NDArray[np.float64],
    *,
    n: int,
    axis: Any,  # noqa: ARG001  # dask's signature
    keepdims: bool,  # noqa: ARG001
    computing_meta: bool = False,
) -> Any:
    # dask infers an array type from this call and cannot from a list.
    return block if computing_meta else _largest([block], n)


def _largest_of_pieces(groups: Any, *, n: int, axis: Any, keepdims: bool) -> list[NDArray[np.float64]]:  # noqa: ARG001  # dask's signature
    return _largest(_flat(groups), n)


def _between_smallest(groups: Any, *, n: int, second: int, weight: float, axis: Any, keepdims: bool) -> np.float64:  # noqa: ARG001  # dask's signature
    pieces = _flat(groups)
    n_values = sum(map(len, pieces))
    lower, upper = order_statistics(
        lambda: pieces, [n_values - n, n_values - n + second], n=n_values, max_nbytes=_SELECTION_NBYTES
    )
    return np.float64(_finite(interpolate(float(lower), float(upper), weight)))


def _largest(pieces: list[NDArray[np.float64]], n: int) -> list[NDArray[np.float64]]:
    n_values = sum(map(len, pieces))
    # Dropping values costs passes over the others, so it waits until half of them go.
    if n_values < 2 * n:
        return pieces
    (cut,) = order_statistics(lambda: pieces, [n_values - n], n=n_values, max_nbytes=_SELECTION_NBYTES)
    above = [piece[piece > cut] for piece in pieces]
    return [*above, np.full(n - sum(map(len, above)), cut)]


def _flat(groups: Any) -> list[NDArray[np.float64]]:
    # dask gives a single group bare.
    return [piece for group in groups for piece in (group if isinstance(group, list) else [group])]


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise InvalidDataError(
            f"The threshold would be {value}: too many scores are infinite. Look at the rows with infinite "
            "scores, or change contamination."
        )
    return value
