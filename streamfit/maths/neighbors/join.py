"""Visit the pairs of tiles of queries and candidates, nearest first, and skip those that cannot matter."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from streamfit.maths.neighbors.bounds import candidate_operand, frame_of, query_operand
from streamfit.maths.neighbors.kernels import screen
from streamfit.maths.neighbors.regions import any_row_reaches, gaps
from streamfit.maths.neighbors.report import SearchReport
from streamfit.maths.neighbors.tiles import Lists, side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from streamfit.maths.neighbors.bounds import Frame
    from streamfit.maths.neighbors.kernels import Side
    from streamfit.maths.neighbors.tiles import Tiles

    MapTiles = Callable[[Callable[[int], SearchReport], Iterable[int]], Iterator[SearchReport]]

__all__ = ["join", "join_with_itself"]

_MAX_WASTED = 1 / 64
"""Share of a tile's pairs that may be measured in vain before float64 bounds are cheaper."""


def join(queries: Tiles, lists: Lists, candidates: Tiles, *, map_tiles: MapTiles) -> SearchReport:
    """Find neighbours of the queries among candidates.

    Parameters
    ----------
    queries, candidates : Tiles
        Both in the same frame.
    lists : Lists
        Neighbours of the queries so far; changed.
    map_tiles : callable
        Like ``map``; may call the function from several threads.
    """
    unwanted = Lists.unwanted(candidates.n_rows)

    def visit(tile: int) -> SearchReport:
        apart = gaps(queries.regions, tile, candidates.regions)
        left = _left_operand(queries, tile)
        report = SearchReport()
        for other in np.argsort(apart, kind="stable").tolist():
            if apart[other] > _reach(queries, lists, tile):
                break
            if not _may_meet(queries, lists, tile, candidates, other):
                continue
            bounds = left @ _right_operand(candidates, other)
            report += _screen(queries, lists, tile, candidates, unwanted, other, bounds)
        return report + SearchReport(n_skipped=len(left) * candidates.n_rows - report.n_float32)

    return sum(map_tiles(visit, range(queries.n_tiles)), SearchReport())


def join_with_itself(tiles: Tiles, lists: Lists, *, map_tiles: MapTiles) -> SearchReport:
    """Find neighbours of rows among themselves; a pair of tiles is bounded once, for both.

    Parameters
    ----------
    tiles : Tiles
        The rows.
    lists : Lists
        Their neighbours so far, their own copies included; changed.
    map_tiles : callable
        Like ``map``; may call the function from several threads.
    """
    unwanted = Lists.unwanted(tiles.n_rows)
    reach = np.empty(tiles.n_tiles)
    locks = [Lock() for _ in range(tiles.n_tiles)]

    def visit_own(tile: int) -> SearchReport:
        bounds = _left_operand(tiles, tile) @ _right_operand(tiles, tile)
        report = _screen(tiles, lists, tile, tiles, unwanted, tile, bounds)
        reach[tile] = _reach(tiles, lists, tile)
        return report

    def visit_later(tile: int) -> SearchReport:
        apart = gaps(tiles.regions, tile, tiles.regions)
        later = slice(tile + 1, None)
        near = np.flatnonzero(apart[later] <= np.maximum(reach[tile], reach[later])) + tile + 1
        left = _left_operand(tiles, tile)
        report = SearchReport()
        for other in near[np.argsort(apart[near], kind="stable")].tolist():
            # Limits have sharpened since: by the tiles before, and by other threads.
            if apart[other] > max(reach[tile], reach[other]):
                continue
            if not (_may_meet(tiles, lists, tile, tiles, other) or _may_meet(tiles, lists, other, tiles, tile)):
                continue
            bounds = left @ _right_operand(tiles, other)
            # Only lists are shared. The lower tile is always locked first.
            with locks[tile], locks[other]:
                report += _screen(tiles, lists, tile, tiles, lists, other, bounds)
                reach[tile] = _reach(tiles, lists, tile)
                reach[other] = _reach(tiles, lists, other)
        n_later = tiles.n_rows - tiles.bounds(tile)[1]
        return report + SearchReport(n_skipped=len(left) * n_later - report.n_float32)

    # All tiles know some neighbours before any two of them meet.
    own = sum(map_tiles(visit_own, range(tiles.n_tiles)), SearchReport())
    return sum(map_tiles(visit_later, range(tiles.n_tiles)), own)


def _left_operand(tiles: Tiles, tile: int) -> NDArray[np.float32]:
    start, stop = tiles.bounds(tile)
    return query_operand(tiles.operand[start:stop])


def _right_operand(tiles: Tiles, tile: int) -> NDArray[np.float32]:
    start, stop = tiles.bounds(tile)
    return tiles.operand[start:stop].T


def _reach(tiles: Tiles, lists: Lists, tile: int) -> float:
    """Give the largest squared distance that still matters to a tile."""
    start, stop = tiles.bounds(tile)
    return float(lists.distances[start:stop, -1].max())


def _may_meet(queries: Tiles, lists: Lists, tile: int, candidates: Tiles, other: int) -> bool:
    """Say whether the other tile may hold a neighbour of any row of the tile."""
    start, stop = queries.bounds(tile)
    regions = candidates.regions
    return any_row_reaches(
        queries.points,
        queries.order[start:stop],
        lists.distances[start:stop],
        regions.low[other],
        regions.high[other],
        regions.middle[other],
        regions.radius[other],
    )


def _screen(
    queries: Tiles,
    lists: Lists,
    tile: int,
    candidates: Tiles,
    theirs: Lists,
    other: int,
    bounds: NDArray[np.float32],
) -> SearchReport:
    """Measure the pairs of two tiles that may win."""
    frame = queries.frame
    a = side(queries, lists, *queries.bounds(tile))
    b = side(candidates, theirs, *candidates.bounds(other))
    max_wasted = int(bounds.size * _MAX_WASTED)
    measured, finished = screen(bounds, a, b, frame.limit_factor, frame.limit_floor, max_wasted)
    if finished:
        return SearchReport(n_float32=bounds.size, n_measured=measured)
    measured += _screen_float64(a, b)
    with np.errstate(over="ignore"):  # a limit above all float32 is infinite
        for of in (a, b):
            of.limits[:] = _limits(of, frame)
    return SearchReport(n_float32=bounds.size, n_float64=bounds.size, n_measured=measured)


def _screen_float64(a: Side, b: Side) -> int:
    """Screen two tiles by a float64 product around their own centre, and count what was measured."""
    rows = a.points[a.order]
    frame = frame_of(rows, dtype=np.float64)
    bounds = query_operand(candidate_operand(rows, frame)) @ candidate_operand(b.points[b.order], frame).T
    measured, _ = screen(
        bounds,
        a._replace(limits=_limits(a, frame)),
        b._replace(limits=_limits(b, frame)),
        frame.limit_factor,
        frame.limit_floor,
        bounds.size,
    )
    return measured


def _limits(of: Side, frame: Frame) -> NDArray[np.float64]:
    """Give the limits of some rows in a frame."""
    if len(of.distances) == 0:
        return np.full(len(of.order), -np.inf)
    return of.distances[:, -1] * frame.limit_factor + frame.limit_floor
