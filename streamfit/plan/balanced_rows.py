"""Epochs in which every class comes equally often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.plan.even_order import even_order
from streamfit.plan.sampling import changed_values, parts_of_chunks, sum_of_largest
from streamfit.plan.seeds import CLASS_OFFSETS, DRAWN_ROWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.options import Sampling
    from streamfit.plan.sampling import RowValues
    from streamfit.plan.seeds import EpochSeed

__all__ = ["BalancedRows"]


@dataclass(frozen=True, slots=True)
class BalancedRows:
    """As many rows as there are, of every class an equal number: rows of rare classes come often, of frequent ones not.

    Of `n` rows in `K` classes each class gives m = ⌊n/K⌋ or ⌈n/K⌉ rows, the larger number the first classes. A row of a
    class with `n_k` rows comes ⌊m/n_k⌋ or ⌈m/n_k⌉ times, and over epochs m/n_k times on average.

    A chunk before which `a` rows of the class lie, and before whose end `b`, gives, in whole numbers,
    ⌊(b m + u) / n_k⌋ − ⌊(a m + u) / n_k⌋ of them, where `u` is drawn from 0 to n_k − 1 for each class and epoch: so the
    chunks add up to `m` whatever `u` is, and no row is left out for good. Which rows of a chunk come once more than
    others is drawn.
    """

    values: RowValues
    """Class of each row."""
    rows_before: NDArray[np.int64] = field(repr=False, compare=False)
    """Rows of each class before each chunk and before the end, ``(n_chunks + 1, n_classes)``."""

    def __post_init__(self) -> None:
        if not self.rows_before[-1].all():
            raise InvalidDataError("A class has no rows, and so none can be drawn. Leave it out.")
        largest, most_draws = int(self.rows_before[-1].max()), int(self._draws_of_classes.max())
        if largest * (most_draws + 1) >= 2**63:  # such numbers are divided in 64 bits
            raise InvalidDataError(
                f"A class of {largest} rows is too large to be drawn {most_draws} times. Balance a view of fewer rows."
            )

    @property
    def name(self) -> Sampling:
        """What a user calls it."""
        return "balanced"

    @property
    def takes_each_once(self) -> bool:
        """It does not."""
        return False

    @property
    def spends_weights(self) -> bool:
        """It does not: rows of a class have their weights as before."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of the counts, and of what is made of them for each epoch."""
        return 3 * self.rows_before.nbytes

    @property
    def _draws_of_classes(self) -> NDArray[np.int64]:
        n_rows, n_classes = int(self.rows_before[-1].sum()), self.rows_before.shape[1]
        draws = np.full(n_classes, n_rows // n_classes, dtype=np.int64)
        draws[: n_rows % n_classes] += 1
        return draws

    def _draws_before(self, chunks: NDArray[np.int64] | slice, seed: EpochSeed) -> NDArray[np.int64]:
        """Give what each class gives before chunks, ``(n, n_classes)``."""
        n_rows = self.rows_before[-1]
        chance = seed.generator(CLASS_OFFSETS).bit_generator.random_raw(len(n_rows))
        draws: NDArray[np.int64] = self.rows_before[chunks] * self._draws_of_classes
        draws += (chance % n_rows.astype(np.uint64)).astype(np.int64)
        draws //= n_rows
        return draws

    def draws_of_chunks(self, _sizes: NDArray[np.int64], seed: EpochSeed, /) -> NDArray[np.int64]:
        """Give the rows of all classes that an epoch takes of each chunk."""
        draws: NDArray[np.int64] = np.diff(self._draws_before(slice(None), seed).sum(axis=1))
        return draws

    def most_draws(self, _sizes: NDArray[np.int64], n_chunks: int, /) -> int:
        """Give a bound of the rows that an epoch takes of any so many chunks: the mean of each class, rounded up."""
        held = np.diff(self.rows_before, axis=0)
        return sum_of_largest((-(-held * self._draws_of_classes // self.rows_before[-1])).sum(axis=1), n_chunks)

    def order(
        self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], seed: EpochSeed, rng: np.random.Generator, /
    ) -> NDArray[np.int64]:
        """Give the rows drawn of a window, each part of them made up as the whole."""
        classes = self.values.of(chunks)
        held = self.rows_before[chunks + 1] - self.rows_before[chunks]
        draws = self._draws_before(chunks + 1, seed) - self._draws_before(chunks, seed)
        copies = np.empty(len(classes), dtype=np.int64)
        for slot, (chunk, part) in enumerate(parts_of_chunks(chunks, sizes, len(classes), what="labels")):
            if not np.array_equal(np.bincount(classes[part], minlength=held.shape[1]), held[slot]):
                raise changed_values("labels")
            copies[part] = _copies(classes[part], held[slot], draws[slot], seed.generator(DRAWN_ROWS, chunk))
        places = np.repeat(np.arange(len(classes)), copies)
        return places[even_order(classes[places], rng)]


def _copies(
    classes: NDArray[Any], held: NDArray[np.int64], draws: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Give how often each row of a chunk comes: the draws of a class are dealt to its rows in turn, in random order."""
    least, more = np.divmod(draws, np.maximum(held, 1))
    by_class = rng.permutation(len(classes))
    by_class = by_class[np.argsort(classes[by_class], kind="stable")]
    of_row = classes[by_class]
    first_places = np.cumsum(held) - held
    copies = np.empty(len(classes), dtype=np.int64)
    copies[by_class] = least[of_row] + (np.arange(len(classes)) - first_places[of_row] < more[of_row])
    return copies
