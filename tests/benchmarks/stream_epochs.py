"""The first part of ``stream.py``: one shuffled epoch, by streamfit and by others."""

from __future__ import annotations

import inspect
import statistics
from functools import partial

import numpy as np
import stream_peers as peers
from stream_data import Sizes, make_rows
from stream_table import Way, at_least, at_most, measure, pairs, print_seconds, print_skipped, print_verdicts

import streamfit as sf
from streamfit.run.threads import available_cores

DEFAULT_VERIFY = inspect.signature(sf.open_store).parameters["verify"].default
OURS = {mode: f"streamfit {name}" for mode, name in {"never": "unverified", "always": "verified"}.items()}
OURS[DEFAULT_VERIFY] += " (default)"
BY_HAND = "pread, 8 chunks permuted"
IN_BATCHES = "torch, BatchSampler, 1 thread, in memory"
IN_BATCHES_ALL_CORES = "torch, BatchSampler, all cores, in memory"
USUAL = "torch, usual form, in memory"
WORKERS_SHARE, ZARR_ROWS = 8, 64


def epoch_sizes(*, quick):
    n_rows, n_features, chunk_rows = (20_000, 8, 1_024) if quick else (2_000_000, 64, 16_384)
    return Sizes(n_rows, n_features, chunk_rows, labels=False, zstd=True)


def streamfit_epoch(store, verify, window=peers.WINDOW):
    plan = store.plan(batch_size=peers.BATCH, window=window)
    return (batch.X for batch in store.stream(plan, verify=verify))


def consumed(epoch, n_rows):
    """Take all batches of an epoch; one that lost rows would be quick."""
    found = sum(map(len, epoch()))
    if found != n_rows:
        raise SystemExit(f"{epoch} gave {found} of {n_rows} rows")


def _epochs_of_ours(rows):
    for codec in ("raw", "zstd"):
        store = sf.open_store(rows.store(codec))
        for verify, name in OURS.items():
            yield f"{name}, {codec}", partial(streamfit_epoch, store, verify)
    store = sf.open_store(rows.store())
    yield f"{OURS['always']}, raw, default window", partial(streamfit_epoch, store, "always", window=None)


def _epochs_by_hand(rows):
    yield BY_HAND, partial(peers.pread_shuffled, rows)
    yield "readinto, in order", partial(peers.readinto_in_order, rows)
    yield "memmap, in order", partial(peers.memmap_in_order, rows)
    yield "memmap, random rows", partial(peers.memmap_random, rows)


def _epochs_of_arrays(rows, skipped):
    """Plain Zarr and annbatch, by both pipelines and from both stores."""
    lost = set(peers.missing("annbatch", "zarrs"))
    skipped |= {f"by {package}": package for package in sorted(lost)}
    for codec in ("raw", "zstd"):
        for pipeline in ("zarr", "zarrs"):
            if pipeline in lost:
                continue
            array = peers.open_plain(rows, codec, zarrs=pipeline == "zarrs")
            if codec == "raw":
                yield f"{pipeline}, a slice a chunk, raw", partial(peers.zarr_slices, rows, array)
                yield f"{pipeline}, 8 chunks a call into out, raw", partial(peers.zarr_bulk, rows, array)
            if "annbatch" not in lost:
                yield f"annbatch by {pipeline}, {codec}", partial(peers.annbatch_epoch, rows, array)


def _torch_ways(rows, X, skipped):
    """Loaders over memory, and over rows of a Zarr array; two workers and single rows are measured in part."""
    n_rows = rows.sizes.n_rows
    yield Way("NumPy, random rows, in memory", partial(consumed, partial(peers.memory_random, X), n_rows))
    if peers.missing("torch"):
        skipped["loaders of torch"] = "torch"
        return
    batches, usual = peers.torch_batches(X), peers.torch_usual(X)
    for name, threads in ((IN_BATCHES, 1), (IN_BATCHES_ALL_CORES, available_cores())):
        epoch = partial(peers.torch_threads, threads, lambda: peers.tensors(batches))
        yield Way(name, partial(consumed, epoch, n_rows))
    epoch = partial(peers.torch_threads, 1, partial(peers.torch_split, X))
    yield Way("torch, randperm.split, 1 thread, in memory", partial(consumed, epoch, n_rows))
    yield Way(USUAL, partial(consumed, lambda: peers.tensors(usual), n_rows))
    share = -(-n_rows // WORKERS_SHARE)
    two = peers.torch_usual(X[:share], n_workers=2)
    name = f"torch, usual form, 2 workers (1/{WORKERS_SHARE} of the rows, extrapolated)"
    yield Way(name, partial(consumed, lambda: peers.tensors(two), share), n_rows / share)
    by_rows = peers.torch_rows_of_zarr(peers.open_plain(rows), ZARR_ROWS)
    name = f"torch, rows of a Zarr array ({ZARR_ROWS} rows, extrapolated)"
    yield Way(name, partial(consumed, lambda: by_rows, ZARR_ROWS), n_rows / ZARR_ROWS)


def _best(seconds, prefix, codec):
    """Of the ways of a peer, the one with the least CPU seconds."""
    ways = [name for name in seconds if name.startswith(prefix) and name.endswith(codec)]
    return min(ways, key=lambda name: statistics.median(seconds[name].cpu), default=None)


def _verdicts(seconds, n_rows):
    unverified, verified = (f"{OURS[mode]}, raw" for mode in ("never", "always"))
    for name, limit in ((unverified, 5.0), (f"{OURS['never']}, zstd", 2.5)):
        yield at_least(f"{name}: wall", n_rows / statistics.median(seconds[name].wall) / 1e6, limit, "M rows/s")
    asked = [
        (unverified, BY_HAND, 1.5),
        (verified, BY_HAND, 2.0),
        (unverified, _best(seconds, "annbatch", "raw"), 0.6),
        (verified, _best(seconds, "annbatch", "raw"), 0.75),
        (f"{OURS['never']}, zstd", _best(seconds, "annbatch", "zstd"), None),
        (f"{OURS['always']}, zstd", _best(seconds, "annbatch", "zstd"), None),
        (unverified, IN_BATCHES, 1.0),
        (verified, IN_BATCHES, 1.0),
        (unverified, USUAL, 1 / 15),
        (verified, USUAL, 1 / 15),
    ]
    for ours, theirs, limit in asked:
        if theirs in seconds:
            yield at_most(f"{ours} / {theirs}: CPU", pairs(seconds[ours].cpu, seconds[theirs].cpu), limit)


def run(folder, *, quick, n_repetitions):
    sizes = epoch_sizes(quick=quick)
    rows, n_rows = make_rows(folder / "epochs", sizes), sizes.n_rows
    X, skipped = np.fromfile(rows.flat, dtype=np.float32).reshape(n_rows, sizes.n_features), {}
    epochs = [*_epochs_of_ours(rows), *_epochs_by_hand(rows), *_epochs_of_arrays(rows, skipped)]
    ways = [Way(name, partial(consumed, epoch, n_rows)) for name, epoch in epochs]
    ways += _torch_ways(rows, X, skipped)
    print(f"\nShuffled epoch: {n_rows:,} x {sizes.n_features} float32, chunks of {sizes.chunk_rows:,}, ", end="")
    print(f"batches of {peers.BATCH:,},\nwindows of {peers.WINDOW} chunks; medians of {n_repetitions} turns; ", end="")
    print(f"verify={DEFAULT_VERIFY!r} is the default\n")
    seconds = measure(ways, n_repetitions)
    print_seconds(seconds, n_rows)
    print_skipped(skipped)
    print_verdicts(list(_verdicts(seconds, n_rows)), judged=not quick)
