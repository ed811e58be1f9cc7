"""Lazy arrays one block after another, in row order, a few blocks in memory at a time."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.core import flatten, istask
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import Alias, Task, TaskRef

from streamfit.run.engine import current_engine
from streamfit.run.kept_arrays import KeptArrays, PlannedScratch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import dask.array as da
    from numpy.typing import NDArray

__all__ = ["blocks_in_order"]

_BLOCKS_A_WORKER = 4
"""A block of results is small beside what it is made from: several a worker keep all of them busy."""
_HELD_NBYTES = 64 * 2**20
"""Most bytes of the blocks that are computed together, if not one a worker is more."""
_VALUES = "values"


def blocks_in_order(arrays: Sequence[da.Array], *, first: int = 0) -> Iterator[tuple[NDArray[Any], ...]]:
    """Compute lazy arrays together and give them block by block.

    Parameters
    ----------
    arrays : sequence of dask.array.Array, (n_rows,) or (n_rows, n_outputs)
        With the same blocks of known, whole rows.
    first : int
        Number of the first block to give.

    Yields
    ------
    tuple of ndarray
        A block of each array. Blocks are computed in groups, by the current engine, while the caller waits. Where they
        share a task, such as the lazy threshold of flags, each group would run it again: then all blocks are computed
        at once and wait on scratch.
    """
    sizes = arrays[0].chunks[0]
    engine = current_engine()
    block_nbytes = max(sizes, default=0) * sum(_row_nbytes(array) for array in arrays)
    fitting = max(engine.n_workers, _HELD_NBYTES // max(1, block_nbytes))
    at_once = min(_BLOCKS_A_WORKER * engine.n_workers, fitting)
    if len(sizes) - first > at_once and _shares_work(arrays):
        yield from _through_scratch(arrays, first)
        return
    for start in range(first, len(sizes), at_once):
        group = range(start, min(start + at_once, len(sizes)))
        computed = list(engine.compute(*[array.blocks[block] for block in group for array in arrays]))
        computed.reverse()
        for _ in group:
            # Taken out of the list, so that a block goes when the caller is done with it.
            yield tuple(np.asarray(computed.pop()) for _ in arrays)


def _row_nbytes(array: da.Array) -> int:
    return int(array.dtype.itemsize * np.prod(array.shape[1:], dtype=np.int64))


def _shares_work(arrays: Sequence[da.Array]) -> bool:
    """Whether the first and the last block wait for one task: what travels to tasks, such as a model, is none."""
    first, last = (_nodes(arrays, block) for block in (0, arrays[0].numblocks[0] - 1))
    return any(_is_work(last[key]) for key in first.keys() & last.keys())


def _is_work(node: Any) -> bool:
    return bool(istask(node)) and not isinstance(node, Alias)


def _nodes(arrays: Sequence[da.Array], block: int) -> dict[Any, Any]:
    nodes: dict[Any, Any] = {}
    for array in arrays:
        one = array.blocks[block]
        nodes.update(one.__dask_graph__().cull(list(one.__dask_keys__())).to_dict())
    return nodes


def _through_scratch(arrays: Sequence[da.Array], first: int) -> Iterator[tuple[NDArray[Any], ...]]:
    scratch = PlannedScratch.plan()
    kept = list(current_engine().compute(*_kept_blocks(arrays, first, scratch)))
    kept.reverse()
    while kept:
        block = [kept.pop() for _ in arrays]
        yield tuple(
            piece.read(_VALUES).reshape(-1, *array.shape[1:]) for piece, array in zip(block, arrays, strict=True)
        )


def _kept_blocks(arrays: Sequence[da.Array], first: int, scratch: PlannedScratch) -> list[Delayed]:
    """Give a task for each block of each array that writes it to scratch.

    What else needs a block of scores, such as the threshold of the flags beside them, reads it from there: dask would
    put off the writing, which nothing waits for, and hold the blocks until then.
    """
    whole = [array if array.ndim == 1 else array.rechunk({1: -1}) for array in arrays]
    blocks = [list(flatten(array.__dask_keys__())) for array in whole]
    merged = HighLevelGraph.merge(*[array.__dask_graph__() for array in whole])
    wanted = [key for keys in blocks for key in keys[first:]]
    graph = dict(whole[0].__dask_optimize__(merged, wanted))
    name = f"kept-{uuid.uuid4().hex}"
    tasks = []
    for place, (array, keys) in enumerate(zip(whole, blocks, strict=True)):
        again = not _shares_work([array])
        for number, key in enumerate(keys[first:]):
            kept, made = f"{name}-{place}-{number}", f"{name}-{place}-{number}-made"
            if again and _is_work(graph[key]):
                # A task of dask's older kind, a tuple, does not know its key.
                graph[made] = graph[key].substitute({}, key=made) if isinstance(graph[key], Task) else graph[key]
                graph[key] = Task(key, _read, TaskRef(kept), array.ndim, array.shape[-1])
            graph[kept] = Task(kept, _kept, scratch, TaskRef(made if made in graph else key))
            tasks.append((number, place, kept))
    together = HighLevelGraph.from_collections(name, graph, dependencies=[])
    return [Delayed(kept, together, layer=name) for _, _, kept in sorted(tasks)]


def _kept(scratch: PlannedScratch, block: NDArray[Any]) -> KeptArrays:
    return KeptArrays.keep({_VALUES: block.reshape(-1)}, scratch=scratch)


def _read(kept: KeptArrays, ndim: int, n_columns: int) -> NDArray[Any]:
    values = kept.read(_VALUES)
    return values if ndim == 1 else values.reshape(-1, n_columns)
