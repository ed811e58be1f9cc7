"""What a fit will take, told without fitting: from its definition, and from a trial on a few rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError
from streamfit.incremental.caching import cached_prefetch, written_layout
from streamfit.incremental.trial import rows_to_fit_transformers, try_estimator
from streamfit.run.projecting import project_epochs, request_of, window_bound
from streamfit.run.sampled_rows import rows_for_trial, sample_rows
from streamfit.store.reader import open_reader
from streamfit.store.row_sampling import stored_sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.defined_fit import DefinedFit
    from streamfit.incremental.trial import Trial
    from streamfit.options import StreamOptions
    from streamfit.run.projection import FitProjection
    from streamfit.run.sampled_rows import SampledRows
    from streamfit.store.reader import Reader

__all__ = ["project_fit"]


def project_fit(
    defined: DefinedFit, store: FeatureStore, *, stream: StreamOptions, earlier: Mapping[str, Any] | None
) -> FitProjection:
    """Project a fit.

    Parameters
    ----------
    defined : DefinedFit
        The fit; neither it nor the model in it is changed.
    store : FeatureStore
        Its rows.
    stream : StreamOptions
        As the user gave them.
    earlier : mapping or None
        Definition of the run that would be gone on with.

    Raises
    ------
    BudgetError
        Transformed rows, which are cached, do not fit `memory_limit`.
    InvalidDataError
        The estimator refuses the rows of the trial, as it would in a fit.
    StoreCorruptError
        A chunk is damaged.
    """
    task, plan = defined.task, defined.task.plan
    reader = open_reader(task.ref)
    request = request_of(
        reader,
        shuffle=plan.shuffle,
        window=int(earlier["window_chunks"]) if stream.window is None and earlier is not None else stream.window,
        stream=stream,
        memory_limit=task.memory_limit,
        n_epochs=task.n_epochs,
    )
    sampled, trial = _tried(defined, store, reader)
    seconds = sampled.seconds_a_row
    n_fitted = sum(method.method in ("exact", "ordered") for method in defined.methods)
    passes = n_fitted + defined.cached
    bound = window_bound(request, request.cost(plan.batch_size))
    before = plan.layout.n_rows * (passes * seconds + trial.before_seconds_a_row)
    if defined.cached and trial.prefix is not None:
        written = written_layout(store, trial.prefix)
        cached_prefetch(task, written, store, requested=stream.prefetch)
        # The window has as many rows as without a cache.
        sampling = stored_sampling(task.ref, stream.sampling, layout=written)
        request = replace(request, layout=written, window=plan.window_chunks, correlation=None, sampling=sampling)
        plan = replace(plan, layout=written, sampling=request.sampling)
        seconds *= written.row_nbytes / store.layout.row_nbytes
    return project_epochs(
        reader,
        plan,
        request,
        window_bound=bound,
        estimator=trial.cost,
        read_seconds_a_row=seconds,
        passes_before=passes,
        before_seconds=before,
    )


def _tried(defined: DefinedFit, store: FeatureStore, reader: Reader) -> tuple[SampledRows, Trial]:
    """Try the estimator on a few rows; where it refuses so few, on as many as a fit would give it."""
    plan = defined.task.plan
    to_fit = rows_to_fit_transformers(store) if defined.methods else 0
    batch_rows = rows_for_trial(reader, batch_size=plan.batch_size, least=plan.min_batch)
    most = rows_for_trial(reader, batch_size=to_fit, least=1) if to_fit else 0
    sampled = sample_rows(reader, n_rows=max(batch_rows, most), few_chunks=True)
    try:
        return sampled, try_estimator(defined, store, sampled.batch, batch_rows=batch_rows)
    except InvalidDataError:
        enough = min(max(plan.batch_size, to_fit), reader.layout.n_rows)
        if sampled.batch.n_rows >= enough:
            raise
    # A fit holds a window and two batches, and so as much as this.
    sampled = sample_rows(reader, n_rows=enough, few_chunks=False)
    return sampled, try_estimator(defined, store, sampled.batch, batch_rows=plan.batch_size)
