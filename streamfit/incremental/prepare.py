"""From the user's estimator to a copy that can be trained batch by batch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from streamfit.errors import InvalidParameterError, UnsupportedError
from streamfit.incremental.partial_fit import classes_of, links_of

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore

__all__ = ["links_to_fit", "prepare_model"]

_SEEDS = 3
"""Purpose of the draw; 1 and 2 are the orders of chunks and rows."""


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _learns(estimator: Any) -> bool:
    # A frozen estimator hands partial_fit on to the one inside, which must not learn.
    return not isinstance(estimator, FrozenEstimator) and hasattr(estimator, "partial_fit")


def prepare_model(estimator: Any, store: FeatureStore, *, seed: int) -> Any:
    """Copy the user's estimator and make the copy ready for its first step.

    Every ``random_state`` that is None is set from `seed`, and ``class_weight="balanced"`` becomes the
    weights that follow from the counts of all rows.

    Parameters
    ----------
    estimator : estimator
        With ``partial_fit``, or a pipeline that ends in one. It is not changed.
    store : FeatureStore
        The training rows.
    seed : int
        Seed of the fit.

    Returns
    -------
    estimator
        The copy.

    Raises
    ------
    InvalidParameterError
        It is no scikit-learn estimator with ``partial_fit``.
    UnsupportedError
        A transformer before it cannot be fitted batch by batch and is not fitted yet.
    """
    if not isinstance(estimator, BaseEstimator):
        raise InvalidParameterError(
            f"estimator must be a scikit-learn estimator with partial_fit, got {type(estimator).__name__}."
        )
    model = clone(estimator)
    _keep_fitted(estimator, model)
    links = links_of(model)
    last = links[-1] if links else model
    if not links or not _learns(last):
        raise InvalidParameterError(
            f"{type(last).__name__} has no partial_fit. Use an estimator that has it, such as SGDClassifier."
        )
    for link in links[:-1]:
        if not (_learns(link) or _is_ready(link)):
            raise UnsupportedError(
                f"{type(link).__name__} cannot be fitted batch by batch. Fit it beforehand, or use a transformer "
                "with partial_fit (StandardScaler, MinMaxScaler, MaxAbsScaler, IncrementalPCA) or without a state."
            )
    _seed_all(model, seed)
    if last.get_params(deep=False).get("class_weight") == "balanced":
        classes, counts = classes_of(store, type(last).__name__), store.class_counts
        weights = store.n_rows / (len(classes) * np.asarray(counts))
        last.set_params(class_weight=dict(zip(classes.tolist(), weights.tolist(), strict=True)))
    return model


def _is_ready(transformer: Any) -> bool:
    return not get_tags(transformer).requires_fit or _is_fitted(transformer)


def _keep_fitted(original: Any, copied: Any) -> None:
    """Put fitted transformers that cannot learn batch by batch back into a cloned pipeline."""
    if not isinstance(original, Pipeline):
        return
    for position, (name, step) in enumerate(original.steps[:-1]):
        if isinstance(step, Pipeline):
            _keep_fitted(step, copied.steps[position][1])
        elif isinstance(step, BaseEstimator) and not _learns(step) and _is_fitted(step):
            copied.steps[position] = (name, copy.deepcopy(step))


def _seed_all(model: Any, seed: int) -> None:
    names = sorted(
        name
        for name, value in model.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    seeds = np.random.SeedSequence(seed, spawn_key=(_SEEDS,)).generate_state(max(1, len(names)))
    # scikit-learn takes seeds below 2**31 everywhere.
    model.set_params(**{name: int(value >> 1) for name, value in zip(names, seeds, strict=False)})


def links_to_fit(model: Any) -> list[int]:
    """Positions of the transformers that are fitted in passes of their own, before the last link is."""
    return [position for position, link in enumerate(links_of(model)[:-1]) if _learns(link)]
