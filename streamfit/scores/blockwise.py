"""What is computed of each block of scores, and one result of all: at once for arrays, lazily for dask arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.delayed import delayed

from streamfit.scores.checked import block_starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

__all__ = ["Blocks", "is_lazy", "joined", "lazy_blocks", "per_block"]

_MERGED_AT_ONCE = 16

Blocks = list[Any]
"""What was computed of each block, in order: values, or dask objects."""


def is_lazy(*values: Any) -> bool:
    """Tell whether one of some values is a dask array."""
    return any(isinstance(value, da.Array) for value in values)


def per_block(function: Callable[..., Any], *vectors: Any, arguments: tuple[Any, ...] = ()) -> Blocks:
    """Call ``function(block, …, start, *arguments)`` for each block of rows.

    Parameters
    ----------
    function : callable
        Takes a block of each vector (None for a vector that is None), the number of its first row, and `arguments`;
        gives any object. Where a vector is lazy it runs in a task that reads, checks and calls in one go, and the
        block is not held any longer than that.
    *vectors : ndarray, dask.array.Array or None
        Of equal length. They are cut as the first lazy one is; without a lazy one all rows are one block.
    arguments : tuple
        Small values, equal for all blocks; a dask object among them is waited for.

    Returns
    -------
    list
        One value or dask object a block.
    """
    if not is_lazy(*vectors):
        return [function(*vectors, 0, *arguments)]
    # Each a task of its own: what follows asks for the values of all blocks, and must not take in their making.
    return list(lazy_blocks(function, *vectors, arguments=arguments).to_delayed(optimize_graph=False).ravel())


def lazy_blocks(function: Callable[..., Any], *vectors: Any, arguments: tuple[Any, ...] = ()) -> da.Array:
    """Give what `per_block` computes of lazy vectors as a dask array of objects, one a block."""
    first = next(vector for vector in vectors if isinstance(vector, da.Array))
    cut = [None if vector is None else da.asarray(vector).rechunk(first.chunks) for vector in vectors]
    present = [vector is not None for vector in vectors]
    blocks: da.Array = da.map_blocks(
        _call,
        function,
        tuple(present),
        block_starts(first),
        arguments,
        *[vector for vector in cut if vector is not None],
        name=f"{_name(function)}-{tokenize(function, present, arguments, *cut)}",
        dtype=object,
        chunks=((1,) * first.numblocks[0],),
        meta=np.empty(0, dtype=object),
    )
    return blocks


def joined(
    blocks: Blocks,
    function: Callable[..., Any],
    *,
    arguments: tuple[Any, ...] = (),
    merge: Callable[[Any, Any], Any] | None = None,
    shape: tuple[int, ...] = (),
    dtype: DTypeLike = np.float64,
) -> Any:
    """Give ``function(values, *arguments)`` of what was computed of all blocks.

    Parameters
    ----------
    blocks : list
        What `per_block` gave, or several of them together.
    function : callable
        Takes the list of all values, in order.
    arguments : tuple
        Passed on; a dask object among them is waited for.
    merge : callable or None
        Joins two neighbouring values: for values whose number must not add up in memory they are merged in a fixed
        tree, and `function` gets a list of one.
    shape : tuple of int
        Of the result.
    dtype : dtype
        Of the result.

    Returns
    -------
    object or dask.array.Array
        What `function` gives; of lazy blocks an array of `shape` and `dtype`.
    """
    if not any(hasattr(value, "__dask_graph__") for value in (*blocks, *arguments)):
        values = blocks if merge is None else [_merged(blocks, merge)]
        return function(values, *arguments)
    if merge is not None:
        blocks = _tree(blocks, merge)
    key = f"{_name(function)}-{tokenize(function, blocks, arguments, shape, np.dtype(dtype))}"
    result = delayed(_finish)(function, blocks, arguments, np.dtype(dtype), dask_key_name=key)
    meta = np.empty((0,) * len(shape), dtype=dtype)
    return da.from_delayed(result, shape=shape, dtype=dtype, meta=meta, name=f"array-{key}")


def _tree(blocks: Blocks, merge: Callable[[Any, Any], Any]) -> Blocks:
    while len(blocks) > 1:
        groups = [blocks[i : i + _MERGED_AT_ONCE] for i in range(0, len(blocks), _MERGED_AT_ONCE)]
        blocks = [
            delayed(_merged_block)(group, merge, dask_key_name=f"merged-{tokenize(group, merge)}") for group in groups
        ]
    return blocks


def _merged(values: list[Any], merge: Callable[[Any, Any], Any]) -> Any:
    merged = values[0]
    for value in values[1:]:
        merged = merge(merged, value)
    return merged


def _merged_block(blocks: list[Any], merge: Callable[[Any, Any], Any]) -> Any:
    return _boxed(_merged([_unboxed(block) for block in blocks], merge))


def _call(
    function: Callable[..., Any],
    present: tuple[bool, ...],
    starts: Any,
    arguments: tuple[Any, ...],
    *blocks: Any,
    block_id: tuple[int],
) -> Any:
    given = iter(blocks)
    vectors = [next(given) if there else None for there in present]
    return _boxed(function(*vectors, int(starts[block_id[0]]), *arguments))


def _finish(function: Callable[..., Any], blocks: list[Any], arguments: tuple[Any, ...], dtype: np.dtype[Any]) -> Any:
    result = function([_unboxed(block) for block in blocks], *arguments)
    return result if dtype.hasobject else np.asarray(result, dtype=dtype)[()]


def _boxed(value: Any) -> Any:
    box = np.empty(1, dtype=object)
    box[0] = value
    return box


def _unboxed(box: Any) -> Any:
    return box[0]


def _name(function: Any) -> str:
    # A partial has no name.
    return str(getattr(function, "__name__", type(function).__name__)).strip("_")
