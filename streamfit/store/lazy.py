"""Stored arrays as dask arrays, read through the verified reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.delayed import delayed
from scipy.sparse import csr_array

from streamfit.maths.csr_rows import joined_rows
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from numpy.typing import NDArray

    from streamfit.store.reader import Reader, StoreRef

__all__ = ["lazy_array", "ref_node"]


def ref_node(ref: StoreRef) -> StoreRef | Delayed:
    """Give a ref as the tasks of a graph take it.

    The ref of a view says which rows it has, up to a bit a row, and one with a mapping holds what its transformers
    learnt: it is a graph node of its own, that a worker receives once and not once a task.
    """
    if ref.selection is None and ref.mapping is None:
        return ref
    node: Delayed = delayed(ref, pure=True, traverse=False, name=f"view-{tokenize(ref)}")
    return node


def lazy_array(reader: Reader, name: str, *, block_nbytes: int) -> da.Array:
    """Give an array of a store in blocks of whole chunks; building it reads nothing.

    Parameters
    ----------
    reader : Reader
        The store. Tasks carry its ref, never rows.
    name : {"X", "y", "sample_weight", "ids"}
        An array that the store has. Labels are decoded.
    block_nbytes : int
        Most bytes that are decoded for one block, if not for one chunk they are more. Arrays with the
        same value have blocks of the same rows.
    """
    layout, spec = reader.layout, reader.arrays[name]
    dtype = reader.label_dtype if name == "y" else spec.dtype
    chunk_nbytes = max(reader.read_nbytes, layout.chunk_rows * layout.outputs_nbytes)
    block_chunks = min(layout.n_chunks, max(1, block_nbytes // chunk_nbytes))
    n_blocks = -(-layout.n_chunks // block_chunks)
    rows = tuple(np.add.reduceat(layout.chunk_sizes, np.arange(0, layout.n_chunks, block_chunks)).tolist())
    array: da.Array = da.map_blocks(
        _read_block,
        da.arange(n_blocks, chunks=1, dtype=np.int64),
        ref_node(reader.ref),
        name,
        block_chunks,
        chunks=(rows,) if spec.n_columns is None else (rows, (spec.n_columns,)),
        new_axis=None if spec.n_columns is None else 1,
        dtype=dtype,
        meta=csr_array(spec.shape(0), dtype=dtype) if spec.sparse else np.empty(spec.shape(0), dtype=dtype),
        # The same rows have the same name in every process.
        name=f"store-{name}-{reader.digest[:32]}-{reader.ref.verify}-{block_chunks}",
    )
    return array


def _read_block(block: NDArray[np.int64], ref: StoreRef, name: str, block_chunks: int) -> Any:
    reader = open_reader(ref)
    layout, labels = reader.layout, reader.manifest.labels
    chunks = range(int(block[0]) * block_chunks, min((int(block[0]) + 1) * block_chunks, layout.n_chunks))
    first, last = layout.chunk_bounds(chunks[0])[0], layout.chunk_bounds(chunks[-1])[1]
    spec = reader.arrays[name]
    if spec.sparse:
        parts = [reader.read_array(name, index) for index in chunks]
        return joined_rows(parts)
    rows = np.empty(spec.shape(last - first), dtype=spec.dtype)
    for index in chunks:
        start, stop = layout.chunk_bounds(index)
        reader.read_array(name, index, out=rows[start - first : stop - first])
    return labels.decode(rows) if name == "y" and labels is not None else rows
