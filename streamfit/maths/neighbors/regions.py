"""Where tiles lie, and how far two of them are apart at the least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Regions", "empty_regions", "gaps", "set_region"]

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
