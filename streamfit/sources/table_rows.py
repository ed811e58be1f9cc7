"""From the columns of a table, whatever it comes from, to rows of one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import Categorical
from streamfit.sources.categories import CategoryEncoder, codes_dtype, learn_categories
from streamfit.sources.column_kinds import refuse_column
from streamfit.sources.column_values import as_numbers, label_values
from streamfit.sources.exact import converted
from streamfit.sources.source import RowBlock, block_rows, joined_sides
from streamfit.sources.tables import common_dtype, select_columns
from streamfit.store.categories import ColumnCategories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from streamfit.sources.column_kinds import ColumnKind
    from streamfit.sources.source import Names
    from streamfit.sources.tables import TableColumns

    Learn = Callable[[list[Any]], Iterable[Mapping[Any, Any]]]

__all__ = ["TableRows", "plan_rows"]

MAX_ONEHOT = 10_000
"""Most columns that one-hot encoding may add: rows of so many zeros are better stored otherwise."""

_TILE_ROWS = 2_048
_TILE_COLUMNS = 128
"""The columns are turned into rows by tiles that stay in the processor's cache, from one cut to the next."""
_FEW_COLUMNS = 16
"""Fewer columns than these are written one by one: turning costs more than it saves."""
_PART_NBYTES = 2**19
"""Part of the matrix that each of a few columns is written to before the next part."""
_PADDING = 16
"""Rows more than a tile has, so that its columns do not lie a power of two apart: those share lines of the cache."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """How rows of a table become rows of a matrix."""

    columns: TableColumns
    """The columns that are read."""
    encodings: Mapping[Any, ColumnCategories]
    """By label, how columns of categories are encoded."""
    dtype: np.dtype[Any]
    """Type of the matrix."""
    from_text: bool
    """Whether columns of categories come as texts, whatever they are."""

    @property
    def n_features(self) -> int:
        """Columns of the matrix."""
        return sum(self._width(label) for label in self.columns.features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns of the matrix, or None where the columns of the table are not all named by texts."""
        names = self.columns.feature_names
        if names is None:
            return None
        return tuple(name for label in names for name in self._names(label))

    @property
    def step(self) -> int:
        """Rows that are made at a time."""
        n_labels = sum(role.startswith("y.") for role in self.columns.roles)
        return block_rows(self.n_features * self.dtype.itemsize + 8 * n_labels)

    @property
    def categories(self) -> tuple[ColumnCategories, ...]:
        """The encodings in the order of the columns."""
        return tuple(self.encodings[label] for label in self.columns.features if label in self.encodings)

    def _width(self, label: Any) -> int:
        encoding = self.encodings.get(label)
        return len(encoding.categories) if encoding is not None and encoding.encode == "onehot" else 1

    def _names(self, label: str) -> list[str]:
        encoding = self.encodings.get(label)
        if encoding is None or encoding.encode == "codes":
            return [label]
        return [f"{label}_{category}" for category in encoding.categories]

    def maker(self) -> Callable[[Callable[[Any], Any], int, int], RowBlock]:
        """Give a function that makes rows: of a getter of columns by label, the number of rows, and the first one's."""
        encoders = {
            label: CategoryEncoder(encoding, from_text=self.from_text) for label, encoding in self.encodings.items()
        }

        def make(column: Callable[[Any], Any], n_rows: int, start: int) -> RowBlock:
            X = np.empty((n_rows, self.n_features), dtype=self.dtype)
            plain: list[tuple[int, NDArray[Any]]] = []
            place = 0
            for label in self.columns.features:
                width = self._width(label)
                if label not in encoders:
                    plain.append((place, as_numbers(column(label), self.dtype, start=start, name=str(label))))
                else:
                    codes = encoders[label].encode(column(label), start=start)
                    if self.encodings[label].encode == "codes":
                        plain.append((place, converted(codes, self.dtype, start=start, name=str(label))))
                    else:
                        X[:, place : place + width] = 0
                        known = np.flatnonzero(codes >= 0)
                        X[known, place + codes[known].astype(np.intp)] = 1
                place += width
            _write(X, plain)
            sides = {role: column(label) for role, label in self.columns.roles.items()}
            given = {role: v if isinstance(v, np.ndarray) else label_values(v) for role, v in sides.items()}
            return RowBlock(X, **joined_sides(given, start=start))

        return make


def _write(X: NDArray[Any], columns: list[tuple[int, NDArray[Any]]]) -> None:
    # A column at a time over all rows would fetch each line of the cache once for every column.
    if len(columns) < _FEW_COLUMNS:
        step = max(64, _PART_NBYTES // max(1, X.shape[1] * X.itemsize))
        for start in range(0, len(X), step):
            for place, values in columns:
                X[start : start + step, place] = values[start : start + step]
        return
    # Columns beside each other are gathered by columns, and turned in one copy.
    turned = np.empty((_TILE_COLUMNS, _TILE_ROWS + _PADDING), dtype=X.dtype)
    groups = _neighbours(columns)
    for start in range(0, len(X), _TILE_ROWS):
        rows = X[start : start + _TILE_ROWS]
        for first, group in groups:
            tile = turned[: len(group), : len(rows)]
            for column, values in zip(tile, group, strict=True):
                column[:] = values[start : start + _TILE_ROWS]
            rows[:, first : first + len(group)] = tile.T


def _neighbours(columns: list[tuple[int, NDArray[Any]]]) -> list[tuple[int, list[NDArray[Any]]]]:
    """Join columns beside each other, up to those of a tile: the place of the first one, and their values.

    Examples
    --------
    >>> [(place, len(values)) for place, values in _neighbours([(0, np.ones(2)), (1, np.ones(2)), (5, np.ones(2))])]
    [(0, 2), (5, 1)]
    """
    groups: list[tuple[int, list[NDArray[Any]]]] = []
    for place, values in columns:
        if groups and len(groups[-1][1]) < _TILE_COLUMNS and place == groups[-1][0] + len(groups[-1][1]):
            groups[-1][1].append(values)
        else:
            groups.append((place, [values]))
    return groups


def plan_rows(
    present: Sequence[Any],
    kind: Callable[[Any], ColumnKind],
    names: Names,
    learn: Learn | None,
    *,
    from_text: bool = False,
    index: Sequence[Any] = (),
) -> TableRows:
    """Decide how the rows of a table become rows of a matrix, categories learnt where they are not declared.

    Parameters
    ----------
    present : sequence
        Labels of the columns.
    kind : callable
        Gives the kind of a column by its label.
    names : Names
        What the caller named.
    learn : callable or None
        Reads columns, given by label, from the first row to the last: mappings from labels to arrays, some rows at a
        time. None where the rows can be read once only.
    from_text : bool
        Whether columns of categories come as texts.
    index : sequence
        Labels of columns that are no features unless they are named.

    Raises
    ------
    InvalidParameterError
        A named column does not exist.
    InvalidDataError
        A column is neither numbers nor categories, or a store that encodes a column is given rows without it.
    """
    columns = select_columns(present, names, index=index)
    kinds = {label: kind(label) for label in columns.features}
    wanted = _wanted(columns, kinds, names)
    for label in columns.features:
        if label not in wanted and kinds[label].dtype is None:
            raise refuse_column(label, kinds[label])
    unknown = [label for label, how in wanted.items() if how.categories is None]
    learnt = _learn(unknown, learn, from_text=from_text) if unknown else {}
    encodings = {
        label: ColumnCategories(str(label), how.encode, how.unknown, how.categories or learnt[label])
        for label, how in wanted.items()
    }
    n_new = sum(len(encoding.categories) for encoding in encodings.values() if encoding.encode == "onehot")
    if n_new > MAX_ONEHOT:
        widest = max(encodings.values(), key=lambda encoding: len(encoding.categories))
        raise InvalidDataError(
            f"One-hot encoding makes {n_new:,} columns, of them {len(widest.categories):,} for {widest.column!r}, and "
            f'at most {MAX_ONEHOT:,} are made. Say "codes" for it, or hash it to a sparse matrix and give that.',
            column=widest.column,
        )
    dtypes = [_encoded_dtype(encoding) for encoding in encodings.values()]
    dtypes += [kind.dtype for label, kind in kinds.items() if kind.dtype is not None and label not in encodings]
    rows = TableRows(columns, encodings, names.dtype or common_dtype(dtypes), from_text)
    made = rows.feature_names or ()
    if len(set(made)) < len(made):
        twice = next(name for name in made if made.count(name) > 1)
        raise InvalidDataError(f"Two columns would be named {twice!r} once encoded. Rename one.", column=twice)
    return rows


def _encoded_dtype(encoding: ColumnCategories) -> np.dtype[Any]:
    return np.dtype(np.uint8) if encoding.encode == "onehot" else codes_dtype(len(encoding.categories))


def _wanted(columns: TableColumns, kinds: Mapping[Any, ColumnKind], names: Names) -> dict[Any, Categorical]:
    """Give the columns that are encoded, in the order of the table, and how."""
    labels = {str(label): label for label in columns.features}
    fixed = {encoding.column: encoding for encoding in names.encodings}
    for name in fixed:
        if name not in labels:
            raise InvalidDataError(
                f"The source has not the column {name!r} among its features, whose categories the store encodes. Give "
                "all columns as the first source of the store had them.",
                column=name,
            )
    found = {labels[name]: Categorical(e.encode, e.unknown, e.categories) for name, e in fixed.items()}
    if isinstance(names.categorical, Categorical):
        found |= {label: names.categorical for label, kind in kinds.items() if kind.is_category and label not in found}
    elif names.categorical is not None:
        for name, how in names.categorical.items():
            if name not in labels:
                raise InvalidParameterError(
                    f"There is no column {name!r} for categorical among the features {', '.join(list(labels)[:20])}. "
                    "Name one of them."
                )
            found.setdefault(labels[name], how)
    return {label: found[label] for label in columns.features if label in found}


def _learn(labels: list[Any], learn: Learn | None, *, from_text: bool) -> dict[Any, Any]:
    if learn is None:
        raise InvalidDataError(
            f"The categories of column {str(labels[0])!r} are not declared, and these rows can be read only once. "
            "Declare them with streamfit.Categorical(categories=), or give a source that can be read again.",
            column=str(labels[0]),
        )
    return learn_categories(learn(labels), labels, from_text=from_text)
