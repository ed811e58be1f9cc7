"""``streamfit fit`` of an estimator: by epochs, and so that each fit can go on."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # the doctest needs it
from typing import TYPE_CHECKING, Any

from streamfit.cli.failure import Interrupted
from streamfit.cli.interruption import SignalPause
from streamfit.cli.refusals import refusals_of
from streamfit.errors import CheckpointError, InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamfit.cli.fitted_folder import FittedFolder
    from streamfit.feature_store import FeatureStore
    from streamfit.trainer import StreamTrainer

__all__ = ["EstimatorFit", "Measured", "Resuming"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured, and what ends a fit early."""

    validation: str | None
    """Store to measure on."""
    share: float | None
    """Share of the rows to measure on instead."""
    metrics: Sequence[str] | None
    """Names; None: by the kind of estimator."""
    every_steps: int | None
    """Steps of an epoch after which it is done, besides its end."""
    patience: int | None
    """Epochs without a better value that end the fit."""
    online: bool
    """Whether each batch is tested before it is learnt."""

    def __post_init__(self) -> None:
        if self.validation is not None and self.share is not None:
            raise InvalidParameterError("--validation and --validation-share are two ways to measure. Give one.")
        if self.share is not None and not 0 < self.share < 1:
            raise InvalidParameterError(f"--validation-share must be between 0 and 1, got {self.share!r}.")
        if self.validation is None and self.share is None:
            needing: dict[str, Any] = {"--metric": self.metrics}
            if not self.online:
                needing |= {"--validate-every": self.every_steps, "--early-stopping": self.patience}
            for option, value in needing.items():
                if value is not None:
                    raise InvalidParameterError(
                        f"{option} needs rows to measure on. Add --validation STORE or --validation-share 0.2."
                    )

    @property
    def callbacks(self) -> list[Any]:
        """What measures batches, and what ends the fit."""
        from streamfit.callbacks import EarlyStopping, PrequentialMetrics

        callbacks: list[Any] = [PrequentialMetrics(every_steps=self.every_steps)] if self.online else []
        if self.patience is not None:
            monitor = f"val_{self.metrics[0]}" if self.metrics else None
            callbacks.append(EarlyStopping(monitor, patience=self.patience))
        return callbacks

    @property
    def data(self) -> Any:
        """Give what ``StreamTrainer.fit`` takes as ``validation_data``."""
        from streamfit.feature_store import open_store

        return self.share if self.validation is None else open_store(self.validation)


@dataclass(frozen=True, slots=True)
class Resuming:
    """Where the state of a fit is, and whether it goes on from it."""

    folder: Path
    """Folder of the run."""
    named: bool
    """Whether the user named it; else it goes when the fit is done."""
    insists: bool
    """It is an error where there is nothing to go on from."""
    anew: bool
    """Nothing is gone on from."""
    command: str
    """What goes on with this fit."""

    @property
    def mode(self) -> Any:
        """Give what ``StreamTrainer.fit`` takes as ``resume``."""
        return "always" if self.insists else "never" if self.anew else "auto"

    @property
    def has_state(self) -> bool:
        """Whether there is something to go on from."""
        return any(self.folder.glob("checkpoint-*.zip"))

    def said_as_options(self, message: str) -> str:
        """Say as options what the library says of checkpoints as keywords.

        Examples
        --------
        >>> run = Resuming(Path("out/checkpoint"), named=False, insists=False, anew=False, command="")
        >>> run.said_as_options("Use another folder, or pass resume='never', which removes them.")
        'Use another folder, or add --overwrite, which removes them.'
        """
        anew = "remove that folder" if self.named else "add --overwrite"
        for keywords, options in {
            r"pass resume='never'": anew,
            r"or resume='auto'": "or leave --resume out",
            r"checkpoint=CheckpointOptions\(path, other_versions='accept'\)": "--other-versions accept",
            r"pass trust=\('(\w+).*?\): to sf\.save .*? or ModelCheckpoint": r"add --trust \1",
        }.items():
            message = re.sub(keywords, options, message)
        return message

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say of a signal that ends the work at once what there is to go on from."""
        try:
            yield
        except Interrupted as raised:
            if raised.message is not None:
                raise
            message = (
                f"Interrupted. Go on from the state that was written last: {self.command}"
                if self.has_state
                else "Interrupted before any state was written, so there is nothing to go on from: begin anew by the "
                "same command."
            )
            raise Interrupted(raised.signal_number, message) from None


@dataclass(frozen=True, slots=True)
class EstimatorFit:
    """A fit that is ready to begin."""

    trainer: StreamTrainer
    """With all that is to be done."""
    store: FeatureStore
    """Rows to train on."""
    measured: Measured
    """What is measured."""
    resuming: Resuming
    """How it goes on."""
    pause: SignalPause
    """What hears signals; one of the trainer's callbacks."""

    def run(self, folder: FittedFolder) -> dict[str, Any]:
        """Fit, write the results, and give what the summary tells of them.

        Raises
        ------
        Interrupted
            A signal ended the fit. The message says how to go on.
        """
        try:
            self._fit()
        finally:
            if not self.resuming.named and not self.resuming.has_state:
                folder.remove_checkpoint()
        trainer = self.trainer
        if self.pause.paused_at is not None and self._was_paused_by(SignalPause):
            raise self._paused(*self.pause.paused_at)
        not_saved = folder.write_model(trainer.estimator_)
        folder.write_json("history.json", trainer.history_)
        return {
            "not_saved": not_saved,
            "history": trainer.history_,
            "stopped_by": trainer.stopped_by_,
            "resume": self.resuming.command if self._is_unfinished() and self.resuming.has_state else None,
        }

    def _fit(self) -> None:
        trainer, run = self.trainer, self.resuming
        data = self.measured.data
        try:
            with refusals_of(trainer.estimator):
                trainer.fit(self.store, validation_data=data, resume=run.mode)
        except CheckpointError as error:
            # Beside trouble with the disk: the estimator cannot be written, and has not been, ever.
            if run.named or run.insists or run.has_state or isinstance(error.__cause__, OSError):
                raise type(error)(run.said_as_options(str(error))) from error
            print(
                f"warning: {type(trainer.estimator).__name__} cannot be written without pickling, so that this fit "
                "cannot go on where it is interrupted.",
                file=sys.stderr,
            )
            trainer.set_params(checkpoint=None)
            with refusals_of(trainer.estimator):
                trainer.fit(self.store, validation_data=data)

    def _was_paused_by(self, kind: type) -> bool:
        return (self.trainer.stopped_by_ or "").startswith(f"{kind.__name__}-")

    def _is_unfinished(self) -> bool:
        from streamfit.callbacks import TimeLimit

        return self._was_paused_by(TimeLimit) and self.trainer.n_epochs_ < self.trainer.epochs

    def _paused(self, epoch: int, step: int, n_steps: int) -> Interrupted:
        number = self.pause.signal_number or 0
        where = f"after step {step:,} of {n_steps:,} in epoch {epoch + 1:,} of {self.trainer.epochs:,}"
        if not self.resuming.has_state:
            return Interrupted(
                number,
                f"Interrupted {where}. Nothing of that is kept: the estimator cannot be written without pickling.",
            )
        return Interrupted(number, f"Paused {where}. Go on: {self.resuming.command}")
