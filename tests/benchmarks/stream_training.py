"""The second part of ``stream.py``: an SGDClassifier over all rows, beside the loop that one would write."""

from __future__ import annotations

from functools import partial

import numpy as np
import zarr
from sklearn.linear_model import SGDClassifier
from stream_data import Sizes, make_rows
from stream_table import Way, at_most, measure, pairs, print_seconds, print_verdicts

import streamfit as sf

LOOP = "plain loop over Zarr"
IN_ORDER = "streamfit, shuffle=False, batch = chunk, verified"
UNVERIFIED = "streamfit, shuffle=False, batch = chunk, unverified"
WINDOWED = "streamfit, windowed, verified"


def training_sizes(*, quick):
    return Sizes(40_000, 8, 1_000, labels=True, zstd=False) if quick else Sizes(2_000_000, 50, 50_000, True, False)


def classifier():
    return SGDClassifier(loss="log_loss", random_state=0)


def loop(X, y, size, n_rows):
    """Train on chunk after chunk of arrays, in memory or of Zarr."""
    model = classifier()
    for start in range(0, n_rows, size):
        model.partial_fit(X[start : start + size], y[start : start + size], classes=np.array([0, 1]))
    return model


def streamed(store, *, shuffle, verify):
    options = sf.StreamOptions(verify=verify)
    trainer = sf.StreamTrainer(
        classifier(), batch_size=store.layout.chunk_rows, shuffle=shuffle, stream=options, random_state=0
    )
    return trainer.fit(store).estimator_


def run(folder, *, quick, n_repetitions):
    sizes = training_sizes(quick=quick)
    rows = make_rows(folder / "training", sizes)
    store, plain = sf.open_store(rows.store()), zarr.open_group(rows.plain(), mode="r")
    by_hand = partial(loop, size=sizes.chunk_rows, n_rows=sizes.n_rows)
    in_memory = np.array(rows.mapped()), rows.labels()
    ways = [
        Way("in memory", partial(by_hand, *in_memory)),
        Way(LOOP, partial(by_hand, plain["X"], plain["y"])),
        Way(IN_ORDER, partial(streamed, store, shuffle=False, verify="always")),
        Way(UNVERIFIED, partial(streamed, store, shuffle=False, verify="never")),
        Way(WINDOWED, partial(streamed, store, shuffle="window", verify="always")),
    ]
    first, *others = (way.run().coef_ for way in ways[:-1])
    if not all(np.array_equal(first, other) for other in others):
        raise SystemExit("the models of the loop and of the streams in its order differ")
    print(f"\nSGDClassifier(loss='log_loss'), one epoch: {sizes.n_rows:,} x {sizes.n_features} float32, ", end="")
    print(f"chunks of {sizes.chunk_rows:,}; medians of {n_repetitions} turns\n")
    seconds = measure(ways, n_repetitions)
    print_seconds(seconds, sizes.n_rows)
    asked = [(IN_ORDER, 0.85), (UNVERIFIED, None), (WINDOWED, 1.0)]
    print_verdicts(
        [
            at_most(f"{name} / {LOOP}: wall", pairs(seconds[name].wall, seconds[LOOP].wall), limit)
            for name, limit in asked
        ],
        judged=not quick,
    )
