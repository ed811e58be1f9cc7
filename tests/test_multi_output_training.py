"""Several labels a row in a fit: bit-equal to a loop, measured as scikit-learn measures, or refused by name."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import f1_score, jaccard_score
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.callbacks import TimeLimit
from streamfit.errors import InvalidDataError, InvalidParameterError

N_ROWS = 230


@pytest.fixture(scope="module")
def X():  # noqa: N802
    return np.random.default_rng(1).normal(size=(N_ROWS, 5)).astype(np.float32)


def labels_of(kind, X):
    flags = np.column_stack([X[:, 0] > 0, X[:, 1] > 0.5, X[:, 2] > -1])
    return {
        "floats": np.column_stack([X[:, 0] * 2.0, X[:, 1] - X[:, 2]]).astype(np.float64),
        "integers": np.column_stack([np.digitize(X[:, 0], [-1, 0, 1]), np.digitize(X[:, 1], [0])]),
        "flags": flags.astype(np.int8),
        "booleans": flags,
    }[kind]


@pytest.mark.parametrize(
    ("estimator", "kind", "classes"),
    [
        pytest.param(MLPRegressor(hidden_layer_sizes=(4,), random_state=2), "floats", None, id="MLPRegressor"),
        pytest.param(MultiOutputRegressor(SGDRegressor(random_state=2)), "floats", None, id="MultiOutputRegressor"),
        pytest.param(
            MultiOutputClassifier(SGDClassifier(random_state=2)), "integers", "each", id="MultiOutputClassifier"
        ),
        pytest.param(MLPClassifier((4,), random_state=2), "flags", "columns", id="multilabel"),
    ],
)
def test_training_is_bit_equal_to_a_loop(tmp_path, X, estimator, kind, classes):
    y = labels_of(kind, X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    trainer = sf.StreamTrainer(estimator, batch_size=40, epochs=2).fit(store)
    options = {
        None: {},
        "each": {"classes": [np.unique(column) for column in y.T]},
        "columns": {"classes": np.arange(y.shape[1])},
    }[classes]
    expected = clone(estimator)
    with threadpool_limits(limits=1):
        for epoch in range(2):
            for batch in replace(trainer.plan_, epoch=epoch):
                expected.partial_fit(X[batch.rows], y[batch.rows], **options)
    predicted = trainer.predict(store)
    assert predicted.shape == y.shape
    # Chunk by chunk a product of float32 matrices may end in other last bits.
    np.testing.assert_allclose(predicted.compute(), expected.predict(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(trainer.predict(X), expected.predict(X))
    grown = trainer.partial_fit(store)
    three = sf.StreamTrainer(estimator, batch_size=40, epochs=3).fit(store)
    np.testing.assert_array_equal(grown.predict(X), three.predict(X))


def test_metrics_of_several_labels(tmp_path, X):
    y = labels_of("floats", X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    trainer = sf.StreamTrainer(MLPRegressor(hidden_layer_sizes=(4,)), batch_size=40).fit(store, validation_data=store)
    expected = trainer.estimator_.score(X, y)
    assert trainer.history_[-1]["val_r2"] == pytest.approx(expected, rel=1e-9)
    assert trainer.score(store) == pytest.approx(expected, rel=1e-9)


def test_estimators_of_one_label_say_what_to_do(X):
    for estimator, y, around in (
        (SGDRegressor(), labels_of("floats", X), "MultiOutputRegressor"),
        (GaussianNB(), labels_of("flags", X), "MultiOutputClassifier"),
    ):
        with pytest.raises(InvalidDataError, match=rf"takes one label a row, and y has .*{around}"):
            sf.StreamTrainer(estimator, batch_size=40).fit(X, y)
    with pytest.raises(InvalidDataError, match="several labels a row that are 0 or 1"):
        sf.StreamTrainer(MLPClassifier(), batch_size=40).fit(X, labels_of("integers", X))
    y = labels_of("floats", X)
    y[:, 0] = y[:, 0] > 0
    with pytest.raises(InvalidDataError, match="label 1 of a row has fractions"):
        sf.StreamTrainer(MultiOutputClassifier(SGDClassifier()), batch_size=40).fit(X, y)


def test_no_warnings_on_the_way(tmp_path, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = sf.ingest(X, tmp_path / "store", y=labels_of("booleans", X), chunk_rows=37)
        sf.StreamTrainer(MLPClassifier((3,)), batch_size=40).fit(store)


# -- what a fit does with the classes of each label ---------------------------------------------------


def trainer_of(estimator, **options):
    return sf.StreamTrainer(estimator, batch_size=40, **options)


def flags_network():
    return MLPClassifier((4,), random_state=0)


def several_classifiers():
    return MultiOutputClassifier(SGDClassifier(loss="log_loss", random_state=0))


@pytest.mark.parametrize(
    ("make", "kind"), [(several_classifiers, "integers"), (several_classifiers, "flags"), (flags_network, "flags")]
)
def test_the_score_counts_rows_of_which_each_label_is_right(tmp_path, X, make, kind):
    y = labels_of(kind, X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    trainer = trainer_of(make()).fit(store, validation_data=store)
    right = (trainer.estimator_.predict(X) == y).all(axis=1).mean()
    assert 0 < right < 1
    assert trainer.score(store) == trainer.history_[-1]["val_accuracy"] == right
    assert trainer.score(store) == trainer.estimator_.score(X, y)
    assert sf.cross_validate(trainer_of(make()), store, cv=3)["test_accuracy"].shape == (3,)


def test_metrics_of_flags_are_those_of_scikit_learn(tmp_path, X):
    y = labels_of("flags", X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    for make in (several_classifiers, flags_network):
        trainer = trainer_of(make(), metrics=("f1_macro", "jaccard_micro")).fit(store, validation_data=store)
        predicted = trainer.estimator_.predict(X)
        expected = (f1_score(y, predicted, average="macro"), jaccard_score(y, predicted, average="micro"))
        measured = [trainer.history_[-1][f"val_{name}"] for name in ("f1_macro", "jaccard_micro")]
        np.testing.assert_allclose(measured, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["f1_macro", "roc_auc", "neg_log_loss"])
def test_metrics_of_flags_are_refused_for_other_classes(X, metric):
    y = labels_of("integers", X)
    with pytest.raises(InvalidParameterError, match=r"2 outputs that are not all 0 or 1: .* such as accuracy"):
        trainer_of(several_classifiers(), metrics=(metric,)).fit(X, y, validation_data=(X, y))


def test_probabilities_are_given_for_each_label(tmp_path, X):
    y = labels_of("integers", X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    trainer = trainer_of(several_classifiers()).fit(store)
    for lazy, plain in zip(trainer.predict_proba(store), trainer.estimator_.predict_proba(X), strict=True):
        np.testing.assert_allclose(lazy.compute(), plain, rtol=1e-5, atol=1e-6)
    for known, column in zip(trainer.classes_, y.T, strict=True):
        np.testing.assert_array_equal(known, np.unique(column))


def test_classes_that_come_later_are_named_at_first(X):
    y = labels_of("integers", X)
    few = (y[:, 0] < 2) & (y[:, 1] < 1)
    named = [np.arange(4), np.arange(2)]
    trainer = trainer_of(several_classifiers(), shuffle=False).partial_fit(X[few], y[few], classes=named)
    trainer.partial_fit(X, y)
    expected = several_classifiers()
    with threadpool_limits(limits=1):
        for rows, labels in ((X[few], y[few]), (X, y)):
            for start in range(0, len(rows), 40):
                expected.partial_fit(rows[start : start + 40], labels[start : start + 40], classes=named)
    np.testing.assert_array_equal(trainer.estimator_.estimators_[0].coef_, expected.estimators_[0].coef_)
    np.testing.assert_array_equal(trainer.predict(X), expected.predict(X))


@pytest.mark.parametrize(
    ("make", "kind", "classes", "message"),
    [
        (several_classifiers, "integers", [[0, 1], [0, 1]], "Label 0 of a row holds 2, which is none of its 2 classes"),
        (several_classifiers, "integers", [[0, 1, 2, 3]], "classes are those of each of 2 labels"),
        (several_classifiers, "integers", [0, 1], "classes are those of each of 2 labels"),
        (several_classifiers, "integers", [], "classes are those of each of 2 labels"),
        (flags_network, "flags", [0, 1], "classes are the numbers of the 3 labels of a row"),
        (flags_network, "flags", [5, 6, 7], "classes are the numbers of the 3 labels of a row"),
    ],
)
def test_classes_that_do_not_fit_are_refused(X, make, kind, classes, message):
    with pytest.raises(InvalidDataError, match=message):
        trainer_of(make()).partial_fit(X, labels_of(kind, X), classes=classes)


@pytest.mark.parametrize(
    ("estimator", "first", "second"),
    [
        (MLPRegressor(hidden_layer_sizes=(3,)), ("floats", slice(0, 2)), ("floats", 0)),
        (MLPRegressor(hidden_layer_sizes=(3,)), ("floats", 0), ("floats", slice(0, 2))),
        (MLPClassifier((3,)), ("flags", slice(0, 3)), ("integers", 1)),
        (MLPClassifier((3,)), ("integers", 0), ("flags", slice(0, 3))),
        (MLPClassifier((3,)), ("integers", 1), ("flags", slice(0, 2))),
        (MLPClassifier((3,)), ("flags", slice(0, 3)), ("flags", slice(0, 2))),
        (several_classifiers(), ("flags", slice(0, 2)), ("flags", slice(0, 3))),
        (MultiOutputRegressor(SGDRegressor()), ("floats", slice(0, 2)), ("flags", slice(0, 3))),
    ],
)
def test_another_number_of_labels_cannot_be_learnt_on(X, estimator, first, second):
    # scikit-learn's networks would broadcast one label to all outputs.
    y, other = (labels_of(kind, X)[:, columns] for kind, columns in (first, second))
    trainer = trainer_of(estimator).partial_fit(X, y)
    before = trainer.predict(X)
    with pytest.raises(InvalidDataError, match=r"has learnt \d label\(s\) a row, and y has"):
        trainer.partial_fit(X, other)
    np.testing.assert_array_equal(trainer.predict(X), before)


@pytest.mark.parametrize("estimator", [several_classifiers(), MultiOutputRegressor(SGDRegressor())])
def test_estimators_of_several_labels_say_so_of_one(X, estimator):
    with pytest.raises(InvalidDataError, match="takes several labels a row, and y has one"):
        trainer_of(estimator).fit(X, labels_of("integers", X)[:, 0])


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (several_classifiers(), "integers"),
        (make_pipeline(StandardScaler(), several_classifiers()), "integers"),
        (flags_network(), "flags"),
        (MLPRegressor(hidden_layer_sizes=(3,), random_state=0), "floats"),
        (MultiOutputRegressor(SGDRegressor(random_state=0)), "floats"),
    ],
)
def test_a_fit_goes_on_from_a_checkpoint_and_from_a_file(tmp_path, X, estimator, kind):
    y = labels_of(kind, X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    whole = trainer_of(estimator, epochs=2).fit(store)
    while True:  # a step or a few a call
        part = trainer_of(
            estimator,
            epochs=2,
            checkpoint=sf.CheckpointOptions(tmp_path / "run", every_steps=4),
            callbacks=[TimeLimit(1e-9)],
        ).fit(store)
        if part.stopped_by_ is None:
            break
    np.testing.assert_array_equal(part.predict(X), whole.predict(X))
    sf.save(part, tmp_path / "trainer.skops")
    loaded = sf.load(tmp_path / "trainer.skops")
    for known, expected in zip(getattr(loaded, "classes_", ()), getattr(whole, "classes_", ()), strict=True):
        np.testing.assert_array_equal(known, expected)
    few = slice(0, 40)  # which may lack classes
    np.testing.assert_array_equal(
        loaded.partial_fit(X[few], y[few]).predict(X), whole.partial_fit(X[few], y[few]).predict(X)
    )


@pytest.mark.parametrize("estimator", [MiniBatchKMeans(2, random_state=0), IncrementalPCA(2)])
def test_what_learns_without_labels_does_not_mind_several(tmp_path, X, estimator):
    store = sf.ingest(X, tmp_path / "store", y=labels_of("floats", X), chunk_rows=37)
    trainer = trainer_of(estimator).fit(store)
    plain = trainer_of(estimator).fit(sf.ingest(X, tmp_path / "plain", chunk_rows=37))
    np.testing.assert_array_equal(trainer.transform(X), plain.transform(X))


@pytest.mark.parametrize(
    ("estimator", "kind", "columns", "others"),
    [
        (MLPRegressor(hidden_layer_sizes=(3,)), "floats", slice(0, 2), 0),
        (SGDRegressor(), "floats", 0, slice(0, 2)),
        (several_classifiers(), "integers", slice(0, 2), 0),
        (SGDClassifier(), "integers", 0, slice(0, 2)),
        (flags_network(), "flags", slice(0, 3), slice(0, 2)),
    ],
)
def test_metrics_need_as_many_labels_as_were_learnt(X, estimator, kind, columns, others):
    y = labels_of(kind, X)
    fit = trainer_of(estimator).fit
    with pytest.raises(InvalidDataError, match=r"validation_data has \d label\(s\) a row and the training rows have"):
        fit(X, y[:, columns], validation_data=(X, y[:, others]))
    trainer = fit(X, y[:, columns])
    with pytest.raises(InvalidDataError, match=r"has learnt \d label\(s\) a row, and y has"):
        trainer.score(X, y[:, others])
    assert np.isfinite(trainer.score(X, y[:, columns]))
