"""The order of the rows in an epoch, as a pure function of layout, seed and epoch.

Chunks are permuted and taken in windows; the rows of a window are shuffled; the result is cut into
batches. Nothing here reads data, looks at a clock, or knows how many workers there are, so an epoch can
be entered at any step, on any machine, with the same rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import Shuffle, check_choice, check_count, check_flag
from streamfit.plan.batch_plan import BatchPlan, Piece
from streamfit.plan.chunk_order import chunks_in_order
from streamfit.plan.seeds import ROW_ORDER, generator, streams_canary
from streamfit.plan.state import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.plan.layout import StoreLayout

__all__ = ["EpochPlan"]

_PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """Every row of a store exactly once, in a reproducible order, cut into batches.

    With `n_ranks` the chunks are dealt to ranks, each of which makes windows and batches of its own ones: no chunk is
    read by two, and together they take every row exactly once. The rows of two ranks differ by at most one chunk.

    Parameters
    ----------
    layout : StoreLayout
        Geometry of the store.
    batch_size : int
        Rows of a batch; only the last one is shorter (or, with `min_batch`, longer).
    seed : int
        Seed of the order, 0 or more. It has no effect with ``shuffle="none"``.
    epoch : int
        Number of the epoch, counted from 0: each has another order.
    shuffle : {"window", "none"}
        Shuffle chunks and the rows of each window, or keep the order of the rows.
    window_chunks : int
        Chunks in a window.
    min_batch : int, default=1
        A last batch with fewer rows than this is merged into the one before.
    drop_last : bool, default=False
        Leave a short last batch out.
    rank, n_ranks : int, default=0, 1
        Take the part of one of so many ranks. Shuffled chunks are dealt; with ``shuffle="none"`` each rank has
        consecutive rows, in their order. A rank for which no chunk is left has no steps.

    Raises
    ------
    InvalidParameterError
        A parameter is out of its range, or a batch does not fit the window that is to be shuffled.
    InvalidDataError
        No step is left, or a rank has fewer rows than `min_batch`: all ranks refuse alike.

    Examples
    --------
    >>> from streamfit.plan.layout import StoreLayout
    >>> layout = StoreLayout(n_rows=35, n_features=2, chunk_rows=8, itemsize=4)
    >>> plan = EpochPlan(layout, batch_size=10, seed=0, epoch=0, shuffle="window", window_chunks=2)
    >>> [len(batch.rows) for batch in plan]
    [10, 10, 10, 5]
    >>> sorted(row for batch in plan for row in batch.rows.tolist()) == list(range(35))
    True
    >>> bool((plan[2].rows == list(plan)[2].rows).all())
    True
    """

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
    chunk_order: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """The chunks of this rank in the order of the epoch; inside a window they are read in ascending order."""
    window_edges: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """First position of each window in the order of the epoch, then the number of rows."""

    def __post_init__(self) -> None:
        self._check_parameters()
        sizes = self.layout.chunk_sizes
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
        edges = np.concatenate(([0], np.cumsum(sizes[order])))[[*range(0, len(order), self.window_chunks), len(order)]]
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

    # -- steps ---------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows that this rank takes in the epoch, those of a dropped last batch included."""
        return int(self.window_edges[-1])

    def __len__(self) -> int:
        """Give the number of steps."""
        full, rest = divmod(self.n_rows, self.batch_size)
        if rest == 0 or self.drop_last or (rest < self.min_batch and full > 0):
            return full
        return full + 1

    def step_bounds(self, step: int) -> tuple[int, int]:
        """First (inclusive) and last (exclusive) position of a step in the order of the epoch."""
        n_steps = len(self)
        if not 0 <= step < n_steps:
            raise IndexError(f"step {step} is not in 0..{n_steps - 1}")
        start = step * self.batch_size
        merged_tail = step == n_steps - 1 and not self.drop_last
        return start, self.n_rows if merged_tail else start + self.batch_size

    def __getitem__(self, step: int) -> BatchPlan:
        """Give the rows of a step without walking through those before it."""
        n_steps = len(self)
        step = step + n_steps if step < 0 else step
        start, stop = self.step_bounds(step)
        pieces: list[Piece] = []
        rows: list[NDArray[np.int64]] = []
        window = self.window_of_position(start)
        while start < stop:
            first, last = self.window_bounds(window)
            end = min(stop, last)
            positions = self.window_permutation(window)[start - first : end - first]
            pieces.append(Piece(window, positions))
            rows.append(self.window_rows(window, positions))
            start, window = end, window + 1
        return BatchPlan(step, tuple(pieces), np.concatenate(rows))

    def __iter__(self) -> Iterator[BatchPlan]:
        """Give the steps in order.

        Each window is permuted again for each of its steps; the verb ``stream`` permutes it once.
        """
        return (self[step] for step in range(len(self)))

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
        """Rows of the window's buffer in the order of the epoch."""
        start, stop = self.window_bounds(window)
        if self.shuffle == "none":
            return np.arange(stop - start, dtype=np.int64)
        key = window * self.n_ranks + self.rank  # no two windows of an epoch are shuffled alike
        return generator(self.seed, ROW_ORDER, self.epoch, key).permutation(stop - start)

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

    # -- the other way round -------------------------------------------------------------------------

    def steps_of_chunk(self, chunk: int) -> NDArray[np.int64]:
        """Step that each row of a chunk belongs to, ``(rows of the chunk,)``; -1 where this rank does not take it."""
        first, last = self.layout.chunk_bounds(chunk)
        slots = np.flatnonzero(self.chunk_order == chunk)
        if len(slots) == 0:
            return np.full(last - first, -1)
        slot = int(slots[0])
        window = slot // self.window_chunks
        start, stop = self.window_bounds(window)
        inverse = np.empty(stop - start, dtype=np.int64)
        inverse[self.window_permutation(window)] = np.arange(start, stop, dtype=np.int64)
        offset = int(self._window_slots(window)[1][: slot - window * self.window_chunks].sum())
        positions = inverse[offset : offset + last - first]
        steps = positions // self.batch_size
        n_steps = len(self)
        return np.where(steps < n_steps, steps, -1 if self.drop_last else n_steps - 1)

    # -- identity ------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """All that defines the order of every epoch, as plain values."""
        layout = self.layout
        edges = layout.chunk_edges.astype("<i8")
        chunks = {} if layout.starts is None else {"chunk_edges": hashlib.sha256(edges.tobytes()).hexdigest()}
        ranks = {} if self.n_ranks == 1 else {"rank": self.rank, "n_ranks": self.n_ranks}
        return {
            **chunks,
            **ranks,
            "plan_version": _PLAN_VERSION,
            "n_rows": layout.n_rows,
            "n_features": layout.n_features,
            "chunk_rows": layout.chunk_rows,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "window_chunks": self.window_chunks,
            "min_batch": self.min_batch,
            "drop_last": self.drop_last,
        }

    @property
    def fingerprint(self) -> str:
        """Hash of `describe`: two plans with the same fingerprint give the same batches in each epoch."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    # -- how far it has come -------------------------------------------------------------------------

    def state(self, step: int) -> StreamState:
        """Give the state in which `step` comes next: after the last one, the first step of the next epoch.

        ``store.stream(plan, state=...)`` goes on from there; any plan that differs by its epoch alone will do.

        Parameters
        ----------
        step : int
            Steps of this epoch that are done, 0 to ``len(plan)``.

        Raises
        ------
        InvalidParameterError
            There are fewer steps.

        Examples
        --------
        >>> from streamfit.plan.layout import StoreLayout
        >>> layout = StoreLayout(n_rows=35, n_features=2, chunk_rows=8, itemsize=4)
        >>> plan = EpochPlan(layout, batch_size=10, seed=0, epoch=0, shuffle="window", window_chunks=2)
        >>> [(plan.state(step).epoch, plan.state(step).step) for step in (0, 3, 4)]
        [(0, 0), (0, 3), (1, 0)]
        >>> plan.at(plan.state(4)).epoch
        1
        """
        step = check_count("step", step, least=0, most=len(self))
        place = (self.epoch + 1, 0) if step == len(self) else (self.epoch, step)
        return StreamState(self.fingerprint, *place, self._definition())

    def at(self, state: StreamState) -> EpochPlan:
        """Give the plan of the epoch that a state is in.

        Raises
        ------
        InvalidParameterError
            The state is of a plan with another order, or NumPy draws other orders now; the message names what differs.
        """
        state.check(self.fingerprint, self._definition())
        plan = replace(self, epoch=state.epoch)
        check_count("step", state.step, least=0, most=max(0, len(plan) - 1))
        return plan

    def _definition(self) -> dict[str, Any]:
        return {**self.describe(), "numpy_streams": streams_canary()}
