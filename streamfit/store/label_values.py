"""Labels of any origin as one array of numbers, booleans or texts without gaps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.store.format import stored_dtype
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_label_array"]

_ADVICE = "Give numbers, booleans, or texts of one type, one for each row."


def as_label_array(y: Any, *, start: int) -> NDArray[Any]:
    """Turn labels of any origin into one array of numbers, booleans, str or bytes without gaps.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Labels.
    start : int
        Global number of the first row, for the message.

    Returns
    -------
    ndarray of shape (n_rows,) or (n_rows, n_outputs)
        One column is one label a row, of which is warned as scikit-learn does.

    Raises
    ------
    InvalidDataError
        A label is missing, masked or not finite, types are mixed, several labels a row are no numbers, or the array has
        more than two dimensions.

    Examples
    --------
    >>> as_label_array(["spam", "ham"], start=0)
    array(['spam', 'ham'], dtype='<U4')
    >>> as_label_array(["spam", None], start=100)
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: The label of row 101 is missing. Drop the row or give it a label.
    """
    y = unmasked(y, what="y", start=start)
    # NumPy would turn a list of texts and numbers into texts without a word.
    labels = np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)
    if labels.ndim == 2 and labels.shape[1]:
        labels = _of_rows(labels, start)
    if labels.ndim > 2 or labels.ndim == 0 or 0 in labels.shape[1:]:
        raise InvalidDataError(f"y has shape {labels.shape}. Give one label for each row, or one row of labels.")
    if labels.dtype.kind in "OT":
        labels = _of_objects(labels.astype(object), start)
    if labels.dtype.kind in "US":
        return labels
    if labels.dtype.kind not in "biuf":
        raise InvalidDataError(f"y has dtype {labels.dtype}. {_ADVICE}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        finite = np.isfinite(labels).reshape(len(labels), -1).all(axis=1)
        row = start + int(np.argmin(finite))
        raise InvalidDataError(f"The label of row {row} is {labels[row - start]}. Drop the row or correct it.", row=row)
    return labels if labels.dtype.kind == "b" else labels.astype(stored_dtype(labels.dtype, what="y"), copy=False)


def _of_rows(labels: NDArray[Any], start: int) -> NDArray[Any]:
    """Give several labels a row as numbers, and a single column as one label a row."""
    if labels.shape[1] == 1:
        if start == 0:
            from sklearn.exceptions import DataConversionWarning

            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
                "(n_samples,), for example using ravel().",
                DataConversionWarning,
                stacklevel=2,
            )
        return labels[:, 0]
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if labels.dtype.kind not in "biuf":
        raise InvalidDataError(
            f"y has {labels.shape[1]} labels a row that are {labels.dtype}. Several labels a row must be numbers: give "
            "class numbers."
        )
    return labels


def _of_objects(labels: NDArray[Any], start: int) -> NDArray[Any]:
    values = labels.tolist()
    types = set(map(type, values))
    if not types <= {str, bytes, bool, int}:  # others may stand for a missing value
        for row, value in enumerate(values, start):
            if _is_missing(value):
                raise InvalidDataError(f"The label of row {row} is missing. Drop the row or give it a label.", row=row)
    for accepted in (str, bytes, (bool, int, float, np.number, np.bool_)):
        if all(issubclass(kind, accepted) for kind in types):
            array = np.array(values)
            if array.dtype.kind in "biufUS":
                return array
    names = ", ".join(sorted(kind.__name__ for kind in types))
    raise InvalidDataError(f"y holds values of type {names}. {_ADVICE}")


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  # true of NaN and NaT alone
    except (TypeError, ValueError):  # pandas.NA has no truth
        return True
