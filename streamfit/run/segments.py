"""An ordered fit, advanced from one control point to the next, in this process or on a worker.

Both runs do the same steps on the same batches, so the model is bit-equal. A segment on a worker takes the
model and gives it back: the driver has it before the next segment is sent, so that a lost worker costs one
segment. (In a chain of futures, each made from the one before, it costs all of them.)
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from streamfit.run.blas import one_blas_thread
from streamfit.run.checkpoint import Position
from streamfit.run.stream import stream_epochs, stream_segment
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator

    from streamfit.batch import Batch, BatchTest
    from streamfit.plan.epoch import EpochPlan
    from streamfit.run.engine import Engine
    from streamfit.store.reader import StoreRef

__all__ = [
    "Learner",
    "LocalRun",
    "OnSteps",
    "OrderedRun",
    "Records",
    "StreamTask",
    "WorkerRun",
    "control_points",
    "start_run",
]

Records = tuple[object, ...]
"""What the tests of a batch saw, in the order of the tests."""
OnSteps = Callable[[int, int, list[Records]], None]
"""Takes an epoch, the number of its steps that are done, and the records of the steps since the last call."""


_FIRST_SEGMENT_STEPS = 8
_SEGMENT_SECONDS = 10.0
"""Long beside the cost of a task, short beside the loss when a worker dies."""
_WINDOWS_A_SEGMENT = 4.0
"""A segment begins by reading its window anew, and takes so many times as long where that alone takes seconds."""


class Learner(Protocol):
    """How a model takes a batch. It is a small value that travels to workers."""

    def step(self, model: Any, batch: Batch) -> None:
        """Train the model, in place, on one batch."""

    def remaining(self, model: Any) -> Any:
        """Give the model from the links on that the rows of a batch have not gone through yet."""


@dataclass(frozen=True, slots=True)
class StreamTask:
    """What is streamed to a model, and how."""

    ref: StoreRef
    """The store as it was opened."""
    plan: EpochPlan
    """Order of the first epoch; the others differ from it by their epoch alone."""
    learner: Learner
    """How the model takes a batch."""
    n_epochs: int
    """Epochs in all."""
    prefetch: int
    """Windows read ahead."""
    memory_limit: int | None
    """Limit in bytes."""
    tests: tuple[BatchTest, ...]
    """What looks at each batch before the model learns from it."""

    def learn(self, model: Any, batch: Batch) -> Records:
        """Test the model on a batch, then train it, in place."""
        records: Records = ()
        if self.tests:
            remaining = self.learner.remaining(model)
            records = tuple(test(remaining, batch) for test in self.tests)
        self.learner.step(model, batch)
        return records

    def plan_of(self, epoch: int) -> EpochPlan:
        """Order of an epoch."""
        return replace(self.plan, epoch=epoch)

    def next_position(self, position: Position) -> Position:
        """Position after one more step."""
        last = position.step + 1 == len(self.plan)
        return Position(position.epoch + 1, 0) if last else Position(position.epoch, position.step + 1)


def control_points(task: StreamTask, start: Position, *, every_steps: Collection[int]) -> Iterator[Position]:
    """Give the positions after `start` at which callbacks act, metrics are measured or the state is written.

    They are the ends of epochs, and within an epoch each multiple of each of `every_steps`.
    """
    n_steps = len(task.plan)
    within = sorted({step for every in every_steps for step in range(every, n_steps, every)})
    for epoch in range(start.epoch, task.n_epochs):
        for step in within:
            if Position(epoch, step) > start:
                yield Position(epoch, step)
        yield Position(epoch + 1, 0)


class OrderedRun(Protocol):
    """A fit under way. `model` is the model at `position`, where the last call of `advance` ended."""

    model: Any
    position: Position

    def advance(self, stop: Position, *, paused: Callable[[], bool]) -> None:
        """Do the steps up to a control point of the same epoch, or fewer where `paused` tells to end before."""

    def rest(self) -> None:
        """Free the memory of the stream until the next steps."""

    def close(self) -> None:
        """Stop reading."""


class LocalRun:
    """Steps in this process, fed by one stream for all epochs."""

    def __init__(self, task: StreamTask, model: Any, start: Position, on_steps: OnSteps) -> None:
        self.model = model
        self.position = start
        self._task = task
        self._on_steps = on_steps
        self._batches: Generator[Batch] | None = self._stream()

    def _stream(self) -> Generator[Batch]:
        task, start = self._task, self.position
        return stream_epochs(
            open_reader(task.ref),
            (task.plan_of(epoch) for epoch in range(start.epoch, task.n_epochs)),
            start_step=start.step,
            prefetch=task.prefetch,
            memory_limit=task.memory_limit,
        )

    def advance(self, stop: Position, *, paused: Callable[[], bool]) -> None:
        """Do the steps up to a control point; `paused` is asked after each."""
        if self._batches is None:
            self._batches = self._stream()
        while self.position < stop:
            batch = next(self._batches)
            records = self._task.learn(self.model, batch)
            self.position = self._task.next_position(self.position)
            self._on_steps(batch.epoch, batch.step + 1, [records])
            if paused():
                return

    def rest(self) -> None:
        """End the thread that reads and free its buffers; the next steps read their windows anew."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def close(self) -> None:
        """End the thread that reads and free its buffers."""
        self.rest()


class WorkerRun:
    """Steps on workers of a cluster, in segments of `_SEGMENT_SECONDS` and more; no bit depends on where they end."""

    def __init__(
        self,
        task: StreamTask,
        model: Any,
        start: Position,
        on_steps: OnSteps,
        engine: Engine,
    ) -> None:
        self.model = model
        self.position = start
        self._task = task
        self._on_steps = on_steps
        self._engine = engine
        self._segment_steps = _FIRST_SEGMENT_STEPS

    def advance(self, stop: Position, *, paused: Callable[[], bool]) -> None:
        """Do the steps up to a control point, one segment after the other; `paused` is asked after each segment."""
        epoch, step = self.position.epoch, self.position.step
        n_steps = len(self._task.plan)
        last = stop.step if stop.epoch == epoch else n_steps
        state = pickle.dumps(self.model)
        while step < last:
            end = min(step + self._segment_steps, last)
            began = time.perf_counter()
            state, records, read_seconds = self._engine.run(_run_segment, self._task, epoch, step, end, state)
            seconds = max(time.perf_counter() - began, 1e-3)
            wanted = max(_SEGMENT_SECONDS, _WINDOWS_A_SEGMENT * read_seconds)
            self._segment_steps = max(1, int((end - step) * min(8.0, wanted / seconds)))
            step = end
            self._on_steps(epoch, step, records)
            if paused():
                break
        self.model = pickle.loads(state)  # noqa: S301  # dask pickles all that travels, files are another matter
        self.position = Position(epoch + 1, 0) if step == n_steps else Position(epoch, step)

    def rest(self) -> None:
        """Do nothing: between segments nothing is read."""

    def close(self) -> None:
        """Do nothing, as `rest`."""


def _run_segment(
    task: StreamTask, epoch: int, start_step: int, stop_step: int, state: bytes
) -> tuple[bytes, list[Records], float]:
    """Do the steps of a segment; give the model, what tests saw, and the seconds until the first batch was read."""
    # Bytes, not the model itself: a worker that is a thread of the driver would change the driver's model.
    model = pickle.loads(state)  # noqa: S301  # as above
    began = time.perf_counter()
    batches = stream_segment(
        open_reader(task.ref),
        task.plan_of(epoch),
        start_step=start_step,
        stop_step=stop_step,
        prefetch=task.prefetch,
        memory_limit=task.memory_limit,
    )
    with one_blas_thread():
        batch = next(batches)
        read_seconds = time.perf_counter() - began
        records = [task.learn(model, batch), *(task.learn(model, batch) for batch in batches)]
    return pickle.dumps(model), records, read_seconds


def start_run(task: StreamTask, model: Any, start: Position, *, engine: Engine, on_steps: OnSteps) -> OrderedRun:
    """Begin or go on with a fit, where the engine runs it.

    Parameters
    ----------
    task : StreamTask
        What is streamed, and how.
    model : object
        The model at `start`; it is trained in place.
    start : Position
        Where to begin.
    engine : Engine
        Threads of this process, or workers.
    on_steps : callable
        Called with the epoch, the number of its steps that are done, and what tests saw in each step since the last
        call: here after each step, on a cluster after each segment.

    Returns
    -------
    OrderedRun
        To be advanced and closed.
    """
    if engine.shares_memory:
        return LocalRun(task, model, start, on_steps)
    return WorkerRun(task, model, start, on_steps, engine)
