"""What a shuffle costs, and what it does for training on rows that are stored label by label.

python tests/benchmarks/bench_shuffle.py [--rows 2500000] [--memory-limit 256MB] [--scratch FOLDER]

The first table: each way to write a store of random numbers (100 columns, float32) again, in a child process of its
own, so that CPU seconds and the growth of resident memory after imports are its own. The second one: rows sorted by
label, before and after shuffles through a window of 8 of 100 chunks; the intraclass correlation of the labels within
chunks, and the accuracy of an SGDClassifier after one epoch, streamed with a window of 8 chunks (mean of ten seeds).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import streamfit as sf
from streamfit.plan.budget import FIXED_NBYTES
from streamfit.run.shuffle_rows import block_nbytes, held_row_nbytes

CHILD = """
import json, resource, sys, time
import numpy as np
import streamfit as sf
from streamfit.reporting.memory import PeakMemory, resident_nbytes

source, target, way, limit = sys.argv[1:]
small = sf.ingest(np.zeros((9, 2)), target + "-small")  # imports
small.shuffle(target + "-small-full")
store = sf.open_store(source)

def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

cpu, began = cpu_seconds(), time.perf_counter()
with PeakMemory(resident_nbytes()) as peak:
    if way == "copy":
        sf.ingest(store, target, memory_limit=limit)
    else:
        store.shuffle(target, passes=way if way == "full" else int(way), memory_limit=limit)
found = {"wall": time.perf_counter() - began, "cpu": cpu_seconds() - cpu, "growth": peak.growth_nbytes}
print(json.dumps(found))
"""

WAYS = {"copy": "plain copy (ingest)", "full": 'passes="full"', "1": "passes=1", "2": "passes=2"}
WINDOW = 8


def random_batches(n_rows, rows=50_000):
    for number, start in enumerate(range(0, n_rows, rows)):
        rng = np.random.default_rng([7, number])
        X = rng.standard_normal((min(rows, n_rows - start), 100), dtype=np.float32)
        yield X, (X[:, 0] > 1).astype(np.int8)


def costs(folder, n_rows, limit):
    store = sf.ingest(random_batches(n_rows), folder / "source")
    gigabytes = store.layout.nbytes / 1e9
    print(f"\n{gigabytes:.2f} GB, memory_limit {limit}\n")
    print(f"{'':22}{'CPU s/GB':>10}{'wall s/GB':>11}{'peak MB':>9}")
    for way, name in WAYS.items():
        target = folder / f"target-{way}"
        command = [sys.executable, "-c", CHILD, store.path, str(target), way, limit]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        cpu, wall = found["cpu"] / gigabytes, found["wall"] / gigabytes
        print(f"{name:22}{cpu:10.2f}{wall:11.2f}{found['growth'] / 1e6:9.0f}", flush=True)
        sf.ingest(np.zeros((1, 1)), target, if_exists="overwrite")  # give the disk back


def correlation_within_chunks(store):
    """Intraclass correlation of the labels, by the analysis of variance over their indicators."""
    y, size = store.y.compute(), store.layout.chunk_rows
    chunks = (y[:, None] == store.classes).reshape(-1, size, len(store.classes))
    means = chunks.mean(axis=1)
    between = size * ((means - means.mean(axis=0)) ** 2).sum() / (len(means) - 1)
    within = ((chunks - means[:, None]) ** 2).sum() / (len(means) * (size - 1))
    return (between - within) / (between + (size - 1) * within)


def accuracy(store, test):
    from sklearn.linear_model import SGDClassifier

    X, y = test
    found = []
    for seed in range(10):
        trainer = sf.StreamTrainer(
            SGDClassifier(loss="log_loss"),
            batch_size=500,
            epochs=1,
            random_state=seed,
            stream=sf.StreamOptions(window=WINDOW),
        )
        found.append(np.mean(trainer.fit(store).predict(X) == y))
    return np.mean(found)


def sorted_rows(folder, n_chunks=100, chunk_rows=1_000, n_classes=10):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(n_classes, 20)) * 0.6
    y = np.repeat(np.arange(n_classes), n_chunks * chunk_rows // n_classes)
    X = centres[y] + rng.normal(size=(len(y), 20))
    labels = rng.integers(0, n_classes, 20_000)
    test = (centres[labels] + rng.normal(size=(20_000, 20))).astype("f4"), labels
    return sf.ingest(X.astype("f4"), folder / "sorted", y=y, chunk_rows=chunk_rows), test


def training(folder):
    store, test = sorted_rows(folder)
    held = WINDOW * store.layout.chunk_rows * held_row_nbytes(store.reader)
    limit = FIXED_NBYTES + block_nbytes(store.reader) + 5 * store.layout.chunk_nbytes + held
    print(f"\n{store.n_rows} rows sorted by label, {store.layout.n_chunks} chunks, window of {WINDOW}\n")
    print(f"{'':22}{'correlation':>12}{'accuracy':>10}")
    for name, passes in [("as stored", None), ("passes=1", 1), ("passes=2", 2), ('passes="full"', "full")]:
        shuffled = store
        if passes is not None:
            shuffled = store.shuffle(folder / f"sorted-{passes}", passes=passes, memory_limit=limit)
        print(f"{name:22}{correlation_within_chunks(shuffled):12.3f}{accuracy(shuffled, test):10.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_500_000)
    parser.add_argument("--memory-limit", default="256MB")
    parser.add_argument("--scratch", help="Where the stores are written.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        training(Path(folder))
        costs(Path(folder), options.rows, options.memory_limit)


if __name__ == "__main__":
    main()
