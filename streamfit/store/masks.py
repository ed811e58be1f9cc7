"""Masked arrays, which NumPy turns into plain ones without a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamfit.errors import InvalidDataError

__all__ = ["unmasked"]


def unmasked(values: Any, *, what: str, start: int = 0) -> Any:
    """Give values as they are, unless some are masked.

    Parameters
    ----------
    values : array-like of shape (n_rows, ...)
        Any values; a list may hold masked rows.
    what : str
        What they are, for the message.
    start : int
        Global number of the first row, for the message.

    Raises
    ------
    InvalidDataError
        A value is masked.

    Examples
    --------
    >>> unmasked(np.ma.masked_equal([3, 4, 5], 4), what="y", start=100)
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: y is masked in row 101. Fill masked values first, or drop such rows.
    """
    mask: Any = np.False_
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
    elif isinstance(values, (list, tuple)):
        mask = np.array([isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in values], dtype=bool)
    if mask.any():
        row = start + int(mask.reshape(len(mask), -1).any(axis=1).argmax()) if mask.ndim else start
        raise InvalidDataError(f"{what} is masked in row {row}. Fill masked values first, or drop such rows.", row=row)
    return values
