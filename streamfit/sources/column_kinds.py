"""What a column of a table can become: numbers, categories, or neither, and then what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from streamfit.errors import InvalidDataError

__all__ = ["ColumnKind", "arrow_kind", "index_columns", "pandas_kind", "refuse_column"]

_TIMES = (
    "Give it as a number (seconds since some moment), or as parts such as the hour and the weekday, or leave it out "
    "with columns=."
)
_TEXTS = (
    'Say how its values become numbers with categorical= ("codes" or "onehot"), leave it out with columns=, or name it '
    "as y or ids."
)
_OBJECTS = f"Convert it with astype(float) where it holds numbers. {_TEXTS}"
_NESTED = "Make a column of each part, or leave it out with columns=."
_DECIMALS = "Cast it to float64, which rounds, or leave it out with columns=."
_OTHERS = "Cast it to a number, or leave it out with columns=."

_DECIMAL_DIGITS = 15
"""Decimal digits that float64 keeps: so many, and what is given back is what was given."""
_WHOLE_DIGITS = 18
"""Decimal digits that int64 holds."""


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """The type of a column, as its table names it."""

    text: str
    """Its name, for messages."""
    dtype: np.dtype[Any] | None = None
    """Of columns of numbers: their type. A column that is all gaps has numbers."""
    nullable: bool = False
    """Of columns of numbers: whether gaps are marked apart from the numbers."""
    is_category: bool = False
    """Whether the values can be categories and are no numbers: texts, and what is declared as categories."""
    advice: str = ""
    """Of columns that are no numbers: what to do."""


def arrow_kind(kind: Any) -> ColumnKind:
    """Tell what a column of an Arrow type can become.

    Examples
    --------
    >>> arrow_kind(pa.int16()).dtype, arrow_kind(pa.string()).is_category, arrow_kind(pa.date32()).advice[:19]
    (dtype('int16'), True, 'Give it as a number')
    """
    types = pa.types
    text = str(kind)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return ColumnKind(text, np.dtype(kind.to_pandas_dtype()), nullable=True)
    if types.is_null(kind):
        return ColumnKind(text, np.dtype(np.float32), nullable=True)
    if types.is_decimal(kind):
        if kind.scale == 0 and kind.precision <= _WHOLE_DIGITS:
            return ColumnKind(text, np.dtype(np.int64), nullable=True)
        simple = 0 <= kind.scale <= kind.precision <= _DECIMAL_DIGITS
        return ColumnKind(text, np.dtype(np.float64), nullable=True) if simple else ColumnKind(text, advice=_DECIMALS)
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return ColumnKind(text, is_category=True)
    if types.is_temporal(kind):
        return ColumnKind(text, advice=_TIMES)
    return ColumnKind(text, advice=_NESTED if types.is_nested(kind) else _OTHERS)


def index_columns(schema: Any) -> list[str]:
    """Give the columns of an Arrow table that are the index of the pandas or dask table that it was written from.

    Examples
    --------
    >>> index_columns(pa.Schema.from_pandas(pd.DataFrame({"a": [1.0]}, index=[7])))
    ['__index_level_0__']
    """
    columns = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in columns if isinstance(name, str) and name in schema.names]


def pandas_kind(dtype: Any) -> ColumnKind:
    """Tell what a column of a pandas type can become.

    Examples
    --------
    >>> pandas_kind(pd.Int16Dtype()).dtype, pandas_kind(np.dtype("O")).is_category
    (dtype('int16'), True)
    """
    text = str(dtype)
    if isinstance(dtype, pd.ArrowDtype):
        return arrow_kind(dtype.pyarrow_dtype)
    if isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return ColumnKind(text, is_category=True)
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if not isinstance(dtype, np.dtype):
        numbers = getattr(dtype, "numpy_dtype", None)  # of the nullable ones
        if isinstance(numbers, np.dtype) and numbers.kind in "biuf":
            return ColumnKind(text, numbers, nullable=True)
        times = isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype))
        return ColumnKind(text, advice=_TIMES if times else _OTHERS)
    if dtype.kind in "biuf":
        return ColumnKind(text, dtype)
    if dtype.kind in "OU":
        return ColumnKind(text, is_category=True, advice=_OBJECTS)
    return ColumnKind(text, advice=_TIMES if dtype.kind in "mM" else _OTHERS)


def refuse_column(name: Any, kind: ColumnKind) -> InvalidDataError:
    """Say that a feature column does not hold numbers, and what to do."""
    return InvalidDataError(
        f"Column {str(name)!r} has type {kind.text}, and features are numbers. {kind.advice or _TEXTS}",
        column=str(name),
    )
