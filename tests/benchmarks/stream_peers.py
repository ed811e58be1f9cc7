"""A shuffled epoch by others than streamfit: each function gives ways at their best honest settings.

Each way is an iterator of batches that own their memory, as streamfit's do.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import starmap

import numpy as np
import zarr

BATCH = 4_096
WINDOW = 8
"""Chunks that are shuffled together, where a peer has windows."""


def _shuffled_windows(sizes, seed):
    """Row ranges of the chunks of each window, in a drawn order."""
    bounds = [
        (start, min(start + sizes.chunk_rows, sizes.n_rows)) for start in range(0, sizes.n_rows, sizes.chunk_rows)
    ]
    order = np.random.default_rng(seed).permutation(len(bounds)).tolist()
    for start in range(0, len(order), WINDOW):
        yield [bounds[index] for index in sorted(order[start : start + WINDOW])]


def _window_batches(sizes, read, seed=0):
    """Read windows into one buffer, and cut shuffled batches from it; a batch may be short at the end of a window."""
    rng = np.random.default_rng(seed)
    buffer = np.empty((WINDOW * sizes.chunk_rows, sizes.n_features), dtype=np.float32)
    for window in _shuffled_windows(sizes, seed):
        filled = 0
        for start, stop in window:
            read(start, stop, buffer[filled : filled + stop - start])
            filled += stop - start
        order = rng.permutation(filled)
        for first in range(0, filled, BATCH):
            yield np.take(buffer, order[first : first + BATCH], axis=0)


# -- by hand -----------------------------------------------------------------------------------------


def pread_shuffled(rows):
    """Read a flat file into one buffer of 8 chunks, permuted: the loop that one would write by hand."""
    row_nbytes = rows.sizes.n_features * 4
    file = os.open(rows.flat, os.O_RDONLY)
    try:
        yield from _window_batches(
            rows.sizes, lambda start, _, out: _read_whole(file, start * row_nbytes, memoryview(out).cast("B"))
        )
    finally:
        os.close(file)


def _read_whole(file, offset, target):
    while target:
        n_read = os.preadv(file, [target], offset)
        offset, target = offset + n_read, target[n_read:]


def readinto_in_order(rows):
    """Read a flat file in order into batches: no shuffle, nothing but the read."""
    with rows.flat.open("rb", buffering=0) as file:
        for start in range(0, rows.sizes.n_rows, BATCH):
            batch = np.empty((min(BATCH, rows.sizes.n_rows - start), rows.sizes.n_features), dtype=np.float32)
            target = memoryview(batch).cast("B")
            while target:
                target = target[file.readinto(target) :]
            yield batch


def memmap_in_order(rows):
    mapped = rows.mapped()
    return (np.array(mapped[start : start + BATCH]) for start in range(0, len(mapped), BATCH))


def memmap_random(rows):
    """Any row next: a full shuffle, which a page cache that holds all rows allows."""
    mapped = rows.mapped()
    order = np.random.default_rng(0).permutation(len(mapped))
    return (mapped[order[start : start + BATCH]] for start in range(0, len(mapped), BATCH))


def memory_random(X):
    order = np.random.default_rng(0).permutation(len(X))
    return (X[order[start : start + BATCH]] for start in range(0, len(X), BATCH))


# -- zarr --------------------------------------------------------------------------------------------


def open_plain(rows, codec="raw", *, zarrs=False):
    """Open the array by Zarr's own pipeline or by that of the zarrs package."""
    settings = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"} if zarrs else {}
    with zarr.config.set(settings):
        return zarr.open_group(rows.plain(codec), mode="r")["X"]


def zarr_slices(rows, array):
    """Slice by slice, shuffled as by `pread_shuffled`: the usual loop."""

    def read(start, stop, out):
        out[:] = array[start:stop]

    return _window_batches(rows.sizes, read)


def zarr_bulk(rows, array):
    """Runs of chunks in order in one call into one buffer, the rows permuted: the chunks are not."""
    sizes, rng = rows.sizes, np.random.default_rng(0)
    window_rows = WINDOW * sizes.chunk_rows
    buffer = np.empty((window_rows, sizes.n_features), dtype=np.float32)
    for start in range(0, sizes.n_rows, window_rows):
        stop = min(start + window_rows, sizes.n_rows)
        target = zarr.core.buffer.default_buffer_prototype().nd_buffer.from_numpy_array(buffer[: stop - start])
        array.get_basic_selection(slice(start, stop), out=target)
        order = rng.permutation(stop - start)
        for first in range(0, stop - start, BATCH):
            yield np.take(buffer, order[first : first + BATCH], axis=0)


# -- annbatch ----------------------------------------------------------------------------------------


def annbatch_epoch(rows, array):
    from annbatch import Loader

    loader = Loader(
        chunk_size=rows.sizes.chunk_rows,
        preload_nchunks=WINDOW,
        batch_size=BATCH,
        shuffle=True,
        rng=np.random.default_rng(0),
    )
    return (batch["X"] for batch in loader.add_dataset(array))


# -- torch -------------------------------------------------------------------------------------------


def torch_threads(n_threads, epoch):
    """Run an epoch with so many threads in operations of torch: two take less wall and more CPU seconds than one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield from epoch()
    finally:
        torch.set_num_threads(before)


def torch_usual(X, n_workers=0):
    """Give a loader over a TensorDataset as tutorials make it: row by row, then stacked."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    workers = {"persistent_workers": True, "multiprocessing_context": "spawn"} if n_workers else {}
    dataset = TensorDataset(torch.from_numpy(X))
    return DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=n_workers, **workers)


def torch_batches(X):
    """Give a loader that takes whole batches from a TensorDataset by their row numbers."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    dataset = TensorDataset(torch.from_numpy(X))
    sampler = BatchSampler(RandomSampler(dataset), batch_size=BATCH, drop_last=False)
    return DataLoader(dataset, sampler=sampler, batch_size=None)


def torch_split(X):
    """Index by tensors of row numbers, without a loader: the least that torch takes for a full shuffle."""
    import torch

    values = torch.from_numpy(X)
    return (values[index] for index in torch.randperm(len(values)).split(BATCH))


class RowsOfZarr:
    """A map dataset as it is often written: a row is a slice of a Zarr array."""

    def __init__(self, array, n_rows):
        self._array = array
        self._order = np.random.default_rng(0).permutation(array.shape[0])[:n_rows]

    def __len__(self):
        return len(self._order)

    def __getitem__(self, index):
        return self._array[int(self._order[index])]


def torch_rows_of_zarr(array, n_rows):
    from torch.utils.data import DataLoader

    return DataLoader(RowsOfZarr(array, n_rows), batch_size=min(BATCH, n_rows), shuffle=True)


def tensors(loader):
    """Take the matrix out of what a loader over a TensorDataset gives."""
    return starmap(lambda X: X, loader)


def missing(*packages):
    return [package for package in packages if find_spec(package) is None]
