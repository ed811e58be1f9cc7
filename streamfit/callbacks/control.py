"""Callbacks that act on a fit. They do so at control points only, which are the same on every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from streamfit.batch import BatchTest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BatchTest", "Control", "ControlPoint", "Pausing", "Stepwise", "Testing", "Verdict"]


@dataclass(frozen=True, slots=True)
class ControlPoint:
    """Where a fit stands when a control is asked."""

    epoch: int
    """Epoch under way, or the one that has just ended, counted from 0."""
    step: int
    """Steps of it that are done; `n_steps` at its end."""
    n_steps: int
    """Steps of an epoch."""
    metrics: Mapping[str, float]
    """What was measured here, by name: on validation rows where they are due here, and by controls that test batches;
    empty where nothing was."""
    learning_rate: float | None
    """Step size that the estimator takes next; None where it has none that could be changed."""
    model: Any
    """The model as it is here, to be looked at or written, never changed."""

    @property
    def ended(self) -> bool:
        """Whether the epoch has ended."""
        return self.step == self.n_steps

    @property
    def total_steps(self) -> int:
        """Steps that are done since the fit began, earlier epochs included."""
        return self.epoch * self.n_steps + self.step


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done after a control point."""

    stop: bool = False
    """End the fit for good: a run with checkpoints stays ended, also with more epochs."""
    keep: bool = False
    """The model as it is now is the result of the fit, unless a later one is kept."""
    pause: bool = False
    """End this call of ``fit``, with the state written where there are checkpoints; the same call goes on from here."""
    learning_rate: float | None = None
    """Step size from here on."""


@runtime_checkable
class Control(Protocol):
    """A callback that may end a fit, choose its result or change its learning rate.

    It is asked at the end of each epoch, and in between where it is `Stepwise`. A fit works on a copy, so that the
    object that was passed in never changes. Its state, made of what JSON knows, is written to the checkpoints.
    """

    def judge(self, point: ControlPoint) -> Verdict:
        """Say what is to be done after a control point."""

    def state(self) -> dict[str, Any]:
        """Give what must outlive an interruption."""

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Take back what `state` gave, and tell whether a model that was kept then is still the result."""


@runtime_checkable
class Stepwise(Control, Protocol):
    """A control that is also asked within epochs."""

    every_steps: int | None
    """It is asked after each so many steps of an epoch, and at its end; None: at its end alone."""


@runtime_checkable
class Pausing(Control, Protocol):
    """A control that may want to be asked at once, such as one that watches the clock."""

    def wants_pause(self) -> bool:
        """Tell whether it is to be asked now; called after each step, on a cluster after each segment."""


@runtime_checkable
class Testing(Control, Protocol):
    """A control that tests the model on each batch before the model learns from it."""

    @property
    def batch_test(self) -> BatchTest:
        """What is done with each batch."""

    def collect(self, epoch: int, step: int, record: Any) -> None:
        """Take the record of a step; steps come in their order, each once, those before a resume excepted."""

    def metrics(self) -> Mapping[str, float]:
        """Give what is known by now, by name; asked at control points."""
