"""A uniform permutation of all rows of a store, as a pure function of row number and seed.

Each row has a 64-bit key, and the shuffled rows are those in the order of ``(key, row)``. Nothing but the row's number
and the seed enters a key, so that the order is the same for any chunks, any memory, any interruption. Rows with keys
in the same range form a bucket: the buckets, one after the other and each sorted by itself, are the whole order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.options import check_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["ShuffleOrder", "order_of_keys", "passes_seed"]

_BLOCK_ROWS = 65_536
"""Rows whose keys come from one stream of random bits."""

# The purposes 1 and 2 are those of the epochs of a stream: a store that is shuffled by a seed and streamed by the same
# seed must not have the same order applied twice.
_KEYS = 3
_PASSES = 4


@dataclass(frozen=True, slots=True)
class ShuffleOrder:
    """A permutation of rows that nobody has to hold in memory.

    Examples
    --------
    >>> order = ShuffleOrder(n_rows=5, seed=0)
    >>> keys = order.keys(0, 5)
    >>> bool((order.keys(2, 4) == keys[2:4]).all())
    True
    >>> order_of_keys(keys)
    array([1, 3, 0, 2, 4])
    >>> order.buckets(keys, n_buckets=2), order.bucket_rows(n_buckets=2)
    (array([0, 0, 1, 0, 1], dtype=uint16), array([3, 2]))
    """

    n_rows: int
    """Rows, at least 1."""
    seed: int
    """Seed of the order, 0 or more."""

    def __post_init__(self) -> None:
        for name, least in (("n_rows", 1), ("seed", 0)):
            object.__setattr__(self, name, check_count(name, getattr(self, name), least=least))

    def keys(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Give the keys of the rows from `start` (inclusive) to `stop` (exclusive)."""
        keys = np.empty(stop - start, dtype=np.uint64)
        for first in range(start - start % _BLOCK_ROWS, stop, _BLOCK_ROWS):
            begin, end = max(first, start), min(first + _BLOCK_ROWS, stop)
            # PCG64 by name: its raw bits never change, unlike what `default_rng` gives.
            bits = np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(_KEYS, first // _BLOCK_ROWS)))
            keys[begin - start : end - start] = bits.advance(begin - first).random_raw(end - begin)
        return keys

    def buckets(self, keys: NDArray[np.uint64], *, n_buckets: int) -> NDArray[Any]:
        """Give the bucket of each key: equal parts of the range of keys, in its order."""
        places = ((keys >> np.uint64(32)) * np.uint64(n_buckets)) >> np.uint64(32)
        return places.astype(np.uint16 if n_buckets <= 2**16 else np.int64)

    def bucket_rows(self, *, n_buckets: int) -> NDArray[np.int64]:
        """Count the rows of each bucket, from the keys alone."""
        counts = np.zeros(n_buckets, dtype=np.int64)
        for start in range(0, self.n_rows, _BLOCK_ROWS):
            keys = self.keys(start, min(start + _BLOCK_ROWS, self.n_rows))
            counts += np.bincount(self.buckets(keys, n_buckets=n_buckets), minlength=n_buckets)
        return counts

    def buckets_within(self, most_rows: int) -> NDArray[np.int64]:
        """Count the rows of as few buckets as keep each of them within `most_rows`.

        Raises
        ------
        InvalidParameterError
            No number of buckets that is worth a try does.
        """
        for n_buckets in self._guesses(most_rows):
            counts = self.bucket_rows(n_buckets=n_buckets)
            if counts.max() <= most_rows:
                return counts
        raise InvalidParameterError(
            f"most_rows={most_rows} is too few to part {self.n_rows} rows into buckets at random. Raise it."
        )

    def _guesses(self, most_rows: int) -> Iterator[int]:
        if self.n_rows <= most_rows:
            yield 1
        # Rows fall into buckets at random: leave four standard deviations, and more where that was not enough.
        mean = max(1.0, ((most_rows + 4) ** 0.5 - 2) ** 2)
        while mean >= 0.05:
            yield int(self.n_rows / mean) + 1
            mean *= 0.9


def order_of_keys(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Give the order of ``(key, row)`` of rows that are held in ascending order."""
    order = np.argsort(keys)
    ascending = keys[order]
    if (ascending[1:] == ascending[:-1]).any():  # at even odds once in five billion rows: then the slower way
        order = np.argsort(keys, kind="stable")
    return order


def passes_seed(seed: int) -> int:
    """Give the seed of the epochs by which a store is rewritten."""
    return int(np.random.SeedSequence(seed, spawn_key=(_PASSES,)).generate_state(1, np.uint64)[0])
