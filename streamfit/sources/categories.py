"""Columns of categories: which categories there are, and the code of each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import Categorical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from streamfit.store.categories import ColumnCategories

__all__ = ["CategoryEncoder", "as_categorical", "codes_dtype", "learn_categories"]

MAX_CATEGORIES = 100_000
"""Most categories of a column: the manifest holds them, and it is written every few seconds."""

_BOOLEANS = {False: ("False", "false", "FALSE"), True: ("True", "true", "TRUE")}


def as_categorical(value: Any) -> Categorical | dict[str, Categorical] | None:
    """Read what a caller gave as ``categorical=``.

    Raises
    ------
    InvalidParameterError
        It is none of what is understood.

    Examples
    --------
    >>> as_categorical({"color": "onehot"})
    {'color': Categorical(encode='onehot', unknown='error', categories=None)}
    """
    if isinstance(value, Mapping):
        return {str(name): _one(how) for name, how in value.items()} or None
    return None if value is None else _one(value)


def _one(value: Any) -> Categorical:
    if isinstance(value, Categorical):
        return value
    if isinstance(value, str) and value in {"codes", "onehot"}:
        return Categorical(value)  # type: ignore[arg-type]  # one of the two
    raise InvalidParameterError(
        f"categorical must be 'codes', 'onehot', or a mapping from columns to these or to streamfit.Categorical(), "
        f"got {value!r}."
    )


def codes_dtype(n_categories: int) -> np.dtype[Any]:
    """Give the smallest signed type that holds the codes.

    Examples
    --------
    >>> codes_dtype(128), codes_dtype(129)
    (dtype('int8'), dtype('int16'))
    """
    return np.min_scalar_type(-max(1, n_categories))


def learn_categories(pieces: Iterable[Mapping[Any, Any]], labels: Iterable[Any], *, from_text: bool) -> dict[Any, Any]:
    """Find the categories of some columns, sorted.

    Parameters
    ----------
    pieces : iterable of mapping
        The columns by label, ``pyarrow.Array``, some rows at a time.
    labels : iterable
        Labels of the columns.
    from_text : bool
        Whether all columns come as texts, as a text table has them: what reads as whole numbers or booleans in every
        row then is such.

    Returns
    -------
    dict
        A tuple of categories for each label.

    Raises
    ------
    InvalidDataError
        A column has no values, too many, values of several types, or of a type that categories cannot have.
    """
    found: dict[Any, set[Any]] = {label: set() for label in labels}
    for piece in pieces:
        for label, values in found.items():
            distinct, places = _distinct(piece[label], label)
            used = np.zeros(len(distinct), dtype=bool)
            used[places[places >= 0]] = True
            values.update(value for value, is_used in zip(distinct, used, strict=True) if is_used and value is not None)
            if len(values) > MAX_CATEGORIES:
                raise InvalidDataError(
                    f"Column {str(label)!r} has more than {MAX_CATEGORIES:,} different values, which is too many for "
                    "categories. Leave it out with columns=, or hash it (sklearn.feature_extraction.FeatureHasher).",
                    column=str(label),
                )
    return {label: _sorted(values, label, from_text=from_text) for label, values in found.items()}


def _sorted(values: set[Any], label: Any, *, from_text: bool) -> tuple[Any, ...]:
    types = {type(value) for value in values}
    if not values:
        raise InvalidDataError(
            f"Column {str(label)!r} has no values from which categories could be learnt. Leave it out with columns=, "
            "or declare them: streamfit.Categorical(categories=).",
            column=str(label),
        )
    if len(types) > 1:
        raise InvalidDataError(
            f"Column {str(label)!r} has categories of several types: {', '.join(sorted(t.__name__ for t in types))}. "
            "Convert them to one, such as texts.",
            column=str(label),
        )
    return _read(values) if from_text else tuple(sorted(values))


def _read(texts: set[str]) -> tuple[Any, ...]:
    """Give texts as the whole numbers or booleans that all of them are."""
    booleans = {text: value for value, spellings in _BOOLEANS.items() for text in spellings}
    if texts <= set(booleans):
        return tuple(sorted({booleans[text] for text in texts}))
    try:
        numbers = {text: int(text.removesuffix(".0")) for text in texts}
    except ValueError:
        return tuple(sorted(texts))
    if any(text not in {str(number), f"{number}.0"} for text, number in numbers.items()):  # such as 007
        return tuple(sorted(texts))
    return tuple(sorted(set(numbers.values())))


class CategoryEncoder:
    """Turns the values of one column into codes.

    Parameters
    ----------
    encoding : ColumnCategories
        The categories, and what becomes of other values.
    from_text : bool
        Whether the column comes as texts, whatever the categories are.
    """

    def __init__(self, encoding: ColumnCategories, *, from_text: bool) -> None:
        self._encoding = encoding
        self._codes: dict[Any, int] = {}
        for code, category in enumerate(encoding.categories):
            spellings: tuple[Any, ...] = (category,)
            if from_text and isinstance(category, bool):
                spellings = _BOOLEANS[category]
            elif from_text and isinstance(category, int):
                spellings = (str(category), f"{category}.0")
            self._codes.update(dict.fromkeys(spellings, code))

    def encode(self, column: Any, *, start: int) -> NDArray[Any]:
        """Give the code of each row, −1 where its value is none of the categories.

        Parameters
        ----------
        column : pyarrow.Array of shape (n_rows,)
            The values.
        start : int
            Global number of the first row, for messages.

        Raises
        ------
        InvalidDataError
            A value is none of the categories, and that is to be an error.
        """
        distinct, places = _distinct(column, self._encoding.column)
        dtype = codes_dtype(len(self._encoding.categories))
        codes = np.array([*(self._codes.get(value, -1) for value in distinct), -1], dtype=dtype)[places]
        if self._encoding.unknown == "error" and (codes < 0).any():
            self._refuse(distinct, places, int((codes < 0).argmax()), start)
        return codes

    def _refuse(self, distinct: list[Any], places: NDArray[Any], at: int, start: int) -> None:
        value = distinct[places[at]] if places[at] >= 0 else None
        name, row = self._encoding.column, start + at
        what = (
            f"Column {name!r} has no value in row {row}. Fill it"
            if value is None
            else f"Column {name!r} holds {value!r} in row {row}, which is none of its "
            f"{len(self._encoding.categories)} categories. Correct it"
        )
        raise InvalidDataError(
            f'{what}, or say streamfit.Categorical(unknown="ignore") when the store is made, for which such rows get '
            f"{'the code -1' if self._encoding.encode == 'codes' else '0 in each column'}.",
            row=row,
            column=name,
        )


def _distinct(column: Any, label: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Give different values as Python has them, and for each row the place of its value, −1 for none."""
    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if not pa.types.is_dictionary(column.type):
        _check_type(column.type, label)
        column = column.dictionary_encode()
    _check_type(column.type.value_type, label)
    places = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return [_plain(value, label) for value in column.dictionary.to_pylist()], places


def _check_type(kind: Any, label: Any) -> None:
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)
    if not (text or types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind)):
        raise InvalidDataError(
            f"Column {str(label)!r} has type {kind}, and categories are texts, whole numbers or booleans. Cast it to "
            "text before.",
            column=str(label),
        )


def _plain(value: Any, label: Any) -> Any:
    if not isinstance(value, float):
        return value
    if np.isnan(value):
        return None
    if not value.is_integer():
        raise InvalidDataError(
            f"Column {str(label)!r} holds {value}, and categories are texts, whole numbers or booleans. Bin the "
            "column before, or keep it as a number.",
            column=str(label),
        )
    return int(value)
