"""Passes that rewrite a store through a window: less than a permutation of all rows, and no scratch files of its own.

A pass streams the store as an epoch does and writes the rows in that order. Rows of one chunk are spread over as many
new chunks as a window has, so that what they have in common is thinned by about that number.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from streamfit.errors import StoreError, StoreNotFoundError
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.shuffle_order import passes_seed
from streamfit.run.shuffle_journal import scratch_of
from streamfit.run.shuffle_sparse import row_buffer
from streamfit.store.manifest import load_manifest
from streamfit.store.reader import Reader, StoreRef, open_reader
from streamfit.store.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streamfit.store.destination import IfExists
    from streamfit.store.format import Compression
    from streamfit.store.manifest import Manifest

__all__ = ["create_like", "pass_folder", "rewrite"]


def create_like(
    path: Path, reader: Reader, *, source: Mapping[str, Any], compression: Compression, if_exists: IfExists
) -> StoreWriter:
    """Begin a store for the rows of another one in another order, or go on with it."""
    return StoreWriter.create(
        path,
        n_features=reader.layout.n_features,
        dtype=reader.dtype,
        chunk_rows=reader.layout.chunk_rows,
        feature_names=reader.feature_names,
        categories=reader.categories,
        nonfinite=reader.manifest.nonfinite,
        source=source,
        if_exists=if_exists,
        continues=True,
        n_rows_expected=reader.layout.n_rows,
        sparse=reader.is_sparse,
        compression=compression,
    )


def pass_folder(folder: Path, number: int) -> Path:
    """Give the store between a pass, counted from 1, and the next one, on the way to the store in `folder`."""
    return scratch_of(folder) / f"pass-{number}"


def rewrite(
    reader: Reader,
    writer: StoreWriter,
    folder: Path,
    *,
    seed: int,
    source: Mapping[str, Any],
    n_passes: int,
    window_chunks: int,
) -> None:
    """Give a writer the rows that it has not yet, after some passes.

    Parameters
    ----------
    reader : Reader
        The store that is shuffled.
    writer : StoreWriter
        Of the store that becomes; it holds the lock of `folder`.
    folder : Path
        Of the store that becomes.
    seed : int
        Of the order.
    source : mapping
        What defines the new store: passes on the way to another one are not used.
    n_passes : int
        Passes, at least 1.
    window_chunks : int
        Chunks of a window.

    Raises
    ------
    StoreCorruptError
        A store is not what was written.
    StoreWriteError
        The disk is full, or the folder cannot be written any more.
    """
    found = {number: _found(pass_folder(folder, number), source, number) for number in range(1, n_passes)}
    n_done = max((number for number, stored in found.items() if stored is not None and stored.complete), default=0)
    for number in range(n_done + 1, n_passes + 1):
        present = reader if number == 1 else _open(pass_folder(folder, number - 1))
        plan = EpochPlan(
            present.layout,
            batch_size=1,
            seed=passes_seed(seed),
            epoch=number,
            shuffle="window",
            window_chunks=window_chunks,
        )
        if number == n_passes:
            _rewrite_once(present, plan, writer)
            return
        between = create_like(
            pass_folder(folder, number),
            reader,
            source={**source, "pass": number},
            compression="auto",
            if_exists="resume",
        )
        with between:
            _rewrite_once(present, plan, between)
        if number > 1:
            shutil.rmtree(pass_folder(folder, number - 1), ignore_errors=True)


def _rewrite_once(reader: Reader, plan: EpochPlan, writer: StoreWriter) -> None:
    first = writer.next_row
    buffer = row_buffer(reader, min(plan.window_chunks * plan.layout.chunk_rows, plan.layout.n_rows))
    for window in range(plan.n_windows):
        start, stop = plan.window_bounds(window)
        if stop <= first:
            continue
        buffer.clear()
        for index in plan.window_chunk_ids(window).tolist():
            buffer.read_chunk(reader, index)
        order = plan.window_permutation(window)[max(0, first - start) :]
        buffer.give(order, writer, labels=reader.manifest.labels)


def _found(folder: Path, source: Mapping[str, Any], number: int) -> Manifest | None:
    """Find how far a pass came, and remove what is left of one on the way to another store."""
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except StoreNotFoundError:
        return None
    except StoreError:  # damaged: it is made again
        stored = None
    if stored is not None and stored.source == {**source, "pass": number}:
        return stored
    shutil.rmtree(folder)
    return None


def _open(folder: Path) -> Reader:
    return open_reader(StoreRef(str(folder), load_manifest(folder).digest))
