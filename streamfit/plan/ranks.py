"""How the chunks of an epoch are dealt to ranks, as evenly as whole chunks permit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["owners_of_chunks", "rows_of_ranks"]


def owners_of_chunks(sizes: NDArray[np.int64], *, n_ranks: int, contiguous: bool) -> NDArray[np.int64]:
    """Give the rank that each chunk belongs to.

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
    n_ranks : int
        Ranks; those that are more than chunks get none.
    contiguous : bool
        Which way.

    Returns
    -------
    ndarray of int64, (n_chunks,)
        Numbers of ranks.

    Examples
    --------
    >>> sizes = np.array([4, 4, 1, 4, 4])
    >>> owners_of_chunks(sizes, n_ranks=2, contiguous=False)
    array([0, 1, 0, 0, 1])
    >>> owners_of_chunks(sizes, n_ranks=2, contiguous=True)
    array([0, 0, 1, 1, 1])
    >>> owners_of_chunks(sizes[:2], n_ranks=3, contiguous=False)
    array([0, 1])
    """
    n_chunks = len(sizes)
    owners = np.zeros(n_chunks, dtype=np.int64)
    if n_ranks == 1:
        return owners
    if not contiguous:
        owners[np.argsort(-sizes, kind="stable")] = np.arange(n_chunks) % n_ranks
        return owners
    edges = np.concatenate(([0], np.cumsum(sizes)))
    shares = np.arange(1, n_ranks) * (edges[-1] / n_ranks)
    cuts = np.searchsorted((edges[:-1] + edges[1:]) / 2, shares)
    owners[:] = np.searchsorted(cuts, np.arange(n_chunks), side="right")
    return owners


def rows_of_ranks(sizes: NDArray[np.int64], owners: NDArray[np.int64], *, n_ranks: int) -> NDArray[np.int64]:
    """Count the rows of each rank, ``(n_ranks,)``."""
    rows = np.bincount(owners, weights=sizes, minlength=n_ranks)  # as float64, exact below 2**53
    return rows.astype(np.int64)
