"""The ordered stream: the batches of a plan, checked against the memory limit before the first read."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from streamfit.options import check_count
from streamfit.plan.budget import stream_budget
from streamfit.run.read_ahead import batches_of
from streamfit.run.windows import visits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from streamfit.batch import Batch
    from streamfit.plan.epoch import EpochPlan
    from streamfit.store.reader import Reader

__all__ = ["stream_batches", "stream_epochs", "stream_segment"]


def stream_batches(
    reader: Reader, plan: EpochPlan, *, start_step: int, prefetch: int, memory_limit: int | None
) -> Generator[Batch]:
    """Give the batches of one epoch; see `stream_epochs`.

    Raises
    ------
    InvalidParameterError
        There is no such step.
    """
    check_count("start_step", start_step, least=0, most=len(plan) - 1)
    return stream_segment(
        reader, plan, start_step=start_step, stop_step=len(plan), prefetch=prefetch, memory_limit=memory_limit
    )


def stream_segment(
    reader: Reader,
    plan: EpochPlan,
    *,
    start_step: int,
    stop_step: int,
    prefetch: int,
    memory_limit: int | None,
) -> Generator[Batch]:
    """Give the batches from `start_step` (inclusive) to `stop_step` (exclusive); see `stream_epochs`."""
    plan.step_bounds(start_step)
    plan.step_bounds(stop_step - 1)
    _check_budget(reader, plan, prefetch, memory_limit, n_epochs=1)
    return batches_of(reader, visits(plan, start_step, stop_step), prefetch=prefetch)


def stream_epochs(
    reader: Reader, plans: Iterable[EpochPlan], *, start_step: int, prefetch: int, memory_limit: int | None
) -> Generator[Batch]:
    """Give the batches of consecutive epochs in the order of their plans.

    Windows are read ahead across the edge of an epoch, so that it costs no wait. At most ``1 + prefetch``
    windows exist at any time, in buffers that are used again.

    Parameters
    ----------
    reader : Reader
        The store, with verified reads.
    plans : iterable of EpochPlan
        One for each epoch, at least one, alike but for their epoch. It is consumed ahead of the batches.
    start_step : int
        Step of the first epoch to begin with; the steps before it are not read.
    prefetch : int
        Windows read ahead by a thread, which the one that asks for batches helps where it would wait; 0: no thread.
    memory_limit : int or None
        Limit in bytes that the projected memory is checked against.

    Returns
    -------
    generator of Batch
        Closing it ends the thread and frees the buffers.

    Raises
    ------
    BudgetError
        The projected memory exceeds `memory_limit`; nothing was read.
    StoreCorruptError
        From the iterator: a chunk is not what was committed.
    """
    plans = iter(plans)
    # As many epochs as can be in memory at once, even with a window each.
    first, *ahead = islice(plans, 1 + prefetch)
    first.step_bounds(start_step)
    _check_budget(reader, first, prefetch, memory_limit, n_epochs=1 + len(ahead))
    later = chain.from_iterable(visits(plan, 0, len(plan)) for plan in chain(ahead, plans))
    return batches_of(reader, chain(visits(first, start_step, len(first)), later), prefetch=prefetch)


def _check_budget(reader: Reader, plan: EpochPlan, prefetch: int, memory_limit: int | None, *, n_epochs: int) -> None:
    stream_budget(
        plan.layout,
        batch_size=plan.batch_size,
        window_chunks=plan.window_chunks,
        prefetch=prefetch,
        label_nbytes=reader.label_nbytes,
        n_epochs=n_epochs,
        sampling=plan.sampling,
    ).check(memory_limit, "Raise memory_limit, or lower window or prefetch.")
