"""End a call of ``fit`` after some time, so that another one goes on."""

from __future__ import annotations

import logging
import math
import re
import time
from datetime import timedelta
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

from streamfit.callbacks.control import Verdict
from streamfit.errors import InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.callbacks.control import ControlPoint

__all__ = ["TimeLimit", "parse_seconds"]

logger = logging.getLogger(__name__)

_UNIT_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "min": 60.0, "s": 1.0}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*")


def parse_seconds(name: str, value: Any) -> float:
    """Give a span of time in seconds.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    value : float, str or timedelta
        Seconds, or a text such as ``"90s"``, ``"10m"`` or ``"1h30m"``; units are d, h, m (or min) and s.

    Raises
    ------
    InvalidParameterError
        It is no span of time above 0.

    Examples
    --------
    >>> parse_seconds("seconds", "1h30m"), parse_seconds("seconds", "1.5 h"), parse_seconds("seconds", 90)
    (5400.0, 5400.0, 90.0)
    >>> parse_seconds("seconds", "90")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: seconds must be a time above 0, such as 90, "90s" or "1h30m", got '90'.
    """
    seconds = math.nan
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        text = value.strip().lower()
        parts = _PARTS.findall(text)
        units = [unit for _, unit in parts]
        if parts and _PARTS.sub("", text) == "" and len(set(units)) == len(units):
            seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    elif isinstance(value, Real) and value is not True:
        seconds = float(value)
    if not 0 < seconds < math.inf:
        raise InvalidParameterError(f'{name} must be a time above 0, such as 90, "90s" or "1h30m", got {value!r}.')
    return seconds


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
