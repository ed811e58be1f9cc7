"""Columns of tables as NumPy has them: numbers of one type, and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from streamfit.errors import InvalidDataError
from streamfit.sources.exact import converted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_numbers", "decoded", "label_values", "one_array", "pandas_column"]


def one_array(column: Any) -> Any:
    """Join the chunks of an Arrow column."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(_alike(column))
    return column


def _alike(column: Any) -> list[Any]:
    # Chunks of categories may each have their own.
    chunks = [decoded(chunk) for chunk in column.chunks] if pa.types.is_dictionary(column.type) else column.chunks
    return chunks or [pa.nulls(0, column.type)]


def pandas_column(column: pd.Series[Any]) -> Any:
    """Give a column of pandas as an ndarray where it is one of numbers, else as an Arrow array.

    Raises
    ------
    InvalidDataError
        It mixes types, or holds what is no text.
    """
    if isinstance(column.dtype, pd.SparseDtype):
        return np.asarray(column)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind not in "OU":
        return column.to_numpy()
    try:
        return one_array(pa.array(column, from_pandas=True))
    except UnicodeEncodeError as error:
        raise InvalidDataError(
            f"Column {str(column.name)!r} holds {error.object!r}, which is no Unicode text: it has half of a pair of "
            "surrogates. Correct it, or leave the column out with columns=.",
            column=str(column.name),
        ) from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        kinds = pd.unique(column.dropna().map(lambda value: type(value).__name__))
        raise InvalidDataError(
            f"Column {str(column.name)!r} has values of the types {', '.join(sorted(kinds))}, and features are numbers "
            "or categories of one type. Convert it, or leave it out with columns=.",
            column=str(column.name),
        ) from error


def as_numbers(column: Any, dtype: np.dtype[Any], *, start: int, name: str) -> NDArray[Any]:
    """Give a column of numbers in one type, gaps as NaN.

    Parameters
    ----------
    column : ndarray or pyarrow.Array of shape (n_rows,)
        Numbers or booleans.
    dtype : numpy.dtype
        The type.
    start : int
        Global number of the first row, for messages.
    name : str
        Name of the column, for messages.

    Raises
    ------
    InvalidDataError
        A value would change, or is missing and the type has no place for that.
    """
    if isinstance(column, np.ndarray):
        return converted(column, dtype, start=start, name=name)
    kind = column.type
    if pa.types.is_null(kind):
        column = pa.nulls(len(column), pa.float32())
    elif pa.types.is_decimal(kind):
        # By way of text: Arrow's own way to a float gives 0.09999999999999999 for 0.1.
        column = column.cast(pa.string()).cast(pa.float64()) if kind.scale else column.cast(pa.int64())
    n_gaps = column.null_count
    if n_gaps and dtype.kind != "f":
        row = start + int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise InvalidDataError(
            f"Column {name!r} has no value in row {row}, and whole numbers have none that means missing. "
            'Ask for floats with dtype="float64", or fill it.',
            row=row,
            column=name,
        )
    if not n_gaps or pa.types.is_floating(column.type):
        return converted(column.to_numpy(zero_copy_only=False), dtype, start=start, name=name)
    # Arrow's own way makes floats of whole numbers with gaps without a look at their values.
    filled = column.fill_null(False if pa.types.is_boolean(column.type) else 0)  # a value
    values = np.array(converted(filled.to_numpy(zero_copy_only=False), dtype, start=start, name=name))
    values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def decoded(column: Any) -> Any:
    """Give categories as their values, and texts in a form that all of Arrow's functions take."""
    if pa.types.is_dictionary(column.type):
        values = decoded(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def label_values(column: Any) -> NDArray[Any]:
    """Give an Arrow column of labels, weights or ids as NumPy has it, categories as their values."""
    column = decoded(one_array(column))
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values
