"""Callbacks that change a fit. They act at the ends of epochs only, on every engine alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Control", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done after an epoch."""

    stop: bool = False
    """End the fit."""
    keep: bool = False
    """The model as it is now is the result of the fit, unless a later one is kept."""


@runtime_checkable
class Control(Protocol):
    """A callback that may end a fit or choose its result.

    A fit works on a copy, so that the object that was passed in never changes. Its state is written to the
    checkpoints and must be made of what JSON knows.
    """

    def epoch_ended(self, epoch: int, metrics: Mapping[str, float]) -> Verdict:
        """Judge an epoch, counted from 0, by its metrics.

        A run that was stopped stays so where it is resumed, also with more epochs.
        """

    def state(self) -> dict[str, Any]:
        """Give what must outlive an interruption."""

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Take back what `state` gave, and tell whether a model that was kept then is still the result."""
