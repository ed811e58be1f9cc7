"""Models on sparse stores: the loop in memory to the bit, text in bounded memory, and who needs dense rows says so."""

from __future__ import annotations

import csv
import inspect
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pyod.models.hbos import HBOS
from scipy.sparse import random_array
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier

import streamfit as sf
from streamfit.errors import InvalidDataError, UnsupportedError

SMS = Path(__file__).parents[2] / "shared/data/sms_spam/sms.tsv"


@pytest.fixture(scope="module", name="X")
def counts():
    rows = random_array((1_003, 300), density=0.03, format="csr", rng=np.random.default_rng(0))
    rows.data = np.ceil(rows.data * 5)
    return rows


@pytest.fixture(scope="module", name="y")
def labels(X):
    return np.where(X[:, [3, 5, 7, 11]].sum(axis=1) > 0, "spam", "ham")


@pytest.fixture(name="store")
def labelled(tmp_path, X, y):
    return sf.ingest(X, tmp_path / "a.zarr", y=y, chunk_rows=100)


@pytest.mark.parametrize(
    "estimator",
    [
        SGDClassifier(random_state=0),
        SGDClassifier(random_state=0, class_weight="balanced", loss="log_loss"),
        Perceptron(random_state=0),
        MultinomialNB(),
        BernoulliNB(),
        MLPClassifier((5,), random_state=0),
        MiniBatchKMeans(3, random_state=0),
        LatentDirichletAllocation(3, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_fit_is_bit_equal_to_the_loop_in_memory(store, X, y, estimator):
    trainer = sf.StreamTrainer(estimator, batch_size=64, epochs=2, random_state=3).fit(store)
    model = clone(estimator)
    options = {}
    if "classes" in inspect.signature(model.partial_fit).parameters:
        options["classes"] = np.array(["ham", "spam"])
    if model.get_params().get("class_weight") == "balanced":
        names, n_rows = np.unique(y, return_counts=True)
        model.set_params(class_weight=dict(zip(names.tolist(), (len(y) / (2 * n_rows)).tolist(), strict=True)))
    for epoch in range(2):
        for batch in store.stream(store.plan(batch_size=64, seed=3, epoch=epoch)):
            model.partial_fit(X[batch.rows], y[batch.rows], **options)
    for name in ("coef_", "feature_log_prob_", "coefs_", "cluster_centers_", "components_"):
        if hasattr(model, name):
            for found, expected in zip(getattr(trainer.estimator_, name), getattr(model, name), strict=True):
                assert np.array_equal(found, expected)
    if hasattr(model, "predict"):
        assert np.array_equal(trainer.predict(store).compute(), model.predict(X))
        assert np.array_equal(trainer.predict(X), model.predict(X))


def test_metrics_and_lazy_methods_see_every_row(store, X, y):
    train, test = store.split(0.8, stratify=True)
    trainer = sf.StreamTrainer(SGDClassifier(loss="log_loss", random_state=0), batch_size=64, epochs=3)
    trainer.fit(train, validation_data=test)
    model, rows = trainer.estimator_, test.row_numbers()
    assert trainer.history_[-1]["val_accuracy"] == pytest.approx((model.predict(X[rows]) == y[rows]).mean(), rel=1e-12)
    assert np.array_equal(trainer.decision_function(test).compute(), model.decision_function(X[rows]))
    assert trainer.predict_proba(test).compute().shape == (test.n_rows, 2)
    assert trainer.score(X, y) == pytest.approx((model.predict(X) == y).mean(), rel=1e-12)


def test_a_matrix_in_memory_is_trained_on_as_it_is(X, y):
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=64).fit(X, y)
    assert trainer.score(X, y) > 0.9
    regressor = sf.StreamTrainer(SGDRegressor(random_state=0), batch_size=64).fit(X, (y == "spam").astype(float))
    assert regressor.predict(X).shape == (1_003,)


def test_who_needs_dense_rows_says_so_before_anything_is_read(store):
    with pytest.raises(InvalidDataError, match=r"GaussianNB takes dense rows only.*SGDClassifier"):
        sf.StreamTrainer(GaussianNB()).fit(store)
    with pytest.raises(UnsupportedError, match=r"HBOS needs dense rows.*SparseRandomProjection"):
        sf.StreamDetector(HBOS()).fit(store)


def sms():
    if not SMS.exists():
        pytest.skip("the SMS spam collection is not here")
    with SMS.open(encoding="utf-8", newline="") as file:
        yield from csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def hashed(rows, vectorizer):
    rows = iter(rows)
    while batch := list(islice(rows, 500)):
        labels, texts = zip(*batch, strict=True)
        yield vectorizer.transform(texts), np.array(labels)


def test_hashed_text_is_classified_as_well_as_in_memory(tmp_path):
    vectorizer = HashingVectorizer(n_features=2**16)
    rows = list(sms())
    store = sf.ingest(lambda: hashed(rows, vectorizer), tmp_path / "sms.zarr", chunk_rows=1_000)
    assert store.shape == (5_574, 2**16)
    assert dict(zip(store.classes.tolist(), store.class_counts.tolist(), strict=True)) == {"ham": 4_827, "spam": 747}
    X = vectorizer.transform([text for _, text in rows])
    assert (store.X.compute() != X).nnz == 0
    train, test = store.split(0.8, stratify=True)
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=500, epochs=10).fit(train)
    assert trainer.score(test) >= 0.977
