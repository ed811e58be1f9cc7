"""Spans of time as people write them."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from numbers import Real
from typing import Any

from streamfit.errors import InvalidParameterError

__all__ = ["parse_seconds"]

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
