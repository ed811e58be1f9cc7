"""The memory of a stream: below its limit and below what is projected, whatever is stored and however it is read."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import streamfit as sf

MiB = 2**20
N_ROWS = 200_000

CHILD = """
import json, sys, threading, time
import psutil
import streamfit as sf

path, small, n_epochs, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
step, transform = options.pop("step"), options.pop("transform")

def opened(path):
    store = sf.open_store(path)[::step]
    if transform:
        from sklearn.preprocessing import StandardScaler
        store = store.transformed(StandardScaler().fit(store.take(range(100))))
    return store

def stream(store, prefetch=None, memory_limit=None, **order):
    plan = store.plan(memory_limit=memory_limit, **order)
    n_rows = 0
    for _ in range(n_epochs):
        for batch in store.stream(plan, prefetch=prefetch, memory_limit=memory_limit):
            n_rows += batch.n_rows
            time.sleep(0.4 / len(plan))  # a model that computes, so that windows are read ahead
    return n_rows

stream(opened(small), batch_size=10)  # imports and compilation, with rows that take no memory
store = opened(path)
found = store.project(**options)
process, ended, peak = psutil.Process(), threading.Event(), [0]
start = process.memory_info().rss

def watch():
    while not ended.wait(0.002):
        peak[0] = max(peak[0], process.memory_info().rss)

watcher = threading.Thread(target=watch)
watcher.start()
n_rows = stream(store, **options)
ended.set()
watcher.join()
print(json.dumps({
    "growth": peak[0] - start,
    "n_rows": n_rows,
    "expected_rows": n_epochs * store.n_rows,
    "window_nbytes": found.window_rows * store.layout.row_nbytes,
    "nbytes": store.layout.nbytes,
    "prefetch": found.prefetch,
    "own_nbytes": found.own_nbytes,
    "parts": found.memory,
}))
"""


def measure(stores, kind, *, n_epochs=1, step=1, transform=False, **options):
    """Stream in a fresh process; tell how far its resident memory rose above the start, and what was projected."""
    paths = [str(stores / kind), str(stores / f"{kind}-small")]
    options |= {"step": step, "transform": transform}
    command = [sys.executable, "-c", CHILD, *paths, str(n_epochs), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["n_rows"] == found["expected_rows"]
    return found


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 128), dtype=np.float32)  # 98 MiB in 50 chunks
    y = np.arange(N_ROWS) % 2
    sparse = scipy.sparse.random_array((N_ROWS, 100_000), density=3e-4, rng=rng, format="csr", dtype=np.float32)
    kinds = {
        "raw": (X, {"y": y}),
        "bare": (X, {}),
        "weighted": (X, {"y": y.astype(np.float64), "sample_weight": np.ones(N_ROWS)}),
        "text": (X, {"y": np.array(["a class with a long name", "b"])[y]}),
        "lz4": (np.rint(X), {"y": y}),
        "sparse": (sparse, {"y": y}),
    }
    for name, (rows, columns) in kinds.items():
        whole = sf.ingest(rows, folder / name, chunk_rows=4_000, **columns)
        few = {column: values[:300] for column, values in columns.items()}
        sf.ingest(rows[:300], folder / f"{name}-small", chunk_rows=100, **few)
        if name in ("raw", "lz4"):
            assert whole.info().arrays[0].codec.startswith("raw" if name == "raw" else "blosc")
    return folder


@pytest.mark.parametrize("limit", [pytest.param(80 * MiB, id="tight"), pytest.param(130 * MiB, id="roomy")])
@pytest.mark.slow
def test_resident_memory_stays_below_the_limit(stores, limit):
    found = measure(stores, "raw", n_epochs=2, batch_size=4_096, memory_limit=limit)
    assert found["growth"] <= limit
    # The limit is used, not only kept: all windows are really there.
    assert found["growth"] >= 0.75 * (1 + found["prefetch"]) * found["window_nbytes"]


QUICK = [
    pytest.param("raw", {"batch_size": 30_000, "prefetch": 1, "window": 8}, id="large-batch"),
    pytest.param("weighted", {"batch_size": 4_096, "prefetch": 2, "window": 5}, id="labels-and-weights"),
    pytest.param("lz4", {"batch_size": 4_096, "prefetch": 1, "step": 3}, id="compressed-view"),
    pytest.param("sparse", {"batch_size": 4_096, "prefetch": 1, "window": 12}, id="sparse"),
]
EVERY = [
    pytest.param(
        kind, {"batch_size": batch_size, "prefetch": prefetch, **more}, id=f"{kind}{name}-{batch_size}-{prefetch}"
    )
    for kind, name, more in [
        ("raw", "", {}),
        ("raw", "-view", {"step": 3}),
        ("raw", "-transformed", {"transform": True}),
        ("raw", "-in-order", {"shuffle": "none"}),
        ("bare", "", {}),
        ("weighted", "", {}),
        ("text", "", {}),
        ("lz4", "", {}),
        ("lz4", "-view", {"step": 3}),
        ("sparse", "", {}),
        ("sparse", "-view", {"step": 3}),
    ]
    for batch_size in (256, 4_096, 30_000)
    for prefetch in (0, 1, 2)
]


def check_projected(stores, kind, options):
    found = measure(stores, kind, **options)
    assert found["growth"] <= found["own_nbytes"], found["parts"]
    if kind != "sparse":  # whose windows differ
        # What is measured is really there; how far windows are read ahead depends on how busy the machine is.
        assert found["growth"] >= 0.75 * min(found["window_nbytes"], found["nbytes"])


@pytest.mark.parametrize(("kind", "options"), QUICK)
def test_resident_memory_stays_below_what_is_projected(stores, kind, options):
    check_projected(stores, kind, options)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), EVERY)
def test_the_projection_holds_for_every_kind_of_rows(stores, kind, options):
    check_projected(stores, kind, options)
