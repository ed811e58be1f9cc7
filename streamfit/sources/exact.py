"""Numbers in another type: with the same value, or refused by row and column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["converted", "inexact_wholes", "largest_whole"]


def largest_whole(dtype: np.dtype[Any]) -> int:
    """Give the number up to which a float type holds every whole number.

    Examples
    --------
    >>> largest_whole(np.dtype("f4")), largest_whole(np.dtype("f8")) == 2**53
    (16777216, True)
    """
    return 1 << (int(np.finfo(dtype).nmant) + 1)


def converted(
    values: NDArray[Any], dtype: np.dtype[Any], *, start: int, name: Callable[[int], str] | str
) -> NDArray[Any]:
    """Give numbers in another type, each with its own value.

    A float type given floats of a wider one rounds them, which is what asking for it means; all else that changes a
    value is refused: whole numbers that a float does not hold, fractions and numbers out of range for whole numbers,
    and floats that would become infinite.

    Parameters
    ----------
    values : ndarray of shape (n_rows,) or (n_rows, n_columns)
        Numbers or booleans.
    dtype : numpy.dtype
        Type to give them in.
    start : int
        Global number of the first row, for messages.
    name : str or callable
        Name of the column; or gives the name of the column with a number.

    Returns
    -------
    ndarray
        In this type; `values` themselves where they have it.

    Raises
    ------
    InvalidDataError
        A value would change; the message names its row and column.

    Examples
    --------
    >>> converted(np.array([1.0, 2.0]), np.dtype("i2"), start=0, name="a")
    array([1, 2], dtype=int16)
    >>> converted(np.array([0, 2**53 + 1]), np.dtype("f8"), start=70, name="id")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: Column 'id' holds 9007199254740993 in row 71, which float64 does not hold ...
    """
    if values.dtype == dtype or values.dtype.kind == "b":
        return values.astype(dtype, copy=False)
    if dtype.kind == "f" and values.dtype.kind in "iu":
        wrong, why = inexact_wholes(values, dtype), "exactly: it holds whole numbers up to 2^"
        why += str(largest_whole(dtype).bit_length() - 1)
    elif dtype.kind == "f":
        with np.errstate(over="ignore"):
            given = values.astype(dtype, copy=False)
        if np.can_cast(values.dtype, dtype, "safe"):
            return given
        wrong, why = np.isinf(given) & np.isfinite(values), "but as infinity"
    elif np.can_cast(values.dtype, dtype, "safe"):
        return values.astype(dtype)
    else:
        wrong, why = _unheld(values, dtype)
    if wrong is not None and wrong.any():
        raise _refused(values, wrong, dtype, why, start, name)
    return values.astype(dtype)


def inexact_wholes(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_] | None:
    """Tell which whole numbers a float type does not hold; None where it holds all."""
    most = largest_whole(dtype)
    if not values.size or np.iinfo(values.dtype).bits < most.bit_length():
        return None
    if int(values.max()) <= most and int(values.min()) >= -most:
        return None
    # Of the absolute value, as an unsigned number: that of the smallest int64 is one too.
    size = np.abs(values.astype(np.int64)).astype(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)
    lowest_bit = size & (~size + np.uint64(1))
    odd = size // np.maximum(lowest_bit, np.uint64(1))
    return odd > np.uint64(most)


def _unheld(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[np.bool_] | None, str]:
    """Tell which numbers a type of whole numbers does not hold, and why."""
    bounds = np.iinfo(dtype)
    if values.dtype.kind in "iu":
        if not values.size or (int(values.min()) >= bounds.min and int(values.max()) <= bounds.max):
            return None, ""
        # Compared as Python compares: NumPy would make floats of int64 beside uint64.
        low = values < max(bounds.min, int(np.iinfo(values.dtype).min))
        high = values > min(bounds.max, int(np.iinfo(values.dtype).max))
        return low | high, f"(it holds {bounds.min} to {bounds.max})"
    with np.errstate(invalid="ignore"):
        whole = np.trunc(values) == values
        # The largest one may not be a float: the power of two after it is.
        held = whole & (values >= float(bounds.min)) & (values < float(bounds.max + 1))
    return ~held, f"(it holds whole numbers from {bounds.min} to {bounds.max})"


def _refused(
    values: NDArray[Any],
    wrong: NDArray[np.bool_],
    dtype: np.dtype[Any],
    why: str,
    start: int,
    name: Callable[[int], str] | str,
) -> InvalidDataError:
    place = np.unravel_index(int(wrong.argmax()), wrong.shape)
    row = start + int(place[0])
    column = name if isinstance(name, str) else name(int(place[1]))
    return InvalidDataError(
        f"Column {column!r} holds {values[place]} in row {row}, which {dtype} does not hold {why}. "
        "Ask for another type with dtype=, change the value, or leave the column out.",
        row=row,
        column=column,
    )
