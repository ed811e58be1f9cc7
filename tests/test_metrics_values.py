"""Metrics over all rows, against scikit-learn on the whole."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.incremental.validation import check_metrics, default_metrics, evaluate
from streamfit.maths.metrics import average_precision, roc_auc
from streamfit.maths.regression_sums import RegressionSums
from streamfit.run.threads import ThreadsEngine

AVERAGES = ("macro", "micro", "weighted")
COUNT_METRICS = (
    "accuracy",
    "balanced_accuracy",
    *(f"{name}{ending}" for name in ("f1", "precision", "recall") for ending in ("", *(f"_{a}" for a in AVERAGES))),
)


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def sklearn_count_metric(name, true, predicted):
    if name in ("accuracy", "balanced_accuracy"):
        return quietly(getattr(oracle, f"{name}_score"), true, predicted)
    base, _, average = name.partition("_")
    options = {"average": average} if average else {"average": "binary", "pos_label": 1}
    return quietly(getattr(oracle, f"{base}_score"), true, predicted, **options)


scored = st.lists(st.tuples(st.booleans(), st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1e-300, 3.0])), min_size=1)


@settings(max_examples=60, deadline=None)
@given(scored)
def test_ranking_metrics_with_ties(pairs):
    positive, scores = (np.array(values) for values in zip(*pairs, strict=True))
    if positive.all() or not positive.any():
        assert math.isnan(roc_auc(positive, scores))
    else:
        assert roc_auc(positive, scores) == pytest.approx(oracle.roc_auc_score(positive, scores), rel=1e-12)
    if positive.any():
        expected = oracle.average_precision_score(positive, scores)
        assert average_precision(positive, scores) == pytest.approx(expected, rel=1e-12)
    else:
        assert math.isnan(average_precision(positive, scores))


def test_scores_that_are_not_numbers_have_no_order():
    positive, scores = np.array([True, False]), np.array([0.1, np.nan])
    assert math.isnan(roc_auc(positive, scores))
    assert math.isnan(average_precision(positive, scores))


numbers = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=40)


@settings(max_examples=100, deadline=None)
@given(numbers, st.data())
def test_regression_metrics(pairs, data):
    true, predicted = np.array(pairs).T
    cut = data.draw(st.integers(1, len(true) - 1))
    sums = RegressionSums.of(true[:cut], predicted[:cut]).merge(RegressionSums.of(true[cut:], predicted[cut:]))
    if np.ptp(true) > 1e-3 * np.abs(true).max():
        assert sums.r2() == pytest.approx(oracle.r2_score(true, predicted), rel=1e-6)
        expected = oracle.explained_variance_score(true, predicted)
        assert sums.explained_variance() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("true", "predicted", "expected"),
    [
        pytest.param([2.0, 2.0], [2.0, 2.0], 1.0, id="constant-and-right"),
        pytest.param([2.0, 2.0], [2.0, 3.0], 0.0, id="constant-and-wrong"),
        pytest.param([2.0], [2.0], math.nan, id="one-row"),
        pytest.param([1e9, 1e9 + 1, 1e9 + 2], [1e9, 1e9 + 1, 1e9 + 1], 0.5, id="far-from-zero"),
    ],
)
def test_r2_at_its_edges(true, predicted, expected):
    value = RegressionSums.of(np.array(true), np.array(predicted)).r2()
    assert value == pytest.approx(expected, nan_ok=True)


# -- over a store ------------------------------------------------------------------------------------


def over_store(tmp_path, model, X, y, names, chunk_rows=37):
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=chunk_rows, if_exists="overwrite")
    return evaluate(model, store, tuple(names), memory_limit=None, engine=ThreadsEngine())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(501, 5)).astype(np.float32)
    return X, X[:, 0] + rng.normal(size=501)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(SGDClassifier(loss="log_loss", random_state=0), id="decision-function"),
        pytest.param(MLPClassifier((4,), random_state=0), id="float32-probabilities"),
        pytest.param(GaussianNB(), id="probabilities"),
    ],
)
@pytest.mark.parametrize("labels", [["a", "b"], [1, 0], [b"a", b"b"]], ids=["text", "integers", "bytes"])
def test_two_classes_over_a_store(tmp_path, rows, model, labels):
    X, target = rows
    y = np.array(labels)[(target > 0).astype(int)]
    text = np.char.decode(y) if y.dtype.kind == "S" else y
    quietly(model.fit, X[:100], text[:100])
    names = [*COUNT_METRICS, "log_loss", "roc_auc", "average_precision"]
    values = over_store(tmp_path, model, X, y, names)
    truth = text == model.classes_[1]
    predicted = model.predict(X) == model.classes_[1]
    scores = model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]
    expected = {name: sklearn_count_metric(name, truth, predicted) for name in COUNT_METRICS}
    expected["log_loss"] = oracle.log_loss(text, model.predict_proba(X))
    expected["roc_auc"] = oracle.roc_auc_score(truth, scores)
    expected["average_precision"] = oracle.average_precision_score(truth, scores)
    # scikit-learn adds up the logarithms of float32 probabilities in float32.
    assert values == pytest.approx(expected, rel=1e-6)
    assert default_metrics(model, model.classes_) == ("accuracy", "log_loss", "roc_auc")


def test_three_classes_over_a_store(tmp_path, rows):
    X, target = rows
    y = np.digitize(target, [-0.5, 0.5])
    model = GaussianNB().fit(X[:100], y[:100])
    names = [name for name in COUNT_METRICS if name.endswith(("accuracy", *AVERAGES))] + ["log_loss"]
    values = over_store(tmp_path, model, X, y, names)
    expected = {name: sklearn_count_metric(name, y, model.predict(X)) for name in names if name != "log_loss"}
    expected["log_loss"] = oracle.log_loss(y, model.predict_proba(X))
    assert values == pytest.approx(expected, rel=1e-6)
    assert default_metrics(model, model.classes_) == ("accuracy", "log_loss")
    with pytest.raises(InvalidParameterError, match="such as f1_macro"):
        over_store(tmp_path, model, X, y, ["f1"])


def test_numbers_over_a_store(tmp_path, rows):
    X, target = rows
    model = SGDRegressor(random_state=0).fit(X, target)
    values = over_store(tmp_path, model, X, target, ["r2", "mean_squared_error", "mean_absolute_error"])
    predicted = model.predict(X)
    assert values == pytest.approx(
        {
            "r2": oracle.r2_score(target, predicted),
            "mean_squared_error": oracle.mean_squared_error(target, predicted),
            "mean_absolute_error": oracle.mean_absolute_error(target, predicted),
        },
        rel=1e-9,
    )
    assert default_metrics(model, None) == ("r2", "mean_squared_error")


def test_the_last_chunk_of_one_row_does_not_weigh_more(tmp_path, rows):
    X, target = rows
    y = (target > 0).astype(int)
    model = GaussianNB().fit(X[:100], y[:100])
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=500)
    assert store.layout.chunk_bounds(1) == (500, 501)
    values = evaluate(model, store, ("accuracy",), memory_limit=None, engine=ThreadsEngine())
    assert values["accuracy"] == model.score(X, y)


def test_one_class_only_is_nan_and_said_once(tmp_path, rows, caplog):
    X, target = rows
    y = (target > 0).astype(int)
    model = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    ones = over_store(tmp_path, model, X[y == 1], y[y == 1], ["accuracy", "log_loss", "roc_auc", "average_precision"])
    assert math.isnan(ones["roc_auc"])
    assert ones["average_precision"] == pytest.approx(1.0)
    expected = oracle.log_loss(y[y == 1], model.predict_proba(X[y == 1]), labels=[0, 1])
    assert ones["log_loss"] == pytest.approx(expected)
    assert caplog.text.count("not defined for these rows") == 1
    assert "roc_auc: not defined" in caplog.text
    zeros = over_store(tmp_path, model, X[y == 0], y[y == 0], ["average_precision", "recall"])
    assert math.isnan(zeros["average_precision"])
    assert zeros["recall"] == 0.0


def test_labels_that_the_model_never_saw(tmp_path, rows, caplog):
    X, target = rows
    y = np.digitize(target, [-0.5, 0.5])
    model = SGDClassifier(loss="log_loss", random_state=0).fit(X[y < 2], y[y < 2])
    names = ["accuracy", "f1_macro", "balanced_accuracy"]
    values = over_store(tmp_path, model, X, y, [*names, "log_loss"])
    for name in names:
        assert values[name] == pytest.approx(sklearn_count_metric(name, y, model.predict(X)), rel=1e-12)
    assert math.isnan(values["log_loss"])
    assert "log_loss: not defined" in caplog.text


def test_labels_of_another_kind(tmp_path, rows):
    X, target = rows
    y = (target > 0).astype(int)
    model = GaussianNB().fit(X, y)
    with pytest.raises(InvalidDataError, match="the model is trained on int64"):
        over_store(tmp_path, model, X, y.astype(str), ["accuracy"])
    with pytest.raises(InvalidDataError, match="Metrics need y"):
        over_store(tmp_path, model, X, None, ["accuracy"])
    with pytest.raises(InvalidDataError, match="Metrics need y"):
        over_store(tmp_path, SGDRegressor().fit(X, target), X, None, ["r2"])


@pytest.mark.parametrize(
    ("names", "estimator", "message"),
    [
        pytest.param(["acuracy"], GaussianNB(), "no metric 'acuracy'. Names like it are: accuracy", id="misspelt"),
        pytest.param(["r2"], GaussianNB(), "Known are: accuracy", id="for-numbers"),
        pytest.param(["log_loss"], SGDClassifier(loss="hinge"), "log_loss", id="no-probabilities"),
        pytest.param(["accuracy"], SGDRegressor(), "Known are: d2_absolute_error_score", id="for-classes"),
        pytest.param(["r2"], MiniBatchKMeans(), "Known are: accuracy", id="clusters"),
        pytest.param(["accuracy"], StandardScaler(), "Known are: none", id="predicts-nothing"),
    ],
)
def test_metrics_are_known_before_the_fit(names, estimator, message):
    with pytest.raises(InvalidParameterError, match=message):
        check_metrics(names, estimator)
