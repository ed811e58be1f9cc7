"""A folder for what is needed for a while only."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Scratch"]


class Scratch:
    """A folder for intermediate results. One that was made by `create` is removed with its object.

    A pickled copy knows the path and removes nothing.

    Parameters
    ----------
    path : path-like
        A folder that someone else made and removes.

    Examples
    --------
    >>> scratch = Scratch.create()
    >>> scratch.new("store").name
    'store-0'
    >>> scratch.remove()
    >>> scratch.path.exists()
    False
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._numbers = itertools.count()
        self._finalizer: Any = None

    @classmethod
    def create(cls, parent: str | PathLike[str] | None = None) -> Self:
        """Make a new folder, removed when the object goes or the process that made it ends.

        Parameters
        ----------
        parent : path-like, optional
            Where the folder is made; by default where the system keeps temporary files.
        """
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        scratch = cls(tempfile.mkdtemp(prefix="streamfit-", dir=parent))
        scratch._finalizer = weakref.finalize(scratch, _remove, scratch.path, os.getpid())
        return scratch

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Scratch, (self.path,)

    def new(self, name: str) -> Path:
        """Give a path in the folder that nothing is at yet; `name` is its beginning."""
        while True:
            path = self.path / f"{name}-{next(self._numbers)}"
            if not path.exists():
                return path

    def remove(self) -> None:
        """Remove the folder now, if this object made it."""
        if self._finalizer is not None:
            self._finalizer()


def _remove(path: Path, owner: int) -> None:
    # A forked child ends with the same finalizers and must not take its parent's folder away.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
