"""Random numbers of plans: one stream for each purpose, by name, so that an order is the same for good."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np

__all__ = [
    "CHUNK_ORDER",
    "CLASS_OFFSETS",
    "DRAWN_ROWS",
    "FOLDS",
    "ROW_ORDER",
    "WEIGHT_OFFSET",
    "EpochSeed",
    "generator",
    "streams_canary",
]

# 3 and 4 are those of a shuffle, 6 to 8 those of a split: the same seed must not draw the same numbers for two of them.
CHUNK_ORDER = 1
"""The order of the chunks of an epoch."""
ROW_ORDER = 2
"""The order of the rows of a window."""
CLASS_OFFSETS = 9
"""Where each class begins to be drawn in a balanced epoch."""
WEIGHT_OFFSET = 10
"""Where rows begin to be drawn in a weighted epoch."""
DRAWN_ROWS = 11
"""Which rows of a chunk are drawn."""
FOLDS = 12
"""Which chunks are tested on in which fold."""


def generator(seed: int, *key: int) -> np.random.Generator:
    """Give the random numbers of a seed for a purpose and what else the key names."""
    # PCG64 by name: default_rng may move to another bit generator in a later NumPy.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True, slots=True)
class EpochSeed:
    """What chance follows from in one epoch."""

    seed: int
    """Seed of all epochs, 0 or more."""
    epoch: int
    """Number of the epoch, counted from 0."""

    def generator(self, purpose: int, *key: int) -> np.random.Generator:
        """Give the random numbers for a purpose and what else the key names."""
        return generator(self.seed, purpose, self.epoch, *key)


@cache
def streams_canary() -> str:
    """Hash of what fixed seeds draw: it changes if NumPy ever changes its streams."""
    digest = hashlib.sha256()
    for order in (generator(1, ROW_ORDER, 1, 0).permutation(1_000), generator(1, CHUNK_ORDER, 1).permutation(100)):
        digest.update(order.astype("<i8").tobytes())
    return digest.hexdigest()
