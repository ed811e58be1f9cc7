"""A full permutation on disk: rows are scattered to buckets by their keys, and each bucket is sorted in memory."""

from __future__ import annotations

import dataclasses
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from dask.utils import format_bytes

from streamfit.errors import StoreCorruptError, StoreError, StoreWriteError
from streamfit.plan.shuffle_order import ShuffleOrder, order_of_keys
from streamfit.run.shuffle_buckets import BucketFiles
from streamfit.run.shuffle_journal import Journal, scratch_of
from streamfit.run.shuffle_sparse import row_buffer
from streamfit.store.manifest import load_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from streamfit.run.shuffle_rows import RowBuffer
    from streamfit.store.reader import Reader
    from streamfit.store.writer import StoreWriter

__all__ = ["shuffle_fully"]

_JOURNAL_SECONDS = 5.0
"""A shuffle that is killed scatters again about as much as it did in this time."""


def shuffle_fully(
    reader: Reader, writer: StoreWriter, folder: Path, *, seed: int, source: Mapping[str, Any], most_rows: int
) -> None:
    """Give a writer the rows that it has not yet, in the order of `streamfit.plan.shuffle_order.ShuffleOrder`.

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
        What defines the new store: scratch of another one is not used.
    most_rows : int
        Rows that memory holds at once, at least those of a chunk.

    Raises
    ------
    StoreCorruptError
        The store or a scratch file is not what was written.
    StoreWriteError
        The disk is full, or the folder cannot be written any more.
    """
    order = ShuffleOrder(reader.layout.n_rows, seed)
    buffer = row_buffer(reader, min(most_rows, order.n_rows))
    buckets = _Buckets(reader, order, folder, source)
    # What a call with a lower limit has scattered is not read again.
    if order.n_rows > most_rows or buckets.have_begun:
        buckets.begin(next_row=writer.next_row, most_rows=most_rows)
        buckets.scatter(buffer)
        buckets.collect(writer, buffer)
        return
    for index in range(reader.layout.n_chunks):
        buffer.read_chunk(reader, index)
    buffer.keys[:] = order.keys(0, order.n_rows)
    buffer.give(order_of_keys(buffer.keys)[writer.next_row :], writer, labels=reader.manifest.labels)


class _Buckets:
    """Rows that are on scratch for a while, by ranges of their keys."""

    def __init__(self, reader: Reader, order: ShuffleOrder, folder: Path, source: Mapping[str, Any]) -> None:
        self._reader = reader
        self._order = order
        self._folder = folder
        self._scratch = scratch_of(folder)
        self._files = BucketFiles(self._scratch)
        journal = Journal.load(self._scratch)
        self.have_begun = journal is not None and journal.source == source
        self._journal = journal if journal is not None and self.have_begun else Journal(source, 0, 0, ())
        self._bucket_rows = np.zeros(0, dtype=np.int64)

    def begin(self, *, next_row: int, most_rows: int) -> None:
        """Go on with what lies in the files, or begin anew where it cannot be used."""
        with self._writing():
            if self.have_begun:
                self._bucket_rows = self._order.bucket_rows(n_buckets=len(self._journal.sizes))
                first = _bucket_of_row(self._bucket_rows, next_row)
                usable = self._journal.first_bucket <= first and self._bucket_rows.max() <= most_rows
                if usable and self._files.cut(self._journal.sizes, first=first):
                    return
            if self._scratch.exists():
                shutil.rmtree(self._scratch)
            self._bucket_rows = self._order.buckets_within(most_rows)
            self._journal = dataclasses.replace(
                self._journal,
                n_rows=0,
                first_bucket=_bucket_of_row(self._bucket_rows, next_row),
                sizes=(0,) * len(self._bucket_rows),
            )
            self._journal.save(self._scratch)

    def scatter(self, buffer: RowBuffer) -> None:
        """Append the rows that are not scattered yet to the files of their buckets."""
        sizes, saved_at = list(self._journal.sizes), time.monotonic()
        for n_rows in self._windows(self._journal.n_rows, buffer):
            buckets = self._order.buckets(buffer.keys, n_buckets=len(sizes))
            places = np.argsort(buckets, kind="stable")  # rows stay ascending in their bucket
            edges = np.searchsorted(buckets[places], np.arange(len(sizes) + 1))
            with self._writing():
                for bucket in range(self._journal.first_bucket, len(sizes)):
                    for block in buffer.gather(places[edges[bucket] : edges[bucket + 1]]):
                        sizes[bucket] += self._files.append(bucket, block)
                if n_rows == self._order.n_rows or time.monotonic() - saved_at > _JOURNAL_SECONDS:
                    journal = dataclasses.replace(self._journal, n_rows=n_rows, sizes=tuple(sizes))
                    journal.save(self._scratch)
                    self._journal, saved_at = journal, time.monotonic()

    def _windows(self, n_rows: int, buffer: RowBuffer) -> Iterator[int]:
        """Fill the buffer with whole chunks and their keys, again and again; give the rows read since the first."""
        layout = self._reader.layout
        buffer.clear()
        for index in range(layout.n_chunks):
            start, stop = layout.chunk_bounds(index)
            if stop <= n_rows:
                continue
            if buffer.n_rows + stop - start > buffer.most_rows:
                yield start
                buffer.clear()
            buffer.read_chunk(self._reader, index)
            buffer.keys[start - stop :] = self._order.keys(start, stop)
        if buffer.n_rows:
            yield layout.n_rows

    def collect(self, writer: StoreWriter, buffer: RowBuffer) -> None:
        """Read bucket by bucket, sort, and write; remove the files of rows that are committed."""
        ends, next_row = self._bucket_rows.cumsum(), writer.next_row
        kept, looked_at = _bucket_of_row(self._bucket_rows, next_row), time.monotonic()
        for bucket in range(kept, len(ends)):
            n_rows = int(self._bucket_rows[bucket])
            try:
                self._files.read(bucket, buffer, n_rows=n_rows)
            except StoreCorruptError:
                Journal.remove(self._scratch)
                raise
            order = order_of_keys(buffer.keys)[max(0, next_row - int(ends[bucket]) + n_rows) :]
            buffer.give(order, writer, labels=self._reader.manifest.labels)
            if time.monotonic() - looked_at > _JOURNAL_SECONDS:
                n_committed = load_manifest(self._folder, allow_incomplete=True).n_rows
                while ends[kept] <= n_committed:
                    self._files.remove(kept)
                    kept += 1
                looked_at = time.monotonic()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say what is kept where the disk refuses."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            needed = format_bytes(self._order.n_rows * self._reader.layout.row_nbytes)
            raise StoreWriteError(
                f"{self._scratch} cannot be written ({error.strerror or error}). A shuffle needs about {needed} there "
                f"and as much for the new store. {self._journal.n_rows} of {self._order.n_rows} rows are scattered. "
                "Free space or make the folder writable, and shuffle again: it goes on from there."
            ) from error


def _bucket_of_row(bucket_rows: NDArray[np.int64], row: int) -> int:
    """Bucket that holds a row of the new order."""
    return int(np.searchsorted(bucket_rows.cumsum(), row, side="right"))
