"""A folder for what is needed for a while only."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Scratch"]


class Scratch:
    """A new folder that is removed when this object goes, or at the end of the process that made it.

    A pickled copy knows the path and removes nothing.

    Parameters
    ----------
    parent : path-like, optional
        Where the folder is made; by default where the system keeps temporary files.

    Examples
    --------
    >>> scratch = Scratch()
    >>> scratch.new("store").name
    'store-0'
    >>> path = scratch.path
    >>> scratch.remove()
    >>> path.exists()
    False
    """

    def __init__(self, parent: str | PathLike[str] | None = None) -> None:
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="streamfit-", dir=parent)).absolute()
        self._numbers = itertools.count()
        self._finalizer: Any = weakref.finalize(self, _remove, self.path, os.getpid())

    @classmethod
    def at(cls, path: str | PathLike[str]) -> Scratch:
        """Use a folder that someone else made and removes."""
        scratch = cls.__new__(cls)
        scratch.path = Path(path)
        scratch._numbers = itertools.count()
        scratch._finalizer = None
        return scratch

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Scratch.at, (self.path,)

    def new(self, name: str) -> Path:
        """Give a path in the folder that nothing is at yet; `name` is its beginning."""
        while True:
            path = self.path / f"{name}-{next(self._numbers)}"
            if not path.exists():
                return path

    def remove(self) -> None:
        """Remove the folder now."""
        if self._finalizer is not None:
            self._finalizer()


def _remove(path: Path, owner: int) -> None:
    # A forked child ends with the same finalizers and must not take its parent's folder away.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
