"""The order of the rows in an epoch, as a pure function of layout, seed and epoch.

Chunks are permuted and taken in windows; the rows of a window are shuffled; the result is cut into
batches. Nothing here reads data, looks at a clock, or knows how many workers there are, so an epoch can
be entered at any step, on any machine, with the same rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import Shuffle, check_choice, check_count, check_flag
from streamfit.plan.layout import StoreLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["BatchPlan", "EpochPlan", "Piece", "streams_canary"]

_CHUNK_ORDER = 1
_ROW_ORDER = 2
_PLAN_VERSION = 1


def _generator(seed: int, *key: int) -> np.random.Generator:
    # PCG64 by name: default_rng may move to another bit generator in a later NumPy.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a batch that comes from one window."""

    window: int
    """Number of the window."""
    positions: NDArray[np.int64]
    """Rows of the window's buffer, in the order of the batch.

    The buffer holds the window's chunks in ascending order, end to end.
    """


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The rows of one step."""

    step: int
    """Position in the epoch, counted from 0."""
    pieces: tuple[Piece, ...]
    """Where the rows are found, window by window."""
    rows: NDArray[np.int64]
    """Global row numbers, in the order of the batch."""


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """Every row of a store exactly once, in a reproducible order, cut into batches.

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

    Raises
    ------
    InvalidParameterError
        A parameter is out of its range, or a batch does not fit the window that is to be shuffled.
    InvalidDataError
        No step is left, since `drop_last` or `min_batch` ask for more rows than there are.

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
    chunk_order: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """All chunks in the order of the epoch; inside a window they are read in ascending order."""
    window_edges: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """First position of each window in the order of the epoch, then the number of rows."""

    def __post_init__(self) -> None:
        for name, least in (
            ("batch_size", 1),
            ("seed", 0),
            ("epoch", 0),
            ("window_chunks", 1),
            ("min_batch", 1),
        ):
            # NumPy's integers would change how the plan is described, and so its fingerprint.
            object.__setattr__(self, name, check_count(name, getattr(self, name), least=least))
        check_choice("shuffle", self.shuffle, get_args(Shuffle))
        check_flag("drop_last", self.drop_last)
        n_chunks = self.layout.n_chunks
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
        order = np.arange(n_chunks, dtype=np.int64)
        if self.shuffle == "window":
            order = _generator(self.seed, _CHUNK_ORDER, self.epoch).permutation(order)
            for start in range(0, n_chunks, self.window_chunks):
                # Ascending inside a window: the rows are shuffled anyhow, and reads go forward.
                order[start : start + self.window_chunks].sort()
        order.flags.writeable = False
        object.__setattr__(self, "chunk_order", order)
        filled = np.cumsum(self.layout.chunk_sizes[order])
        last_slots = np.arange(self.window_chunks, n_chunks, self.window_chunks) - 1
        edges = np.concatenate(([0], filled[last_slots], filled[-1:]))
        edges.flags.writeable = False
        object.__setattr__(self, "window_edges", edges)
        if self.layout.n_rows < self.min_batch:
            raise InvalidDataError(
                f"There are {self.layout.n_rows} rows and a batch needs {self.min_batch}. "
                "Give more rows or lower min_batch."
            )
        if len(self) == 0:
            raise InvalidDataError(
                f"No batch is left: {self.layout.n_rows} rows, batch_size={self.batch_size}, drop_last=True. "
                "Lower batch_size or set drop_last=False."
            )

    # -- steps ---------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Give the number of steps."""
        full, rest = divmod(self.layout.n_rows, self.batch_size)
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
        return start, self.layout.n_rows if merged_tail else start + self.batch_size

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
        return -(-self.layout.n_chunks // self.window_chunks)

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
        return _generator(self.seed, _ROW_ORDER, self.epoch, window).permutation(stop - start)

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
        """Step that each row of a chunk belongs to, ``(rows of the chunk,)``; -1 where it is dropped."""
        first, last = self.layout.chunk_bounds(chunk)
        slot = int(np.flatnonzero(self.chunk_order == chunk)[0])
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
        return {
            **chunks,
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


def streams_canary() -> str:
    """Hash of permutations of a fixed plan: it changes if NumPy ever changes its streams."""
    layout = StoreLayout(n_rows=1_000, n_features=1, chunk_rows=10, itemsize=1)
    plan = EpochPlan(layout, batch_size=1_000, seed=1, epoch=1, shuffle="window", window_chunks=100)
    small = EpochPlan(layout, batch_size=1, seed=1, epoch=1, shuffle="window", window_chunks=1)
    digest = hashlib.sha256()
    for order in (plan.window_permutation(0), small.chunk_order):
        digest.update(order.astype("<i8").tobytes())
    return digest.hexdigest()
