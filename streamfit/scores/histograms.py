"""Histograms of scores, with the very counts and edges of ``numpy.histogram``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.sorted_runs import counts_below, extremes, weights_below
from streamfit.options import check_count
from streamfit.scores.blockwise import is_lazy, joined, per_block
from streamfit.scores.checked import checked_scores
from streamfit.scores.labelled import checked_weights, weights_of_block
from streamfit.scores.quantiles import sorted_weighted_blocks
from streamfit.scores.sorting import all_runs, sorted_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.scores.sorting import SortedBlock

__all__ = ["histogram"]

_Bounds = tuple[float, float]


def histogram(
    scores: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,  # noqa: A002  # numpy's name
    *,
    sample_weight: Any = None,
) -> tuple[Any, Any]:
    """Count the scores in bins.

    Counts and edges are those of ``numpy.histogram(scores, bins, range)`` of float64, Identical for any chunking; sums
    of weights are Equal. Where `bins` or `range` fix the edges, blocks are counted as they come; else they wait for
    the lowest and the highest score, sorted, on scratch where they are many.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Scores outside of the edges are not counted, infinite ones among them.
    bins : int or array-like of float, (n_bins + 1,), default=10
        Number of bins of equal width, or ascending edges.
    range : (float, float) or None, default=None
        Lowest and highest edge for a number of bins. None: the lowest and the highest score; 0 and 1 if there is none.
    sample_weight : dask.array.Array or array-like, (n_rows,), or None, default=None
        Weights of the rows, finite and at least 0.

    Returns
    -------
    counts : ndarray or dask.array.Array of int64, or float64 with weights, (n_bins,)
        Bins are closed on the left, the last one on both sides.
    edges : ndarray or dask.array.Array of float64, (n_bins + 1,)
        Edges of the bins.

    Raises
    ------
    InvalidDataError
        A score is NaN, a weight is negative or not finite, or, without `range`, a score is infinite.
    InvalidParameterError
        `bins` or `range` is none of the above, or there is a range beside edges.

    Examples
    --------
    >>> histogram([0.0, 1.0, 1.0, 4.0], bins=2)
    (array([3, 1]), array([0., 2., 4.]))
    >>> counts, edges = histogram(da.arange(10, chunks=3), bins=[0, 5, 9])
    >>> counts.compute()
    array([5, 5])
    """
    bins, bounds = _checked_bins(bins, range)
    checked = checked_scores(scores)
    weights = None if sample_weight is None else checked_weights(sample_weight, n_rows=checked.shape[0])
    lazy = is_lazy(checked, weights)
    if bounds is None and isinstance(bins, int) and lazy:
        blocks = sorted_blocks(checked) if weights is None else sorted_weighted_blocks(checked, weights)
        edges = joined(blocks, _edges_of_runs, arguments=(bins,), shape=(bins + 1,))
        name, dtype = (None, np.int64) if weights is None else ("weight", np.float64)
        return joined(blocks, _counts_of_runs, arguments=(edges, name), shape=(bins,), dtype=dtype), edges
    if isinstance(bins, int):
        if bounds is None:
            bounds = _bounds(checked) if len(checked) else (0.0, 1.0)
        edges = _edges(bins, bounds)
    else:
        edges = bins
    counts = per_block(_counts, checked, weights, arguments=(bins, bounds))
    dtype = np.int64 if weights is None else np.float64
    joint = joined(counts, _single, merge=np.add, shape=(len(edges) - 1,), dtype=dtype)
    return joint, da.from_array(edges, chunks=-1) if lazy else edges


def _checked_bins(bins: Any, bounds: Any) -> tuple[int | NDArray[np.float64], _Bounds | None]:
    if np.ndim(bins) == 0 and not isinstance(bins, str):
        bins = check_count("bins", bins, least=1)
        if bounds is None:
            return bins, None
        pair = np.asarray(bounds)
        if pair.shape != (2,) or pair.dtype.kind not in "iuf" or not np.isfinite(pair).all() or pair[0] > pair[1]:
            raise InvalidParameterError(f"range must be two finite numbers, the lower one first, got {bounds!r}.")
        return bins, (float(pair[0]), float(pair[1]))
    edges = np.asarray(bins)
    # Edges may be infinite: the outermost bins are open then.
    if edges.ndim != 1 or edges.dtype.kind not in "iuf" or len(edges) < 2 or not (edges[1:] >= edges[:-1]).all():
        raise InvalidParameterError(f"bins must be a number of bins or at least 2 ascending edges, got {bins!r}.")
    if bounds is not None:
        raise InvalidParameterError("range is for a number of bins, and bins are edges here. Leave range out.")
    return edges.astype(np.float64), None


def _edges(n_bins: int, bounds: _Bounds) -> NDArray[np.float64]:
    if not np.isfinite(bounds[1] - bounds[0]):
        raise InvalidDataError(
            f"The scores reach from {bounds[0]} to {bounds[1]}, which cannot be cut into bins of equal width. Give a "
            "range, or edges; nonfinite(scores) names the rows with infinite scores."
        )
    try:
        edges: NDArray[np.float64] = np.histogram_bin_edges(np.empty(0), bins=n_bins, range=bounds)
    except ValueError as error:
        raise InvalidDataError(
            f"There are no {n_bins} different bins between {bounds[0]} and {bounds[1]}. Use fewer bins."
        ) from error
    return edges


def _bounds(scores: NDArray[np.float64]) -> _Bounds:
    return float(scores.min()), float(scores.max())


def _counts(
    scores: NDArray[np.float64],
    weights: NDArray[Any] | None,
    start: int,
    bins: int | NDArray[np.float64],
    bounds: _Bounds | None,
) -> NDArray[Any]:
    amounts = None if weights is None else weights_of_block(weights, start)
    return np.histogram(scores, bins, bounds, weights=amounts)[0]


def _single(counts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return counts[0]


def _edges_of_runs(blocks: Sequence[SortedBlock], n_bins: int) -> NDArray[np.float64]:
    runs, _ = all_runs(blocks)
    return _edges(n_bins, extremes(runs) if runs else (0.0, 1.0))


def _counts_of_runs(blocks: Sequence[SortedBlock], edges: NDArray[np.float64], weight: str | None) -> NDArray[Any]:
    # NumPy computes a bin from the range and lets the edges correct it, so that the edges alone decide.
    runs, _ = all_runs(blocks)
    below: NDArray[Any]
    if weight is None:
        below = counts_below(runs, edges, side="left")
        below[-1] = counts_below(runs, edges[-1:], side="right")[0]
    else:
        below = weights_below(runs, edges, side="left", name=weight)
        below[-1] = weights_below(runs, edges[-1:], side="right", name=weight)[0]
    return np.diff(below)
