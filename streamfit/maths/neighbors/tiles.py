"""Rows made ready for joins: equal rows once, in tiles of rows that lie near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.neighbors.bounds import candidate_operand
from streamfit.maths.neighbors.duplicates import group_equal_rows
from streamfit.maths.neighbors.kernels import Side, drop_self, offer_own_copies
from streamfit.maths.neighbors.order import spatial_order
from streamfit.maths.neighbors.regions import Regions, empty_regions, set_region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.maths.neighbors.bounds import Frame

__all__ = ["Lists", "Tiles", "prepare", "tile_rows_for"]


@dataclass(frozen=True, slots=True)
class Tiles:
    """The different rows of a run of rows, in tiles.

    In what follows *row* is one of the different rows, in tile order, and *point* one of the rows as they
    came.
    """

    points: NDArray[Any]
    """Original values, ``(n_points, n_features)``, float32 or float64."""
    first_row: int
    """Global row number of the first point."""
    order: NDArray[np.int64]
    """First point of each row, ``(n_rows,)``."""
    copy_start: NDArray[np.int64]
    """Where in `copy_rows` the copies of a row begin, ``(n_rows + 1,)``."""
    copy_rows: NDArray[np.int64]
    """Global row numbers of the points, those of one row together and ascending, ``(n_points,)``."""
    operand: NDArray[np.float32]
    """See `bounds.candidate_operand`, ``(n_rows, n_features + 2)``."""
    frame: Frame
    """Of the operand."""
    regions: Regions
    """Of the tiles."""
    tile_rows: int
    """Rows of a tile; only the last one may have fewer."""

    @property
    def n_rows(self) -> int:
        """Number of different rows."""
        return len(self.order)

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return len(self.regions.radius)

    def bounds(self, tile: int) -> tuple[int, int]:
        """First row (inclusive) and last row (exclusive) of a tile."""
        return tile * self.tile_rows, min((tile + 1) * self.tile_rows, self.n_rows)

    def row_of_point(self) -> NDArray[np.int64]:
        """Row that each point is a copy of, ``(n_points,)``."""
        rows = np.empty(len(self.points), dtype=np.int64)
        rows[self.copy_rows - self.first_row] = np.repeat(
            np.arange(self.n_rows, dtype=np.int64), np.diff(self.copy_start)
        )
        return rows


@dataclass(frozen=True, slots=True)
class Lists:
    """The neighbours so far of the rows of some tiles."""

    limits: NDArray[np.float32]
    """Lower bounds at or above this cannot win, ``(n_rows,)``."""
    distances: NDArray[np.float64]
    """Squared, ascending, ``(n_rows, k)``; infinite where none is known."""
    neighbors: NDArray[np.int64]
    """Global row numbers, ``(n_rows, k)``."""

    @classmethod
    def empty(cls, n_rows: int, k: int) -> Lists:
        """Give lists of rows that know no neighbour yet."""
        return cls(
            limits=np.full(n_rows, np.inf, dtype=np.float32),
            distances=np.full((n_rows, k), np.inf),
            neighbors=np.full((n_rows, k), np.iinfo(np.int64).max),
        )

    @classmethod
    def unwanted(cls, n_rows: int) -> Lists:
        """Give lists for the side of a join whose neighbours are not sought."""
        return cls(
            limits=np.full(n_rows, -np.inf, dtype=np.float32),
            distances=np.empty((0, 1)),
            neighbors=np.empty((0, 1), dtype=np.int64),
        )

    def offer_own_copies(self, tiles: Tiles) -> None:
        """Make each row, with all its copies, the first of its own neighbours."""
        frame = tiles.frame
        offer_own_copies(side(tiles, self, 0, tiles.n_rows), frame.limit_factor, frame.limit_floor)

    def results(self, tiles: Tiles) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Give distances and global row numbers for each point, ``(n_points, k)``."""
        rows = tiles.row_of_point()
        return np.sqrt(self.distances)[rows], self.neighbors[rows]

    def results_without_self(self, tiles: Tiles) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Give the same without the point itself, ``(n_points, k - 1)``."""
        shape = (len(tiles.points), self.distances.shape[1] - 1)
        distances, neighbors = np.empty(shape), np.empty(shape, dtype=np.int64)
        drop_self(self.distances, self.neighbors, tiles.row_of_point(), tiles.first_row, distances, neighbors)
        return distances, neighbors


def side(tiles: Tiles, lists: Lists, start: int, stop: int) -> Side:
    """Give some rows of tiles as kernels want them."""
    return Side(
        points=tiles.points,
        order=tiles.order[start:stop],
        copy_start=tiles.copy_start[start : stop + 1],
        copy_rows=tiles.copy_rows,
        limits=lists.limits[start:stop],
        distances=lists.distances[start:stop],
        neighbors=lists.neighbors[start:stop],
    )


def tile_rows_for(n_features: int) -> int:
    """Choose the rows of a tile: small where small regions spare most pairs, else as large as caches like."""
    return 256 if n_features <= 16 else 512


def prepare(points: NDArray[Any], *, first_row: int, frame: Frame, tile_rows: int, arrange: bool) -> Tiles:
    """Group, order and bound a run of rows.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features), float32 or float64, C order
        Finite original values; kept, not copied.
    first_row : int
        Global row number of the first one.
    frame : Frame
        Both sides of a join have the same one.
    tile_rows : int
        Rows of a tile.
    arrange : bool
        Put equal rows together and rows that lie near each other side by side; that costs about as much as
        a join with a thousand rows. Otherwise each point is a row of its own, in the order they came in.
    """
    n_points, n_features = points.shape
    if arrange:
        order, copy_start, copies = _arranged(points, tile_rows)
    else:
        order = copies = np.arange(n_points, dtype=np.int64)
        copy_start = np.arange(n_points + 1, dtype=np.int64)
    n_tiles = -(-len(order) // tile_rows)
    operand = np.empty((len(order), n_features + 2), dtype=np.float32)
    regions = empty_regions(n_tiles, n_features)
    for tile in range(n_tiles):
        start = tile * tile_rows
        rows = points[order[start : start + tile_rows]]
        operand[start : start + tile_rows] = candidate_operand(rows, frame)
        set_region(regions, tile, rows)
    return Tiles(
        points=points,
        first_row=first_row,
        order=order,
        copy_start=copy_start,
        copy_rows=copies + first_row,
        operand=operand,
        frame=frame,
        regions=regions,
        tile_rows=tile_rows,
    )


def _arranged(points: NDArray[Any], tile_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Give the first copy of each different row, where its copies begin, and the copies, in tile order."""
    groups = group_equal_rows(points)
    leaders = groups.leaders
    order = spatial_order(points, leaders, tile_rows)
    # Groups are numbered by leader here, to find them again in tile order.
    group_of_point = np.empty(len(points), dtype=np.int64)
    group_of_point[leaders] = np.arange(len(leaders), dtype=np.int64)
    group = group_of_point[order]
    sizes = np.diff(groups.start)[group]
    copy_start = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes)))
    shift = np.repeat(groups.start[:-1][group] - copy_start[:-1], sizes)
    return order, copy_start, groups.members[shift + np.arange(len(points), dtype=np.int64)]
