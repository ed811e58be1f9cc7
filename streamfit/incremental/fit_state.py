"""Where a fit stands, and how that is written to the folder of its run and read back."""

from __future__ import annotations

import copy
import json
import logging
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import sklearn

from streamfit.errors import CheckpointError, CheckpointMismatchError, InvalidParameterError
from streamfit.run.checkpoint import Checkpoint, Position, check_same_run
from streamfit.run.codecs import decode_estimator, encode_estimator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamfit.callbacks.control import Control
    from streamfit.run.checkpoint import CheckpointOptions, RunFolder

__all__ = ["Checkpoints", "FitState", "Resume", "keyed_controls"]

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
    paused_by: str | None = None
    """Which callback ended this call, so that the next one goes on."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """What was measured, at the ends of epochs and in between."""
    epoch_seconds: float = 0.0
    """Wall time of the steps of the epoch under way."""

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
                model=encode_estimator(state.model, trust=trust, complete=False),
                kept=None if state.kept is None else encode_estimator(state.kept, trust=trust, complete=False),
                kept_by=state.kept_by,
                stopped_by=state.stopped_by,
                history=state.history,
                epoch_seconds=state.epoch_seconds,
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
        like: Any,
        n_epochs: int,
    ) -> FitState:
        """Go on with a run that was found, of a model whose nets are made like those of `like`.

        A run that a callback ended stays ended as long as that callback is there: with more epochs from the
        start it would have ended there too.

        Raises
        ------
        CheckpointMismatchError
            It is defined otherwise, is of other versions, or more has been done than is asked for.
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
        if self.options.other_versions == "refuse":
            self._check_versions(checkpoint.versions)
        saved = checkpoint.controls
        keeping = {name for name, c in controls.items() if name in saved and c.restore(saved[name])}
        kept_by = checkpoint.kept_by if checkpoint.kept_by in keeping else None
        trust = self.options.trust
        return FitState(
            model=decode_estimator(checkpoint.model, trust=trust, like=like),
            position=checkpoint.position,
            kept=decode_estimator(checkpoint.kept, trust=trust, like=like) if checkpoint.kept and kept_by else None,
            kept_by=kept_by,
            stopped_by=checkpoint.stopped_by if checkpoint.stopped_by in controls else None,
            history=checkpoint.history,
            epoch_seconds=checkpoint.epoch_seconds,
        )

    def _check_versions(self, versions: Mapping[str, str]) -> None:
        # Runs that were begun before one of them was written down say nothing about it.
        differences = [
            f"{name} was {versions[name]} and is {current}"
            for name, current in _versions().items()
            if versions.get(name, current) != current
        ]
        if differences:
            raise CheckpointMismatchError(
                f"The checkpoint in {self.folder.path} was written elsewhere: {'; '.join(differences)}. The fit would "
                "go on, but maybe not bit for bit as it would have. Use the same versions, or accept these: "
                "checkpoint=CheckpointOptions(path, other_versions='accept')."
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
    return {
        "streamfit": version("streamfit"),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": platform.machine(),
    }
