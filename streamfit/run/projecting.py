"""How a projection comes about: from the plan itself, from what a few rows took, and from the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamfit.errors import BudgetError
from streamfit.plan.batch_costs import BatchMemory, StreamRequest
from streamfit.plan.default_window import bound_of_window
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.shuffle_quality import shuffle_quality
from streamfit.run.correlation import chunk_correlation, order_correlation
from streamfit.run.projection import FitProjection
from streamfit.run.sampled_rows import rows_for_trial, sample_rows
from streamfit.store.row_sampling import stored_sampling

if TYPE_CHECKING:
    from streamfit.options import Shuffle, StreamOptions
    from streamfit.plan.batch_costs import BatchCost, EstimatorCost
    from streamfit.store.reader import Reader

__all__ = ["project_epochs", "project_stream", "request_of", "window_bound"]

_USUAL_SIZES = (1_000, 10_000, 100_000, 1_000_000)


def request_of(
    reader: Reader,
    *,
    shuffle: Shuffle,
    window: int | None,
    stream: StreamOptions,
    memory_limit: int | None,
    n_epochs: int,
) -> StreamRequest:
    """Put together what a stream is asked for.

    Parameters
    ----------
    reader : Reader
        The rows.
    shuffle, stream, memory_limit, n_epochs
        As the user gave them.
    window : int or None
        Chunks in a window, where the user or an earlier run asks for so many.

    Raises
    ------
    InvalidDataError
        The store has no labels or weights by which rows could be sampled.
    StoreCorruptError
        Labels or weights, by which a default window is chosen or rows are sampled, are damaged.
    """
    return StreamRequest(
        layout=reader.layout,
        shuffle=shuffle,
        window=window,
        prefetch=stream.prefetch,
        memory_limit=memory_limit,
        label_nbytes=reader.label_nbytes,
        n_epochs=n_epochs,
        correlation=order_correlation(reader, shuffle) if window is None else None,
        sampling=stored_sampling(reader.ref, stream.sampling, layout=reader.layout),
    )


def project_stream(
    reader: Reader, request: StreamRequest, *, batch_size: int, min_batch: int, drop_last: bool
) -> FitProjection:
    """Project a stream without an estimator; see `FeatureStore.project`."""
    cost = request.cost(batch_size)
    plan = EpochPlan(
        layout=request.layout,
        batch_size=batch_size,
        seed=0,
        epoch=0,
        shuffle=request.shuffle,
        window_chunks=cost.window_chunks,
        min_batch=min_batch,
        drop_last=drop_last,
        sampling=request.sampling,
    )
    sampled = sample_rows(reader, n_rows=rows_for_trial(reader, batch_size=batch_size, least=1), few_chunks=True)
    return project_epochs(
        reader,
        plan,
        request,
        window_bound=window_bound(request, cost),
        estimator=None,
        read_seconds_a_row=sampled.seconds_a_row,
        passes_before=0,
        before_seconds=0.0,
    )


def window_bound(request: StreamRequest, cost: BatchCost) -> str:
    """Tell in a few words why a window that was chosen is not larger."""
    return bound_of_window(
        request.layout,
        window_chunks=cost.window_chunks,
        batch_size=cost.batch_size,
        requested=request.window,
        limited=request.memory_limit is not None,
        correlation=request.correlation,
    )


def project_epochs(
    reader: Reader,
    plan: EpochPlan,
    request: StreamRequest,
    *,
    window_bound: str,
    estimator: EstimatorCost | None,
    read_seconds_a_row: float,
    passes_before: int,
    before_seconds: float,
) -> FitProjection:
    """Put a projection together.

    Parameters
    ----------
    reader : Reader
        The rows as they are stored.
    plan : EpochPlan
        The first epoch, of the rows that are streamed, which may be wider.
    request : StreamRequest
        What was asked for, of the same rows as the plan.
    window_bound : str
        Why the window is not larger.
    estimator : EstimatorCost or None
        What it was seen to take.
    read_seconds_a_row : float
        Wall time of reading a row of the plan.
    passes_before : int
        Passes over all rows before the first step.
    before_seconds : float
        Wall time of these.

    Raises
    ------
    BudgetError
        The stream does not fit the limit.
    StoreCorruptError
        Labels are damaged.
    """
    batch_size, layout = plan.batch_size, plan.layout
    cost = replace(request, window=plan.window_chunks).cost(batch_size)
    n_rows = plan.step_bounds(len(plan) - 1)[1]
    correlation = chunk_correlation(reader)
    limit = request.memory_limit
    largest = in_all = None
    if limit is not None:
        largest = request.largest_batch_size(beside_nbytes=lambda _: 0)
        in_all = None if estimator is None else request.largest_batch_size(beside_nbytes=estimator.nbytes)
    return FitProjection(
        store=reader.ref.path,
        n_rows=n_rows,
        n_features=reader.layout.n_features,
        dtype=str(reader.dtype),
        batch_size=batch_size,
        n_epochs=request.n_epochs,
        shuffle=plan.shuffle,
        n_steps=len(plan),
        n_windows=plan.n_windows,
        window_chunks=plan.window_chunks,
        window_rows=max(stop - start for start, stop in map(plan.window_bounds, range(plan.n_windows))),
        window_bound=window_bound,
        prefetch=cost.prefetch,
        memory=cost.budget.parts,
        memory_limit=limit,
        estimator=estimator,
        read_seconds=n_rows * read_seconds_a_row,
        compute_seconds=None if estimator is None else n_rows * estimator.seconds_a_row,
        passes_before=passes_before,
        before_seconds=before_seconds,
        correlation=None if correlation is None else correlation.rho,
        quality=None
        if correlation is None
        else shuffle_quality(
            layout,
            batch_size=batch_size,
            window_chunks=plan.window_chunks,
            correlation=correlation,
            shuffle=plan.shuffle,
        ),
        largest_batch_size=largest,
        largest_batch_size_in_all=in_all,
        batch_sizes=_batch_sizes(request, estimator, {min(batch_size, layout.n_rows), largest or 0, in_all or 0}),
    )


def _batch_sizes(request: StreamRequest, estimator: EstimatorCost | None, others: set[int]) -> tuple[BatchMemory, ...]:
    usual = {size for size in _USUAL_SIZES if size <= request.most_rows}
    found = []
    for size in sorted((usual | others) - {0}):
        try:
            cost, fits = request.cost(size), True
        except BudgetError:
            cost, fits = request.least_cost(size), False
        found.append(
            BatchMemory(
                batch_size=size,
                window_chunks=cost.window_chunks,
                prefetch=cost.prefetch,
                own_nbytes=cost.budget.nbytes,
                estimator_nbytes=None if estimator is None else estimator.nbytes(size),
                fits=fits,
            )
        )
    return tuple(found)
