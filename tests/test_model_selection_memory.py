"""A trainer inside scikit-learn's own searches, ensembles and pipelines, on data that fit into memory."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf

N_ROWS = 240


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(6).normal(size=(N_ROWS, 4))
    return X, np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])


def trainer_of(estimator=None, **options):
    defaults = {"batch_size": 32, "epochs": 2}
    return sf.StreamTrainer(estimator or SGDClassifier(random_state=0), **(defaults | options))


def by_hand(X, y, alpha, batch_size):
    """The loop that a fit of these rows is, over the batches that it would take."""
    trainer = trainer_of(SGDClassifier(alpha=alpha, random_state=0), batch_size=batch_size).fit(X, y)
    model = SGDClassifier(alpha=alpha, random_state=0)
    with threadpool_limits(limits=1):
        for epoch in range(2):
            for batch in replace(trainer.plan_, epoch=epoch):
                model.partial_fit(X[batch.rows], y[batch.rows], classes=np.unique(y))
    return model


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_grid_search(data, n_jobs):
    X, y = data
    grid = {"estimator__alpha": [1e-4, 1.0], "batch_size": [16, 64]}
    folds = StratifiedKFold(3)
    search = GridSearchCV(trainer_of(), grid, cv=folds, n_jobs=n_jobs).fit(X, y)
    scores = []
    for parameters in search.cv_results_["params"]:
        of_folds = []
        for train, test in folds.split(X, y):
            model = by_hand(X[train], y[train], parameters["estimator__alpha"], parameters["batch_size"])
            of_folds.append(model.score(X[test], y[test]))
        scores.append(np.mean(of_folds))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores, rtol=1e-12)
    assert len(set(scores)) > 1
    best = search.best_params_
    expected = by_hand(X, y, best["estimator__alpha"], best["batch_size"])
    np.testing.assert_array_equal(search.best_estimator_.estimator_.coef_, expected.coef_)
    np.testing.assert_array_equal(search.predict(X), expected.predict(X))


def test_random_search_and_scores_by_name(data):
    X, y = data
    search = RandomizedSearchCV(
        trainer_of(GaussianNB()),
        {"estimator__var_smoothing": [1e-9, 1e-3], "epochs": [1, 2]},
        n_iter=3,
        scoring=["neg_log_loss", "f1_macro"],
        refit="neg_log_loss",
        cv=2,
        random_state=0,
    ).fit(X, y)
    assert search.best_score_ == max(search.cv_results_["mean_test_neg_log_loss"])


def test_cross_validation(data):
    X, y = data
    folds = KFold(3, shuffle=True, random_state=1)
    scores = cross_val_score(trainer_of(), X, y, cv=folds)
    predicted = cross_val_predict(trainer_of(), X, y, cv=folds)
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        model = by_hand(X[train], y[train], 1e-4, 32)
        assert score == accuracy_score(y[test], model.predict(X[test]))
        np.testing.assert_array_equal(predicted[test], model.predict(X[test]))
    regression = cross_val_score(
        trainer_of(SGDRegressor(random_state=0)), X, X @ [1.0, 2, 0, 0], cv=folds, scoring="r2"
    )
    assert (regression > 0.8).all()


def test_in_a_pipeline_and_around_one(data):
    X, y = data
    outside = make_pipeline(StandardScaler(), trainer_of()).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    expected = by_hand(scaled, y, 1e-4, 32)
    np.testing.assert_array_equal(outside.predict(X), expected.predict(scaled))
    inside = clone(trainer_of(make_pipeline(StandardScaler(), SGDClassifier(random_state=0))))
    inside.set_params(estimator__sgdclassifier__alpha=0.5, epochs=1)
    assert inside.fit(X, y).estimator_[-1].alpha == 0.5


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(lambda trainer: CalibratedClassifierCV(trainer, cv=2), id="calibrated"),
        pytest.param(
            lambda trainer: StackingClassifier([("a", trainer), ("b", GaussianNB())], GaussianNB(), cv=2),
            id="stacked",
        ),
        pytest.param(lambda trainer: VotingClassifier([("a", trainer), ("b", GaussianNB())]), id="voting"),
        pytest.param(OneVsRestClassifier, id="one-versus-rest"),
    ],
)
def test_in_ensembles(data, around):
    X, y = data
    model = around(trainer_of()).fit(X, y)
    plain = around(SGDClassifier(random_state=0, max_iter=2, tol=None)).fit(X, y)
    assert model.predict(X).shape == plain.predict(X).shape
    assert model.score(X, y) > plain.score(X, y) - 0.15
    assert model.score(X, y) > 0.7


def test_it_is_pickled_fitted_and_unfitted(data):
    X, y = data
    for trainer in (trainer_of(), trainer_of().fit(X, y)):
        again = pickle.loads(pickle.dumps(trainer))
        assert repr(again) == repr(trainer)
    np.testing.assert_array_equal(again.predict(X), trainer.predict(X))
