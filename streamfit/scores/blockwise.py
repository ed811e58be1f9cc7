"""What is computed of each block of scores, and one result of all: at once for arrays, lazily for dask arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from streamfit.scores.checked import block_starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

__all__ = ["MERGED_AT_ONCE", "Blocks", "is_lazy", "joined", "name_of", "per_block", "together"]

MERGED_AT_ONCE = 16
"""Values that one task of a tree merges."""

Blocks = Any
"""What was computed of each block, in order: values, or a dask array of objects with one in each block."""


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
    list or dask.array.Array of objects
        One value a block.
    """
    if not is_lazy(*vectors):
        return [function(*vectors, 0, *arguments)]
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
        name=f"{name_of(function)}-{tokenize(function, present, arguments, *cut)}",
        dtype=object,
        chunks=((1,) * first.numblocks[0],),
        meta=np.empty(0, dtype=object),
    )
    return blocks


def together(*several: Blocks) -> Blocks:
    """Give the blocks of several vectors, one vector after the other, as `joined` takes them."""
    if not any(map(is_dask_collection, several)):
        return [value for blocks in several for value in blocks]
    concatenated: da.Array = da.concatenate(
        [blocks if is_dask_collection(blocks) else _as_lazy(blocks) for blocks in several]
    )
    return concatenated


def joined(
    blocks: Blocks,
    function: Callable[..., Any],
    *,
    arguments: tuple[Any, ...] = (),
    merge: Callable[[Any, Any], Any] | None = None,
    shape: tuple[float, ...] = (),
    dtype: DTypeLike = np.float64,
) -> Any:
    """Give ``function(values, *arguments)`` of what was computed of all blocks.

    Parameters
    ----------
    blocks : list
        What `per_block` gave, or `together`.
    function : callable
        Takes the list of all values, in order.
    arguments : tuple
        Passed on; a dask object among them is waited for.
    merge : callable or None
        Joins two neighbouring values: for values whose number must not add up in memory they are merged in a fixed
        tree, and `function` gets a list of one.
    shape : tuple of int
        Of the result; NaN for a length that is not known before.
    dtype : dtype
        Of the result.

    Returns
    -------
    object or dask.array.Array
        What `function` gives; of lazy blocks an array of `shape` and `dtype`.
    """
    lazy = is_dask_collection(blocks) or any(map(is_dask_collection, arguments))
    if not lazy:
        values = blocks if merge is None else [_merged(blocks, merge)]
        return function(values, *arguments)
    if not is_dask_collection(blocks):
        blocks = _as_lazy(blocks)
    if merge is not None:
        blocks = _tree(blocks, merge)
    name = f"{name_of(function)}-{tokenize(function, blocks, arguments, shape, np.dtype(dtype))}"
    given = [collection for collection in arguments if is_dask_collection(collection)]
    key = (name, *(0,) * len(shape))
    # The graph is written down, since `dask.delayed` would make a graph of each block and join them.
    task = (_finish, function, blocks.__dask_keys__(), [_key_of(argument) for argument in arguments], np.dtype(dtype))
    graph = _graph(name, {key: task}, [blocks, *given])
    meta = np.empty((0,) * len(shape), dtype=dtype)
    return da.Array(graph, name, tuple((length,) for length in shape), meta=meta, shape=shape)


def _graph(name: str, layer: dict[Any, Any], dependencies: list[Any]) -> HighLevelGraph:
    return HighLevelGraph.from_collections(name, layer, dependencies=dependencies)


def _key_of(argument: Any) -> Any:
    """Give the place of a lazy argument in a graph, and any other one as a value that is no task."""
    return next(flatten(argument.__dask_keys__())) if is_dask_collection(argument) else (_held, _Held(argument))


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A value in a graph that dask does not look into."""

    value: Any


def _held(held: _Held) -> Any:
    return held.value


def _as_lazy(values: list[Any]) -> da.Array:
    name = f"values-{tokenize(values)}"
    layer = {(name, place): (_boxed, (_held, _Held(value))) for place, value in enumerate(values)}
    graph = _graph(name, layer, [])
    return da.Array(graph, name, ((1,) * len(values),), meta=np.empty(0, dtype=object))


def _tree(blocks: da.Array, merge: Callable[[Any, Any], Any]) -> da.Array:
    while blocks.numblocks[0] > 1:
        name = f"merged-{tokenize(blocks, merge)}"
        keys = blocks.__dask_keys__()
        groups = [keys[start : start + MERGED_AT_ONCE] for start in range(0, len(keys), MERGED_AT_ONCE)]
        layer = {(name, place): (_merged_block, group, merge) for place, group in enumerate(groups)}
        graph = _graph(name, layer, [blocks])
        blocks = da.Array(graph, name, ((1,) * len(groups),), meta=np.empty(0, dtype=object))
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


def _finish(function: Callable[..., Any], blocks: list[Any], arguments: list[Any], dtype: np.dtype[Any]) -> Any:
    result = function([_unboxed(block) for block in blocks], *arguments)
    return result if dtype.hasobject else np.asarray(result, dtype=dtype)[()]


def _boxed(value: Any) -> Any:
    box = np.empty(1, dtype=object)
    box[0] = value
    return box


def _unboxed(box: Any) -> Any:
    return box[0]


def name_of(function: Any) -> str:
    """Give a name for the tasks of a function, which may be a partial."""
    function = getattr(function, "func", function)
    return str(getattr(function, "__name__", type(function).__name__)).strip("_")
