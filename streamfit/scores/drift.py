"""Whether scores of one part of the rows, or of another store, are distributed as the others are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import compute

from streamfit.errors import InvalidParameterError
from streamfit.maths.ranked_values import distinct_values
from streamfit.maths.two_samples import (
    bin_counts,
    ks_pvalue,
    ks_statistic,
    ks_statistics,
    population_stability,
    quantile_edges,
)
from streamfit.options import check_count, check_number
from streamfit.scores.blockwise import is_lazy, joined, together
from streamfit.scores.checked import block_starts, checked_scores, require_rows
from streamfit.scores.partitions import LazyTable, frame
from streamfit.scores.sorting import all_runs, sorted_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from streamfit.maths.sorted_runs import SortedRun

    SortedBlock = tuple[list[SortedRun], list[SortedRun]]

__all__ = ["KolmogorovSmirnov", "ks", "partition_drift", "psi"]

_FLOOR = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class KolmogorovSmirnov:
    """Result of a two-sample test; of lazy scores it holds two lazy numbers, that `compute` gives together."""

    statistic: Any
    """Largest difference of the shares of both samples at or below a score, 0 to 1."""
    pvalue: Any
    """Probability of so large a statistic where both are of one distribution, by its limit for many rows; 1 of one row
    against one."""

    def compute(self) -> KolmogorovSmirnov:
        """Give the same with numbers."""
        computed: tuple[KolmogorovSmirnov] = compute(self)
        return computed[0]


def ks(reference: Any, current: Any) -> KolmogorovSmirnov:
    """Compare two samples of scores by the statistic of Kolmogorov and Smirnov.

    The statistic is Equal to that of ``scipy.stats.ks_2samp``, the p-value to that of its ``method="asymp"``; the same
    bits for any chunking. Memory is that of `roc_auc`.

    Parameters
    ----------
    reference, current : dask.array.Array or array-like, (n_rows,)
        Scores of one detector for rows of two kinds, such as two stores; lengths may differ.

    Returns
    -------
    KolmogorovSmirnov
        Statistic and p-value, two-sided.

    Raises
    ------
    InvalidDataError
        A score is NaN, or there is none.

    Examples
    --------
    >>> ks([1.0, 2.0], [2.0, 3.0]).statistic
    0.5
    """
    blocks, n_blocks, (n_first, n_second) = _two(reference, current)
    statistic = joined(blocks, _ks_statistic, arguments=(n_blocks, n_first, n_second))
    if is_lazy(statistic):
        meta = np.empty((), dtype=np.float64)
        return KolmogorovSmirnov(
            statistic, statistic.map_blocks(_pvalue, n_first, n_second, dtype=np.float64, meta=meta)
        )
    return KolmogorovSmirnov(statistic, ks_pvalue(statistic, n_first, n_second))


def psi(reference: Any, current: Any, *, n_bins: int = 10, floor: float = _FLOOR) -> Any:
    """Give the population stability index of scores against a reference.

    The bins hold equal shares of the reference: their edges are its quantiles (``numpy.quantile``, Bit-equal), equal
    edges taken once. By custom .1 is called a small and .25 a large shift.

    Parameters
    ----------
    reference, current : dask.array.Array or array-like, (n_rows,)
        Scores of one detector for rows of two kinds; lengths may differ.
    n_bins : int, default=10
        Bins, at least 2.
    floor : float, default=0.0001
        Smaller shares of a bin are taken for this one: an empty bin would make the index infinite. Above 0, and at most
        the share ``1 / n_bins`` of a bin of the reference.

    Returns
    -------
    float, or dask.array.Array of shape ()
        Sum over the bins of ``(current share - reference share) * log(current share / reference share)``.

    Raises
    ------
    InvalidDataError
        A score is NaN, or there is none.
    InvalidParameterError
        `n_bins` or `floor` is outside its range.

    Examples
    --------
    >>> psi([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], n_bins=2)
    0.0
    """
    n_bins, floor = _check_bins(n_bins, floor)
    blocks, n_blocks, _ = _two(reference, current)
    return joined(blocks, _psi, arguments=(n_blocks, n_bins, floor))


def partition_drift(
    scores: Any, reference: Any = None, *, n_bins: int = 10, floor: float = _FLOOR
) -> pd.DataFrame | LazyTable:
    """Compare the scores of each partition with those of all rows, or with a reference.

    Counts are Identical, both measures Equal to `psi` and `ks` of a partition alone.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        One block is one partition; a NumPy array is a single one.
    reference : dask.array.Array or array-like, (n,), or None, default=None
        Scores to compare with; None: those of all partitions together.
    n_bins, floor
        As in `psi`.

    Returns
    -------
    pandas.DataFrame or LazyTable
        Columns ``first_row``, ``count``, ``psi`` and ``ks`` (the statistic of Kolmogorov and Smirnov), NaN for a
        partition without rows. The index numbers the partitions. Lazy where scores or reference are.

    Raises
    ------
    InvalidDataError
        A score is NaN, or there is none.
    InvalidParameterError
        `n_bins` or `floor` is outside its range.

    Examples
    --------
    >>> import dask.array as da
    >>> partition_drift(da.from_array(np.array([1.0, 2.0, 1.0, 9.0]), chunks=2), n_bins=2).compute()["ks"].tolist()
    [0.25, 0.25]
    """
    n_bins, floor = _check_bins(n_bins, floor)
    checked = checked_scores(scores)
    require_rows(checked, purpose="A comparison")
    first_rows = block_starts(checked) if is_lazy(checked) else np.zeros(1, dtype=np.int64)
    blocks = sorted_blocks(checked)
    n_parts = len(first_rows)
    if reference is not None:
        others = checked_scores(reference)
        require_rows(others, purpose="A comparison")
        blocks = together(blocks, sorted_blocks(others))
    dtype = np.dtype([("first_row", np.int64), ("count", np.int64), ("psi", np.float64), ("ks", np.float64)])
    arguments = (n_parts, tuple(first_rows.tolist()), n_bins, floor, dtype)
    records = joined(blocks, _drift_records, arguments=arguments, shape=(n_parts,), dtype=dtype)
    return LazyTable(records) if is_lazy(records) else frame([records])


def _check_bins(n_bins: int, floor: float) -> tuple[int, float]:
    n_bins, floor = check_count("n_bins", n_bins, least=2), check_number("floor", floor, least=1e-300)
    if floor > 1 / n_bins:
        raise InvalidParameterError(
            f"floor must be at most 1 / n_bins, the share of a bin of the reference, which is {1 / n_bins:g}; got "
            f"{floor!r}. Above it all bins would look equal. Choose a smaller floor, or fewer bins."
        )
    return n_bins, floor


def _two(reference: Any, current: Any) -> tuple[Any, int, tuple[int, int]]:
    checked = [checked_scores(scores) for scores in (reference, current)]
    for scores in checked:
        require_rows(scores, purpose="A comparison")
    blocks = together(*map(sorted_blocks, checked))
    n_blocks = checked[0].numblocks[0] if is_lazy(checked[0]) else 1
    return blocks, n_blocks, (checked[0].shape[0], checked[1].shape[0])


def _runs(blocks: Sequence[SortedBlock]) -> list[SortedRun]:
    return all_runs(blocks)[0]


def _ks_statistic(blocks: Sequence[SortedBlock], n_blocks: int, n_first: int, n_second: int) -> float:
    return ks_statistic(distinct_values([_runs(blocks[:n_blocks]), _runs(blocks[n_blocks:])]), n_first, n_second)


def _pvalue(statistic: Any, n_first: int, n_second: int) -> np.float64:
    return np.float64(ks_pvalue(float(statistic), n_first, n_second))


def _psi(blocks: Sequence[SortedBlock], n_blocks: int, n_bins: int, floor: float) -> float:
    reference, current = _runs(blocks[:n_blocks]), _runs(blocks[n_blocks:])
    edges = quantile_edges(reference, n_bins)
    return population_stability(bin_counts(reference, edges), bin_counts(current, edges), floor=floor)


def _drift_records(
    blocks: Sequence[SortedBlock],
    n_parts: int,
    first_rows: tuple[int, ...],
    n_bins: int,
    floor: float,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    parts = [runs for runs, _ in blocks[:n_parts]]
    reference = _runs(blocks[n_parts:] or blocks)
    edges = quantile_edges(reference, n_bins)
    expected = bin_counts(reference, edges)
    counts = [bin_counts(runs, edges) for runs in parts]
    records = np.empty(n_parts, dtype=dtype)
    records["first_row"] = first_rows
    records["count"] = [count.sum() for count in counts]
    records["psi"] = [population_stability(expected, count, floor=floor) if count.any() else np.nan for count in counts]
    records["ks"] = ks_statistics(reference, parts)
    return records
