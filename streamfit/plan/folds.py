"""Which chunks are the test rows of which fold of a cross-validation."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from streamfit.plan.seeds import FOLDS, generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["folds_of_chunks"]


def folds_of_chunks(sizes: NDArray[np.int64], *, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Give each chunk a fold, so that all folds have about as many rows.

    The chunks are taken largest first, equal ones in a random order, and each goes to the fold with the fewest rows so
    far. Two folds differ by the rows of one chunk at the most.

    Parameters
    ----------
    sizes : ndarray of int64, (n_chunks,)
        Rows of each chunk, at least 1.
    n_folds : int
        Folds, at most as many as chunks.
    seed : int
        Seed of the order of equal chunks.

    Returns
    -------
    ndarray of int64, (n_chunks,)
        Folds, counted from 0; each has a chunk.

    Examples
    --------
    >>> folds = folds_of_chunks(np.array([10, 10, 10, 10, 3]), n_folds=2, seed=0)
    >>> sorted(np.bincount(folds, weights=[10, 10, 10, 10, 3]).tolist())
    [20.0, 23.0]
    """
    order = generator(seed, FOLDS).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    folds = np.empty(len(sizes), dtype=np.int64)
    rows = [(0, fold) for fold in range(n_folds)]
    for chunk in order.tolist():
        n_rows, fold = rows[0]
        folds[chunk] = fold
        heapq.heapreplace(rows, (n_rows + int(sizes[chunk]), fold))
    return folds
