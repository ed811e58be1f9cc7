"""Folds of whole chunks and of rows, and cross-validation over them, against scikit-learn in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.model_selection import cross_validate as in_memory
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError, ShuffleWarning
from streamfit.events import EpochEnded
from streamfit.plan.folds import folds_of_chunks

METRICS = ["accuracy", "neg_log_loss", "roc_auc", "matthews_corrcoef"]


class Loop(ClassifierMixin, BaseEstimator):
    """What the trainer does with rows in their order, as a loop in memory."""

    def __init__(self, batch_size=50):
        self.batch_size = batch_size

    def fit(self, X, y):
        self.model_ = SGDClassifier(loss="log_loss", random_state=0)
        self.classes_ = np.unique(y)
        for start in range(0, len(X), self.batch_size):
            rows = slice(start, start + self.batch_size)
            self.model_.partial_fit(X[rows], y[rows], classes=self.classes_)
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def decision_function(self, X):
        return self.model_.decision_function(X)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(610, 4))
    return X, (X[:, 0] + rng.normal(size=610) > 0).astype(int)


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    X, y = data
    return sf.ingest(X, tmp_path_factory.mktemp("folds") / "store", y=y, chunk_rows=60)


def trainer_of(estimator=None, **options):
    model = SGDClassifier(loss="log_loss", random_state=0) if estimator is None else estimator
    return sf.StreamTrainer(model, batch_size=50, shuffle="none", **options)


def rows_of(folds):
    return [(train.row_numbers(), test.row_numbers()) for train, test in folds]


# -- folds ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=60), st.data(), st.integers(0, 3))
def test_chunks_are_dealt_evenly(sizes, data, seed):
    n_folds = data.draw(st.integers(2, len(sizes)))
    folds = folds_of_chunks(np.array(sizes), n_folds=n_folds, seed=seed)
    rows = np.bincount(folds, weights=sizes, minlength=n_folds)
    assert (rows > 0).all()
    assert rows.max() - rows.min() <= max(sizes)
    np.testing.assert_array_equal(folds, folds_of_chunks(np.array(sizes), n_folds=n_folds, seed=seed))


def test_each_row_is_tested_on_once_and_whole_chunks_stay_together(store):
    folds = rows_of(sf.ChunkKFold(4, seed=1).split(store))
    assert len(folds) == 4
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(610))
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(610))
        assert not set(train // 60) & set(test // 60)
        assert 120 <= len(test) <= 180
    again = rows_of(sf.ChunkKFold(4, seed=1).split(store))
    other = rows_of(sf.ChunkKFold(4, seed=2).split(store))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(folds, other, strict=True))


def test_views_of_views_are_parted_by_stored_chunks(store):
    view = store[30:][::2]
    numbers = view.row_numbers()
    tests = [set(view_numbers // 60) for _, view_numbers in rows_of(sf.ChunkKFold(3).split(view))]
    assert set.union(*tests) == set(numbers // 60)
    assert sum(len(chunks) for chunks in tests) == len(set(numbers // 60))


def test_folds_read_only_their_own_chunks(store):
    for train, test in sf.ChunkKFold(2).split(store):
        assert train.layout.aside_rows == test.layout.aside_rows == 0
        assert set(train.layout.chunk_sizes) | set(test.layout.chunk_sizes) == {60, 10}


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        pytest.param([True], "for each of 11 chunks", id="length"),
        pytest.param([0] * 11, "int64 of shape", id="numbers"),
        pytest.param([False] * 11, "None of the 610 rows", id="none"),
    ],
)
def test_masks_of_chunks_are_checked(store, chunks, message):
    with pytest.raises(InvalidParameterError, match=message):
        store.select_chunks(chunks)


# -- against scikit-learn ------------------------------------------------------------------------------


def assert_equal(outcome, expected, *, exact):
    assert {name for name in expected if name.startswith(("test", "train"))} == {
        name for name in outcome if name.startswith(("test", "train"))
    }
    for name, values in expected.items():
        if name.startswith(("test", "train")):
            np.testing.assert_allclose(outcome[name], values, rtol=1e-9)
            if name.endswith(exact):
                np.testing.assert_array_equal(outcome[name], values)


@pytest.mark.parametrize(
    "cv",
    [
        pytest.param(4, id="chunks"),
        pytest.param(sf.ChunkKFold(3, seed=5), id="chunks-seeded"),
        pytest.param(KFold(3), id="splitter"),
        pytest.param(StratifiedKFold(3, shuffle=True, random_state=0), id="stratified"),
        pytest.param(ShuffleSplit(2, random_state=0), id="rows-in-any-order"),
        pytest.param([(np.arange(610) < 400, np.arange(610) >= 450)], id="masks"),
    ],
)
def test_the_scores_are_those_of_a_loop_in_memory(data, store, cv):
    X, y = data
    outcome = sf.cross_validate(trainer_of(), store, cv=cv, metrics=METRICS, return_train_score=True)
    if hasattr(cv, "get_n_splits"):
        folds = [(np.sort(train), np.sort(test)) for train, test in cv.split(X, y)]
    elif isinstance(cv, list):
        folds = cv
    else:
        folds = rows_of((cv if isinstance(cv, sf.ChunkKFold) else sf.ChunkKFold(cv)).split(store))
    expected = in_memory(Loop(), X, y, cv=folds, scoring=METRICS, return_train_score=True)
    assert_equal(outcome, expected, exact=("accuracy", "matthews_corrcoef"))
    assert all(
        outcome[name].shape == (len(folds),) and (outcome[name] >= 0).all() for name in ("fit_time", "score_time")
    )


def test_arrays_scorers_pipelines_and_trainers(data):
    X, y = data
    f2 = make_scorer(fbeta_score, beta=2)
    trainer = trainer_of(make_pipeline(StandardScaler(), GaussianNB()), metrics={"f2": f2})
    outcome = sf.cross_validate(trainer, X, y, cv=KFold(3), return_estimator=True)
    expected = in_memory(make_pipeline(StandardScaler(), GaussianNB()), X, y, cv=KFold(3), scoring={"f2": f2})
    np.testing.assert_allclose(outcome["test_f2"], expected["test_f2"], rtol=1e-9)
    assert [type(fitted) for fitted in outcome["estimator"]] == [sf.StreamTrainer] * 3
    assert not hasattr(trainer, "estimator_")
    assert outcome["estimator"][0].predict(X).shape == y.shape


def test_default_metrics(store):
    assert [name for name in sf.cross_validate(trainer_of(), store, cv=2) if name.startswith("test_")] == [
        "test_accuracy",
        "test_log_loss",
        "test_roc_auc",
    ]
    with pytest.raises(InvalidParameterError, match="MiniBatchKMeans is measured by no metric"):
        sf.cross_validate(trainer_of(MiniBatchKMeans(2)), store, cv=2)
    outcome = sf.cross_validate(trainer_of(MiniBatchKMeans(2)), store, cv=2, metrics=["adjusted_rand_score"])
    assert outcome["test_adjusted_rand_score"].shape == (2,)


def test_callbacks_of_each_fold_are_its_own(store):
    stopping = sf.callbacks.EarlyStopping(patience=1)
    trainer = trainer_of(callbacks=[stopping], epochs=2, metrics=["accuracy"])
    outcome = sf.cross_validate(trainer, store, cv=2, fit_params={"validation_data": store}, return_estimator=True)
    fitted = [copy.callbacks_[0] for copy in outcome["estimator"]]
    assert fitted[0] is not fitted[1]
    assert trainer.callbacks == [stopping]


# -- runs on disk --------------------------------------------------------------------------------------


def test_each_fold_has_a_run_of_its_own_and_goes_on(store, tmp_path):
    whole = sf.cross_validate(trainer_of(epochs=2), store, cv=3, metrics=METRICS)

    class Dies:
        def notify(self, event):
            if isinstance(event, EpochEnded) and (tmp_path / "run" / "fold-1").exists() and event.epoch == 0:
                raise KeyboardInterrupt

    trainer = trainer_of(epochs=2, checkpoint=tmp_path / "run", callbacks=[Dies()])
    with pytest.raises(KeyboardInterrupt):
        sf.cross_validate(trainer, store, cv=3, metrics=METRICS)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["fold-0", "fold-1"]
    steps = []

    class Counts:
        def notify(self, event):
            if isinstance(event, EpochEnded):
                steps.append(event.epoch)

        def __deepcopy__(self, memo):
            return self

    trainer = trainer_of(epochs=2, checkpoint=sf.CheckpointOptions(tmp_path / "run"), callbacks=[Counts()])
    outcome = sf.cross_validate(trainer, store, cv=3, metrics=METRICS)
    for name in METRICS:
        np.testing.assert_array_equal(outcome[f"test_{name}"], whole[f"test_{name}"])
    assert steps == [1, 0, 1]  # nothing of fold 0, the second epoch of fold 1, all of fold 2


def test_a_cache_is_parted_too(store, tmp_path):
    model = make_pipeline(StandardScaler(), GaussianNB())
    cached = sf.cross_validate(trainer_of(model, cache=tmp_path / "cache"), store, cv=2)
    plain = sf.cross_validate(trainer_of(model), store, cv=2)
    np.testing.assert_array_equal(cached["test_accuracy"], plain["test_accuracy"])
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["fold-0", "fold-1"]


# -- refusals and warnings -----------------------------------------------------------------------------


def test_training_rows_that_lack_a_class_are_warned_of(data, tmp_path):
    X, _ = data
    y = np.sort(np.arange(610) % 3)
    folds = [(np.flatnonzero(y < 2), np.flatnonzero(y == 2))]
    store = sf.ingest(X, tmp_path / "store", y=np.array(["a", "b", "c"])[y], chunk_rows=60)
    with pytest.warns(ShuffleWarning, match=r"fold 0 lack 1 of the classes of its test rows \(c\).*store.shuffle"):
        outcome = sf.cross_validate(trainer_of(), store, cv=folds, metrics=["accuracy"])
    assert outcome["test_accuracy"] == [0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.cross_validate(trainer_of(), store, cv=StratifiedKFold(2), metrics=["accuracy"])


def test_a_number_of_folds_parts_rows_where_chunks_are_few(data, store):
    trainer = trainer_of()
    found = sf.cross_validate(trainer, store, cv=12, metrics=["accuracy"])
    expected = sf.cross_validate(trainer, store, cv=KFold(12, shuffle=True, random_state=0), metrics=["accuracy"])
    np.testing.assert_array_equal(found["test_accuracy"], expected["test_accuracy"])
    assert len(found["test_accuracy"]) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"cv": sf.ChunkKFold(12)},
            "12 folds of whole chunks.*chunks is 11.*chunk_rows.*KFold",
            id="more-than-chunks",
        ),
        pytest.param({"cv": 1}, "n_splits", id="one-fold"),
        pytest.param({"cv": True}, "cv must be a number of folds", id="flag"),
        pytest.param({"cv": "loo"}, "cv must be a number of folds", id="text"),
        pytest.param({"cv": []}, "cv gives no folds", id="no-folds"),
        pytest.param({"cv": [3]}, "Fold 0 of cv is no pair", id="no-pair"),
        pytest.param({"cv": [([1, 1, 2], [3])]}, "training rows of fold 0 have row 1 twice", id="twice"),
        pytest.param({"cv": [([1, 2], [610])]}, "test rows of fold 0.*Row 610", id="not-there"),
        pytest.param({"cv": [([1, 2], [])]}, "test rows of fold 0", id="empty"),
        pytest.param({"metrics": ["acuracy"]}, "Names like it are: accuracy", id="metric"),
        pytest.param({"metrics": ["r2"]}, "No such metrics", id="metric-of-numbers"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(store, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        sf.cross_validate(trainer_of(), store, **options)


def test_other_refusals(data, store, tmp_path):
    X, _ = data
    with pytest.raises(InvalidParameterError, match="Wrap the estimator"):
        sf.cross_validate(GaussianNB(), store)
    with pytest.raises(InvalidDataError, match="no y"):
        sf.cross_validate(trainer_of(), X, cv=KFold(2))
    many = sf.ingest(np.zeros((2_000_000, 1), np.int8), tmp_path / "many", y=np.zeros(2_000_000))
    with pytest.raises(BudgetError, match="labels and row numbers"):
        sf.cross_validate(trainer_of(SGDRegressor(), memory_limit="60MB"), many, cv=KFold(2))
