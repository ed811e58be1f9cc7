"""How the transformers of a pipeline are fitted, and that it is told."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.errors import CheckpointMismatchError, InvalidParameterError, UnsupportedError
from streamfit.incremental.transformers import fit_transformers
from streamfit.preprocessing.registry import find
from streamfit.run.engine import current_engine

N_ROWS = 1_037


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N_ROWS, 6)) * [1, 5, 0.1, 2, 1, 1]
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    X, y = data
    return sf.ingest(X, tmp_path_factory.mktemp("pipelines") / "store", y=y, chunk_rows=100)


@pytest.mark.parametrize(
    "transformers",
    [
        pytest.param([StandardScaler(), PCA(3)], id="scaled-components"),
        pytest.param([SimpleImputer(), RobustScaler(), VarianceThreshold(), PolynomialFeatures(2)], id="four"),
        pytest.param([make_pipeline(MinMaxScaler(), PCA(4, whiten=True)), MaxAbsScaler()], id="nested"),
        pytest.param([Normalizer(), GaussianRandomProjection(3, random_state=0), StandardScaler()], id="projection"),
    ],
)
def test_transformers_as_scikit_learn_fits_them_and_then_bit_equal(store, data, transformers):
    X, y = data
    pipeline = make_pipeline(*transformers, SGDClassifier(random_state=5))
    trainer = sf.StreamTrainer(pipeline, batch_size=64, epochs=2).fit(store)
    assert {method.method for method in trainer.transformer_methods_} <= {"exact", "stateless"}
    ours, theirs = trainer.estimator_[:-1], clone(pipeline)[:-1].fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-6, atol=1e-8)
    expected = clone(pipeline[-1])
    with threadpool_limits(limits=1):
        for epoch in range(2):
            for batch in store.plan(batch_size=64, epoch=epoch):
                expected.partial_fit(ours.transform(X[batch.rows]), y[batch.rows], classes=[0, 1])
    np.testing.assert_array_equal(trainer.estimator_[-1].coef_, expected.coef_)


def test_methods_are_told(store, data, caplog):
    X, _ = data
    with caplog.at_level(logging.INFO, "streamfit"):
        trainer = sf.StreamTrainer(
            make_pipeline(
                StandardScaler(),
                KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf").fit(X),
                Normalizer(),
                IncrementalPCA(2),
                SGDClassifier(),
            ),
            batch_size=64,
        ).fit(store)
    told = [str(method) for method in trainer.transformer_methods_]
    assert told == [
        "StandardScaler: exact (means and variances of all rows)",
        "KBinsDiscretizer: kept (it was fitted beforehand)",
        "Normalizer: stateless (it learns nothing from rows)",
        "IncrementalPCA: ordered (no exact fit of this class is known)",
    ]
    assert [record.message for record in caplog.records if record.message in told] == told


def test_a_copy_is_fitted_outside_of_a_trainer(store, data):
    X, _ = data
    prefix = [("scale", StandardScaler()), ("project", GaussianRandomProjection(3)), ("pca", IncrementalPCA(2))]
    options = {"batch_size": 100, "memory_limit": None, "engine": current_engine()}
    fitted = fit_transformers(prefix, store, seed=3, **options)
    assert [name for name, _ in fitted.steps] == ["scale", "project", "pca"]
    assert [method.method for method in fitted.methods] == ["exact", "exact", "ordered"]
    assert not hasattr(prefix[0][1], "mean_")
    assert prefix[1][1].random_state is None
    np.testing.assert_allclose(fitted.steps[0][1].mean_, X.mean(axis=0), rtol=1e-9, atol=1e-12)
    again, other = (fit_transformers(prefix, store, seed=seed, **options) for seed in (3, 4))
    np.testing.assert_array_equal(fitted.steps[1][1].components_, again.steps[1][1].components_)
    assert (fitted.steps[1][1].components_ != other.steps[1][1].components_).any()


def test_parameters_are_checked_before_the_first_read(store, monkeypatch):
    monkeypatch.setattr(type(store), "reduce", lambda *_args, **_options: pytest.fail("rows were read"))
    with pytest.raises(InvalidParameterError, match="n_components"):
        sf.StreamTrainer(make_pipeline(StandardScaler(), PCA(-1), SGDClassifier())).fit(store)


# -- checkpoints ---------------------------------------------------------------------------------------


def definition_of(folder):
    return json.loads((folder / "run.json").read_text())


def test_a_run_is_defined_by_how_its_transformers_were_fitted(store, tmp_path):
    options = {"batch_size": 64, "checkpoint": tmp_path / "run"}
    estimator = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    first = sf.StreamTrainer(estimator, epochs=1, **options).fit(store)
    path = tmp_path / "run" / "run.json"
    stored = definition_of(tmp_path / "run")
    assert stored["transformers"] == ["StandardScaler: exact"]
    path.write_text(json.dumps(stored | {"transformers": ["StandardScaler: ordered"]}))
    with pytest.raises(CheckpointMismatchError, match=r"transformers was \['StandardScaler: ordered'\]"):
        sf.StreamTrainer(estimator, epochs=2, **options).fit(store)
    # A run that was begun before this was written down goes on with its own model.
    del stored["transformers"]
    path.write_text(json.dumps(stored))
    second = sf.StreamTrainer(estimator, epochs=2, **options).fit(store, resume="always")
    np.testing.assert_array_equal(second.estimator_[0].mean_, first.estimator_[0].mean_)
    assert len(second.history_) == 2


# -- sparse rows ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    X = sparse.random_array((600, 40), density=0.1, format="csr", random_state=0, dtype=np.float64)
    X.data = np.ceil(9 * X.data) - 3
    y = np.arange(600) % 2
    return X, y, sf.ingest(X, tmp_path_factory.mktemp("documents") / "store", y=y, chunk_rows=70)


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(with_mean=False),
        StandardScaler(with_mean=False, with_std=False),
        MaxAbsScaler(),
        VarianceThreshold(),
        VarianceThreshold(0.3),
        TfidfTransformer(),
        PolynomialFeatures(2),
        GaussianRandomProjection(4, random_state=0),
    ],
    ids=str,
)
def test_sparse_rows_as_scikit_learn_takes_them(documents, transformer):
    X, _, store = documents
    ours, theirs = clone(transformer), clone(transformer).fit(X)
    find(ours).load().fit(ours, store, memory_limit=None, engine=None)
    assert vars(ours).keys() == vars(theirs).keys()
    for name, value in vars(theirs).items():
        if isinstance(value, np.ndarray):
            assert getattr(ours, name).dtype == value.dtype
            np.testing.assert_allclose(getattr(ours, name), value, rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            assert getattr(ours, name) == value, name


@pytest.mark.parametrize(
    ("transformer", "message"),
    [(PCA(2), "TruncatedSVD"), (RobustScaler(), "MaxAbsScaler"), (SimpleImputer(), "before ingest")],
    ids=str,
)
@pytest.mark.parametrize("before", [[], [TfidfTransformer()]], ids=["first", "second"])
def test_what_takes_no_sparse_rows_is_refused_before_the_first_read(
    documents, monkeypatch, transformer, message, before
):
    _, _, store = documents
    monkeypatch.setattr(type(store), "reduce", lambda *_args, **_options: pytest.fail("rows were read"))
    with pytest.raises(UnsupportedError, match=message):
        sf.StreamTrainer(make_pipeline(*before, transformer, SGDClassifier())).fit(store)
