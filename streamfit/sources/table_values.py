"""Tables that a fitted model is given: their columns by name, and their values as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from streamfit.errors import InvalidDataError
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["as_one_type", "column_names", "is_table", "with_columns"]


def is_table(X: Any) -> bool:
    """Tell whether rows have labelled columns: those of pandas, polars, arrow and dask."""
    return hasattr(X, "columns") or hasattr(X, "column_names")


def column_names(X: Any) -> tuple[str, ...] | None:
    """Give the names of the columns of a table or a store, or None where they are not all texts.

    Examples
    --------
    >>> column_names(pd.DataFrame({"a": [1], "b": [2]})), column_names(pd.DataFrame([[1, 2]]))
    (('a', 'b'), None)
    """
    found: Any = None
    for attribute in ("feature_names", "column_names", "columns"):  # of a store, an arrow table, the others
        if found is None:
            found = getattr(X, attribute, None)
    if found is None or not all(isinstance(name, str) for name in found):
        return None
    return tuple(found)


def with_columns(X: Any, names: Iterable[str]) -> Any:
    """Give a table with its columns in another order."""
    chosen = list(names)
    return X.select(chosen) if hasattr(X, "select") else X[chosen]


def as_one_type(X: Any) -> Any:
    """Give a table, in memory or lazy, as one of pandas or dask whose columns all have one type of numbers.

    Booleans become whole numbers, and what is missing in a column that may have gaps becomes NaN.

    Raises
    ------
    InvalidDataError
        A column holds no numbers.
    """
    if not hasattr(X, "dtypes") or not hasattr(X, "iloc"):  # of polars, or arrow
        table = X.to_arrow() if hasattr(X, "to_arrow") else X
        X = table.to_pandas(types_mapper=pd.ArrowDtype)
    dtypes = [_number_dtype(name, dtype) for name, dtype in zip(X.columns, X.dtypes, strict=True)]
    for place, (dtype, known) in enumerate(zip(X.dtypes, dtypes, strict=True)):
        # A lazy table does not know whether a column has gaps.
        if not isinstance(dtype, np.dtype) and (not isinstance(X, pd.DataFrame) or X.iloc[:, place].isna().any()):
            dtypes[place] = np.result_type(known, np.float64)
    if not dtypes:
        return X
    common = np.result_type(*dtypes)
    return X if all(dtype == common for dtype in X.dtypes) else X.astype(common)


def _number_dtype(name: Any, dtype: Any) -> np.dtype[Any]:
    if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)) or is_complex_dtype(dtype):
        raise InvalidDataError(
            f"Column {str(name)!r} holds {dtype} and no numbers. Encode it as the training rows were encoded, or leave "
            "it out.",
            column=str(name),
        )
    plain = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", np.dtype(np.float64))
    return stored_dtype(np.dtype(plain), what=f"Column {str(name)!r}")
