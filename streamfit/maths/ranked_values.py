"""Distinct values of several groups of sorted runs in ascending order, and how much of each group has each value."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.sorted_runs import RANGE_VALUES, key_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from streamfit.maths.sorted_runs import KeyRange, SortedRun

__all__ = ["RankedValues", "distinct_values"]


@dataclass(frozen=True, slots=True, eq=False)
class RankedValues:
    """A piece of the ascending distinct values."""

    values: NDArray[np.float64]
    """Distinct values, ``(n_values,)``."""
    amounts: tuple[NDArray[Any], ...]
    """For each group the number (int64) or the weight (float64) of the rows with each value, ``(n_values,)``."""


def distinct_values(
    groups: Sequence[Sequence[SortedRun]],
    *,
    weight: str | None = None,
    descending: bool = False,
    most_values: int = RANGE_VALUES,
) -> Iterator[RankedValues]:
    """Walk over the distinct values of all runs, each once, a piece in memory at a time.

    Parameters
    ----------
    groups : sequence of sequences of SortedRun
        Such as the anomalies and the other rows.
    weight : str or None
        Name of a companion of each run whose sums are wanted; None: rows are counted.
    descending : bool
        Begin with the highest values.
    most_values : int
        As in `key_ranges`.

    Examples
    --------
    >>> from streamfit.run.kept_arrays import KeptArrays
    >>> def run(*values):
    ...     array = np.array(values)
    ...     return SortedRun.of(KeptArrays.keep({"score": array}, scratch=None), "score", array, start=0, page_rows=4)
    >>> from streamfit.maths.sorted_runs import SortedRun
    >>> [piece] = distinct_values([[run(1.0, 2.0, 2.0)], [run(2.0), run(3.0)]])
    >>> piece.values, piece.amounts
    (array([1., 2., 3.]), (array([1, 2, 0]), array([0, 1, 1])))
    """
    runs = [run for group in groups for run in group]
    if not runs:
        return
    edges = np.cumsum([0, *map(len, groups)]).tolist()
    places = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
    parts = key_ranges(runs, most_values=most_values)
    for part in reversed(list(parts)) if descending else parts:
        piece = _tied(runs, part, places, weight, most_values) if part.value is not None else None
        piece = piece or _ranked(runs, part, places, weight)
        if descending:
            piece = RankedValues(piece.values[::-1], tuple(amounts[::-1] for amounts in piece.amounts))
        yield piece


def _tied(
    runs: Sequence[SortedRun], part: KeyRange, places: list[slice], weight: str | None, most_values: int
) -> RankedValues:
    amounts = [_amount(runs[place], _of(part, place), weight, most_values) for place in places]
    return RankedValues(np.array([part.value], dtype=np.float64), tuple(np.array([amount]) for amount in amounts))


def _ranked(runs: Sequence[SortedRun], part: KeyRange, places: list[slice], weight: str | None) -> RankedValues:
    found = [_read(runs[place], _of(part, place)) for place in places]
    if weight is None:
        # Sorted pieces are joined by sorting, which costs a tenth of what an order of their places does.
        found = [np.sort(values) for values in found]
    values = _unique(np.concatenate(found))
    if weight is None:
        return RankedValues(values, tuple(_counts(group, values) for group in found))
    weights = [_read(runs[place], _of(part, place), name=weight) for place in places]
    return RankedValues(
        values,
        tuple(
            np.bincount(np.searchsorted(values, group), weights=amounts, minlength=len(values))
            for group, amounts in zip(found, weights, strict=True)
        ),
    )


def _of(part: KeyRange, place: slice) -> list[tuple[int, int]]:
    return list(zip(part.starts[place].tolist(), part.stops[place].tolist(), strict=True))


def _read(runs: Sequence[SortedRun], bounds: list[tuple[int, int]], *, name: str | None = None) -> NDArray[Any]:
    pieces = [run.read(start, stop, name=name) for run, (start, stop) in zip(runs, bounds, strict=True) if start < stop]
    return np.concatenate(pieces) if pieces else np.empty(0)


def _amount(
    runs: Sequence[SortedRun], bounds: list[tuple[int, int]], weight: str | None, most_values: int
) -> int | float:
    """Add up what runs have between places that may be far apart."""
    if weight is None:
        return sum(stop - start for start, stop in bounds)
    return float(
        sum(
            run.read(place, min(place + most_values, stop), name=weight).sum()
            for run, (start, stop) in zip(runs, bounds, strict=True)
            for place in range(start, stop, most_values)
        )
    )


def _unique(values: NDArray[Any]) -> NDArray[Any]:
    values.sort()
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def _counts(group: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Count each of the distinct values in a sorted group that has no others."""
    counts = np.zeros(len(values), dtype=np.int64)
    if len(group):
        last = np.flatnonzero(np.append(group[1:] != group[:-1], True))
        # The group's own distinct values are few searches, where those of all groups would be many.
        counts[np.searchsorted(values, group[last])] = np.diff(last, prepend=-1)
    return counts
