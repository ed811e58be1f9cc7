"""Exact transformers in pipelines: each is what scikit-learn fits in memory to what the one before it gives."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from pyod.models.hbos import HBOS
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.feature_store import FeatureStore
from streamfit.preprocessing.registry import entries

rng = np.random.default_rng(0)
N = 640
FULL = rng.normal([0, 5, -3, 20, 1], [1, 4, 2, 9, 0.1], (N, 5)).astype(np.float32)
FULL += FULL[:, :1]
GAPS = FULL.copy()
GAPS[rng.random(GAPS.shape) < 0.1] = np.nan
Y = (FULL[:, 1] > 5).astype(int)

CHAINS = {
    "components": [SimpleImputer(), StandardScaler(), PCA(3)],
    "medians": [SimpleImputer(strategy="median", add_indicator=True), RobustScaler(), VarianceThreshold(0.2)],
    "ranges": [MinMaxScaler(), SimpleImputer(), MaxAbsScaler()],
    "gaps scaled": [RobustScaler(), StandardScaler(), SimpleImputer(strategy="constant", fill_value=0)],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains") / "a"
    return sf.ingest(GAPS, folder, y=Y, chunk_rows=67, nonfinite="keep")


def learnt(estimator):
    values = {name: np.asarray(value) for name, value in vars(estimator).items() if name.endswith("_")}
    return {name: value for name, value in values.items() if value.dtype.kind in "fiub"}


def assert_near(ours, theirs):
    found, wanted = learnt(ours), learnt(theirs)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        size = np.nanmax(np.abs(value), initial=0)
        np.testing.assert_allclose(
            found[name], value, rtol=1e-5, atol=max(1e-6 * size, 1e-7), err_msg=f"{type(ours).__name__}.{name}"
        )


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("limit", [None, "70MB"])
@pytest.mark.parametrize("part", [slice(None), slice(13, 611, 3)], ids=["store", "view"])
def test_each_is_fitted_to_what_the_one_before_gives(store, chain, part, limit):
    rows = store if part == slice(None) else store[part]
    trainer = sf.StreamTrainer(make_pipeline(*CHAINS[chain], GaussianNB()), batch_size=100, memory_limit=limit)
    trainer.fit(rows)
    assert {method.method for method in trainer.transformer_methods_} == {"exact"}
    # scikit-learn adds float32 in float32: this is what it gives with room for all digits.
    straight = make_pipeline(*[clone(link) for link in CHAINS[chain]]).fit(GAPS[part].astype(np.float64))
    for ours, theirs in zip(trainer.estimator_[:-1], straight, strict=True):
        assert_near(ours, theirs)
    np.testing.assert_allclose(
        trainer.estimator_[:-1].transform(GAPS[part]), straight.transform(GAPS[part]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow  # workers start and import
def test_processes_fit_the_same_bits(store):
    def fitted():
        links = []
        for chain, cache in (("components", True), ("medians", None)):
            pipeline = make_pipeline(*CHAINS[chain], SGDClassifier())
            links += sf.StreamTrainer(pipeline, batch_size=200, cache=cache).fit(store[5:]).estimator_
        detector = sf.StreamDetector(make_pipeline(*CHAINS["components"], HBOS())).fit(store)
        values = [{name: value.tobytes() for name, value in learnt(link).items()} for link in links]
        return values, detector.decision_scores_.compute().tobytes()

    threads = fitted()
    with sf.connect("processes", n_workers=2):
        assert fitted() == threads


@pytest.mark.parametrize("chain", CHAINS)
def test_a_constant_column_and_an_offset(tmp_path, chain):
    rows = GAPS.astype(np.float64) + 1e8
    rows[:, 3] = 7.1
    store = sf.ingest(rows, tmp_path / "a", y=Y, chunk_rows=67, nonfinite="keep")
    trainer = sf.StreamTrainer(make_pipeline(*CHAINS[chain], GaussianNB()), batch_size=100).fit(store)
    links = [clone(link) for link in CHAINS[chain]]
    if chain == "components":
        links[-1].set_params(svd_solver="full")
    straight = make_pipeline(*links).fit(rows)
    np.testing.assert_allclose(trainer.estimator_[:-1].transform(rows), straight.transform(rows), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("link", [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), SimpleImputer()])
def test_one_row(tmp_path, link):
    row = np.array([[1.5, -2, 0]], dtype=np.float32)
    store = sf.ingest(row, tmp_path / "a", y=[0.5])
    trainer = sf.StreamTrainer(make_pipeline(link, SGDRegressor())).fit(store)
    assert_near(trainer.estimator_[0], clone(link).fit(row))


def test_one_row_has_no_components(tmp_path):
    store = sf.ingest(np.ones((1, 3)), tmp_path / "a", y=[0.5])
    with pytest.raises(InvalidDataError, match="PCA needs at least 2 rows"):
        sf.StreamTrainer(make_pipeline(PCA(1), SGDRegressor())).fit(store)


@pytest.mark.parametrize(
    ("link", "told"),
    [
        pytest.param(QuantileTransformer(), "dask_ml.preprocessing.QuantileTransformer", id="quantiles"),
        pytest.param(OneHotEncoder(), r"encode at ingest \(categorical=\)", id="categories"),
        pytest.param(ColumnTransformer([("a", StandardScaler(), [0])]), "its parts can be fitted apart", id="columns"),
        pytest.param(SimpleImputer(strategy="most_frequent"), "use 'mean', 'median' or 'constant'", id="strategy"),
        pytest.param(PCA(2, svd_solver="randomized"), "use 'auto', 'covariance_eigh' or 'full'", id="solver"),
    ],
)
def test_one_that_cannot_be_fitted_says_what_to_do(store, link, told):
    for model in (
        sf.StreamTrainer(make_pipeline(link, SGDClassifier())),
        sf.StreamDetector(make_pipeline(link, HBOS())),
    ):
        with pytest.raises(UnsupportedError, match=rf"(?s){type(link).__name__}.*Fit it beforehand.*") as caught:
            model.fit(store)
        caught.match(told)


def test_one_that_was_fitted_beforehand_is_kept(store):
    quantiles = QuantileTransformer(n_quantiles=20).fit(GAPS[:300])
    trainer = sf.StreamTrainer(make_pipeline(quantiles, SimpleImputer(), GaussianNB()), batch_size=N).fit(store)
    assert [method.method for method in trainer.transformer_methods_] == ["kept", "exact"]
    assert_near(trainer.estimator_[1], SimpleImputer().fit(quantiles.transform(GAPS)))


def test_a_fit_that_was_interrupted_in_a_pass_goes_on(store, tmp_path, monkeypatch):
    def trainer_of(run=None):
        return sf.StreamTrainer(make_pipeline(*CHAINS["components"], SGDClassifier()), batch_size=100, checkpoint=run)

    wanted = trainer_of().fit(store)
    reduce, passes = FeatureStore.reduce, []

    def interrupted(*args, **options):
        passes.append(args)
        if len(passes) in (2, 5):
            raise KeyboardInterrupt
        return reduce(*args, **options)

    monkeypatch.setattr(FeatureStore, "reduce", interrupted)
    for n_passes in (2, 5):
        with pytest.raises(KeyboardInterrupt):
            trainer_of(tmp_path / "run").fit(store)
        assert len(passes) == n_passes
    resumed = trainer_of(tmp_path / "run").fit(store)
    for ours, theirs in zip(resumed.estimator_, wanted.estimator_, strict=True):
        assert {name: value.tobytes() for name, value in learnt(ours).items()} == {
            name: value.tobytes() for name, value in learnt(theirs).items()
        }
    done = len(passes)
    trainer_of(tmp_path / "run").fit(store)  # a complete run is read
    assert len(passes) == done


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.transformer.rpartition(".")[2])
def test_everyone_goes_through_checkpoints(entry, tmp_path):
    module, _, name = entry.transformer.rpartition(".")
    options = {"n_components": 2} if name.endswith("RandomProjection") else {}
    link = getattr(importlib.import_module(module), name)(**options)
    pipeline = make_pipeline(link, SGDClassifier(random_state=0))
    rows = sf.ingest(np.abs(FULL), tmp_path / "a", y=Y, chunk_rows=67)
    if name == "TfidfTransformer":
        rows = sf.ingest(csr_array(np.abs(FULL)), tmp_path / "b", y=Y, chunk_rows=67)
    plain = sf.StreamTrainer(pipeline, batch_size=100, epochs=2).fit(rows)
    sf.StreamTrainer(pipeline, batch_size=100, checkpoint=tmp_path / "run").fit(rows)
    grown = sf.StreamTrainer(pipeline, batch_size=100, epochs=2, checkpoint=tmp_path / "run").fit(rows)
    np.testing.assert_array_equal(grown.estimator_[-1].coef_, plain.estimator_[-1].coef_)
    np.testing.assert_array_equal(grown.decision_function(rows).compute(), plain.decision_function(rows).compute())


def test_parameters_of_the_second_one_are_refused_when_it_is_reached(store):
    chain = make_pipeline(SimpleImputer(), PCA(9), GaussianNB())
    with pytest.raises(InvalidParameterError, match=r"n_components=9\) must be between 0 and .*=5"):
        sf.StreamTrainer(chain).fit(store)


def test_a_limit_that_is_too_small_is_told(store):
    for chain in CHAINS.values():
        with pytest.raises(BudgetError):
            sf.StreamTrainer(make_pipeline(*chain, GaussianNB()), memory_limit="2MB").fit(store)


def test_the_names_of_steps_stay(store):
    pipeline = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler()), ("learn", GaussianNB())])
    trainer = sf.StreamTrainer(pipeline).fit(store)
    assert list(trainer.estimator_.named_steps) == ["fill", "scale", "learn"]
    # A plain pipeline of scikit-learn, which goes on without streamfit.
    np.testing.assert_array_equal(trainer.estimator_.predict(GAPS), trainer.predict(store).compute())
