"""Whether every committed byte is still there, and whether Zarr would show the same rows."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.store.chunk_files import ChunkFileError, checksum, read_chunk_file
from streamfit.store.parts import read_part
from streamfit.store.zarr_agreement import BadMetadata, disagreements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.store.manifest import Manifest

__all__ = ["BadChunk", "BadMetadata", "VerifyReport", "verify"]

_WAITING_PER_THREAD = 4
"""Chunks that wait for a thread: enough that none is idle, few enough that a store of any size fits."""

_SHOWN = 20
"""Bad chunks in a text."""


@dataclass(frozen=True, slots=True)
class BadChunk:
    """A chunk whose stored bytes are not those that were committed."""

    array: str
    """Name of the array."""
    chunk: int
    """Number of the chunk in the store, counted from 0."""
    rows: tuple[int, int]
    """First row (inclusive) and last row (exclusive), numbered as in the store."""
    reason: str
    """What was found."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` found."""

    path: str
    """Folder of the store."""
    n_rows: int
    """Committed rows of the store."""
    n_rows_expected: int | None
    """Rows of the source of an incomplete store, where they are known."""
    complete: bool
    """Whether the writer reached the end of its source."""
    n_chunks: int
    """Chunks that were read, over all arrays."""
    bad_chunks: tuple[BadChunk, ...]
    """Damaged chunks, by array and number."""
    bad_metadata: tuple[BadMetadata, ...]
    """Files besides the chunks that are damaged: streamfit reads without them, Zarr shows other rows or none."""

    @property
    def ok(self) -> bool:
        """Whether the store is complete and every row as it was committed, for streamfit and for Zarr."""
        return self.complete and not (self.bad_chunks or self.bad_metadata)

    def bad_rows(self, array: str = "X") -> tuple[tuple[int, int], ...]:
        """Give the rows of the damaged chunks of one array.

        Parameters
        ----------
        array : str
            Name of the array.

        Returns
        -------
        tuple of (int, int)
            First row (inclusive) and last row (exclusive) of each run of damaged chunks, ascending.
        """
        runs: list[tuple[int, int]] = []
        for bad in self.bad_chunks:
            if bad.array != array:
                continue
            if runs and runs[-1][1] == bad.rows[0]:
                runs[-1] = (runs[-1][0], bad.rows[1])
            else:
                runs.append(bad.rows)
        return tuple(runs)

    def to_json(self) -> dict[str, Any]:
        """Give plain values: ``ok`` and the fields, damaged chunks and files as objects of their fields."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        lines = [
            f"{bad.array} chunk {bad.chunk}, rows {bad.rows[0]} to {bad.rows[1] - 1}: {bad.reason}"
            for bad in self.bad_chunks[:_SHOWN]
        ]
        if len(self.bad_chunks) > _SHOWN:
            lines.append(f"and {len(self.bad_chunks) - _SHOWN:,} more")
        lines += [f"{bad.file}: {bad.reason}" for bad in self.bad_metadata]
        if self.bad_chunks:
            lines.append(
                f"{len(self.bad_chunks):,} of {self.n_chunks:,} chunks are bad: repair them from their source, "
                "or write the store again"
            )
        else:
            lines.append(f"{'ok: ' if self.ok else ''}{self.n_chunks:,} chunks are as they were written")
        if self.bad_metadata:
            lines.append("Other tools may read other rows than streamfit: a repair writes these files again")
        if not self.complete:
            expected = "an unknown number of" if self.n_rows_expected is None else f"{self.n_rows_expected:,}"
            lines.append(
                f"incomplete: {self.n_rows:,} of {expected} rows are written. "
                "Run the same ingest again: it goes on from there."
            )
        return "\n".join(lines)


def verify(
    folder: Path,
    manifest: Manifest,
    *,
    chunks: Sequence[int] | None = None,
    on_chunk: Callable[[int, int], object] | None = None,
) -> VerifyReport:
    """Read chunks of every array and compare checksums, with a thread a core.

    Parameters
    ----------
    folder : Path
        The store.
    manifest : Manifest
        As it was opened; of an incomplete store too.
    chunks : sequence of int, optional
        Numbers of the stored chunks to read, ascending; by default all.
    on_chunk : callable, optional
        Called in this thread after each chunk with the number of chunks done and of all to be read.

    Returns
    -------
    VerifyReport
        Whatever is lost, damaged or not permitted to be read is in the report, not raised.

    Notes
    -----
    A thread takes the next chunk when it is done with one. Memory grows by a chunk a thread, encoded and decoded.
    """
    if chunks is None:
        chunks = range(-(-manifest.n_rows // manifest.chunk_rows))
    todo = [(name, index) for name in manifest.arrays for index in chunks]
    bad = []
    for n_done, found in enumerate(_check_all(folder, manifest, todo), 1):
        if found is not None:
            bad.append(found)
        if on_chunk is not None:
            on_chunk(n_done, len(todo))
    return VerifyReport(
        path=str(folder),
        n_rows=manifest.n_rows,
        n_rows_expected=manifest.n_rows_expected,
        complete=manifest.complete,
        n_chunks=len(todo),
        bad_chunks=tuple(bad),
        bad_metadata=tuple(disagreements(folder, manifest)),
    )


def _check_all(folder: Path, manifest: Manifest, todo: Sequence[tuple[str, int]]) -> Iterator[BadChunk | None]:
    """Check chunks in parallel; give what was found in order."""
    n_threads = max(1, min(os.cpu_count() or 1, len(todo)))
    most = max((spec.row_nbytes for spec in manifest.arrays.values() if not spec.sparse), default=0)
    buffers: SimpleQueue[NDArray[np.uint8]] = SimpleQueue()
    for _ in range(n_threads):
        buffers.put(np.empty(min(manifest.chunk_rows, manifest.n_rows) * most, dtype=np.uint8))

    def check(name: str, index: int) -> BadChunk | None:
        buffer = buffers.get()
        try:
            return _check(folder, manifest, name, index, buffer)
        finally:
            buffers.put(buffer)

    with ThreadPoolExecutor(n_threads, thread_name_prefix="streamfit-verify") as pool:
        waiting: deque[Future[BadChunk | None]] = deque()
        try:
            for name, index in todo:
                waiting.append(pool.submit(check, name, index))
                if len(waiting) > _WAITING_PER_THREAD * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C nothing is read any more


def _check(folder: Path, manifest: Manifest, name: str, index: int, buffer: NDArray[np.uint8]) -> BadChunk | None:
    spec = manifest.arrays[name]
    start = index * manifest.chunk_rows
    stop = min(start + manifest.chunk_rows, manifest.n_rows)
    values: Any
    try:
        if spec.sparse:
            values = read_part(folder, spec, index, n_rows=stop - start, nnz=manifest.nnz[index])
        else:
            values = buffer[: (stop - start) * spec.row_nbytes].view(spec.dtype).reshape(spec.shape(stop - start))
            read_chunk_file(folder, spec, index, values)
    except ChunkFileError as error:
        return BadChunk(name, index, (start, stop), str(error))
    if checksum(values) != manifest.checksums[name][index]:
        return BadChunk(name, index, (start, stop), "its bytes are not those that were written")
    return None
