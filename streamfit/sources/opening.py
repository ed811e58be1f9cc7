"""From what the caller gave to rows that can be written to a folder: what ingest and append share."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.plan.budget import FIXED_NBYTES, Budget
from streamfit.sources.categories import as_categorical
from streamfit.sources.named_labels import named_columns
from streamfit.sources.reading_ahead import ahead_nbytes, read_ahead
from streamfit.sources.registry import open_source
from streamfit.sources.side_columns import join_side_columns
from streamfit.sources.source import Names, block_rows
from streamfit.sources.typed import as_dtype, in_dtype, keeping_wholes
from streamfit.store.destination import refuse_overlap
from streamfit.store.write_memory import writing_part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from pathlib import Path

    from streamfit.sources.source import Source
    from streamfit.store.categories import ColumnCategories
    from streamfit.store.format import Compression
    from streamfit.store.writer import StoreWriter

__all__ = ["OnProgress", "check_budget", "open_rows", "whole_store", "write_rows"]

OnProgress = Callable[[int, int | None], object]
"""Takes the rows that are done, and how many there are in all where that is known."""


def open_rows(
    source: Any,
    folder: Path,
    *,
    y: Any,
    ids: Any,
    sample_weight: Any,
    columns: Sequence[str] | None,
    categorical: Any,
    encodings: tuple[ColumnCategories, ...],
    dtype: Any,
    memory_limit: int | None,
) -> Source:
    """Open a source with its labels, weights and ids, before anything is written.

    Parameters
    ----------
    source, y, ids, sample_weight, columns, categorical, dtype
        See `streamfit.ingest`.
    encodings : tuple of ColumnCategories
        How columns became numbers in the store that is added to; they go before `categorical`.
    folder : Path
        Where the rows are to be written.
    memory_limit : int or None
        Limit in bytes for what has to be loaded as a whole.

    Raises
    ------
    InvalidDataError
        There are no rows or no columns, or what is given does not fit together.
    SourceNotFoundError
        There is nothing at the path of the source.
    InvalidParameterError
        A named column does not exist, or `columns` is no sequence.
    StoreExistsError
        The folder is, holds, or lies in the source.
    """
    if isinstance(columns, str) or not (columns is None or isinstance(columns, Iterable)):
        raise InvalidParameterError(f"columns must be a sequence of names, got {columns!r}.")
    sides = {"y": y, "sample_weight": sample_weight, "ids": ids}
    named: dict[str, Any] = {role: value for role, value in sides.items() if isinstance(value, str)}
    if (columns_of_labels := named_columns(y, source)) is not None:
        named["y"] = columns_of_labels
    given = {role: value for role, value in sides.items() if value is not None and role not in named}
    names = Names(
        **named,
        columns=None if columns is None else tuple(columns),
        categorical=as_categorical(categorical),
        encodings=encodings,
        dtype=as_dtype(dtype),
    )
    rows = open_source(source, names, memory_limit=memory_limit)
    rows = keeping_wholes(rows) if names.dtype is None else in_dtype(rows, names.dtype)
    rows = join_side_columns(rows, given)
    if isinstance(names.y, tuple):
        labels_nbytes = 8 * len(names.y)
        step = block_rows(rows.row_nbytes(rows.dtype.itemsize) + labels_nbytes)
        # As columns, and joined.
        block_nbytes = rows.block_nbytes + 2 * step * labels_nbytes
        rows = dataclasses.replace(rows, outputs_nbytes=labels_nbytes, block_nbytes=block_nbytes)
    refuse_overlap(folder, rows.paths)
    if rows.n_rows == 0 or rows.n_features == 0:
        raise InvalidDataError(
            f"The source has {rows.n_rows} rows and {rows.n_features} columns. At least 1 of each is needed."
            # As scikit-learn says it, whose checks read it.
            f" (Found array with {rows.n_rows} sample(s) and {rows.n_features} feature(s)"
            f" (shape=({rows.n_rows}, {rows.n_features})) while a minimum of 1 is required.)"
        )
    return rows


def check_budget(
    rows: Source, *, chunk_rows: int, itemsize: int, compression: Compression, memory_limit: int | None
) -> bool:
    """Refuse rows whose writing needs more bytes than there may be.

    Parameters
    ----------
    rows : Source
        The rows.
    chunk_rows : int
        Rows of a chunk of the store.
    itemsize : int
        Bytes of one value in the store.
    compression : {"auto", "none", "lz4", "zstd"}
        Of the store.
    memory_limit : int or None
        Limit in bytes.

    Returns
    -------
    bool
        Whether the next block of the source may be read, and fits, while one is written.

    Raises
    ------
    BudgetError
        Not even one chunk and one block of the source fit.
    """
    budget = Budget(
        (
            writing_part(chunk_rows * (rows.row_nbytes(itemsize) + rows.outputs_nbytes), compression),
            ("a block of the source", rows.block_nbytes),
            ("fixed", FIXED_NBYTES),
        )
    )
    budget.check(memory_limit, "Raise memory_limit, lower chunk_rows, or give the source in smaller blocks.")
    more = ahead_nbytes(rows)
    return more is not None and (memory_limit is None or budget.nbytes + more <= memory_limit)


def write_rows(writer: StoreWriter, rows: Source, *, ahead: bool, on_progress: OnProgress | None) -> None:
    """Give a writer the rows that it lacks, and close it.

    Parameters
    ----------
    writer : StoreWriter
        Open.
    rows : Source
        The rows.
    ahead : bool
        Read the next block in a thread while one is written.
    on_progress : callable or None
        Is told, block by block, how many rows of the source are written, and how many it has where that is known.
    """
    with writer:
        first = writer.next_row
        if on_progress is not None:
            on_progress(first, rows.n_rows)
        blocks = rows.blocks(first)
        with contextlib.closing(read_ahead(blocks)) if ahead else contextlib.nullcontext(blocks) as given:
            for block in given:
                writer.append(block.X, block.y, block.sample_weight, block.ids)
                if on_progress is not None:
                    on_progress(writer.next_row, rows.n_rows)


def whole_store(store: FeatureStore | str | PathLike[str]) -> FeatureStore:
    """Open the store that is to be extended, as it is now.

    Raises
    ------
    InvalidParameterError
        It is a view.
    StoreNotFoundError, StoreIncompleteError
        There is no complete store.
    """
    if not isinstance(store, FeatureStore):
        return open_store(store)
    if store.ref.selection is not None:
        raise InvalidParameterError(
            f"This is a view of {store.n_rows} rows of {store.path}, and only whole stores are added to. Give the path."
        )
    return open_store(store.path, verify=store.ref.verify)
