"""Arrays of one task that later tasks read in parts: in memory where they are few, else in one file on scratch."""

from __future__ import annotations

import os
import tempfile
import uuid
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dask
import numpy as np

from streamfit.errors import StoreCorruptError, StoreError
from streamfit.store.scratch import remove_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["KeptArrays", "PlannedScratch"]


class PlannedScratch:
    """A folder that the first task which writes there makes, and that goes with this object.

    It lies where dask's own scratch lies, ``temporary-directory`` of its configuration, else where the system puts
    temporary files. On a cluster that has to be a place that all workers see. A pickled copy does not remove it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def plan(cls) -> Self:
        """Choose a folder; nothing is made."""
        base = Path(dask.config.get("temporary-directory", None) or tempfile.gettempdir()).absolute()
        planned = cls(base / f"streamfit-{uuid.uuid4().hex}")
        weakref.finalize(planned, remove_tree, planned.path, os.getpid())
        return planned

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return type(self), (self.path,)

    def __dask_tokenize__(self) -> str:
        # Where intermediate results lie changes none of them: the same work has the same name.
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    n_rows: int
    dtype: np.dtype[Any]


class KeptArrays:
    """Named 1-D arrays, to be read in parts any number of times.

    A file is removed with the object that wrote it. Once that was pickled there may be copies, and the file stays
    until its folder goes: a scheduler may move a result to another process and drop the first one.

    Examples
    --------
    >>> kept = KeptArrays.keep({"score": np.array([1.0, 2.0, 3.0])}, scratch=None)
    >>> kept.read("score", 1, 3)
    array([2., 3.])
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]] | None, path: Path | None, places: dict[str, _Place]) -> None:
        self._arrays = arrays
        self._path = path
        self._places = places
        self._scratch: PlannedScratch | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    @classmethod
    def keep(cls, arrays: Mapping[str, NDArray[Any]], *, scratch: PlannedScratch | None) -> Self:
        """Keep arrays of any lengths.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            One-dimensional, of numbers.
        scratch : PlannedScratch or None
            Where the file goes; None: the arrays stay in memory, as they are.

        Raises
        ------
        StoreError
            There is no room on scratch.
        """
        if scratch is None:
            return cls(arrays, None, {})
        path = scratch.path / uuid.uuid4().hex
        places, offset = {}, 0
        try:
            scratch.path.mkdir(parents=True, exist_ok=True)
            with path.open("xb", buffering=0) as file:
                for name, values in arrays.items():
                    places[name] = _Place(offset, len(values), values.dtype)
                    offset += values.nbytes
                    _write(file, values)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise _no_room(path, error) from error
        kept = cls(None, path, places)
        kept._scratch = scratch  # whoever reads the file needs its folder
        kept._finalizer = weakref.finalize(kept, _remove_file, path, os.getpid())
        return kept

    def extend(self, name: str, values: NDArray[Any]) -> None:
        """Add values behind the only array.

        Raises
        ------
        StoreError
            There is no room on scratch.
        """
        if self._arrays is not None:
            self._arrays = {name: np.append(self._arrays[name], values)}
            return
        place = self._places[name]
        try:
            with self._path.open("ab", buffering=0) as file:  # type: ignore[union-attr]  # without arrays there is one
                _write(file, values.astype(place.dtype, copy=False))
        except OSError as error:
            raise _no_room(self._path, error) from error
        self._places = {name: replace(place, n_rows=place.n_rows + len(values))}

    def n_rows(self, name: str) -> int:
        """Give the length of an array."""
        return len(self._arrays[name]) if self._arrays is not None else self._places[name].n_rows

    def names(self) -> tuple[str, ...]:
        """Give the names of the arrays."""
        return tuple(self._places if self._arrays is None else self._arrays)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Read `start` (inclusive) to `stop` (exclusive, None: the end) of an array; not to be written to.

        Raises
        ------
        StoreCorruptError
            The file is gone or cut.
        """
        if self._arrays is not None:
            return self._arrays[name][start:stop]
        place = self._places[name]
        start, stop, _ = slice(start, stop).indices(place.n_rows)
        values = np.empty(max(0, stop - start), dtype=place.dtype)
        view = values.view(np.uint8).data
        path = self._path
        try:
            with path.open("rb", buffering=0) as file:  # type: ignore[union-attr]  # without arrays there is one
                file.seek(place.offset + start * place.dtype.itemsize)
                while view:
                    n_read = file.readinto(view)
                    if not n_read:
                        raise StoreCorruptError(f"{path} was cut while it was in use. Compute again.")
                    view = view[n_read:]
        except FileNotFoundError as error:
            raise StoreCorruptError(
                f"{path} is gone, and with it intermediate results. Compute again; workers on several machines need a "
                "folder that all of them see: dask.config temporary-directory."
            ) from error
        return values

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self._finalizer is not None:
            self._finalizer.detach()
        return type(self), (self._arrays, self._path, self._places)


def _write(file: Any, values: NDArray[Any]) -> None:
    view = np.ascontiguousarray(values).view(np.uint8).data
    while view:
        view = view[file.write(view) :]


def _no_room(path: Path | None, error: OSError) -> StoreError:
    return StoreError(
        f"Intermediate results cannot be written to {path} ({error.strerror or error}). Free space there, or name "
        'another folder: dask.config.set({"temporary-directory": folder}).'
    )


def _remove_file(path: Path, owner: int) -> None:
    # A forked child ends with the same finalizers and must not take its parent's files away.
    if os.getpid() == owner:
        path.unlink(missing_ok=True)
