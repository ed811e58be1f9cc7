"""What a running fit tells its observers. Events carry numbers, never data or models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "EpochEnded",
    "Event",
    "FitEnded",
    "FitStarted",
    "Observer",
    "PassEnded",
    "PassProgress",
    "StepsDone",
    "StepsMeasured",
]


@dataclass(frozen=True, slots=True)
class FitStarted:
    """An ordered fit begins, or goes on from a checkpoint."""

    n_epochs: int
    """Epochs in all."""
    n_steps: int
    """Steps in one epoch."""
    n_rows: int
    """Rows in one epoch."""
    row_nbytes: int
    """Bytes of one row of features."""
    epoch: int = 0
    """Epoch at which the fit begins, counted from 0."""
    step: int = 0
    """Step at which the fit begins, counted from 0."""
    history: tuple[Mapping[str, Any], ...] = ()
    """What was measured before, where the fit goes on from a checkpoint: `StreamTrainer.history_` up to here."""
    estimator: str = ""
    """Name of the estimator's class."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the fit and of the estimator, as plain values by name."""
    memory_limit: int | None = None
    """Limit of streamfit's own memory in bytes."""


@dataclass(frozen=True, slots=True)
class StepsDone:
    """Some steps are done."""

    epoch: int
    """Number of the epoch, counted from 0."""
    step: int
    """Steps of this epoch done so far."""
    n_rows: int
    """Rows of this epoch done so far."""


@dataclass(frozen=True, slots=True)
class StepsMeasured:
    """Metrics were measured within an epoch."""

    epoch: int
    """Number of the epoch, counted from 0."""
    step: int
    """Steps of this epoch done so far."""
    seconds: float
    """Wall time of this epoch so far, without validation."""
    metrics: Mapping[str, float]
    """Metrics by name; those on validation data begin with ``val_``."""
    learning_rate: float | None = None
    """Step size of the estimator up to here; None where it has none that could be changed."""


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch is done and its metrics are known."""

    epoch: int
    """Number of the epoch, counted from 0."""
    seconds: float
    """Wall time of the epoch, without validation."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics by name; those on validation data begin with ``val_``."""
    learning_rate: float | None = None
    """Step size of the estimator up to here; None where it has none that could be changed."""


@dataclass(frozen=True, slots=True)
class FitEnded:
    """The fit is done, or has failed."""

    seconds: float
    """Wall time of the fit."""
    error: str | None = None
    """Name of the class of the error that it failed with; None where it is done."""


@dataclass(frozen=True, slots=True)
class PassProgress:
    """A pass over the rows goes on."""

    name: str
    """What the pass does, such as ``"histogram"``."""
    done: int
    """Units done so far."""
    total: int
    """Units in all."""


@dataclass(frozen=True, slots=True)
class PassEnded:
    """A pass over the rows is done."""

    name: str
    """What the pass did."""
    seconds: float
    """Wall time of the pass."""


Event = FitStarted | StepsDone | StepsMeasured | EpochEnded | FitEnded | PassProgress | PassEnded


@runtime_checkable
class Observer(Protocol):
    """Anything that wants to know how a fit goes."""

    def notify(self, event: Event) -> None:
        """Take note of an event. It runs on the thread of the fit, so it must be quick."""
