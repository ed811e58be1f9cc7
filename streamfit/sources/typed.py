"""Rows in the type that was asked for, whatever they come from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.csr_rows import place_of_value
from streamfit.sources.exact import converted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.sources.source import RowBlock, Source

__all__ = ["as_dtype", "in_dtype", "keeping_wholes"]

_NAMES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def as_dtype(value: Any) -> np.dtype[Any] | None:
    """Read what a caller gave as ``dtype=``.

    Raises
    ------
    InvalidParameterError
        It is no type that a store has.

    Examples
    --------
    >>> as_dtype("float32"), as_dtype(np.int16), as_dtype(None)
    (dtype('float32'), dtype('int16'), None)
    """
    if value is None:
        return None
    dtype: np.dtype[Any]
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError):
        dtype = np.dtype(object)
    if dtype.name not in _NAMES:
        raise InvalidParameterError(f"dtype must be one of {', '.join(_NAMES)}, got {value!r}.")
    return np.dtype(dtype.name)


def in_dtype(source: Source, dtype: np.dtype[Any]) -> Source:
    """Give the rows of a source in another type; see `streamfit.sources.exact.converted` for what is refused."""
    if source.dtype == dtype:
        return keeping_wholes(source)

    def blocks(start: int) -> Iterator[RowBlock]:
        for block in source.blocks(start):
            yield _converted(block, dtype, source, start)
            start += block.n_rows

    return dataclasses.replace(
        source, blocks=blocks, dtype=dtype, block_nbytes=2 * source.block_nbytes, held_nbytes=None
    )


def keeping_wholes(source: Source) -> Source:
    """Refuse whole numbers that the float type of a source does not hold; NumPy counts that as a safe cast."""
    if source.dtype.kind != "f":
        return source

    def blocks(start: int) -> Iterator[RowBlock]:
        for block in source.blocks(start):
            kept = getattr(block.X, "dtype", None)
            # What is not safe for NumPy is refused by the writer.
            whole = kept is not None and kept.kind in "iu" and np.can_cast(kept, source.dtype, "safe")
            yield _converted(block, source.dtype, source, start) if whole else block
            start += block.n_rows

    return dataclasses.replace(source, blocks=blocks)


def _converted(block: RowBlock, dtype: np.dtype[Any], source: Source, start: int) -> RowBlock:
    names = source.feature_names

    def name(column: int) -> str:
        return str(column) if names is None else names[column]

    if not source.sparse:
        X = block.X if isinstance(block.X, np.ndarray) else np.asarray(block.X)
        if X.ndim != 2 or X.dtype.kind not in "biuf":  # the writer says what is wrong
            return block
        return dataclasses.replace(block, X=converted(X, dtype, start=start, name=name))
    X = block.X.tocsr(copy=False)
    try:
        values = converted(X.data, dtype, start=0, name="X")
    except InvalidDataError as error:
        # Which stored value it was: its row and column follow.
        place = int(error.row or 0)
        row, column = place_of_value(X, place)
        converted(X.data[place : place + 1], dtype, start=start + row, name=name(column))
        raise
    return dataclasses.replace(block, X=type(X)((values, X.indices, X.indptr), shape=X.shape))
