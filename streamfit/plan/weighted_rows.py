"""Epochs in which each row comes as often as its weight says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.plan.sampling import changed_values, parts_of_chunks, sum_of_largest
from streamfit.plan.seeds import DRAWN_ROWS, WEIGHT_OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.options import Sampling
    from streamfit.plan.sampling import RowValues
    from streamfit.plan.seeds import EpochSeed

__all__ = ["WeightedRows", "sum_in_order"]

_ROUNDING = 1e-11
"""Numbers that are as near to a whole one, in proportion, are taken for it: sums of floats are rounded."""


def sum_in_order(weights: NDArray[np.float64]) -> float:
    """Add one by one, so that it is the same sum on every machine."""
    return float(np.add.accumulate(weights)[-1]) if len(weights) else 0.0


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """As many rows as there are, each in proportion to its weight, by systematic resampling.

    Of `n` rows, a row of weight `w` is expected e = n w / Σw times, and comes ⌊e⌋ or ⌈e⌉ times; one of weight zero
    never. The expectations of all chunks are laid end to end on a line, which a random number shifts for each epoch; a
    chunk gives as many rows as whole numbers lie in its part. Inside the chunk each row gives ⌊e⌋ copies, and the
    remainders are laid out in the same way, in random order, so that neighbours do not exclude each other.
    """

    values: RowValues
    """Weight of each row, not negative."""
    weight_before: NDArray[np.float64] = field(repr=False, compare=False)
    """Sum of the weights before each chunk and before the end, ``(n_chunks + 1,)``."""
    n_rows: int
    """Rows of an epoch."""

    def __post_init__(self) -> None:
        total = float(self.weight_before[-1])
        if not np.isfinite(total) or total <= 0:
            raise InvalidDataError(
                f"The weights of all rows add up to {total}. Give weights of which the sum is finite and above 0."
            )

    @property
    def name(self) -> Sampling:
        """What a user calls it."""
        return "weighted"

    @property
    def takes_each_once(self) -> bool:
        """It does not."""
        return False

    @property
    def spends_weights(self) -> bool:
        """It does."""
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of the sums, and of what is made of them for each epoch."""
        return 3 * self.weight_before.nbytes

    @property
    def _draws_a_weight(self) -> float:
        return self.n_rows / float(self.weight_before[-1])

    def _line(self, chunks: NDArray[np.int64] | slice, seed: EpochSeed) -> NDArray[np.float64]:
        """Give where chunks begin on the shifted line."""
        shift = (seed.generator(WEIGHT_OFFSET).bit_generator.random_raw() >> 11) * 2.0**-53
        line: NDArray[np.float64] = self.weight_before[chunks] / self.weight_before[-1]
        line *= self.n_rows
        line += shift
        return line

    def _draws_before(self, line: NDArray[np.float64]) -> NDArray[np.int64]:
        # The end of the line may be rounded up to one more.
        return np.minimum(np.floor(line).astype(np.int64), self.n_rows)

    def draws_of_chunks(self, _sizes: NDArray[np.int64], seed: EpochSeed, /) -> NDArray[np.int64]:
        """Give the whole numbers in each chunk's part of the line."""
        return np.diff(self._draws_before(self._line(slice(None), seed)))

    def most_draws(self, _sizes: NDArray[np.int64], n_chunks: int, /) -> int:
        """Give a bound of the rows that an epoch takes of any so many chunks: one more of each than on average."""
        expected = np.diff(self.weight_before) * self._draws_a_weight
        return min(self.n_rows, sum_of_largest(np.floor(expected).astype(np.int64) + 1, n_chunks))

    def order(
        self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], seed: EpochSeed, rng: np.random.Generator, /
    ) -> NDArray[np.int64]:
        """Give the rows drawn of a window in random order."""
        weights = self.values.of(chunks)
        starts, ends = self._line(chunks, seed), self._line(chunks + 1, seed)
        draws = self._draws_before(ends) - self._draws_before(starts)
        sums = self.weight_before[chunks + 1] - self.weight_before[chunks]
        slack = _ROUNDING * self.weight_before[-1]
        copies = np.empty(len(weights), dtype=np.int64)
        for slot, (chunk, part) in enumerate(parts_of_chunks(chunks, sizes, len(weights), what="weights")):
            if abs(sum_in_order(weights[part]) - sums[slot]) > slack:
                raise changed_values("weights")
            copies[part] = _copies(
                weights[part] * self._draws_a_weight,
                int(draws[slot]),
                shift=float(starts[slot] % 1),
                rng=seed.generator(DRAWN_ROWS, chunk),
            )
        places = np.repeat(np.arange(len(weights)), copies)
        return places[rng.permutation(len(places))]


def _copies(
    expected: NDArray[np.float64], n_draws: int, *, shift: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Give how often each row of a chunk comes."""
    whole = np.floor(expected * (1 + _ROUNDING))
    rest = expected - whole
    rest[rest < _ROUNDING * whole] = 0.0
    order = rng.permutation(len(expected))
    marks = np.floor(shift + np.add.accumulate(rest[order]))
    copies = whole.astype(np.int64)
    copies[order] += np.diff(marks, prepend=0.0).astype(np.int64)
    # The sums of all chunks and those of one are rounded apart: once in millions of chunks a row is left over.
    off = n_draws - int(copies.sum())
    if off > 0:
        copies[np.argsort(-(rest + (expected > 0)), kind="stable")[:off]] += 1
    elif off < 0:
        given = np.flatnonzero(copies)
        copies[given[np.argsort(rest[given], kind="stable")[:-off]]] -= 1
    return copies
