"""Set the learning rate by a function of how far the fit is."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import Verdict
from streamfit.callbacks.rate import rate_at
from streamfit.errors import InvalidParameterError
from streamfit.options import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streamfit.callbacks.control import ControlPoint

__all__ = ["LearningRateScheduler"]


class LearningRateScheduler:
    """Set the learning rate by a function, for each epoch or each so many steps.

    The first epoch, or the first `every_steps` steps, are done with the learning rate that the estimator was made with:
    nothing is asked before there was a step. At the end of an epoch the function is asked for the next one. So after a
    fit the estimator has the learning rate that one more epoch would begin with, and a run that is given more epochs
    goes on as one that had them from the start.

    Parameters
    ----------
    schedule : callable
        ``schedule(epoch, learning_rate)`` gives the learning rate of an epoch, counted from 0, from the one that is in
        force; it is asked from epoch 1 on. With `every_steps` it is ``schedule(total_steps, learning_rate)``, for the
        steps after the first `total_steps` of the fit. It should follow from these alone (a function that remembers
        something does not know after an interruption what it knew before).
    every_steps : int or None, default=None
        Ask after each so many steps of an epoch, and at its end, instead of at its end alone.

    Examples
    --------
    >>> from streamfit.callbacks import ControlPoint
    >>> scheduler = LearningRateScheduler(lambda epoch, rate: rate / (1 + epoch))
    >>> scheduler.judge(ControlPoint(0, 9, 9, {}, 0.5, None)).learning_rate
    0.25
    >>> scheduler = LearningRateScheduler(lambda step, rate: 1 / step, every_steps=4)
    >>> scheduler.judge(ControlPoint(1, 4, 6, {}, 0.5, None)).learning_rate
    0.1
    """

    def __init__(self, schedule: Callable[[int, float], float], *, every_steps: int | None = None) -> None:
        if not callable(schedule):
            raise InvalidParameterError(
                f"schedule must be a function of an epoch, or of steps, and a learning rate; got {schedule!r}."
            )
        if every_steps is not None:
            check_count("every_steps", every_steps, least=1)
        self.schedule = schedule
        self.every_steps = every_steps

    def judge(self, point: ControlPoint) -> Verdict:
        """Ask for the learning rate from here on.

        Raises
        ------
        InvalidParameterError
            The function gave no number of at least 0, or the estimator has no learning rate that could be changed.
        """
        rate = rate_at(point, by=type(self).__name__)
        place, unit = (point.epoch + 1, "epoch") if self.every_steps is None else (point.total_steps, "step")
        given: Any = self.schedule(place, rate)
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < math.inf:
            raise InvalidParameterError(
                f"schedule must give a finite number of at least 0, got {given!r} for {unit} {place}."
            )
        return Verdict(learning_rate=float(given))

    def state(self) -> dict[str, Any]:
        """Give nothing: the learning rate is the model's."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Take nothing back, and keep no model."""
        return False
