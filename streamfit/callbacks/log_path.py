"""Where an observer writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from streamfit.errors import InvalidParameterError

__all__ = ["check_path"]


def check_path(name: str, value: Any) -> Path:
    """Give a path as a ``Path``.

    Raises
    ------
    InvalidParameterError
        It is no path, or empty.

    Examples
    --------
    >>> check_path("path", "")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: path must be a path, got ''. Give the name of a file or a folder.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise InvalidParameterError(f"{name} must be a path, got {value!r}. Give the name of a file or a folder.")
    return Path(text).expanduser()
