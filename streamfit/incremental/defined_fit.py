"""A fit before its first step: the prepared model, how its transformers will be fitted, and what is streamed to it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError
from streamfit.incremental.definition import plan_fit
from streamfit.incremental.partial_fit import learner_of, links_of
from streamfit.incremental.prepare import prepare_model
from streamfit.incremental.suitability import check_suitable
from streamfit.incremental.transformers import choose_methods
from streamfit.plan.window import resolve_prefetch
from streamfit.run.net_state import is_net
from streamfit.run.segments import StreamTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.partial_fit import PartialFit
    from streamfit.incremental.transformers import TransformerMethod
    from streamfit.inputs import Cache
    from streamfit.options import Shuffle, StreamOptions, TransformersFitted

__all__ = ["DefinedFit", "define_fit"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class DefinedFit:
    """All that is decided before the first row of features is read."""

    model: Any
    """The prepared copy of the user's estimator; its transformers are not fitted yet."""
    methods: tuple[TransformerMethod, ...]
    """How each of its transformers will be fitted."""
    learner: PartialFit
    """How its last link takes a batch."""
    task: StreamTask
    """What is streamed to it."""
    seed: int
    """Seed of the order of the rows."""
    cached: bool
    """Whether transformed rows are written once and trained on."""


def define_fit(
    estimator: Any,
    store: FeatureStore,
    *,
    batch_size: int,
    n_epochs: int,
    shuffle: Shuffle,
    seed: int,
    stream: StreamOptions,
    cache: Cache,
    memory_limit: int | None,
    earlier: Mapping[str, Any] | None,
    weights_given: bool,
    when: TransformersFitted,
    fitted: Any,
    classes: Any,
) -> DefinedFit:
    """Decide all that a fit needs before its first step, and refuse what it could not do.

    Parameters
    ----------
    estimator : estimator
        The user's, which is not changed.
    store : FeatureStore
        The training rows.
    batch_size, shuffle, stream, cache, memory_limit
        As in `StreamTrainer`.
    seed : int
        Seed of the fit.
    n_epochs : int
        Epochs in all.
    earlier : mapping or None
        Definition of the run that is gone on with.
    weights_given : bool
        Whether the user gave weights for this fit, and did not merely have them in the store.
    when : {"before", "online"}
        Whether transformers are fitted to all rows before the model learns, or with each batch.
    fitted : estimator or None
        What learns on, where it has learnt already; its transformers are as they are.
    classes : array-like or None
        All classes, where these rows may lack some.

    Raises
    ------
    InvalidParameterError, InvalidDataError, UnsupportedError
        The estimator or one of its parameters does not suit the rows.
    BudgetError
        `memory_limit` is too small.
    """
    model = prepare_model(estimator, store, seed=seed) if fitted is None else fitted
    *transformers, last = links_of(model)
    methods = choose_methods(transformers, sparse=store.is_sparse, when=when)
    online = tuple(
        learner_of(model, place, store, classes=classes)
        for place, method in enumerate(methods)
        if method.method == "online"
    )
    learner = replace(learner_of(model, len(transformers), store, classes=classes), online=online)
    if online and cache is not None and cache is not False:
        learning = type(links_of(model)[online[0].link]).__name__
        raise InvalidParameterError(
            f"cache needs transformers that are fitted before, and {learning} learns with the model "
            "(transformers='online'). Leave out cache."
        )
    given = links_of(estimator)[-1].get_params(deep=False)
    if stream.sampling == "balanced" and given.get("class_weight") == "balanced":
        raise InvalidParameterError(
            "class_weight='balanced' and sampling='balanced' both make up for rare classes, and together they would do "
            "so twice. Leave one of them out."
        )
    if stream.sampling == "weighted":
        # Rows come as often as their weights say, whether or not the estimator takes weights.
        learner = replace(learner, weighted=False)
    elif store.has_sample_weight and not learner.weighted:
        if weights_given:
            raise InvalidParameterError(f"{type(last).__name__} takes no sample_weight. Leave it out.")
        logger.warning("%s takes no sample_weight: the weights in the store are not used.", type(last).__name__)
    if is_net(last) and last.train_split is not None:
        logger.warning(
            "%s holds back a part of each batch for its own validation (train_split): it is not trained on. Pass "
            "train_split=None, and validation_data to fit.",
            type(last).__name__,
        )
    check_suitable(model, store, n_classes=None if learner.classes is None else len(learner.classes))
    plan = plan_fit(
        store,
        model,
        batch_size=batch_size,
        n_epochs=n_epochs,
        shuffle=shuffle,
        stream=stream,
        seed=seed,
        memory_limit=memory_limit,
        earlier=earlier,
    )
    prefetch = resolve_prefetch(
        store.layout,
        batch_size=plan.batch_size,
        window_chunks=plan.window_chunks,
        requested=stream.prefetch,
        memory_limit=memory_limit,
        label_nbytes=store.label_nbytes,
        n_epochs=n_epochs,
        sampling=plan.sampling,
    )
    return DefinedFit(
        model=model,
        methods=methods,
        learner=learner,
        task=StreamTask(
            ref=replace(store.ref, verify=stream.verify),
            plan=plan,
            learner=learner,
            n_epochs=n_epochs,
            prefetch=prefetch,
            memory_limit=memory_limit,
            tests=(),
        ),
        seed=seed,
        cached=bool(transformers) and cache is not None and cache is not False,
    )
