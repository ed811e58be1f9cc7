"""Whether every committed byte is still there."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamfit.errors import StoreCorruptError
from streamfit.store.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BadChunk", "VerifyReport", "verify"]


@dataclass(frozen=True, slots=True)
class BadChunk:
    """A chunk whose stored bytes are not those that were committed."""

    array: str
    """Name of the array."""
    chunk: int
    """Number of the chunk, counted from 0."""
    rows: tuple[int, int]
    """First row (inclusive) and last row (exclusive)."""
    reason: str
    """What was found."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` found."""

    bad_chunks: tuple[BadChunk, ...]
    """Damaged chunks, by array and number."""
    n_chunks: int
    """Chunks that were read, over all arrays."""

    @property
    def ok(self) -> bool:
        """Whether every chunk is as it was committed."""
        return not self.bad_chunks


def verify(reader: Reader) -> VerifyReport:
    """Read every chunk of every array and compare checksums, with a thread a core.

    Memory grows by one chunk a thread.
    """
    reader = Reader(dataclasses.replace(reader.ref, verify="always"), reader.manifest)
    chunks = [(name, index) for name in reader.manifest.arrays for index in range(reader.layout.n_chunks)]
    n_threads = max(1, min(os.cpu_count() or 1, len(chunks)))
    with ThreadPoolExecutor(n_threads, thread_name_prefix="streamfit-verify") as pool:
        found = pool.map(lambda part: _bad_chunks(reader, part), [chunks[i::n_threads] for i in range(n_threads)])
    bad = sorted((chunk for part in found for chunk in part), key=lambda bad: (bad.array, bad.chunk))
    return VerifyReport(tuple(bad), len(chunks))


def _bad_chunks(reader: Reader, chunks: Iterable[tuple[str, int]]) -> list[BadChunk]:
    bad = []
    n_rows = min(reader.layout.chunk_rows, reader.layout.n_rows)
    buffers = {name: np.empty(spec.shape(n_rows), spec.dtype) for name, spec in reader.manifest.arrays.items()}
    for name, index in chunks:
        try:
            reader.read_array(name, index, out=buffers[name])
        except StoreCorruptError as error:
            bad.append(BadChunk(name, index, reader.layout.chunk_bounds(index), str(error)))
    return bad
