"""Measure pairs in float64 and keep the best of them.

All kernels that call each other are in this file, because numba's cache does not notice a change in another
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamfit.maths.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Side", "drop_self", "offer_own_copies", "screen"]

BLOCK = 64
"""Bounds that are looked at together."""


class Side(NamedTuple):
    """The rows of one side of a tile, and where their neighbours are kept.

    A row stands for all rows with the same values, its copies. A side whose neighbours are not sought has
    empty lists and limits of minus infinity.
    """

    points: NDArray[Any]
    """Original values, ``(n_points, n_features)``, float32 or float64."""
    order: NDArray[np.int64]
    """Position in `points` of each row, ``(n_rows,)``."""
    copy_start: NDArray[np.int64]
    """Where in `copy_rows` the copies of a row begin, ``(n_rows + 1,)``."""
    copy_rows: NDArray[np.int64]
    """Global row numbers, ascending for each row."""
    limits: NDArray[Any]
    """Lower bounds at or above this cannot win, ``(n_rows,)``, in the units and dtype of the bounds."""
    distances: NDArray[np.float64]
    """Squared distances of the neighbours so far, ascending, ``(n_rows, k)``; infinite where none."""
    neighbors: NDArray[np.int64]
    """Global row numbers of the neighbours so far, ascending among equal distances, ``(n_rows, k)``."""


@compiled
def squared_distance(a: NDArray[Any], i: int, b: NDArray[Any], j: int) -> float:
    """Sum squared differences of two rows in float64: four partial sums, in an order fixed for ever."""
    n = a.shape[1]
    whole = n - n % 4
    s0 = s1 = s2 = s3 = 0.0
    for f in range(0, whole, 4):
        d0 = np.float64(a[i, f]) - np.float64(b[j, f])
        d1 = np.float64(a[i, f + 1]) - np.float64(b[j, f + 1])
        d2 = np.float64(a[i, f + 2]) - np.float64(b[j, f + 2])
        d3 = np.float64(a[i, f + 3]) - np.float64(b[j, f + 3])
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    for f in range(whole, n):
        d0 = np.float64(a[i, f]) - np.float64(b[j, f])
        s0 += d0 * d0
    return (s0 + s1) + (s2 + s3)


@compiled
def offer(distances: NDArray[np.float64], neighbors: NDArray[np.int64], i: int, distance: float, row: int) -> bool:
    """Insert a neighbour by ``(distance, row)`` and say whether it was; one that is in already is not."""
    k = distances.shape[1]
    last = distances[i, k - 1]
    if distance > last or (distance == last and row >= neighbors[i, k - 1]):
        return False
    at = k - 1
    while at > 0 and (
        distances[i, at - 1] > distance or (distances[i, at - 1] == distance and neighbors[i, at - 1] > row)
    ):
        at -= 1
    if at > 0 and distances[i, at - 1] == distance and neighbors[i, at - 1] == row:
        return False
    for p in range(k - 1, at, -1):
        distances[i, p] = distances[i, p - 1]
        neighbors[i, p] = neighbors[i, p - 1]
    distances[i, at] = distance
    neighbors[i, at] = row
    return True


@compiled
def offer_copies(
    distances: NDArray[np.float64],
    neighbors: NDArray[np.int64],
    i: int,
    copy_rows: NDArray[np.int64],
    start: int,
    stop: int,
    distance: float,
) -> bool:
    """Offer all copies of a row, in ascending row order: the first that is refused ends it."""
    won = False
    for p in range(start, stop):
        if not offer(distances, neighbors, i, distance, copy_rows[p]):
            break
        won = True
    return won


@compiled
def screen(bounds: NDArray[Any], a: Side, b: Side, factor: float, floor: float, max_wasted: int) -> tuple[int, bool]:
    """Measure every pair of a tile that may win, for both sides at once.

    Parameters
    ----------
    bounds : ndarray of shape (n_a, n_b), float32 or float64
        Lower bounds of the squared distances.
    a, b : Side
        The two sides; lists and limits are changed.
    factor, floor : float
        A limit is the last squared distance of a list, times `factor`, plus `floor`.
    max_wasted : int
        Stop after this many measured pairs that did not win.

    Returns
    -------
    n_measured : int
        Pairs that were measured.
    finished : bool
        False where `max_wasted` was exceeded. Screening the tile again from its start is harmless.
    """
    # Out of the tuples once: each look into one counts references.
    a_points, a_order, a_start, a_copies = a.points, a.order, a.copy_start, a.copy_rows
    b_points, b_order, b_start, b_copies = b.points, b.order, b.copy_start, b.copy_rows
    a_limits, a_distances, a_neighbors = a.limits, a.distances, a.neighbors
    b_limits, b_distances, b_neighbors = b.limits, b.distances, b.neighbors
    a_last, b_last = a_distances.shape[1] - 1, b_distances.shape[1] - 1
    n_a, n_b = bounds.shape
    measured = 0
    wasted = 0
    for i in range(n_a):
        row = bounds[i]
        for start in range(0, n_b, BLOCK):
            stop = min(start + BLOCK, n_b)
            if stop - start == BLOCK:
                # Most blocks hold no pair that may win, and a loop of fixed length runs at vector speed.
                block, limits, limit = row[start:stop], b_limits[start:stop], a_limits[i]
                hit = np.int32(0)
                for p in range(BLOCK):
                    larger = max(limit, limits[p])
                    hit |= np.int32(block[p] < larger)
                if hit == 0:
                    continue
            for j in range(start, stop):
                bound = bounds[i, j]
                # At distance zero only a smaller row number wins, and that is known without measuring.
                a_may = bound < a_limits[i] and (
                    a_distances[i, a_last] > 0 or b_copies[b_start[j]] < a_neighbors[i, a_last]
                )
                b_may = bound < b_limits[j] and (
                    b_distances[j, b_last] > 0 or a_copies[a_start[i]] < b_neighbors[j, b_last]
                )
                if not (a_may or b_may):
                    continue
                distance = squared_distance(a_points, a_order[i], b_points, b_order[j])
                measured += 1
                won = False
                if a_may and offer_copies(a_distances, a_neighbors, i, b_copies, b_start[j], b_start[j + 1], distance):
                    a_limits[i] = a_distances[i, a_last] * factor + floor
                    won = True
                if b_may and offer_copies(b_distances, b_neighbors, j, a_copies, a_start[i], a_start[i + 1], distance):
                    b_limits[j] = b_distances[j, b_last] * factor + floor
                    won = True
                if not won:
                    wasted += 1
        if wasted > max_wasted:
            return measured, False
    return measured, True


@compiled
def offer_own_copies(side: Side, factor: float, floor: float) -> None:
    """Offer each row its own copies, itself among them, at distance zero."""
    start, copies, limits = side.copy_start, side.copy_rows, side.limits
    distances, neighbors = side.distances, side.neighbors
    last = distances.shape[1] - 1
    for i in range(limits.size):
        offer_copies(distances, neighbors, i, copies, start[i], start[i + 1], 0.0)
        limits[i] = distances[i, last] * factor + floor


@compiled
def drop_self(
    distances: NDArray[np.float64],
    neighbors: NDArray[np.int64],
    row_of_point: NDArray[np.int64],
    first_row: int,
    out_distances: NDArray[np.float64],
    out_neighbors: NDArray[np.int64],
) -> None:
    """Give each point the list of its row without the point itself, and take square roots.

    A point that is not in the list of its own row has so many copies with smaller numbers that the list
    holds nothing else: then the last entry goes.
    """
    k = out_distances.shape[1]
    for point in range(row_of_point.size):
        row = row_of_point[point]
        at = 0
        for p in range(distances.shape[1]):
            if at < k and neighbors[row, p] != first_row + point:
                out_distances[point, at] = np.sqrt(distances[row, p])
                out_neighbors[point, at] = neighbors[row, p]
                at += 1
