"""Test, then train: each metric against scikit-learn on what a loop in memory predicted."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import distributed
import numpy as np
import pytest
from sklearn import metrics as of_sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.batch import Batch
from streamfit.callbacks import ControlPoint, EarlyStopping, PrequentialMetrics
from streamfit.callbacks.tested_batches import CLASS_METRICS, NUMBER_METRICS
from streamfit.errors import InvalidDataError, InvalidParameterError

ELEC2 = Path(__file__).parents[2] / "shared" / "data" / "elec2" / "elec2.npz"
BATCH = 40
BINARY = ("f1", "precision", "recall")


@pytest.fixture(scope="module", name="X")
def rows():
    return np.random.default_rng(4).normal(size=(370, 4)) * [1, 5, 0.2, 1] + [0, 3, 0, 0]


def labels(X, n_classes):
    noise = np.random.default_rng(5).normal(size=len(X))
    place = np.searchsorted([-0.5, 0.8][: n_classes - 1], X[:, 0] + 0.5 * noise)
    return np.array(["blue", "green", "red"])[place]


def predicted_by_loop(model, X, y, *, plan, epochs=1, method="predict"):
    """What a model says of each batch before it learns from it, first batch excepted: labels and answers of each."""
    *transformers, last = [link for _, link in model.steps] if hasattr(model, "steps") else [model]
    options = {"classes": np.unique(y)} if y.dtype.kind == "U" or y.dtype.kind in "iu" else {}
    seen = []
    with threadpool_limits(limits=1):
        for epoch in range(epochs):
            for batch in replace(plan, epoch=epoch):
                rows, before = X[batch.rows], X[batch.rows]
                if (epoch, batch.step) != (0, 0):
                    for one in transformers:
                        before = one.transform(before)
                    seen.append((y[batch.rows], getattr(last, method)(before)))
                for one in transformers:
                    rows = one.partial_fit(rows).transform(rows)
                last.partial_fit(rows, y[batch.rows], **options)
    return seen


def joined(seen):
    return tuple(np.concatenate([one[place] for one in seen]) for place in (0, 1))


def score(name, true, predicted, classes):
    """The metric of this name by scikit-learn."""
    if name == "log_loss":
        return of_sklearn.log_loss(true, predicted, labels=classes)
    if name in NUMBER_METRICS:
        return getattr(of_sklearn, {"r2": "r2_score"}.get(name, name))(true, predicted)
    base, _, average = name.partition("_")
    if base not in BINARY:
        return getattr(of_sklearn, f"{name}_score")(true, predicted)
    options = {"average": average} if average else {"pos_label": classes[1]}
    return getattr(of_sklearn, f"{base}_score")(true, predicted, zero_division=0, **options)


def pipeline():
    return make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0))


def fitted(X, y, callback, *, estimator=None, epochs=1, shuffle=False, **options):
    return sf.StreamTrainer(
        estimator or pipeline(),
        batch_size=BATCH,
        epochs=epochs,
        shuffle=shuffle,
        transformers="online",
        callbacks=[callback],
        **options,
    ).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_each_metric_of_classes(X, n_classes):
    y = labels(X, n_classes)
    names = [name for name in CLASS_METRICS if n_classes == 2 or name not in BINARY]
    trainer = fitted(X, y, PrequentialMetrics(names))
    seen = {
        method: joined(predicted_by_loop(pipeline(), X, y, plan=trainer.plan_, method=method))
        for method in ("predict", "predict_proba")
    }
    for name in names:
        expected = score(name, *seen["predict_proba" if name == "log_loss" else "predict"], np.unique(y))
        got = trainer.history_[0][f"prequential_{name}"]
        assert got == pytest.approx(expected, rel=1e-12), name
        assert (got == expected) or name != "accuracy"
        assert got > 0
    assert trainer.callbacks_[0].n_rows_ == len(X) - BATCH


@pytest.mark.parametrize("name", BINARY)
def test_metrics_of_two_classes_are_refused_for_three(X, name):
    with pytest.raises(InvalidParameterError, match=f"{name} are for two classes, SGDClassifier has 3.*{name}_macro"):
        fitted(X, labels(X, 3), PrequentialMetrics([name]))


def test_each_metric_of_numbers(X):
    y = X @ [3.0, -1.0, 2.0, 0.0] + 100
    estimator = make_pipeline(StandardScaler(), SGDRegressor(random_state=0))
    trainer = fitted(X, y, PrequentialMetrics(NUMBER_METRICS, window=3), estimator=estimator, epochs=2)
    seen = predicted_by_loop(clone(estimator), X, y, plan=trainer.plan_, epochs=2)
    for entry, upto in zip(trainer.history_, (9, 19), strict=True):
        for name in NUMBER_METRICS:
            every, last = (score(name, *joined(part), None) for part in (seen[:upto], seen[upto - 3 : upto]))
            assert entry[f"prequential_{name}"] == pytest.approx(every, rel=1e-10), name
            assert entry[f"prequential_{name}_window"] == pytest.approx(last, rel=1e-10), name


def test_several_labels_a_row(X):
    numbers = np.stack([X @ [3.0, -1.0, 2.0, 0.0], 50 * X[:, 1]], axis=1)
    estimator = make_pipeline(StandardScaler(), MultiOutputRegressor(SGDRegressor(random_state=0)))
    trainer = fitted(X, numbers, PrequentialMetrics(NUMBER_METRICS), estimator=estimator)
    seen = joined(predicted_by_loop(clone(estimator), X, numbers, plan=trainer.plan_))
    for name in NUMBER_METRICS:
        assert trainer.history_[0][f"prequential_{name}"] == pytest.approx(score(name, *seen, None), rel=1e-10), name
    flags = MultiOutputClassifier(SGDClassifier(random_state=0))
    with pytest.raises(InvalidParameterError, match="of one label a row, y has 2"):
        fitted(X[:BATCH], (numbers[:BATCH] > 0).astype(int), PrequentialMetrics(), estimator=flags)


def test_the_curve_and_the_window(X):
    y = labels(X, 3)
    callback = PrequentialMetrics(["accuracy", "f1_macro"], window=4, every_steps=3)
    trainer = fitted(X, y, callback, epochs=2, shuffle=True)
    seen = predicted_by_loop(pipeline(), X, y, plan=trainer.plan_, epochs=2)
    names = ("prequential_accuracy", "prequential_f1_macro")
    steps = [3, 6, 9, 10, 13, 16, 19, 20]
    assert [entry["epoch"] * 10 + entry["step"] for entry in trainer.history_] == steps
    for entry, total in zip(trainer.history_, steps, strict=True):
        for name in names:
            short = name.removeprefix("prequential_")
            every, last = (joined(part) for part in (seen[: total - 1], seen[max(0, total - 5) : total - 1]))
            assert entry[name] == pytest.approx(score(short, *every, None), rel=1e-12)
            assert entry[f"{name}_window"] == pytest.approx(score(short, *last, None), rel=1e-12)
    windows = [joined(seen[max(0, place - 4) : place]) for place in range(1, 20)]
    expected = [(total, score("accuracy", *rows, None)) for total, rows in enumerate(windows, start=2)]
    assert trainer.callbacks_[0].curve_ == expected
    whole = fitted(X, y, PrequentialMetrics(), epochs=2, shuffle=True).callbacks_[0].curve_
    everything = [joined(seen[:place]) for place in range(1, 20)]
    assert whole == [(total, score("accuracy", *rows, None)) for total, rows in enumerate(everything, start=2)]


def test_the_curve_is_bounded_and_evenly_spaced():
    callback = PrequentialMetrics()
    batch = Batch(step=0, epoch=1, X=np.zeros((1, 1)), rows=np.array([0]), y=np.array([1]))
    model = GaussianNB().partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1])
    record = callback.batch_test(model, batch)
    for step in range(1, 5001):
        if step == 3000:
            state = json.loads(json.dumps(callback.state()))
            callback = PrequentialMetrics()
            callback.restore(state)
        callback.collect(0, step, record)
    places = [place for place, _ in callback.curve_]
    assert 256 <= len(places) <= 512
    assert set(np.diff(places)) == {16}
    assert len(json.dumps(callback.state())) < 20_000


class Stops(BaseException):
    pass


class KillAt:
    def __init__(self, n_times, every_steps):
        self.left, self.every_steps = n_times, every_steps

    def judge(self, point):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise Stops
        return sf.callbacks.Verdict()

    def state(self):
        return {}

    def restore(self, state):  # noqa: ARG002
        return False


@pytest.mark.parametrize(
    ("metrics", "window"), [(None, None), (("log_loss", "f1_macro"), 3), (("r2", "mean_absolute_error"), 3)]
)
def test_a_fit_that_is_killed_at_each_point_gives_the_same(X, tmp_path, metrics, window):
    estimator, y = pipeline(), labels(X, 3)
    if metrics is not None and metrics[0] == "r2":
        estimator, y = make_pipeline(StandardScaler(), SGDRegressor(random_state=0)), X[:, 0] * 2 + 1

    def fit(callbacks, checkpoint):
        return sf.StreamTrainer(
            estimator,
            batch_size=BATCH,
            epochs=2,
            transformers="online",
            callbacks=[PrequentialMetrics(metrics, window=window, every_steps=3), *callbacks],
            checkpoint=checkpoint,
        ).fit(X, y)

    whole = fit([], None)
    n_kills, got = 0, None
    while got is None:
        try:
            got = fit([KillAt(2, 2)], sf.CheckpointOptions(tmp_path, every_steps=2))
        except Stops:
            n_kills += 1
    assert n_kills == 9
    assert got.callbacks_[0].state() == whole.callbacks_[0].state()
    assert got.callbacks_[0].curve_ == whole.callbacks_[0].curve_
    assert [{**entry, "seconds": 0} for entry in got.history_] == [{**entry, "seconds": 0} for entry in whole.history_]
    assert len(whole.history_) == 8


def test_it_is_the_same_on_a_cluster(X):
    y = labels(X, 3)
    here = fitted(X, y, PrequentialMetrics(["log_loss", "f1_weighted"], window=2), epochs=2).callbacks_[0]
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        there = fitted(X, y, PrequentialMetrics(["log_loss", "f1_weighted"], window=2), epochs=2).callbacks_[0]
    assert there.state() == here.state()


def test_the_training_is_not_changed(X):
    y = labels(X, 3)
    plain = sf.StreamTrainer(pipeline(), batch_size=BATCH, shuffle=False, transformers="online").fit(X, y)
    tested = fitted(X, y, PrequentialMetrics(["log_loss", "accuracy"]))
    np.testing.assert_array_equal(tested.estimator_[-1].coef_, plain.estimator_[-1].coef_)


def test_transformers_before_and_a_cache(X, tmp_path):
    y = labels(X, 2)
    options = {"batch_size": BATCH, "shuffle": False}
    scaled = StandardScaler().fit(X).transform(X)
    for cache in (None, tmp_path / "cache"):
        trainer = sf.StreamTrainer(pipeline(), callbacks=[PrequentialMetrics()], cache=cache, **options).fit(X, y)
        seen = predicted_by_loop(clone(pipeline()[-1]), scaled, y, plan=trainer.plan_)
        expected = score("accuracy", *joined(seen), None)
        assert trainer.history_[0]["prequential_accuracy"] == pytest.approx(expected, abs=2 / len(X))


def test_it_is_what_other_callbacks_watch(X):
    y = labels(X, 2)
    stopping = EarlyStopping(patience=1, restore_best=False, every_steps=1, min_delta=1.0)
    trainer = sf.StreamTrainer(pipeline(), batch_size=BATCH, callbacks=[PrequentialMetrics(), stopping]).fit(X, y)
    # Nothing is known after the first step, and nan is not better.
    assert trainer.callbacks_[1].state()["metric"] == "prequential_accuracy"
    assert math.isnan(fitted(X[:30], y[:30], PrequentialMetrics(["accuracy"])).history_[0]["prequential_accuracy"])


@pytest.mark.parametrize(
    ("estimator", "expected"), [(GaussianNB(), "accuracy"), (SGDRegressor(), "mean_squared_error")]
)
def test_what_is_measured_by_default(X, estimator, expected):
    y = labels(X, 2) if expected == "accuracy" else X[:, 0]
    assert f"prequential_{expected}" in fitted(X, y, PrequentialMetrics(), estimator=estimator).history_[0]


# -- labels ------------------------------------------------------------------------------------------


def batch_of(y, step=1):
    X = np.linspace(-1, 1, len(y))[:, None]
    return Batch(step=step, epoch=0, X=X, rows=np.arange(len(y)), y=np.asarray(y))


def values(callback, model, *batches):
    for batch in batches:
        callback.collect(0, batch.step + 1, callback.batch_test(model, batch))
    return {name.removeprefix("prequential_"): value for name, value in callback.metrics().items()}


def test_a_label_that_the_model_does_not_know_is_one_that_it_does_not_predict():
    model = GaussianNB().partial_fit([[-1.0], [1.0]], ["a", "c"], classes=["a", "c"])
    y = ["a", "b", "d", "c"]
    got = values(PrequentialMetrics(["accuracy", "f1_macro", "balanced_accuracy"]), model, batch_of(y))
    predicted = model.predict(batch_of(y).X)
    assert got["accuracy"] == 0.5
    assert got["f1_macro"] == pytest.approx(of_sklearn.f1_score(y, predicted, average="macro", zero_division=0))
    assert got["balanced_accuracy"] == 0.5
    losses = values(PrequentialMetrics(["log_loss"], window=1), model, batch_of(y), batch_of(["a", "c"], step=2))
    assert math.isnan(losses["log_loss"])
    assert losses["log_loss_window"] == pytest.approx(of_sklearn.log_loss(["a", "c"], model.predict_proba([[-1], [1]])))


@pytest.mark.parametrize(
    "y",
    [
        np.array([b"no", b"yes"]),
        np.array([0, 1], dtype=np.int8),
        np.array([0.0, 1.0], dtype=np.float32),
        np.array([False, True]),
    ],
)
def test_labels_of_any_kind_go_through_json(y):
    classes = np.char.decode(y) if y.dtype.kind == "S" else y
    model = GaussianNB().partial_fit([[-1.0], [1.0]], classes, classes=classes)
    callback = PrequentialMetrics(["f1", "accuracy"], window=2)
    assert values(callback, model, batch_of(y[[0, 1, 1, 1]])) == pytest.approx(
        {"f1": 0.8, "accuracy": 0.75, "f1_window": 0.8, "accuracy_window": 0.75}
    )
    again = PrequentialMetrics(["f1", "accuracy"], window=2)
    again.restore(json.loads(json.dumps(callback.state())))
    assert again.metrics() == callback.metrics()
    values(again, model, batch_of(y[[0, 1]], step=2))
    assert again.metrics()["prequential_accuracy"] == 5 / 6


def test_the_state_of_other_metrics_is_left_aside():
    model = GaussianNB().partial_fit([[-1.0], [1.0]], [0, 1], classes=[0, 1])
    old = PrequentialMetrics(["accuracy"])
    values(old, model, batch_of([0, 1]))
    for other in (PrequentialMetrics(["f1"]), PrequentialMetrics(["accuracy"], window=2), PrequentialMetrics()):
        other.restore(old.state())
        assert other.n_rows_ == 0
    same = PrequentialMetrics(("accuracy",))
    same.restore(json.loads(json.dumps(old.state())))
    same.judge(ControlPoint(0, 4, 4, {}, None, None))
    assert same.n_rows_ == 2


# -- what is refused ---------------------------------------------------------------------------------


class Silent(ClassifierMixin, BaseEstimator):
    def partial_fit(self, X, y, classes=None):  # noqa: ARG002
        self.classes_ = classes
        return self


class Untold(BaseEstimator):
    def partial_fit(self, X, y=None):  # noqa: ARG002
        self.seen_ = True
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("estimator", "metrics", "message"),
    [
        pytest.param(SGDClassifier(), ["r2"], "of SGDClassifier cannot be r2. Known are: accuracy", id="numbers"),
        pytest.param(SGDRegressor(), ["f1"], "of SGDRegressor cannot be f1. Known are: mean_abs", id="classes"),
        pytest.param(SGDClassifier(), ["log_loss"], "needs predict_proba for log_loss, which SGD", id="no-probability"),
        pytest.param(Silent(), None, "accuracy", id="no-predict"),
        pytest.param(MiniBatchKMeans(), None, "does not know what MiniBatchKMeans predicts", id="clusters"),
        pytest.param(Untold(), None, "does not know what Untold predicts", id="untold"),
    ],
)
def test_metrics_that_do_not_go_with_the_estimator(X, estimator, metrics, message):
    y = X[:, 0] if isinstance(estimator, SGDRegressor) else labels(X, 2)
    if isinstance(estimator, Silent):
        message = "needs predict for accuracy, which Silent does not have"
        metrics = ["accuracy"]
    with pytest.raises(InvalidParameterError, match=message):
        sf.StreamTrainer(estimator, batch_size=BATCH, callbacks=[PrequentialMetrics(metrics)]).fit(X, y)


def test_an_estimator_of_no_kind_is_tested_by_the_metrics_that_are_named(X):
    y = (X[:, 0] > 0).astype(float)
    for name, expected in (("accuracy", np.mean(y[BATCH:] == 0)), ("mean_squared_error", np.mean(y[BATCH:]))):
        trainer = fitted(X, y, PrequentialMetrics([name]), estimator=Untold())
        assert trainer.history_[0][f"prequential_{name}"] == pytest.approx(expected)


def test_rows_without_labels_and_rows_that_are_refused(X):
    with pytest.raises(InvalidDataError, match="PrequentialMetrics needs y and the data have none"):
        sf.StreamTrainer(MiniBatchKMeans(), callbacks=[PrequentialMetrics(["accuracy"])]).fit(X)
    model = GaussianNB().partial_fit(X, labels(X, 2), classes=["blue", "green"])  # of four columns
    with pytest.raises(InvalidDataError, match=r"GaussianNB cannot be tested on step 1 of epoch 0: .*4 features"):
        PrequentialMetrics().batch_test(model, batch_of(["blue"]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: PrequentialMetrics("accuracy"), "metrics must be a sequence of names", id="text"),
        pytest.param(lambda: PrequentialMetrics(()), "metrics must be a sequence of names", id="none"),
        pytest.param(lambda: PrequentialMetrics(["roc_auc"]), "has no 'roc_auc'", id="unknown"),
        pytest.param(lambda: PrequentialMetrics(["r2", "f1"]), "has no 'f1' beside these", id="of-both-kinds"),
        pytest.param(lambda: PrequentialMetrics(window=0), "window must be", id="window"),
        pytest.param(lambda: PrequentialMetrics(every_steps=0), "every_steps must be", id="every_steps"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


# -- a real stream -----------------------------------------------------------------------------------


def test_elec2_in_the_order_of_time():
    if not ELEC2.exists():
        pytest.skip(
            "needs elec2/elec2.npz, which is not shipped: the Elec2 data set of OpenML (electricity-normalized)"
        )
    with np.load(ELEC2) as arrays:
        X, y = arrays["X"], arrays["y"]
    model = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    trainer = sf.StreamTrainer(
        model, batch_size=1000, shuffle=False, transformers="online", callbacks=[PrequentialMetrics()]
    ).fit(X, y)
    scaler, sgd = StandardScaler(), SGDClassifier(random_state=0)
    right = tested = 0
    with threadpool_limits(limits=1):
        for start in range(0, len(X), 1000):
            rows, true = X[start : start + 1000], y[start : start + 1000]
            if start:
                right += int(np.sum(sgd.predict(scaler.transform(rows)) == true))
                tested += len(true)
            sgd.partial_fit(scaler.partial_fit(rows).transform(rows), true, classes=[0, 1])
    got = trainer.history_[0]["prequential_accuracy"]
    assert got == right / tested
    assert got >= 0.7159
    np.testing.assert_array_equal(trainer.estimator_[-1].coef_, sgd.coef_)
