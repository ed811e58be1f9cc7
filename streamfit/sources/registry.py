"""From what the caller has to a source, by type and by the end of the name."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

from streamfit.errors import InvalidDataError, SourceNotFoundError, UnsupportedError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.sources.arrays import array_source
from streamfit.sources.batches import batches_source
from streamfit.sources.npy import npy_source, npz_source
from streamfit.sources.stores import store_source
from streamfit.store.format import MANIFEST_FILE, OWN_FOLDER, local_folder
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamfit.sources.source import Names, Source

__all__ = ["is_store", "open_source"]

_COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv")


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a streamfit store, complete or not, is at this path."""
    return (local_folder(path) / OWN_FOLDER / MANIFEST_FILE).exists()


def open_source(source: Any, names: Names, *, memory_limit: int | None) -> Source:
    """Find out what a source is.

    Parameters
    ----------
    source : object
        See `streamfit.ingest`.
    names : Names
        Columns that the caller named.
    memory_limit : int or None
        Limit in bytes for what has to be loaded as a whole.

    Raises
    ------
    InvalidDataError
        The source is of no known kind.
    SourceNotFoundError
        Nothing is at its path.
    UnsupportedError
        Sparse matrices.
    """
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source), names, memory_limit)
    if isinstance(source, FeatureStore):
        return store_source(source, names)
    if isinstance(source, np.ndarray):
        return array_source(source, names)
    if is_dask_collection(source):
        return _open_dask(source, names)
    module = type(source).__module__.partition(".")[0]
    if module == "pandas":
        from streamfit.sources.frames import frame_source  # pandas only where it is used

        return frame_source(source, names)
    if module == "zarr":
        from streamfit.sources.zarr_arrays import zarr_source

        return zarr_source(source, names)
    if module == "scipy":
        raise UnsupportedError(
            "Sparse matrices are not stored. Give their rows in dense batches: "
            "ingest((X[i:i + 10_000].toarray() for i in range(0, X.shape[0], 10_000)), path)."
        )
    if callable(source):
        return batches_source(source(), names)
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, os.PathLike)) for path in source):
        return _open_files([_existing_file(path) for path in source], names, memory_limit)
    if isinstance(source, (list, tuple)) and not (source and _is_batch(source[0])):
        return array_source(np.asarray(unmasked(source, what="X")), names)
    if hasattr(source, "__iter__"):
        return batches_source(source, names)
    raise InvalidDataError(
        f"A {type(source).__name__} is no source of rows. Give an array, a table, a path, or batches."
    )


def _existing_file(path: str | os.PathLike[str]) -> Path:
    file = local_folder(path)
    if not file.is_file():
        raise SourceNotFoundError(f"There is no file at {os.fspath(path)!r}. A list names files; check this one.")
    return file


def _is_batch(value: Any) -> bool:
    return np.ndim(value[0] if isinstance(value, tuple) else value) == 2


def _open_dask(source: Any, names: Names) -> Source:
    from streamfit.sources.dask_collections import dask_array_source, dask_frame_source

    if hasattr(source, "numblocks"):
        return dask_array_source(source, names)
    if hasattr(source, "columns"):
        return dask_frame_source(source, names)
    raise InvalidDataError(f"A dask {type(source).__name__} has no rows and columns. Give an array or a table.")


def _open_path(path: str, names: Names, memory_limit: int | None) -> Source:
    folder = local_folder(path)
    if glob.has_magic(path) and not folder.exists():
        files = [Path(name).absolute() for name in sorted(_matches(path))]
        if not files:
            raise SourceNotFoundError(f"No file matches {path!r}. Check the pattern.")
        return _open_files(files, names, memory_limit)
    if not folder.exists():
        raise SourceNotFoundError(f"There is nothing at {path!r}. Check the path.")
    if is_store(folder):
        return store_source(open_store(folder), names)
    if any((folder / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
        from streamfit.sources.zarr_arrays import open_zarr_array, zarr_source

        return zarr_source(open_zarr_array(folder), names)
    if folder.is_dir():
        files = sorted(file for file in folder.rglob("*") if file.suffix in _PARQUET)
        if not files:
            raise InvalidDataError(f"The folder {path!r} holds no Parquet files and no array. Give its files.")
        return _open_files(files, names, memory_limit)
    return _open_files([folder], names, memory_limit)


def _matches(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207  # a Path has no absolute patterns


def _open_files(files: Sequence[Path], names: Names, memory_limit: int | None) -> Source:
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise InvalidDataError(f"The files are of several kinds: {', '.join(sorted(kinds))}. Ingest one kind.")
    kind = kinds.pop()
    if kind in _PARQUET:
        from streamfit.sources.parquet import parquet_source

        return parquet_source(files, names)
    if kind in _CSV:
        from streamfit.sources.csv import csv_source

        return csv_source(files, names)
    if kind in (".npy", ".npz") and len(files) > 1:
        raise InvalidDataError(f"{len(files)} {kind} files are given. Give one, or batches made of them.")
    if kind == ".npy":
        return npy_source(files[0], names)
    if kind == ".npz":
        return npz_source(files[0], names, memory_limit=memory_limit)
    raise InvalidDataError(
        f"{files[0].name} is of no known kind. Known are .npy, .npz, .parquet, .csv, .tsv and Zarr arrays."
    )


def _kind(file: Path) -> str:
    suffixes = [suffix for suffix in file.suffixes if suffix not in _COMPRESSIONS]
    return suffixes[-1].lower() if suffixes else file.name
