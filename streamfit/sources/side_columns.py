"""Labels, weights and ids that come apart from the rows, cut to the blocks of the rows."""

from __future__ import annotations

import dataclasses
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

from streamfit.errors import InvalidDataError
from streamfit.sources.fingerprint import array_hash
from streamfit.sources.source import outputs_nbytes
from streamfit.sources.stores import stores_behind
from streamfit.store.label_values import as_label_array
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from streamfit.sources.source import RowBlock, Source

__all__ = ["SideColumn", "join_side_columns"]


class SideColumn:
    """One value for each row, in pieces of its own.

    Parameters
    ----------
    name : {"y", "sample_weight", "ids"}
        What the values are.
    values : array-like or dask collection of shape (n_rows,)
        The values.

    Raises
    ------
    InvalidDataError
        They are not one-dimensional (labels may be several a row), or (where they lie in memory) one is missing.
    """

    def __init__(self, name: str, values: Any) -> None:
        self.name = name
        if is_dask_collection(values):
            if getattr(values, "ndim", 1) == 2 and hasattr(values, "rechunk"):
                values = values.rechunk({1: -1})  # a piece is whole rows
            self.n_rows = _known_length(values)
            self.outputs_nbytes = outputs_nbytes(values)
            self.description = None
            self.paths = stores_behind(values)
            self.pieces: Callable[[], Iterator[NDArray[Any]]] = lambda: _computed(values, name)
        else:
            array = as_label_array(values, start=0) if name == "y" else np.asarray(unmasked(values, what=name))
            if array.ndim != 1 and name != "y":
                raise InvalidDataError(f"{name} has shape {array.shape}. Give one value for each row.")
            self.n_rows = len(array)
            self.outputs_nbytes = outputs_nbytes(array)
            self.description = array_hash(array)
            self.paths = set()
            self.pieces = lambda: iter([array])


class _Taker:
    """Takes a column from its first value to its last, any number at a time."""

    def __init__(self, column: SideColumn) -> None:
        self.name = column.name
        self._pieces = column.pieces()
        self._n_taken = 0
        self._rest: NDArray[Any] | None = None

    def take(self, n_rows: int) -> NDArray[Any]:
        parts: list[NDArray[Any]] = []
        missing = n_rows
        while missing:
            if self._rest is None or not len(self._rest):
                self._rest = next(self._pieces, None)
                if self._rest is None:
                    seen = self._n_taken + n_rows
                    raise InvalidDataError(
                        f"{self.name} has {seen - missing} rows and X has {seen} or more. Give one value for each row."
                    )
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        self._n_taken += n_rows
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def expect_end(self) -> None:
        n_left = (0 if self._rest is None else len(self._rest)) + sum(len(piece) for piece in self._pieces)
        if n_left:
            raise InvalidDataError(
                f"{self.name} has {self._n_taken + n_left} rows and X has {self._n_taken}. Give one value for each row."
            )


def _computed(values: Any, name: str) -> Iterator[NDArray[Any]]:
    start = 0
    for number in range(values.npartitions):
        piece = values.partitions[number].compute()
        table = name == "y" and hasattr(piece, "columns")  # whose columns may be of several types
        yield as_label_array(piece, start=start) if table else np.asarray(unmasked(piece, what=name, start=start))
        start += len(piece)


def _known_length(values: Any) -> int | None:
    shape = getattr(values, "shape", (np.nan,))
    return int(shape[0]) if isinstance(shape[0], Integral) else None


def join_side_columns(source: Source, arrays: Mapping[str, Any]) -> Source:
    """Add arrays to the blocks of a source.

    Parameters
    ----------
    source : Source
        The rows.
    arrays : mapping of str to array-like
        ``y``, ``sample_weight`` or ``ids`` as numpy, pandas, dask or a list, matched by position.

    Raises
    ------
    InvalidDataError
        A length differs from that of the rows: at once where both are known, else from the blocks.
    """
    if not arrays:
        return source
    columns = [SideColumn(name, values) for name, values in arrays.items()]
    for column in columns:
        if None not in (column.n_rows, source.n_rows) and column.n_rows != source.n_rows:
            raise InvalidDataError(
                f"{column.name} has {column.n_rows} rows and X has {source.n_rows}. Give one value for each row."
            )

    def blocks(start: int) -> Iterator[RowBlock]:
        takers = [_Taker(column) for column in columns]
        if start:
            for taker in takers:
                taker.take(start)
        for block in source.blocks(start):
            if block.n_rows:
                yield dataclasses.replace(block, **{taker.name: taker.take(block.n_rows) for taker in takers})
        for taker in takers:
            taker.expect_end()

    known = all(column.description is not None for column in columns)
    lengths = [column.n_rows for column in columns if column.n_rows is not None]
    return dataclasses.replace(
        source,
        blocks=blocks,
        n_rows=source.n_rows if source.n_rows is not None else min(lengths, default=0) or None,
        description={**source.description, **{column.name: column.description for column in columns}},
        paths=(*source.paths, *(path for column in columns for path in column.paths)),
        outputs_nbytes=max(source.outputs_nbytes, *(column.outputs_nbytes for column in columns)),
        recognisable=source.recognisable and known,
        seekable=source.seekable and known,
    )
