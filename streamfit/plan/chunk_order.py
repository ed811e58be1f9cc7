"""The order of the chunks in an epoch, and which of them a rank takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamfit.plan.ranks import share_of_rank
from streamfit.plan.seeds import CHUNK_ORDER, generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.options import Shuffle

__all__ = ["chunks_in_order"]


def chunks_in_order(
    sizes: NDArray[np.int64], *, seed: int, epoch: int, shuffle: Shuffle, window_chunks: int, rank: int, n_ranks: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the chunks of a rank in the order of an epoch, and how many rows each rank takes.

    Parameters
    ----------
    sizes : ndarray of int, (n_chunks,)
        Rows that each chunk gives; a chunk that gives none is left out.
    seed, epoch, shuffle, window_chunks, rank, n_ranks
        As in `EpochPlan`.

    Returns
    -------
    chunks : ndarray of int64, (n_chunks of the rank,)
        Numbers of chunks, ascending inside a window.
    rows : ndarray of int64, (n_ranks,)
        Rows of every rank.
    """
    order = np.arange(len(sizes), dtype=np.int64)
    if shuffle == "window":
        order = generator(seed, CHUNK_ORDER, epoch).permutation(order)
    if not sizes.all():
        order = order[sizes[order] > 0]
    if n_ranks == 1:
        rows = np.array([sizes.sum()], dtype=np.int64)
    else:
        places, rows = share_of_rank(sizes[order], rank=rank, n_ranks=n_ranks, contiguous=shuffle == "none")
        order = order[places]
    if shuffle == "window":
        # Ascending inside a window: the rows are shuffled anyhow, and reads go forward.
        whole = len(order) - len(order) % window_chunks
        order[:whole].reshape(-1, window_chunks).sort(axis=1)
        order[whole:].sort()
    return order, rows
