"""A few steps of a copy of an estimator, to see what it takes: seconds and memory."""

from __future__ import annotations

import copy
import statistics
import time
import tracemalloc
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from streamfit.errors import InvalidDataError
from streamfit.incremental.partial_fit import as_text, learner_of, links_of
from streamfit.plan.batch_costs import EstimatorCost
from streamfit.run.blas import one_blas_thread
from streamfit.run.links import as_it_was_fitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamfit.batch import Batch
    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.defined_fit import DefinedFit
    from streamfit.incremental.partial_fit import PartialFit
    from streamfit.incremental.transformers import TransformerMethod

__all__ = ["Trial", "rows_to_fit_transformers", "try_estimator"]

_MOST_STEPS = 5
_MOST_SECONDS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What a trial found."""

    cost: EstimatorCost
    """Seconds and memory of the estimator, with the transformers that each batch goes through."""
    prefix: Pipeline | None
    """The transformers as some rows fit them; None where there are none."""
    before_seconds_a_row: float
    """Wall time, for each row, of all passes that fit transformers, and of one that transforms for a cache."""


def rows_to_fit_transformers(store: FeatureStore) -> int:
    """Give how many rows transformers are tried on, at least: a fit gives them all rows, however small a batch is."""
    return max(1_000, store.n_features + 1)


def try_estimator(defined: DefinedFit, store: FeatureStore, rows: Batch, *, batch_rows: int) -> Trial:
    """Train copies of a model on some rows, and throw them away.

    Transformers are fitted to these rows first, where a fit would fit them.

    Parameters
    ----------
    defined : DefinedFit
        The fit, whose model is not changed.
    store : FeatureStore
        Its rows.
    rows : Batch
        Rows like those of a batch, and as many more as transformers need.
    batch_rows : int
        How many of them are a batch.

    Raises
    ------
    InvalidDataError
        The estimator refuses these rows, as it would in a fit.
    """
    model = copy.deepcopy(defined.model)
    *transformers, last = links_of(model)
    learner = defined.learner
    # What a trial on some rows makes an estimator warn of says nothing about a fit on all of them.
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, fit_seconds, transform_seconds = _fit_prefix(model, defined.methods, store, rows)
        if defined.cached:
            rows, learner = replace(rows, X=X), replace(learner, n_done=len(transformers))
            fit_seconds += transform_seconds
        del X
        batch = _first_rows(rows, batch_rows)
        seconds = _seconds(learner, model, batch)
        least = max(1, defined.task.plan.min_batch)
        small, large = max(least, batch.n_rows // 2), batch.n_rows
        fixed, row_nbytes = _memory(learner, model, batch, small, large)
    return Trial(
        cost=EstimatorCost(
            name=type(last).__name__,
            seconds_a_row=seconds / batch.n_rows,
            fixed_nbytes=fixed,
            row_nbytes=row_nbytes,
            measured_rows=batch.n_rows,
        ),
        prefix=Pipeline([(str(place), link) for place, link in enumerate(transformers)]) if transformers else None,
        before_seconds_a_row=fit_seconds / rows.n_rows,
    )


def _fit_prefix(
    model: Any, methods: Sequence[TransformerMethod], store: FeatureStore, batch: Batch
) -> tuple[Any, float, float]:
    """Fit the transformers; give what they make of the rows, the seconds of the fits, and those of transforming.

    Each fit comes with transforming by the transformers before it, as in a pass of its own.
    """
    X, y = batch.X, None if batch.y is None else as_text(batch.y)
    fit_seconds = transform_seconds = 0.0
    links = links_of(model)
    for place, method in enumerate(methods):
        link = links[place]
        try:
            if method.method == "exact":
                link.fit(X, y)  # once more below: the first time imports
                fit_seconds += transform_seconds + _time(partial(link.fit, X, y))
            elif method.method == "ordered":
                learner = learner_of(model, place, store, classes=None)
                learner.step(model, batch)
                fit_seconds += _time(partial(learner.step, model, batch))
            elif method.method == "online":
                learner_of(model, place, store, classes=None).learn(link, X, batch)  # its seconds are those of a step
            transform = partial(link.transform, as_it_was_fitted(link, X))
            made = transform()
            transform_seconds += _time(transform)
            X = made
        except ValueError as error:
            raise InvalidDataError(f"{type(link).__name__} refuses {batch.n_rows} rows of a trial: {error}") from error
    return X, fit_seconds, transform_seconds


def _time(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _seconds(learner: PartialFit, model: Any, batch: Batch) -> float:
    """Give the wall time of one step; the first one, which makes what the later ones use, counts if it takes long."""
    trained = copy.deepcopy(model)
    seconds: list[float] = []
    while len(seconds) <= _MOST_STEPS and sum(seconds) < _MOST_SECONDS:
        began = time.perf_counter()
        learner.step(trained, batch)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:] or seconds)


def _memory(learner: PartialFit, model: Any, batch: Batch, small: int, large: int) -> tuple[int, float]:
    """Give bytes whatever the batch, and bytes a row of it, from the peaks of steps with batches of two sizes."""
    peak = _peak(learner, model, batch, large)
    if small == large:
        return 0, peak / large
    try:
        lower = _peak(learner, model, batch, small)
    except InvalidDataError:  # too few rows for this estimator
        return 0, peak / large
    row_nbytes = max(0.0, (peak - lower) / (large - small))
    return max(0, round(peak - row_nbytes * large)), row_nbytes


def _peak(learner: PartialFit, model: Any, batch: Batch, n_rows: int) -> int:
    """Give the most bytes that two steps of a new copy hold at once beyond the batch."""
    part = _first_rows(batch, n_rows)
    trained = copy.deepcopy(model)
    with _traced():
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        learner.step(trained, part)
        learner.step(trained, part)
        return max(0, tracemalloc.get_traced_memory()[1] - start)


def _first_rows(batch: Batch, n_rows: int) -> Batch:
    return replace(
        batch,
        X=batch.X[:n_rows],
        rows=batch.rows[:n_rows],
        y=None if batch.y is None else batch.y[:n_rows],
        sample_weight=None if batch.sample_weight is None else batch.sample_weight[:n_rows],
    )


@contextmanager
def _traced() -> Iterator[None]:
    """Trace allocations in this block; who traces already goes on."""
    if tracemalloc.is_tracing():
        yield
        return
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
