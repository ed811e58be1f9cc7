"""Labels as they are given, turned into arrays of numbers, booleans or texts without gaps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.utils import format_bytes
from scipy.sparse import issparse

from streamfit.errors import InvalidDataError
from streamfit.store.format import MAX_CHUNK_NBYTES, stored_dtype
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["as_label_array", "check_chunk_of_labels", "joined_labels"]

_ADVICE = "Give numbers, booleans, or texts of one type, one for each row."
_BLOCK_VALUES = 2**20
_NUMBERS = (bool, int, float, np.number, np.bool_)


def as_label_array(y: Any, *, start: int) -> NDArray[Any]:
    """Turn labels of any origin into one array of numbers, booleans, str or bytes without gaps.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Labels. Several a row must be numbers or booleans.
    start : int
        Global number of the first row, for the message.

    Returns
    -------
    ndarray of shape (n_rows,) or (n_rows, n_outputs)
        One column is one label a row, of which is warned as scikit-learn does.

    Raises
    ------
    InvalidDataError
        A label is missing, masked or not finite, types are mixed, several labels a row are no numbers, no type holds
        all of them, or the array has more than two dimensions.

    Examples
    --------
    >>> as_label_array(["spam", "ham"], start=0)
    array(['spam', 'ham'], dtype='<U4')
    >>> as_label_array([[0, 1], [1, 1]], start=0).shape
    (2, 2)
    >>> as_label_array(["spam", None], start=100)
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: The label of row 101 is missing. Drop the row or give it a label.
    """
    if issparse(y):
        raise InvalidDataError("y is sparse, and labels are stored dense. Give y.toarray().")
    y = unmasked(y, what="y", start=start)
    if hasattr(y, "columns"):
        labels = _of_table(y, start)
    else:
        # NumPy would turn a list of texts and numbers into texts without a word.
        labels = np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)
    if labels.ndim == 2 and labels.shape[1] == 1:
        if start == 0:
            _warn_of_column()
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or 0 in labels.shape[1:]:
        raise InvalidDataError(f"y has shape {labels.shape}. Give one label for each row, or one row of labels.")
    if labels.dtype.kind in "OT":
        labels = _of_objects(labels.astype(object), start)
    if labels.ndim == 2 and labels.dtype.kind in "US":
        raise _several_texts(labels.shape[1])
    if labels.dtype.kind in "US":
        return labels
    if labels.dtype.kind not in "biuf":
        raise InvalidDataError(f"y has dtype {labels.dtype}. {_ADVICE}")
    if labels.dtype.kind == "f":
        _check_finite(labels, start)
    if labels.dtype.kind != "b":
        labels = labels.astype(stored_dtype(labels.dtype, what="y"), copy=False)
    # Several labels a row are stored row by row, and what is stored is hashed as it lies in memory.
    return np.ascontiguousarray(labels) if labels.ndim == 2 else labels


def _check_finite(labels: NDArray[Any], start: int) -> None:
    # Labels may lie in a mapped file: a mask of all of them could be too large.
    step = max(1, _BLOCK_VALUES // max(1, labels[:1].size))
    for first in range(0, len(labels), step):
        finite = np.isfinite(labels[first : first + step])
        if not finite.all():
            place = first + int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
            raise InvalidDataError(
                f"The label of row {start + place} is {labels[place]}. Drop the row or correct it.", row=start + place
            )


def check_chunk_of_labels(labels: NDArray[Any], *, chunk_rows: int) -> None:
    """Refuse several labels a row of which a chunk would be too large.

    Raises
    ------
    InvalidDataError
        The labels of `chunk_rows` rows exceed what is read as a whole.
    """
    nbytes = chunk_rows * labels[:1].nbytes
    if labels.ndim == 2 and nbytes > MAX_CHUNK_NBYTES:
        raise InvalidDataError(
            f"y has {labels.shape[1]} labels a row, and those of a chunk of {chunk_rows} rows take "
            f"{format_bytes(nbytes)}, which is more than {format_bytes(MAX_CHUNK_NBYTES)}. Write the store with a "
            "smaller chunk_rows."
        )


def joined_labels(columns: Sequence[Any], *, start: int) -> NDArray[Any]:
    """Put columns of labels beside each other, in a type that holds all of them.

    Parameters
    ----------
    columns : sequence of array-like of shape (n_rows,)
        Labels of all rows, one label of each.
    start : int
        Global number of the first row, for the message.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Numbers, or booleans.

    Raises
    ------
    InvalidDataError
        A label is missing or no number, or no type holds the values of all columns.

    Examples
    --------
    >>> joined_labels([[1, 2], [0.5, 1.5]], start=0).tolist()
    [[1.0, 0.5], [2.0, 1.5]]
    >>> joined_labels([[0, 2**53 + 1], [0.5, 1.5]], start=40)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: No type holds the labels of row 41: 9007199254740993 would be float64. ...
    """
    values = [as_label_array(column, start=start) for column in columns]
    if any(column.dtype.kind in "US" for column in values):
        raise _several_texts(len(values))
    joined = np.column_stack(values)
    for place, column in enumerate(values):
        if joined.dtype.kind == "f" and column.dtype.kind in "iu" and _may_be_rounded(column):
            # Compared as Python compares: NumPy would make floats of both.
            _check_exact(column.tolist(), joined[:, place].tolist(), joined.dtype, start)
    return joined


def _may_be_rounded(wholes: NDArray[Any]) -> bool:
    return bool(len(wholes)) and not -(2**53) <= int(wholes.min()) <= int(wholes.max()) <= 2**53


def _warn_of_column() -> None:
    from sklearn.exceptions import DataConversionWarning  # only where there is something to say

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), for "
        "example using ravel().",
        DataConversionWarning,
        stacklevel=3,
    )


def _of_table(y: Any, start: int) -> NDArray[Any]:
    """Join the columns of a table of pandas, polars or Arrow: their own ways round whole numbers beside fractions."""
    if hasattr(y, "iloc"):
        columns = [y.iloc[:, place] for place in range(y.shape[1])]
    else:
        columns = y.get_columns() if hasattr(y, "get_columns") else list(y.columns)
    if len(columns) < 2:
        return np.asarray(columns[0], dtype=None).reshape(-1, 1) if columns else np.empty((len(y), 0))
    return joined_labels(columns, start=start)


def _several_texts(n_outputs: int) -> InvalidDataError:
    return InvalidDataError(
        f"y has {n_outputs} labels a row, and some are texts. Several labels a row must be numbers: give class numbers."
    )


def _of_objects(labels: NDArray[Any], start: int) -> NDArray[Any]:
    values = labels.ravel().tolist()
    types = set(map(type, values))
    width = labels[:1].size
    if not types <= {str, bytes, bool, int}:  # others may stand for a missing value
        for place, value in enumerate(values):
            if _is_missing(value):
                row = start + place // width
                raise InvalidDataError(f"The label of row {row} is missing. Drop the row or give it a label.", row=row)
    for accepted in (str, bytes, _NUMBERS):
        if all(issubclass(kind, accepted) for kind in types):
            array = np.array(values)
            if array.dtype.kind == "f" and any(issubclass(kind, int | np.integer) for kind in types):
                _check_exact(values, array.tolist(), array.dtype, start, width=width)
            if array.dtype.kind in "biufUS":
                return array.reshape(labels.shape)
    names = ", ".join(sorted(kind.__name__ for kind in types))
    raise InvalidDataError(f"y holds values of type {names}. {_ADVICE}")


def _check_exact(given: list[Any], made: list[Any], dtype: np.dtype[Any], start: int, *, width: int = 1) -> None:
    for place, (value, other) in enumerate(zip(given, made, strict=True)):
        if value != other and value == value:  # noqa: PLR0124  # NaN is told of as such
            row = start + place // width
            raise InvalidDataError(
                f"No type holds the labels of row {row}: {value} would be {dtype}. Give columns of one type.", row=row
            )


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  # true of NaN and NaT alone
    except (TypeError, ValueError):  # pandas.NA has no truth
        return True
