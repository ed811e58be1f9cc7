"""Copies of what the user made: unfitted, but for what was fitted beforehand, and with a seed for every draw."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from streamfit.run.net_state import is_net, seed_net

__all__ = ["copy_estimator", "is_fitted", "learns", "seed_all"]

_SEEDS = 3
"""Purpose of the draw; 1 and 2 are the orders of chunks and rows."""


def is_fitted(estimator: Any) -> bool:
    """Tell whether an estimator was fitted, as scikit-learn tells it."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def learns(estimator: Any) -> bool:
    """Tell whether an estimator can be fitted batch by batch."""
    # A frozen estimator hands partial_fit on to the one inside, which must not learn. Those of dask-ml inherit a
    # partial_fit that raises.
    if isinstance(estimator, FrozenEstimator) or type(estimator).__module__.startswith("dask_ml."):
        return False
    return hasattr(estimator, "partial_fit")


def copy_estimator(estimator: Any) -> Any:
    """Clone an estimator; fitted transformers of a pipeline that cannot learn batch by batch stay fitted."""
    copied = clone(estimator)
    if isinstance(estimator, Pipeline):
        _keep_fitted(estimator.steps[:-1], copied)
    return copied


def _keep_fitted(steps: list[tuple[str, Any]], copied: Any) -> None:
    for position, (name, step) in enumerate(steps):
        if isinstance(step, Pipeline):
            _keep_fitted(step.steps, copied.steps[position][1])
        elif isinstance(step, BaseEstimator) and not learns(step) and is_fitted(step):
            copied.steps[position] = (name, _plain(copy.deepcopy(step)))


def _plain(fitted: Any) -> Any:
    """Give a scaler of dask-ml as the one of scikit-learn that it inherits from, and anything else as it is.

    Both map rows alike, but dask-ml's write the result into the rows they are given, or give lazy arrays.
    """
    kind = type(fitted)
    base = next((parent for parent in kind.__mro__ if parent.__module__ == "sklearn.preprocessing._data"), None)
    if not kind.__module__.startswith("dask_ml.") or base is None:
        return fitted
    plain = base()
    taken = plain.get_params(deep=False)
    plain.set_params(**{name: value for name, value in fitted.get_params(deep=False).items() if name in taken})
    for name, value in vars(fitted).items():
        if name.endswith("_") and not name.startswith("_"):
            setattr(plain, name, value.compute() if hasattr(value, "compute") else value)
    return plain


def seed_all(model: Any, seed: int) -> None:
    """Set every ``random_state`` that is None, from `seed`."""
    names = sorted(
        name
        for name, value in model.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    seeds = np.random.SeedSequence(seed, spawn_key=(_SEEDS,)).generate_state(max(1, len(names)))
    nets = [part for part in (model, *model.get_params(deep=True).values()) if is_net(part)]
    drawn = np.random.SeedSequence(seed, spawn_key=(_SEEDS, 1)).generate_state(max(1, len(nets)))
    for net, value in zip(nets, drawn, strict=False):
        seed_net(net, int(value))
    # scikit-learn takes seeds below 2**31 everywhere.
    model.set_params(**{name: int(value >> 1) for name, value in zip(names, seeds, strict=False)})
