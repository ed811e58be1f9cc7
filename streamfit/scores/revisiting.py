"""Blocks that are needed again when a result of all blocks is there: they wait on scratch and not in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import annotate, is_dask_collection, tokenize

from streamfit.run.kept_arrays import KeptArrays
from streamfit.scores.blockwise import is_lazy, name_of
from streamfit.scores.sorting import scratch_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from streamfit.run.kept_arrays import PlannedScratch

__all__ = ["with_result"]


def with_result(
    function: Callable[..., NDArray[Any]],
    *vectors: Any,
    result: Any,
    dtype: DTypeLike,
    chunks: tuple[tuple[int, ...], ...] | None = None,
) -> Any:
    """Give ``function(block, …, result)`` of each block of rows, where `result` may come from all blocks.

    A dask graph in which a block is needed before and after such a result holds all blocks at once. Here each block is
    written to scratch where all of them are many, and read again when the result is there.

    Parameters
    ----------
    function : callable
        Takes a block of each vector, and `result`; gives an array.
    *vectors : ndarray or dask.array.Array
        Of equal length; lazy ones have equal blocks, or are cut as the first one is.
    result : object
        A value, or a dask object.
    dtype : dtype
        Of what `function` gives.
    chunks : tuple of tuple of int or None
        Lengths of what `function` gives; None: as many as the rows of a block.

    Returns
    -------
    ndarray or dask.array.Array
        At once, where nothing is lazy.
    """
    waits = is_dask_collection(result)
    if not is_lazy(*vectors) and not waits:
        return function(*vectors, result)
    first = next((vector for vector in vectors if is_lazy(vector)), None)
    if first is None:
        # As a graph node of their own, in which arrays in memory would be hashed.
        first = da.from_array(vectors[0], chunks=-1)
    cut = [da.asarray(vector).rechunk(first.chunks) for vector in vectors]
    out = first.chunks if chunks is None else chunks
    name = f"{name_of(function)}-{tokenize(function, cut, result, out, np.dtype(dtype))}"
    meta = np.empty(0, dtype=dtype)
    scratch = scratch_for(first, row_nbytes=sum(vector.dtype.itemsize for vector in cut)) if waits else None
    if scratch is None:
        return da.map_blocks(_apply, function, result, *cut, name=name, dtype=dtype, chunks=out, meta=meta)
    # An annotation keeps dask from joining the two steps to one, which would wait for the result with the block.
    with annotate(streamfit="on-scratch"):
        kept = da.map_blocks(
            _keep,
            scratch,
            *cut,
            name=f"keep-{tokenize(cut)}",
            dtype=object,
            chunks=((1,) * first.numblocks[0],),
            meta=np.empty(0, dtype=object),
        )
    return da.map_blocks(_apply_kept, function, result, kept, name=name, dtype=dtype, chunks=out, meta=meta)


def _apply(function: Callable[..., NDArray[Any]], result: Any, *blocks: NDArray[Any]) -> NDArray[Any]:
    return function(*blocks, result)


def _keep(scratch: PlannedScratch, *blocks: NDArray[Any]) -> NDArray[Any]:
    box = np.empty(1, dtype=object)
    box[0] = KeptArrays.keep({str(place): block for place, block in enumerate(blocks)}, scratch=scratch)
    return box


def _apply_kept(function: Callable[..., NDArray[Any]], result: Any, box: NDArray[Any]) -> NDArray[Any]:
    kept: KeptArrays = box[0]
    return function(*[kept.read(name) for name in kept.names()], result)
