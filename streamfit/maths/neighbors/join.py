"""Visit the pairs of tiles of queries and candidates, nearest first, and skip those that cannot matter."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from streamfit.maths.neighbors.bounds import candidate_operand, frame_of, query_operand
from streamfit.maths.neighbors.kernels import screen
from streamfit.maths.neighbors.regions import gaps
from streamfit.maths.neighbors.tiles import Lists, side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from streamfit.maths.neighbors.bounds import Frame
    from streamfit.maths.neighbors.kernels import Side
    from streamfit.maths.neighbors.tiles import Tiles

    MapTiles = Callable[[Callable[[int], "JoinCounts"], Iterable[int]], Iterator["JoinCounts"]]

__all__ = ["JoinCounts", "join", "join_with_itself"]

_MAX_WASTED = 1 / 64
"""Pairs of a tile that may be measured in vain before float64 bounds are cheaper."""


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """What became of the pairs of different rows. A pair that is screened may be screened again."""

    n_skipped: int = 0
    """Pairs whose tiles lie too far apart."""
    n_float32: int = 0
    """Pairs screened by float32 bounds."""
    n_float64: int = 0
    """Pairs of tiles that float32 could not tell apart, screened by float64 bounds."""
    n_measured: int = 0
    """Distances measured."""

    def __add__(self, other: JoinCounts) -> JoinCounts:
        """Add both counts."""
        return JoinCounts(
            self.n_skipped + other.n_skipped,
            self.n_float32 + other.n_float32,
            self.n_float64 + other.n_float64,
            self.n_measured + other.n_measured,
        )


class _Join:
    """One join. Lists of a tile are changed by one thread at a time."""

    def __init__(self, queries: Tiles, lists: Lists, candidates: Tiles, theirs: Lists) -> None:
        self.queries, self.lists = queries, lists
        self.candidates, self.theirs = candidates, theirs
        self.reach = np.empty(queries.n_tiles)
        for tile in range(queries.n_tiles):
            self.update_reach(tile)

    def update_reach(self, tile: int) -> None:
        """Note the largest squared distance that still matters to a tile of the queries."""
        start, stop = self.queries.bounds(tile)
        self.reach[tile] = self.lists.distances[start:stop, -1].max()

    def operand(self, tile: int) -> NDArray[np.float32]:
        """Give the left operand of a tile of the queries."""
        start, stop = self.queries.bounds(tile)
        rows = self.queries.operand[start:stop]
        out = np.empty_like(rows)
        query_operand(rows, out)
        return out

    def bounds(self, left: NDArray[np.float32], other: int, buffer: NDArray[np.float32]) -> NDArray[np.float32]:
        """Bound all pairs with a tile of the candidates."""
        start, stop = self.candidates.bounds(other)
        out = buffer[: len(left) * (stop - start)].reshape(len(left), stop - start)
        return np.matmul(left, self.candidates.operand[start:stop].T, out=out)

    def screen(self, tile: int, other: int, bounds: NDArray[np.float32]) -> JoinCounts:
        """Measure the pairs of two tiles that may win."""
        frame = self.queries.frame
        a = side(self.queries, self.lists, *self.queries.bounds(tile))
        b = side(self.candidates, self.theirs, *self.candidates.bounds(other))
        measured, finished = screen(bounds, a, b, frame.limit_factor, frame.limit_floor, int(bounds.size * _MAX_WASTED))
        if finished:
            return JoinCounts(n_float32=bounds.size, n_measured=measured)
        again = screen_float64(a, b, factor=frame.limit_factor, floor=frame.limit_floor)
        return JoinCounts(n_float32=bounds.size, n_float64=bounds.size, n_measured=measured + again)


def screen_float64(a: Side, b: Side, *, factor: float, floor: float) -> int:
    """Screen two tiles by a float64 product around their own centre and count what was measured."""
    rows_a, rows_b = a.points[a.order], b.points[b.order]
    frame = frame_of(rows_a, dtype=np.float64)
    left = np.empty((len(rows_a), rows_a.shape[1] + 2))
    candidate_operand(rows_a, frame, left)
    right = np.empty((len(rows_b), rows_a.shape[1] + 2))
    candidate_operand(rows_b, frame, right)
    query = np.empty_like(left)
    query_operand(left, query)
    bounds = query @ right.T
    measured, _ = screen(
        bounds,
        a._replace(limits=limits_in(frame, a)),
        b._replace(limits=limits_in(frame, b)),
        frame.limit_factor,
        frame.limit_floor,
        bounds.size,
    )
    for one in (a, b):
        if len(one.distances):
            one.limits[:] = one.distances[:, -1] * factor + floor
    return measured


def limits_in(frame: Frame, of: Side) -> NDArray[np.float64]:
    """Give the limits of some rows in another frame."""
    if len(of.distances) == 0:
        return np.full(len(of.order), -np.inf)
    return of.distances[:, -1] * frame.limit_factor + frame.limit_floor


def join(queries: Tiles, lists: Lists, candidates: Tiles, *, map_tiles: MapTiles) -> JoinCounts:
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
    work = _Join(queries, lists, candidates, Lists.unwanted(candidates.n_rows))
    largest = queries.tile_rows * candidates.tile_rows
    sizes = np.diff(np.append(np.arange(candidates.n_tiles) * candidates.tile_rows, candidates.n_rows))

    def visit(tile: int) -> JoinCounts:
        apart = gaps(queries.regions, tile, candidates.regions)
        left, buffer = work.operand(tile), np.empty(largest, dtype=np.float32)
        counts = JoinCounts()
        nearest_first = np.argsort(apart, kind="stable")
        for position, other in enumerate(nearest_first):
            if apart[other] > work.reach[tile]:
                counts += JoinCounts(n_skipped=len(left) * int(sizes[nearest_first[position:]].sum()))
                break
            counts += work.screen(tile, int(other), work.bounds(left, int(other), buffer))
            work.update_reach(tile)
        return counts

    return sum(map_tiles(visit, range(queries.n_tiles)), JoinCounts())


def join_with_itself(tiles: Tiles, lists: Lists, *, map_tiles: MapTiles) -> JoinCounts:
    """Find neighbours of rows among themselves; each pair is bounded and measured once for both sides.

    Parameters
    ----------
    tiles : Tiles
        The rows.
    lists : Lists
        Their neighbours so far, their own copies included; changed.
    map_tiles : callable
        Like ``map``; may call the function from several threads.
    """
    alone = _Join(tiles, lists, tiles, Lists.unwanted(tiles.n_rows))
    both = _Join(tiles, lists, tiles, lists)
    both.reach = alone.reach
    locks = [Lock() for _ in range(tiles.n_tiles)]
    largest = tiles.tile_rows**2
    n_tiles = tiles.n_tiles

    def visit_own(tile: int) -> JoinCounts:
        counts = alone.screen(tile, tile, alone.bounds(alone.operand(tile), tile, np.empty(largest, dtype=np.float32)))
        alone.update_reach(tile)
        return counts

    def visit_others(tile: int) -> JoinCounts:
        apart = gaps(tiles.regions, tile, tiles.regions)
        left, buffer = both.operand(tile), np.empty(largest, dtype=np.float32)
        counts = JoinCounts()
        for other in np.argsort(apart[tile + 1 :], kind="stable") + tile + 1:
            start, stop = tiles.bounds(int(other))
            if apart[other] > max(both.reach[tile], both.reach[other]):
                counts += JoinCounts(n_skipped=len(left) * (stop - start))
                continue
            bounds = both.bounds(left, int(other), buffer)
            # The product needs no lock: only lists are shared. The lower tile is always locked first.
            with locks[tile], locks[other]:
                counts += both.screen(tile, int(other), bounds)
                both.update_reach(tile)
                both.update_reach(int(other))
        return counts

    own = sum(map_tiles(visit_own, range(n_tiles)), JoinCounts())
    return sum(map_tiles(visit_others, range(n_tiles)), own)
