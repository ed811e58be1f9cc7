"""Which rows an epoch takes, and in which order a window gives them, by the values of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.plan.even_order import even_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.options import Sampling
    from streamfit.plan.seeds import EpochSeed

__all__ = ["RowSampling", "RowValues", "StratifiedRows", "changed_values", "parts_of_chunks", "sum_of_largest"]


class RowValues(Protocol):
    """A value of each row, small enough to be read for all rows of a window."""

    @property
    def digest(self) -> str:
        """Identity of the rows."""

    def of(self, chunks: NDArray[np.int64], /) -> NDArray[Any]:
        """Give the values of the rows of some chunks, end to end."""


class RowSampling(Protocol):
    """A way to choose and to order the rows of an epoch: a pure function of their values, seed and epoch."""

    @property
    def name(self) -> Sampling:
        """What a user calls it."""

    @property
    def values(self) -> RowValues:
        """What it goes by."""

    @property
    def takes_each_once(self) -> bool:
        """Whether an epoch has each row exactly once."""

    @property
    def spends_weights(self) -> bool:
        """Whether rows come as often as their weights say, so that batches must not have the weights again."""

    @property
    def nbytes(self) -> int:
        """Bytes of what it holds."""

    def draws_of_chunks(self, sizes: NDArray[np.int64], seed: EpochSeed, /) -> NDArray[np.int64]:
        """Give how many rows an epoch takes of each chunk, ``(n_chunks,)``, where `sizes` are the rows that it has."""

    def most_draws(self, sizes: NDArray[np.int64], n_chunks: int, /) -> int:
        """Give a bound of the rows that an epoch takes of any so many chunks."""

    def order(
        self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], seed: EpochSeed, rng: np.random.Generator, /
    ) -> NDArray[np.int64]:
        """Give the rows that an epoch takes of a window, in their order, by their places in its chunks end to end."""


def changed_values(what: str) -> InvalidDataError:
    """Name values that are not those that were counted, as altered files give them where no checksum is compared."""
    return InvalidDataError(
        f"The {what} of the store are not those that were counted when the plan was made. Check it with store.verify()."
    )


def parts_of_chunks(
    chunks: NDArray[np.int64], sizes: NDArray[np.int64], n_values: int, *, what: str
) -> Iterator[tuple[int, slice]]:
    """Give each chunk and where its rows lie among the values of a window.

    Raises
    ------
    InvalidDataError
        There are more or fewer values than rows.
    """
    edges = np.cumsum(sizes).tolist()
    if n_values != edges[-1]:
        raise changed_values(what)
    yield from zip(chunks.tolist(), map(slice, [0, *edges[:-1]], edges), strict=True)


def sum_of_largest(sizes: NDArray[np.int64], n: int) -> int:
    """Add the `n` largest."""
    n = min(n, len(sizes))
    return int(np.partition(sizes, len(sizes) - n)[len(sizes) - n :].sum())


@dataclass(frozen=True, slots=True)
class StratifiedRows:
    """Each row exactly once, and in every run of rows each class as in their window; `even_order` tells how close."""

    values: RowValues
    """Class of each row."""

    @property
    def name(self) -> Sampling:
        """What a user calls it."""
        return "stratified"

    @property
    def takes_each_once(self) -> bool:
        """It does."""
        return True

    @property
    def spends_weights(self) -> bool:
        """It does not."""
        return False

    @property
    def nbytes(self) -> int:
        """It holds nothing."""
        return 0

    def draws_of_chunks(self, sizes: NDArray[np.int64], _seed: EpochSeed, /) -> NDArray[np.int64]:
        """Give the rows of each chunk."""
        return sizes

    def most_draws(self, sizes: NDArray[np.int64], n_chunks: int, /) -> int:
        """Give the rows of the largest chunks."""
        return sum_of_largest(sizes, n_chunks)

    def order(
        self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], _seed: EpochSeed, rng: np.random.Generator, /
    ) -> NDArray[np.int64]:
        """Give all rows of a window, each part of them made up as the whole."""
        classes = self.values.of(chunks)
        if len(classes) != sizes.sum():
            raise changed_values("labels")
        return even_order(classes, rng)
