"""Rows written once as the fitted transformers of a pipeline give them, and a fit that reads those."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sklearn.pipeline import Pipeline

from streamfit.errors import BudgetError
from streamfit.feature_store import FeatureStore
from streamfit.inputs import transformed_rows
from streamfit.plan.window import resolve_prefetch
from streamfit.store.row_sampling import stored_sampling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from streamfit.incremental.partial_fit import PartialFit
    from streamfit.inputs import Cache
    from streamfit.plan.layout import StoreLayout
    from streamfit.run.segments import StreamTask
    from streamfit.store.scratch import Scratch

__all__ = ["cached_prefetch", "over_cached_rows", "written_layout"]


def over_cached_rows(
    task: StreamTask,
    learner: PartialFit,
    links: Sequence[Any],
    *,
    prefetch: int | None,
    cache: Cache,
    scratch: Scratch,
) -> StreamTask:
    """Write the rows of a task as transformers give them, and give the task that trains on those.

    The window has as many chunks and a chunk as many rows as before, so that the order of the rows stays the same.

    Parameters
    ----------
    task : StreamTask
        What is streamed otherwise.
    learner : PartialFit
        The learner of that task.
    links : sequence of transformers
        Fitted: those before the estimator that learns.
    prefetch : int or None
        Windows read ahead, as the user asked for it: rows that become wider may leave room for fewer.
    cache : bool or path
        Where the rows are written; those that are there are used if they are the same.
    scratch : Scratch
        Where they are written for ``cache=True``.

    Raises
    ------
    StoreExistsError
        Something else is at the path.
    BudgetError
        `memory_limit` is too small for windows of the rows that are written. It is raised before anything is.
    """
    store = FeatureStore(task.ref)
    prefix = Pipeline([(str(position), link) for position, link in enumerate(links)])
    fitting = cached_prefetch(task, written_layout(store, prefix), store, requested=prefetch)
    rows = transformed_rows(store, prefix, cache=cache, scratch=scratch, memory_limit=task.memory_limit)
    # Labels and weights are read where they were, since the plan may outlive the cache.
    by = task.plan.sampling
    sampling = None if by is None else stored_sampling(task.ref, by.name, layout=rows.layout)
    return replace(
        task,
        ref=replace(rows.ref, verify=task.ref.verify),
        plan=replace(task.plan, layout=rows.layout, sampling=sampling),
        learner=replace(learner, n_done=len(links)),
        prefetch=fitting,
    )


def written_layout(store: FeatureStore, prefix: Pipeline) -> StoreLayout:
    """Give the geometry of the rows of a store as they would be written through fitted transformers."""
    # Nothing is decoded aside, and all chunks but the last have the same number of rows.
    return replace(store.transformed(prefix).layout, starts=None, aside_rows=0)


def cached_prefetch(task: StreamTask, written: StoreLayout, store: FeatureStore, *, requested: int | None) -> int:
    """Choose how many windows of written rows are read ahead.

    Parameters
    ----------
    task : StreamTask
        What is streamed otherwise.
    written : StoreLayout
        Geometry of the written rows.
    store : FeatureStore
        The rows that they are made of.
    requested : int or None
        As the user asked for it: rows that become wider may leave room for fewer.

    Raises
    ------
    BudgetError
        `memory_limit` is too small for windows of these rows.
    """
    try:
        return resolve_prefetch(
            written,
            batch_size=task.plan.batch_size,
            window_chunks=task.plan.window_chunks,
            requested=requested,
            memory_limit=task.memory_limit,
            label_nbytes=store.label_nbytes,
            n_epochs=task.n_epochs,
            sampling=task.plan.sampling,
        )
    except BudgetError as error:
        raise BudgetError(
            f"The transformers make {written.n_features} columns of {store.n_features}. {error} Or leave out cache."
        ) from error
