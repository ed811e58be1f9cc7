"""What a source is: rows in blocks, and what is known about them before the first is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError
from streamfit.maths.csr_rows import csr_nbytes
from streamfit.store.label_values import joined_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import numpy as np

    from streamfit.options import Categorical
    from streamfit.store.categories import ColumnCategories

__all__ = ["Names", "RowBlock", "Source", "block_rows", "drop_rows", "joined_sides", "outputs_nbytes"]

_BLOCK_NBYTES = 8 * 2**20


def block_rows(row_nbytes: int) -> int:
    """Rows that are read at a time: about 8 MiB."""
    return max(1, _BLOCK_NBYTES // max(1, row_nbytes))


def outputs_nbytes(labels: Any) -> int:
    """Give the bytes of several labels a row, as far as an array tells of its shape and type; 0 of one a row."""
    shape: Any = getattr(labels, "shape", ())
    if len(shape) != 2 or not isinstance(shape[1], Integral) or shape[1] < 2:
        return 0
    return int(shape[1]) * int(getattr(getattr(labels, "dtype", None), "itemsize", 8))


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some consecutive rows of a source."""

    X: Any
    """Features, ``(n_rows, n_features)``: an ndarray in any memory order, or CSR where the source is sparse."""
    y: Any = None
    """Labels, ``(n_rows,)`` or ``(n_rows, n_outputs)``, or None."""
    sample_weight: Any = None
    """Weights, ``(n_rows,)``, or None."""
    ids: Any = None
    """Ids, ``(n_rows,)``, or None."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])  # what is sparse has no len

    def since(self, start: int) -> RowBlock:
        """Give the rows from `start` on, counted in this block, as views."""
        columns = (self.y, self.sample_weight, self.ids)
        return RowBlock(self.X[start:], *(None if values is None else values[start:] for values in columns))


def joined_sides(sides: Mapping[str, Any], *, start: int) -> dict[str, Any]:
    """Give what comes beside the rows of a table by its use, several columns of labels as one array.

    Parameters
    ----------
    sides : mapping of str to array-like
        By roles as in `Names.roles`.
    start : int
        Global number of the first row, for the message.

    Raises
    ------
    InvalidDataError
        No type holds the values of all columns of labels, one is missing, or they are no numbers.
    """
    several = [values for role, values in sides.items() if role.startswith("y.")]
    others = {role: values for role, values in sides.items() if not role.startswith("y.")}
    return {"y": joined_labels(several, start=start), **others} if several else others


def drop_rows(blocks: Iterator[RowBlock], n_rows: int) -> Iterator[RowBlock]:
    """Leave out the first rows of some blocks, and the blocks that have no others."""
    for block in blocks:
        if n_rows < block.n_rows:
            yield block.since(n_rows) if n_rows else block
        n_rows = max(0, n_rows - block.n_rows)


@dataclass(frozen=True, slots=True)
class Names:
    """Columns that the caller named."""

    y: str | tuple[str, ...] | None = None
    """Column of labels, or columns of several labels a row."""
    sample_weight: str | None = None
    """Column of weights."""
    ids: str | None = None
    """Column of ids."""
    columns: tuple[str, ...] | None = None
    """Columns of features, in this order; None for all others."""
    categorical: Categorical | Mapping[str, Categorical] | None = None
    """How columns of categories become numbers: each that holds no numbers, or those named; None refuses them."""
    encodings: tuple[ColumnCategories, ...] = ()
    """How columns became numbers in the store that rows are added to; it goes before `categorical`."""
    dtype: np.dtype[Any] | None = None
    """Type that values are to have, so that tables can make it at once; None for the one that holds them all."""

    @property
    def roles(self) -> dict[str, str]:
        """Names of columns by their use; of several labels a row ``y.0``, ``y.1``, …, see `joined_sides`."""
        several = enumerate(self.y) if isinstance(self.y, tuple) else ()
        labels: dict[str, Any] = {f"y.{place}": name for place, name in several} or {"y": self.y}
        given = {**labels, "sample_weight": self.sample_weight, "ids": self.ids}
        return {role: name for role, name in given.items() if name is not None}

    def refuse(self, what: str) -> None:
        """Refuse names for a source whose columns have none.

        Raises
        ------
        InvalidParameterError
            Columns were named.
        """
        for role, name in self.roles.items():
            raise InvalidParameterError(
                f"{role}={name!r} names a column, and {what} has no named columns. Give an array."
            )
        if self.columns is not None:
            raise InvalidParameterError(f"columns are given, and {what} has no named columns. Select them before.")
        if self.categorical is not None:
            raise InvalidParameterError(
                f"categorical is given, and {what} has no named columns. Give a table, or encode the values before."
            )


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that can be read once, block by block, and what is known beforehand."""

    blocks: Callable[[int], Iterator[RowBlock]]
    """Reads from the row with this number on, counted from 0 in the whole source."""
    n_features: int
    """Columns."""
    dtype: np.dtype[Any]
    """Type that holds every value of the features."""
    description: Mapping[str, Any]
    """Plain values, written to the manifest: equal for the same source on any machine at any time."""
    recognisable: bool
    """Whether an equal description means equal rows. Otherwise rows are compared before they are reused."""
    seekable: bool = False
    """Whether `blocks` passes over the rows before its first one without decoding them."""
    n_rows: int | None = None
    """Rows, where they are known."""
    feature_names: tuple[str, ...] | None = None
    """Names of the columns, where there are any."""
    block_nbytes: int = _BLOCK_NBYTES
    """Most bytes that reading one block takes, where it is known."""
    held_nbytes: int | None = None
    """Most bytes of a block once it is read, where that is less."""
    paths: tuple[Path, ...] = field(default=())
    """Files and folders that are read; a store may not be written over them."""
    sparse: bool = False
    """Whether blocks hold CSR matrices; `dtype` is then that of their values."""
    mean_row_nnz: float | None = None
    """Stored values of a row on average, of a sparse source; it follows from the source alone."""
    categories: tuple[ColumnCategories, ...] = ()
    """How columns of categories became numbers."""
    outputs_nbytes: int = 0
    """Bytes of the labels of a row where it has several, as far as it is known; else 0."""
    locate: Callable[[int], str | None] | None = None
    """Of several files: tells in which one a row that was read lies, and which row it is there."""

    def row_nbytes(self, itemsize: int) -> int:
        """Bytes of one row of features whose values have so many bytes, on average where the source is sparse."""
        if not self.sparse:
            return self.n_features * itemsize
        return csr_nbytes(1, round(self.mean_row_nnz or 0), itemsize)
