"""Warnings of streamfit as plain lines: a command has no lines of Python that they could point at."""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamfit import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["as_command", "plain_warnings"]

_OWN = tuple(
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Warning)
)  # those of others keep their form


def as_command(message: str) -> str:
    """Say as a command what a warning of the library says as a call.

    Examples
    --------
    >>> as_command('Write them once, store.shuffle(path, passes=2), or store.shuffle(path, passes="full").')
    'Write them once, streamfit shuffle STORE DEST --passes 2, or streamfit shuffle STORE DEST --passes full.'
    """
    return re.sub(r'store\.shuffle\(path, passes="?(\w+)"?\)', r"streamfit shuffle STORE DEST --passes \1", message)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each of streamfit's own warnings in one line on stderr while a command runs."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, _OWN):
            print(f"warning: {' '.join(as_command(str(message)).split())}", file=sys.stderr)
        else:
            others(message, category, *where, **more)

    with warnings.catch_warnings():
        others = warnings.showwarning
        warnings.showwarning = show
        yield
