"""What a store holds, gathered from its manifest and, for a view, from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.plan.budget import parse_memory_limit
from streamfit.store.format import ARRAY_NAMES
from streamfit.store.info import ArrayInfo, ColumnInfo, StoreInfo
from streamfit.store.info_layout import as_html
from streamfit.store.parts import part_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamfit.store.format import ArraySpec
    from streamfit.store.labels import LabelInfo
    from streamfit.store.manifest import Manifest
    from streamfit.store.reader import Reader

__all__ = ["store_info", "view_html"]


def store_info(
    folder: Path, manifest: Manifest, *, memory_limit: str | float | None, view: Reader | None = None
) -> StoreInfo:
    """Tell what a store holds. Reads no rows, but for a view those that its statistics and classes need.

    Parameters
    ----------
    folder : Path
        The store.
    manifest : Manifest
        Of the stored files; of an incomplete store, too.
    memory_limit : int, str or None
        What the text shall tell about.
    view : Reader, optional
        The reader of a view, or of rows that are transformed.

    Raises
    ------
    InvalidParameterError
        `memory_limit` is no number of bytes.
    """
    rows = manifest if view is None else view
    n_rows = manifest.n_rows if view is None else view.layout.n_rows
    labels = rows.labels
    return StoreInfo(
        path=str(folder),
        view_of=None if view is None or view.ref.selection is None else manifest.n_rows,
        transformed_by=None if view is None or view.ref.mapping is None else view.ref.mapping.name,
        complete=manifest.complete,
        n_rows=n_rows,
        n_rows_expected=manifest.n_rows_expected,
        n_features=manifest.n_features if view is None else view.layout.n_features,
        dtype=str(rows.dtype),
        nonfinite=manifest.nonfinite,
        chunk_rows=manifest.chunk_rows if view is None else view.layout.chunk_rows,
        n_chunks=-(-n_rows // manifest.chunk_rows) if view is None else view.layout.n_chunks,
        arrays=tuple(
            _array_info(folder, manifest, rows.arrays[name], n_rows, rows.layout.row_nbytes, view is None)
            for name in ARRAY_NAMES
            if name in rows.arrays
        ),
        label_kind=None if labels is None else labels.kind,
        n_outputs=None if labels is None else labels.n_outputs,
        label_dtype=None if labels is None else str(labels.dtype),
        classes=() if labels is None else _plain_classes(labels),
        class_counts=() if labels is None else tuple(labels.counts.tolist()),
        output_classes=()
        if labels is None
        else tuple(_plain_classes(output) if output.kind == "classes" else None for output in labels.outputs),
        columns=_columns(rows),
        source=dict(manifest.source),
        appended=tuple(dict(part) for part in manifest.appended),
        format_version=manifest.format_version,
        digest=rows.digest,
        nnz=sum(manifest.nnz) if manifest.sparse and view is None else None,
        row_nbytes=_row_nbytes(manifest, rows, labels),
        memory_limit=parse_memory_limit(memory_limit),
    )


def view_html(folder: Path, view: Reader) -> str:
    """Give what is known of a view without reading a row, as HTML."""
    layout, ref = view.layout, view.ref
    part = "" if ref.selection is None else f", a view of {view.manifest.n_rows:,}"
    by = "" if ref.mapping is None else f", transformed by {ref.mapping.name}"
    facts = {
        "rows": f"{layout.n_rows:,}{part}{by}",
        "features": f"{layout.n_features:,} of {view.dtype}",
        "chunks": f"{layout.n_chunks:,} of up to {layout.chunk_rows:,} rows",
        "arrays": ", ".join(view.arrays),
        "ranges, classes": "info() reads the rows and tells",
    }
    return as_html(str(folder), facts, [])


def _array_info(
    folder: Path, manifest: Manifest, spec: ArraySpec, n_rows: int, row_nbytes: int, has_files: bool
) -> ArrayInfo:
    return ArrayInfo(
        name=spec.name,
        dtype=f"{spec.dtype}, sparse" if spec.sparse else str(spec.dtype),
        codec=spec.codec,
        decoded_nbytes=n_rows * (row_nbytes if spec.sparse else spec.row_nbytes),
        disk_nbytes=sum(map(_file_nbytes, _chunk_files(folder, manifest, spec))) if has_files else None,
    )


def _chunk_files(folder: Path, manifest: Manifest, spec: ArraySpec) -> Iterator[Path]:
    for index in range(len(manifest.checksums[spec.name])):
        if not spec.sparse:
            yield spec.chunk_file(folder, index)
            continue
        start, stop = manifest.layout.chunk_bounds(index)
        yield from part_files(folder, spec, index, n_rows=stop - start, nnz=manifest.nnz[index])


def _file_nbytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # `verify` is what tells of it
        return 0


def _plain_classes(labels: LabelInfo) -> tuple[Any, ...]:
    return tuple(str(name) if isinstance(name, bytes) else name for name in labels.classes.tolist())


def _columns(rows: Manifest | Reader) -> tuple[ColumnInfo, ...]:
    found = None if rows.arrays and rows.arrays["X"].sparse else rows.statistics
    if found is None:  # a sparse store has too many columns for a table
        return ()
    values = (found.minimum, found.mean, found.maximum, np.sqrt(found.variance), found.n_nonfinite)
    columns = zip(*(value.tolist() for value in values), strict=True)
    return tuple(ColumnInfo(rows.column_name(number), *column) for number, column in enumerate(columns))


def _row_nbytes(manifest: Manifest, rows: Manifest | Reader, labels: LabelInfo | None) -> int:
    stored = {name: rows.layout.row_nbytes if spec.sparse else spec.row_nbytes for name, spec in rows.arrays.items()}
    if labels is not None:
        stored["y"] = labels.row_nbytes  # texts are stored as codes
    return sum(stored.values()) or manifest.n_features * manifest.dtype.itemsize
