"""Tables of pandas, in memory or as the partitions of a lazy one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.sources.column_kinds import ColumnKind, pandas_kind
from streamfit.sources.column_values import pandas_column
from streamfit.sources.fingerprint import array_hash
from streamfit.sources.source import RowBlock, Source
from streamfit.sources.table_rows import plan_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd

    from streamfit.sources.source import Names

__all__ = ["frame_block", "frame_pieces", "frame_source", "gap_kind"]


def gap_kind(kind: ColumnKind, *, has_gaps: bool) -> ColumnKind:
    """Give the kind of a column that may have gaps: with gaps, whole numbers become float64."""
    if has_gaps and kind.dtype is not None and kind.dtype.kind != "f":
        return ColumnKind(kind.text, np.dtype(np.float64), kind.nullable)
    return kind


def frame_block(frame: pd.DataFrame, make: Callable[..., RowBlock], roles: Iterable[Any], *, start: int) -> RowBlock:
    """Turn rows of a table into a block.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows.
    make : callable
        See `streamfit.sources.table_rows.TableRows.maker`.
    roles : iterable
        Labels of the columns of labels, weights and ids.
    start : int
        Global number of the first row, for messages.
    """
    sides = set(roles)

    def column(label: Any) -> Any:
        return np.asarray(frame[label]) if label in sides else pandas_column(frame[label])

    return make(column, len(frame), start)


def frame_pieces(frames: Iterable[pd.DataFrame], labels: list[Any]) -> Iterator[dict[Any, Any]]:
    """Give columns of some tables by label, to learn their categories."""
    return ({label: pandas_column(frame[label]) for label in labels} for frame in frames)


def frame_source(frame: pd.DataFrame, names: Names) -> Source:
    """Read a pandas DataFrame; the columns that are used are hashed."""

    def kind(label: Any) -> ColumnKind:
        found = pandas_kind(frame[label].dtype)
        return gap_kind(found, has_gaps=found.nullable and bool(frame[label].hasnans))

    rows = plan_rows(list(frame.columns), kind, names, lambda labels: frame_pieces([frame], labels))

    def blocks(start: int) -> Iterator[RowBlock]:
        make = rows.maker()
        for row in range(start, len(frame), rows.step):
            yield frame_block(frame.iloc[row : row + rows.step], make, rows.columns.roles.values(), start=row)

    return Source(
        blocks=blocks,
        n_features=rows.n_features,
        dtype=rows.dtype,
        description={
            "kind": "dataframe",
            "columns": rows.columns.describe(),
            "hashes": [array_hash(np.asarray(frame[name])) for name in rows.columns.all],
        },
        recognisable=True,
        seekable=True,
        n_rows=len(frame),
        feature_names=rows.feature_names,
        block_nbytes=3 * rows.step * rows.n_features * rows.dtype.itemsize,
        categories=rows.categories,
    )
