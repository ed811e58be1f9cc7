"""Lazy arrays and tables, computed one row-block at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.sources.arrays import check_matrix
from streamfit.sources.frames import column_dtype, frame_block
from streamfit.sources.source import RowBlock, Source
from streamfit.sources.tables import common_dtype, select_columns
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dask.array as da

    from streamfit.sources.source import Names

__all__ = ["dask_array_source", "dask_frame_source"]


def dask_array_source(X: da.Array, names: Names) -> Source:
    """Read a dask array; memory holds one block of rows over all columns.

    Chunks may be empty, of unknown size, or split along the columns.
    """
    names.refuse("a dask array")
    check_matrix(X.shape, what="X")
    n_features = X.shape[1]
    if not isinstance(n_features, int):
        X.compute_chunk_sizes()
        n_features = X.shape[1]
    sizes = X.chunks[0]
    known = all(isinstance(size, int) for size in sizes)

    def blocks() -> Iterator[RowBlock]:
        return (RowBlock(np.asarray(X.blocks[i].compute())) for i in range(X.numblocks[0]) if sizes[i] != 0)

    return Source(
        blocks=blocks,
        n_features=n_features,
        dtype=stored_dtype(X.dtype, what="X"),
        description={"kind": "dask array", "n_features": n_features, "dtype": X.dtype.str},
        recognisable=False,
        n_rows=sum(sizes) if known else None,
        block_nbytes=2 * max(sizes, default=0) * n_features * X.dtype.itemsize if known else 0,
    )


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

    def blocks() -> Iterator[RowBlock]:
        start = 0
        for number in range(used.npartitions):
            part = used.partitions[number].compute()
            yield frame_block(part, columns, dtype, start=start)
            start += len(part)

    return Source(
        blocks=blocks,
        n_features=len(columns.features),
        dtype=dtype,
        description={"kind": "dask dataframe", "columns": columns.describe(), "dtype": dtype.str},
        recognisable=False,
        feature_names=columns.feature_names,
    )
