"""Write the rows of a store as transformers make them, once, in bounded memory, as often as it is interrupted."""

from __future__ import annotations

import dataclasses
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from streamfit.errors import StoreNotFoundError
from streamfit.options import check_choice, check_count
from streamfit.plan.budget import FIXED_NBYTES, Budget
from streamfit.plan.layout import chunk_rows_for, rows_of_a_chunk
from streamfit.run.blas import one_blas_thread
from streamfit.store.compression import asked_or_stored, has_compression
from streamfit.store.destination import IfExists, refuse_overlap
from streamfit.store.manifest import load_manifest
from streamfit.store.reader import Reader, open_reader
from streamfit.store.write_memory import writing_part
from streamfit.store.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from streamfit.batch import Chunk
    from streamfit.plan.layout import StoreLayout
    from streamfit.store.format import Compression

__all__ = ["write_transformed"]


def write_transformed(
    reader: Reader,
    folder: Path,
    *,
    chunk_rows: int | None,
    compression: Compression | None,
    memory_limit: int | None,
    if_exists: IfExists,
) -> None:
    """Write the rows of a reader; see `streamfit.feature_store.FeatureStore.transform`."""
    check_choice("if_exists", if_exists, get_args(IfExists))
    compression = asked_or_stored(compression, reader.manifest)
    layout = reader.layout
    if chunk_rows is None:
        chunk_rows = _default_chunk_rows(layout)
    chunk_rows = check_count("chunk_rows", chunk_rows, least=1)
    refuse_overlap(folder, [Path(reader.ref.path)])
    # What is written anew gets checksums of its own: a damaged row must not get a good one.
    reader = open_reader(dataclasses.replace(reader.ref, verify="always"))
    written_nbytes = min(chunk_rows, layout.n_rows) * layout.row_nbytes
    Budget(
        (
            # One that is written, and the next one, which is made meanwhile.
            ("2 chunks that are transformed", 2 * layout.chunk_nbytes + layout.aside_nbytes),
            writing_part(written_nbytes, compression),
            ("fixed", FIXED_NBYTES),
        )
    ).check(memory_limit, "Raise memory_limit or lower chunk_rows, also that of the store that is read.")
    source = {"kind": "transform", "digest": reader.digest, "rows": _rows_below(reader)}
    if reader.ref.mapping is not None:
        source["transformer"] = reader.ref.mapping.name
    if if_exists == "resume" and _is_complete(folder, source, chunk_rows, compression, reader):
        return
    writer = StoreWriter.create(
        folder,
        n_features=layout.n_features,
        dtype=reader.dtype,
        chunk_rows=chunk_rows,
        feature_names=reader.feature_names,
        nonfinite=reader.manifest.nonfinite,
        source=source,
        if_exists=if_exists,
        continues=True,
        n_rows_expected=layout.n_rows,
        sparse=reader.is_sparse,
        compression=compression,
    )
    with writer, one_blas_thread():
        if writer.next_row == layout.n_rows:
            return  # only the last commit was missing
        for chunk, ids in _chunks_ahead(reader, int(layout.chunks_between(writer.next_row, layout.n_rows)[0])):
            # Transformed as a whole, wherever it is gone on: the bits must not depend on that.
            new = slice(max(0, writer.next_row - chunk.start), None)
            sides = (None if values is None else values[new] for values in (chunk.y, chunk.sample_weight, ids))
            writer.append(chunk.X[new], *sides)


def _default_chunk_rows(layout: StoreLayout) -> int:
    if layout.sparse is None:
        return chunk_rows_for(layout.n_features, layout.itemsize)
    return rows_of_a_chunk(layout.row_nbytes)


def _rows_below(reader: Reader) -> str:
    return open_reader(dataclasses.replace(reader.ref, mapping=None)).digest


def _chunks_ahead(reader: Reader, first: int) -> Iterator[tuple[Chunk, NDArray[Any] | None]]:
    """Give the chunks from `first` on with their ids; while one is used, a thread makes the next."""

    def read(index: int) -> tuple[Chunk, NDArray[Any] | None]:
        return reader.read_chunk(index), reader.read_array("ids", index) if reader.has_ids else None

    pending: deque[Future[tuple[Chunk, NDArray[Any] | None]]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="streamfit-transform") as thread:
        try:
            indices = iter(range(first, reader.layout.n_chunks))
            pending.extend(thread.submit(read, index) for index in islice(indices, 1))
            while pending:
                chunk = pending.popleft().result()
                pending.extend(thread.submit(read, index) for index in islice(indices, 1))
                yield chunk
                del chunk  # it is written: do not hold it while the next one is waited for
        finally:
            thread.shutdown(wait=False, cancel_futures=True)


def _is_complete(
    folder: Path, source: Mapping[str, Any], chunk_rows: int, compression: Compression, reader: Reader
) -> bool:
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except StoreNotFoundError:
        return False
    return (
        stored.complete
        and stored.source == source
        and stored.chunk_rows == chunk_rows
        and has_compression(stored, compression)
        and stored.feature_names == reader.feature_names
    )
