"""Rows with equal values: found by hash, confirmed by comparison, searched once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Groups", "group_equal_rows"]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows put together by equal values."""

    start: NDArray[np.int64]
    """Where in `members` a group begins, ``(n_groups + 1,)``."""
    members: NDArray[np.int64]
    """Positions of the rows, ascending in a group, ``(n_rows,)``."""

    @property
    def leaders(self) -> NDArray[np.int64]:
        """First row of each group, ``(n_groups,)``."""
        return self.members[self.start[:-1]]


@compiled
def hash_rows(bits: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash the bits of each row."""
    n_rows, n_words = bits.shape
    out = np.empty(n_rows, np.uint64)
    for i in range(n_rows):
        value = np.uint64(0x9E3779B97F4A7C15)
        for f in range(n_words):
            value = (value ^ np.uint64(bits[i, f])) * np.uint64(0x9FB21C651E98DF25)
            value ^= value >> np.uint64(29)
        out[i] = value
    return out


@compiled
def split_runs(points: NDArray[Any], hashes: NDArray[np.uint64], members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find where groups begin. Different rows with one hash, should there be any, part here."""
    n_rows, n_features = points.shape
    start = np.empty(n_rows + 1, np.int64)
    n_groups = 0
    leader = 0
    for p in range(n_rows):
        row = members[p]
        same = p > 0 and hashes[row] == hashes[leader]
        f = 0
        while same and f < n_features:
            same = points[row, f] == points[leader, f]
            f += 1
        if not same:
            start[n_groups] = p
            n_groups += 1
            leader = row
    start[n_groups] = n_rows
    return start[: n_groups + 1].copy()


def group_equal_rows(points: NDArray[Any]) -> Groups:
    """Group the rows of a matrix by equal values.

    Parameters
    ----------
    points : ndarray of shape (n_rows, n_features), float32 or float64, C order
        The rows. Zeros of both signs are equal, but are not always found to be: that costs time only.

    Returns
    -------
    Groups
        A group for each different row.

    Examples
    --------
    >>> groups = group_equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    >>> sorted(groups.members[a:b].tolist() for a, b in zip(groups.start[:-1], groups.start[1:]))
    [[0, 2], [1]]
    """
    bits = points.view(np.uint32 if points.dtype == np.float32 else np.uint64)
    hashes = hash_rows(bits)
    members = np.argsort(hashes, kind="stable")
    return Groups(start=split_runs(points, hashes, members), members=members)
