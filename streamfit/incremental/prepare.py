"""From the user's estimator to a copy that can be trained batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from streamfit.errors import InvalidParameterError
from streamfit.incremental.copying import copy_estimator, learns, seed_all
from streamfit.incremental.partial_fit import classes_of, links_of

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore

__all__ = ["prepare_model"]


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
    """
    if not isinstance(estimator, BaseEstimator):
        raise InvalidParameterError(
            f"estimator must be a scikit-learn estimator with partial_fit, got {type(estimator).__name__}."
        )
    model = copy_estimator(estimator)
    links = links_of(model)
    last = links[-1] if links else model
    if not links or not learns(last):
        raise InvalidParameterError(
            f"{type(last).__name__} has no partial_fit. Use an estimator that has it, such as SGDClassifier."
        )
    seed_all(model, seed)
    if last.get_params(deep=False).get("class_weight") == "balanced":
        classes, counts = classes_of(store, type(last).__name__), store.class_counts
        weights = store.n_rows / (len(classes) * np.asarray(counts))
        # 0 and 1 are False and True to a dict, and a checkpoint can hold them as keys.
        keys = (classes.astype(np.int64) if classes.dtype.kind == "b" else classes).tolist()
        last.set_params(class_weight=dict(zip(keys, weights.tolist(), strict=True)))
    return model
