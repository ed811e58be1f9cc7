"""Lazy arrays and tables, computed one row-block at a time."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.column_kinds import ColumnKind, pandas_kind
from streamfit.sources.frames import frame_block, frame_pieces, gap_kind
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.sources.stores import stores_behind
from streamfit.sources.table_rows import plan_rows
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import dask.array as da

    from streamfit.sources.source import Names

__all__ = ["dask_array_source", "dask_frame_source"]


def dask_array_source(X: da.Array, names: Names) -> Source:
    """Read a dask array; memory holds a few blocks of rows over all columns, about 16 MiB or one block.

    Chunks may be empty, of unknown size, or split along the columns. What all blocks share, such as a mean
    over all rows, is computed again for each such group: compute it before.
    """
    names.refuse("a dask array")
    check_matrix(X.shape, what="X")
    n_features = X.shape[1]
    if not isinstance(n_features, Integral):
        raise InvalidDataError("X has an unknown number of columns. Call X.compute_chunk_sizes() before.")
    row_nbytes = n_features * X.dtype.itemsize
    groups = _groups(X.chunks[0], max_rows=2 * block_rows(row_nbytes))

    def blocks(start: int) -> Iterator[RowBlock]:
        read = (RowBlock(np.asanyarray(X.blocks[first:end].compute())) for first, end, _ in groups)
        return drop_rows(read, start)

    known = isinstance(X.shape[0], Integral)
    return Source(
        blocks=blocks,
        n_features=int(n_features),
        dtype=stored_dtype(X.dtype, what="X"),
        description={"kind": "dask array", "n_features": int(n_features), "dtype": X.dtype.str},
        recognisable=False,
        n_rows=int(X.shape[0]) if known else None,
        # The blocks, and all of them joined.
        block_nbytes=2 * max((n_rows for *_, n_rows in groups), default=0) * row_nbytes if known else 0,
        paths=tuple(stores_behind(X)),
    )


def _groups(sizes: Sequence[float], *, max_rows: int) -> list[tuple[int, int, int]]:
    """Join neighbouring blocks up to `max_rows`: first (inclusive), last (exclusive), rows.

    A block of unknown size is alone, with 0 rows.

    Examples
    --------
    >>> _groups((100, 0, 37, 0, 100), max_rows=200)
    [(0, 4, 137), (4, 5, 100)]
    >>> _groups((np.nan, np.nan), max_rows=200)
    [(0, 1, 0), (1, 2, 0)]
    """
    if not all(isinstance(size, Integral) for size in sizes):
        return [(start, start + 1, 0) for start in range(len(sizes))]
    groups: list[tuple[int, int, int]] = []
    for place, size in enumerate(sizes):
        if groups and groups[-1][2] + size <= max_rows:
            groups[-1] = (groups[-1][0], place + 1, groups[-1][2] + int(size))
        else:
            groups.append((place, place + 1, int(size)))
    return groups


def dask_frame_source(frame: Any, names: Names) -> Source:
    """Read a dask dataframe; memory holds one partition. Categories that are to be learnt are computed before."""

    def kind(label: Any) -> ColumnKind:
        found = pandas_kind(frame.dtypes[label])
        # Whether a nullable column has gaps is only known at its last row.
        return gap_kind(found, has_gaps=found.nullable)

    rows = plan_rows(list(frame.columns), kind, names, lambda labels: frame_pieces(_parts(frame[labels]), labels))
    used = frame[rows.columns.all]

    def read() -> Iterator[RowBlock]:
        make, start = rows.maker(), 0
        for part in _parts(used):
            yield frame_block(part, make, rows.columns.roles.values(), start=start)
            start += len(part)

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=rows.n_features,
        dtype=rows.dtype,
        description={"kind": "dask dataframe", "columns": rows.columns.describe(), "dtype": rows.dtype.str},
        recognisable=False,
        feature_names=rows.feature_names,
        categories=rows.categories,
    )


def _parts(frame: Any) -> Iterator[Any]:
    return (frame.partitions[number].compute() for number in range(frame.npartitions))
