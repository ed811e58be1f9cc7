"""How far two samples of scores lie apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import kstwo

from streamfit.maths.selection import interpolate_extended, quantile_ranks
from streamfit.maths.sorted_runs import key_ranges, order_statistics_of_runs, positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from streamfit.maths.ranked_values import RankedValues
    from streamfit.maths.sorted_runs import SortedRun

__all__ = ["bin_counts", "ks_pvalue", "ks_statistic", "ks_statistics", "population_stability", "quantile_edges"]


def ks_statistic(ascending: Iterable[RankedValues], n_first: int, n_second: int) -> float:
    """Give the largest difference of the shares of two samples that lie at or below a value.

    Parameters
    ----------
    ascending : iterable of RankedValues
        Distinct values, the lowest first; counts of the first sample, then of the second.
    n_first, n_second : int
        Rows of the samples, at least 1.

    Examples
    --------
    >>> from streamfit.maths.ranked_values import RankedValues
    >>> piece = RankedValues(np.array([1.0, 2.0, 3.0]), (np.array([1, 1, 0]), np.array([0, 1, 1])))
    >>> ks_statistic([piece], 2, 2)
    0.5
    """
    first = second = 0
    largest = 0.0
    for piece in ascending:
        of_first = np.cumsum(piece.amounts[0]) + first
        of_second = np.cumsum(piece.amounts[1]) + second
        first, second = int(of_first[-1]), int(of_second[-1])
        # As scipy does. Products with the other number of rows would be exact, until they leave int64 at 2^63.
        largest = max(largest, float(np.abs(of_first / n_first - of_second / n_second).max()))
    return largest


def ks_pvalue(statistic: float, n_first: int, n_second: int) -> float:
    """Give the probability of so large a statistic where both samples are of one distribution, asymptotically.

    It is ``scipy.stats.ks_2samp(…, method="asymp").pvalue``, and 1 of one row against one, where that is NaN: they
    say nothing.

    Examples
    --------
    >>> round(ks_pvalue(0.5, 20, 20), 4), ks_pvalue(1.0, 1, 1)
    (0.0078, 1.0)
    """
    larger, smaller = float(max(n_first, n_second)), float(min(n_first, n_second))
    n_both = np.round(larger * smaller / (larger + smaller))
    return float(np.clip(kstwo.sf(statistic, n_both), 0, 1)) if n_both else 1.0


def ks_statistics(reference: Sequence[SortedRun], parts: Sequence[Sequence[SortedRun]]) -> NDArray[np.float64]:
    """Give the statistic of each of many samples against one, in one walk over all values.

    Parameters
    ----------
    reference : sequence of SortedRun
        The sample that all are compared with, not empty.
    parts : sequence of sequences of SortedRun
        The samples.

    Returns
    -------
    ndarray of shape (n_parts,)
        Statistics; NaN of an empty sample.
    """
    n_reference = sum(run.n_values for run in reference)
    part_rows = [sum(run.n_values for run in runs) for runs in parts]
    owners = [None] * len(reference) + [part for part, runs in enumerate(parts) for _ in runs]
    runs = [*reference, *(run for part in parts for run in part)]
    below = [0] * len(parts)
    largest = [0.0] * len(parts)
    reference_below = 0
    for piece in key_ranges(runs):
        bounds = list(zip(piece.starts.tolist(), piece.stops.tolist(), strict=True))
        n_there = sum(stop - start for start, stop in bounds[: len(reference)])
        known: NDArray[Any] | None = None
        if piece.value is None:
            slices = [run.read(*bound) for run, bound in zip(reference, bounds, strict=False)]
            known = np.sort(np.concatenate(slices))
        members: dict[int, list[NDArray[Any]]] = {}
        counts: dict[int, int] = {}
        for run, (start, stop), part in zip(runs, bounds, owners, strict=True):
            if part is not None and start < stop:
                counts[part] = counts.get(part, 0) + stop - start
                if known is not None:
                    members.setdefault(part, []).append(run.read(start, stop))
        for part, n_members in counts.items():
            if known is None:
                at = np.array([0, n_members])
                reference_at = np.array([0, n_there])
            else:
                values = np.sort(np.concatenate(members[part]))
                # Where the sample steps: the shares right before each step and right behind it. Between steps only the
                # other one rises, so that nothing in between is farther.
                at = np.stack([np.searchsorted(values, values, side=side) for side in ("left", "right")])
                reference_at = np.stack([np.searchsorted(known, values, side=side) for side in ("left", "right")])
            difference = (at + below[part]) / part_rows[part] - (reference_at + reference_below) / n_reference
            largest[part] = max(largest[part], float(np.abs(difference).max()))
            below[part] += n_members
        reference_below += n_there
    return np.array([top if n else math.nan for top, n in zip(largest, part_rows, strict=True)])


def quantile_edges(runs: Sequence[SortedRun], n_bins: int) -> NDArray[np.float64]:
    """Give the distinct inner edges of bins with an equal share of the values each, at most ``n_bins - 1``."""
    n = sum(run.n_values for run in runs)
    ranks = [quantile_ranks(n, number / n_bins) for number in range(1, n_bins)]
    flat = [rank for lower, upper, _ in ranks for rank in (lower, upper)]
    found = order_statistics_of_runs(runs, flat).reshape(-1, 2)
    edges = [
        interpolate_extended(float(low), float(high), weight)
        for (low, high), (_, _, weight) in zip(found, ranks, strict=True)
    ]
    return np.unique(edges)


def bin_counts(runs: Sequence[SortedRun], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count values in the bins up to and with each edge, and above the last one, ``(n_edges + 1,)``."""
    n = sum(run.n_values for run in runs)
    below = [positions(runs, edge, side="right").sum() for edge in edges] if runs else [0] * len(edges)
    return np.diff([0, *below, n])


def population_stability(reference: NDArray[np.int64], current: NDArray[np.int64], *, floor: float) -> float:
    """Give the population stability index of two histograms over the same bins.

    Parameters
    ----------
    reference, current : ndarray of int, (n_bins,)
        Counts.
    floor : float
        Smaller shares are taken for this one: an empty bin would make the index infinite.

    References
    ----------
    Siddiqi, 2006, Credit risk scorecards.

    Examples
    --------
    >>> population_stability(np.array([5, 5]), np.array([5, 5]), floor=1e-4)
    0.0
    >>> population_stability(np.array([5, 5]), np.array([8, 2]), floor=1e-4)
    0.415...
    """
    expected, found = (np.maximum(counts / counts.sum(), floor) for counts in (reference, current))
    return float(((found - expected) * np.log(found / expected)).sum())
