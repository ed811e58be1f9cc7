"""In how many chunks the classes of the labels lie, and how probable it is that a window holds none of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from streamfit.plan.cluster_sampling import chance_of_none

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ENOUGH_ROWS", "ClassPlaces"]

ENOUGH_ROWS = 20
"""Rows of a class in a window, on average, from which on a window should hold the class: after a full shuffle one in
500 million windows does not."""

_CHANCE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class ClassPlaces:
    """How many chunks hold each class, as far as a sample of chunks tells.

    Parameters
    ----------
    n_chunks : int
        Chunks of the store.
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    holding : ndarray of shape (n_classes,)
        Chunks that hold it.
    scattered : ndarray of shape (n_classes,)
        Chunks that would hold it if the rows were in a random order.

    Examples
    --------
    >>> counts = np.array([90_000, 10_000])
    >>> places = ClassPlaces.of_sample(
    ...     n_rows=100_000, n_chunks=100, counts=counts, n_sampled=40, n_found=np.array([36, 4])
    ... )
    >>> places.holding, places.rewritten(8).holding
    (array([90, 10]), array([100,  80]))
    >>> chance, worst = places.lacking(8)
    >>> round(chance, 2), worst
    (0.42, 1)
    >>> near = ClassPlaces.of_sample(
    ...     n_rows=100_000, n_chunks=100, counts=np.array([99_800, 200]), n_sampled=40, n_found=np.array([40, 32])
    ... )
    >>> near.holding, near.lacking(8)  # 32 of 40 is chance, and 16 rows in a window are too few to be missed
    (array([100,  86]), (0.0, None))
    """

    n_chunks: int
    counts: NDArray[np.int64]
    holding: NDArray[np.int64]
    scattered: NDArray[np.int64]

    @classmethod
    def of_sample(
        cls, *, n_rows: int, n_chunks: int, counts: NDArray[np.int64], n_sampled: int, n_found: NDArray[np.int64]
    ) -> ClassPlaces:
        """Judge by a sample.

        Where all chunks are sampled nothing is left to be judged. Else a class counts as gathered in few chunks only
        where a random order would be found with so few once in 10,000 samples, over all classes; it then lies in as
        many as the sample tells, and at least as many as its rows fill. Any other class counts as scattered.

        Parameters
        ----------
        n_rows, n_chunks : int
            Of the store.
        counts : ndarray of shape (n_classes,)
            Rows of each class in the store, at least 1.
        n_sampled : int
            Chunks of the sample.
        n_found : ndarray of shape (n_classes,)
            Chunks of the sample that hold each class.
        """
        chunk_rows = n_rows / n_chunks
        with np.errstate(divide="ignore"):  # of the only class
            held = -np.expm1(chunk_rows * np.log1p(-counts / n_rows))
        most = np.minimum(n_chunks, counts)
        least = np.ceil(counts / chunk_rows).astype(np.int64)
        scattered = np.clip(np.rint(held * n_chunks).astype(np.int64), least, most)
        if n_sampled == n_chunks:
            return cls(n_chunks, counts, n_found, scattered)
        gathered = _lower_tail(n_sampled, held, n_found) < _CHANCE / len(counts)
        told = np.clip(np.rint(n_found * (n_chunks / n_sampled)).astype(np.int64), least, most)
        return cls(n_chunks, counts, np.where(gathered, told, scattered), scattered)

    def lacking(self, window_chunks: int) -> tuple[float, int | None]:
        """Give the probability that a window lacks a class that it should hold, and which is lacked most.

        Classes are taken to be independent of each other. The second value is None where none is lacked.
        """
        expected = np.flatnonzero(self.counts * (window_chunks / self.n_chunks) >= ENOUGH_ROWS)
        if len(expected) == 0:
            return 0.0, None
        holding, inverse = np.unique(self.holding[expected], return_inverse=True)
        chances = np.array([chance_of_none(self.n_chunks, n, window_chunks) for n in holding.tolist()])[inverse]
        worst = int(expected[chances.argmax()]) if chances.any() else None
        return float(1 - np.prod(1 - chances)), worst

    def rewritten(self, window_chunks: int) -> ClassPlaces:
        """Give how many chunks hold each class after the rows were written again in the order of an epoch.

        The rows of a chunk are scattered over as many as a window has, and over no more than in a random order.
        """
        reached = np.minimum(self.holding * min(window_chunks, self.n_chunks), self.counts)
        return replace(self, holding=np.maximum(self.holding, np.minimum(reached, self.scattered)))


def _lower_tail(n: int, chances: NDArray[np.float64], n_found: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability of at most as many successes of `n`, for each chance."""
    tail = np.zeros(len(chances))
    for k in range(n + 1):
        tail += np.where(k <= n_found, comb(n, k) * chances**k * (1 - chances) ** (n - k), 0.0)
    return tail
