"""Zarr arrays of other makers, format 2 or 3."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from streamfit.errors import InvalidDataError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.damaged import reading
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.sources.source import Names

__all__ = ["open_zarr_array", "zarr_source"]


def open_zarr_array(folder: Path) -> zarr.Array[Any]:
    """Open the array at a folder.

    Raises
    ------
    InvalidDataError
        A group is there.
    """
    with reading(folder):
        node = zarr.open(folder, mode="r")
    if isinstance(node, zarr.Array):
        return node
    arrays = ", ".join(sorted(name for name, _ in node.arrays()))
    raise InvalidDataError(f"{folder} is a Zarr group of {arrays or 'no arrays'}. Give the path of one array.")


def zarr_source(array: zarr.Array[Any], names: Names) -> Source:
    """Read a Zarr array by whole chunks of rows. Zarr reads chunks that it lacks as fill values."""
    names.refuse("a Zarr array")
    check_matrix(array.shape, what="X")
    n_rows, n_features = array.shape
    dtype = stored_dtype(np.dtype(array.dtype), what="X")
    chunk_rows = (array.shards or array.chunks)[0]
    step = chunk_rows * max(1, block_rows(n_features * dtype.itemsize) // chunk_rows)

    def read() -> Iterator[RowBlock]:
        for start in range(0, n_rows, step):
            with reading(f"{array.store_path}, rows {start} to {min(start + step, n_rows) - 1}"):
                rows = np.asarray(array[start : start + step])
            yield RowBlock(rows)

    root = getattr(array.store, "root", None)
    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=n_features,
        dtype=dtype,
        description={"kind": "zarr", "shape": [n_rows, n_features], "dtype": np.dtype(array.dtype).str},
        recognisable=False,
        n_rows=n_rows,
        block_nbytes=2 * step * n_features * dtype.itemsize,
        paths=() if root is None else (Path(root, array.path).absolute(),),
    )
