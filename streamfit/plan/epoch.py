"""The order of the rows in an epoch, as a pure function of layout, seed and epoch.

Chunks are permuted and taken in windows; the rows of a window are shuffled; the result is cut into
batches. Nothing here reads data, looks at a clock, or knows how many workers there are, so an epoch can
be entered at any step, on any machine, with the same rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.options import check_count
from streamfit.plan.batch_plan import BatchPlan, Piece
from streamfit.plan.epoch_order import EpochOrder
from streamfit.plan.seeds import streams_canary
from streamfit.plan.state import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["EpochPlan"]

_PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class EpochPlan(EpochOrder):
    """Every row of a store exactly once, in a reproducible order, cut into batches.

    With `n_ranks` the chunks are dealt to ranks, each of which makes windows and batches of its own ones: no chunk is
    read by two, and together they take every row exactly once. The rows of two ranks differ by at most the largest
    chunk; with ``shuffle="none"`` each has at most that much more or less than its even share.

    With a `sampling` an epoch has as many rows as before, but which they are, and in which order, follows from the
    values of the rows as well. "Rows" of windows, batches and ranks are then those that are drawn; a chunk of which
    none is, is not read.

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
    sampling : RowSampling or None, default=None
        Choose and order the rows by their values; None: each once, at random.

    Raises
    ------
    InvalidParameterError
        A parameter is out of its range, a batch does not fit the window that is to be shuffled, or rows are to be
        sampled and to keep their order.
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
        """Give the rows of a step without walking through those before it.

        Raises
        ------
        IndexError
            There is no such step.
        InvalidDataError, StoreCorruptError
            With a `sampling`, whose labels or weights are read for it: they are others than were counted, or damaged.
        """
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

    # -- the other way round -------------------------------------------------------------------------

    def steps_of_chunk(self, chunk: int) -> NDArray[np.int64]:
        """Step that each row of a chunk belongs to, ``(rows of the chunk,)``; -1 where this rank does not take it.

        Raises
        ------
        InvalidParameterError
            Rows may belong to several steps.
        """
        if self.sampling is not None and not self.sampling.takes_each_once:
            raise InvalidParameterError(
                f"With sampling={self.sampling.name!r} a row may be in several steps. Look for it in plan[step].rows."
            )
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
        by = self.sampling
        sampling = {} if by is None else {"sampling": by.name, "sampled_rows": by.values.digest}
        return {
            **chunks,
            **ranks,
            **sampling,
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
