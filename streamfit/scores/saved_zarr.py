"""Scores as a store: columns of a matrix in chunks of whole partitions, with checksums, gone on with after a kill."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, StoreCorruptError, StoreExistsError, StoreIncompleteError
from streamfit.plan.layout import rows_of_a_chunk
from streamfit.sources.exact import converted
from streamfit.store.destination import refuse_overlap
from streamfit.store.format import stored_dtype
from streamfit.store.lazy import lazy_array
from streamfit.store.manifest import load_manifest
from streamfit.store.reader import Reader, StoreRef, open_reader
from streamfit.store.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import dask.array as da
    from numpy.typing import NDArray

    from streamfit.scores.score_columns import ScoreColumns
    from streamfit.store.manifest import Manifest

__all__ = ["check_zarr_target", "open_zarr", "write_zarr"]

_KIND = "scores"
_MOST_LENGTHS = 4_096
"""The manifest tells the lengths of so many unequal blocks; it is written anew at each commit."""


def check_zarr_target(folder: Path, *, overwrite: bool) -> Manifest | None:
    """Give what an earlier call has left unfinished, or None where scores are written from the first row on.

    Raises
    ------
    StoreExistsError
        Scores are there that are not to be replaced, or a store of something else.
    StoreCorruptError
        The manifest is damaged, and it is not to be replaced.
    """
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except FileNotFoundError:
        return None  # the writer refuses other things that are there
    except StoreCorruptError:
        if not overwrite:
            raise
        return None
    if not stored.n_rows:
        return None
    if stored.source.get("kind") != _KIND:
        raise StoreExistsError(f"{folder} is a store of something else than scores. Choose another path.")
    if overwrite:
        return None
    if stored.complete:
        raise StoreExistsError(f"{folder} exists already. Choose another path or say overwrite=True.")
    return stored


def write_zarr(columns: ScoreColumns, folder: Path, *, overwrite: bool) -> None:
    """Write scores as columns of ``X``, and ids.

    Raises
    ------
    StoreExistsError
        An unfinished store there is of other scores.
    InvalidDataError
        Ids are no integers, or the one type of the matrix does not hold a value of a column.
    """
    refuse_overlap(folder, columns.paths)
    stored = check_zarr_target(folder, overwrite=overwrite)
    if columns.ids is not None and columns.ids.dtype.kind == "U":
        raise InvalidDataError("Ids that are texts do not go into a store. Save to .parquet, or give integers.")
    dtype = np.result_type(*[stored_dtype(values.dtype, what="scores") for values in columns.columns.values()])
    chunk_rows = _chunk_rows(columns, row_nbytes=dtype.itemsize * len(columns.columns))
    source: dict[str, Any] = {
        "kind": _KIND,
        "columns": {name: values.dtype.str for name, values in columns.columns.items()},
        "mapping": columns.named,
        "ids": columns.ids is not None,
        "blocks": _described_blocks(columns.lengths),
        "token": columns.token,
    }
    known = stored is not None and _same(stored, source, columns, chunk_rows)
    if stored is not None and not known:
        # Work that dask has named anew, or other values: they are computed from the first and compared.
        source["token"] = stored.source["token"]
    writer = StoreWriter.create(
        folder,
        n_features=len(columns.columns),
        dtype=dtype,
        chunk_rows=chunk_rows,
        feature_names=list(columns.columns),
        nonfinite="keep",
        source=source,
        if_exists="overwrite" if overwrite else "resume",
        continues=known,
        n_rows_expected=columns.n_rows,
    )
    with writer:
        # From the last block that is stored, which is computed again and compared: a name is only a name.
        start = _last_block(columns.lengths, writer.next_row) if known else 0
        for first, scores, ids in columns.blocks(start):
            rows = _matrix(scores, dtype, first)
            n_stored = max(0, writer.next_row - first) if known else 0
            if n_stored and stored is not None:
                _compare(folder, stored, rows, ids, range(first, min(first + len(rows), writer.next_row)))
            if n_stored < len(rows):
                _append(writer, rows[n_stored:], None if ids is None else ids[n_stored:], folder)


def open_zarr(folder: Path) -> dict[str, da.Array] | da.Array:
    """Give the scores of a store, in the blocks that they were saved in.

    Raises
    ------
    InvalidDataError
        It is a store of something else.
    StoreNotFoundError, StoreIncompleteError, StoreCorruptError
        There is no store, or it is unfinished or damaged.
    """
    try:
        manifest = load_manifest(folder)
    except StoreIncompleteError as error:
        raise StoreIncompleteError(
            f"{folder} is unfinished: its writer has not reached the end. Save the same scores again: it goes on."
        ) from error
    source = manifest.source
    if source.get("kind") != _KIND or manifest.appended:
        raise InvalidDataError(f"{folder} was not written by streamfit.scores.save alone. Use streamfit.open_store.")
    reader = open_reader(StoreRef(str(folder), manifest.digest, "always"))
    matrix = lazy_array(reader, "X", block_nbytes=1)
    blocks = source["blocks"]
    if isinstance(blocks, list):
        matrix = matrix.rechunk((tuple(blocks), -1))
    elif blocks is not None:
        matrix = matrix.rechunk((blocks, -1))
    columns = {
        name: matrix[:, place].astype(np.dtype(dtype)) for place, (name, dtype) in enumerate(_dtypes(manifest).items())
    }
    return columns if source["mapping"] else next(iter(columns.values()))


def _dtypes(manifest: Manifest) -> dict[str, str]:
    # JSON keeps no promise about the order of keys; the names of columns are a list.
    return {name: manifest.source["columns"][name] for name in manifest.feature_names or ()}


def _described_blocks(lengths: Sequence[int]) -> int | list[int] | None:
    filled = [length for length in lengths if length]
    if len(set(filled[:-1])) <= 1 and filled[-1] <= filled[0]:
        return filled[0]
    return filled if len(filled) <= _MOST_LENGTHS else None


def _chunk_rows(columns: ScoreColumns, *, row_nbytes: int) -> int:
    """Give whole blocks up to about 8 MiB, or a part of one that goes into it, where blocks are equal."""
    most, block_rows = rows_of_a_chunk(row_nbytes), _described_blocks(columns.lengths)
    chunk_rows = most
    if isinstance(block_rows, int) and block_rows <= most:
        chunk_rows = most // block_rows * block_rows
    elif isinstance(block_rows, int):
        least = -(-block_rows // most)
        chunk_rows = next((block_rows // n for n in range(least, 2 * least) if block_rows % n == 0), most)
    return min(chunk_rows, columns.n_rows)


def _same(stored: Manifest, source: Mapping[str, Any], columns: ScoreColumns, chunk_rows: int) -> bool:
    """Whether the unfinished scores are known to be these; other kinds of scores are refused."""
    ours, theirs = ({**of, "token": None} for of in (source, stored.source))
    if (
        ours != theirs
        or stored.chunk_rows != chunk_rows
        or stored.feature_names != tuple(columns.columns)
        or stored.n_rows_expected != columns.n_rows
    ):
        raise _other(f"an unfinished save of other scores ({stored.n_rows_expected} rows)", stored.source)
    return bool(source["token"] == stored.source["token"])


def _other(what: str, source: Mapping[str, Any]) -> StoreExistsError:
    names = ", ".join(source.get("columns", ()))
    return StoreExistsError(f"There is {what} called {names}. Choose another path or say overwrite=True.")


def _last_block(lengths: Sequence[int], n_rows: int) -> int:
    """Give the first row of the block in which the last of some rows lies."""
    edges = np.concatenate(([0], np.cumsum(lengths)))
    return next((int(start) for start, stop in pairwise(edges) if start < n_rows <= stop), 0)


def _matrix(scores: Mapping[str, NDArray[Any]], dtype: np.dtype[Any], first: int) -> NDArray[Any]:
    n_rows = len(next(iter(scores.values())))
    rows = np.empty((n_rows, len(scores)), dtype=dtype)
    for place, (name, values) in enumerate(scores.items()):
        rows[:, place] = converted(values, dtype, start=first, name=name)
    return rows


def _compare(folder: Path, stored: Manifest, rows: NDArray[Any], ids: NDArray[Any] | None, present: range) -> None:
    reader = Reader(StoreRef(str(folder), stored.digest, "always"), stored)
    numbers = np.arange(present.start, present.stop)
    same = reader.take("X", numbers).tobytes() == rows[: len(numbers)].tobytes()
    if ids is not None:
        same = same and np.array_equal(reader.take("ids", numbers), ids[: len(numbers)])
    if not same:
        raise _other(
            f"an unfinished save at {folder} that differs in rows {present.start} to {present.stop - 1}, of scores",
            stored.source,
        )


def _append(writer: StoreWriter, rows: NDArray[Any], ids: NDArray[Any] | None, folder: Path) -> None:
    try:
        writer.append(rows, ids=ids)
    except StoreExistsError as error:
        raise StoreExistsError(
            f"{folder} holds a part of other scores. Choose another path or say overwrite=True."
        ) from error
