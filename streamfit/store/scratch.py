"""A folder for what is needed for a while only."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from streamfit.errors import InvalidParameterError
from streamfit.store.format import local_folder

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Scratch", "remove_tree"]


class Scratch:
    """A folder for intermediate results. One that was made by `create` is removed with its object.

    A pickled copy knows the path and removes nothing; any other copy is the object itself.

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
    def create(cls, parent: str | PathLike[str] | None = None, *, keep: bool = False) -> Self:
        """Make a new folder, removed when the object goes or the process that made it ends, unless it is kept.

        Parameters
        ----------
        parent : path-like, optional
            Where the folder is made; by default where the system keeps temporary files.
        keep : bool
            Leave the folder where it is.

        Raises
        ------
        InvalidParameterError
            No folder can be made there.
        """
        folder = None if parent is None else local_folder(parent)
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            scratch = cls(tempfile.mkdtemp(prefix="streamfit-", dir=folder))
        except OSError as error:
            raise InvalidParameterError(
                f"No folder can be made in {folder or 'the folder for temporary files'} ({error.strerror}). "
                "Name another scratch folder."
            ) from error
        if not keep:
            scratch._finalizer = weakref.finalize(scratch, remove_tree, scratch.path, os.getpid())
        return scratch

    @property
    def is_temporary(self) -> bool:
        """Whether the folder goes with this object."""
        return self._finalizer is not None

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Scratch, (self.path,)

    def __copy__(self) -> Self:
        # Another holder of the same folder, which goes with the last of them.
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self

    def new(self, name: str) -> Path:
        """Give a path in the folder that nothing is at yet; `name` is its beginning."""
        while True:
            path = self.path / f"{name}-{next(self._numbers)}"
            if not path.exists():
                return path

    def discard(self, path: str | PathLike[str]) -> None:
        """Remove what lies at a path in the folder, before the folder goes."""
        shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder now, if this object made it."""
        if self._finalizer is not None:
            self._finalizer()


def remove_tree(path: Path, owner: int) -> None:
    """Remove a folder, if this is the process that owns it."""
    # A forked child ends with the same finalizers and must not take its parent's folder away.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
