"""Write the rows of a store to a new one in another order, in bounded memory, as often as it is interrupted."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from streamfit.errors import InvalidParameterError, StoreLockedError, StoreNotFoundError
from streamfit.options import check_choice, check_count
from streamfit.plan.budget import FIXED_NBYTES, Budget
from streamfit.plan.seeds import streams_canary
from streamfit.run.shuffle_full import shuffle_fully
from streamfit.run.shuffle_journal import Journal, scratch_of
from streamfit.run.shuffle_passes import create_like, pass_folder, rewrite
from streamfit.run.shuffle_rows import block_nbytes, held_row_nbytes
from streamfit.store.compression import asked_or_stored, has_compression
from streamfit.store.destination import IfExists, refuse_overlap
from streamfit.store.lock import StoreLock
from streamfit.store.manifest import load_manifest
from streamfit.store.reader import Reader, open_reader
from streamfit.store.write_memory import writing_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.options import Passes
    from streamfit.store.format import Compression

__all__ = ["rows_moved", "shuffle_store"]

_DEFAULT_LIMIT_NBYTES = 512 * 2**20
"""What a shuffle takes where no limit is given."""

_LEAST_ROWS = 64
"""Buckets of fewer rows vary too much to be bounded."""


def shuffle_store(
    reader: Reader,
    folder: Path,
    *,
    seed: int,
    passes: Passes,
    compression: Compression | None,
    memory_limit: int | None,
    if_exists: IfExists,
) -> None:
    """Write a shuffled store; see `streamfit.feature_store.FeatureStore.shuffle`."""
    seed = check_count("seed", seed, least=0)
    passes = _checked_passes(passes)
    compression = asked_or_stored(compression, reader.manifest)
    check_choice("if_exists", if_exists, get_args(IfExists))
    refuse_overlap(folder, [Path(reader.ref.path)])
    # What is written anew gets checksums of its own: a damaged row must not get a good one.
    reader = open_reader(dataclasses.replace(reader.ref, verify="always"))
    most_rows = _most_rows(reader, compression, _DEFAULT_LIMIT_NBYTES if memory_limit is None else memory_limit)
    source: dict[str, Any] = {"digest": reader.digest, "kind": "shuffle", "passes": passes, "seed": seed}
    if passes != "full":
        source["streams"] = streams_canary()  # another NumPy may draw other orders: half of each must not be joined
        source["window"] = min(reader.layout.chunks_within_rows(most_rows), reader.layout.n_chunks)
    if if_exists != "resume" or not _is_complete(folder, source, compression):
        with create_like(folder, reader, source=source, compression=compression, if_exists=if_exists) as writer:
            if writer.next_row == reader.layout.n_rows:
                pass  # only the last commit was missing
            elif passes == "full":
                shuffle_fully(reader, writer, folder, seed=seed, source=source, most_rows=most_rows)
            else:
                rewrite(
                    reader,
                    writer,
                    folder,
                    seed=seed,
                    source=source,
                    n_passes=passes,
                    window_chunks=source["window"],
                )
    _sweep(folder)


def _checked_passes(passes: Any) -> Passes:
    if isinstance(passes, str) and passes == "full":
        return "full"
    try:
        return check_count("passes", passes, least=1)
    except InvalidParameterError:
        raise InvalidParameterError(f'passes must be "full" or an integer of at least 1, got {passes!r}.') from None


def _most_rows(reader: Reader, compression: Compression, memory_limit: int) -> int:
    """Give the rows that a shuffle may hold at once.

    Raises
    ------
    BudgetError
        Not even those of one chunk fit.
    """
    layout = reader.layout
    least = max(min(layout.chunk_rows, layout.n_rows), min(_LEAST_ROWS, layout.n_rows))
    besides = (
        ("2 chunks that are read", 2 * layout.chunk_nbytes + layout.aside_nbytes),
        writing_part(layout.chunk_nbytes, compression),
        ("rows on their way", block_nbytes(reader)),
        ("fixed", FIXED_NBYTES),
    )
    row_nbytes = held_row_nbytes(reader)
    Budget(((f"{least} rows that are held", least * row_nbytes), *besides)).check(
        memory_limit, "Raise memory_limit, or write the store with a smaller chunk_rows."
    )
    return min(layout.n_rows, (memory_limit - Budget(besides).nbytes) // row_nbytes)


def _is_complete(folder: Path, source: Mapping[str, Any], compression: Compression) -> bool:
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except StoreNotFoundError:
        return False
    return stored.complete and stored.source == source and has_compression(stored, compression)


def _sweep(folder: Path) -> None:
    """Remove the scratch of a complete store."""
    scratch = scratch_of(folder)
    if scratch.exists():
        # Another one may have begun to write the store over since: then the scratch is its own.
        with contextlib.suppress(StoreLockedError):
            lock = StoreLock(folder)
            try:
                if load_manifest(folder, allow_incomplete=True).complete:
                    shutil.rmtree(scratch)
            finally:
                lock.release()


def rows_moved(folder: Path) -> tuple[int, int] | None:
    """Tell how many rows a shuffle that runs has read and written again, and how many it will; None if none runs."""
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except StoreNotFoundError:
        return None
    total = stored.n_rows if stored.n_rows_expected is None else stored.n_rows_expected
    passes = stored.source.get("passes")
    if passes == "full":
        journal = Journal.load(scratch_of(folder))
        return (stored.n_rows, total) if journal is None else (journal.n_rows + stored.n_rows, 2 * total)
    if not isinstance(passes, int):
        return None
    moved = stored.n_rows + (passes - 1) * total if stored.n_rows else 0
    for number in range(1, passes):
        with contextlib.suppress(StoreNotFoundError):
            between = load_manifest(pass_folder(folder, number), allow_incomplete=True)
            moved = max(moved, (number - 1) * total + between.n_rows)
    return moved, passes * total
