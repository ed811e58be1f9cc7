"""The ordered fit: from control point to control point, with metrics, callbacks and checkpoints."""

from __future__ import annotations

import copy
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import ControlPoint, Pausing, Stepwise, Testing, Verdict
from streamfit.errors import InvalidParameterError
from streamfit.events import EpochEnded, Event, FitEnded, FitStarted, StepsDone, StepsMeasured
from streamfit.incremental.learning_rate import learning_rate_of, set_learning_rate
from streamfit.run.blas import one_blas_thread
from streamfit.run.checkpoint import Position
from streamfit.run.segments import control_points, start_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streamfit.callbacks.control import Control
    from streamfit.events import Observer
    from streamfit.incremental.fit_state import Checkpoints, FitState
    from streamfit.run.engine import Engine
    from streamfit.run.segments import OrderedRun, Records, StreamTask

__all__ = ["OrderedFit"]


@dataclass(frozen=True, slots=True)
class OrderedFit:
    """A fit that is defined and can be run."""

    task: StreamTask
    """What is streamed, and how."""
    engine: Engine
    """Where steps are done."""
    evaluate: Callable[[Any], dict[str, float]] | None
    """Metrics of a model on the validation rows, by name; None without such rows."""
    validate_every_steps: int | None
    """Steps of an epoch after which metrics are measured, besides its end."""
    controls: Mapping[str, Control]
    """Callbacks that act at control points."""
    observers: Sequence[Observer]
    """Callbacks that are told."""
    checkpoints: Checkpoints | None
    """Where the state is written, or None."""
    parameters: Mapping[str, Any]
    """What observers are told of the fit, as plain values."""

    def run(self, state: FitState) -> None:
        """Bring a state to the end of the fit; nothing is done where it stands there already."""
        if state.stopped_by is not None or state.position >= Position(self.task.n_epochs, 0):
            # A run that was killed between its last checkpoint and the events: who records it is told the history.
            self._notify(self._started(state))
            self._notify(FitEnded(0.0))
            return
        # Batches are tested where the model is: on a cluster by the task that trains it.
        testing = [control for control in self.controls.values() if isinstance(control, Testing)]
        task = replace(self.task, tests=tuple(control.batch_test for control in testing))
        began = time.perf_counter()

        def steps_done(epoch: int, steps: int, records: list[Records]) -> None:
            if testing:
                for step, seen in enumerate(records, start=steps - len(records) + 1):
                    for control, record in zip(testing, seen, strict=True):
                        control.collect(epoch, step, record)
            self._notify(StepsDone(epoch, steps, task.plan.step_bounds(steps - 1)[1]))

        run = start_run(task, state.model, state.position, engine=self.engine, on_steps=steps_done)
        error: str | None = None
        try:
            self._notify(self._started(state))
            # One thread for linear algebra: with more, sums depend on their number.
            with one_blas_thread():
                self._advance(run, state, paused=self._pause_is_wanted())
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            run.close()
            self._notify(FitEnded(time.perf_counter() - began, error=error))

    def _started(self, state: FitState) -> FitStarted:
        layout = self.task.plan.layout
        return FitStarted(
            n_epochs=self.task.n_epochs,
            n_steps=len(self.task.plan),
            n_rows=layout.n_rows,
            row_nbytes=layout.row_nbytes,
            epoch=state.position.epoch,
            step=state.position.step,
            history=tuple(state.history),
            estimator=str(self.parameters.get("estimator", "")),
            parameters=self.parameters,
            memory_limit=self.task.memory_limit,
        )

    def _advance(self, run: OrderedRun, state: FitState, *, paused: Callable[[], bool]) -> None:
        for point in self._points(state.position):
            while state.position < point:
                began = time.perf_counter()
                run.advance(point, paused=paused)
                state.epoch_seconds += time.perf_counter() - began
                state.position, state.model = run.position, run.model
                if state.position == point:
                    self._reach(run, state)
                else:
                    self._pause(state)
                if state.stopped_by is not None or state.paused_by is not None:
                    return

    # -- control points ------------------------------------------------------------------------------

    def _points(self, start: Position) -> Iterator[Position]:
        asked = [self.validate_every_steps, *map(_every_steps, self.controls.values())]
        if self.checkpoints is not None:
            asked.append(self.checkpoints.options.every_steps)
        points = control_points(self.task, start, every_steps={every for every in asked if every is not None})
        first = self._first
        if self.checkpoints is None or start >= first:
            return points
        # A model that cannot be written is found out after one step, not after an epoch.
        return chain([first], (point for point in points if point != first))

    @property
    def _first(self) -> Position:
        return self.task.next_position(Position(0, 0))

    def _pause_is_wanted(self) -> Callable[[], bool]:
        # Found out once: it is asked after each step.
        pausing = [control.wants_pause for control in self.controls.values() if isinstance(control, Pausing)]
        return lambda: any(wants_pause() for wants_pause in pausing)

    def _pause(self, state: FitState) -> None:
        """Ask the controls that wanted it, between two control points of the plan."""
        due = {name: c for name, c in self.controls.items() if isinstance(c, Pausing) and c.wants_pause()}
        self._judge(state, due, state.position.epoch, state.position.step, {})
        if self.checkpoints is not None and (state.stopped_by is not None or state.paused_by is not None):
            self.checkpoints.save(state, self.controls)

    def _reach(self, run: OrderedRun, state: FitState) -> None:
        """Measure, ask and write what is due at a control point."""
        n_steps = len(self.task.plan)
        ended = state.position.step == 0
        epoch, step = (state.position.epoch - 1, n_steps) if ended else (state.position.epoch, state.position.step)

        def is_due(every_steps: int | None) -> bool:
            return ended or (every_steps is not None and step % every_steps == 0)

        due = {
            name: control
            for name, control in self.controls.items()
            if is_due(_every_steps(control)) or (isinstance(control, Pausing) and control.wants_pause())
        }
        validates = self.evaluate is not None and is_due(self.validate_every_steps)
        testing = [control for control in self.controls.values() if isinstance(control, Testing)]
        metrics: dict[str, float] = {}
        for control in testing:
            metrics |= control.metrics()
        if self.evaluate is not None and validates:
            if self.task.memory_limit is not None:
                # The metrics may take the whole limit, so nothing is read ahead meanwhile.
                run.rest()
            metrics |= self.evaluate(state.model)
        seconds, rate = state.epoch_seconds, learning_rate_of(state.model)
        measured = ended or validates or any(isinstance(control, Testing) for control in due.values())
        if measured:
            n_rows = self.task.plan.step_bounds(step - 1)[1]
            entry: dict[str, Any] = {"epoch": epoch, "step": step, "n_rows": n_rows, "seconds": seconds}
            state.history.append(entry | ({} if rate is None else {"learning_rate": rate}) | metrics)
        if ended:
            state.epoch_seconds = 0.0
        self._judge(state, due, epoch, step, metrics)
        # Written before observers are told: one that raises costs nothing that was done.
        if self.checkpoints is not None and (
            is_due(self.checkpoints.options.every_steps)
            or state.position == self._first
            or state.stopped_by is not None
            or state.paused_by is not None
        ):
            self.checkpoints.save(state, self.controls)
        if ended:
            self._notify(EpochEnded(epoch, seconds, metrics, rate))
        elif measured:
            self._notify(StepsMeasured(epoch, step, seconds, metrics, rate))

    def _judge(
        self, state: FitState, due: Mapping[str, Control], epoch: int, step: int, metrics: Mapping[str, float]
    ) -> None:
        """Ask controls and do what they say."""
        n_steps = len(self.task.plan)
        for name, control in due.items():
            point = ControlPoint(epoch, step, n_steps, metrics, learning_rate_of(state.model), state.model)
            verdict = control.judge(point)
            if not isinstance(verdict, Verdict):
                raise InvalidParameterError(
                    f"judge of the callback {name} must give a streamfit.callbacks.Verdict, got {verdict!r}."
                )
            if verdict.keep:
                state.kept, state.kept_by = copy.deepcopy(state.model), name
            if verdict.stop:
                state.stopped_by = name
            if verdict.pause:
                state.paused_by = name
            if verdict.learning_rate is not None:
                set_learning_rate(state.model, verdict.learning_rate)

    def _notify(self, event: Event) -> None:
        # One that raises does not keep the others from being told; its error is raised after that.
        with ExitStack() as told:
            for observer in reversed(self.observers):
                told.callback(observer.notify, event)


def _every_steps(control: Control) -> int | None:
    return control.every_steps if isinstance(control, Stepwise) else None
