"""From what the caller has to a source, by type and by the end of the name."""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection
from scipy.sparse import issparse

from streamfit.errors import InvalidDataError, SourceNotFoundError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.sources.arrays import array_source
from streamfit.sources.batches import batches_source
from streamfit.sources.npy import npy_source
from streamfit.sources.npz import npz_source
from streamfit.sources.sparse import is_sparse_npz, sparse_npz_source, sparse_source
from streamfit.sources.stacked import stacked_source
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
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_HDF5 = (".h5", ".hdf5", ".hdf", ".he5")
_WITH_MEMBERS = (".npz", *_HDF5)


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
    if module == "h5py":
        from streamfit.sources.hdf5 import hdf5_source

        return hdf5_source(source, names)
    if issparse(source):
        return sparse_source(source, names)
    if module == "polars":
        from streamfit.sources.polars_frames import polars_source

        return polars_source(source, names)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__") or module == "pyarrow":
        from streamfit.sources.arrow_tables import is_arrow, open_arrow

        if is_arrow(source):
            return open_arrow(source, names)
    if any(kind.__module__.partition(".")[0] == "torch" for kind in type(source).__mro__):
        from streamfit.sources.torch_data import torch_source  # torch only where it is used

        return torch_source(source, names)
    if callable(source):
        batches = source()
        if not hasattr(batches, "__iter__"):
            raise InvalidDataError(
                f"The callable gave a {type(batches).__name__}. Give one that makes batches: a generator function."
            )
        return batches_source(batches, names)
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, os.PathLike)) for path in source):
        return _open_list([os.fspath(path) for path in source], names, memory_limit)
    if isinstance(source, (list, tuple)) and not (source and _is_batch(source[0])):
        return array_source(np.asarray(unmasked(source, what="X")), names)
    if hasattr(source, "__iter__") and not isinstance(source, (Mapping, bytes, bytearray)):
        return batches_source(source, names)
    if hasattr(source, "__array__"):  # what NumPy takes for an array
        return array_source(np.asarray(source), names)
    raise InvalidDataError(
        f"A {type(source).__name__} is no source of rows. Give an array, a table, a path, or batches."
    )


def _open_list(paths: Sequence[str], names: Names, memory_limit: int | None) -> Source:
    pairs = [_without_member(path) for path in paths]
    if len({member for _, member in pairs}) > 1:
        raise InvalidDataError("The files of a list name different members. Give their paths one by one to append.")
    files = [_existing_file(path) for path, _ in pairs]
    base = Path(os.path.commonpath([file.parent for file in files]))
    return _open_files(files, names, memory_limit, member=pairs[0][1], base=base)


def _existing_file(path: str) -> Path:
    file = local_folder(path)
    if not file.is_file():
        raise SourceNotFoundError(f"There is no file at {path!r}. A list names files; check this one.")
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


def _without_member(path: str) -> tuple[str, str | None]:
    """Split ``file.h5::member``.

    Examples
    --------
    >>> _without_member("a/b.h5::train/X"), _without_member("a/b*.npz::X"), _without_member("odd::name.npy")
    (('a/b.h5', 'train/X'), ('a/b*.npz', 'X'), ('odd::name.npy', None))
    """
    file, mark, member = path.partition("::")
    if mark and Path(file).suffix.lower() in _WITH_MEMBERS:
        return file, member
    return path, None


def _open_path(path: str, names: Names, memory_limit: int | None) -> Source:
    path, member = _without_member(path)
    folder = local_folder(path)
    if glob.has_magic(path) and not folder.exists():
        files = [Path(name).absolute() for name in sorted(_matches(path))]
        if not files:
            raise SourceNotFoundError(f"No file matches {path!r}. Check the pattern.")
        return _open_files(files, names, memory_limit, member=member, base=_base(path))
    if not folder.exists():
        raise SourceNotFoundError(f"There is nothing at {path!r}. Check the path.")
    if is_store(folder):
        return store_source(open_store(folder), names)
    if any((folder / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
        from streamfit.sources.zarr_arrays import open_zarr, zarr_source

        return zarr_source(open_zarr(folder), names)
    if folder.is_dir():
        found = (file for file in folder.rglob("*") if file.suffix in _PARQUET)
        # As pyarrow: what begins so is not done, or not meant as data.
        files = sorted(f for f in found if not any(part[0] in "._" for part in f.relative_to(folder).parts))
        if not files:
            raise InvalidDataError(f"The folder {path!r} holds no Parquet files and no array. Give its files.")
        return _open_files(files, names, memory_limit, member=None, base=folder)
    return _open_files([folder], names, memory_limit, member=member, base=None)


def _base(pattern: str) -> Path:
    """Give the folder that a pattern names as it is: what follows may be keys.

    Examples
    --------
    >>> _base("/data/year=2024/month=*/part-?.parquet").as_posix()
    '/data/year=2024'
    """
    parts = local_folder(pattern).parts
    return Path(*itertools.takewhile(lambda part: not glob.has_magic(part), parts))


def _matches(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207  # a Path has no absolute patterns


def _open_files(
    files: Sequence[Path], names: Names, memory_limit: int | None, *, member: str | None, base: Path | None
) -> Source:
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise InvalidDataError(f"The files are of several kinds: {', '.join(sorted(kinds))}. Ingest one kind.")
    kind = kinds.pop()
    if kind in _PARQUET:
        from streamfit.sources.parquet import parquet_source

        return parquet_source(files, names, base=base)
    if kind in _CSV:
        from streamfit.sources.csv import csv_source

        return csv_source(files, names)
    if kind in _SVMLIGHT:
        from streamfit.sources.svmlight import svmlight_source

        return svmlight_source(files, names)
    if kind == ".npy":
        return stacked_source([npy_source(file, names) for file in files])
    if kind == ".npz" and is_sparse_npz(files[0]):
        return sparse_npz_source(files, names, memory_limit=memory_limit)
    if kind == ".npz":
        return stacked_source([npz_source(file, names, member=member, memory_limit=memory_limit) for file in files])
    if kind in _HDF5:
        from streamfit.sources.hdf5 import hdf5_file_source

        return stacked_source([hdf5_file_source(file, names, member=member) for file in files])
    raise InvalidDataError(
        f"{files[0].name} is of no known kind. Known are .npy, .npz, .h5, .parquet, .csv, .tsv, .svmlight "
        "and Zarr arrays."
    )


def _kind(file: Path) -> str:
    suffixes = [suffix for suffix in file.suffixes if suffix not in _COMPRESSIONS]
    return suffixes[-1].lower() if suffixes else file.name
