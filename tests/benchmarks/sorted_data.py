"""What shuffling does for training on rows that are stored label by label, and how well that is projected.

python tests/benchmarks/sorted_data.py [--chunks 100] [--seeds 10] [--scratch FOLDER]

Rows of ten classes, sorted by class, in chunks of 1,000. Each line is a way to train an SGDClassifier for one epoch in
batches of 500. The intraclass correlation of the labels within chunks (rho), the drift h_D (variance of the means of
windows), and the variance of the means of batches are multiples of what a full shuffle gives: first as projected before
the rows were written anew, then as measured, rho over all chunks and the others over 50 epochs of plans. In the order
of the rows batches are consecutive rows, and neighbouring chunks are alike as well: the projection is then the least.
It is made for full windows: batches of a short last window of an epoch vary more. The accuracy is that on new rows,
mean of ten seeds.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier

import streamfit as sf
from streamfit.plan.budget import FIXED_NBYTES
from streamfit.plan.cluster_sampling import ClusteredRows
from streamfit.plan.epoch import EpochPlan
from streamfit.run.shuffle_rows import block_nbytes, held_row_nbytes

CHUNK_ROWS, N_CLASSES, N_FEATURES = 1_000, 10, 20
BATCH_SIZE, WINDOW, N_EPOCHS = 500, 8, 50


def sorted_rows(folder, n_chunks):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(N_CLASSES, N_FEATURES)) * 0.6
    y = np.arange(n_chunks * CHUNK_ROWS) * N_CLASSES // (n_chunks * CHUNK_ROWS)
    X = centres[y] + rng.normal(size=(len(y), N_FEATURES))
    labels = rng.integers(0, N_CLASSES, 20_000)
    test = (centres[labels] + rng.normal(size=(20_000, N_FEATURES))).astype("f4"), labels
    return sf.ingest(X.astype("f4"), folder / "sorted", y=y, chunk_rows=CHUNK_ROWS), test


def indicators(store):
    return (store.y.compute()[:, None] == store.classes).astype(float)


def clustered_rows(store):
    """Rows with the correlation that is measured over all chunks."""
    chunks = indicators(store).reshape(store.layout.n_chunks, CHUNK_ROWS, N_CLASSES)
    means = chunks.mean(axis=1)
    between = CHUNK_ROWS * means.var(axis=0, ddof=1).sum()
    within = ((chunks - means[:, None]) ** 2).sum() / (len(chunks) * (CHUNK_ROWS - 1))
    rho = (between - within) / (between + (CHUNK_ROWS - 1) * within)
    return ClusteredRows(len(chunks), CHUNK_ROWS, rho)


def measured_variances(store, window, shuffle):
    """Variance of the means of windows and of batches, as multiples of those of a full shuffle."""
    values = indicators(store)
    n_rows, mean, variance = len(values), values.mean(axis=0), values.var(axis=0, ddof=1).sum()
    plan = EpochPlan(store.layout, BATCH_SIZE, seed=0, epoch=0, shuffle=shuffle, window_chunks=window)
    of_windows, of_batches = [], []
    for epoch in range(N_EPOCHS if shuffle == "window" else 1):
        plan = replace(plan, epoch=epoch)
        orders = [plan.window_rows(w, plan.window_permutation(w)) for w in range(plan.n_windows)]
        full = [values[rows].mean(axis=0) for rows in orders if len(rows) == window * CHUNK_ROWS]
        of_windows.append(((np.array(full) - mean) ** 2).sum(axis=1).mean())
        batches = values[np.concatenate(orders)].reshape(-1, BATCH_SIZE, N_CLASSES).mean(axis=1)
        of_batches.append(((batches - mean) ** 2).sum(axis=1).mean())
    of_full = [(1 / held - 1 / n_rows) * variance for held in (window * CHUNK_ROWS, BATCH_SIZE)]
    # One window that holds everything does not vary.
    return [
        np.mean(seen) / full if full else np.nan for seen, full in zip((of_windows, of_batches), of_full, strict=True)
    ]


def accuracy(store, test, *, window, shuffle, n_seeds):
    X, y = test
    found = []
    for seed in range(n_seeds):
        trainer = sf.StreamTrainer(
            SGDClassifier(loss="log_loss"),
            batch_size=BATCH_SIZE,
            shuffle=shuffle,
            random_state=seed,
            stream=sf.StreamOptions(window=window),
        )
        found.append(np.mean(trainer.fit(store).predict(X) == y))
    return np.mean(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100, help="At least 33.")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scratch", help="Where the stores are written.")
    options = parser.parse_args()
    warnings.simplefilter("ignore", sf.ShuffleWarning)  # what it warns of is what is shown
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = Path(name)
        store, test = sorted_rows(folder, options.chunks)
        held = WINDOW * CHUNK_ROWS * held_row_nbytes(store.reader)
        limit = FIXED_NBYTES + block_nbytes(store.reader) + 5 * store.layout.chunk_nbytes + held
        as_stored = clustered_rows(store)
        random = ClusteredRows(options.chunks, CHUNK_ROWS, 0.0)
        once = as_stored.rewritten(WINDOW)
        ways = [
            ("order of the rows", None, "none", 1, as_stored),
            *((f"window of {n}", None, "window", n, as_stored) for n in (1, WINDOW, 32)),
            (f"passes=1, window of {WINDOW}", 1, "window", WINDOW, once),
            (f"passes=2, window of {WINDOW}", 2, "window", WINDOW, once.rewritten(WINDOW)),
            (f'passes="full", window of {WINDOW}', "full", "window", WINDOW, random),
            ("full shuffle in memory", None, "window", options.chunks, as_stored),
        ]
        print(f"\n{store.n_rows} rows sorted by label, {options.chunks} chunks, passes with a window of {WINDOW}\n")
        print(f"{'':28}{'rho':>14}{'drift':>16}{'batch variance':>18}{'accuracy':>10}")
        print(f"{'':28}{'proj.   seen':>14}{'proj.   seen':>16}{'proj.   seen':>18}")
        stores = {None: store}
        for way, passes, shuffle, window, projected in ways:
            if passes not in stores:
                stores[passes] = store.shuffle(folder / f"passes-{passes}", passes=passes, memory_limit=limit)
            rows = stores[passes]
            drift, batch = measured_variances(rows, window, shuffle)
            drift_projected = projected.drift if window < options.chunks else np.nan
            ratio = projected.variance_ratio(window, batch_size=BATCH_SIZE)
            right = accuracy(rows, test, window=window, shuffle=shuffle, n_seeds=options.seeds)
            print(
                f"{way:28}{projected.rho:7.3f}{clustered_rows(rows).rho:7.3f}{drift_projected:8.1f}{drift:8.1f}"
                f"{ratio:9.1f}{batch:9.1f}{right:10.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
