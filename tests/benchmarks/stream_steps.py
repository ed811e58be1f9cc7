"""Estimators whose steps take a known time, for what is measured around them."""

from __future__ import annotations

import time

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class BusyStep(BaseEstimator):
    """A step that computes: hyperbolic tangents of 64 KiB, over and over.

    It is real work in C without Python's lock, as the steps of scikit-learn are, and stays in the cache of its core.
    """

    def __init__(self, rounds=0):
        self.rounds = rounds

    def partial_fit(self, X, y=None):  # noqa: ARG002  # scikit-learn's interface
        values = np.linspace(-1, 1, 8_192)
        for _ in range(self.rounds):
            np.tanh(values, out=values)
        self.n_features_in_ = X.shape[1]
        return self


class SlowStep(ClassifierMixin, BaseEstimator):
    """A step that only takes its time: what is held meanwhile does not depend on what it would compute."""

    def __init__(self, seconds=0.3):
        self.seconds = seconds

    def fit(self, X, y):
        return self.partial_fit(X, y, classes=np.unique(y))

    def partial_fit(self, X, y, classes=None):  # noqa: ARG002  # scikit-learn's interface
        time.sleep(self.seconds)
        if classes is not None:
            self.classes_ = classes
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def rounds_for(seconds):
    """How many rounds of a `BusyStep` take so long here: the quickest of some tries."""
    rounds, X, best = 200, np.zeros((1, 1)), np.inf
    for _ in range(7):
        began = time.perf_counter()
        BusyStep(rounds).partial_fit(X)
        best = min(best, time.perf_counter() - began)
    return max(1, round(rounds * seconds / best))
