"""A shuffle that is killed at any instant and started again writes the files that it would have written."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import StoreNotFoundError
from streamfit.plan.budget import FIXED_NBYTES
from streamfit.plan.shuffle_order import ShuffleOrder
from streamfit.run.shuffle_journal import Journal, scratch_of
from streamfit.run.shuffle_rows import block_nbytes, held_row_nbytes
from streamfit.store.manifest import load_manifest

SEED = 6


def shuffle(store, path, passes):
    store = sf.open_store(store)
    besides = FIXED_NBYTES + block_nbytes(store.reader) + 5 * store.layout.chunk_nbytes
    # Two chunks are held at once, so that many windows are scattered to many buckets.
    limit = besides + 2 * store.layout.chunk_rows * held_row_nbytes(store.reader)
    return store.shuffle(path, seed=SEED, passes=passes, memory_limit=limit)


def make_impatient(commit_seconds):
    from streamfit.run import shuffle_full
    from streamfit.store import committing

    committing._COMMIT_SECONDS = shuffle_full._JOURNAL_SECONDS = commit_seconds


def child_runs(store, path, passes, commit_seconds):
    make_impatient(commit_seconds)
    shuffle(store, path, passes)


def child_dies_at_system_call(store, path, passes, call, n_calls):
    """Die right before the n-th call of a function of `os` that files are put in place or removed with."""
    make_impatient(-1.0)
    original, left = getattr(os, call), [n_calls]

    def dying(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(os, call, dying)
    shuffle(store, path, passes)


@pytest.fixture(scope="module")
def context():
    # Children are forked from a small server that has everything imported and no threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streamfit.feature_store", "streamfit.run.shuffle", "zarr", "dask.array"])
    return context


def ingested(folder, n_rows, chunk_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6)).astype("f4")
    y = np.sort(rng.choice(["ham", "spam", "eggs"], n_rows))
    return sf.ingest(X, folder / "store", y=y, ids=np.arange(n_rows), chunk_rows=chunk_rows).path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ingested(tmp_path_factory.mktemp("kills"), 40_011, 500)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return ingested(tmp_path_factory.mktemp("small"), 3_050, 100)


@pytest.fixture(scope="module")
def undisturbed(small):
    return {passes: files(shuffle(small, f"{small}-{passes}", passes).path) for passes in ("full", 2)}


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def assert_done(path, undisturbed):
    found = files(path)
    assert found.keys() == undisturbed.keys()  # so scratch is gone
    assert found == undisturbed


def state_of(path):
    """Tell in which part of the work a process was killed."""
    try:
        stored = load_manifest(Path(path), allow_incomplete=True)
    except StoreNotFoundError:
        return "nothing"
    if stored.complete:
        return "complete"
    if stored.n_rows:
        return "collecting"
    scratch = scratch_of(Path(path))
    journal = Journal.load(scratch)
    if journal is not None:
        return "scattered" if journal.n_rows == stored.n_rows_expected else "scattering"
    return "passes" if scratch.exists() else "begun"


def killed_at_random(context, tmp_path, store, passes, *, n_kills, commit_seconds, rng):
    """Kill and start again until killed often enough; give where the kills hit."""
    path = str(tmp_path / "shuffled")
    for number in range(2):  # the first one waits for the server
        began = time.perf_counter()
        process = context.Process(
            target=child_runs, args=(store, str(tmp_path / f"whole-{number}"), passes, commit_seconds)
        )
        process.start()
        process.join()
        seconds = time.perf_counter() - began
        assert process.exitcode == 0
    undisturbed = files(tmp_path / "whole-0")
    hits = Counter()
    while hits.total() < n_kills:
        process = context.Process(target=child_runs, args=(store, path, passes, commit_seconds))
        process.start()
        process.join(seconds * rng.uniform() ** 2)
        if process.exitcode is None:
            process.kill()
            process.join()
            hits[state_of(path)] += 1
        else:
            assert process.exitcode == 0
            assert_done(path, undisturbed)
            shutil.rmtree(path)
    shuffle(store, path, passes)
    assert_done(path, undisturbed)
    return hits


def test_killed_at_a_few_random_instants(tmp_path, context, small):
    killed_at_random(context, tmp_path, small, "full", n_kills=3, commit_seconds=-1.0, rng=np.random.default_rng(5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passes", "commit_seconds", "seen"),
    [
        pytest.param("full", -1.0, {"scattering", "collecting"}, id="full-every-chunk"),
        pytest.param("full", 0.2, {"scattering", "collecting"}, id="full-now-and-then"),
        pytest.param(2, 0.1, {"passes", "collecting"}, id="passes"),
    ],
)
def test_killed_at_thirty_random_instants(tmp_path, context, store, passes, commit_seconds, seen):
    rng = np.random.default_rng(5)
    hits = killed_at_random(context, tmp_path, store, passes, n_kills=30, commit_seconds=commit_seconds, rng=rng)
    print(f"\n{passes}, progress kept every {commit_seconds} s: {dict(hits)}")
    assert seen <= hits.keys()


@pytest.mark.parametrize(
    ("passes", "call", "n_calls"),
    [
        # `replace` puts metadata, journals, chunks and manifests in place; of the journal's the first tells of no rows.
        *(pytest.param("full", "replace", n, id=f"full-before-file-{n}") for n in (1, 3, 4, 5, 8, 40, 100)),
        *(pytest.param(2, "replace", n, id=f"passes-before-file-{n}") for n in (4, 60, 140)),
        pytest.param("full", "unlink", 1, id="before-a-bucket-is-removed"),
        pytest.param("full", "rmdir", 1, id="before-scratch-is-gone"),
        pytest.param(2, "rmdir", 1, id="before-a-used-pass-is-gone"),
    ],
)
def test_killed_at_chosen_instants(tmp_path, context, small, undisturbed, passes, call, n_calls):
    path = str(tmp_path / "shuffled")
    process = context.Process(target=child_dies_at_system_call, args=(small, path, passes, call, n_calls))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    shuffle(small, path, passes)
    assert_done(path, undisturbed[passes])
    if passes == "full":
        keys = ShuffleOrder(3_050, SEED).keys(0, 3_050)
        np.testing.assert_array_equal(sf.open_store(path).ids.compute(), np.lexsort((np.arange(3_050), keys)))
