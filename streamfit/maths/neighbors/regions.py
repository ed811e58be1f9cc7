"""Where tiles lie, and how far two of them are apart at the least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Regions", "any_row_reaches", "empty_regions", "gaps", "set_region"]

_SHRINK = 1 - 2.0**-20
"""More than the rounding of sums of up to 2**30 squares."""


@dataclass(frozen=True, slots=True)
class Regions:
    """A box and a ball around the rows of each tile."""

    low: NDArray[np.float64]
    """Smallest values, ``(n_tiles, n_features)``."""
    high: NDArray[np.float64]
    """Largest values, ``(n_tiles, n_features)``."""
    middle: NDArray[np.float64]
    """Centre of the ball, ``(n_tiles, n_features)``."""
    radius: NDArray[np.float64]
    """Radius of the ball, rounded up, ``(n_tiles,)``."""


def empty_regions(n_tiles: int, n_features: int) -> Regions:
    """Give regions that `set_region` fills."""
    shape = (n_tiles, n_features)
    return Regions(low=np.empty(shape), high=np.empty(shape), middle=np.empty(shape), radius=np.empty(n_tiles))


def set_region(regions: Regions, tile: int, rows: NDArray[Any]) -> None:
    """Fit box and ball of a tile around its rows, ``(n_rows, n_features)``."""
    regions.low[tile] = rows.min(axis=0)
    regions.high[tile] = rows.max(axis=0)
    regions.middle[tile] = rows.mean(axis=0, dtype=np.float64)
    away = rows - regions.middle[tile]
    regions.radius[tile] = np.sqrt(np.einsum("ij,ij->i", away, away).max()) / _SHRINK


def gaps(of: Regions, tile: int, to: Regions) -> NDArray[np.float64]:
    """Bound the squared distance of a tile's rows to the rows of other tiles from below.

    Parameters
    ----------
    of : Regions
        Holds the one tile.
    tile : int
        Its number.
    to : Regions
        The other tiles.

    Returns
    -------
    ndarray of shape (n_tiles,)
        No pair of rows has a smaller squared distance, rounding included. By boxes, which are sharp for
        few features, or by balls (the triangle inequality), which are for many.
    """
    between = np.maximum(to.low - of.high[tile], of.low[tile] - to.high)
    np.maximum(between, 0, out=between)
    by_box = np.einsum("ij,ij->i", between, between)
    np.subtract(to.middle, of.middle[tile], out=between)
    apart = np.sqrt(np.einsum("ij,ij->i", between, between)) * _SHRINK - (to.radius + of.radius[tile])
    by_ball = np.maximum(apart, 0) ** 2
    return np.asarray(np.maximum(by_box, by_ball) * _SHRINK)


@compiled
def any_row_reaches(
    points: NDArray[Any],
    rows: NDArray[np.int64],
    distances: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    middle: NDArray[np.float64],
    radius: float,
) -> bool:
    """Say whether a tile may hold a neighbour of any of some rows.

    Sharper than `gaps` where a few rows of a tile are far from all others, and have far neighbours.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Original values.
    rows : ndarray of shape (n_rows,)
        Positions of the rows.
    distances : ndarray of shape (n_rows, k)
        Squared distances of their neighbours so far. Another thread may change them meanwhile: the last
        ones only become smaller, each in one write, so that an old one says yes too often.
    low, high, middle : ndarray of shape (n_features,)
        Box of the tile, and the centre of its ball.
    radius : float
        Of its ball.
    """
    last = distances.shape[1] - 1
    for p in range(rows.size):
        by_box = 0.0
        from_middle = 0.0
        for f in range(low.size):
            value = np.float64(points[rows[p], f])
            outside = max(low[f] - value, value - high[f], 0.0)
            by_box += outside * outside
            from_middle += (value - middle[f]) * (value - middle[f])
        by_ball = max(np.sqrt(from_middle) * _SHRINK - radius, 0.0)
        if max(by_box, by_ball * by_ball) * _SHRINK <= distances[p, last]:
            return True
    return False
