"""The memory of a shuffle: below its limit, whatever the size of the store."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

import streamfit as sf
from streamfit.reporting.memory import PeakMemory

MiB = 2**20


def peak_growth(path, target, options, connection):
    """Shuffle in a fresh process; tell how far its resident memory rose above the start, imports left out."""
    sf.ingest(np.zeros((9, 2)), f"{target}-small").shuffle(f"{target}-small-shuffled")
    store = sf.open_store(path)
    with PeakMemory() as peak:
        shuffled = store.shuffle(target, **options)
    connection.send((peak.growth_nbytes, shuffled.n_rows))


def grown(path, target, **options):
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=peak_growth, args=(path, str(target), options, sender))
    process.start()
    sender.close()  # so that a child that dies ends the wait
    growth, n_rows = receiver.recv()
    process.join()
    return growth, n_rows


def wide(n_rows, rows=20_000):
    for number, start in enumerate(range(0, n_rows, rows)):
        rng = np.random.default_rng([3, number])
        X = rng.standard_normal((min(rows, n_rows - start), 128), dtype=np.float32)
        yield X, (X[:, 0] > 0).astype("i1")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Where features take most of the bytes, where keys and orders do, and where chunks are compressed."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    narrow = rng.standard_normal((3_000_000, 2), dtype=np.float32)
    texts = np.array(["ham", "spam", "a rather long label of its own"])[rng.integers(0, 3, len(narrow))]
    repeated = np.repeat(np.arange(30_000, dtype="f4"), 1_280).reshape(-1, 128)
    return {
        "wide": sf.ingest(wide(300_000), folder / "wide", chunk_rows=4_000),
        "narrow": sf.ingest(narrow, folder / "narrow", y=texts, ids=np.arange(len(narrow)), chunk_rows=100_000),
        "compressed": sf.ingest(repeated, folder / "compressed", chunk_rows=16_384),
    }


@pytest.mark.parametrize(
    ("name", "limit", "passes"),
    [
        pytest.param("wide", 80 * MiB, "full", id="wide-tight"),
        pytest.param("wide", 130 * MiB, "full", marks=pytest.mark.slow, id="wide-roomy"),
        pytest.param("wide", 300 * MiB, "full", marks=pytest.mark.slow, id="wide-at-once"),
        pytest.param("wide", 100 * MiB, 2, id="wide-passes"),
        pytest.param("narrow", 90 * MiB, "full", id="narrow"),
        pytest.param("compressed", 130 * MiB, "full", marks=pytest.mark.slow, id="compressed"),
    ],
)
def test_resident_memory_stays_below_the_limit(stores, tmp_path, name, limit, passes):
    store = stores[name]
    growth, n_rows = grown(store.path, tmp_path / "shuffled", memory_limit=limit, passes=passes)
    print(f"\n{name}, {store.layout.nbytes / MiB:.0f} MiB, {limit / MiB:.0f} MiB allowed: {growth / MiB:.0f} MiB")
    assert n_rows == store.n_rows
    assert growth <= limit


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["full", 2])
def test_a_store_of_two_gigabytes_in_an_eighth_of_that(tmp_path, passes):
    store = sf.ingest(wide(4_000_000), tmp_path / "store")
    growth, n_rows = grown(store.path, tmp_path / "shuffled", memory_limit="256MB", passes=passes)
    print(f"\n{store.layout.nbytes / 1e9:.2f} GB, limit 256 MB, passes={passes}: growth {growth / 1e6:.0f} MB")
    assert n_rows == store.n_rows
    assert growth <= 256e6
