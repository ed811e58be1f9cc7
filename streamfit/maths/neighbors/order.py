"""Put rows that lie near each other side by side, so that tiles cover small regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["spatial_order"]

_SAMPLE_ROWS = 128
_POWER_STEPS = 4


@compiled
def project(points: NDArray[Any], rows: NDArray[np.int64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project rows on a direction, without a copy of them."""
    out = np.empty(rows.size)
    for p in range(rows.size):
        total = 0.0
        for f in range(direction.size):
            total += np.float64(points[rows[p], f]) * direction[f]
        out[p] = total
    return out


def leading_direction(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """Approximate the direction of largest variance, ``(n_features,)``; zeros for equal rows."""
    centred = sample - np.median(sample, axis=0)
    centred /= max(np.abs(centred).max(), np.finfo(np.float64).tiny)
    # A row of very large norm would be the direction by itself: all rows weigh the same.
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    direction: NDArray[np.float64] = centred[np.argmax(np.abs(centred).sum(axis=1))]
    for _ in range(_POWER_STEPS):
        direction = centred.T @ (centred @ direction)
        direction /= max(np.linalg.norm(direction), np.finfo(np.float64).tiny)
    return direction


def spatial_order(points: NDArray[Any], rows: NDArray[np.int64], tile_rows: int) -> NDArray[np.int64]:
    """Order rows by halving them again and again across the direction of largest variance.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        All rows.
    rows : ndarray of shape (n_rows,)
        Positions of the rows to order.
    tile_rows : int
        Halves are multiples of this, so that runs of `tile_rows` rows are the leaves.

    Returns
    -------
    ndarray of shape (n_rows,)
        The same positions, in another order. The order makes a search fast; no result depends on it.
    """
    order = rows.copy()
    stack = [(0, len(order))]
    while stack:
        start, stop = stack.pop()
        n_rows = stop - start
        if n_rows <= tile_rows:
            continue
        part = order[start:stop]
        sample = points[part[:: -(-n_rows // _SAMPLE_ROWS)]].astype(np.float64)
        keys = project(points, part, leading_direction(sample))
        middle = -(-n_rows // tile_rows) // 2 * tile_rows
        order[start:stop] = part[np.argpartition(keys, middle)]
        stack += [(start, start + middle), (start + middle, stop)]
    return order
