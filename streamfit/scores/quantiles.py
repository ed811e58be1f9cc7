"""How scores are distributed: quantiles and shares below a value, exact over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.ranked_values import distinct_values
from streamfit.maths.selection import interpolate_extended, order_statistics, quantile_ranks
from streamfit.maths.sorted_runs import counts_below, order_statistics_of_runs, weights_below
from streamfit.scores.blockwise import is_lazy, joined, per_block
from streamfit.scores.checked import checked_scores, require_rows
from streamfit.scores.labelled import checked_weights, weights_of_block
from streamfit.scores.sorting import SELECTION_NBYTES, all_runs, sort_block, sorted_blocks, sorting_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.run.kept_arrays import PlannedScratch
    from streamfit.scores.blockwise import Blocks
    from streamfit.scores.sorting import SortedBlock

__all__ = ["ecdf", "quantile", "sorted_weighted_blocks"]

_SLICE_ROWS = 1 << 18
"""Scores that are counted at a time."""


def quantile(scores: Any, q: Any, *, sample_weight: Any = None) -> Any:
    """Give quantiles of all scores, exactly and in bounded memory.

    Without weights it is ``numpy.quantile(scores, q)`` of float64, Bit-equal for any chunking. Where one of the two
    neighbours is infinite NumPy may give NaN, and this the limit. With weights it is ``numpy.quantile(scores, q,
    weights=sample_weight, method="inverted_cdf")``: the smallest score at or below which lies the share `q` of the
    weight. Identical where the weights add up without rounding, as whole numbers do; else a share that is met to the
    last bit may give the neighbouring score.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Infinities count as the largest and smallest scores.
    q : float or array-like of any shape
        Shares of the rows, 0 to 1 inclusive.
    sample_weight : dask.array.Array or array-like, (n_rows,), or None, default=None
        Weights of the rows, finite and at least 0.

    Returns
    -------
    float, ndarray or dask.array.Array of float64, the shape of `q`
        The quantiles.

    Raises
    ------
    InvalidDataError
        There is no score, a score is NaN, a quantile would lie between the two infinities, or the weights are
        negative, not finite, or all 0.
    InvalidParameterError
        `q` is outside its range.

    Examples
    --------
    >>> quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    >>> quantile([1.0, 2.0, 4.0], [0.5, 1.0], sample_weight=[3, 1, 0])
    array([1., 2.])
    """
    shares = _numbers("q", q)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise InvalidParameterError(f"q must be between 0 and 1, got {q!r}.")
    checked = checked_scores(scores)
    require_rows(checked, purpose="A quantile")
    if sample_weight is not None:
        blocks = sorted_weighted_blocks(checked, sample_weight)
        return _plain(joined(blocks, _weighted_quantiles, arguments=(shares,), shape=shares.shape))
    if is_lazy(checked):
        return joined(sorted_blocks(checked), _quantiles_of_runs, arguments=(shares,), shape=shares.shape)
    places = [quantile_ranks(len(checked), share) for share in shares.ravel().tolist()]
    ranks = [rank for lower, upper, _ in places for rank in (lower, upper)]
    found = order_statistics(lambda: [checked], ranks, n=len(checked), max_nbytes=SELECTION_NBYTES)
    return _plain(_interpolated(found, places).reshape(shares.shape))


def ecdf(scores: Any, at: Any, *, sample_weight: Any = None) -> Any:
    """Give the share of the rows, or of their weight, whose score is at most a value.

    It is ``scipy.stats.ecdf(scores).cdf.evaluate(at)``, Bit-equal for any chunking; Equal with weights.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Infinities count as the largest and smallest scores.
    at : float, array-like or dask.array.Array, of any shape
        Values; lazy ones, such as a threshold of these very scores, are waited for.
    sample_weight : dask.array.Array or array-like, (n_rows,), or None, default=None
        Weights of the rows, finite and at least 0.

    Returns
    -------
    float, ndarray or dask.array.Array of float64, the shape of `at`
        The shares, 0 to 1.

    Raises
    ------
    InvalidDataError
        There is no score, a score is NaN, or the weights are negative, not finite, or all 0.
    InvalidParameterError
        A value is NaN or no number; a lazy NaN is noticed when it is computed.

    Examples
    --------
    >>> ecdf([1.0, 2.0, 4.0, 4.0], 2.0)
    0.5
    >>> ecdf([1.0, 2.0, 4.0], [0.0, 1.0, 9.0], sample_weight=[3, 1, 0])
    array([0.  , 0.75, 1.  ])
    """
    waits = is_dask_collection(at)
    if waits and not isinstance(at, da.Array):
        raise InvalidParameterError(f"at must be numbers or a dask array of them, got {type(at).__name__}.")
    # In one block: dask hands an array of several over to a delayed call by its first one only.
    values = at.rechunk(-1) if waits else _without_nan(_numbers("at", at))
    checked = checked_scores(scores)
    require_rows(checked, purpose="A share")
    weights = None if sample_weight is None else checked_weights(sample_weight, n_rows=checked.shape[0])
    if waits:
        # They may come from these very scores, which wait for them sorted and not in memory.
        blocks = sorted_blocks(checked) if weights is None else sorted_weighted_blocks(checked, weights)
        name = None if weights is None else "weight"
        return joined(blocks, _shares_of_runs, arguments=(values, name), shape=values.shape)
    counts = per_block(_amounts_at_most, checked, weights, arguments=(np.unique(values),))
    return _plain(joined(counts, _shares, arguments=(values,), merge=np.add, shape=values.shape))


def sorted_weighted_blocks(scores: Any, sample_weight: Any) -> Blocks:
    """Sort each block of scores, with its weights beside them."""
    weights = checked_weights(sample_weight, n_rows=scores.shape[0])
    arguments = sorting_arguments(scores, None, weights)
    blocks: Blocks = per_block(_sort_weighted, scores, weights, arguments=arguments)
    return blocks


def _sort_weighted(
    scores: NDArray[np.float64], weights: NDArray[Any], start: int, scratch: PlannedScratch | None, page_rows: int
) -> SortedBlock:
    return sort_block(scores, None, weights_of_block(weights, start), start, scratch, page_rows)


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        raise InvalidParameterError(f"{name} must be numbers, got {values!r}.")
    return numbers.astype(np.float64)


def _without_nan(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.isnan(values).any():
        raise InvalidParameterError("at must be numbers, got NaN. Compute it from scores without NaN.")
    return values


def _plain(result: Any) -> Any:
    """Give a float for an array without dimensions, as users of NumPy arrays expect."""
    return float(result) if not is_dask_collection(result) and np.ndim(result) == 0 else result


# -- quantiles ---------------------------------------------------------------------------------------


def _quantiles_of_runs(blocks: Sequence[SortedBlock], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    runs, _ = all_runs(blocks)
    n_rows = sum(run.n_values for run in runs)
    places = [quantile_ranks(n_rows, share) for share in shares.ravel().tolist()]
    found = order_statistics_of_runs(runs, [rank for lower, upper, _ in places for rank in (lower, upper)])
    quantiles: NDArray[np.float64] = _interpolated(found, places).reshape(shares.shape)
    return quantiles


def _interpolated(found: NDArray[np.float64], places: Sequence[tuple[int, int, float]]) -> NDArray[np.float64]:
    # Added to 0.0 a zero has the sign that it has for any chunking.
    pairs = (found.reshape(-1, 2) + 0.0).tolist()
    return np.array(
        [
            interpolate_extended(lower, upper, weight)
            for (lower, upper), (_, _, weight) in zip(pairs, places, strict=True)
        ]
    )


def _weighted_quantiles(blocks: Sequence[SortedBlock], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    runs, _ = all_runs(blocks)
    total = _total([float(run.read(0, run.n_values, name="weight").sum()) for run in runs])
    wanted, places = np.unique(shares, return_inverse=True)
    found = np.empty(len(wanted))
    done, weight, highest = 0, 0.0, np.nan
    for piece in distinct_values([runs], weight="weight"):
        counted = piece.amounts[0] > 0
        if not counted.any():
            continue
        values = piece.values[counted]
        reached = weight + np.cumsum(piece.amounts[0][counted])
        weight, highest = float(reached[-1]), float(values[-1])
        at = np.searchsorted(reached / total, wanted[done:], side="left")
        inside = at[at < len(reached)]
        found[done : done + len(inside)] = values[inside]
        done += len(inside)
        if done == len(wanted):
            break
    # What rounding leaves over belongs to the highest score.
    found[done:] = highest
    return found[places].reshape(shares.shape) + 0.0


def _total(weights: Sequence[float]) -> float:
    total = float(np.sum(weights))
    if not 0 < total < np.inf:
        raise InvalidDataError(f"The weights add up to {total}. Give finite weights, and some rows a weight above 0.")
    return total


# -- shares below a value ----------------------------------------------------------------------------


def _amounts_at_most(
    scores: NDArray[np.float64], weights: NDArray[Any] | None, start: int, values: NDArray[np.float64]
) -> NDArray[Any]:
    """Give rows (or weight) up to each of some ascending values, and of all rows at the end, ``(n_values + 1,)``."""
    amounts = None if weights is None else weights_of_block(weights, start)
    total = np.zeros(len(values) + 1, dtype=np.int64 if amounts is None else np.float64)
    for first in range(0, len(scores), _SLICE_ROWS):
        rows = slice(first, first + _SLICE_ROWS)
        place = np.searchsorted(values, scores[rows], side="left")
        total += np.bincount(place, weights=None if amounts is None else amounts[rows], minlength=len(total))
    return np.cumsum(total)


def _shares(amounts: Sequence[NDArray[Any]], values: NDArray[np.float64]) -> NDArray[np.float64]:
    (found,) = amounts
    places = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    shares: NDArray[np.float64] = found[places] / _total([found[-1]])
    return shares


def _shares_of_runs(
    blocks: Sequence[SortedBlock], values: NDArray[np.float64], weight: str | None
) -> NDArray[np.float64]:
    runs, _ = all_runs(blocks)
    wanted, places = np.unique(_without_nan(_numbers("at", values)), return_inverse=True)
    found: NDArray[Any]
    if weight is None:
        found, total = counts_below(runs, wanted, side="right"), float(sum(run.n_values for run in runs))
    else:
        found = weights_below(runs, wanted, side="right", name=weight)
        total = float(weights_below(runs, np.array([np.inf]), side="right", name=weight)[0])
    return found[places].reshape(np.shape(values)) / _total([total])
