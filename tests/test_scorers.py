"""Every scorer of scikit-learn over the chunks of a store, against scikit-learn in memory."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LinearRegression, SGDClassifier, SGDRegressor
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.batch import Chunk
from streamfit.callbacks.monitor import less_is_better
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.incremental.metric_summary import MetricSummary
from streamfit.incremental.metric_trial import check_on_trial
from streamfit.incremental.metric_ways import Target, ways_of
from streamfit.incremental.scorers import goes_with, metrics_of
from streamfit.incremental.validation import evaluate
from streamfit.maths.contingency import Contingency
from streamfit.run.distributed import DistributedEngine
from streamfit.run.threads import ThreadsEngine

N_ROWS = 61


def quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def over(store, model, metrics, memory_limit=None):
    return evaluate(model, store, metrics, memory_limit=memory_limit, engine=ThreadsEngine())


class Positive(RegressorMixin, BaseEstimator):
    """A fitted regressor whose predictions are all positive, as deviances need."""

    def fit(self, _X, _y):
        return self

    def predict(self, X):
        return np.exp(X[:, 1])


def cases():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 5))
    target = X[:, 0] + rng.normal(size=N_ROWS)
    two, three = (target > 0).astype(int), np.digitize(target, [-0.5, 0.5])
    sgd = partial(SGDClassifier, random_state=0)
    yield "two", X, GaussianNB(), two
    yield "one-and-two", X, GaussianNB(), two + 1
    yield "two-by-decision-function", X, sgd(), np.where(two, 1, -1)
    yield "three", X, GaussianNB(), three
    yield "three-text", X, sgd(loss="log_loss"), np.array(["a", "bb", "c"])[three]
    yield "numbers", X, SGDRegressor(random_state=0), target
    yield "positive-numbers", X, Positive(), np.abs(target) + 0.1
    yield "clusters", X, MiniBatchKMeans(4, random_state=0, n_init=1), three
    yield "outliers", X, IsolationForest(n_estimators=5, random_state=0), np.where(target > -1.5, 1, -1)


CASES = [pytest.param(X, quietly(model.fit, X, y), y, id=name) for name, X, model, y in cases()]

SUMMED = {  # added up in another order than in memory, or of predictions whose last bits depend on the number of rows
    *("neg_median_absolute_error", "d2_absolute_error_score", "neg_max_error"),
    *("neg_log_loss", "neg_brier_score", "d2_brier_score", "d2_log_loss_score", "r2", "explained_variance"),
    *(name for name in get_scorer_names() if name.startswith(("neg_mean", "neg_root_mean"))),
    *("roc_auc", "average_precision", "fowlkes_mallows_score"),
    *(name for name in get_scorer_names() if "mutual_info" in name),
    *("homogeneity_score", "completeness_score", "v_measure_score"),
}


NAN_IN_PLACE_OF_AN_ERROR = {  # scikit-learn refuses values, which may be others in the next epoch
    *("neg_mean_gamma_deviance", "neg_mean_poisson_deviance"),
    *("neg_mean_squared_log_error", "neg_root_mean_squared_log_error"),
}


def in_memory(names, model, X, y):
    """What scikit-learn gives, where it gives something."""
    values = {}
    for name in names:
        try:
            values[name] = quietly(get_scorer(name), model, X, y)
        except (ValueError, AttributeError):
            continue
    return values


@pytest.mark.parametrize("chunk_rows", [1, 23, N_ROWS])
@pytest.mark.parametrize(("X", "model", "y"), CASES)
def test_every_name_gives_what_it_gives_in_memory(tmp_path, X, model, y, chunk_rows):
    expected = in_memory([name for name in get_scorer_names() if goes_with(metrics_of([name])[0], model)], model, X, y)
    assert len(expected) >= (9 if isinstance(model, RegressorMixin) else 24)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=chunk_rows)
    values = over(store, model, list(expected))
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name
        if name not in SUMMED and not math.isnan(value):
            assert values[name] == value, name


@pytest.mark.parametrize(("X", "model", "y"), CASES)
def test_what_scikit_learn_refuses_is_refused_or_nan(tmp_path, X, model, y):
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    refused = set(get_scorer_names()) - in_memory(get_scorer_names(), model, X, y).keys()
    for name in sorted(refused):
        if goes_with(metrics_of([name])[0], model) and name not in NAN_IN_PLACE_OF_AN_ERROR:
            with pytest.raises(InvalidParameterError, match=f"The metric {name} cannot be computed"):
                over(store, model, [name])
        elif goes_with(metrics_of([name])[0], model):
            assert math.isnan(over(store, model, [name])[name])


def test_text_has_a_second_class_where_scikit_learn_has_no_positive_one(tmp_path):
    _, X, model, y = next(cases())
    names = [
        "f1",
        "precision",
        "recall",
        "jaccard",
        "average_precision",
        "neg_brier_score",
        "d2_brier_score",
        "roc_auc",
    ]
    expected = in_memory(names, model.fit(X, y), X, y)
    text = np.array(["no", "yes"])[y]
    assert in_memory(names, model.fit(X, text), X, text).keys() == {"roc_auc"}
    values = over(sf.ingest(X, tmp_path / "store", y=text, chunk_rows=23), model, names)
    assert values == pytest.approx(expected, rel=1e-12)


def test_names_without_neg_are_the_loss_itself(tmp_path):
    _, X, model, y = next(cases())
    model.fit(X, y)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    values = over(store, model, ["brier_score", "neg_brier_score", "log_loss"])
    assert values["brier_score"] == -values["neg_brier_score"]
    assert values["log_loss"] == pytest.approx(sk.log_loss(y, model.predict_proba(X)), rel=1e-9)
    numbers = sf.ingest(X, tmp_path / "numbers", y=X[:, 0] * 2, chunk_rows=23)
    values = over(numbers, SGDRegressor(random_state=0).fit(X, X[:, 0]), ["max_error", "neg_max_error"])
    assert values["max_error"] == -values["neg_max_error"] > 0


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3)), min_size=2, max_size=40), st.data())
def test_agreement_of_groups_from_counts(pairs, data):
    true, predicted = np.array(pairs).T
    cut = data.draw(st.integers(1, len(true) - 1))
    known = np.arange(5)
    parts = [
        Contingency.of(true[rows], predicted[rows], labels=(known, None)) for rows in (slice(cut), slice(cut, None))
    ]
    table = parts[0].merge(parts[1])
    for name in (
        *("rand", "adjusted_rand", "fowlkes_mallows", "mutual_info", "normalized_mutual_info", "adjusted_mutual_info"),
        *("homogeneity", "completeness", "v_measure"),
    ):
        expected = getattr(sk, f"{name}_score")(true, predicted)
        assert getattr(table, name)() == pytest.approx(expected, rel=1e-9, abs=1e-12), name


# -- scorers of the user -------------------------------------------------------------------------------


def worst_tenth(y, probabilities):
    return np.sort(np.abs(y - probabilities))[-len(y) // 10 :].mean()


def test_scorers_that_are_made(tmp_path):
    _, X, model, y = next(cases())
    model.fit(X, y)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    scorers = {
        "f2": make_scorer(sk.fbeta_score, beta=2),
        "of_zero": make_scorer(sk.f1_score, pos_label=0),
        "kappa": make_scorer(sk.cohen_kappa_score, weights="quadratic"),
        "wrong": make_scorer(sk.zero_one_loss, greater_is_better=False, normalize=False),
        "ap_of_zero": make_scorer(sk.average_precision_score, response_method="predict_proba", pos_label=0),
        "partial_auc": make_scorer(sk.roc_auc_score, response_method="predict_proba", max_fpr=0.2),
        "top": make_scorer(sk.top_k_accuracy_score, response_method="predict_proba", k=1),
        "worst": make_scorer(worst_tenth, greater_is_better=False, response_method="predict_proba"),
        "squares": make_scorer(sk.mean_squared_error),
        "named": "jaccard",
    }
    expected = {
        name: get_scorer(scorer)(model, X, y) if isinstance(scorer, str) else scorer(model, X, y)
        for name, scorer in scorers.items()
    }
    assert over(store, model, scorers) == pytest.approx(expected, rel=1e-12)
    assert [metric.name for metric in metrics_of([scorers["f2"], scorers["wrong"], scorers["worst"]])] == [
        "fbeta_score",
        "neg_zero_one_loss",
        "neg_worst_tenth",
    ]


def test_hits_of_more_than_two_classes(tmp_path):
    _, X, model, y = list(cases())[3]
    model.fit(X, y)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=1)
    for k in (1, 2, 3):
        scorer = make_scorer(sk.top_k_accuracy_score, response_method="predict_proba", k=k)
        assert over(store, model, {"top": scorer})["top"] == quietly(scorer, model, X, y)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        pytest.param("accuracy", "must be a sequence of names and scorers", id="text"),
        pytest.param(3, "must be a sequence of names and scorers", id="number"),
        pytest.param(["matthews_corcoef"], "Names like it are: matthews_corrcoef", id="misspelt"),
        pytest.param(["zzz"], r"no metric 'zzz'\. Known are: accuracy", id="like-nothing"),
        pytest.param(["f1", "f1"], "given twice: f1", id="twice"),
        pytest.param({"": "f1"}, "names of metrics are text", id="no-name"),
        pytest.param([sk.f1_score], "Wrap the function: sklearn.metrics.make_scorer", id="function"),
        pytest.param([len], "which is no scorer", id="callable"),
        pytest.param([None], "Give a name of sklearn", id="none"),
        pytest.param([make_scorer(lambda *_: 0.0)], "has no name. Give one", id="lambda"),
        pytest.param([make_scorer(partial(sk.fbeta_score, beta=2))], "has no name. Give one", id="partial"),
    ],
)
def test_what_is_no_metric(metrics, message):
    with pytest.raises(InvalidParameterError, match=message):
        metrics_of(metrics)


@pytest.mark.parametrize(
    ("case", "metric", "message"),
    [
        pytest.param(3, "f1", "there are 3 classes: Target is multiclass but average='binary'", id="two-classes"),
        pytest.param(3, "roc_auc", "there are 3 classes: multi_class must be in", id="auc"),
        pytest.param(0, "f1_samples", "there are 2 classes: ", id="several-labels"),
        pytest.param(0, make_scorer(sk.f1_score, average=None), "gives 2 numbers", id="array"),
        pytest.param(7, "f1", "with these labels and this estimator", id="clusters"),
    ],
)
def test_what_is_not_for_such_labels_is_refused_before_rows_are_read(tmp_path, case, metric, message):
    _, X, model, y = list(cases())[case]
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)

    class Unasked(type(model)):
        def predict(self, _X):
            raise AssertionError

    model.fit(X, y).__class__ = Unasked
    with pytest.raises(InvalidParameterError, match=message):
        over(store, model, [metric])


def test_a_function_that_gives_no_number(tmp_path):
    _, X, model, y = next(cases())
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    with pytest.raises(InvalidParameterError, match=r"'counts' gives array.*one number is needed"):
        over(store, model.fit(X, y), {"counts": make_scorer(lambda y, _: np.bincount(y))})


# -- the pass ------------------------------------------------------------------------------------------


class Counted(ClassifierMixin, BaseEstimator):
    """A fitted classifier that counts how often it is asked."""

    classes_ = np.array([0, 1])
    n_features_in_ = 5

    def __init__(self):
        self.asked = []

    def predict(self, X):
        self.asked.append("predict")
        return (X[:, 0] > 0).astype(int)

    def predict_proba(self, X):
        self.asked.append("predict_proba")
        positive = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - positive, positive])


def test_each_method_is_called_once_a_chunk(tmp_path):
    _, X, _, y = next(cases())
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    model = Counted()
    over(store, model, ["accuracy", "f1", "jaccard", "neg_log_loss", "roc_auc", "average_precision", "log_loss"])
    assert sorted(model.asked) == ["predict"] * 3 + ["predict_proba"] * 3


def test_rows_that_are_kept_are_counted_before_anything_is_read(tmp_path):
    n_rows = 200_000
    rng = np.random.default_rng(0)
    store = sf.ingest(rng.normal(size=(n_rows, 2)), tmp_path / "store", y=rng.normal(size=n_rows), chunk_rows=1_000)
    model = SGDRegressor(tol=None).fit(rng.normal(size=(50, 2)), np.arange(50.0))
    over(store, model, ["r2", "neg_max_error", "neg_root_mean_squared_error"], memory_limit="53MB")
    for chunk in (tmp_path / "store" / "X" / "c").iterdir():
        chunk.rename(chunk.with_name(f"{chunk.name}-away"))
    with pytest.raises(BudgetError, match="shared"):
        over(store, model, ["neg_median_absolute_error"], memory_limit="53MB")


def test_the_engine_changes_no_bit(tmp_path):
    _, X, model, y = list(cases())[3]
    model.fit(X, y)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=7)
    names = ["accuracy", "neg_log_loss", "roc_auc_ovr", "matthews_corrcoef", "rand_score", "d2_brier_score"]
    metrics = {name: name for name in names} | {"own": make_scorer(sk.fbeta_score, beta=2, average="macro")}
    here = over(store, model, metrics)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        there = evaluate(model, store, metrics, memory_limit=None, engine=DistributedEngine(client))
    assert here == there


# -- not defined ---------------------------------------------------------------------------------------


def test_one_class_is_said_once_with_the_reason(tmp_path, caplog):
    _, X, model, y = next(cases())
    model.fit(X, y)
    store = sf.ingest(X[y == 1], tmp_path / "store", y=y[y == 1], chunk_rows=7)
    names = ["roc_auc", "roc_auc_ovr", "d2_log_loss_score", "d2_brier_score", "accuracy", "neg_log_loss"]
    values = over(store, model, names)
    assert [name for name, value in values.items() if math.isnan(value)] == names[:4]
    assert values["accuracy"] == model.score(X[y == 1], y[y == 1])
    expected = sk.log_loss(y[y == 1], model.predict_proba(X[y == 1]), labels=[0, 1])
    assert values["neg_log_loss"] == pytest.approx(-expected, rel=1e-9)
    assert len(caplog.records) == 1
    assert "d2_brier_score, d2_log_loss_score: not defined for these rows (There is one class only" in caplog.text


def test_predictions_that_are_not_numbers(tmp_path, caplog):
    class Broken(RegressorMixin, BaseEstimator):
        def predict(self, X):
            return np.where(X[:, 0] > 1.5, np.nan, X[:, 0])

    X = np.linspace(0, 2, 100).reshape(50, 2)
    store = sf.ingest(X, tmp_path / "store", y=X[:, 1], chunk_rows=7)
    names = [name for name in get_scorer_names() if goes_with(metrics_of([name])[0], Broken())]
    values = over(store, Broken(), names)
    assert all(math.isnan(value) for value in values.values())
    assert len(caplog.records) == 1
    assert "NaN" in caplog.text


def test_labels_that_the_model_does_not_know(tmp_path, caplog):
    _, X, _, _ = next(cases())
    y = np.arange(N_ROWS) % 3
    model = GaussianNB().fit(X[y < 2], y[y < 2])
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=7)
    counted = ["accuracy", "f1_macro", "matthews_corrcoef", "v_measure_score", "balanced_accuracy"]
    values = over(store, model, [*counted, "roc_auc", "neg_log_loss", "neg_brier_score", "f1", "average_precision"])
    for name in counted:
        assert values[name] == pytest.approx(quietly(get_scorer(name), model, X, y), rel=1e-9)
    assert all(math.isnan(value) for name, value in values.items() if name not in counted)
    assert "The label 2" in caplog.text or "The label np.int64(2)" in caplog.text


def test_probabilities_that_are_none(tmp_path):
    class Wild(Counted):
        def predict_proba(self, X):
            return np.column_stack([X[:, 0], 1 - X[:, 0]])

    _, X, _, y = next(cases())
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    values = over(store, Wild(), ["neg_log_loss", "neg_brier_score"])
    assert all(math.isnan(value) for value in values.values())


# -- labels of several outputs -------------------------------------------------------------------------


def over_chunks(model, X, y, names):
    target = Target(model, None, None, label_nbytes=8 * y.shape[1], n_outputs=y.shape[1])
    measured, tallies = ways_of(metrics_of(names), target)
    check_on_trial(measured, target)
    summary = MetricSummary(model, measured, tallies, n_rows=len(X))
    state = summary.empty()
    for index, start in enumerate(range(0, len(X), 23)):
        rows = slice(start, start + 23)
        state = summary.merge(summary.update(summary.empty(), Chunk(index, start, X[rows], y=y[rows])), state)
    return summary.finalize(state)


@pytest.mark.parametrize("name", get_scorer_names())
@pytest.mark.parametrize("kind", ["numbers", "labels", "labels-by-output"])
def test_several_outputs(several, kind, name):
    X, model, y = several[kind]
    try:
        expected = quietly(get_scorer(name), model, X, y)
    except (ValueError, AttributeError):
        expected = None
    if not goes_with(metrics_of([name])[0], model):
        return
    if expected is None and name not in NAN_IN_PLACE_OF_AN_ERROR:
        with pytest.raises(InvalidParameterError, match=f"{name} cannot be computed, the labels have 3 outputs"):
            over_chunks(model, X, y, [name])
    elif expected is not None:
        assert over_chunks(model, X, y, [name])[name] == pytest.approx(expected, rel=1e-9), name


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 5))
    y = X[:, :3] + rng.normal(size=(N_ROWS, 3))
    flags = (y > 0).astype(int)
    net = partial(MLPClassifier, (4,), max_iter=20, random_state=0)
    return {
        "numbers": (X, LinearRegression().fit(X, y), y),
        "labels": (X, quietly(net().fit, X, flags), flags),
        "labels-by-output": (X, MultiOutputClassifier(GaussianNB()).fit(X, flags), flags),
    }


# -- where metrics are named ---------------------------------------------------------------------------


def test_a_trainer_takes_names_and_scorers(tmp_path):
    _, X, _, y = next(cases())
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=23)
    metrics = {"f2": make_scorer(sk.fbeta_score, beta=2), "mcc": "matthews_corrcoef"}
    model = SGDClassifier(loss="log_loss", random_state=0)
    trainer = sf.StreamTrainer(model, epochs=2, metrics=metrics)
    trainer.fit(store, validation_data=store)
    assert trainer.history_[-1]["val_f2"] == pytest.approx(metrics["f2"](trainer.estimator_, X, y), rel=1e-12)
    assert sf.evaluate(trainer, store) == {name: trainer.history_[-1][f"val_{name}"] for name in metrics}
    with pytest.raises(InvalidParameterError, match="Names like it are"):
        sf.StreamTrainer(model, metrics=["acuracy"]).fit(store)


@pytest.mark.parametrize("name", get_scorer_names())
def test_it_is_known_which_way_is_better(name):
    assert not less_is_better(f"val_{name}", "auto")
    if name.startswith("neg_"):
        assert less_is_better(f"val_{name.removeprefix('neg_')}", "auto")


def test_any_fitted_model_is_measured(tmp_path):
    _, X, _, y = next(cases())
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    values = sf.evaluate(model, X, y, metrics=["accuracy", "roc_auc"])
    assert values == {"accuracy": model.score(X, y), "roc_auc": pytest.approx(get_scorer("roc_auc")(model, X, y))}
    assert sf.evaluate(model, X, y).keys() == {"accuracy", "log_loss", "roc_auc"}
    clusters = MiniBatchKMeans(2, n_init=1).fit(X)
    with pytest.raises(InvalidParameterError, match="no metrics that MiniBatchKMeans is measured by"):
        sf.evaluate(clusters, X, y)
    with pytest.raises(InvalidDataError, match="4 features and the model was trained on 5"):
        sf.evaluate(model, X[:, :4], y)
    with pytest.raises(InvalidDataError, match="regressor and y is text"):
        sf.evaluate(SGDRegressor().fit(X, y), X, y.astype(str))
