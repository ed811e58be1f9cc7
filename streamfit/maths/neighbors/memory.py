"""How many rows a search holds at a time, from its memory limit alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.neighbors.tiles import tile_rows_for
from streamfit.plan.budget import FIXED_NBYTES, Budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.plan.layout import StoreLayout

__all__ = ["SearchPlan", "plan_search", "points_dtype", "windows_outside"]

_POINT_NBYTES = 160
"""Bytes of a row that do not depend on its width: hash, orders, copies, limit, and their temporaries."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How many rows are in memory at a time. No result depends on it."""

    block_rows: int
    """Rows whose neighbours are sought together."""
    window_rows: int
    """Rows that are streamed past them at a time; 0 where the block holds all rows."""
    budget: Budget
    """Projected peak."""


def points_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Choose the smaller of float32 and float64 that holds all values.

    Integers above ``2**53`` are rounded to float64, as everywhere in NumPy's distances.

    Examples
    --------
    >>> points_dtype(np.dtype(np.uint8)), points_dtype(np.dtype(np.float32), np.dtype(np.int64))
    (dtype('float32'), dtype('float64'))
    """
    small = all(np.can_cast(dtype, np.float32, casting="safe") for dtype in dtypes)
    return np.dtype(np.float32 if small else np.float64)


def plan_search(
    layout: StoreLayout,
    dtype: np.dtype[Any],
    *,
    n_queries: int,
    n_neighbors: int,
    n_workers: int,
    memory_limit: int | None,
    queries_are_rows: bool,
) -> SearchPlan:
    """Choose blocks and windows for a memory limit.

    Parameters
    ----------
    layout : StoreLayout
        Of the training rows.
    dtype : dtype
        float32 or float64, see `points_dtype`.
    n_queries : int
        Rows whose neighbours are sought.
    n_neighbors : int
        Neighbours a row.
    n_workers : int
        Threads.
    memory_limit : int or None
        Bytes; None takes all rows at once.
    queries_are_rows : bool
        True where the queries are training rows: then they need no window of their own.

    Raises
    ------
    BudgetError
        Not even one tile of queries and one chunk of candidates fit.
    """
    n_features = layout.n_features
    tile = tile_rows_for(n_features)
    # Original values, float32 operand, three rows of region and three of temporaries for each tile.
    window_row = n_features * dtype.itemsize + 4 * (n_features + 2) + _POINT_NBYTES
    window_row += -(-(24 * (1 + n_workers) * n_features) // tile)
    # Lists, their results, and both without the row itself.
    block_row = window_row + 48 * (n_neighbors + 1)
    shared = FIXED_NBYTES + 2 * layout.chunk_nbytes + layout.aside_nbytes
    shared += n_workers * tile * (12 * tile + 48 * (n_features + 2))

    def budget(block_rows: int, window_rows: int) -> Budget:
        return Budget(
            (
                (f"block of {block_rows} rows", block_rows * block_row),
                (f"window of {window_rows} rows", window_rows * window_row),
                ("tiles, decoding and fixed", shared),
            )
        )

    others = layout.n_rows - (n_queries if queries_are_rows else 0)
    whole = budget(n_queries, others)
    if memory_limit is None or whole.nbytes <= memory_limit:
        return SearchPlan(block_rows=n_queries, window_rows=others, budget=whole)
    least_window = min(layout.chunk_rows, layout.n_rows)
    least_block = min(tile, n_queries)
    budget(least_block, least_window).check(
        memory_limit, "Raise memory_limit, or write the store with a smaller chunk_rows."
    )
    room = memory_limit - shared
    # Half for each; what one side cannot use goes to the other.
    half = min(room // 2, room - least_window * window_row) // block_row
    block_rows = min(n_queries, max(least_block, half))
    window_rows = min(layout.n_rows, (room - block_rows * block_row) // window_row)
    block_rows = min(n_queries, (room - window_rows * window_row) // block_row)
    return SearchPlan(block_rows=block_rows, window_rows=window_rows, budget=budget(block_rows, window_rows))


def windows_outside(layout: StoreLayout, start: int, stop: int, window_rows: int) -> Iterator[tuple[int, int]]:
    """Cut the rows outside ``start..stop`` into windows of whole chunks, as far as that goes.

    Those after the block come first: rows that were written together are often near, and near ones sharpen
    the limits.
    """
    edges = layout.chunk_edges[:: layout.chunks_within_rows(window_rows)].tolist()
    for first, last in ((stop, layout.n_rows), (0, start)):
        inner = [edge for edge in edges if first < edge < last]
        if first < last:
            yield from pairwise([first, *inner, last])
