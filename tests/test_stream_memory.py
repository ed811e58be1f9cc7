"""The memory of a stream: below its limit, whatever the size of the store."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import psutil
import pytest

import streamfit as sf

MiB = 2**20


def peak_growth(path, memory_limit, prefetch, connection):
    """Stream two epochs in a fresh process; tell how far its resident memory rose above the start."""
    store = sf.open_store(path)
    plan = store.plan(batch_size=4_096, memory_limit=memory_limit)
    process, ended, peak = psutil.Process(), threading.Event(), [0]
    next(store.stream(plan, prefetch=0))  # imports
    start = process.memory_info().rss

    def watch():
        while not ended.wait(0.002):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    n_rows = 0
    for _ in range(2):
        for batch in store.stream(plan, memory_limit=memory_limit, prefetch=prefetch):
            n_rows += batch.n_rows
    ended.set()
    watcher.join()
    connection.send((peak[0] - start, n_rows, plan.window_chunks))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400_000, 128), dtype=np.float32)  # 195 MiB in 100 chunks
    return sf.ingest(X, tmp_path_factory.mktemp("memory") / "store", y=np.arange(400_000) % 2, chunk_rows=4_000)


@pytest.mark.parametrize("limit", [pytest.param(80 * MiB, id="tight"), pytest.param(130 * MiB, id="roomy")])
def test_resident_memory_stays_below_the_limit(store, limit):
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=peak_growth, args=(store.path, limit, 1, sender))
    process.start()
    sender.close()  # so that a child that dies ends the wait
    growth, n_rows, window = receiver.recv()
    process.join()
    assert n_rows == 2 * store.n_rows
    assert growth <= limit
    # The limit is used, not only kept: two windows are really there.
    assert growth >= 1.5 * window * store.layout.chunk_nbytes
