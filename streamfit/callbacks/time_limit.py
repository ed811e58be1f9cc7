"""End a call of ``fit`` after some time, so that another one goes on."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Self

from streamfit.callbacks.control import Verdict
from streamfit.durations import parse_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from streamfit.callbacks.control import ControlPoint

__all__ = ["TimeLimit"]

logger = logging.getLogger(__name__)


class TimeLimit:
    """End a call of ``fit`` after some time, with its state written where it has ``checkpoint``.

    The limit is that of one call: the same call goes on where this one ended, with as much time again, and in the end
    gives the bits that a fit without a limit would have given. Without ``checkpoint`` the model is as it was when the
    time was over, and the same call begins anew. Time is looked at after each step, on a cluster after each segment of
    some seconds: a step that is under way is finished, and each call does at least one. The fitting of transformers
    before the first step counts, but is not interrupted. ``trainer.stopped_by_`` tells whether the limit ended the fit.

    Parameters
    ----------
    seconds : float, str or timedelta
        Seconds, or a text such as ``"90s"``, ``"10m"`` or ``"1h30m"``.

    Examples
    --------
    >>> limit = TimeLimit("1h30m")
    >>> limit.seconds, limit.wants_pause()
    ('1h30m', False)
    """

    def __init__(self, seconds: float | str | timedelta) -> None:
        self.seconds = seconds
        self._limit_seconds = parse_seconds("seconds", seconds)
        self._began = time.monotonic()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A fit begins with a copy of what it was given: that is when its clock starts.
        return type(self)(self.seconds)

    def wants_pause(self) -> bool:
        """Tell whether the time is over."""
        return time.monotonic() - self._began >= self._limit_seconds

    def judge(self, point: ControlPoint) -> Verdict:
        """End this call if the time is over."""
        if not self.wants_pause():
            return Verdict()
        logger.info(
            "The time limit of %s is over after step %d of epoch %d: the same call of fit goes on from there where it "
            "has a checkpoint.",
            self.seconds,
            point.step,
            point.epoch,
        )
        return Verdict(pause=True)

    def state(self) -> dict[str, Any]:
        """Give nothing: each call has its own time."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Take nothing back, and keep no model."""
        return False
