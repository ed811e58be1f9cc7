"""Ranks of the values of sorted runs, each run's in its own order, a range of all runs in memory at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamfit.maths.sorted_runs import RANGE_VALUES, key_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from streamfit.maths.sorted_runs import SortedRun

__all__ = ["rank_pieces"]


def rank_pieces(
    runs: Sequence[SortedRun], *, most_values: int = RANGE_VALUES
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Rank all values from 1 on; tied ones get the mean of their ranks, as ``scipy.stats.rankdata`` does.

    Yields
    ------
    tuple of int and ndarray
        Number of a run, and the ranks of its next values.

    Examples
    --------
    >>> from streamfit.run.kept_arrays import KeptArrays
    >>> from streamfit.maths.sorted_runs import SortedRun
    >>> def run(*values):
    ...     array = np.array(values)
    ...     return SortedRun.of(KeptArrays.keep({"score": array}, scratch=None), "score", array, start=0, page_rows=4)
    >>> [(number, ranks.tolist()) for number, ranks in rank_pieces([run(1.0, 2.0), run(2.0, 3.0)])]
    [(0, [1.0, 2.5]), (1, [2.5, 4.0])]
    """
    n_below = 0
    for part in key_ranges(runs, most_values=most_values):
        bounds = list(zip(part.starts.tolist(), part.stops.tolist(), strict=True))
        n_there = sum(stop - start for start, stop in bounds)
        if part.value is not None:
            rank = n_below + (n_there + 1) / 2
            for number, (start, stop) in enumerate(bounds):
                for place in range(start, stop, most_values):
                    yield number, np.full(min(most_values, stop - place), rank)
        else:
            pieces = [run.read(*bound) for run, bound in zip(runs, bounds, strict=True)]
            values = np.sort(np.concatenate(pieces))
            tied = bool((values[1:] == values[:-1]).any())
            for number, piece in enumerate(pieces):
                if len(piece):
                    left = np.searchsorted(values, piece, side="left")
                    # Searching takes the most of the time: one side tells the other where all values are distinct.
                    right = np.searchsorted(values, piece, side="right") if tied else left + 1
                    yield number, n_below + (left + right + 1) / 2
        n_below += n_there
