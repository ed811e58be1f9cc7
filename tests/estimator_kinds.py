"""Every scikit-learn estimator that has ``partial_fit``, with rows that suit it, and the loop it is compared with."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.utils import all_estimators
from threadpoolctl import threadpool_limits

N_ROWS, N_FEATURES = 203, 6

INNER = {
    "MultiOutputClassifier": SGDClassifier,
    "MultiOutputRegressor": SGDRegressor,
    "OneVsOneClassifier": SGDClassifier,
    "OneVsRestClassifier": SGDClassifier,
    "SelectFromModel": SGDClassifier,
}
PARAMETERS = {
    "BernoulliRBM": {"n_components": 4},
    "Birch": {"n_clusters": None},
    "CategoricalNB": {"min_categories": 3},
    "IncrementalPCA": {"n_components": 3},
    "LatentDirichletAllocation": {"n_components": 3},
    "MLPClassifier": {"hidden_layer_sizes": (5,)},
    "MLPRegressor": {"hidden_layer_sizes": (5,)},
    "MiniBatchDictionaryLearning": {"n_components": 3},
    "MiniBatchKMeans": {"n_clusters": 3},
    "MiniBatchNMF": {"n_components": 3},
}
NOT_OF_NUMBERS = {"HashingVectorizer"}
"""Estimators of texts: a store holds numbers."""


@dataclass(frozen=True)
class Kind:
    """One estimator and what it is given."""

    name: str
    """Of its class."""
    estimator: Any
    """Unfitted, with a seed wherever it draws."""
    X: Any
    """Rows, ``(N_ROWS, N_FEATURES)``."""
    y: Any
    """Labels, or None."""

    @property
    def learns(self) -> Any:
        """What takes the batches in the end."""
        return self.estimator.estimator if isinstance(self.estimator, SelectFromModel) else self.estimator

    @property
    def takes_weights(self) -> bool:
        """Whether ``partial_fit`` names ``sample_weight``."""
        return "sample_weight" in inspect.signature(self.learns.partial_fit).parameters

    def loop(self, trainer, weights=None):
        """Give the estimator as a plain loop over the same batches trains it."""
        model = clone(trainer.estimator_)
        options: dict[str, Any] = {}
        if "classes" in inspect.signature(self.learns.partial_fit).parameters:
            options["classes"] = np.unique(self.y) if self.y.ndim == 1 else [np.unique(column) for column in self.y.T]
        with threadpool_limits(limits=1):
            for epoch in range(trainer.epochs):
                for batch in replace(trainer.plan_, epoch=epoch):
                    labels = () if self.y is None else (self.y[batch.rows],)
                    if weights is not None:
                        options["sample_weight"] = weights[batch.rows]
                    model.partial_fit(self.X[batch.rows], *labels, **options)
        return model


def kinds() -> list[Kind]:
    """Give one kind for each class that scikit-learn lists."""
    rng = np.random.default_rng(4)
    numbers = np.abs(rng.normal(size=(N_ROWS, N_FEATURES)))
    numbers[:3] = [[0.1] * 6, [2.0] * 6, [0.1, 2.0] * 3]
    categories = rng.integers(0, 3, size=(N_ROWS, N_FEATURES)).astype(np.float64)
    codes = (numbers[:, 0] > 0.6).astype(int) + (numbers[:, 1] > 1)
    targets = numbers @ np.arange(6.0) + rng.normal(size=N_ROWS)
    found = []
    for name, kind in all_estimators():
        if not hasattr(kind, "partial_fit") or name in NOT_OF_NUMBERS:
            continue
        estimator = kind(INNER[name]()) if name in INNER else kind()
        seeds = {key: 3 for key in estimator.get_params() if key.endswith("random_state")}
        estimator.set_params(**(seeds | PARAMETERS.get(name, {})))
        y = codes if is_classifier(estimator) or name == "SelectFromModel" else None
        y = targets if is_regressor(estimator) else y
        if name.startswith("MultiOutput"):
            y = np.column_stack([y, y[::-1]])
        found.append(Kind(name, estimator, categories if name == "CategoricalNB" else numbers, y))
    return found


def differing(left: Any, right: Any) -> list[str]:
    """Name the fitted attributes that are not the same bits."""
    names = vars(left).keys() | vars(right).keys()
    return sorted(n for n in names if _bits(getattr(left, n, None)) != _bits(getattr(right, n, None)))


def _bits(value: Any) -> bytes:
    if isinstance(value, np.random.RandomState):
        value = [np.asarray(part).tolist() for part in value.get_state()]
    return pickle.dumps(value)
