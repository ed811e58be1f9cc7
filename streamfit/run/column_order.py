"""Columns matched by name: which column of some rows is which of those that a model was fitted on."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ColumnOrder", "column_order"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """A transformer that puts columns into another order."""

    columns: tuple[int, ...]
    """Numbers of the columns that are taken, in the order that they get."""

    def transform(self, X: Any) -> Any:
        """Take the columns of rows, ``(n_rows, n_features)``."""
        return X[:, list(self.columns)]

    def get_feature_names_out(self, names: Sequence[str]) -> list[str]:
        """Give the names of the columns that are taken."""
        return [names[column] for column in self.columns]


def column_order(given: Iterable[Any] | None, trained: Iterable[Any] | None) -> ColumnOrder | None:
    """Find the columns that a model was fitted on among those that are given; None where they stand as they should.

    Where either have no names, columns are matched by position.

    Raises
    ------
    InvalidDataError
        Columns are missing, or there are more, or a name is there twice.

    Examples
    --------
    >>> column_order(["b", "a"], ["a", "b"]), column_order(["a", "b"], ["a", "b"]), column_order(None, ["a"])
    (ColumnOrder(columns=(1, 0)), None, None)
    >>> column_order(["a", "c"], ["a", "b"])
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: The columns are not those of the training rows: 'b' is missing; 'c' was not \
there. Give the 2 columns of the training rows, in any order.
    """
    if given is None or trained is None:
        return None
    names, wanted = list(given), list(trained)
    if names == wanted:
        return None
    places = {name: place for place, name in enumerate(names)}
    missing = [name for name in wanted if name not in places]
    more = sorted(set(names).difference(wanted), key=str)
    twice = sorted({name for name in names if names.count(name) > 1}, key=str) if len(places) < len(names) else []
    if missing or more or twice:
        parts = [
            (missing, "is missing", "are missing"),
            (more, "was not there", "were not there"),
            (twice, "is there twice", "are there twice"),
        ]
        told = "; ".join(f"{_listed(found)} {one if len(found) == 1 else many}" for found, one, many in parts if found)
        raise InvalidDataError(
            f"The columns are not those of the training rows: {told}. "
            f"Give the {len(wanted)} columns of the training rows, in any order.",
            column=str((missing or more or twice)[0]),
        )
    return ColumnOrder(tuple(places[name] for name in wanted))


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(reprlib.repr, names[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
