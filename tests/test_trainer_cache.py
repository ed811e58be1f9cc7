"""Pipelines trained on rows that are written once: the same bits as without, and one folder for one kind of rows."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler

import streamfit as sf
from streamfit.errors import (
    BudgetError,
    CheckpointMismatchError,
    InvalidParameterError,
    StoreCorruptError,
    StoreExistsError,
)
from streamfit.events import StepsDone

N_ROWS = 230
PIPELINE = make_pipeline(StandardScaler(), MinMaxScaler((-1, 1)), SGDClassifier(loss="log_loss"))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(3, 2, size=(N_ROWS, 4)).astype(np.float32)
    return X, np.where(X[:, 0] > 3, "high", "low")


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    X, y = data
    return sf.ingest(X, tmp_path_factory.mktemp("cache") / "store", y=y, chunk_rows=20)


class Interrupted(Exception):  # noqa: N818  # not an error of the library
    pass


class InterruptAfter:
    """Raises after some steps."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def notify(self, event):
        if isinstance(event, StepsDone):
            self.n_steps -= 1
            if self.n_steps == 0:
                raise Interrupted


def trainer_of(estimator=PIPELINE, **changes):
    options = {"batch_size": 50, "epochs": 3, "stream": sf.StreamOptions(window=4)}
    return sf.StreamTrainer(estimator, **(options | changes))


def bits(trainer):
    return [pickle.dumps(vars(link)) for link in trainer.estimator_]


def files_of(folder):
    folder = Path(folder)
    return {
        file.relative_to(folder): (file.stat().st_mtime_ns, file.stat().st_ino, file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file() and file.name != "lock"
    }


@pytest.mark.parametrize("shuffle", ["window", "none"])
@pytest.mark.parametrize("kind", [True, "path", "text"])
def test_scaled_rows_give_the_same_bits(store, tmp_path, shuffle, kind):
    folder = tmp_path / "rows"
    cache = {True: True, "path": folder, "text": str(folder)}[kind]
    plain = trainer_of(shuffle=shuffle).fit(store, validation_data=store)
    cached = trainer_of(shuffle=shuffle, cache=cache).fit(store, validation_data=store)
    assert bits(cached) == bits(plain)
    assert [{**entry, "seconds": 0} for entry in cached.history_] == [{**e, "seconds": 0} for e in plain.history_]
    assert (cached.n_steps_, cached.plan_.fingerprint) == (plain.n_steps_, plain.plan_.fingerprint)
    np.testing.assert_array_equal(cached.predict_proba(store).compute(), plain.predict_proba(store).compute())
    if kind is not True:
        rows = sf.open_store(folder)
        assert rows.verify().ok
        np.testing.assert_array_equal(rows.X.compute(), cached.estimator_[:-1].transform(store.X.compute()))
        np.testing.assert_array_equal(np.asarray(rows.y.compute()), np.asarray(store.y.compute()))


def test_components_are_equal(store, tmp_path):
    pipeline = make_pipeline(StandardScaler(), PCA(2), SGDClassifier())
    plain, cached = (trainer_of(pipeline, cache=cache).fit(store) for cache in (None, tmp_path / "rows"))
    np.testing.assert_allclose(cached.estimator_[-1].coef_, plain.estimator_[-1].coef_, rtol=1e-3)
    np.testing.assert_array_equal(cached.estimator_[1].components_, plain.estimator_[1].components_)
    assert sf.open_store(tmp_path / "rows").shape == (N_ROWS, 2)


def test_whole_chunks_are_transformed(store):
    pipeline = make_pipeline(StandardScaler(), PCA(2), SGDClassifier(random_state=3))
    cached = trainer_of(pipeline, cache=True).fit(store)
    straight = trainer_of(SGDClassifier(random_state=3)).fit(store.transformed(cached.estimator_[:-1]))
    np.testing.assert_array_equal(cached.estimator_[-1].coef_, straight.estimator_.coef_)


def test_a_second_fit_writes_nothing(store, tmp_path):
    folder = tmp_path / "rows"
    first = trainer_of(cache=folder).fit(store)
    before = files_of(folder)
    assert bits(trainer_of(cache=folder).fit(store)) == bits(first)
    # What comes after the transformers, and how it is trained, does not matter.
    other = clone(PIPELINE).set_params(sgdclassifier__alpha=0.1)
    trainer_of(other, cache=folder, epochs=1, batch_size=7, random_state=4).fit(store)
    trainer_of(make_pipeline(*PIPELINE[:-1], GaussianNB()), cache=folder).fit(store)
    assert files_of(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda store: (clone(PIPELINE).set_params(minmaxscaler__feature_range=(0, 1)), store), id="range"),
        pytest.param(lambda store: (make_pipeline(StandardScaler(), SGDClassifier()), store), id="fewer"),
        pytest.param(lambda store: (make_pipeline(*PIPELINE[:-1], Normalizer(), SGDClassifier()), store), id="more"),
        pytest.param(lambda store: (PIPELINE, store[1:]), id="rows"),
    ],
)
def test_a_folder_with_other_rows_is_refused_and_kept(store, tmp_path, change):
    folder = tmp_path / "rows"
    trainer_of(cache=folder).fit(store)
    before = files_of(folder)
    estimator, rows = change(store)
    with pytest.raises(StoreExistsError, match=r"does not hold these rows as these transformers .* name another one"):
        trainer_of(estimator, cache=folder).fit(rows)
    assert files_of(folder) == before
    assert bits(trainer_of(cache=folder).fit(store)) == bits(trainer_of().fit(store))


def test_a_folder_with_something_else_is_refused_and_kept(store, data, tmp_path):
    other = sf.ingest(data[0], tmp_path / "other", chunk_rows=20)
    before = files_of(other.path)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "mine.txt").write_text("mine")
    for folder in (other.path, tmp_path / "plain"):
        with pytest.raises(StoreExistsError):
            trainer_of(cache=folder).fit(store)
    assert files_of(other.path) == before
    assert [file.name for file in (tmp_path / "plain").iterdir()] == ["mine.txt"]


def test_the_store_itself_is_no_cache(store):
    with pytest.raises((InvalidParameterError, StoreExistsError)):
        trainer_of(cache=store.path).fit(store)
    assert store.verify().ok


def test_a_damaged_cache_is_an_error(store, tmp_path):
    folder = tmp_path / "rows"
    trainer_of(cache=folder).fit(store)
    chunk = next(file for file in (folder / "X").rglob("*") if file.is_file() and file.suffix != ".json")
    damaged = bytearray(chunk.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    chunk.write_bytes(bytes(damaged))
    with pytest.raises(StoreCorruptError):
        trainer_of(cache=folder).fit(store)


@pytest.mark.parametrize("n_steps", [1, 4, 5, 6, 14])
@pytest.mark.parametrize("kind", [True, "path"])
def test_an_interrupted_fit_goes_on_to_the_same_bits(store, tmp_path, kind, n_steps):
    cache = kind is True or tmp_path / "rows"
    run = sf.CheckpointOptions(tmp_path / "run", every_steps=1)
    with pytest.raises(Interrupted):
        trainer_of(cache=cache, checkpoint=run, callbacks=[InterruptAfter(n_steps)]).fit(store)
    before = kind is True or files_of(tmp_path / "rows")
    resumed = trainer_of(cache=cache, checkpoint=run).fit(store)
    assert bits(resumed) == bits(trainer_of().fit(store))
    assert kind is True or files_of(tmp_path / "rows") == before


def test_where_rows_are_cached_may_change_and_whether_not(store, tmp_path):
    run = sf.CheckpointOptions(tmp_path / "run", every_steps=1)
    with pytest.raises(Interrupted):
        trainer_of(cache=tmp_path / "rows", checkpoint=run, callbacks=[InterruptAfter(4)]).fit(store)
    with pytest.raises(CheckpointMismatchError, match="cached"):
        trainer_of(checkpoint=run).fit(store)
    resumed = trainer_of(cache=tmp_path / "elsewhere", checkpoint=run).fit(store)
    assert bits(resumed) == bits(trainer_of().fit(store))


@pytest.mark.parametrize("fails", [False, True])
def test_scratch_goes_with_the_fit(store, tmp_path, monkeypatch, fails):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    class Look:
        def notify(self, event):
            if isinstance(event, StepsDone):
                seen.append(sum(len(files) for _, _, files in os.walk(tmp_path)))
                if fails:
                    raise Interrupted

    if fails:
        with pytest.raises(Interrupted):
            trainer_of(cache=True, callbacks=[Look()]).fit(store)
    else:
        trainer_of(cache=True, callbacks=[Look()]).fit(store)
    assert min(seen) > 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cache", [True, False, "path"])
def test_without_transformers_nothing_is_written(store, tmp_path, cache):
    folder = tmp_path / "rows" if cache == "path" else cache
    for estimator in (SGDClassifier(), make_pipeline(SGDClassifier()), make_pipeline("passthrough", SGDClassifier())):
        np.testing.assert_array_equal(
            trainer_of(estimator, cache=folder).fit(store).decision_function(store).compute(),
            trainer_of(estimator).fit(store).decision_function(store).compute(),
        )
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize("cache", [3, 0.5, ["c"]])
def test_what_says_nothing_is_refused(store, cache):
    with pytest.raises(InvalidParameterError, match="cache must be None, True"):
        trainer_of(cache=cache).fit(store)


def test_a_view_is_trained_on_its_own_rows(store, data, tmp_path):
    X, y = data
    view = store[7:181]
    cached = trainer_of(make_pipeline(MaxAbsScaler(), GaussianNB()), cache=tmp_path / "rows").fit(view)
    np.testing.assert_array_equal(cached.estimator_[0].max_abs_, np.abs(X[7:181]).max(axis=0))
    straight = GaussianNB().fit(cached.estimator_[0].transform(X[7:181]), y[7:181])
    np.testing.assert_allclose(cached.estimator_[1].theta_, straight.theta_, rtol=1e-6)
    assert len(sf.open_store(tmp_path / "rows")) == 174


def test_sparse_rows_are_written_sparse(tmp_path):
    rng = np.random.default_rng(0)
    X = csr_array(np.where(rng.random((N_ROWS, 30)) < 0.1, rng.normal(size=(N_ROWS, 30)), 0).astype(np.float32))
    store = sf.ingest(X, tmp_path / "store", y=rng.integers(0, 2, N_ROWS), chunk_rows=20)
    pipeline = make_pipeline(MaxAbsScaler(), SGDClassifier())
    cached = trainer_of(pipeline, cache=tmp_path / "rows").fit(store)
    assert bits(cached) == bits(trainer_of(pipeline).fit(store))
    assert sf.open_store(tmp_path / "rows").is_sparse


def test_rows_that_become_wider_must_fit_the_limit(tmp_path):
    store = sf.ingest(np.ones((2_000, 60)), tmp_path / "store", y=np.arange(2_000) % 2, chunk_rows=100)
    pipeline = make_pipeline(PolynomialFeatures(2), SGDClassifier())
    options = {"memory_limit": "75MB", "stream": sf.StreamOptions(window=16), "epochs": 1}
    trainer_of(pipeline, **options).fit(store)
    with pytest.raises(BudgetError):
        trainer_of(pipeline, cache=tmp_path / "rows", **options).fit(store)
    assert not (tmp_path / "rows").exists()


def test_the_limit_covers_what_is_written(store):
    with pytest.raises(BudgetError):
        trainer_of(cache=True, memory_limit="1MB").fit(store)
    assert bits(trainer_of(cache=True, memory_limit="200MB").fit(store)) == bits(trainer_of().fit(store))
