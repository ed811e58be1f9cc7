"""How many chunks are held in memory and shuffled together: chosen once, from the store and an explicit limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamfit.options import check_count
from streamfit.plan.budget import stream_budget

if TYPE_CHECKING:
    from streamfit.plan.budget import Budget
    from streamfit.plan.layout import StoreLayout

__all__ = ["resolve_window"]

_DEFAULT_WINDOW_CHUNKS = 16
_DEFAULT_WINDOW_NBYTES = 256 * 2**20
_MAX_SPARSE_WINDOW_CHUNKS = 64
"""Chunks of a view may hold few rows and cost whole stored chunks to read: windows of more would take long to begin."""


def resolve_window(
    layout: StoreLayout,
    *,
    batch_size: int,
    requested: int | None,
    memory_limit: int | None,
    prefetch: int,
    label_nbytes: int,
    n_epochs: int = 1,
) -> int:
    """Choose the window once, from the store and an explicit limit alone.

    Neither the memory of the machine nor the number of epochs enters the choice: they would change the order
    of the rows. A default window leaves room for reading ahead across the edge of an epoch, also where there
    is one epoch, so that a plan and a fit with the same limit and prefetch have the same window.

    Parameters
    ----------
    layout : StoreLayout
        Geometry of the store.
    batch_size : int
        Rows of a batch; the window holds at least one.
    requested : int or None
        Chunks that the user asked for, or None for the default.
    memory_limit : int or None
        Limit in bytes that the user gave, or None.
    prefetch, label_nbytes, n_epochs : int
        As in `stream_budget`. The epochs decide only whether the window is refused.

    Returns
    -------
    int
        Chunks in a window.

    Raises
    ------
    InvalidParameterError
        A parameter is out of its range.
    BudgetError
        The window, or the smallest possible one, does not fit; the message names the largest that does.
    """
    check_count("batch_size", batch_size, least=1)
    check_count("prefetch", prefetch, least=0)
    if requested is not None:
        check_count("window", requested, least=1)

    def budget(window: int, epochs: int) -> Budget:
        return stream_budget(
            layout,
            batch_size=batch_size,
            window_chunks=window,
            prefetch=prefetch,
            label_nbytes=label_nbytes,
            n_epochs=epochs,
        )

    def fits(window: int, epochs: int) -> bool:
        return memory_limit is None or budget(window, epochs).nbytes <= memory_limit

    least = layout.chunks_for_rows(batch_size)
    if requested is not None:
        window = min(requested, layout.n_chunks)
    else:
        affordable = layout.chunks_within_rows(_DEFAULT_WINDOW_NBYTES // layout.row_nbytes)
        window = min(max(least, min(_usual_window(layout), affordable)), layout.n_chunks)
        while window > least and not fits(window, 1 + prefetch):
            window -= 1
    if not fits(window, n_epochs):
        largest = max((w for w in range(1, window) if fits(w, n_epochs)), default=0)
        remedy = (
            f"The largest window that fits is {largest} chunks ({layout.rows_of_chunks(largest)} rows)."
            if largest >= least
            else "Raise memory_limit, lower batch_size, or write the store with a smaller chunk_rows."
        )
        budget(window, n_epochs).check(memory_limit, remedy)
    return window


def _usual_window(layout: StoreLayout) -> int:
    """Chunks of a default window: in a view, as many as hold the rows of that many stored ones, within reason."""
    stored_rows = max(layout.chunk_rows, layout.aside_rows)
    same_rows = layout.chunks_for_rows(_DEFAULT_WINDOW_CHUNKS * stored_rows)
    return max(_DEFAULT_WINDOW_CHUNKS, min(same_rows, _MAX_SPARSE_WINDOW_CHUNKS))
