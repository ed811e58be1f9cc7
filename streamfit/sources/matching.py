"""The columns of a source beside those of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamfit.feature_store import FeatureStore
    from streamfit.sources.source import Source

__all__ = ["check_categories", "column_order", "listed"]

_N_SHOWN = 10


def column_order(rows: Source, store: FeatureStore) -> list[int] | None:
    """Give where each column of the store is in the source; None where all are in the same place.

    Parameters
    ----------
    rows : Source
        The rows.
    store : FeatureStore
        The store. Columns are matched by name where both have names, else by position.

    Raises
    ------
    InvalidDataError
        A column is missing or too many; the message names it.
    """
    given, wanted = rows.feature_names, store.feature_names
    if given is None or wanted is None:
        if rows.n_features != store.n_features:
            raise InvalidDataError(
                f"The source has {rows.n_features} columns of features and the store {store.path} has "
                f"{store.n_features}. Give the same columns in the same order."
            )
        return None
    missing = [name for name in wanted if name not in set(given)]
    surplus = [name for name in given if name not in set(wanted)]
    if missing:
        has = f" and has {_named(surplus)} instead" if surplus else ""
        raise InvalidDataError(
            f"The source has not {_named(missing)} of the store {store.path}{has}. Give all columns of the store, "
            "under the same names.",
            column=missing[0],
        )
    if surplus:
        raise InvalidDataError(
            f"The source has {_named(surplus)}, which the store {store.path} has not. Leave out with columns= "
            "what is no feature, or name it as y, sample_weight or ids.",
            column=surplus[0],
        )
    place = {name: number for number, name in enumerate(given)}
    return None if given == wanted else [place[name] for name in wanted]


def check_categories(rows: Source, store: FeatureStore) -> None:
    """Refuse rows whose columns became numbers in another way than those of a store.

    Raises
    ------
    InvalidDataError
        A column is encoded in another way; the message names it. Rows that are not encoded are taken as they are.
    """
    has = {encoding.column: encoding for encoding in store.categories}
    for encoding in rows.categories:
        if has.get(encoding.column) != encoding:
            raise InvalidDataError(
                f"The column {encoding.column!r} of the source is encoded in another way than in the store "
                f"{store.path}. Give the values as they were before they were encoded.",
                column=encoding.column,
            )


def listed(names: Sequence[str]) -> str:
    """Give some names as text, and the number of the others."""
    return ", ".join(names[:_N_SHOWN]) + (f" and {len(names) - _N_SHOWN} more" if len(names) > _N_SHOWN else "")


def _named(columns: list[str]) -> str:
    return f"the column{'s' if len(columns) > 1 else ''} {listed([repr(column) for column in columns])}"
