"""Tables: which columns are features, and which one type holds them all."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamfit.sources.source import Names

__all__ = ["TableColumns", "common_dtype", "select_columns"]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table by what they are used for."""

    features: tuple[Any, ...]
    """Labels of the feature columns, in order."""
    roles: Mapping[str, Any]
    """Labels of the columns for ``y``, ``sample_weight``, ``ids``."""

    @property
    def all(self) -> list[Any]:
        """Every column that is read, once each."""
        return list(dict.fromkeys([*self.features, *self.roles.values()]))

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, or None where they are not all texts (scikit-learn's rule)."""
        return self.features if all(isinstance(name, str) for name in self.features) else None

    def describe(self) -> dict[str, Any]:
        """Give plain values for the manifest."""
        return {
            "features": [str(name) for name in self.features],
            **{role: str(name) for role, name in self.roles.items()},
        }


def select_columns(present: Sequence[Any], names: Names, *, index: Sequence[Any] = ()) -> TableColumns:
    """Choose the columns of a table: those named, else all without another use.

    Parameters
    ----------
    present : sequence
        Labels of the columns.
    names : Names
        What the caller named.
    index : sequence
        Labels of columns that are no features unless they are named.

    Raises
    ------
    InvalidParameterError
        A named column does not exist, or nothing is left for the features.
    InvalidDataError
        A column's name occurs twice.
    """
    if len(set(present)) != len(present):
        twice = next(name for name in present if list(present).count(name) > 1)
        raise InvalidDataError(f"The table has more than one column {twice!r}. Rename one.", column=str(twice))
    labels = {str(label): label for label in present}

    def find(name: str, role: str) -> Any:
        if str(name) not in labels:
            close = difflib.get_close_matches(str(name), labels, n=3)
            hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
            some = list(labels) if len(labels) <= 20 else [*list(labels)[:10], "…", *list(labels)[-10:]]
            raise InvalidParameterError(
                f"There is no column {name!r} for {role}. {hint}The table has {len(labels)} columns: {', '.join(some)}."
            )
        return labels[str(name)]

    roles = {role: find(name, role.partition(".")[0]) for role, name in names.roles.items()}
    if names.columns is None:
        features = tuple(label for label in present if label not in {*roles.values(), *index})
    else:
        features = tuple(find(name, "columns") for name in names.columns)
    if not features:
        raise InvalidParameterError("No column is left for the features. Name them with columns=.")
    return TableColumns(features, roles)


def common_dtype(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """Give the one type that holds the values of all feature columns.

    Examples
    --------
    >>> common_dtype([np.dtype("f4"), np.dtype("f4")]), common_dtype([np.dtype("i8"), np.dtype("f4")])
    (dtype('float32'), dtype('float64'))
    >>> common_dtype([np.dtype("i2"), np.dtype(bool)])
    dtype('int16')
    """
    return np.result_type(*(stored_dtype(dtype, what="a column") for dtype in set(dtypes)))
