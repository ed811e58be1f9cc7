"""Counts of the next digits of each column's values: what an exact search for order statistics is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.compiled import compiled
from streamfit.maths.summaries.valid_moments import without_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["ColumnDigits", "DigitCounts", "key_dtype", "values_of_keys"]

_TILE_VALUES = 65_536
"""Values turned into keys at a time: they stay in the cache until they are counted."""


def key_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give the float type whose bits are the keys of data: float32 where it holds each value, else float64.

    Examples
    --------
    >>> [key_dtype(np.dtype(name)).name for name in ("float32", "uint16", "int32", "float64")]
    ['float32', 'float32', 'float64', 'float64']
    """
    return np.result_type(dtype, np.float16) if dtype.itemsize < 4 else np.result_type(dtype, np.float32)


def values_of_keys(keys: NDArray[np.uint64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Turn keys back into the floats of `key_dtype` that they stand for.

    Examples
    --------
    >>> values_of_keys(np.array([2**63, 2**63 - 1 - 2**62], dtype=np.uint64), np.dtype(np.float64))
    array([ 0., -2.])
    """
    bits = np.uint64(8 * dtype.itemsize)
    full, sign = np.uint64(2 ** int(bits) - 1), np.uint64(2 ** (int(bits) - 1))
    image = np.where(keys & sign, keys ^ sign, keys ^ full)
    return image.astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDigits:
    """Counts of digits, and of the values that have no place in the order."""

    counts: NDArray[np.int64]
    """Values with the prefix and the next digit, ``(n_columns, n_prefixes, 2**n_bits)``."""
    n_missing: NDArray[np.int64]
    """Missing values, ``(n_columns,)``."""
    n_infinite: NDArray[np.int64]
    """Infinite values, ``(n_columns,)``."""


@dataclass(frozen=True, slots=True, eq=False)
class DigitCounts:
    """Summary that counts, for the values of a column whose keys begin with certain bits, the bits that follow.

    A key is the unsigned integer of the same order as a float; both zeros have the same. Missing and infinite values
    are counted apart.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = DigitCounts(0, np.dtype(np.float32), 0, 2, np.zeros((1, 1), np.uint64), np.ones(1, np.int64))
    >>> rows = np.array([[-3.0], [0.5], [2.0], [np.nan]], dtype=np.float32)
    >>> digits = summary.update(summary.empty(), Chunk(0, 0, rows))
    >>> digits.counts, digits.n_missing
    (array([[[1, 0, 1, 1]]]), array([1]))
    """

    first_column: int
    """First of the columns, which are as many as `prefixes` has rows."""
    dtype: np.dtype[Any]
    """Type of the keys' floats, see `key_dtype`."""
    n_known: int
    """Bits of a prefix."""
    n_bits: int
    """Bits that are counted."""
    prefixes: NDArray[np.uint64]
    """Distinct prefixes, ``(n_columns, n_prefixes)``."""
    n_prefixes: NDArray[np.int64]
    """How many of them count in each column, ``(n_columns,)``."""
    missing: float = np.nan
    """Value that stands for a missing one; NaN is missing in any case."""

    def empty(self) -> ColumnDigits:
        """Give the counts of no rows."""
        n_columns = len(self.prefixes)
        return ColumnDigits(
            np.zeros((*self.prefixes.shape, 2**self.n_bits), dtype=np.int64),
            np.zeros(n_columns, dtype=np.int64),
            np.zeros(n_columns, dtype=np.int64),
        )

    def update(self, state: ColumnDigits, chunk: Chunk) -> ColumnDigits:
        """Add the rows of a chunk; the state is changed."""
        n_columns = len(self.prefixes)
        tile_rows = max(1, _TILE_VALUES // n_columns)
        n_key_bits = 8 * self.dtype.itemsize
        for start in range(0, chunk.n_rows, tile_rows):
            tile = chunk.X[start : start + tile_rows, self.first_column : self.first_column + n_columns]
            # Adding 0 turns -0.0, which sorts with 0.0, into 0.0, and makes a copy.
            floats = np.ascontiguousarray(without_missing(tile, self.missing), dtype=self.dtype) + self.dtype.type(0)
            _count(
                floats.view(f"u{self.dtype.itemsize}"),
                np.uint64(2 ** (n_key_bits - 1)),
                np.array(np.inf, dtype=self.dtype).view(f"u{self.dtype.itemsize}").astype(np.uint64)[()],
                np.uint64(2**n_key_bits - 1),
                self.n_known == 0,
                np.uint64(n_key_bits - self.n_known if self.n_known else 0),
                np.uint64(n_key_bits - self.n_known - self.n_bits),
                self.prefixes,
                self.n_prefixes,
                state.counts,
                state.n_missing,
                state.n_infinite,
            )
        return state

    def merge(self, left: ColumnDigits, right: ColumnDigits) -> ColumnDigits:
        """Join the counts of two disjoint sets of rows."""
        return ColumnDigits(
            left.counts + right.counts, left.n_missing + right.n_missing, left.n_infinite + right.n_infinite
        )

    def finalize(self, state: ColumnDigits) -> ColumnDigits:
        """Give the counts."""
        return state

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return (8 << self.n_bits) * self.prefixes.size + 16 * len(self.prefixes)


@compiled
def _count(
    bits: NDArray[Any],
    sign: Any,
    infinity: Any,
    full: Any,
    all_counted: bool,
    prefix_shift: Any,
    digit_shift: Any,
    prefixes: NDArray[np.uint64],
    n_prefixes: NDArray[np.int64],
    counts: NDArray[np.int64],
    n_missing: NDArray[np.int64],
    n_infinite: NDArray[np.int64],
) -> None:
    mask = np.uint64(counts.shape[2] - 1)
    for row in range(bits.shape[0]):
        for column in range(bits.shape[1]):
            image = np.uint64(bits[row, column])
            magnitude = image & (full ^ sign)
            if magnitude >= infinity:
                if magnitude > infinity:
                    n_missing[column] += 1
                else:
                    n_infinite[column] += 1
                continue
            key = (image ^ full) if image & sign else (image | sign)
            digit = np.int64((key >> digit_shift) & mask)
            if all_counted:
                counts[column, 0, digit] += 1
                continue
            prefix = key >> prefix_shift
            for group in range(n_prefixes[column]):
                if prefixes[column, group] == prefix:
                    counts[column, group, digit] += 1
                    break
