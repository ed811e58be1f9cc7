"""Random parts of rows: exact counts, in bounded memory, whatever the rows are stored in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "draw_rows", "recut", "rows_of_classes"]

BLOCK_ROWS = 1 << 16
"""Rows that are drawn from together. It is part of what a seed means."""

_COUNTS = 6
_ROWS = 7
_TIES = 8
_HYPERGEOMETRIC_LIMIT = 10**9
"""NumPy's hypergeometric draws from fewer."""


def _generator(seed: int, *key: int) -> np.random.Generator:
    # PCG64 by name: default_rng may move to another bit generator in a later NumPy.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def rows_of_classes(counts: NDArray[np.int64], fraction: float, *, seed: int) -> NDArray[np.int64]:
    """Part ``round(fraction * rows)`` among classes by the largest remainders.

    Of equal remainders those are taken that the seed draws: else of many small classes the first ones would always be
    in the same part.

    Parameters
    ----------
    counts : ndarray of int, (n_classes,)
        Rows of each class.
    fraction : float
        Between 0 and 1.
    seed : int
        Seed, 0 or more.

    Examples
    --------
    >>> rows_of_classes(np.array([70, 25, 6]), 0.5, seed=0)
    array([35, 12,  3])
    >>> [rows_of_classes(np.array([3, 3, 3]), 0.4, seed=seed).tolist() for seed in (0, 1, 3)]
    [[1, 1, 2], [1, 2, 1], [2, 1, 1]]
    """
    exact = fraction * counts
    rows: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = round(fraction * int(counts.sum())) - int(rows.sum())
    ties = _generator(seed, _TIES).permutation(len(counts))
    rows[ties[np.argsort((rows - exact)[ties], kind="stable")[:missing]]] += 1
    return rows


def recut(arrays: Iterable[NDArray[Any]], n_rows: int) -> Iterator[NDArray[Any]]:
    """Join and part consecutive arrays into arrays of `n_rows`; only the last may be shorter.

    Examples
    --------
    >>> [block.tolist() for block in recut([np.arange(5), np.array([]), np.array([7])], 4)]
    [[0, 1, 2, 3], [4, 7]]
    """
    held: list[NDArray[Any]] = []
    n_held = 0
    for array in arrays:
        start = 0
        while start < len(array):
            part = array[start : start + n_rows - n_held]
            held.append(part)
            start, n_held = start + len(part), n_held + len(part)
            if n_held == n_rows:
                yield np.concatenate(held)
                held, n_held = [], 0
    if n_held:
        yield np.concatenate(held)


def draw_rows(
    classes: Iterable[NDArray[np.int64]], *, counts: NDArray[np.int64], wanted: NDArray[np.int64], seed: int
) -> Iterator[NDArray[np.bool_]]:
    """Draw a given number of rows of each class, each set of such rows with the same probability.

    Of each block of rows it is drawn first how many of each class belong to the sample, which is hypergeometric given
    those before, then which.

    Parameters
    ----------
    classes : iterable of ndarray of int
        Class of each row in consecutive blocks of `BLOCK_ROWS`; only the last may be shorter.
    counts : ndarray of int, (n_classes,)
        Rows of each class.
    wanted : ndarray of int, (n_classes,)
        Rows to draw of each class, at most as many as there are.
    seed : int
        Seed, 0 or more.

    Yields
    ------
    ndarray of bool
        Which rows of the block are drawn.
    """
    left, wanted = counts.astype(np.int64), wanted.astype(np.int64)
    count_draws = _generator(seed, _COUNTS)
    for block, codes in enumerate(classes):
        sizes = np.bincount(codes, minlength=len(left))
        drawn = np.zeros_like(left)
        small = np.flatnonzero((sizes > 0) & (left < _HYPERGEOMETRIC_LIMIT))
        drawn[small] = count_draws.hypergeometric(wanted[small], (left - wanted)[small], sizes[small])
        for large in np.flatnonzero((sizes > 0) & (left >= _HYPERGEOMETRIC_LIMIT)).tolist():
            drawn[large] = _of_many(count_draws, int(wanted[large]), int(left[large]), int(sizes[large]))
        left -= sizes
        wanted -= drawn
        # In a random order that is then sorted by class, the first rows of each class are a random set.
        shuffled = _generator(seed, _ROWS, block).permutation(len(codes))
        order = shuffled[np.argsort(codes[shuffled], kind="stable")]
        rank = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        mask = np.zeros(len(codes), dtype=np.bool_)
        mask[order] = rank < np.repeat(drawn, sizes)
        yield mask


def _of_many(generator: np.random.Generator, n_wanted: int, n_left: int, n_drawn: int) -> int:
    """Draw from a hypergeometric distribution with many rows, by drawing distinct rows."""
    rows = np.empty(0, dtype=np.int64)
    while len(rows) < n_drawn:
        more = generator.integers(n_left, size=n_drawn - len(rows))
        rows = np.unique(np.concatenate([rows, more]))
    return int(np.count_nonzero(rows < n_wanted))
