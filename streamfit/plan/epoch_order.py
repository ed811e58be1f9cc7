"""The order of the rows in an epoch, window by window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import Shuffle, check_choice, check_count, check_flag
from streamfit.plan.chunk_order import chunks_in_order
from streamfit.plan.seeds import ROW_ORDER, EpochSeed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.plan.layout import StoreLayout
    from streamfit.plan.sampling import RowSampling

__all__ = ["EpochOrder"]


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """What defines an epoch, and where each window of it lies; `EpochPlan` tells what the fields mean."""

    layout: StoreLayout
    batch_size: int
    seed: int
    epoch: int
    shuffle: Shuffle
    window_chunks: int
    min_batch: int = 1
    drop_last: bool = False
    rank: int = 0
    n_ranks: int = 1
    sampling: RowSampling | None = None
    chunk_order: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """The chunks of this rank in the order of the epoch; inside a window they are read in ascending order."""
    window_edges: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """First position of each window in the order of the epoch, then the number of rows."""

    def __post_init__(self) -> None:
        self._check_parameters()
        sizes = self.layout.chunk_sizes
        if self.sampling is not None:
            draws = self.sampling.draws_of_chunks(sizes, EpochSeed(self.seed, self.epoch))
            if len(draws) != len(sizes):
                raise InvalidParameterError(
                    f"The sampling is made of {len(draws)} chunks, and the store has {len(sizes)}. "
                    "Make the plan with store.plan."
                )
            sizes = draws
        order, rows = chunks_in_order(
            sizes,
            seed=self.seed,
            epoch=self.epoch,
            shuffle=self.shuffle,
            window_chunks=self.window_chunks,
            rank=self.rank,
            n_ranks=self.n_ranks,
        )
        # Each rank looks at the rows of all: one that refused alone would leave the others waiting for it.
        self._check_rows(rows)
        filled = sizes[order]
        np.cumsum(filled, out=filled)
        edges = np.concatenate(([0], filled[self.window_chunks - 1 : -1 : self.window_chunks], filled[-1:]))
        for name, values in (("chunk_order", order), ("window_edges", edges)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def _check_parameters(self) -> None:
        counts = {"batch_size": 1, "seed": 0, "epoch": 0, "window_chunks": 1, "min_batch": 1, "n_ranks": 1, "rank": 0}
        for name, least in counts.items():
            # NumPy's integers would change how the plan is described, and so its fingerprint.
            object.__setattr__(self, name, check_count(name, getattr(self, name), least=least))
        check_count("rank", self.rank, least=0, most=self.n_ranks - 1)
        check_choice("shuffle", self.shuffle, get_args(Shuffle))
        check_flag("drop_last", self.drop_last)
        window_rows = self.layout.rows_of_chunks(self.window_chunks)
        if self.shuffle == "window" and min(self.batch_size, self.layout.n_rows) > window_rows:
            raise InvalidParameterError(
                f"batch_size ({self.batch_size}) exceeds the window ({window_rows} rows). "
                "Raise window or lower batch_size."
            )
        if isinstance(self.sampling, str):
            raise InvalidParameterError(
                f"sampling={self.sampling!r} is by labels or weights, which a plan alone does not have. "
                "Make the plan with store.plan."
            )
        if self.sampling is not None and self.shuffle == "none":
            raise InvalidParameterError(
                f"sampling={self.sampling.name!r} orders rows anew, and shuffle='none' keeps their order. "
                "Leave one of them out."
            )
        if self.min_batch > self.batch_size:
            raise InvalidParameterError(
                f"min_batch ({self.min_batch}) exceeds batch_size ({self.batch_size}). Lower min_batch."
            )

    def _check_rows(self, rows: NDArray[np.int64]) -> None:
        """Refuse numbers of rows, ``(n_ranks,)``, of which no batch can be made."""
        few = np.flatnonzero((rows > 0) & (rows < self.min_batch))
        if len(few):
            of_rank, or_ranks = ("", "") if self.n_ranks == 1 else (f" for rank {few[0]}", " or n_ranks")
            raise InvalidDataError(
                f"There are {rows[few[0]]} rows{of_rank} and a batch needs {self.min_batch}. "
                f"Give more rows or lower min_batch{or_ranks}."
            )
        if self.drop_last and rows.max() < self.batch_size:
            raise InvalidDataError(
                f"No batch is left: {rows.max()} rows, batch_size={self.batch_size}, drop_last=True. "
                "Lower batch_size or set drop_last=False."
            )

    # -- windows -------------------------------------------------------------------------------------

    @property
    def n_windows(self) -> int:
        """Number of windows."""
        return -(-len(self.chunk_order) // self.window_chunks)

    def window_chunk_ids(self, window: int) -> NDArray[np.int64]:
        """Chunks of a window, ascending."""
        if not 0 <= window < self.n_windows:
            raise IndexError(f"window {window} is not in 0..{self.n_windows - 1}")
        return self.chunk_order[window * self.window_chunks : (window + 1) * self.window_chunks]

    def window_bounds(self, window: int) -> tuple[int, int]:
        """First (inclusive) and last (exclusive) position of a window in the order of the epoch."""
        return int(self.window_edges[window]), int(self.window_edges[window + 1])

    def window_of_position(self, position: int) -> int:
        """Window that holds a position of the order of the epoch."""
        return int(np.searchsorted(self.window_edges, position, side="right")) - 1

    def window_permutation(self, window: int) -> NDArray[np.int64]:
        """Rows of the window's buffer in the order of the epoch; with a `sampling` some may be missing or repeated."""
        start, stop = self.window_bounds(window)
        if self.shuffle == "none":
            return np.arange(stop - start, dtype=np.int64)
        key = window * self.n_ranks + self.rank  # no two windows of an epoch are shuffled alike
        seed = EpochSeed(self.seed, self.epoch)
        rng = seed.generator(ROW_ORDER, key)
        if self.sampling is None:
            return rng.permutation(stop - start)
        return self.sampling.order(self.window_chunk_ids(window), self._window_slots(window)[1], seed, rng)

    def window_rows(self, window: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Global row numbers of rows of the window's buffer."""
        starts, sizes = self._window_slots(window)
        shift = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        rows: NDArray[np.int64] = shift[positions]
        rows += positions
        return rows

    def _window_slots(self, window: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First row and number of rows of each chunk of a window."""
        bounds = np.array([self.layout.chunk_bounds(chunk) for chunk in self.window_chunk_ids(window).tolist()])
        return bounds[:, 0], bounds[:, 1] - bounds[:, 0]
