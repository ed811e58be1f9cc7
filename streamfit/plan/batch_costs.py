"""What batches of any size would cost: window, read-ahead and memory, and the largest batch that fits a limit."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamfit.errors import BudgetError
from streamfit.plan.budget import stream_budget
from streamfit.plan.window import resolve_prefetch, resolve_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamfit.options import Shuffle
    from streamfit.plan.budget import Budget
    from streamfit.plan.layout import StoreLayout
    from streamfit.plan.sampling import RowSampling
    from streamfit.plan.shuffle_quality import ChunkCorrelation

__all__ = ["BatchCost", "BatchMemory", "EstimatorCost", "StreamRequest"]


@dataclass(frozen=True, slots=True)
class EstimatorCost:
    """What an estimator was seen to take, with its transformers: measured on some rows, not promised."""

    name: str
    """Its class."""
    seconds_a_row: float
    """Wall time of a step, for each row of the batch."""
    fixed_nbytes: int
    """Bytes that it takes whatever the size of the batch."""
    row_nbytes: float
    """Bytes that it takes besides for each row of a batch."""
    measured_rows: int
    """Rows of the batches that it was measured on."""

    def nbytes(self, batch_size: int) -> int:
        """Peak of what it allocates in a step, as far as Python and NumPy know of it."""
        return self.fixed_nbytes + round(self.row_nbytes * batch_size)


@dataclass(frozen=True, slots=True)
class BatchMemory:
    """Memory of batches of one size."""

    batch_size: int
    """Rows of a batch."""
    window_chunks: int
    """Chunks in a window."""
    prefetch: int
    """Windows read ahead."""
    own_nbytes: int
    """Projected peak of streamfit's own memory; where that does not fit, the least that it could be."""
    estimator_nbytes: int | None
    """Measured peak of the estimator on top; None without one."""
    fits: bool
    """Whether ``own_nbytes`` is within the limit, so that such batches are accepted."""

    @property
    def nbytes(self) -> int:
        """Both together."""
        return self.own_nbytes + (self.estimator_nbytes or 0)


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What a stream with batches of one size would take."""

    batch_size: int
    """Rows of a batch."""
    window_chunks: int
    """Chunks in a window."""
    prefetch: int
    """Windows read ahead."""
    budget: Budget
    """Projected peak of streamfit's own memory."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream as somebody asks for it, but for the size of its batches."""

    layout: StoreLayout
    """Geometry of the store."""
    shuffle: Shuffle
    """Order of the rows."""
    window: int | None
    """Chunks in a window, or None for the default."""
    prefetch: int | None
    """Windows read ahead, or None for the default."""
    memory_limit: int | None
    """Limit in bytes."""
    label_nbytes: int
    """Bytes of one row's label and weight."""
    n_epochs: int
    """Epochs that follow each other."""
    correlation: ChunkCorrelation | None
    """Of the labels, where the default window follows from it."""
    sampling: RowSampling | None
    """How rows are chosen, where not each comes once."""

    def cost(self, batch_size: int) -> BatchCost:
        """Give what batches of a size would take.

        Raises
        ------
        BudgetError
            They do not fit the limit.
        """
        window = resolve_window(
            self.layout,
            batch_size=batch_size,
            requested=self.window,
            memory_limit=self.memory_limit,
            prefetch=self.prefetch,
            label_nbytes=self.label_nbytes,
            n_epochs=self.n_epochs,
            correlation=self.correlation,
            sampling=self.sampling,
        )
        prefetch = resolve_prefetch(
            self.layout,
            batch_size=batch_size,
            window_chunks=window,
            requested=self.prefetch,
            memory_limit=self.memory_limit,
            label_nbytes=self.label_nbytes,
            n_epochs=self.n_epochs,
            sampling=self.sampling,
        )
        return self._cost(batch_size, window, prefetch)

    def least_cost(self, batch_size: int) -> BatchCost:
        """Give the least that batches of a size would take, whatever the limit: the smallest window, none ahead."""
        window = self.layout.chunks_for_rows(batch_size) if self.window is None else self.window
        return self._cost(batch_size, min(window, self.layout.n_chunks), self.prefetch or 0)

    def _cost(self, batch_size: int, window: int, prefetch: int) -> BatchCost:
        budget = stream_budget(
            self.layout,
            batch_size=batch_size,
            window_chunks=window,
            prefetch=prefetch,
            label_nbytes=self.label_nbytes,
            n_epochs=self.n_epochs,
            sampling=self.sampling,
        )
        return BatchCost(batch_size, window, prefetch, budget)

    @property
    def most_rows(self) -> int:
        """Rows of the largest batch that the order of the rows allows, whatever it costs."""
        if self.shuffle == "none" or self.window is None:
            return self.layout.n_rows
        return self.layout.rows_of_chunks(self.window)

    def fits(self, batch_size: int, *, beside_nbytes: int) -> bool:
        """Tell whether batches of a size fit the limit together with something else, in any window that is allowed."""
        if self.memory_limit is None:
            return True
        left = self.memory_limit - beside_nbytes
        if left <= 0:
            return False
        try:
            replace(self, memory_limit=left).cost(batch_size)
        except BudgetError:
            return False
        return True

    def largest_batch_size(self, *, beside_nbytes: Callable[[int], int]) -> int:
        """Give the rows of the largest batch that fits the limit, 0 where not even one row does.

        Parameters
        ----------
        beside_nbytes : callable
            What something else takes beside batches of a size, such as the estimator.
        """

        def refused(size: int) -> bool:
            return not self.fits(size, beside_nbytes=beside_nbytes(size))

        stop = self.most_rows + 1
        for start in self._cheaper_from():
            if start < stop and not refused(start):
                return start - 1 + bisect_left(range(start, stop), 1, key=refused)
            stop = min(stop, start)
        return 0

    def _cheaper_from(self) -> list[int]:
        """Give the sizes between which the cost only grows, descending, the last one 1.

        It falls where a larger batch needs a larger window, and the epochs then have one less to be held.
        """
        n_held = 1 + (self.prefetch or 0)
        if self.window is not None:
            return [1]
        layout = self.layout
        fewer = range(1, min(-(-n_held // self.n_epochs), layout.n_chunks))
        return [*(layout.rows_of_chunks(-(-layout.n_chunks // n) - 1) + 1 for n in fewer), 1]
