"""How many chunks a window holds, and how many windows are read ahead: from the store and an explicit limit alone."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from streamfit.options import check_count
from streamfit.plan.budget import stream_budget
from streamfit.plan.default_window import default_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamfit.plan.budget import Budget
    from streamfit.plan.layout import StoreLayout
    from streamfit.plan.sampling import RowSampling
    from streamfit.plan.shuffle_quality import ChunkCorrelation

__all__ = ["resolve_prefetch", "resolve_window"]

_DEFAULT_PREFETCH = 1


def resolve_window(
    layout: StoreLayout,
    *,
    batch_size: int,
    requested: int | None,
    memory_limit: int | None,
    prefetch: int | None,
    label_nbytes: int,
    n_epochs: int,
    correlation: ChunkCorrelation | None,
    sampling: RowSampling | None,
) -> int:
    """Choose the window once, from the store and an explicit limit alone.

    The default is what `default_window` wants, or as many chunks as fit the limit.

    Neither the memory of the machine nor the number of epochs enters the choice: they would change the order
    of the rows. A default window leaves room for reading ahead across the edge of an epoch, also where there
    is one epoch, so that a plan and a fit with the same limit and prefetch have the same window. Where even the
    smallest one leaves no such room, and nobody asked to read ahead, it is the largest that fits alone.

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
    prefetch : int or None
        Windows read ahead; None where that is for `resolve_prefetch` to choose.
    label_nbytes, n_epochs : int
        As in `stream_budget`. The epochs decide only whether the window is refused.
    correlation : ChunkCorrelation or None
        Of the labels, by which a default is chosen; None where there are none, or where the order is kept.
    sampling : RowSampling or None
        As in `stream_budget`.

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
    ahead = (_DEFAULT_PREFETCH, 0) if prefetch is None else (check_count("prefetch", prefetch, least=0),)
    if requested is not None:
        check_count("window", requested, least=1)

    def budget(window: int, n_ahead: int, epochs: int) -> Budget:
        return stream_budget(
            layout,
            batch_size=batch_size,
            window_chunks=window,
            prefetch=n_ahead,
            label_nbytes=label_nbytes,
            n_epochs=epochs,
            sampling=sampling,
        )

    def fits(window: int, n_ahead: int, epochs: int) -> bool:
        return memory_limit is None or budget(window, n_ahead, epochs).nbytes <= memory_limit

    least = layout.chunks_for_rows(batch_size)
    if requested is not None:
        window = min(requested, layout.n_chunks)
    else:
        wanted = default_window(
            layout, batch_size=batch_size, limited=memory_limit is not None, correlation=correlation
        )
        choices = range(least, wanted + 1)

        def n_fitting(n_ahead: int) -> int:
            # Ascending in cost, since so many epochs have a window for each that is read ahead.
            return bisect_left(choices, 1, key=lambda window: not fits(window, n_ahead, 1 + n_ahead))

        window = next((choices[n - 1] for n in map(n_fitting, ahead) if n), least)
    if not fits(window, ahead[-1], n_epochs):
        largest = _largest_below(
            window, lambda w: fits(w, ahead[-1], n_epochs), n_chunks=layout.n_chunks, most_held=1 + ahead[-1]
        )
        remedy = (
            f"The largest window that fits is {largest} chunks ({layout.rows_of_chunks(largest)} rows)."
            if largest >= least
            else "Raise memory_limit, lower batch_size, or write the store with a smaller chunk_rows."
        )
        fewer = max((n for n in range(ahead[-1]) if fits(window, n, n_epochs)), default=None)
        if fewer is not None:
            remedy += f" The largest prefetch that fits with a window of {window} is {fewer}."
        budget(window, ahead[-1], n_epochs).check(memory_limit, remedy)
    return window


def _largest_below(stop: int, fits: Callable[[int], bool], *, n_chunks: int, most_held: int) -> int:
    """Give the largest window below `stop` that fits, 0 where none does, in few tries."""
    # The cost grows with the window, but falls where an epoch has a window less to be held.
    end = stop
    for n_windows in range(1, min(most_held, n_chunks) + 1):
        start = 1 if n_windows == most_held else -(-n_chunks // n_windows)
        if start < end and fits(start):
            return start + bisect_left(range(start + 1, end), 1, key=lambda w: not fits(w))
        end = min(end, start)
    return 0


def resolve_prefetch(
    layout: StoreLayout,
    *,
    batch_size: int,
    window_chunks: int,
    requested: int | None,
    memory_limit: int | None,
    label_nbytes: int,
    n_epochs: int,
    sampling: RowSampling | None,
) -> int:
    """Choose how many windows are read ahead; it never changes the order of the rows.

    Parameters
    ----------
    layout : StoreLayout
        Geometry of the store.
    batch_size, window_chunks : int
        Of the plan.
    requested : int or None
        Windows that the user asked for. None: 1, or 0 where only that fits the limit.
    memory_limit : int or None
        Limit in bytes that the user gave, or None.
    label_nbytes, n_epochs, sampling
        As in `stream_budget`.

    Returns
    -------
    int
        Windows read ahead.

    Raises
    ------
    BudgetError
        The number that was asked for does not fit, and the message names the largest that does; or none fits.
    """

    def budget(prefetch: int) -> Budget:
        return stream_budget(
            layout,
            batch_size=batch_size,
            window_chunks=window_chunks,
            prefetch=prefetch,
            label_nbytes=label_nbytes,
            n_epochs=n_epochs,
            sampling=sampling,
        )

    most = _DEFAULT_PREFETCH if requested is None else check_count("prefetch", requested, least=0)
    if memory_limit is None or budget(most).nbytes <= memory_limit:
        return most
    # Each window that is read ahead costs as much, up to as many as there are.
    alone = budget(0)
    if alone.nbytes > memory_limit:
        alone.check(memory_limit, "Raise memory_limit, or lower window or batch_size.")
    largest = 0
    while budget(largest + 1).nbytes <= memory_limit:
        largest += 1
    if requested is not None:
        budget(most).check(memory_limit, f"The largest prefetch that fits is {largest}, or lower window.")
    return largest
