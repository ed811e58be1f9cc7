"""Parquet files, row batch by row batch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from streamfit.errors import InvalidDataError
from streamfit.sources.column_kinds import ColumnKind, arrow_kind, index_columns
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.hive import describe_keys, folder_keys
from streamfit.sources.located import FileRows
from streamfit.sources.source import RowBlock, Source, drop_rows
from streamfit.sources.table_rows import plan_rows
from streamfit.sources.tables import common_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamfit.sources.hive import FolderKeys
    from streamfit.sources.source import Names

__all__ = ["parquet_source"]

_BUFFER_NBYTES = 64 * 2**10
"""Read-ahead of each column; without it a column's whole part of a row group is held."""
_COLUMN_NBYTES = 3 * 2**20
"""A page and a dictionary, which pyarrow writes up to 1 MiB each, decoded."""
_LEARN_ROWS = 65_536
"""Rows that are read at a time to learn categories."""


@dataclass(frozen=True, slots=True)
class _File:
    """One file, as its footer tells."""

    path: Path
    schema: Any
    metadata: Any

    @property
    def n_rows(self) -> int:
        return int(self.metadata.num_rows)


def parquet_source(files: Sequence[Path], names: Names, *, base: Path | None = None) -> Source:
    """Read Parquet files, one after the other.

    Columns are matched by name. Types are decided from the footers of all files before the first row is read: the one
    type that holds every feature column; whole numbers with gaps count as float64. What pandas or dask wrote as the
    index of a table is no feature unless it is named. Of each column one page and one dictionary are held, about 2.5
    MiB in files as pyarrow writes them, however large the row groups are.

    Parameters
    ----------
    files : sequence of Path
        The files.
    names : Names
        Columns that the caller named.
    base : Path or None
        Folder below which names of folders such as ``year=2024`` are columns.
    """
    parts = [_open(file) for file in files]
    keys = folder_keys(files, base)
    index = sorted({name for part in parts for name in index_columns(part.schema)})
    present = _present(parts, keys, names, index)
    rows = plan_rows(
        present,
        lambda name: _kind(name, parts, keys),
        names,
        lambda labels: _pieces(parts, keys, labels),
        index=index,
    )
    file_rows = FileRows(files)
    for number, first in enumerate(itertools.accumulate((part.n_rows for part in parts[:-1]), initial=0)):
        file_rows.begin(number, first)

    def blocks(start: int) -> Iterator[RowBlock]:
        make, first = rows.maker(), 0
        for number, part in enumerate(parts):
            groups, n_passed = _groups_since(part.metadata, start - first)
            row = first + n_passed
            first += part.n_rows
            if groups:
                read = _columns(part, keys, number, rows.columns.all, rows.step, groups)
                yield from drop_rows(_blocks(read, make, row), max(0, start - row))

    return Source(
        blocks=blocks,
        n_features=rows.n_features,
        dtype=rows.dtype,
        description={
            "kind": "parquet",
            "files": describe_keys(describe_files(files), keys, files, base),
            "columns": rows.columns.describe(),
        },
        recognisable=True,
        seekable=True,
        n_rows=sum(part.n_rows for part in parts),
        feature_names=rows.feature_names,
        # The columns as they are decoded, as numbers of the one type, and the matrix.
        block_nbytes=3 * rows.step * rows.n_features * rows.dtype.itemsize
        + max(_pages_nbytes(part.metadata) for part in parts),
        held_nbytes=rows.step * rows.n_features * rows.dtype.itemsize,
        paths=tuple(files),
        categories=rows.categories,
        locate=file_rows.locate,
    )


def _open(file: Path) -> _File:
    with reading(file), pq.ParquetFile(file) as parquet:
        return _File(file, parquet.schema_arrow, parquet.metadata)


def _present(parts: Sequence[_File], keys: FolderKeys, names: Names, index: Sequence[str]) -> list[str]:
    """Give the columns that the table has, and refuse files that have others."""
    first = parts[0]
    named = {*(names.columns or ()), *names.roles.values()}
    for part in parts:
        both = [name for name in keys.names if name in part.schema.names]
        if both:
            raise InvalidDataError(
                f"{part.path.name} has a column {both[0]!r}, and its folders have a key of that name. Rename one.",
                column=both[0],
            )
        lacking = [name for name in first.schema.names if name not in part.schema.names]
        unused = set(index) if names.columns is None else set(first.schema.names)
        lacking = [name for name in lacking if name in named or name not in unused]
        if lacking:
            raise InvalidDataError(
                f"{part.path.name} has no column {lacking[0]!r}, which {first.path.name} has. Name the columns that "
                "all files have with columns=.",
                column=lacking[0],
            )
        surplus = [name for name in part.schema.names if name not in {*first.schema.names, *index}]
        if surplus and names.columns is None:
            raise InvalidDataError(
                f"{part.path.name} has a column {surplus[0]!r}, which {first.path.name} has not. Name the columns that "
                "all files have with columns=.",
                column=surplus[0],
            )
        if len(set(part.schema.names)) < len(part.schema.names):
            twice = next(name for name in part.schema.names if part.schema.names.count(name) > 1)
            raise InvalidDataError(f"{part.path.name} has more than one column {twice!r}. Rename one.", column=twice)
    return [*first.schema.names, *keys.names]


def _kind(name: str, parts: Sequence[_File], keys: FolderKeys) -> ColumnKind:
    """Tell what a column can become, by its types in all files."""
    if name in keys.names:
        kind = arrow_kind(keys.schema.field(name).type)
        if kind.dtype is not None and any(values[name] is None for values in keys.values):
            return ColumnKind(kind.text, np.dtype(np.float64), nullable=True)
        return kind
    # What a file without rows, or without a value, says about a column is how its writer made a guess.
    filled = [part for part in parts if part.n_rows] or list(parts)
    kinds = [arrow_kind(part.schema.field(name).type) for part in filled]
    known = [place for place, kind in enumerate(kinds) if kind.text != "null"] or [0]
    first = kinds[known[0]]
    for place in known:
        if (kinds[place].dtype is None) != (first.dtype is None) or kinds[place].is_category != first.is_category:
            raise InvalidDataError(
                f"Column {name!r} has type {first.text} in {filled[known[0]].path.name} and {kinds[place].text} in "
                f"{filled[place].path.name}. Write it with one type, or leave it out with columns=.",
                column=name,
            )
    if first.dtype is None:
        return first
    dtypes = [kind.dtype for kind in kinds if kind.dtype is not None]
    dtype = common_dtype(dtypes)
    gaps = len(known) < len(kinds) or any(_has_gaps(part.metadata, name) for part in filled)
    return ColumnKind(first.text, np.dtype(np.float64) if gaps and dtype.kind != "f" else dtype, nullable=True)


def _has_gaps(metadata: Any, name: str) -> bool:
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    if name not in paths:
        return False
    number = paths.index(name)
    columns = (metadata.row_group(group).column(number) for group in range(metadata.num_row_groups))
    return any(column.is_stats_set and column.statistics.null_count for column in columns)


def _pages_nbytes(metadata: Any) -> int:
    groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
    return max((min(group.total_byte_size, _COLUMN_NBYTES * metadata.num_columns) for group in groups), default=0)


def _groups_since(metadata: Any, row: int) -> tuple[list[int], int]:
    """Give the row groups of a file that hold this row or later ones, and the rows before these groups."""
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    ends = list(itertools.accumulate(sizes))
    groups = [group for group, end in enumerate(ends) if end > row]
    return groups, metadata.num_rows - sum(sizes[group] for group in groups)


def _columns(
    part: _File, keys: FolderKeys, number: int, names: Sequence[str], step: int, groups: Sequence[int]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read columns of a file, some rows at a time: the number of rows, and the columns by name."""
    stored = [name for name in names if name not in keys.names]
    made = [name for name in names if name in keys.names]
    with reading(part.path), pq.ParquetFile(part.path, buffer_size=_BUFFER_NBYTES, pre_buffer=False) as parquet:
        for batch in parquet.iter_batches(batch_size=step, row_groups=groups, columns=stored, use_threads=True):
            columns = {name: batch.column(name) for name in stored}
            yield batch.num_rows, columns | {name: keys.column(number, name, batch.num_rows) for name in made}


def _pieces(parts: Sequence[_File], keys: FolderKeys, names: list[Any]) -> Iterator[Mapping[Any, Any]]:
    for number, part in enumerate(parts):
        groups = range(part.metadata.num_row_groups)
        yield from (columns for _, columns in _columns(part, keys, number, names, _LEARN_ROWS, groups))


def _blocks(
    read: Iterator[tuple[int, Mapping[str, Any]]], make: Callable[..., RowBlock], start: int
) -> Iterator[RowBlock]:
    for n_rows, columns in read:
        yield make(columns.__getitem__, n_rows, start)
        start += n_rows
