"""Damaged chunks of a committed store, written again from rows that have the committed checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.store.atomic import flush_files
from streamfit.store.chunk_files import checksum, write_chunk_file
from streamfit.store.label_encoder import LabelEncoder
from streamfit.store.parts import part_files, part_name, write_part
from streamfit.store.row_values import as_features, as_ids, as_weights
from streamfit.store.zarr_metadata import write_array_metadata, write_group_metadata, write_part_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from streamfit.store.manifest import Manifest

__all__ = ["repair_chunk", "repair_metadata"]


def repair_chunk(folder: Path, manifest: Manifest, index: int, given: Mapping[str, Any]) -> None:
    """Write a chunk of some arrays again where the rows are those that were committed. The caller holds the lock.

    Parameters
    ----------
    folder : Path
        The store.
    manifest : Manifest
        Its committed version.
    index : int
        Number of the chunk.
    given : mapping of str to array-like
        By the names of arrays, the rows of the chunk as a source gives them. Other rows are not written.

    Raises
    ------
    InvalidDataError
        The rows cannot be those of the store.
    OSError
        A file cannot be written.
    """
    start, _ = manifest.layout.chunk_bounds(index)
    labels = LabelEncoder() if manifest.labels is None else LabelEncoder.restore(manifest.labels)
    for name, rows in given.items():
        if name == "X":
            values = as_features(rows, manifest, start=start)
        elif name == "y":
            values = labels.encode(rows, start=start)
        else:
            values = {"sample_weight": as_weights, "ids": as_ids}[name](rows, start=start)
        spec = manifest.arrays[name]
        if not spec.sparse:
            values = np.ascontiguousarray(values, dtype=spec.dtype)
        if checksum(values) != manifest.checksums[name][index]:
            continue
        if spec.sparse:
            write_part(folder, spec, index, values)
            flush_files(folder, part_files(folder, spec, index, n_rows=values.shape[0], nnz=values.nnz))
        else:
            write_chunk_file(folder, spec, index, values)
            flush_files(folder, [spec.chunk_file(folder, index)])


def repair_metadata(folder: Path, manifest: Manifest, files: Iterable[str]) -> None:
    """Write files again that tell Zarr of the arrays. The caller holds the lock.

    Parameters
    ----------
    folder : Path
        The store.
    manifest : Manifest
        Its committed version.
    files : iterable of str
        Which ones, by their paths in the store.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    specs = {f"{spec.folder}/zarr.json": spec for spec in manifest.arrays.values()}
    if any(spec.sparse for spec in manifest.arrays.values()):
        _repair_part_metadata(folder, manifest, set(files))
    for file in files:
        if file in specs:
            write_array_metadata(folder, specs[file], n_rows=manifest.n_rows)
        elif file == "zarr.json":
            (folder / file).unlink(missing_ok=True)
            write_group_metadata(folder)


def _repair_part_metadata(folder: Path, manifest: Manifest, files: Collection[str]) -> None:
    spec = manifest.arrays["X"]
    for index, nnz in enumerate(manifest.nnz):
        start, stop = manifest.layout.chunk_bounds(index)
        group = f"{spec.folder}/{part_name(index, stop - start, spec.chunk_rows)}/"
        if any(file.startswith(group) for file in files):
            write_part_metadata(folder, spec, index, n_rows=stop - start, nnz=nnz)
