"""Write damaged chunks of a store again, from the rows that they came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from streamfit.maths.csr_rows import is_sparse, joined_rows
from streamfit.plan.budget import parse_memory_limit
from streamfit.sources.matching import column_order
from streamfit.sources.opening import check_budget, open_rows, whole_store
from streamfit.store.destination import locked, writing
from streamfit.store.repairing import repair_chunk, repair_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from streamfit.feature_store import FeatureStore
    from streamfit.sources.source import RowBlock, Source
    from streamfit.store.integrity import VerifyReport
    from streamfit.store.manifest import Manifest

__all__ = ["repair"]


def repair(
    source: Any,
    store: FeatureStore | str | PathLike[str],
    *,
    y: Any = None,
    ids: Any = None,
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    memory_limit: str | float | None = None,
) -> VerifyReport:
    """Write the damaged chunks of a store again, and no other, from the source that they came from.

    A chunk is written only where the rows of the source have the checksum that was committed, so a source that
    changed since repairs what it still has and spoils nothing. All chunks are verified before and after.

    Parameters
    ----------
    source : object
        The rows: what was given to `streamfit.ingest`, or to `streamfit.append` for the rows that came from there.
    store : FeatureStore or path-like
        The store, complete and no view.
    y, ids, sample_weight, columns
        As they were given. What is left out is not repaired.
    memory_limit : int or str, optional
        Refuse to begin where more bytes would be needed; a text such as ``"2GB"`` is understood.

    Returns
    -------
    VerifyReport
        What is damaged now.

    Raises
    ------
    InvalidDataError, InvalidParameterError, SourceNotFoundError
        The source cannot be read, or its rows cannot be those of the store.
    StoreNotFoundError, StoreIncompleteError
        There is no complete store. One that is incomplete is repaired by the same ingest.
    StoreLockedError
        A writer holds the store.
    StoreWriteError
        It cannot be written.
    BudgetError
        Not even one chunk and one block of the source fit `memory_limit`.

    Notes
    -----
    Of a source that can begin at any row only the damaged rows are read; others are read up to the last of these.
    A chunk that holds rows of two sources, where rows were appended, cannot be written from one of them.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, streamfit as sf
    >>> folder = tempfile.TemporaryDirectory()
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> store = sf.ingest(X, folder.name + "/a.zarr", chunk_rows=2)
    >>> pathlib.Path(store.path, "X", "c", "1", "0").unlink()
    >>> store.verify().bad_rows()
    ((2, 4),)
    >>> repair(X, store).ok
    True
    >>> folder.cleanup()
    """
    limit = parse_memory_limit(memory_limit)
    whole = whole_store(store)
    folder = Path(whole.path)
    rows = open_rows(
        source,
        folder,
        y=y,
        ids=ids,
        sample_weight=sample_weight,
        columns=columns,
        categorical=None,
        encodings=whole.categories,
        dtype=whole.dtype,
        memory_limit=limit,
    )
    present = whole_store(store)
    manifest = present.manifest
    check_budget(
        rows,
        chunk_rows=present.layout.chunk_rows,
        itemsize=present.dtype.itemsize,
        compression=present.manifest.compression,
        memory_limit=limit,
    )
    order = column_order(rows, present)
    report = present.verify()
    if report.ok:
        return report
    damaged: dict[int, list[str]] = {}
    for bad in report.bad_chunks:
        damaged.setdefault(bad.chunk, []).append(bad.array)
    first_row = _first_row(manifest, rows)
    cursor = _Cursor(rows)
    with locked(folder, new=False) as lock:
        for index in sorted(damaged):
            start, stop = (bound - first_row for bound in present.layout.chunk_bounds(index))
            if start < 0:
                continue
            found = cursor.rows(start, stop)
            if not found or found["X"].shape[0] < stop - start:
                break  # the source ends before
            if order is not None:
                found["X"] = found["X"][:, order]
            given = {name: found[name] for name in damaged[index] if name in found}
            with writing(folder):
                repair_chunk(folder, manifest, index, given)
        with writing(folder):
            repair_metadata(folder, manifest, [bad.file for bad in report.bad_metadata])
        lock.release()
    return present.verify()


def _first_row(manifest: Manifest, rows: Source) -> int:
    """Find the row of the store where a source begins: the first one, if it is not one that was appended."""
    start = manifest.n_rows
    for part in reversed(manifest.appended):
        start -= int(part["n_rows"])
        if rows.recognisable and part["source"] == rows.description:
            return start
    return 0


class _Cursor:
    """Reads ascending ranges of a source's rows, none twice."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._blocks: Iterator[RowBlock] | None = None
        self._position = 0
        self._rest: dict[str, Any] = {}

    def rows(self, start: int, stop: int) -> dict[str, Any]:
        """Give the rows from `start` (inclusive) to `stop` (exclusive) by array, fewer where the source ends."""
        if self._blocks is None or (self._source.seekable and start > self._position + self._n_held):
            self._blocks, self._position, self._rest = self._source.blocks(start), start, {}
        parts: list[dict[str, Any]] = []
        while self._position < stop:
            if not self._n_held:
                block = next(self._blocks, None)
                if block is None:
                    break
                given = {"X": block.X, "y": block.y, "sample_weight": block.sample_weight, "ids": block.ids}
                self._rest = {
                    name: values if is_sparse(values) else np.asarray(values)
                    for name, values in given.items()
                    if values is not None
                }
            n_rows = min(self._n_held, stop - self._position)
            if self._position + n_rows > start:
                first = max(0, start - self._position)
                parts.append({name: values[first:n_rows] for name, values in self._rest.items()})
            self._rest = {name: values[n_rows:] for name, values in self._rest.items()}
            self._position += n_rows
        return {name: _joined([part[name] for part in parts]) for name in parts[0]} if parts else {}

    @property
    def _n_held(self) -> int:
        return int(self._rest["X"].shape[0]) if self._rest else 0


def _joined(parts: list[Any]) -> Any:
    return joined_rows([csr_array(part) for part in parts]) if is_sparse(parts[0]) else np.concatenate(parts)
