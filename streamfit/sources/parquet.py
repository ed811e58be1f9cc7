"""Parquet files, row batch by row batch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamfit.errors import InvalidDataError
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.sources.tables import check_no_gaps, common_dtype, refuse_column, select_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from streamfit.sources.source import Names
    from streamfit.sources.tables import TableColumns

__all__ = ["parquet_source"]

_BUFFER_NBYTES = 64 * 2**10
"""Read-ahead of each column; without it a column's whole part of a row group is held."""
_COLUMN_NBYTES = 3 * 2**20
"""A page and a dictionary, which pyarrow writes up to 1 MiB each, decoded."""


def parquet_source(files: Sequence[Path], names: Names) -> Source:
    """Read Parquet files, one after the other.

    Types are decided from the footers of all files before the first row is read: the one type that holds
    every feature column; whole numbers with gaps count as float64. Of each column one page and one
    dictionary are held, about 2.5 MiB in files as pyarrow writes them, however large the row groups are.
    """
    metadata = [_metadata(file) for file in files]
    schemas = [meta.schema.to_arrow_schema() for meta in metadata]
    columns = select_columns(schemas[0].names, names)
    dtypes = []
    for file, schema, meta in zip(files, schemas, metadata, strict=True):
        lacking = [name for name in columns.all if name not in schema.names]
        if lacking:
            raise InvalidDataError(f"{file.name} has no column {lacking[0]!r}, which {files[0].name} has.")
        gaps = _columns_with_gaps(meta)
        dtypes += [_column_dtype(name, schema.field(name).type, name in gaps) for name in columns.features]
    dtype = common_dtype(dtypes)
    step = block_rows(len(columns.features) * dtype.itemsize)

    def blocks(start: int) -> Iterator[RowBlock]:
        first = 0
        for file, meta in zip(files, metadata, strict=True):
            groups, n_passed = _groups_since(meta, start - first)
            row = first + n_passed
            first += meta.num_rows
            if not groups:
                continue
            with reading(file), pq.ParquetFile(file, buffer_size=_BUFFER_NBYTES, pre_buffer=False) as parquet:
                batches = parquet.iter_batches(
                    batch_size=step, row_groups=groups, columns=columns.all, use_threads=False
                )
                yield from drop_rows(_blocks(batches, columns, dtype, row), max(0, start - row))

    return Source(
        blocks=blocks,
        n_features=len(columns.features),
        dtype=dtype,
        description={"kind": "parquet", "files": describe_files(files), "columns": columns.describe()},
        recognisable=True,
        seekable=True,
        n_rows=sum(meta.num_rows for meta in metadata),
        feature_names=columns.feature_names,
        block_nbytes=2 * step * len(columns.features) * dtype.itemsize + max(map(_pages_nbytes, metadata)),
        held_nbytes=step * len(columns.features) * dtype.itemsize,
        paths=tuple(files),
    )


def _metadata(file: Path) -> Any:
    with reading(file):
        return pq.read_metadata(file)


def _pages_nbytes(meta: Any) -> int:
    groups = (meta.row_group(group) for group in range(meta.num_row_groups))
    return max((min(group.total_byte_size, _COLUMN_NBYTES * meta.num_columns) for group in groups), default=0)


def _columns_with_gaps(meta: Any) -> set[str]:
    found = set()
    for group in range(meta.num_row_groups):
        for number in range(meta.num_columns):
            column = meta.row_group(group).column(number)
            if column.is_stats_set and column.statistics.null_count:
                found.add(column.path_in_schema)
    return found


def _column_dtype(name: str, kind: Any, has_gaps: bool) -> np.dtype[Any]:
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise refuse_column(name, kind)
    dtype = np.dtype(kind.to_pandas_dtype())
    return np.dtype(np.float64) if has_gaps and dtype.kind != "f" else dtype


def _groups_since(meta: Any, row: int) -> tuple[list[int], int]:
    """Give the row groups of a file that hold this row or later ones, and the rows before these groups."""
    sizes = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
    ends = list(itertools.accumulate(sizes))
    groups = [group for group, end in enumerate(ends) if end > row]
    return groups, meta.num_rows - sum(sizes[group] for group in groups)


def _blocks(batches: Iterable[Any], columns: TableColumns, dtype: np.dtype[Any], start: int) -> Iterator[RowBlock]:
    for batch in batches:
        yield _block(batch, columns, dtype, start)
        start += batch.num_rows


def _block(batch: Any, columns: TableColumns, dtype: np.dtype[Any], start: int) -> RowBlock:
    X = np.empty((batch.num_rows, len(columns.features)), dtype=dtype)
    for place, name in enumerate(columns.features):
        column = batch.column(name)
        if dtype.kind != "f" and column.null_count:
            check_no_gaps(column.is_null().to_numpy(zero_copy_only=False), start=start, name=name)
        X[:, place] = column.to_numpy(zero_copy_only=False)
    roles = {role: _values(batch.column(name)) for role, name in columns.roles.items()}
    return RowBlock(X, **roles)


def _values(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.to_numpy(zero_copy_only=False)
