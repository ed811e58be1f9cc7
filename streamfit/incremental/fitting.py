"""The ordered fit: from control point to control point, with metrics, callbacks and checkpoints."""

from __future__ import annotations

import copy
import json
import logging
import platform
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import sklearn

from streamfit.callbacks.control import Control, ControlPoint, Verdict
from streamfit.errors import CheckpointError, CheckpointMismatchError, InvalidParameterError
from streamfit.events import EpochEnded, Event, FitEnded, FitStarted, StepsDone
from streamfit.run.blas import one_blas_thread
from streamfit.run.checkpoint import Checkpoint, Position, check_same_run
from streamfit.run.codecs import decode_estimator, encode_estimator
from streamfit.run.segments import control_points, start_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streamfit.events import Observer
    from streamfit.run.checkpoint import CheckpointOptions, RunFolder
    from streamfit.run.engine import Engine
    from streamfit.run.segments import StreamTask

__all__ = ["Checkpoints", "FitState", "OrderedFit", "Resume", "keyed_controls"]

logger = logging.getLogger(__name__)

Resume = Literal["auto", "always", "never"]


def keyed_controls(callbacks: Sequence[Control]) -> dict[str, Control]:
    """Copy controls and name them by class and order, so that a checkpoint finds them again."""
    keyed: dict[str, Control] = {}
    for callback in callbacks:
        name = type(callback).__name__
        count = sum(key.rpartition("-")[0] == name for key in keyed)
        keyed[f"{name}-{count}"] = copy.deepcopy(callback)
    return keyed


@dataclass(slots=True)
class FitState:
    """Where a fit stands at a control point."""

    model: Any
    """The model."""
    position: Position = field(default_factory=lambda: Position(0, 0))
    """Where it stands."""
    kept: Any = None
    """The model that is the result instead, where a callback kept one."""
    kept_by: str | None = None
    """Which callback kept it."""
    stopped_by: str | None = None
    """Which callback ended the fit."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry for each epoch that is done."""

    @property
    def result(self) -> Any:
        """The model that the fit gives."""
        return self.model if self.kept is None else self.kept


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """How a fit is written to its run's folder and read back."""

    folder: RunFolder
    """The folder."""
    options: CheckpointOptions
    """Where and how often."""

    def save(self, state: FitState, controls: Mapping[str, Control]) -> None:
        """Write the state at a control point.

        Raises
        ------
        InvalidParameterError
            The state of a callback cannot be written.
        CheckpointError
            The model or the file cannot be written.
        """
        trust = self.options.trust
        self.folder.save(
            Checkpoint(
                position=state.position,
                model=encode_estimator(state.model, trust=trust),
                kept=None if state.kept is None else encode_estimator(state.kept, trust=trust),
                kept_by=state.kept_by,
                stopped_by=state.stopped_by,
                history=state.history,
                controls={name: _state_of(name, control) for name, control in controls.items()},
                versions=_versions(),
            )
        )

    def find(self, resume: Resume) -> tuple[dict[str, Any], Checkpoint] | None:
        """Read what defines the run in the folder and how far it has come, or None to begin anew.

        Raises
        ------
        CheckpointError
            There is no run, and `resume` insists on one; or what defines it is damaged or gone.
        """
        checkpoint = None if resume == "never" else self.folder.latest()
        # A run that never wrote a checkpoint binds nobody.
        if checkpoint is not None:
            definition = self.folder.definition()
            if definition is None:
                raise CheckpointError(
                    f"There are checkpoints in {self.folder.path} and no run.json that says of which fit. "
                    "Put it back, use another folder, or pass resume='never', which removes them."
                )
            if not all(isinstance(definition.get(name), int) for name in ("seed", "window_chunks")):
                raise CheckpointError(
                    f"The run.json in {self.folder.path} is damaged. Use another folder, or pass resume='never'."
                )
            return definition, checkpoint
        if resume == "always":
            raise CheckpointError(
                f"There is no checkpoint to go on from in {self.folder.path}. Give the folder of a run, or "
                "resume='auto'."
            )
        return None

    def restore(
        self,
        found: tuple[dict[str, Any], Checkpoint],
        definition: Mapping[str, Any],
        controls: Mapping[str, Control],
        *,
        n_epochs: int,
    ) -> FitState:
        """Go on with a run that was found.

        A run that a callback ended stays ended as long as that callback is there: with more epochs from the
        start it would have ended there too.

        Raises
        ------
        CheckpointMismatchError
            It is defined otherwise, or more has been done than is asked for.
        """
        earlier, checkpoint = found
        # Runs that were begun before there was a choice took each row once.
        check_same_run(self.folder.path, {"sampling": None, **earlier}, definition)
        if checkpoint.position > Position(n_epochs, 0):
            done = checkpoint.position
            raise CheckpointMismatchError(
                f"The run in {self.folder.path} is beyond epochs={n_epochs}: {done.epoch} epochs and {done.step} "
                "steps are done. Ask for at least as many epochs, or use another folder."
            )
        if checkpoint.versions != _versions():
            logger.warning(
                "The checkpoint is of %s, this is %s: the fit goes on, but not bit for bit as it would have.",
                checkpoint.versions,
                _versions(),
            )
        saved = checkpoint.controls
        keeping = {name for name, c in controls.items() if name in saved and c.restore(saved[name])}
        kept_by = checkpoint.kept_by if checkpoint.kept_by in keeping else None
        trust = self.options.trust
        return FitState(
            model=decode_estimator(checkpoint.model, trust=trust),
            position=checkpoint.position,
            kept=decode_estimator(checkpoint.kept, trust=trust) if checkpoint.kept and kept_by else None,
            kept_by=kept_by,
            stopped_by=checkpoint.stopped_by if checkpoint.stopped_by in controls else None,
            history=checkpoint.history,
        )


def _state_of(name: str, control: Control) -> dict[str, Any]:
    state = control.state()
    try:
        json.dumps(state)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"The state of the callback {name} cannot be written as JSON: {error}. Give plain numbers, texts, lists "
            "and dicts, such as float(value)."
        ) from error
    return state


def _versions() -> dict[str, str]:
    return {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "machine": platform.machine()}


@dataclass(frozen=True, slots=True)
class OrderedFit:
    """A fit that is defined and can be run."""

    task: StreamTask
    """What is streamed, and how."""
    engine: Engine
    """Where steps are done."""
    evaluate: Callable[[Any], dict[str, float]] | None
    """Metrics of a model on the validation rows, by name; None without such rows."""
    controls: Mapping[str, Control]
    """Callbacks that act at the ends of epochs."""
    observers: Sequence[Observer]
    """Callbacks that are told."""
    checkpoints: Checkpoints | None
    """Where the state is written, or None."""

    def run(self, state: FitState) -> None:
        """Bring a state to the end of the fit; nothing is done where it stands there already."""
        task = self.task
        if state.stopped_by is not None or state.position >= Position(task.n_epochs, 0):
            return
        began = time.perf_counter()
        layout, start = task.plan.layout, state.position
        run = start_run(task, state.model, start, engine=self.engine, on_steps=self._steps_done)
        try:
            self._notify(
                FitStarted(
                    n_epochs=task.n_epochs,
                    n_steps=len(task.plan),
                    n_rows=layout.n_rows,
                    row_nbytes=layout.row_nbytes,
                    epoch=start.epoch,
                    step=start.step,
                )
            )
            # One thread for linear algebra: with more, sums depend on their number.
            with one_blas_thread():
                epoch_began = time.perf_counter()
                for point in self._points(start):
                    run.advance(point)
                    state.position, state.model = point, run.model
                    if point.step == 0:
                        if self.evaluate is not None and task.memory_limit is not None:
                            # The metrics may take the whole limit, so nothing is read ahead meanwhile.
                            run.rest()
                        if self._end_epoch(state, time.perf_counter() - epoch_began):
                            break
                        epoch_began = time.perf_counter()
                    elif self.checkpoints is not None:
                        self.checkpoints.save(state, self.controls)
        finally:
            run.close()
            self._notify(FitEnded(time.perf_counter() - began))

    def _points(self, start: Position) -> list[Position]:
        if self.checkpoints is None:
            return list(control_points(self.task, start, every_steps=None))
        points = list(control_points(self.task, start, every_steps=self.checkpoints.options.every_steps))
        first = self.task.next_position(Position(0, 0))
        if start < first and first not in points:
            # A model that cannot be written is found out after one step, not after an epoch.
            points.insert(0, first)
        return points

    def _end_epoch(self, state: FitState, seconds: float) -> bool:
        """Judge an epoch, write it down, and tell whether the fit is to end."""
        epoch = state.position.epoch - 1
        metrics = {} if self.evaluate is None else self.evaluate(state.model)
        n_rows = self.task.plan.step_bounds(len(self.task.plan) - 1)[1]
        state.history.append({"epoch": epoch, "n_rows": n_rows, "seconds": seconds, **metrics})
        for name, control in self.controls.items():
            n_steps = len(self.task.plan)
            verdict = control.judge(ControlPoint(epoch, n_steps, n_steps, metrics, None, state.model))
            if not isinstance(verdict, Verdict):
                raise InvalidParameterError(
                    f"judge of the callback {name} must give a streamfit.callbacks.Verdict, got {verdict!r}."
                )
            if verdict.keep:
                state.kept, state.kept_by = copy.deepcopy(state.model), name
            if verdict.stop:
                state.stopped_by = name
        # Written before observers are told: one that raises costs nothing that was done.
        if self.checkpoints is not None:
            self.checkpoints.save(state, self.controls)
        self._notify(EpochEnded(epoch, seconds, metrics))
        return state.stopped_by is not None

    def _steps_done(self, epoch: int, steps: int) -> None:
        self._notify(StepsDone(epoch, steps, self.task.plan.step_bounds(steps - 1)[1]))

    def _notify(self, event: Event) -> None:
        # One that raises does not keep the others from being told; its error is raised after that.
        with ExitStack() as told:
            for observer in reversed(self.observers):
                told.callback(observer.notify, event)
