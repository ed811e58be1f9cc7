"""Which types may be made when a file is read: those that somebody vouches for by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["is_trusted"]


def is_trusted(name: str, trust: Collection[str]) -> bool:
    """Whether a full name is among names of types, or lies in a package or module among them.

    Examples
    --------
    >>> is_trusted("mine.models.Tree", ["mine"]), is_trusted("mine.models.Tree", ["mine.models.Tree"])
    (True, True)
    >>> is_trusted("mineral.Tree", ["mine"]), is_trusted("mine.Tree", [])
    (False, False)
    """
    return any(f"{name}.".startswith(f"{trusted.rstrip('.')}.") for trusted in trust)
