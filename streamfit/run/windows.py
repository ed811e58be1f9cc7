"""Windows of an epoch on their way into memory: read chunk by chunk, by whichever thread has time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.maths.csr_rows import CsrBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.plan.epoch import EpochPlan
    from streamfit.store.reader import Reader

__all__ = ["Visit", "Window", "joined", "new_buffer", "visits"]


@dataclass(frozen=True, slots=True)
class Visit:
    """One window of one epoch, and the part of it that is needed."""

    plan: EpochPlan
    """The epoch."""
    window: int
    """Number of the window in it."""
    start: int
    """First needed position in the order of the epoch, inclusive."""
    stop: int
    """Last needed position in the order of the epoch, exclusive."""


def visits(plan: EpochPlan, start_step: int, stop_step: int) -> Iterator[Visit]:
    """Give the windows that hold the rows of some steps, in order."""
    start, end = plan.step_bounds(start_step)[0], plan.step_bounds(stop_step - 1)[1]
    window = plan.window_of_position(start)
    while start < end:
        stop = min(plan.window_bounds(window)[1], end)
        yield Visit(plan, window, start, stop)
        start, window = stop, window + 1


def new_buffer(reader: Reader, plan: EpochPlan) -> NDArray[Any] | None:
    """Make room for the dense features of any window of a plan; sparse windows have different sizes."""
    if plan.layout.sparse is not None:
        return None
    n_rows = min(plan.window_chunks * plan.layout.chunk_rows, plan.layout.n_rows)
    return np.empty((n_rows, plan.layout.n_features), dtype=reader.dtype)


def joined(parts: list[Any]) -> NDArray[Any] | None:
    """Put arrays end to end; None where the store has none."""
    return None if parts[0] is None else np.concatenate(parts)


class Window:
    """The rows of a visit as they are stored, and the order in which they are to be taken.

    It is made of `n_tasks` tasks, each to be done once, by any thread and in any sequence; `finish` comes after the
    last of them.

    Parameters
    ----------
    reader : Reader
        Where the rows come from.
    visit : Visit
        Which window.
    buffer : ndarray of shape (most rows of a window, n_features) or None
        Receives the features; None where they are sparse.
    """

    X: Any
    """Features, in the order in which they are stored."""
    y: NDArray[Any] | None
    """Labels of the rows of `X`."""
    sample_weight: NDArray[np.float64] | None
    """Weights of the rows of `X`; None where rows come as often as their weights say."""
    order: NDArray[np.int64]
    """Rows of `X` from ``visit.start`` to ``visit.stop``."""
    rows: NDArray[np.int64]
    """Their global row numbers."""

    def __init__(self, reader: Reader, visit: Visit, buffer: NDArray[Any] | None) -> None:
        self.visit = visit
        self.buffer = buffer
        self._reader = reader
        self._chunks: list[int] = visit.plan.window_chunk_ids(visit.window).tolist()
        bounds = [visit.plan.layout.chunk_bounds(chunk) for chunk in self._chunks]
        self._edges: list[int] = np.cumsum([0, *(stop - start for start, stop in bounds)]).tolist()
        # Several labels a row may be as large as the features: they are put in place as they come, too.
        label_dtype = reader.label_dtype
        shape = (0,) if label_dtype is None else reader.arrays["y"].shape(self._edges[-1])
        self.y = None if label_dtype is None else np.empty(shape, dtype=label_dtype)
        self._weights: list[Any] = [None] * len(self._chunks)
        # Sparse rows are put end to end, and only who has read the ones before knows where the next begin.
        self.n_tasks = 2 if buffer is None else 1 + len(self._chunks)

    def do(self, task: int) -> None:
        """Do one task: the order of the rows, or a chunk of them.

        Raises
        ------
        StoreCorruptError
            A chunk is not what was committed.
        """
        if task == 0:
            self._lay_order()
        elif self.buffer is None:
            self._read_sparse()
        else:
            slot = task - 1
            self._read(slot, self.buffer[self._edges[slot] : self._edges[slot + 1]])

    def finish(self) -> None:
        """Put together what the tasks gave."""
        if self.buffer is not None:
            self.X = self.buffer[: self._edges[-1]]
        self.sample_weight = joined(self._weights)
        self._weights.clear()

    def _lay_order(self) -> None:
        visit = self.visit
        begin = visit.plan.window_bounds(visit.window)[0]
        self.order = visit.plan.window_permutation(visit.window)[visit.start - begin : visit.stop - begin]
        self.rows = visit.plan.window_rows(visit.window, self.order)

    def _read(self, slot: int, out: NDArray[Any] | None) -> Any:
        chunk = self._reader.read_chunk(self._chunks[slot], out=out)
        if self.y is not None:
            self.y[self._edges[slot] : self._edges[slot + 1]] = chunk.y
        sampling = self.visit.plan.sampling
        if sampling is None or not sampling.spends_weights:
            self._weights[slot] = chunk.sample_weight
        return chunk.X

    def _read_sparse(self) -> None:
        # What the stored values do not fill is never touched.
        rows = CsrBuilder(
            n_rows=self._edges[-1],
            nnz=sum(map(self._reader.expected_nnz, self._chunks)),
            n_columns=self._reader.layout.n_features,
            dtype=self._reader.dtype,
        )
        for slot in range(len(self._chunks)):
            rows.add(self._read(slot, None))
        self.X = rows.build()
