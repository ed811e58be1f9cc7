"""The verbs give the same bits on threads and on processes."""

from __future__ import annotations

import sys
import threading

import dask
import numpy as np
import pytest
from pyod.models.hbos import HBOS
from pyod.models.knn import KNN
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_info

import streamfit as sf
from streamfit.maths.summaries.moments import Moments
from streamfit.plan.layout import MAX_PARTITIONS, StoreLayout
from streamfit.run import blas
from streamfit.run.blas import one_blas_thread
from streamfit.run.engine import current_engine
from streamfit.run.threads import ThreadsEngine

calls: list[int] = []


def row_sums(model, chunk):
    calls.append(chunk.index)
    return chunk.X.sum(axis=1) * model


def two_columns(model, chunk):
    return np.stack([chunk.X[:, 0], chunk.rows * model], axis=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_345, 7)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=len(X)) > 1).astype(int)
    return sf.ingest(X, tmp_path_factory.mktemp("engines") / "x.zarr", y=y, chunk_rows=100)


@pytest.fixture(scope="module")
def processes():
    with sf.connect("processes", n_workers=2) as engine:
        yield engine


def test_libraries_are_looked_for_again_after_an_import(monkeypatch):
    looked = []

    class Controller(blas.ThreadpoolController):
        def __init__(self):
            looked.append(True)
            super().__init__()

    monkeypatch.setattr(blas, "ThreadpoolController", Controller)
    blas._controller.cache_clear()
    for _ in range(3):
        with one_blas_thread():
            assert {library["num_threads"] for library in threadpool_info()} == {1}
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "imported meanwhile", blas)
    with one_blas_thread():
        pass
    assert len(looked) == 2
    blas._controller.cache_clear()


def test_building_a_map_calls_the_function_zero_times(store):
    calls.clear()
    lazy = store.map(row_sums, model=2.0, dtype=np.float32)
    assert calls == []
    assert lazy.shape == (2_345,)
    assert lazy.dtype == np.float32
    assert lazy.chunks[0] == store.layout.partition_rows()
    np.testing.assert_array_equal(lazy.compute(), store.X.compute().sum(axis=1) * np.float32(2))
    assert sorted(calls) == list(range(store.layout.n_chunks))


def test_map_with_several_outputs(store):
    lazy = store.map(two_columns, model=1.0, dtype=np.float64, n_outputs=2)
    assert lazy.shape == (2_345, 2)
    found = lazy.compute()
    np.testing.assert_array_equal(found[:, 1], np.arange(2_345))
    np.testing.assert_array_equal(lazy[1_000:1_003].compute(), found[1_000:1_003])


def test_reduce_does_not_depend_on_workers_or_memory(store):
    summary = Moments(store.n_features)
    expected = store.reduce(summary, engine=ThreadsEngine(1))
    for engine, limit in ((ThreadsEngine(2), None), (ThreadsEngine(7), None), (ThreadsEngine(3), "60MB")):
        found = store.reduce(summary, engine=engine, memory_limit=limit)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.m2, expected.m2)
    np.testing.assert_allclose(expected.mean, store.X.compute().astype(float).mean(axis=0), rtol=1e-12)


def test_partitions_are_bounded_and_cover_all_rows():
    layout = StoreLayout(n_rows=10_001, n_features=1, chunk_rows=1, itemsize=4)
    assert layout.n_partitions <= MAX_PARTITIONS
    assert sum(layout.partition_rows()) == 10_001
    assert [c for p in range(layout.n_partitions) for c in layout.chunks_of(p)] == list(range(10_001))


def test_without_a_client_threads_are_used():
    assert current_engine().name == "threads"


def test_processes_give_the_same_bits(store, processes):
    assert current_engine().name == "distributed"
    on_processes = store.reduce(Moments(store.n_features))
    on_threads = store.reduce(Moments(store.n_features), engine=ThreadsEngine(2))
    np.testing.assert_array_equal(on_processes.m2, on_threads.m2)
    lazy = store.map(row_sums, model=2.0, dtype=np.float32)
    np.testing.assert_array_equal(lazy.compute(), lazy.compute(scheduler="threads"))


@pytest.mark.parametrize(
    "detector",
    [
        pytest.param(HBOS(), id="HBOS"),
        pytest.param(KNN(n_neighbors=4, method="mean"), id="KNN"),
    ],
)
def test_detectors_give_the_same_bits_on_processes(store, processes, detector):
    on_processes = sf.StreamDetector(detector).fit(store)
    scores = on_processes.decision_scores_.compute()
    new = on_processes.decision_function(store).compute()
    with dask.config.set(scheduler="threads"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamfit.detector.current_engine", lambda: ThreadsEngine(2))
        on_threads = sf.StreamDetector(detector).fit(store)
        np.testing.assert_array_equal(scores, on_threads.decision_scores_.compute())
        np.testing.assert_array_equal(new, on_threads.decision_function(store).compute())
    assert on_processes.threshold_ == on_threads.threshold_


def test_trainer_gives_the_same_bits_on_processes(store, processes):
    def fit():
        return sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=300, epochs=3, random_state=4).fit(store)

    on_processes = fit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamfit.run.distributed.active_engine", lambda: None)
        on_threads = fit()
    np.testing.assert_array_equal(on_processes.estimator_.coef_, on_threads.estimator_.coef_)
    np.testing.assert_array_equal(on_processes.estimator_.intercept_, on_threads.estimator_.intercept_)


@pytest.mark.parametrize("target", ["nowhere", 7])
def test_a_wrong_target_is_named(target):
    with pytest.raises(sf.errors.InvalidParameterError, match=str(target)), sf.connect(target):
        pass


def test_the_innermost_connection_counts(processes):
    with sf.connect("threads", n_workers=3) as engine:
        assert engine.n_workers == 3
        assert current_engine() is engine
    assert current_engine().name == "distributed"


@pytest.mark.parametrize("n_workers", [0, -1, 1.5, "a"])
def test_a_wrong_number_of_workers_is_named(n_workers):
    with (
        pytest.raises(sf.errors.InvalidParameterError, match="n_workers"),
        sf.connect("processes", n_workers=n_workers),
    ):
        pass


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info()]


def test_fits_side_by_side_leave_blas_as_it_was():
    before = blas_threads()
    inside, leave = threading.Barrier(3), threading.Event()
    seen = []

    def hold():
        with one_blas_thread():
            inside.wait(10)
            leave.wait(10)
            seen.append([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"])

    others = [threading.Thread(target=hold) for _ in range(2)]
    with one_blas_thread():
        for other in others:
            other.start()
        inside.wait(10)
    leave.set()
    for other in others:
        other.join()
    assert all(set(threads) == {1} for threads in seen)
    assert blas_threads() == before
