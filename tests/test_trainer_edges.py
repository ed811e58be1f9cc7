"""The trainer as a scikit-learn citizen, its outputs, and the edges of its input."""

from __future__ import annotations

import logging
import threading

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.cluster import MiniBatchKMeans
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA, IncrementalPCA, LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError, StoreCorruptError, UnsupportedError
from streamfit.incremental.validation import evaluate_epoch


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(310, 4)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    X, y = data
    return sf.ingest(X, tmp_path_factory.mktemp("edges") / "store", y=y, chunk_rows=33)


def trainer_of(estimator=None, **options):
    return sf.StreamTrainer(estimator or SGDClassifier(loss="log_loss"), **({"batch_size": 40} | options))


# -- scikit-learn's manners ----------------------------------------------------------------------------


def test_parameters_are_stored_and_cloned():
    trainer = trainer_of(epochs=3, callbacks=[sf.callbacks.EarlyStopping()], stream=sf.StreamOptions(window=3))
    copied = clone(trainer)
    assert copied.get_params()["epochs"] == 3
    assert copied.get_params()["estimator__loss"] == "log_loss"
    assert copied.set_params(estimator__alpha=0.5).estimator.alpha == 0.5
    assert trainer.estimator.alpha == 0.0001
    assert "StreamTrainer" in repr(trainer)


def test_tags_are_the_estimators():
    assert is_classifier(trainer_of())
    assert is_regressor(trainer_of(SGDRegressor()))
    assert not is_classifier(trainer_of(MiniBatchKMeans()))


@pytest.mark.parametrize(
    ("estimator", "there", "missing"),
    [
        pytest.param(SGDClassifier(loss="hinge"), ["decision_function"], ["predict_proba", "transform"], id="hinge"),
        pytest.param(GaussianNB(), ["predict_proba"], ["decision_function"], id="GaussianNB"),
        pytest.param(IncrementalPCA(2), ["transform"], ["predict"], id="IncrementalPCA"),
        pytest.param(SGDOneClassSVM(), ["score_samples", "decision_function"], ["predict_proba"], id="one-class"),
    ],
)
def test_methods_are_those_of_the_estimator(estimator, there, missing):
    trainer = trainer_of(estimator)
    for name in there:
        assert hasattr(trainer, name)
    for name in missing:
        assert not hasattr(trainer, name)


def test_not_fitted():
    for call in (lambda t: t.predict(np.ones((1, 4))), lambda t: t.score(np.ones((1, 4)), [0])):
        with pytest.raises(NotFittedError):
            call(trainer_of())


def test_fitted_attributes(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    trainer = trainer_of(epochs=2).fit(frame, y)
    assert trainer.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert (trainer.n_features_in_, trainer.n_steps_, trainer.seed_) == (4, 8, 0)
    assert trainer.classes_.tolist() == [0, 1]
    assert [(entry["epoch"], entry["n_rows"]) for entry in trainer.history_] == [(0, 310), (1, 310)]
    assert not hasattr(trainer_of().fit(X, y), "feature_names_in_")
    np.testing.assert_array_equal(trainer.predict(frame), trainer.predict(X))
    np.testing.assert_array_equal(trainer.predict(frame[["b", "a", "c", "d"]]), trainer.predict(X))
    with pytest.raises(InvalidDataError, match="'a' is missing"):
        trainer.predict(frame[["b", "c", "d"]])


# -- outputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        pytest.param(SGDClassifier(loss="log_loss"), "predict", id="classes"),
        pytest.param(SGDClassifier(loss="log_loss"), "predict_proba", id="probabilities"),
        pytest.param(SGDClassifier(loss="log_loss"), "decision_function", id="decision"),
        pytest.param(SGDRegressor(), "predict", id="numbers"),
        pytest.param(MiniBatchKMeans(3), "predict", id="clusters"),
        pytest.param(MiniBatchKMeans(3), "transform", id="distances"),
        pytest.param(make_pipeline(StandardScaler(), IncrementalPCA(2)), "transform", id="components"),
        pytest.param(SGDOneClassSVM(), "score_samples", id="score-samples"),
    ],
)
def test_outputs_in_memory_and_lazily(data, store, estimator, method):
    X, _ = data
    trainer = trainer_of(estimator).fit(store)
    expected = getattr(trainer.estimator_, method)(X)
    np.testing.assert_array_equal(getattr(trainer, method)(X), expected)
    for lazy in (store, store.path, da.from_array(X, chunks=(33, 2))):
        result = getattr(trainer, method)(lazy)
        assert isinstance(result, da.Array)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        # Not bit-equal to one call on all rows: a matrix product adds up in another order.
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(result.compute(), expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(result.compute(), expected)


def test_building_a_prediction_reads_nothing(store, monkeypatch):
    trainer = trainer_of().fit(store)

    def read_chunk(*_, **__):
        raise AssertionError("read")

    monkeypatch.setattr(type(store.reader), "read_chunk", read_chunk)
    lazy = trainer.predict(store)
    with pytest.raises(AssertionError, match="read"):
        lazy.compute()


def test_score_is_over_all_rows(data, store):
    X, y = data
    trainer = trainer_of().fit(store)
    assert trainer.score(store) == trainer.score(store.path) == trainer.score(X, y) == trainer.estimator_.score(X, y)
    target = X[:, 0] * 2.0
    regressor = trainer_of(SGDRegressor()).fit(X, target)
    assert regressor.score(X, target) == pytest.approx(regressor.estimator_.score(X, target), rel=1e-9)
    clusters = trainer_of(MiniBatchKMeans(2)).fit(store)
    for rows in (X, store):
        assert clusters.score(rows) == pytest.approx(clusters.estimator_.score(X), rel=1e-6)
    with pytest.raises(UnsupportedError, match=r"trainer\.estimator_\.score"):
        trainer_of(LatentDirichletAllocation(2)).fit(np.abs(X)).score(np.abs(X))
    assert not hasattr(trainer_of(StandardScaler()), "score")
    with pytest.raises(InvalidParameterError, match="y is given beside a store"):
        trainer.score(store, y)


def test_fit_and_apply_at_once(data, store):
    X, _ = data
    scaled = trainer_of(StandardScaler()).fit_transform(X)
    np.testing.assert_allclose(scaled, StandardScaler().fit_transform(X), rtol=1e-4, atol=1e-5)
    clusters = trainer_of(MiniBatchKMeans(2))
    found = clusters.fit_predict(store)
    np.testing.assert_array_equal(found.compute(), clusters.predict(X))
    assert not hasattr(trainer_of(StandardScaler()), "fit_predict")


def test_another_number_of_columns(data, store):
    trainer = trainer_of().fit(store)
    with pytest.raises(InvalidDataError, match="3 features"):
        trainer.predict(da.ones((10, 3)))


# -- data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda X, y, _: (X, y), id="numpy"),
        pytest.param(lambda X, y, _: (X.tolist(), y.tolist()), id="lists"),
        pytest.param(lambda X, y, _: (pd.DataFrame(X), pd.Series(y)), id="pandas"),
        pytest.param(lambda X, y, _: (da.from_array(X, chunks=(50, 2)), da.from_array(y, chunks=70)), id="dask"),
        pytest.param(lambda X, y, path: (sf.ingest(X, path, y=y).path, None), id="path"),
    ],
)
def test_data_of_each_kind(data, tmp_path, make):
    X, y = data
    expected = trainer_of(GaussianNB(), shuffle=False).fit(X, y)
    trainer = trainer_of(GaussianNB(), shuffle=False).fit(*make(X, y, tmp_path / "store"))
    np.testing.assert_allclose(trainer.estimator_.theta_, expected.estimator_.theta_, rtol=1e-5)


def test_one_row(tmp_path):
    X = np.array([[1.0, 2.0]])
    scaler = trainer_of(StandardScaler()).fit(X)
    assert scaler.estimator_.mean_.tolist() == [1.0, 2.0]
    assert trainer_of(GaussianNB()).fit(X, ["only"]).classes_.tolist() == ["only"]
    assert trainer_of(SGDRegressor()).fit(X, [3.0]).n_steps_ == 1


def test_validation_data_of_each_kind(data, store):
    X, y = data
    histories = [
        trainer_of().fit(store, validation_data=validation).history_[0]
        for validation in (store, store.path, (X, y), (X.tolist(), y.tolist()))
    ]
    for history in histories:
        assert {"val_accuracy", "val_log_loss", "val_roc_auc"} < history.keys()
        assert history["val_accuracy"] == histories[0]["val_accuracy"]
    named = trainer_of(metrics=["recall"]).fit(store, validation_data=store).history_[0]
    assert [name for name in named if name.startswith("val_")] == ["val_recall"]
    assert "val_accuracy" not in trainer_of(MiniBatchKMeans(2)).fit(store, validation_data=store).history_[0]


def test_a_warning_free_fit_leaves_no_thread_and_no_scratch(data, store, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    X, y = data
    with caplog.at_level(logging.WARNING):
        trainer_of(epochs=2).fit(X, y, validation_data=(X, y))
    assert not caplog.records
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamfit")]


@pytest.mark.parametrize(("limit", "n_threads"), [pytest.param("1GB", 0, id="limit"), pytest.param(None, 1, id="none")])
def test_the_stream_holds_no_windows_while_metrics_take_the_limit(store, monkeypatch, limit, n_threads):
    reading = []

    def evaluate(model, **options):
        reading.append(sum(thread.name.startswith("streamfit-read") for thread in threading.enumerate()))
        return evaluate_epoch(model, **options)

    monkeypatch.setattr("streamfit.trainer.evaluate_epoch", evaluate)
    trainer = trainer_of(epochs=3, memory_limit=limit).fit(store, validation_data=store)
    assert reading == [n_threads] * 3
    # Read anew at the edge of an epoch, the batches are the same.
    np.testing.assert_array_equal(trainer.estimator_.coef_, trainer_of(epochs=3).fit(store).estimator_.coef_)


# -- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options", "fit", "error", "message"),
    [
        pytest.param(
            None, {}, {"y": None}, InvalidDataError, "SGDClassifier is a classifier and the data have no y", id="no-y"
        ),
        pytest.param(SGDRegressor(), {}, {"y": None}, InvalidDataError, "SGDRegressor needs y", id="no-numbers"),
        pytest.param(SGDRegressor(), {}, {"y": ["a"] * 310}, InvalidDataError, "y is text", id="text-for-numbers"),
        pytest.param(
            None, {}, {"y": np.linspace(0, 1, 310)}, InvalidDataError, "has fractions", id="fractions-for-classes"
        ),
        pytest.param(None, {}, {"y": [0] * 309}, InvalidDataError, "309", id="y-of-another-length"),
        pytest.param(
            LogisticRegression(),
            {},
            {},
            InvalidParameterError,
            "LogisticRegression has no partial_fit",
            id="no-partial-fit",
        ),
        pytest.param(
            "sgd", {}, {}, InvalidParameterError, "must be a scikit-learn estimator .* got str", id="no-estimator"
        ),
        pytest.param(
            make_pipeline(QuantileTransformer(), SGDClassifier()),
            {},
            {},
            UnsupportedError,
            "QuantileTransformer can be fitted neither exactly .*Fit it beforehand",
            id="transformer",
        ),
        pytest.param(
            make_pipeline(StandardScaler(), EllipticEnvelope()),
            {},
            {},
            InvalidParameterError,
            "EllipticEnvelope has no partial_fit",
            id="last-link",
        ),
        pytest.param(
            IncrementalPCA(3),
            {"batch_size": 2},
            {},
            InvalidParameterError,
            "as many rows in each batch",
            id="components",
        ),
        pytest.param(
            make_pipeline(StandardScaler(), IncrementalPCA(8)),
            {},
            {},
            InvalidParameterError,
            r"IncrementalPCA\(n_components=8\) needs as many columns; n_features is 4",
            id="components-and-columns",
        ),
        pytest.param(
            MiniBatchKMeans(8),
            {"batch_size": 5},
            {},
            InvalidParameterError,
            r"MiniBatchKMeans\(n_clusters=8\) needs as many rows in the first batch; batch_size is 5",
            id="clusters-and-batch",
        ),
        pytest.param(
            MiniBatchKMeans(311),
            {"batch_size": 999},
            {},
            InvalidParameterError,
            "n_rows is 310",
            id="clusters-and-rows",
        ),
        pytest.param(
            None,
            {},
            {"y": ["a"] * 310},
            InvalidDataError,
            "2 classes, and there is 1 class: y is 'a'",
            id="one-class-sgd",
        ),
        pytest.param(
            GaussianNB(),
            {},
            {"sample_weight": np.zeros(310)},
            InvalidDataError,
            "GaussianNB refuses step 0 of epoch 0: Sample weights",
            id="no-weight",
        ),
        pytest.param(
            make_pipeline(PCA(2).fit(np.eye(5)), SGDClassifier()),
            {},
            {},
            InvalidDataError,
            "PCA refuses step 0 of epoch 0: X has 4 features",
            id="a-link-of-another-width",
        ),
        pytest.param(None, {"random_state": "a"}, {}, InvalidParameterError, "random_state must be", id="seed-text"),
        pytest.param(None, {"random_state": 1.5}, {}, InvalidParameterError, "random_state must be", id="seed-half"),
        pytest.param(None, {"random_state": -1}, {}, InvalidParameterError, "random_state must be", id="seed-negative"),
        pytest.param(
            None,
            {"random_state": np.random.default_rng(0)},
            {},
            InvalidParameterError,
            "random_state must be an integer, a RandomState or None",
            id="seed-generator",
        ),
        pytest.param(None, {"epochs": 1.5}, {}, InvalidParameterError, "epochs must be", id="epochs-half"),
        pytest.param(None, {"metrics": [3]}, {}, InvalidParameterError, "no scorer", id="metrics-numbers"),
        pytest.param(None, {"metrics": 3}, {}, InvalidParameterError, "sequence of names", id="metrics-number"),
        pytest.param(
            None,
            {"callbacks": sf.callbacks.EarlyStopping()},
            {},
            InvalidParameterError,
            "callbacks must be a sequence",
            id="a-callback-alone",
        ),
        pytest.param(
            None,
            {"callbacks": [sf.callbacks.EarlyStopping]},
            {},
            InvalidParameterError,
            "A callback is the class EarlyStopping",
            id="a-class-as-callback",
        ),
        pytest.param(
            None,
            {},
            {"validation_data": (np.ones((2, 4)), [0, 1], [1, 1])},
            InvalidParameterError,
            "got a tuple of 3",
            id="validation-of-three",
        ),
        pytest.param(
            None,
            {},
            {"validation_data": [np.ones((2, 4)), [0, 1]]},
            InvalidParameterError,
            r"a tuple \(X, y\), got a list of 2",
            id="validation-in-a-list",
        ),
        pytest.param(None, {"batch_size": 0}, {}, InvalidParameterError, "batch_size must be", id="batch_size"),
        pytest.param(
            None, {"batch_size": 10.0}, {}, InvalidParameterError, "batch_size must be an integer", id="batch-float"
        ),
        pytest.param(None, {"epochs": 0}, {}, InvalidParameterError, "epochs must be", id="epochs"),
        pytest.param(None, {"shuffle": "full"}, {}, InvalidParameterError, "shuffle must be", id="shuffle"),
        pytest.param(None, {"metrics": "accuracy"}, {}, InvalidParameterError, "sequence of names", id="metrics-text"),
        pytest.param(None, {"metrics": ["r2"]}, {}, InvalidParameterError, "No such metrics", id="metrics"),
        pytest.param(None, {"stream": {"window": 3}}, {}, InvalidParameterError, "StreamOptions", id="stream"),
        pytest.param(None, {"memory_limit": "10 MB"}, {}, BudgetError, "memory_limit", id="memory"),
        pytest.param(None, {}, {"resume": "maybe"}, InvalidParameterError, "resume must be", id="resume"),
        pytest.param(Perceptron(), {}, {"y": [1] * 310}, ValueError, "class", id="one-class"),
    ],
)
def test_refusals(data, estimator, options, fit, error, message):
    X, y = data
    trainer = sf.StreamTrainer(estimator or SGDClassifier(), **({"batch_size": 40} | options))
    with pytest.raises(error, match=message):
        trainer.fit(X, **({"y": y} | fit))


def test_labels_beside_a_store_are_refused(data, store):
    _, y = data
    with pytest.raises(InvalidParameterError, match="y is given beside a store"):
        trainer_of().fit(store, y)


@pytest.mark.parametrize(
    ("options", "validation", "error", "message"),
    [
        pytest.param({}, lambda X, _: X, InvalidDataError, "Metrics need y", id="no-labels"),
        pytest.param({}, lambda X, y: (X[:, :3], y), InvalidDataError, "has 3 features", id="columns"),
        pytest.param({}, lambda X, y: (X, y.astype(str)), InvalidDataError, "same kind", id="labels-of-another-kind"),
        pytest.param({}, lambda X, y: (X, y + 0.5), InvalidDataError, "fractions", id="fractions"),
        pytest.param({"estimator": SGDRegressor()}, lambda X, _: X, InvalidDataError, "none", id="no-numbers"),
    ],
)
def test_validation_data_are_checked_before_the_fit(data, store, options, validation, error, message):
    class NoSteps:
        def notify(self, event):
            raise AssertionError(event)

    trainer = trainer_of(**options, callbacks=[NoSteps()])
    with pytest.raises(error, match=message):
        trainer.fit(store, validation_data=validation(*data))


def test_metrics_that_do_not_fit_are_refused_before_the_fit(store, tmp_path):
    class NoSteps:
        def notify(self, event):
            raise AssertionError(event)

    # The order of all scores is kept for roc_auc, and the chunk is large.
    X = np.zeros((400_000, 4), np.float32)
    validation = sf.ingest(X, tmp_path / "store", y=np.arange(400_000) % 2, chunk_rows=400_000)
    with pytest.raises(BudgetError, match="one task"):
        trainer_of(memory_limit="60MB", callbacks=[NoSteps()]).fit(store, validation_data=validation)
    trainer_of(memory_limit="60MB").fit(store)


def test_metrics_for_two_classes_are_refused_before_the_fit(data):
    X, y = data
    trainer = trainer_of(metrics=["f1"])
    with pytest.raises(InvalidParameterError, match="there are 3"):
        trainer.fit(X, y + (X[:, 1] > 0), validation_data=(X, y))
    assert not hasattr(trainer, "estimator_")


def test_columns_of_other_names(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    with pytest.raises(InvalidDataError, match="'a' is missing; 'e' was not there"):
        trainer_of().fit(frame, y, validation_data=(frame.rename(columns={"a": "e"}), y))


@pytest.mark.parametrize("stored", [False, True], ids=["frame", "path-of-a-store"])
def test_score_finds_columns_by_name(data, tmp_path, stored):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    trainer = trainer_of().fit(frame, y)

    def score(table, name):
        return trainer.score(sf.ingest(table, tmp_path / name, y=y).path) if stored else trainer.score(table, y)

    assert score(frame[list("bacd")], "turned") == trainer.score(X, y)
    with pytest.raises(InvalidDataError, match="'a' is missing; 'e' was not there"):
        score(frame.rename(columns={"a": "e"}), "other")


def test_a_second_fit_forgets_the_first(data):
    X, y = data
    trainer = trainer_of().fit(pd.DataFrame(X, columns=list("abcd")), y)
    trainer.set_params(estimator=MiniBatchKMeans(2)).fit(X)
    assert not hasattr(trainer, "feature_names_in_")
    assert not hasattr(trainer, "classes_")


def test_a_window_smaller_than_a_batch(store):
    with pytest.raises(InvalidParameterError, match=r"exceeds the window \(33 rows\)"):
        trainer_of(stream=sf.StreamOptions(window=1)).fit(store)


def test_a_damaged_chunk_stops_the_fit(data, tmp_path):
    X, y = data
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=33)
    file = tmp_path / "store" / "X" / "c" / "5" / "0"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreCorruptError) as caught:
        trainer_of().fit(store)
    assert (caught.value.array, caught.value.chunk) == ("X", 5)


def test_weights_that_the_estimator_cannot_take(data, tmp_path, caplog):
    X, y = data
    with pytest.raises(InvalidParameterError, match="IncrementalPCA takes no sample_weight"):
        trainer_of(IncrementalPCA(2)).fit(X, sample_weight=np.ones(310))
    # A store may have weights that serve other estimators.
    store = sf.ingest(X, tmp_path / "store", y=y, sample_weight=np.ones(310))
    with caplog.at_level(logging.WARNING):
        trainer_of(IncrementalPCA(2), epochs=2).fit(store)
        trainer_of().fit(store)
    assert [record.getMessage() for record in caplog.records] == [
        "IncrementalPCA takes no sample_weight: the weights in the store are not used."
    ]


class TakesAnything(ClassifierMixin, BaseEstimator):
    """Says of its options only that there are some."""

    def partial_fit(self, X, y, **options):  # noqa: ARG002
        self.classes_, self.weight_ = options["classes"], options["sample_weight"].sum()
        return self


def test_an_estimator_with_any_options_gets_classes_and_weights(data):
    X, y = data
    fitted = trainer_of(TakesAnything(), batch_size=310).fit(X, y, sample_weight=np.full(310, 2.0)).estimator_
    assert (fitted.classes_.tolist(), fitted.weight_) == ([0, 1], 620.0)


def test_values_that_are_not_finite_are_refused_by_column_before_the_fit(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd")).astype(float)
    frame.loc[7, "c"] = np.nan
    store = sf.ingest(frame, tmp_path / "store", y=y, nonfinite="keep")
    with pytest.raises(
        InvalidDataError, match="SGDClassifier takes finite values only, and column 'c' holds 1"
    ) as caught:
        trainer_of().fit(store)
    assert caught.value.column == "c"
    # A scaler passes them on, and some other transformer may fill them in.
    with pytest.raises(InvalidDataError, match=r"SGDClassifier refuses step .*NaN"):
        trainer_of(make_pipeline(StandardScaler(), SGDClassifier())).fit(store)
    filled = make_pipeline(SimpleImputer().fit(frame.to_numpy()), GaussianNB())
    assert trainer_of(filled).fit(store).score(store) > 0.9


@pytest.mark.parametrize("wrong", [np.ones((2, 3)), np.full((2, 4), np.nan), np.ones(4)], ids=["width", "nan", "1-d"])
def test_rows_in_memory_that_do_not_fit_are_refused_as_lazy_ones(store, wrong):
    with pytest.raises(InvalidDataError, match=r"SGDClassifier\.predict refuses X"):
        trainer_of().fit(store).predict(wrong)


def test_a_transformer_that_is_fitted_beforehand_is_not_changed(data, store):
    X, _ = data
    pca = PCA(2).fit(X)
    scaler = MinMaxScaler()
    trainer = trainer_of(make_pipeline(pca, scaler, GaussianNB())).fit(store)
    np.testing.assert_array_equal(trainer.estimator_[0].components_, pca.components_)
    assert trainer.estimator_[0] is not pca
    assert not hasattr(scaler, "scale_")
