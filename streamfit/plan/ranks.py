"""How the chunks of an epoch are dealt to ranks, as evenly as whole chunks permit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["share_of_rank"]


def share_of_rank(
    sizes: NDArray[np.int64], *, rank: int, n_ranks: int, contiguous: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the chunks of a rank, and how many rows each rank takes.

    Two ways, both a function of the sizes alone:

    - dealt: the chunks are sorted by their rows, the largest first, equal ones as they come, and dealt out in turn. The
      rows of two ranks differ by at most the largest chunk: in each turn a rank takes no more than another one did in
      the turn before. How many rows a rank has depends on the sizes, not on where they lie, so that it stays the same
      in each epoch.
    - contiguous: the chunks keep their order, and the cut before a rank is the edge that is nearest to its even share.
      A cut is at most half a chunk off, and the rows of a rank at most one chunk.

    Parameters
    ----------
    sizes : ndarray of int, (n_chunks,)
        Rows of each chunk, at least 1.
    rank, n_ranks : int
        Which rank, of how many; those that are more than chunks get none.
    contiguous : bool
        Which way.

    Returns
    -------
    places : ndarray of int64, (n_chunks of the rank,)
        Places of its chunks among the sizes, ascending.
    rows : ndarray of int64, (n_ranks,)
        Rows of every rank.

    Examples
    --------
    >>> sizes = np.array([4, 4, 1, 4, 4])
    >>> share_of_rank(sizes, rank=0, n_ranks=2, contiguous=False)
    (array([0, 2, 3]), array([9, 8]))
    >>> share_of_rank(sizes, rank=0, n_ranks=2, contiguous=True)
    (array([0, 1]), array([8, 9]))
    >>> share_of_rank(sizes[:2], rank=2, n_ranks=3, contiguous=False)
    (array([], dtype=int64), array([4, 4, 0]))
    """
    if contiguous:
        edges = np.concatenate(([0], np.cumsum(sizes)))
        shares = np.arange(1, n_ranks) * (edges[-1] / n_ranks)
        cuts = np.searchsorted((edges[:-1] + edges[1:]) / 2, shares)
        cuts = np.concatenate(([0], cuts, [len(sizes)]))
        return np.arange(cuts[rank], cuts[rank + 1]), np.diff(edges[cuts])
    dealt = np.argsort(-sizes, kind="stable")
    rows = np.array([sizes[dealt[first::n_ranks]].sum() for first in range(n_ranks)], dtype=np.int64)
    return np.sort(dealt[rank::n_ranks]), rows
