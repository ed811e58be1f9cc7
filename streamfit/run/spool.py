"""Training scores on scratch: written once, read many times, eight bytes a row."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.utils import format_bytes
from numpy.lib import format as npy

from streamfit.errors import (
    InvalidDataError,
    InvalidParameterError,
    StoreCorruptError,
    StoreError,
    StoreExistsError,
    StoreIncompleteError,
    StoreNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.plan.layout import StoreLayout

__all__ = ["ScoreSpool"]

_DTYPE = np.dtype("<f8")


@dataclass(frozen=True, slots=True)
class ScoreSpool:
    """One float64 score a row in a plain ``.npy`` file, which ``numpy.load`` opens.

    A spool is a value: it holds a path and no open file, so it may be pickled and used from any number of
    threads, and of processes that see the same file system. Until `finish` the file is named ``<path>.part``:
    what lies at `path` is complete. Whoever writes has to know that all rows were written.

    Files are read and written, never mapped: mapped pages would count as resident memory.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> spool = ScoreSpool.create(Path(folder.name) / "scores.npy", n_rows=3)
    >>> spool.write(1, np.array([2.0, 3.0]))
    >>> spool.write(0, np.array([1.0]))
    >>> spool = spool.finish()
    >>> spool.read(1, 3), [len(block) for block in spool.blocks(max_rows=2)]
    (array([2., 3.]), [2, 1])
    >>> np.load(spool.path)
    array([1., 2., 3.])
    >>> folder.cleanup()
    """

    path: Path
    """Where the complete file is, or will be."""
    n_rows: int
    """Number of scores."""
    offset: int
    """Bytes before the first score."""
    stamp: tuple[int, int] | None
    """Inode and time of last change (nanoseconds) of the complete file, by which a file that took its place
    is noticed; None while it is being written."""

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, n_rows: int) -> Self:
        """Make room for `n_rows` scores.

        Raises
        ------
        InvalidDataError
            There is no row.
        StoreExistsError
            Something is at `path` already. A ``.part`` file that a writer left behind is overwritten.
        StoreError
            There is no room.
        """
        path = Path(path)
        if n_rows < 1:
            raise InvalidDataError(f"Scores of {n_rows} rows cannot be stored. Give at least 1 row.")
        if path.exists():
            raise StoreExistsError(f"{path} exists already. Remove it or choose another path.")
        with _part(path).open("wb", buffering=0) as file:
            header = {"descr": _DTYPE.str, "fortran_order": False, "shape": (n_rows,)}
            npy.write_array_header_1_0(file, header)
            offset = file.tell()
            try:
                _allocate(file.fileno(), offset + n_rows * _DTYPE.itemsize)
            except OSError as error:
                needed = format_bytes(n_rows * _DTYPE.itemsize)
                raise StoreError(
                    f"There is no room for {needed} of scores at {path} ({error.strerror}). "
                    "Name another scratch folder."
                ) from error
        return cls(path, n_rows, offset, None)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a complete file of scores.

        Raises
        ------
        StoreIncompleteError
            Only a ``.part`` file is there: its writer did not finish.
        StoreNotFoundError
            Nothing is there.
        StoreCorruptError
            The file is not a 1-D float64 ``.npy`` file of the length that it announces.
        """
        path = Path(path)
        if not path.exists():
            if _part(path).exists():
                raise StoreIncompleteError(f"{path} was never finished. Fit again.")
            raise StoreNotFoundError(f"There are no scores at {path}. Check the path.")
        with path.open("rb") as file:
            try:
                version = npy.read_magic(file)
                shape, _, dtype = npy.read_array_header_1_0(file)
            except ValueError as error:
                raise StoreCorruptError(f"{path} is not a .npy file ({error}). Fit again.") from error
            offset = file.tell()
            nbytes = file.seek(0, os.SEEK_END) - offset
            stamp = _stamp(file.fileno())
        if version != (1, 0) or dtype != _DTYPE or len(shape) != 1 or nbytes != shape[0] * _DTYPE.itemsize:
            raise StoreCorruptError(
                f"{path} holds {nbytes} bytes of {dtype} for shape {shape}, not one float64 a row. Fit again."
            )
        return cls(path, shape[0], offset, stamp)

    def write(self, start: int, scores: NDArray[np.float64]) -> None:
        """Write the scores of rows from `start` on.

        Parameters
        ----------
        start : int
            Global number of the first row.
        scores : ndarray of float64, (n,)
            Their scores. Writers of different rows do not disturb each other.

        Raises
        ------
        InvalidParameterError
            The scores are not 1-D float64, or do not lie within the rows.
        StoreError
            The spool is finished.
        """
        if scores.ndim != 1 or scores.dtype != np.float64:
            raise InvalidParameterError(
                f"scores must be float64 and one-dimensional, got {scores.dtype} of shape {scores.shape}."
            )
        self._check_rows(start, start + len(scores))
        view = np.ascontiguousarray(scores, dtype=_DTYPE).view(np.uint8).data
        try:
            # Each call has its own file, hence its own position.
            with _part(self.path).open("r+b", buffering=0) as file:
                file.seek(self.offset + start * _DTYPE.itemsize)
                while view:
                    view = view[file.write(view) :]
        except FileNotFoundError as error:
            raise StoreError(f"{_part(self.path)} is finished or was removed. Create another spool.") from error

    def finish(self) -> Self:
        """Move the file into its place, once all rows are written; gives the spool to read from."""
        if self.stamp is not None:
            return self
        part = _part(self.path)
        with part.open("rb") as file:
            os.fsync(file.fileno())
            stamp = _stamp(file.fileno())
        part.replace(self.path)
        return replace(self, stamp=stamp)

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Read the scores of rows `start` (inclusive) to `stop` (exclusive), ``(stop - start,)``.

        Raises
        ------
        StoreIncompleteError
            The spool is not finished.
        StoreCorruptError
            The file is gone, cut, or another one.
        """
        self._check_rows(start, stop)
        if self.stamp is None:
            raise StoreIncompleteError(f"{self.path} is being written. Call finish() after the last write.")
        scores = np.empty(stop - start, dtype=_DTYPE)
        view = scores.view(np.uint8).data
        try:
            with self.path.open("rb", buffering=0) as file:
                if _stamp(file.fileno()) != self.stamp:
                    raise StoreCorruptError(f"{self.path} was changed since it was opened. Open it again.")
                file.seek(self.offset + start * _DTYPE.itemsize)
                while view:
                    n_read = file.readinto(view)
                    if not n_read:
                        raise StoreCorruptError(f"{self.path} ends before row {stop}. Fit again.", rows=(start, stop))
                    view = view[n_read:]
        except FileNotFoundError as error:
            raise StoreCorruptError(f"{self.path} is gone, and with it the scores. Fit again.") from error
        return scores.astype(np.float64, copy=False)

    def blocks(self, max_rows: int) -> Iterator[NDArray[np.float64]]:
        """Give all scores in row order, at most `max_rows` at a time; each block owns its memory."""
        for start in range(0, self.n_rows, max_rows):
            yield self.read(start, min(start + max_rows, self.n_rows))

    def as_dask(self, layout: StoreLayout, *, keep: object = None) -> da.Array:
        """Give the scores as a lazy array with one block a partition; nothing is read by building it.

        Parameters
        ----------
        layout : StoreLayout
            Gives the partitions.
        keep : object, default=None
            Held by the array and by all arrays made of it, such as the `Scratch` that the file lies in.

        Raises
        ------
        InvalidParameterError
            The layout has another number of rows.
        """
        if layout.n_rows != self.n_rows:
            raise InvalidParameterError(f"The layout has {layout.n_rows} rows and {self.path} has {self.n_rows}.")
        rows = layout.partition_rows()
        scores: da.Array = da.map_blocks(
            _read_block,
            self,
            np.concatenate(([0], np.cumsum(rows))),
            keep,
            name=f"scores-{tokenize(self, rows)}",
            chunks=(rows,),
            dtype=np.float64,
            meta=np.empty(0, dtype=np.float64),
        )
        return scores

    def _check_rows(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.n_rows:
            raise InvalidParameterError(
                f"Rows {start} to {stop} do not lie within the {self.n_rows} rows of {self.path}."
            )


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _stamp(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_mtime_ns


def _allocate(descriptor: int, nbytes: int) -> None:
    # macOS has no posix_fallocate: there a full disk is noticed by the write that meets it.
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, nbytes)
    else:
        os.ftruncate(descriptor, nbytes)


def _read_block(
    spool: ScoreSpool,
    bounds: NDArray[Any],
    keep: object,  # noqa: ARG001  # it lives as long as the graph
    *,
    block_id: tuple[int],
) -> NDArray[np.float64]:
    return spool.read(int(bounds[block_id[0]]), int(bounds[block_id[0] + 1]))
