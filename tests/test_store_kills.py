"""Writers that are killed with SIGKILL at any instant, and the same call made again."""

from __future__ import annotations

import gzip
import hashlib
import multiprocessing
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.errors import StoreIncompleteError
from streamfit.store.integrity import verify
from streamfit.store.manifest import load_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHUNK_ROWS = 500
N_FEATURES = 40


def rows(n_rows, seed=0):
    X = np.random.default_rng(seed).standard_normal((n_rows, N_FEATURES)).astype("f4")
    return np.round(X, 1) if seed == 2 else X


def labels(n_rows, seed=0):
    return np.array(["ham", "spam", "eggs"])[np.random.default_rng(seed).integers(0, 3, n_rows)]


# -- what is killed ------------------------------------------------------------------------------------


def ingest_npy(folder):
    X = np.load(folder / "y.npy")
    sf.ingest(folder / "X.npy", folder / "a.zarr", y=X, chunk_rows=CHUNK_ROWS)


def ingest_csv_gz(folder):
    sf.ingest(folder / "X.csv.gz", folder / "a.zarr", y="label", chunk_rows=CHUNK_ROWS)


def ingest_generator(folder):
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    batches = ((X[start : start + 333], y[start : start + 333]) for start in range(0, len(X), 333))
    sf.ingest(batches, folder / "a.zarr", chunk_rows=CHUNK_ROWS)


def append_npy(folder):
    sf.append(folder / "X.npy", folder / "a.zarr", y=np.load(folder / "y.npy"))


def append_generator(folder):
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    batches = ((X[start : start + 333], y[start : start + 333]) for start in range(0, len(X), 333))
    if len(sf.open_store(folder / "a.zarr")) == N_BEFORE:  # batches are not known again
        sf.append(batches, folder / "a.zarr")


def attach_weights(folder):
    n_rows = len(np.load(folder / "y.npy", mmap_mode="r"))
    if sf.open_store(folder / "a.zarr").sample_weight is None:
        sf.attach(folder / "a.zarr", sample_weight=np.linspace(0, 1, n_rows))


def raw_store(folder):
    sf.ingest(folder / "X.npy", folder / "x.zarr", y=np.load(folder / "y.npy"), chunk_rows=CHUNK_ROWS)


def transform(folder):
    X = np.load(folder / "X.npy", mmap_mode="r")[:200]
    # Chunks of other rows: a killed writer goes on within a chunk that was transformed as a whole.
    pipeline = make_pipeline(StandardScaler(), PCA(20, svd_solver="full")).fit(X)
    sf.open_store(folder / "x.zarr").transform(pipeline, folder / "a.zarr", chunk_rows=430)


N_BEFORE = 777


def short_store(folder):
    sf.ingest(rows(N_BEFORE, 1), folder / "a.zarr", y=labels(N_BEFORE, 1), chunk_rows=CHUNK_ROWS)


@dataclass(frozen=True)
class Job:
    """Something that writes ``a.zarr``, and what was there before."""

    run: Callable[[Path], None]
    before: Callable[[Path], None] | None = None
    n_rows_before: int = 0


JOBS = {
    "npy": Job(ingest_npy),
    "csv.gz": Job(ingest_csv_gz),
    "generator": Job(ingest_generator),
    "append-npy": Job(append_npy, short_store, N_BEFORE),
    "append-generator": Job(append_generator, short_store, N_BEFORE),
    "attach": Job(attach_weights, ingest_npy, 1),
    "transform": Job(transform, raw_store),
}


def _child(job, folder, commit_seconds):
    from streamfit.store import committing

    committing._COMMIT_SECONDS = commit_seconds
    job.run(folder)


# -- how it is killed ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def context():
    # Children are forked from a small server that has everything imported and no threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streamfit.sources.ingest", "zarr", "pyarrow.csv", "pandas"])
    return context


def make_inputs(folder, n_rows):
    np.save(folder / "X.npy", rows(n_rows))
    np.save(folder / "y.npy", labels(n_rows))
    with gzip.open(folder / "X.csv.gz", "wt", compresslevel=1) as file:
        file.write(",".join([*(f"f{j}" for j in range(N_FEATURES)), "label"]) + "\n")
        for values, label in zip(rows(n_rows).tolist(), labels(n_rows), strict=True):
            file.write(",".join(map(repr, values)) + f",{label}\n")


def content_of(store):
    """Hash of every file that counts. The lock names a process."""
    return {
        str(file.relative_to(store)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in store.rglob("*")
        if file.is_file() and file.name != "lock"
    }


def check_state(path, n_rows_before):
    """The store is there as last committed, or says how far it is; and what it says is true."""
    if not (path / "streamfit/manifest.json").exists():
        return "nothing"
    manifest = load_manifest(path, allow_incomplete=True)
    if manifest.n_rows:
        report = verify(path, manifest)
        assert (report.bad_chunks, report.bad_metadata) == ((), ())
    if manifest.complete:
        assert sf.open_store(path).n_rows == manifest.n_rows
        return "complete" if manifest.n_rows > n_rows_before else "as before"
    with pytest.raises(StoreIncompleteError, match=f"incomplete: {manifest.n_rows} of "):
        sf.open_store(path)
    return "incomplete"


def kill_often(job, folder, context, *, n_kills, seed, commit_seconds):
    """Run a job, killed at random instants and run again, until it was killed often enough."""
    rng = np.random.default_rng(seed)
    store = folder / "a.zarr"

    def start():
        process = context.Process(target=_child, args=(job, folder, commit_seconds))
        process.start()
        return process

    def fresh():
        shutil.rmtree(store, ignore_errors=True)
        if job.before is not None:
            job.before(folder)

    for _ in range(2):  # the first one waits for the server
        fresh()
        began = time.perf_counter()
        process = start()
        process.join()
        assert process.exitcode == 0
        seconds = time.perf_counter() - began
    expected = content_of(store)
    done = sf.open_store(store).n_rows
    fresh()
    states, n_finished, kills = [], 0, 0
    while kills < n_kills:
        process = start()
        process.join(rng.uniform(0, seconds))
        process.kill()
        process.join()
        if process.exitcode == 0:
            assert content_of(store) == expected
            n_finished += 1
            fresh()
            continue
        kills += 1
        states.append(check_state(store, job.n_rows_before))
    process = start()
    process.join()
    assert process.exitcode == 0
    assert content_of(store) == expected
    assert sf.open_store(store).n_rows == done
    return {state: states.count(state) for state in sorted(set(states))}, n_finished + 1


@pytest.mark.parametrize("name", ["npy", "csv.gz", "append-npy", "append-generator", "attach"])
def test_a_killed_writer_goes_on_to_the_same_store(tmp_path, context, name):
    make_inputs(tmp_path, 4_321)
    kill_often(JOBS[name], tmp_path, context, n_kills=3, seed=1, commit_seconds=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("commit_seconds", [0.0, 0.03])
def test_an_ingest_killed_a_hundred_times(tmp_path, context, commit_seconds):
    make_inputs(tmp_path, 40_321)
    states, n_finished = kill_often(JOBS["npy"], tmp_path, context, n_kills=100, seed=2, commit_seconds=commit_seconds)
    print(f"commit every {commit_seconds} s: 100 kills left {states}; {n_finished} stores ended, all byte-identical")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in JOBS if name != "npy"])
def test_other_writers_killed_thirty_times(tmp_path, context, name):
    make_inputs(tmp_path, 10_321)
    states, n_finished = kill_often(JOBS[name], tmp_path, context, n_kills=30, seed=3, commit_seconds=0.0)
    print(f"{name}: 30 kills left {states}; {n_finished} stores ended, all byte-identical")
