"""Numbers from the texts of a text table, where each has to be looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamfit.errors import InvalidDataError
from streamfit.sources.exact import largest_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["has_large", "parse_numbers"]

_WHOLE = re.compile(r"[+-]?[0-9]+")


def has_large(values: Any, dtype: np.dtype[Any]) -> bool:
    """Whether parsed numbers are so large that whole numbers among them may have been rounded."""
    return bool(_large(values.to_numpy(zero_copy_only=False), dtype).any())


def _large(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    size = np.abs(values)
    large: NDArray[np.bool_] = (size >= largest_whole(dtype)) & (size < np.inf)
    return large


def parse_numbers(texts: Any, dtype: np.dtype[Any], *, booleans: bool, start: int, name: str, file: str) -> Any:
    """Parse the texts of a column.

    Parameters
    ----------
    texts : pyarrow.StringArray of shape (n_rows,)
        The texts; null where there is no value.
    dtype : numpy.dtype
        Type that the numbers are to have in the end.
    booleans : bool
        Whether ``True`` and ``False`` are numbers.
    start : int
        Global number of the first row, for messages.
    name, file : str
        Names of the column and its file, for messages.

    Returns
    -------
    pyarrow.Array
        float64, or int64 or uint64 where `dtype` is one of whole numbers.

    Raises
    ------
    InvalidDataError
        A text is no number, or a whole number that `dtype` does not hold; the message names row and column.
    """
    texts = pc.utf8_trim_whitespace(texts)
    if booleans:
        for spellings, number in ((["True", "true", "TRUE"], "1"), (["False", "false", "FALSE"], "0")):
            texts = pc.if_else(pc.is_in(texts, pa.array(spellings)), number, texts)
    place = f"of {file} holds {{text!r}} in row {{row}}"
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        row = _first_bad(texts)
        raise InvalidDataError(
            f"Column {name!r} {place.format(text=texts[row].as_py(), row=start + row)}, and features are numbers. "
            'Correct it, say how the values of the column become numbers with categorical= ("codes" or "onehot"), or '
            "leave the column out with columns=.",
            row=start + row,
            column=name,
        ) from None
    if dtype.kind == "f":
        for row in np.flatnonzero(_large(values.to_numpy(zero_copy_only=False), dtype)).tolist():
            text = texts[row].as_py()
            if _WHOLE.fullmatch(text) and int(text) != int(dtype.type(text)):
                raise _unheld(f"Column {name!r} {place.format(text=text, row=start + row)}", dtype, start + row, name)
        return values
    whole = pa.uint64() if dtype == np.uint64 else pa.int64()
    try:
        return texts.cast(whole)
    except pa.ArrowInvalid:
        return _wholes(texts, whole, dtype, start, name, place)


def _first_bad(texts: Any) -> int:
    """Find the first text that is no number, of some of which one is."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            texts[low:middle].cast(pa.float64())
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _wholes(texts: Any, whole: Any, dtype: np.dtype[Any], start: int, name: str, place: str) -> Any:
    """Parse whole numbers of which some are written like 1.0 or 1e3."""
    bounds = np.iinfo(np.uint64 if dtype == np.uint64 else np.int64)
    numbers: list[int | None] = []
    for row, text in enumerate(texts.to_pylist()):
        number = None
        if text is not None:
            exact = _WHOLE.fullmatch(text)
            value = int(text) if exact else float(text)
            number = int(value) if exact or (np.isfinite(value) and value == int(value)) else None
            if number is None or not bounds.min <= number <= bounds.max:
                raise _unheld(f"Column {name!r} {place.format(text=text, row=start + row)}", dtype, start + row, name)
        numbers.append(number)
    return pa.array(numbers, whole)


def _unheld(what: str, dtype: np.dtype[Any], row: int, name: str) -> InvalidDataError:
    return InvalidDataError(
        f"{what}, which {dtype} does not hold exactly. Ask for another type with dtype=, change the value, or leave "
        "the column out with columns=.",
        row=row,
        column=name,
    )
