"""Tables of polars, which is never imported from here: who gives one has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamfit.errors import InvalidDataError
from streamfit.sources.arrow_tables import arrow_table_source, stream_source
from streamfit.sources.source import block_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamfit.sources.source import Names, Source

__all__ = ["polars_source"]


def polars_source(frame: Any, names: Names) -> Source:
    """Read a polars DataFrame, whose columns are hashed, or a LazyFrame.

    A LazyFrame is computed batch by batch, in the order of its rows and without holding all of them, where polars has
    ``collect_batches`` (from 1.34 on); an earlier polars collects all rows at once with its streaming engine. Its query
    runs once more for categories that are to be learnt, with their columns alone.
    """
    if not hasattr(frame, "collect") and not hasattr(frame, "columns"):
        raise InvalidDataError(
            f"A polars {type(frame).__name__} has no columns. Give a DataFrame or a LazyFrame with a column a feature."
        )
    frame = _without_wide_wholes(frame, names)
    if not hasattr(frame, "collect"):
        return arrow_table_source(_table(frame), names)
    schema = _table(frame.collect_schema().to_frame(eager=True)).schema
    step = block_rows(8 * len(schema))

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        query = frame if columns is None else frame.select(columns)
        if hasattr(query, "collect_batches"):
            collected = query.collect_batches(chunk_size=step, maintain_order=True)
        else:
            collected = query.collect(engine="streaming").iter_slices(step)
        for part in collected:
            yield from _table(part).combine_chunks().to_batches()

    return stream_source(schema, batches, names, kind="polars query", once=False)


def _without_wide_wholes(frame: Any, names: Names) -> Any:
    """Leave out columns of a type that Arrow has not, where nobody asked for them."""
    schema = frame.collect_schema()
    wide = [name for name, kind in schema.items() if str(kind) in {"Int128", "UInt128"}]
    used = schema.names() if names.columns is None else {*names.columns, *names.roles.values()}
    for name in wide:
        if name in used:
            raise InvalidDataError(
                f"Column {name!r} has type {schema[name]}, and whole numbers have up to 64 bits. Cast it to Int64, or "
                "leave it out with columns=.",
                column=name,
            )
    return frame.drop(wide) if wide else frame


def _table(frame: Any) -> pa.Table:
    return pa.table(frame)
