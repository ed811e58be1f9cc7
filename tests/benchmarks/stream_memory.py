"""The fourth part of ``stream.py``: what slow steps make grow, each way in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial

from stream_data import make_rows
from stream_peers import missing
from stream_table import Row, print_skipped, print_verdicts
from stream_training import training_sizes

import streamfit as sf
from streamfit.plan.budget import stream_budget

DASK_ML = "dask-ml Incremental, threads"
WINDOWS = {"streamfit, windowed, 4 chunks": ("window", 4), "streamfit, in order, 1 chunk": ("none", 1)}


def streamed(path, seconds, *, options):
    from stream_steps import SlowStep

    (shuffle, window), store = options, sf.open_store(path)
    sf.StreamTrainer(
        SlowStep(seconds),
        batch_size=store.layout.chunk_rows,
        shuffle=shuffle,
        stream=sf.StreamOptions(window=window),
        random_state=0,
    ).fit(store)


def folded(path, seconds):
    """Train by dask-ml as its documentation does."""
    import dask
    import dask.array as da
    from dask_ml.wrappers import Incremental
    from stream_steps import SlowStep

    X, y = (da.from_zarr(str(path), component=name) for name in ("X", "y"))
    with dask.config.set(scheduler="threads"):
        Incremental(SlowStep(seconds), scoring="accuracy", shuffle_blocks=False).fit(X, y, classes=[0, 1])


def child(name, small, large, seconds):
    """Print the growth of resident memory over that after imports and a run on few rows."""
    from streamfit.reporting.memory import PeakMemory, resident_nbytes

    train = folded if name == DASK_ML else partial(streamed, options=WINDOWS[name])
    train(small, 0.0)
    with PeakMemory(resident_nbytes()) as peak:
        began = time.perf_counter()
        train(large, float(seconds))
        wall = time.perf_counter() - began
    print(json.dumps({"growth": peak.growth_nbytes, "wall": wall}))


def allowed_nbytes(store, window):
    """Two windows with their row orders, and two batches of a chunk: in the estimator's hands, and the next one.

    What is decoded at a time and the fixed part, which the projection has besides, are not allowed for.
    """
    budget = stream_budget(
        store.layout,
        batch_size=store.layout.chunk_rows,
        window_chunks=window,
        prefetch=1,
        label_nbytes=store.label_nbytes,
        n_epochs=1,
        sampling=None,
    )
    counted = [nbytes for name, nbytes in budget.parts if name not in {"decoding", "fixed", "chunk order"}]
    return sum(counted)


def run(folder, *, quick, n_repetitions):
    """Measure once, whatever is asked for: what is resident differs little from run to run."""
    sizes, seconds = training_sizes(quick=quick), 0.02 if quick else 0.3
    small, large = make_rows(folder / "warm-up", training_sizes(quick=True)), make_rows(folder / "training", sizes)
    chunk_nbytes = sizes.chunk_rows * sizes.n_features * 4
    print(f"\nGrowth of resident memory with steps of {seconds:g} s: {large.nbytes / 1e6:.0f} MB in chunks of ", end="")
    print(f"{chunk_nbytes / 1e6:.1f} MB\n")
    width = max(map(len, (DASK_ML, *WINDOWS)))
    print(f"{'':{width}}{'growth MB':>11}{'of the data':>13}{'wall s':>9}")
    verdicts = []
    for name in (DASK_ML, *WINDOWS):
        if name == DASK_ML and missing("dask_ml"):
            print_skipped({DASK_ML: "dask-ml"})
            continue
        paths = [rows.plain() if name == DASK_ML else rows.store() for rows in (small, large)]
        command = [sys.executable, __file__, name, *map(str, paths), str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        growth, share = found["growth"] / 1e6, found["growth"] / large.nbytes
        print(f"{name:{width}}{growth:11.0f}{share:13.2f}{found['wall']:9.1f}", flush=True)
        if name in WINDOWS:
            most = allowed_nbytes(sf.open_store(large.store()), WINDOWS[name][1]) / 1e6
            verdicts.append(Row(f"{name}: growth", f"<= {most:.0f} MB", f"{growth:.0f} MB", growth <= most))
    print_verdicts(verdicts, judged=not quick)


if __name__ == "__main__":
    child(*sys.argv[1:])
