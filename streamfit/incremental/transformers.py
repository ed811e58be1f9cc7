"""How each transformer of a pipeline is fitted: exactly by summaries, by an ordered pass, or not at all."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from streamfit.errors import InvalidParameterError, UnsupportedError
from streamfit.incremental.copying import copy_estimator, is_fitted, learns, seed_all
from streamfit.incremental.partial_fit import learner_of, links_of
from streamfit.plan.window import resolve_prefetch
from streamfit.preprocessing.registry import find
from streamfit.run.blas import one_blas_thread
from streamfit.run.checkpoint import Position
from streamfit.run.segments import StreamTask, start_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamfit.feature_store import FeatureStore
    from streamfit.options import TransformersFitted
    from streamfit.plan.epoch import EpochPlan
    from streamfit.run.engine import Engine

__all__ = ["FittedPrefix", "OrderedPass", "TransformerMethod", "choose_methods", "fit_links", "fit_transformers"]

logger = logging.getLogger(__name__)

_INSTEAD = {
    "QuantileTransformer": "dask_ml.preprocessing.QuantileTransformer fits approximate quantiles on store.X",
    "OneHotEncoder": "encode at ingest (categorical=), or fit the encoder on the categories",
    "OrdinalEncoder": "encode at ingest (categorical=), or fit the encoder on the categories",
    "TargetEncoder": "encode at ingest (categorical=), or fit the encoder on a sample",
    "ColumnTransformer": "its parts can be fitted apart, or ingest the columns with columns=",
    "FeatureUnion": "its parts can be fitted apart",
}
"""What else can be done, by class, in a half sentence."""


@dataclass(frozen=True, slots=True)
class TransformerMethod:
    """How one transformer is fitted, and why so."""

    transformer: str
    """Name of its class."""
    method: Literal["exact", "ordered", "online", "kept", "stateless"]
    """``"exact"``: as its own ``fit`` on all rows, by summaries. ``"ordered"``: by ``partial_fit`` over the rows in
    their order. ``"online"``: by ``partial_fit`` with each batch right before the model learns from it. ``"kept"``: as
    the user fitted it. ``"stateless"``: there is nothing to fit."""
    reason: str
    """Why, in a few words."""

    def __str__(self) -> str:
        return f"{self.transformer}: {self.method} ({self.reason})"


@dataclass(frozen=True, slots=True)
class OrderedPass:
    """How rows are streamed to transformers that have no exact fit."""

    plan: EpochPlan
    """Rows in the order of the store, each exactly once."""
    prefetch: int
    """Windows read ahead."""


@dataclass(frozen=True, slots=True)
class FittedPrefix:
    """The fitted transformers of a pipeline."""

    steps: list[tuple[str, Any]]
    """Names and fitted transformers, as a `sklearn.pipeline.Pipeline` takes them."""
    methods: tuple[TransformerMethod, ...]
    """How each link was fitted; the links of pipelines inside are counted one by one."""


def fit_transformers(
    prefix: Sequence[tuple[str, Any]],
    store: FeatureStore,
    *,
    batch_size: int,
    seed: int,
    memory_limit: int | None,
    engine: Engine,
) -> FittedPrefix:
    """Fit copies of the transformers at the beginning of a pipeline, one after the other.

    Parameters
    ----------
    prefix : sequence of (str, transformer)
        The steps of a pipeline without its last one; they are not changed. Those that are fitted, and have no
        ``partial_fit``, are kept as they are.
    store : FeatureStore
        The rows.
    batch_size : int
        Rows of a batch, for transformers that are fitted by ``partial_fit``.
    seed : int
        Every ``random_state`` that is None is set from it.
    memory_limit : int or None
        Limit in bytes.
    engine : Engine
        Where passes run.

    Raises
    ------
    UnsupportedError, InvalidParameterError, InvalidDataError, BudgetError
        As `choose_methods` and `fit_links`; the first one before anything is read.
    """
    # The last step stands for the one that is not fitted here.
    model = copy_estimator(Pipeline([*prefix, ("rest", "passthrough")]))
    seed_all(model, seed)
    methods = choose_methods(links_of(model), sparse=store.is_sparse, when="before")
    plan = store.plan(batch_size=min(batch_size, store.n_rows), shuffle="none", memory_limit=memory_limit)
    prefetch = resolve_prefetch(
        store.layout,
        batch_size=plan.batch_size,
        window_chunks=plan.window_chunks,
        requested=None,
        memory_limit=memory_limit,
        label_nbytes=store.label_nbytes,
        n_epochs=1,
        sampling=None,
    )
    ordered = OrderedPass(plan=plan, prefetch=prefetch)
    model = fit_links(model, store, methods, ordered=ordered, memory_limit=memory_limit, engine=engine)
    return FittedPrefix(steps=model.steps[:-1], methods=methods)


def choose_methods(links: Sequence[Any], *, sparse: bool, when: TransformersFitted) -> tuple[TransformerMethod, ...]:
    """Choose how each transformer of a pipeline is fitted; nothing is read.

    Parameters
    ----------
    links : sequence of transformers
        In their order; those that are fitted are kept.
    sparse : bool
        Whether the rows of the store are sparse.
    when : {"before", "online"}
        Whether they are fitted to all rows before the model learns, or with each batch.

    Raises
    ------
    UnsupportedError
        One can be fitted neither exactly nor batch by batch, and is not fitted yet.
    InvalidParameterError
        scikit-learn refuses a parameter.
    """
    chosen = []
    rows_are_sparse: bool | None = sparse
    for link in links:
        method = _choose(link, rows_are_sparse) if when == "before" else _choose_online(link)
        entry = find(link)
        if rows_are_sparse:
            # What leaves a transformer that nobody here knows is seen when it is reached.
            rows_are_sparse = None if entry is None else entry.keeps_sparse
        chosen.append(method)
    return tuple(chosen)


def _choose(link: Any, sparse: bool | None) -> TransformerMethod:
    name, entry, refusal = type(link).__name__, find(link), None
    if entry is not None and not is_fitted(link):
        refusal = entry.load().refusal(link, sparse=sparse)
        if refusal is None:
            _check_parameters(link)
            return TransformerMethod(name, "exact", entry.how)
    requires_fit = get_tags(link).requires_fit
    if requires_fit and is_fitted(link):
        return TransformerMethod(name, "kept", "it was fitted beforehand")
    if learns(link):
        return TransformerMethod(name, "ordered", refusal or "no exact fit of this class is known")
    if not requires_fit:
        return TransformerMethod(name, "stateless", "it learns nothing from rows")
    raise UnsupportedError(
        f"{name} can be fitted neither exactly by passes over the rows"
        + (f" ({refusal})" if refusal else "")
        + " nor batch by batch. Fit it beforehand, on a sample or on store.X with dask_ml.preprocessing: a fitted one "
        f"is kept as it is{'; ' + _INSTEAD[name] if name in _INSTEAD else ''}."
    )


def _choose_online(link: Any) -> TransformerMethod:
    name = type(link).__name__
    if learns(link):
        _check_parameters(link)
        return TransformerMethod(name, "online", "transformers='online'")
    if not get_tags(link).requires_fit:
        return TransformerMethod(name, "stateless", "it learns nothing from rows")
    if is_fitted(link):
        return TransformerMethod(name, "kept", "it was fitted beforehand")
    raise UnsupportedError(
        f"{name} has no partial_fit, so it cannot learn batch by batch with the model. Fit it beforehand (a fitted one "
        "is kept as it is), or use transformers='before', which fits it to all rows first."
    )


def _check_parameters(link: Any) -> None:
    try:
        link._validate_params()  # noqa: SLF001  # scikit-learn has no public way
    except ValueError as error:
        raise InvalidParameterError(f"{type(link).__name__} refuses a parameter: {error}") from error


def fit_links(
    model: Any,
    store: FeatureStore,
    methods: Sequence[TransformerMethod],
    *,
    ordered: OrderedPass,
    memory_limit: int | None,
    engine: Engine,
) -> Any:
    """Fit the transformers of a prepared pipeline one after the other; give the pipeline.

    A pass is short beside the fit that follows, so it is done again where it was interrupted.

    Parameters
    ----------
    model : estimator
        A pipeline, which is changed, or an estimator without transformers.
    store : FeatureStore
        The training rows.
    methods : sequence of TransformerMethod
        One for each link but those at the end that are left alone, see `choose_methods`.
    ordered : OrderedPass
        For those without an exact fit.
    memory_limit : int or None
        Limit in bytes.
    engine : Engine
        Where passes run.

    Raises
    ------
    InvalidDataError
        A transformer refuses the rows that reach it.
    InvalidParameterError
        A transformer refuses its parameters for these rows.
    UnsupportedError
        Rows of a kind reach it that have no exact form.
    BudgetError
        `memory_limit` is too small.
    """
    for position, method in enumerate(methods):
        logger.info("%s", method)
        links = links_of(model)
        if method.method == "exact":
            rows = _rows_after(links[:position], store)
            _fit_exactly(links[position], rows, memory_limit=memory_limit, engine=engine)
        elif method.method == "ordered":
            model = _fit_in_order(model, position, store, ordered, memory_limit=memory_limit, engine=engine)
    return model


def _rows_after(links: Sequence[Any], store: FeatureStore) -> FeatureStore:
    if not links:
        return store
    # The pipeline is made of fitted links, so it is fitted itself.
    return store.transformed(Pipeline([(str(position), link) for position, link in enumerate(links)]))


def _fit_exactly(link: Any, rows: FeatureStore, *, memory_limit: int | None, engine: Engine) -> None:
    entry = find(link)
    assert entry is not None  # noqa: S101  # as chosen
    exact = entry.load()
    refusal = exact.refusal(link, sparse=rows.is_sparse)
    if refusal is not None:
        raise UnsupportedError(f"{type(link).__name__} cannot be fitted to the rows that reach it: {refusal}.")
    exact.fit(link, rows, memory_limit=memory_limit, engine=engine)


def _fit_in_order(
    model: Any, position: int, store: FeatureStore, ordered: OrderedPass, *, memory_limit: int | None, engine: Engine
) -> Any:
    task = StreamTask(
        ref=store.ref,
        plan=ordered.plan,
        learner=learner_of(model, position, store, classes=None),
        n_epochs=1,
        prefetch=ordered.prefetch,
        memory_limit=memory_limit,
        tests=(),
    )
    run = start_run(task, model, Position(0, 0), engine=engine, on_steps=lambda _epoch, _steps, _records: None)
    try:
        with one_blas_thread():
            run.advance(Position(1, 0), paused=lambda: False)
    finally:
        run.close()
    return run.model
