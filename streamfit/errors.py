"""Every error that streamfit raises on purpose, grouped by what the caller does next.

Each is also the builtin exception that a caller would have caught without knowing streamfit, and each
message says what is wrong, what was got, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AlreadyStoredWarning",
    "ApproximationWarning",
    "BudgetError",
    "CheckpointError",
    "CheckpointMismatchError",
    "ClusterError",
    "FilledChunksWarning",
    "InvalidDataError",
    "InvalidParameterError",
    "ModelNotFoundError",
    "NumbersAsNamesWarning",
    "OtherVersionsWarning",
    "ScoresNotSavedError",
    "ShuffleWarning",
    "SourceNotFoundError",
    "StoreCorruptError",
    "StoreError",
    "StoreExistsError",
    "StoreIncompleteError",
    "StoreLockedError",
    "StoreNotFoundError",
    "StoreWriteError",
    "StreamfitError",
    "UnsupportedError",
    "UntrustedTypesError",
    "UnwritableError",
    "VersionMismatchError",
    "WorkerLostError",
]


class AlreadyStoredWarning(UserWarning):
    """Rows were not appended, since the store has the rows of this source. Say ``if_exists="again"`` to add them."""


class ApproximationWarning(UserWarning):
    """A result is approximate where nobody asked for that by name. Name the method, or raise the limit."""


class NumbersAsNamesWarning(UserWarning):
    """The first line of a text table holds numbers, and is taken for names. Put a line of names before it."""


class ShuffleWarning(UserWarning):
    """Rows lie so that windows of a shuffled epoch are not like all rows. Write the store in another order once."""


class FilledChunksWarning(UserWarning):
    """An array of another maker lacks chunks, which are read as its fill value. Make sure that none is lost."""


class OtherVersionsWarning(UserWarning):
    """A model was written by other versions of the packages that it needs. Use the same ones, or save it anew."""


class StreamfitError(Exception):
    """Base of all errors that streamfit raises on purpose."""


class InvalidParameterError(StreamfitError, ValueError):
    """An argument is out of its range or clashes with another one. Change the call."""


class InvalidDataError(StreamfitError, ValueError):
    """The data cannot be used as they are. Change the data, or the policy that refuses them.

    Parameters
    ----------
    message : str
        What is wrong, what was got, what to do.
    row : int or None
        First offending row, counted from 0 in the whole source, where one is known.
    column : str or None
        Name of the offending column, where one is known.
    """

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class SourceNotFoundError(StreamfitError, FileNotFoundError):
    """There is no file, array or store to read rows from at this path. Check the path or the pattern."""


class UnsupportedError(StreamfitError, NotImplementedError):
    """What was asked for has no out-of-core form here. The message names what has."""


class BudgetError(StreamfitError, MemoryError):
    """The work does not fit the memory limit. Raise the limit or lower what the message names."""


class ClusterError(StreamfitError, ConnectionError):
    """No scheduler or no worker answers, or the cluster was lost for longer than is waited for it."""


class VersionMismatchError(StreamfitError, RuntimeError):
    """Workers have other versions than this process. Install the same ones, or accept that bits may differ."""


class WorkerLostError(StreamfitError, RuntimeError):
    """Workers died again and again over one task, most often by its memory. Give them more, or take smaller chunks."""


class StoreError(StreamfitError, OSError):
    """Base of the errors about a store on disk."""


class StoreNotFoundError(StoreError, FileNotFoundError):
    """There is no store at this path. Check the path or run ``ingest``."""


class StoreExistsError(StoreError, FileExistsError):
    """Something is at this path already. Choose another path or say ``if_exists="overwrite"``."""


class StoreIncompleteError(StoreError):
    """The writer of this store stopped before its end. Run the same ``ingest`` again to go on."""


class StoreLockedError(StoreError, BlockingIOError):
    """Another writer holds this store. Wait until it is done."""


class StoreWriteError(StoreError):
    """A store cannot be written: the disk is full, or the folder is read-only. Nothing that is committed is lost."""


class StoreCorruptError(StoreError):
    """Stored bytes are not those that were committed. Repair the store from its source, or write it again.

    Parameters
    ----------
    message : str
        What is wrong, what was got, what to do.
    array : str or None
        Name of the array, such as ``"X"``.
    chunk : int or None
        Number of the chunk, counted from 0.
    rows : tuple of (int, int) or None
        First row (inclusive) and last row (exclusive) of the chunk.
    """

    def __init__(
        self,
        message: str,
        *,
        array: str | None = None,
        chunk: int | None = None,
        rows: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.array = array
        self.chunk = chunk
        self.rows = rows


class CheckpointError(StreamfitError, OSError):
    """A checkpoint or a saved model cannot be read or written."""


class UnwritableError(CheckpointError, UnsupportedError):
    """A model holds something that has no form without pickling. The message names what to use instead."""


class UntrustedTypesError(CheckpointError):
    """A model holds types that nobody vouches for. Name those that you know: ``trust=``.

    Parameters
    ----------
    message : str
        What is wrong, what was got, what to do.
    types : sequence of str
        Their full names.
    """

    def __init__(self, message: str, *, types: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.types = tuple(types)


class ModelNotFoundError(CheckpointError, FileNotFoundError):
    """There is no file of a model at this path. Check the path."""


class ScoresNotSavedError(StreamfitError, AttributeError):
    """Training scores of many rows are no part of the file of a detector. Score the rows, or keep scores beside it."""


class CheckpointMismatchError(CheckpointError, ValueError):
    """A checkpoint belongs to another fit. The message names what differs."""
