"""One order over values that lie in many sorted runs, larger than memory: ranks, counts, and their distinct values.

A run keeps one value of each page in memory, its fences. They tell within a page where any value stands, so that a
position costs one read of a page, and they cut all runs at once into ranges of values that fit in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np

from streamfit.errors import InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "RANGE_VALUES",
    "KeyRange",
    "SortedRun",
    "ValueReader",
    "counts_below",
    "extremes",
    "key_ranges",
    "order_statistics_of_runs",
    "positions",
    "weights_below",
]

Side = Literal["left", "right"]

RANGE_VALUES = 1 << 20
"""Values of all runs that are read at a time, about: 8 MiB an array of them."""


class ValueReader(Protocol):
    """Where the values of runs lie."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Read a part of an array."""


@dataclass(frozen=True, slots=True, eq=False)
class SortedRun:
    """Ascending values without NaN, with companions in the same order such as weights, under names of their own.

    Examples
    --------
    >>> from streamfit.run.kept_arrays import KeptArrays
    >>> values = np.array([1.0, 2.0, 2.0, 5.0])
    >>> run = SortedRun.of(KeptArrays.keep({"score": values}, scratch=None), "score", values, start=0, page_rows=2)
    >>> run.position(2.0, side="left"), run.position(2.0, side="right"), run.position(9.0, side="left")
    (1, 3, 4)
    """

    arrays: ValueReader
    """Holds the values, and the companions."""
    name: str
    """Name of the values among the arrays."""
    start: int
    """Where the run begins in each array."""
    n_values: int
    """Length of the run."""
    page_rows: int
    """Values of a page."""
    fences: NDArray[Any]
    """First value of each page, ``(n_pages,)``."""

    @classmethod
    def of(cls, arrays: ValueReader, name: str, values: NDArray[Any], *, start: int, page_rows: int) -> Self:
        """Describe `values`, which lie in an array from `start` on."""
        # A copy: a view would hold all values.
        return cls(arrays, name, start, len(values), page_rows, values[::page_rows].copy())

    def read(self, start: int, stop: int, *, name: str | None = None) -> NDArray[Any]:
        """Read places `start` (inclusive) to `stop` (exclusive) of the run, of the values or of a companion."""
        return self.arrays.read(name or self.name, self.start + start, self.start + stop)

    def position(self, value: Any, *, side: Side) -> int:
        """Count the values below `value` (left), or not above it (right)."""
        page = int(np.searchsorted(self.fences, value, side=side)) - 1
        if page < 0:
            return 0
        start = page * self.page_rows
        values = self.read(start, min(start + self.page_rows, self.n_values))
        return start + int(np.searchsorted(values, value, side=side))


@dataclass(frozen=True, slots=True, eq=False)
class KeyRange:
    """Places of all runs whose values lie between two cuts."""

    starts: NDArray[np.int64]
    """First place in each run, ``(n_runs,)``."""
    stops: NDArray[np.int64]
    """Place behind the last one in each run, ``(n_runs,)``."""
    value: Any = None
    """The value that all of them have, where it is one that is too frequent to be read; else None."""


def positions(runs: Sequence[SortedRun], value: Any, *, side: Side) -> NDArray[np.int64]:
    """Give the place of a value in each run, ``(n_runs,)``."""
    return np.array([run.position(value, side=side) for run in runs], dtype=np.int64)


def extremes(runs: Sequence[SortedRun]) -> tuple[float, float]:
    """Give the lowest and the highest value of at least one run, none of which is empty."""
    highest = max(float(run.read(run.n_values - 1, run.n_values)[0]) for run in runs)
    return min(float(run.fences[0]) for run in runs), highest


def counts_below(runs: Sequence[SortedRun], values: Sequence[Any] | NDArray[Any], *, side: Side) -> NDArray[np.int64]:
    """Count for each of some values the values of all runs below it (left), or not above it (right).

    A few values cost a page of each run each; many of them cost no more than reading all runs once.
    """
    values = np.asarray(values)
    if len(values) * sum(min(run.page_rows, run.n_values) for run in runs) < sum(run.n_values for run in runs):
        return np.array([positions(runs, value, side=side).sum() for value in values], dtype=np.int64)
    counts = np.zeros(len(values), dtype=np.int64)
    for run in runs:
        for start in range(0, run.n_values, RANGE_VALUES):
            counts += np.searchsorted(run.read(start, min(start + RANGE_VALUES, run.n_values)), values, side=side)
    return counts


def weights_below(runs: Sequence[SortedRun], values: NDArray[Any], *, side: Side, name: str) -> NDArray[np.float64]:
    """Add up a companion where the values of all runs are below each of some (left), or not above it (right).

    It costs reading all values and companions once.

    Examples
    --------
    >>> from streamfit.run.kept_arrays import KeptArrays
    >>> arrays = {"score": np.array([1.0, 2.0, 2.0]), "weight": np.array([0.5, 1.0, 2.0])}
    >>> run = SortedRun.of(KeptArrays.keep(arrays, scratch=None), "score", arrays["score"], start=0, page_rows=2)
    >>> weights_below([run], np.array([0.0, 2.0]), side="right", name="weight")
    array([0. , 3.5])
    """
    sums = np.zeros(len(values))
    for run in runs:
        for start in range(0, run.n_values, RANGE_VALUES):
            stop = min(start + RANGE_VALUES, run.n_values)
            reached = np.concatenate([np.zeros(1), np.cumsum(run.read(start, stop, name=name))])
            sums += reached[np.searchsorted(run.read(start, stop), values, side=side)]
    return sums


def key_ranges(runs: Sequence[SortedRun], *, most_values: int = RANGE_VALUES) -> Iterator[KeyRange]:
    """Cut all runs at the same values, in ascending order, into ranges that can be read at once.

    Parameters
    ----------
    runs : sequence of SortedRun
        The runs; equal values are never parted.
    most_values : int
        Values of a range. It may have a page a run more; a value that is more frequent has a range of its own, with
        its `value`, which need not be read.

    Examples
    --------
    >>> from streamfit.run.kept_arrays import KeptArrays
    >>> values = np.array([1.0, 1.0, 1.0, 2.0, 3.0])
    >>> run = SortedRun.of(KeptArrays.keep({"score": values}, scratch=None), "score", values, start=0, page_rows=1)
    >>> [(int(part.starts[0]), int(part.stops[0]), part.value) for part in key_ranges([run], most_values=2)]
    [(0, 3, np.float64(1.0)), (3, 4, None), (4, 5, None)]
    """
    done = np.zeros(len(runs), dtype=np.int64)
    for cut in _cuts(runs, most_values):
        lefts = positions(runs, cut, side="left")
        rights = positions(runs, cut, side="right")
        if (lefts > done).any():
            yield KeyRange(done, lefts)
        done = lefts
        if (rights - lefts).sum() > most_values:
            yield KeyRange(lefts, rights, cut)
            done = rights
    ends = np.array([run.n_values for run in runs], dtype=np.int64)
    if (ends > done).any():
        yield KeyRange(done, ends)


def _cuts(runs: Sequence[SortedRun], most_values: int) -> NDArray[Any]:
    """Choose distinct values with about `most_values` values from one to the next."""
    filled = [run for run in runs if run.n_values]
    if sum(run.n_values for run in filled) <= most_values:
        return np.empty(0)
    fences = np.concatenate([run.fences for run in filled])
    weights = np.concatenate([np.full(len(run.fences), run.page_rows) for run in filled])
    order = np.argsort(fences, kind="stable")
    below = np.cumsum(weights[order]) - weights[order]
    # The first fence that is so many values above the one chosen before it.
    chosen = np.flatnonzero(np.diff(below // most_values, prepend=0))
    return np.unique(fences[order[chosen]])


def order_statistics_of_runs(runs: Sequence[SortedRun], ranks: Sequence[int]) -> NDArray[np.float64]:
    """Give ``numpy.sort(values)[ranks]`` of the values of all runs.

    Parameters
    ----------
    runs : sequence of SortedRun
        The runs.
    ranks : sequence of int
        Counted from 0, in any order.

    Returns
    -------
    ndarray of shape (len(ranks),)
        The values. -0.0 may come for 0.0, which is as large.

    Raises
    ------
    InvalidParameterError
        A rank is outside its range.

    Examples
    --------
    >>> from streamfit.run.kept_arrays import KeptArrays
    >>> values = np.array([1.0, 2.0, 5.0])
    >>> run = SortedRun.of(KeptArrays.keep({"score": values}, scratch=None), "score", values, start=0, page_rows=2)
    >>> order_statistics_of_runs([run, run], [0, 3, 5])
    array([1., 2., 5.])
    """
    n = sum(run.n_values for run in runs)
    if len(ranks) and not 0 <= min(ranks) <= max(ranks) < n:
        raise InvalidParameterError(f"ranks must be between 0 and {n - 1}, got {list(ranks)}.")
    fences = np.unique(np.concatenate([run.fences for run in runs])) if len(ranks) else np.empty(0)
    return np.array([_order_statistic(runs, fences, rank) for rank in ranks], dtype=np.float64)


def _order_statistic(runs: Sequence[SortedRun], fences: NDArray[Any], rank: int) -> float:
    # The last fence with no more than `rank` values below it: the smallest value of all is a fence, so there is one.
    low, high = 0, len(fences)
    while high - low > 1:
        middle = (low + high) // 2
        if positions(runs, fences[middle], side="left").sum() <= rank:
            low = middle
        else:
            high = middle
    starts = positions(runs, fences[low], side="right")
    if rank < starts.sum():
        return float(fences[low])
    stops = [run.n_values for run in runs] if high == len(fences) else positions(runs, fences[high], side="left")
    between = np.concatenate(
        [run.read(start, stop) for run, start, stop in zip(runs, starts.tolist(), list(stops), strict=True)]
    )
    place = rank - int(starts.sum())
    return float(np.partition(between, place)[place])
