"""Exact order statistics of the columns of a store, in bounded memory, by a few passes of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import BudgetError
from streamfit.maths.summaries.digits import ColumnDigits, DigitCounts, key_dtype, values_of_keys
from streamfit.run.engine import current_engine
from streamfit.run.passes import summarising_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["ColumnOrder", "order_statistics", "percentile_between"]

_DIGIT_BITS = 11
"""Bits that a pass resolves: float32 takes 3 passes, float64 takes 6."""
_STATE_NBYTES = 2**25
"""Most bytes of a state where no limit is given; the columns are taken in blocks that have such states."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnOrder:
    """Order statistics of the valid values of each column."""

    count: NDArray[np.int64]
    """Valid values: those that are finite and not missing, ``(n_features,)``."""
    n_missing: NDArray[np.int64]
    """Missing values, ``(n_features,)``."""
    n_infinite: NDArray[np.int64]
    """Infinite values, ``(n_features,)``."""
    values: NDArray[Any]
    """The values at the ranks that were asked for, ``(n_features, n_ranks)``; NaN in a column without valid values."""


def percentile_between(count: NDArray[np.int64], q: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Say between which ranks the percentile of ``numpy.percentile`` lies.

    Parameters
    ----------
    count : ndarray of shape (n_features,)
        Values of each column.
    q : float
        Percentile, 0 to 100 inclusive.

    Returns
    -------
    ranks : ndarray of shape (n_features, 2)
        The lower and the upper one, counted from 0.
    weight : ndarray of shape (n_features,)
        Weight of the upper one.

    Examples
    --------
    >>> percentile_between(np.array([5, 1]), 90)
    (array([[3, 4], [0, 0]]), array([0.6, 0. ]))
    """
    last = np.maximum(count - 1, 0)
    position = last * np.true_divide(q, 100)
    lower = np.minimum(np.floor(position).astype(np.int64), last)
    return np.stack([lower, np.minimum(lower + 1, last)], axis=1), position - lower


def order_statistics(
    store: FeatureStore,
    ranks: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    *,
    n_ranks: int,
    missing: float,
    memory_limit: int | None,
    engine: Engine | None,
) -> ColumnOrder:
    """Give the values at certain ranks of each column, sorted, without missing ones.

    Each value is a key, an unsigned integer of the same order. A pass counts the leading bits of all keys, the next
    one looks at those that share their leading bits with a wanted value, and so on until all bits are known.

    Parameters
    ----------
    store : FeatureStore
        The rows; they are not sparse.
    ranks : callable
        Gives the ranks, ``(n_features, n_ranks)``, counted from 0, for the number of valid values of each column; what
        it gives for a column without values is not used.
    n_ranks : int
        Ranks of each column.
    missing : float
        Value that stands for a missing one; NaN is missing in any case.
    memory_limit : int or None
        Limit in bytes. Where the counts of all columns do not fit, the columns are taken in blocks, each with passes
        of its own; the values are the same.
    engine : Engine or None
        Where passes run.

    Raises
    ------
    BudgetError
        Not even one column fits.
    """
    engine = engine or current_engine()
    dtype = key_dtype(store.dtype)
    block = _block_columns(store, n_ranks, dtype, memory_limit=memory_limit, engine=engine)
    parts = [
        _Search(store, first, min(first + block, store.n_features), dtype, missing, memory_limit, engine).run(ranks)
        for first in range(0, store.n_features, block)
    ]
    return ColumnOrder(
        count=np.concatenate([part.count for part in parts]),
        n_missing=np.concatenate([part.n_missing for part in parts]),
        n_infinite=np.concatenate([part.n_infinite for part in parts]),
        values=np.concatenate([part.values for part in parts]),
    )


def _block_columns(
    store: FeatureStore, n_ranks: int, dtype: np.dtype[Any], *, memory_limit: int | None, engine: Engine
) -> int:
    """Columns that are searched at once: as many as have states that fit."""
    n_columns = store.n_features
    while True:
        prefixes = np.zeros((n_columns, n_ranks), dtype=np.uint64)
        summary = DigitCounts(0, dtype, 0, _DIGIT_BITS, prefixes, np.zeros(n_columns, dtype=np.int64))
        fits = n_columns == 1 or summary.state_nbytes <= _STATE_NBYTES
        if fits and memory_limit is not None:
            try:
                summarising_tasks(store.layout, summary, memory_limit=memory_limit, engine=engine)
            except BudgetError:
                if n_columns == 1:
                    raise
                fits = False
        if fits:
            return n_columns
        n_columns = -(-n_columns // 2)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search in one block of columns."""

    store: FeatureStore
    first: int
    stop: int
    dtype: np.dtype[Any]
    missing: float
    memory_limit: int | None
    engine: Engine

    def run(self, ranks: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> ColumnOrder:
        n_columns, n_key_bits = self.stop - self.first, 8 * self.dtype.itemsize
        prefixes = np.zeros((n_columns, 1), dtype=np.uint64)
        n_prefixes = np.ones(n_columns, dtype=np.int64)
        n_bits = min(_DIGIT_BITS, n_key_bits)
        digits = self._pass(0, n_bits, prefixes, n_prefixes)
        count = digits.counts.sum(axis=(1, 2))
        wanted = np.where(count[:, None] > 0, ranks(count), 0)
        group = np.zeros(wanted.shape, dtype=np.intp)
        n_known, first_pass = 0, digits
        while True:
            prefixes, n_prefixes, wanted, group = _narrow(digits.counts, n_bits, prefixes, wanted, group)
            n_known += n_bits
            if n_known == n_key_bits:
                break
            n_bits = min(_DIGIT_BITS, n_key_bits - n_known)
            digits = self._pass(n_known, n_bits, prefixes, n_prefixes)
        keys = np.take_along_axis(prefixes, group, axis=1)
        values = values_of_keys(keys, self.dtype)
        values[count == 0] = np.nan
        return ColumnOrder(count, first_pass.n_missing, first_pass.n_infinite, values)

    def _pass(
        self, n_known: int, n_bits: int, prefixes: NDArray[np.uint64], n_prefixes: NDArray[np.int64]
    ) -> ColumnDigits:
        summary = DigitCounts(self.first, self.dtype, n_known, n_bits, prefixes, n_prefixes, self.missing)
        digits: ColumnDigits = self.store.reduce(summary, memory_limit=self.memory_limit, engine=self.engine)
        return digits


def _narrow(
    counts: NDArray[np.int64],
    n_bits: int,
    prefixes: NDArray[np.uint64],
    wanted: NDArray[np.int64],
    group: NDArray[np.intp],
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
    """Find the digit of each wanted rank; give the distinct longer prefixes and the ranks among their values."""
    n_columns, n_ranks = wanted.shape
    longer = np.empty(wanted.shape, dtype=np.uint64)
    rest = np.empty_like(wanted)
    for column in range(n_columns):
        upto = counts[column].cumsum(axis=1)
        for index in range(n_ranks):
            mine, rank = group[column, index], wanted[column, index]
            digit = min(int(np.searchsorted(upto[mine], rank, side="right")), upto.shape[1] - 1)
            rest[column, index] = rank - (upto[mine, digit] - counts[column, mine, digit])
            longer[column, index] = (prefixes[column, mine] << np.uint64(n_bits)) | np.uint64(digit)
    distinct = [np.unique(row, return_inverse=True) for row in longer]
    n_prefixes = np.array([len(found) for found, _ in distinct], dtype=np.int64)
    padded = np.zeros((n_columns, int(n_prefixes.max())), dtype=np.uint64)
    for row, (found, _) in zip(padded, distinct, strict=True):
        row[: len(found)] = found
    return padded, n_prefixes, rest, np.stack([inverse for _, inverse in distinct])
