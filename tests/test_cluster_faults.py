"""What clusters do to work: killed workers and schedulers, paused workers, stores that go away. Real processes."""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time

import dask
import numpy as np
import pytest
from cluster_processes import Supervised
from pyod.models.hbos import HBOS
from pyod.models.knn import KNN
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.errors import StoreError
from streamfit.maths.summaries.moments import Moments
from streamfit.scores import sorting

pytestmark = pytest.mark.slow

N_ROWS = 100_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 20))
    y = (X[:, 0] + rng.normal(size=N_ROWS) > 1).astype(int)
    return sf.ingest(X, tmp_path_factory.mktemp("faults") / "x.zarr", y=y, chunk_rows=1_000)


def first_column(model, chunk):
    return chunk.X[:, 0] * model


def reduced(store):
    found = [store.reduce(Moments(store.n_features)) for _ in range(3)]
    return [part for moments in found for part in (moments.mean, moments.m2)]


def histogram(store):
    detector = sf.StreamDetector(HBOS()).fit(store)
    return [detector.decision_scores_.compute(scheduler="threads"), detector.threshold_]


def neighbours(store):
    return [sf.StreamDetector(KNN()).fit(store[:6_000]).decision_scores_.compute(scheduler="threads")]


def trained(store):
    model = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    trainer = sf.StreamTrainer(model, batch_size=500, epochs=3, random_state=0).fit(store)
    return [trainer.estimator_[-1].coef_, trainer.estimator_[-1].intercept_]


JOBS = (reduced, histogram, neighbours, trained)


@pytest.fixture(scope="module")
def undisturbed(store):
    return {job: job(store) for job in JOBS}


@pytest.fixture(scope="module")
def cluster():
    with Supervised(2) as cluster:
        yield cluster


def same(found, expected):
    return all(np.array_equal(left, right) for left, right in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("place", "n_kills"), [pytest.param("worker", 50, id="workers"), pytest.param("scheduler", 10)]
)
def test_jobs_give_the_same_bits_whoever_is_killed(place, n_kills, cluster, store, undisturbed):
    chance = random.Random(place)  # noqa: S311  # no secret
    with sf.connect(cluster.address, timeout="2min"):
        seconds = {job: timed(job, store, undisturbed[job]) for job in JOBS}
        for number in range(n_kills):
            job = JOBS[number % len(JOBS)]
            victim = 0 if place == "scheduler" else chance.randint(1, cluster.n_workers)
            killer = threading.Timer(chance.random() * seconds[job], cluster.kill, (victim,))
            killer.start()
            found = job(store)
            killer.join()
            assert same(found, undisturbed[job]), (number, job.__name__)


def timed(job, store, expected):
    began = time.monotonic()
    assert same(job(store), expected)
    return time.monotonic() - began


def test_scores_on_scratch_survive_killed_workers(cluster, store, monkeypatch, tmp_path):
    monkeypatch.setattr(sorting, "HELD_NBYTES", 0)
    scores = store.map(first_column, model=2.0, dtype=np.float64)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        lazy = [
            sf.scores.roc_auc(store.y, scores),
            sf.scores.average_precision(store.y, scores),
            sf.scores.threshold(scores, 0.01),
        ]
        expected = dask.compute(*lazy, scheduler="threads")
        with sf.connect(cluster.address, timeout="2min") as engine:
            for place in (1, 2, 1, 2):
                killer = threading.Timer(0.3, cluster.kill, (place,))
                killer.start()
                assert engine.compute(*lazy) == expected
                killer.join()


def test_a_worker_that_is_paused_delays_and_changes_nothing(cluster, store, undisturbed):
    with sf.connect(cluster.address, timeout="2min"):
        threading.Timer(0.5, cluster.signal, (1, signal.SIGSTOP)).start()
        awake = threading.Timer(20, cluster.signal, (1, signal.SIGCONT))
        awake.start()
        assert same(trained(store), undisturbed[trained])
        awake.join()
        assert same(reduced(store), undisturbed[reduced])


def test_two_jobs_at_once_do_not_disturb_each_other(cluster, store, undisturbed):
    found = {}

    def run(job):
        with sf.connect(cluster.address, timeout="2min"):
            found[job] = job(store)

    threads = [threading.Thread(target=run, args=(job,)) for job in (trained, histogram)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job in (trained, histogram):
        assert same(found[job], undisturbed[job])


def test_a_store_that_goes_away_is_named_and_one_that_is_back_is_used(cluster, store, undisturbed, tmp_path):
    shutil.copytree(store.path, tmp_path / "copy.zarr")
    copy = sf.open_store(tmp_path / "copy.zarr")
    with sf.connect(cluster.address, timeout="2min"):
        (tmp_path / "copy.zarr").rename(tmp_path / "away.zarr")
        with pytest.raises(StoreError, match=r"copy\.zarr"):
            trained(copy)
        with pytest.raises(StoreError, match=r"copy\.zarr"):
            reduced(copy)
        (tmp_path / "away.zarr").rename(tmp_path / "copy.zarr")
        assert same(trained(copy), undisturbed[trained])
        assert same(reduced(copy), undisturbed[reduced])
