"""Stored arrays as dask arrays, read through the verified reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.store.reader import Reader, StoreRef

__all__ = ["lazy_array"]


def lazy_array(reader: Reader, name: str, *, block_nbytes: int) -> da.Array:
    """Give an array of a store in blocks of whole chunks; building it reads nothing.

    Parameters
    ----------
    reader : Reader
        The store. Tasks carry its ref, never rows.
    name : {"X", "y", "sample_weight", "ids"}
        An array that the store has. Labels are decoded.
    block_nbytes : int
        Most bytes that the features of one block have, if not one chunk has more. Arrays with the same
        value have blocks of the same rows.
    """
    manifest, layout = reader.manifest, reader.layout
    spec = manifest.arrays[name]
    dtype = manifest.labels.dtype if name == "y" and manifest.labels is not None else spec.dtype
    block_chunks = min(layout.n_chunks, max(1, block_nbytes // layout.chunk_nbytes))
    block_rows = block_chunks * layout.chunk_rows
    n_blocks = -(-layout.n_chunks // block_chunks)
    rows = tuple(min(layout.n_rows - block * block_rows, block_rows) for block in range(n_blocks))
    array: da.Array = da.map_blocks(
        _read_block,
        da.arange(n_blocks, chunks=1, dtype=np.int64),
        reader.ref,
        name,
        block_chunks,
        chunks=(rows,) if spec.n_columns is None else (rows, (spec.n_columns,)),
        new_axis=None if spec.n_columns is None else 1,
        dtype=dtype,
        meta=np.empty(spec.shape(0), dtype=dtype),
        # The same rows have the same name in every process.
        name=f"store-{name}-{reader.ref.digest[:32]}-{reader.ref.verify}-{block_chunks}",
    )
    return array


def _read_block(block: NDArray[np.int64], ref: StoreRef, name: str, block_chunks: int) -> NDArray[Any]:
    reader = open_reader(ref)
    layout, labels = reader.layout, reader.manifest.labels
    chunks = range(int(block[0]) * block_chunks, min((int(block[0]) + 1) * block_chunks, layout.n_chunks))
    first, last = layout.chunk_bounds(chunks[0])[0], layout.chunk_bounds(chunks[-1])[1]
    spec = reader.manifest.arrays[name]
    rows = np.empty(spec.shape(last - first), dtype=spec.dtype)
    for index in chunks:
        start, stop = layout.chunk_bounds(index)
        reader.read_array(name, index, out=rows[start - first : stop - first])
    return labels.decode(rows) if name == "y" and labels is not None else rows
