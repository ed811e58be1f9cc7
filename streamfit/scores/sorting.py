"""Scores as sorted runs, one or more a block: in memory where they are few, else on scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.sorted_runs import SortedRun
from streamfit.run.kept_arrays import KeptArrays, PlannedScratch
from streamfit.scores.blockwise import Blocks, is_lazy, per_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "SELECTION_NBYTES",
    "SortedBlock",
    "all_runs",
    "page_rows_for",
    "scratch_for",
    "sort_block",
    "sorted_blocks",
    "sorting_arguments",
]

HELD_NBYTES = 64 * 2**20
"""Most bytes of all rows that are kept in memory instead of on scratch."""
SELECTION_NBYTES = 64 * 2**20
"""Most bytes that a selection from scores in memory takes."""
RUN_ROWS = 1 << 21
"""Most rows that are sorted at a time."""
_LEAST_PAGE_ROWS, _MOST_PAGE_ROWS = 32, 1_024
_PAGES_NBYTES = 8 * 2**20
"""Most bytes of a page of each run, together."""

SortedBlock = tuple[list[SortedRun], list[SortedRun]]
"""Runs of the rows with a False label (or of all rows), and runs of those with a True one."""


def scratch_for(vector: Any, *, row_nbytes: int) -> PlannedScratch | None:
    """Plan a folder for values of all rows of a vector, or None where memory holds them easily."""
    return PlannedScratch.plan() if vector.shape[0] * row_nbytes > HELD_NBYTES else None


def page_rows_for(vector: Any) -> int:
    """Give the rows of a page: large ones keep fences few, and one of each run has to fit in memory."""
    n_runs: int = (vector.numblocks[0] if is_lazy(vector) else 1) + vector.shape[0] // RUN_ROWS
    return max(_LEAST_PAGE_ROWS, min(_MOST_PAGE_ROWS, _PAGES_NBYTES // (8 * n_runs)))


def sorted_blocks(scores: Any, labels: Any = None, weights: Any = None) -> Blocks:
    """Sort each block of scores.

    Parameters
    ----------
    scores : ndarray or dask.array.Array of float64, (n_rows,)
        Without NaN.
    labels : ndarray or dask.array.Array of bool, (n_rows,), or None
        Classes that are sorted apart.
    weights : ndarray or dask.array.Array of float64, (n_rows,), or None
        Companions of the runs, under the name ``"weight"``.

    Returns
    -------
    list
        For each block, now or lazily, a tuple of two lists of `SortedRun`: the rows with a False label (or all of them)
        and those with a True one.
    """
    return per_block(sort_block, scores, labels, weights, arguments=sorting_arguments(scores, labels, weights))


def sorting_arguments(scores: Any, labels: Any, weights: Any) -> tuple[PlannedScratch | None, int]:
    """Give the last two arguments of `sort_block` for all blocks of these vectors."""
    first = next((vector for vector in (scores, labels, weights) if is_lazy(vector)), scores)
    return scratch_for(scores, row_nbytes=8 if weights is None else 16), page_rows_for(first)


def sort_block(
    scores: NDArray[np.float64],
    labels: NDArray[np.bool_] | None,
    weights: NDArray[np.float64] | None,
    _start: int,
    scratch: PlannedScratch | None,
    page_rows: int,
) -> SortedBlock:
    """Sort one block, see `sorted_blocks`."""
    runs: SortedBlock = ([], [])
    for start in range(0, len(scores), RUN_ROWS):
        rows = slice(start, start + RUN_ROWS)
        if labels is None:
            parts = [(runs[0], scores[rows], None if weights is None else weights[rows])]
        else:
            parts = [
                (target, scores[rows][chosen], None if weights is None else weights[rows][chosen])
                for target, chosen in zip(runs, (~labels[rows], labels[rows]), strict=True)
            ]
        for target, values, companions in parts:
            if len(values):
                target.append(_run(values, companions, scratch, page_rows))
    return runs


def _run(
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scratch: PlannedScratch | None,
    page_rows: int,
) -> SortedRun:
    if weights is None:
        arrays = {"score": np.sort(values)}
    else:
        order = np.argsort(values)
        arrays = {"score": values[order], "weight": weights[order]}
    return SortedRun.of(
        KeptArrays.keep(arrays, scratch=scratch), "score", arrays["score"], start=0, page_rows=page_rows
    )


def all_runs(blocks: Sequence[SortedBlock]) -> SortedBlock:
    """Join what `sorted_blocks` gives for all blocks."""
    return [run for runs, _ in blocks for run in runs], [run for _, runs in blocks for run in runs]
