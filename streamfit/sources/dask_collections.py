"""Lazy arrays and tables, computed one row-block at a time."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.frames import column_dtype, frame_block
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.sources.stores import stores_behind
from streamfit.sources.tables import common_dtype, select_columns
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
    """Read a dask dataframe; memory holds one partition."""
    columns = select_columns(list(frame.columns), names)
    # Whether a nullable column has gaps is only known at its last row.
    dtype = common_dtype(
        [
            column_dtype(name, kind, has_gaps=not isinstance(kind, np.dtype))
            for name, kind in ((name, frame.dtypes[name]) for name in columns.features)
        ]
    )
    used = frame[columns.all]

    def read() -> Iterator[RowBlock]:
        start = 0
        for number in range(used.npartitions):
            part = used.partitions[number].compute()
            yield frame_block(part, columns, dtype, start=start)
            start += len(part)

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=len(columns.features),
        dtype=dtype,
        description={"kind": "dask dataframe", "columns": columns.describe(), "dtype": dtype.str},
        recognisable=False,
        feature_names=columns.feature_names,
    )
