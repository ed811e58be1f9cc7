"""The third part of ``stream.py``: how much of the read is hidden behind steps that compute."""

from __future__ import annotations

import statistics
import time
from functools import partial

import numpy as np
from stream_data import make_rows
from stream_epochs import epoch_sizes
from stream_steps import BusyStep, rounds_for
from stream_table import Way, at_most, measure, print_seconds, print_verdicts

import streamfit as sf

EPOCHS = 3
WINDOW = 8
SHARES = (0.5, 1.0, 2.0)
NOT_HIDDEN = "fit, 1 x, prefetch=0"
READ = "read alone, prefetch=0"


def fit(store, rounds, prefetch):
    options = sf.StreamOptions(window=WINDOW, prefetch=prefetch)
    trainer = sf.StreamTrainer(
        BusyStep(rounds), batch_size=store.layout.chunk_rows, epochs=EPOCHS, stream=options, random_state=0
    )
    trainer.fit(store)


def steps_alone(n_steps, rounds):
    X, step = np.zeros((1, 1)), BusyStep(rounds)
    for _ in range(n_steps):
        step.partial_fit(X)


def run(folder, *, quick, n_repetitions):
    rows = make_rows(folder / "epochs", epoch_sizes(quick=quick))
    for codec in ("raw", "zstd"):
        _run(sf.open_store(rows.store(codec)), codec, quick=quick, n_repetitions=n_repetitions)


def _run(store, codec, *, quick, n_repetitions):
    n_steps = EPOCHS * store.layout.n_chunks
    tries = []
    for _ in range(4):
        began = time.perf_counter()
        fit(store, 0, prefetch=0)
        tries.append(time.perf_counter() - began)
    ways = [Way(READ, partial(fit, store, 0, prefetch=0)), Way("read alone", partial(fit, store, 0, prefetch=1))]
    for share in SHARES:
        rounds = rounds_for(share * statistics.median(tries) / n_steps)
        ways.append(Way(f"steps alone, {share:g} x the read", partial(steps_alone, n_steps, rounds)))
        ways.append(Way(f"fit, {share:g} x", partial(fit, store, rounds, prefetch=1)))
        if share == 1:  # where hiding the read gains most
            ways.append(Way(NOT_HIDDEN, partial(fit, store, rounds, prefetch=0)))
    print(
        f"\nSteps that compute, {codec}: {store.layout.n_chunks} chunks, {store.layout.nbytes / 1e6:.0f} MB, ", end=""
    )
    print(f"{EPOCHS} epochs, windows of {WINDOW} chunks, verified; medians of {n_repetitions} turns\n")
    seconds = measure(ways, n_repetitions)
    print_seconds(seconds, EPOCHS * store.n_rows)
    print_verdicts(list(_verdicts(seconds)), judged=not quick)


def _verdicts(seconds):
    read = seconds[READ].wall
    for share in SHARES:
        steps = seconds[f"steps alone, {share:g} x the read"].wall
        for name, limit in ((f"fit, {share:g} x", 1.2), *([(NOT_HIDDEN, None)] if share == 1 else [])):
            turns = zip(seconds[name].wall, read, steps, strict=True)
            seen = statistics.median(wall / max(alone) for wall, *alone in turns)
            yield at_most(f"{name} / max(read, steps): wall", seen, limit)
