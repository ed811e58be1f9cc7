"""Tables of Arrow, in memory, as streams, or as data sets of files; and whatever gives its rows so."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import xxhash
from pyarrow import fs

from streamfit.errors import InvalidDataError
from streamfit.sources.column_kinds import ColumnKind, arrow_kind, index_columns
from streamfit.sources.column_values import decoded, one_array
from streamfit.sources.frames import gap_kind
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.sources.table_rows import plan_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streamfit.sources.source import Names

__all__ = ["arrow_table_source", "is_arrow", "open_arrow", "stream_source"]


def is_arrow(source: object) -> bool:
    """Whether something gives its rows as Arrow does."""
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")) or _is_dataset(source)


def _is_dataset(source: object) -> bool:
    return type(source).__module__.startswith("pyarrow") and hasattr(source, "scanner")


def open_arrow(source: Any, names: Names) -> Source:
    """Read what gives its rows as Arrow does: a table in memory, a data set, or a stream."""
    if isinstance(source, pa.RecordBatch):
        return arrow_table_source(pa.Table.from_batches([source]), names)
    if isinstance(source, pa.Table):
        return arrow_table_source(source, names)
    if _is_dataset(source):
        return _dataset_source(source, names)
    if isinstance(source, pa.RecordBatchReader):
        return stream_source(source.schema, lambda _: source, names, kind="arrow stream", once=True)
    if not hasattr(source, "__arrow_c_stream__"):
        with _naming(source):
            return arrow_table_source(pa.Table.from_batches([pa.record_batch(source)]), names)

    def opened(_: Sequence[str] | None) -> Any:
        return pa.RecordBatchReader.from_stream(source)

    with _naming(source):
        reader = opened(None)
    # The reader that told the columns gives the first pass: some sources can be read once.
    first: Iterator[Any] = iter([reader])
    return stream_source(
        reader.schema, lambda columns: next(first, None) or opened(columns), names, kind="arrow stream", once=False
    )


@contextmanager
def _naming(source: object) -> Iterator[None]:
    """Say that something has no columns where Arrow finds none."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidDataError(
            f"A {type(source).__name__} is no table ({error}). Give a table with a column a feature."
        ) from error


def arrow_table_source(table: pa.Table, names: Names) -> Source:
    """Read an Arrow table in memory; the columns that are used are hashed, whatever their chunks."""

    def kind(name: str) -> ColumnKind:
        return gap_kind(arrow_kind(table.schema.field(name).type), has_gaps=bool(table.column(name).null_count))

    def pieces(labels: list[Any]) -> Iterator[Mapping[Any, Any]]:
        yield {name: one_array(table.column(name)) for name in labels}

    rows = plan_rows(table.schema.names, kind, names, pieces, index=index_columns(table.schema))

    def blocks(start: int) -> Iterator[RowBlock]:
        make = rows.maker()
        for row in range(start, table.num_rows, rows.step):
            part = table.slice(row, rows.step)
            columns = {name: one_array(part.column(name)) for name in rows.columns.all}
            yield make(columns.__getitem__, part.num_rows, row)

    return Source(
        blocks=blocks,
        n_features=rows.n_features,
        dtype=rows.dtype,
        description={
            "kind": "arrow table",
            "columns": rows.columns.describe(),
            "hashes": [_column_hash(table.column(name)) for name in rows.columns.all],
        },
        recognisable=True,
        seekable=True,
        n_rows=table.num_rows,
        feature_names=rows.feature_names,
        block_nbytes=3 * rows.step * rows.n_features * rows.dtype.itemsize,
        categories=rows.categories,
    )


def stream_source(
    schema: pa.Schema,
    batches: Callable[[Sequence[str] | None], Any],
    names: Names,
    *,
    kind: str,
    once: bool,
) -> Source:
    """Read batches of Arrow; memory holds one batch, and its rows are made some at a time.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns of the batches.
    batches : callable
        Gives the batches from the first row on, with these columns at least; None for all.
    names : Names
        Columns that the caller named.
    kind : str
        What the rows are described as.
    once : bool
        Whether the batches can be read once only.
    """

    def pieces(labels: list[Any]) -> Iterator[Mapping[Any, Any]]:
        return ({name: batch.column(name) for name in labels} for batch in batches(labels))

    rows = plan_rows(
        schema.names,
        lambda name: arrow_kind(schema.field(name).type),
        names,
        None if once else pieces,
        index=index_columns(schema),
    )

    def read() -> Iterator[RowBlock]:
        make, start = rows.maker(), 0
        for batch in batches(rows.columns.all):
            for row in range(0, batch.num_rows, rows.step):
                part = batch.slice(row, rows.step)
                yield make(part.column, part.num_rows, start + row)
            start += batch.num_rows

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=rows.n_features,
        dtype=rows.dtype,
        description={"kind": kind, "columns": rows.columns.describe(), "dtype": rows.dtype.str},
        recognisable=False,
        feature_names=rows.feature_names,
        block_nbytes=3 * rows.step * rows.n_features * rows.dtype.itemsize,
        categories=rows.categories,
    )


def _dataset_source(dataset: Any, names: Names) -> Source:
    step = block_rows(8 * len(dataset.schema))

    def batches(columns: Sequence[str] | None) -> Any:
        # Little read-ahead: the batches of several files at once would not fit the memory that one takes.
        return dataset.scanner(
            columns=columns, batch_size=step, batch_readahead=2, fragment_readahead=1, cache_metadata=False
        ).to_batches()

    source = stream_source(dataset.schema, batches, names, kind="arrow dataset", once=False)
    # Of files elsewhere none can be written over.
    is_local = isinstance(getattr(dataset, "filesystem", None), fs.LocalFileSystem)
    return dataclasses.replace(source, paths=tuple(Path(file) for file in dataset.files) if is_local else ())


def _column_hash(column: Any) -> str:
    """Hash the values of a column, some rows at a time."""
    # Arrow has several forms for the same texts.
    kind = "text" if arrow_kind(column.type).is_category else column.type
    hasher = xxhash.xxh3_64(f"{len(column)} {kind}".encode())
    step = block_rows(8)
    for start in range(0, len(column), step):
        part = one_array(column.slice(start, step))
        for values in _hashable(part):
            hasher.update(values)
    return hasher.hexdigest()


def _hashable(part: Any) -> Iterator[Any]:
    kind = part.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        values = part.fill_null(False if pa.types.is_boolean(kind) else 0)  # a value
        yield np.ascontiguousarray(values.to_numpy(zero_copy_only=False)).view(np.uint8)
        yield np.packbits(part.is_null().to_numpy(zero_copy_only=False))
        return
    # Categories that no row has, and the order of those that rows have, make no other column.
    encoded = decoded(part).dictionary_encode()
    yield repr(encoded.dictionary.to_pylist()).encode(errors="surrogatepass")
    yield np.ascontiguousarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)).view(np.uint8)
