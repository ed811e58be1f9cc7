"""The ordered stream: whole windows read ahead by a thread, cut into batches that own their memory."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.batch import Batch
from streamfit.maths.csr_rows import CsrBuilder, joined_rows
from streamfit.options import check_count
from streamfit.plan.budget import stream_budget

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from numpy.typing import NDArray

    from streamfit.plan.epoch import EpochPlan
    from streamfit.store.reader import Reader

__all__ = ["stream_batches", "stream_epochs", "stream_segment"]


def stream_batches(
    reader: Reader, plan: EpochPlan, *, start_step: int, prefetch: int, memory_limit: int | None
) -> Generator[Batch]:
    """Give the batches of one epoch; see `stream_epochs`.

    Raises
    ------
    InvalidParameterError
        There is no such step.
    """
    check_count("start_step", start_step, least=0, most=len(plan) - 1)
    return stream_segment(
        reader, plan, start_step=start_step, stop_step=len(plan), prefetch=prefetch, memory_limit=memory_limit
    )


def stream_segment(
    reader: Reader,
    plan: EpochPlan,
    *,
    start_step: int,
    stop_step: int,
    prefetch: int,
    memory_limit: int | None,
) -> Generator[Batch]:
    """Give the batches from `start_step` (inclusive) to `stop_step` (exclusive); see `stream_epochs`."""
    plan.step_bounds(start_step)
    plan.step_bounds(stop_step - 1)
    _check_budget(reader, plan, prefetch, memory_limit, n_epochs=1)
    return _batches(reader, _visits(plan, start_step, stop_step), prefetch)


def stream_epochs(
    reader: Reader, plans: Iterable[EpochPlan], *, start_step: int, prefetch: int, memory_limit: int | None
) -> Generator[Batch]:
    """Give the batches of consecutive epochs in the order of their plans.

    Windows are read ahead across the edge of an epoch, so that it costs no wait. At most ``1 + prefetch``
    windows exist at any time, in buffers that are used again.

    Parameters
    ----------
    reader : Reader
        The store, with verified reads.
    plans : iterable of EpochPlan
        One for each epoch, at least one, alike but for their epoch. It is consumed ahead of the batches.
    start_step : int
        Step of the first epoch to begin with; the steps before it are not read.
    prefetch : int
        Windows read ahead by a thread; 0 reads in the thread that asks for the batches.
    memory_limit : int or None
        Limit in bytes that the projected memory is checked against.

    Returns
    -------
    generator of Batch
        Closing it ends the thread and frees the buffers.

    Raises
    ------
    BudgetError
        The projected memory exceeds `memory_limit`; nothing was read.
    StoreCorruptError
        From the iterator: a chunk is not what was committed.
    """
    plans = iter(plans)
    # As many epochs as can be in memory at once, even with a window each.
    first, *ahead = islice(plans, 1 + prefetch)
    first.step_bounds(start_step)
    _check_budget(reader, first, prefetch, memory_limit, n_epochs=1 + len(ahead))
    later = chain.from_iterable(_visits(plan, 0, len(plan)) for plan in chain(ahead, plans))
    return _batches(reader, chain(_visits(first, start_step, len(first)), later), prefetch)


def _check_budget(reader: Reader, plan: EpochPlan, prefetch: int, memory_limit: int | None, *, n_epochs: int) -> None:
    stream_budget(
        plan.layout,
        batch_size=plan.batch_size,
        window_chunks=plan.window_chunks,
        prefetch=prefetch,
        label_nbytes=reader.label_nbytes,
        n_epochs=n_epochs,
    ).check(memory_limit, "Raise memory_limit, or lower window or prefetch.")


# -- windows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Visit:
    """One window of one epoch, and the part of it that is needed."""

    plan: EpochPlan
    window: int
    start: int
    """First needed position in the order of the epoch, inclusive."""
    stop: int
    """Last needed position in the order of the epoch, exclusive."""


@dataclass(slots=True)
class _Window:
    """A visited window in memory. Its rows lie as they are stored; `order` is how they are to be taken."""

    visit: _Visit
    X: Any
    y: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None
    order: NDArray[np.int64]
    """Rows of `X` from `visit.start` to `visit.stop`."""
    rows: NDArray[np.int64]
    """Their global row numbers."""


def _visits(plan: EpochPlan, start_step: int, stop_step: int) -> Iterator[_Visit]:
    start, end = plan.step_bounds(start_step)[0], plan.step_bounds(stop_step - 1)[1]
    window = plan.window_of_position(start)
    while start < end:
        stop = min(plan.window_bounds(window)[1], end)
        yield _Visit(plan, window, start, stop)
        start, window = stop, window + 1


def _joined(parts: list[Any]) -> NDArray[Any] | None:
    return None if parts[0] is None else np.concatenate(parts)


def _read_window(reader: Reader, visit: _Visit, buffer: NDArray[Any] | None) -> _Window:
    plan, filled = visit.plan, 0
    labels: list[Any] = []
    weights: list[Any] = []
    chunks = plan.window_chunk_ids(visit.window).tolist()
    sparse = _csr_builder(reader, chunks) if buffer is None else None
    for index in chunks:
        first, last = plan.layout.chunk_bounds(index)
        chunk = reader.read_chunk(index, out=None if buffer is None else buffer[filled : filled + last - first])
        if sparse is not None:
            sparse.add(chunk.X)
        # Copied: a reader may lend views of what it uses again for the next chunk.
        labels.append(None if chunk.y is None else chunk.y.copy())
        weights.append(None if chunk.sample_weight is None else chunk.sample_weight.copy())
        filled += chunk.n_rows
    begin = plan.window_bounds(visit.window)[0]
    order = plan.window_permutation(visit.window)[visit.start - begin : visit.stop - begin]
    rows = plan.window_rows(visit.window, order)
    X = sparse.build() if sparse is not None else None if buffer is None else buffer[:filled]
    return _Window(visit, X, _joined(labels), _joined(weights), order, rows)


def _csr_builder(reader: Reader, chunks: list[int]) -> CsrBuilder:
    """Room for the rows of some chunks; what their stored values do not fill is never touched."""
    sizes = reader.layout.chunk_sizes
    return CsrBuilder(
        n_rows=int(sizes[chunks].sum()),
        nnz=sum(map(reader.expected_nnz, chunks)),
        n_columns=reader.layout.n_features,
        dtype=reader.dtype,
    )


def _windows(reader: Reader, visits: Iterator[_Visit], prefetch: int) -> Iterator[_Window]:
    """Give the windows in order; each is overwritten once the next one is asked for."""

    def new_buffer(plan: EpochPlan) -> NDArray[Any] | None:
        if plan.layout.sparse is not None:  # windows have different sizes
            return None
        n_rows = min(plan.window_chunks * plan.layout.chunk_rows, plan.layout.n_rows)
        return np.empty((n_rows, plan.layout.n_features), dtype=reader.dtype)

    if prefetch == 0:
        buffer: NDArray[Any] | None = None
        for visit in visits:
            buffer = new_buffer(visit.plan) if buffer is None else buffer
            window = _read_window(reader, visit, buffer)
            yield window
            window.X = None
            del window
        return
    pending: deque[tuple[NDArray[Any] | None, Future[_Window]]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="streamfit-read") as thread:
        try:
            for visit in islice(visits, 1 + prefetch):
                buffer = new_buffer(visit.plan)
                pending.append((buffer, thread.submit(_read_window, reader, visit, buffer)))
            while pending:
                buffer, future = pending.popleft()
                window = future.result()
                yield window
                # Sparse rows lie in memory of their own, and who asked for them holds the window until the next one.
                window.X = None
                del window, future
                for visit in islice(visits, 1):
                    pending.append((buffer, thread.submit(_read_window, reader, visit, buffer)))
        finally:
            thread.shutdown(wait=False, cancel_futures=True)


# -- batches -----------------------------------------------------------------------------------------


class _Builder:
    """A batch that is being filled, from one window or from several."""

    def __init__(self, visit: _Visit, step: int, X: Any) -> None:
        self.plan = visit.plan
        self.step = step
        self.first, self.last = visit.plan.step_bounds(step)
        dense = isinstance(X, np.ndarray)
        self.X = np.empty((self.last - self.first, X.shape[1]), dtype=X.dtype) if dense else None
        self.sparse: list[Any] = []
        self.rows: list[NDArray[np.int64]] = []
        self.labels: list[Any] = []
        self.weights: list[Any] = []

    def fill(self, window: _Window, position: int) -> int:
        """Take the rows from `position` on, as far as window and batch go; give the next position."""
        visit = window.visit
        end = min(self.last, visit.stop)
        part = slice(position - visit.start, end - visit.start)
        order = window.order[part]
        if self.X is None:
            self.sparse.append(window.X[order])
        else:
            # The default mode would gather into a buffer first, in case that an index is out of range.
            np.take(window.X, order, axis=0, out=self.X[position - self.first : end - self.first], mode="clip")
        self.rows.append(window.rows[part])
        self.labels.append(None if window.y is None else window.y[order])
        self.weights.append(None if window.sample_weight is None else window.sample_weight[order])
        return end

    def build(self) -> Batch:
        return Batch(
            step=self.step,
            epoch=self.plan.epoch,
            X=joined_rows(self.sparse) if self.X is None else self.X,
            rows=np.concatenate(self.rows),
            y=_joined(self.labels),
            sample_weight=_joined(self.weights),
        )


def _batches(reader: Reader, visits: Iterator[_Visit], prefetch: int) -> Generator[Batch]:
    builder: _Builder | None = None
    windows: Any = _windows(reader, visits, prefetch)
    with closing(windows):
        for window in windows:
            visit, position = window.visit, window.visit.start
            while position < visit.stop:
                if builder is None:
                    step = min(position // visit.plan.batch_size, len(visit.plan) - 1)
                    builder = _Builder(visit, step, window.X)
                position = builder.fill(window, position)
                if position == builder.last:
                    batch = builder.build()
                    builder = None
                    yield batch
                    del batch  # it belongs to the caller: do not hold a second one while the next is filled
