"""Passes without an order: ``reduce`` and ``map`` as dask graphs that are the same on every engine.

A task carries a `StoreRef` and partition numbers, never data. The tree of merges follows from the store
alone, so floats are added in the same order whatever runs the tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.delayed import delayed

from streamfit.errors import InvalidParameterError
from streamfit.maths.summaries.protocol import Gathering
from streamfit.options import check_count
from streamfit.plan.budget import tasks_that_fit
from streamfit.run.blas import one_blas_thread
from streamfit.run.engine import current_engine
from streamfit.store.lazy import ref_node
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask.delayed import Delayed
    from numpy.typing import DTypeLike, NDArray

    from streamfit.batch import Chunk
    from streamfit.maths.summaries.protocol import Summary
    from streamfit.plan.layout import StoreLayout
    from streamfit.run.engine import Engine
    from streamfit.run.spool import ScoreSpool
    from streamfit.store.reader import Reader, StoreRef

__all__ = ["map_array", "reduce_delayed", "reduce_store", "spool_scores", "summarising_tasks"]

StateT = TypeVar("StateT")
ResultT = TypeVar("ResultT")

_MERGE_FAN_IN = 8


def _chunk_buffer(reader: Reader) -> NDArray[Any] | None:
    """One buffer a task: its chunks are decoded into the same memory, one after the other. Sparse ones need none."""
    return (
        None if reader.is_sparse else np.empty((reader.layout.chunk_rows, reader.layout.n_features), dtype=reader.dtype)
    )


def _apply(
    function: Callable[[Any, Chunk], NDArray[Any]], model: Any, chunk: Chunk, n_outputs: int | None
) -> NDArray[Any]:
    """Call a function of the user, and refuse what NumPy would stretch over the rows."""
    values = np.asarray(function(model, chunk))
    expected = (chunk.n_rows,) if n_outputs is None else (chunk.n_rows, n_outputs)
    if values.shape != expected:
        raise InvalidParameterError(
            f"The function gave values of shape {values.shape} for rows {chunk.start} to "
            f"{chunk.stop - 1}, and {expected} is needed. Give one value for each row, or say n_outputs=."
        )
    return values


@one_blas_thread()
def _summarise(ref: StoreRef, summary: Summary[StateT, Any], partition: int) -> StateT:
    reader = open_reader(ref)
    state = summary.empty()
    buffer = _chunk_buffer(reader)
    for index in reader.layout.chunks_of(partition):
        state = summary.update(state, reader.read_chunk(index, out=buffer))
    return state


def _merge(summary: Summary[StateT, Any], states: list[StateT]) -> StateT:
    merged = states[0]
    for state in states[1:]:
        merged = summary.merge(merged, state)
    return merged


def _finalize(summary: Summary[StateT, ResultT], state: StateT) -> ResultT:
    return summary.finalize(state)


def reduce_delayed(ref: StoreRef, layout: StoreLayout, summary: Summary[StateT, ResultT]) -> Delayed:
    """Give the result of a summary over all rows as a dask object.

    Parameters
    ----------
    ref : StoreRef
        The store as it was opened.
    layout : StoreLayout
        Its geometry.
    summary : Summary
        What is to be known about the rows.

    Returns
    -------
    Delayed
        The finalized result. Building it reads nothing.
    """
    token = tokenize(ref, summary)
    shared = delayed(summary, pure=True, traverse=False, name=f"summary-{token}")
    rows = ref_node(ref)
    states = [
        delayed(_summarise)(rows, shared, partition, dask_key_name=f"summarise-{token}-{partition}")
        for partition in range(layout.n_partitions)
    ]
    level = 0
    while len(states) > 1:
        level += 1
        states = [
            delayed(_merge)(
                shared,
                states[i : i + _MERGE_FAN_IN],
                dask_key_name=f"merge-{token}-{level}-{i // _MERGE_FAN_IN}",
            )
            for i in range(0, len(states), _MERGE_FAN_IN)
        ]
    result: Delayed = delayed(_finalize)(shared, states[0], dask_key_name=f"finalize-{token}")
    return result


def _n_waiting_states(n_partitions: int) -> int:
    n_levels = 1
    while _MERGE_FAN_IN**n_levels < n_partitions:
        n_levels += 1
    return min(n_partitions, (_MERGE_FAN_IN - 1) * n_levels + 1)


def reduce_store(
    ref: StoreRef,
    layout: StoreLayout,
    summary: Summary[StateT, ResultT],
    *,
    memory_limit: int | None,
    engine: Engine | None,
) -> ResultT:
    """Compute a summary over all rows inside a memory limit in bytes.

    Raises
    ------
    BudgetError
        Not even one chunk and one state fit the limit.
    """
    engine = engine or current_engine()
    n_tasks = summarising_tasks(layout, summary, memory_limit=memory_limit, engine=engine)
    (result,) = engine.compute(reduce_delayed(ref, layout, summary), n_tasks=n_tasks)
    return result  # type: ignore[no-any-return]  # dask has no types


def summarising_tasks(
    layout: StoreLayout, summary: Summary[Any, Any], *, memory_limit: int | None, engine: Engine
) -> int:
    """Give the number of tasks that `reduce_store` runs at once inside a memory limit in bytes.

    Raises
    ------
    BudgetError
        Not even one chunk and one state fit the limit.
    """
    return tasks_that_fit(
        # Encoded and decoded chunk, and a state that is updated while another one waits for its merge.
        task_nbytes=3 * layout.chunk_nbytes + layout.aside_nbytes + 2 * summary.state_nbytes,
        # On each level of the tree of merges all states but one may wait for the last one.
        shared_nbytes=_n_waiting_states(layout.n_partitions) * summary.state_nbytes
        + (summary.rows_nbytes if isinstance(summary, Gathering) else 0),
        n_workers=engine.n_workers,
        memory_limit=memory_limit,
        remedy="Raise memory_limit, or write the store with a smaller chunk_rows.",
    )


@one_blas_thread()
def _map_partition(
    partition: NDArray[np.int64],
    ref: StoreRef,
    model: Any,
    *,
    function: Callable[[Any, Chunk], NDArray[Any]],
    out_dtype: np.dtype[Any],
    n_outputs: int | None,
) -> NDArray[Any]:
    reader = open_reader(ref)
    layout = reader.layout
    first, last = layout.partition_bounds(int(partition[0]))
    out = np.empty((last - first,) if n_outputs is None else (last - first, n_outputs), dtype=out_dtype)
    buffer = _chunk_buffer(reader)
    for index in layout.chunks_of(int(partition[0])):
        chunk = reader.read_chunk(index, out=buffer)
        out[chunk.start - first : chunk.stop - first] = _apply(function, model, chunk, n_outputs)
    return out


def map_array(
    ref: StoreRef,
    layout: StoreLayout,
    function: Callable[[Any, Chunk], NDArray[Any]],
    *,
    model: Any,
    dtype: DTypeLike,
    n_outputs: int | None = None,
) -> da.Array:
    """Apply a function to every chunk, lazily, in row order.

    Parameters
    ----------
    ref : StoreRef
        The store as it was opened.
    layout : StoreLayout
        Its geometry.
    function : callable
        ``function(model, chunk)`` gives ``(rows of the chunk,)``, or ``(rows of the chunk, n_outputs)``. It
        is not called before something is computed.
    model : object
        First argument of `function`; a cluster receives it once a worker, not once a task.
    dtype : dtype
        Of the result.
    n_outputs : int or None, default=None
        Columns of the result, or None for one value a row.

    Returns
    -------
    dask.array.Array
        ``(n_rows,)`` or ``(n_rows, n_outputs)``, one block a partition. A result of another shape raises an
        InvalidParameterError when it is computed.

    Raises
    ------
    InvalidParameterError
        `n_outputs` is no positive integer.
    """
    if n_outputs is not None:
        n_outputs = check_count("n_outputs", n_outputs, least=1)
    dtype = np.dtype(dtype)
    partitions = da.arange(layout.n_partitions, chunks=1, dtype=np.int64)
    rows = layout.partition_rows()
    shipped = delayed(model, pure=True, traverse=False, name=f"model-{tokenize(model)}")
    mapped: da.Array = da.map_blocks(
        _map_partition,
        partitions,
        ref_node(ref),
        shipped,
        function=function,
        out_dtype=dtype,
        n_outputs=n_outputs,
        dtype=dtype,
        chunks=(rows,) if n_outputs is None else (rows, (n_outputs,)),
        new_axis=None if n_outputs is None else 1,
        meta=np.empty((0,) if n_outputs is None else (0, n_outputs), dtype=dtype),
    )
    return mapped


@one_blas_thread()
def _spool_partition(
    ref: StoreRef,
    spool: ScoreSpool,
    function: Callable[[Any, Chunk], NDArray[np.float64]],
    model: Any,
    partition: int,
) -> int:
    reader = open_reader(ref)
    buffer = _chunk_buffer(reader)
    n_rows = 0
    for index in reader.layout.chunks_of(partition):
        chunk = reader.read_chunk(index, out=buffer)
        spool.write(chunk.start, _apply(function, model, chunk, None))
        n_rows += chunk.n_rows
    return n_rows


def spool_scores(
    ref: StoreRef,
    layout: StoreLayout,
    function: Callable[[Any, Chunk], NDArray[np.float64]],
    *,
    model: Any,
    spool: ScoreSpool,
    task_nbytes: int,
    memory_limit: int | None,
    engine: Engine | None,
) -> None:
    """Write one score a row to a spool, in one pass.

    Parameters
    ----------
    ref, layout, function, model
        As in `map_array`.
    spool : ScoreSpool
        Where the scores go; each task writes its own rows.
    task_nbytes : int
        Bytes that `function` takes for one chunk, beside the chunk itself.
    memory_limit : int or None
        Limit in bytes.
    engine : Engine or None
        Where it runs; None: the current engine.
    """
    engine = engine or current_engine()
    n_tasks = tasks_that_fit(
        task_nbytes=3 * layout.chunk_nbytes + layout.aside_nbytes + task_nbytes,
        shared_nbytes=0,
        n_workers=engine.n_workers,
        memory_limit=memory_limit,
        remedy="Raise memory_limit, or write the store with a smaller chunk_rows.",
    )
    shipped = delayed(model, pure=True, traverse=False, name=f"model-{tokenize(model)}")
    rows = ref_node(ref)
    tasks = [
        delayed(_spool_partition, pure=False)(rows, spool, function, shipped, partition)
        for partition in range(layout.n_partitions)
    ]
    engine.compute(*tasks, n_tasks=n_tasks)
