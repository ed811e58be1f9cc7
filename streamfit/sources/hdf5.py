"""HDF5 files: a matrix with its labels, or a table of named fields."""

from __future__ import annotations

import contextlib
import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.sources.aligned import AlignedArray, aligned_blocks, aligned_nbytes, warn_of_missing_chunks
from streamfit.sources.arrays import check_matrix
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.members import choose_matrix, choose_roles
from streamfit.sources.source import RowBlock, Source, joined_sides, outputs_nbytes
from streamfit.sources.tables import common_dtype, select_columns
from streamfit.store.format import stored_dtype

try:
    import h5py
except ImportError as error:
    raise UnsupportedError("HDF5 files are read by h5py. Install it: pip install 'streamfit[hdf5]'.") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from streamfit.sources.source import Names

__all__ = ["hdf5_file_source", "hdf5_source"]

_PANDAS = "pandas_type"
"""Attribute of the groups in which pandas keeps its tables."""


def hdf5_file_source(file: Path, names: Names, *, member: str | None) -> Source:
    """Read a matrix or a table of an HDF5 file, which is known again by its hash.

    Parameters
    ----------
    file : Path
        The file.
    names : Names
        Datasets for labels, weights and ids, as seen from the group that holds the matrix; of a table, fields.
    member : str or None
        Dataset, or group in which one is looked for.

    Raises
    ------
    InvalidDataError
        It is no HDF5 file, is cut, or what is asked for is no matrix of numbers.
    InvalidParameterError
        It has no such dataset.
    """

    @contextlib.contextmanager
    def opened() -> Iterator[h5py.Group]:
        with reading(file), h5py.File(file, "r") as root:
            yield root

    with opened() as root:
        if member is not None and member not in root:
            raise InvalidParameterError(
                f"{file.name} has no member {member!r}. It has {', '.join(_datasets(root)) or 'nothing'}."
            )
        return _source(root if member is None else root[member], names, opened, file=file)


def hdf5_source(node: h5py.Dataset | h5py.Group, names: Names) -> Source:
    """Read a dataset, or one of a group. A file that is open for writing, or lies in memory, is not known again.

    Raises
    ------
    InvalidDataError
        The file is closed, or what is asked for is no matrix of numbers.
    """
    if not node:
        raise InvalidDataError(f"The HDF5 file of a {type(node).__name__} is closed. Open it again, or give its path.")
    file = Path(node.file.filename).absolute()
    if node.file.mode == "r" and node.file.driver == "sec2" and file.is_file():
        return hdf5_file_source(file, names, member=node.name)
    return _source(node, names, lambda: contextlib.nullcontext(node.file), file=None)


def _source(
    node: h5py.Dataset | h5py.Group,
    names: Names,
    opened: Callable[[], AbstractContextManager[h5py.Group]],
    *,
    file: Path | None,
) -> Source:
    where = Path(node.file.filename)
    dataset = _dataset(node, names, what=where.name)
    _check_whole(dataset, where)
    make = _matrix_source if dataset.dtype.names is None else _table_source
    # What lies in other files is not in the hash of this one.
    own = file is not None and not dataset.is_virtual and Path(dataset.file.filename) == file
    description: dict[str, Any] = {"kind": "hdf5", "dataset": dataset.name, "columns": names.roles}
    if own and file is not None:
        files = describe_files([file])
        files[0]["hash"] += f"::{dataset.name}"  # another dataset of the same file is another source
        description["files"] = files
    else:
        description |= {"files": [{"name": where.name}], "shape": list(dataset.shape), "dtype": str(dataset.dtype)}
    return make(
        dataset,
        names,
        opened,
        description=description,
        known=own,
        paths=() if file is None else (file,),
    )


# -- which dataset -------------------------------------------------------------------------------------


def _datasets(group: h5py.Group) -> dict[str, h5py.Dataset]:
    found: dict[str, h5py.Dataset] = {}

    def visit(name: str, node: h5py.Dataset | h5py.Group) -> None:
        if isinstance(node, h5py.Dataset):
            found[name] = node

    group.visititems(visit)
    return found


def _dataset(node: h5py.Dataset | h5py.Group, names: Names, *, what: str) -> h5py.Dataset:
    if isinstance(node, h5py.Dataset):
        return node
    _refuse_pandas(node, what)
    present = _datasets(node)
    shapes = {name: _shape(dataset) for name, dataset in present.items()}
    tables = [name for name, dataset in present.items() if dataset.dtype.names is not None]
    if len(tables) == 1 and all(len(shape) < 2 for shape in shapes.values()):
        return present[tables[0]]
    prefix = f"{what}::{node.name.strip('/')}/".replace("::/", "::")
    return present[choose_matrix(shapes, names, member=None, what=what, prefix=prefix)]


def _refuse_pandas(group: h5py.Group, what: str) -> None:
    tables = [group.name] if _PANDAS in group.attrs else []
    group.visititems(lambda name, node: tables.append(name) if _PANDAS in node.attrs else None)
    if tables:
        raise InvalidDataError(
            f"{what} holds tables of pandas ({', '.join(name.strip('/') for name in tables)}), whose layout is pandas' "
            f"own. Write them as Parquet: pandas.read_hdf(path, {tables[0].strip('/')!r}).to_parquet(…); or name a "
            f"dataset inside: {what}::path/to/dataset."
        )


def _shape(dataset: h5py.Dataset) -> tuple[int, ...]:
    return () if dataset.shape is None else tuple(dataset.shape)  # an empty dataspace has none


def _check_whole(dataset: h5py.Dataset, file: Path) -> None:
    """Refuse or tell of values that are not in the file, which HDF5 gives as fill values without a word."""
    what = f"{dataset.name} of {file.name}"
    if dataset.external:
        raise UnsupportedError(f"{what} keeps its values in raw files. Bring them in: h5repack copies a file whole.")
    if dataset.is_virtual:
        for source in dataset.virtual_sources():
            if source.file_name != "." and not (file.parent / source.file_name).is_file():
                raise InvalidDataError(
                    f"{what} is made of other files, and {source.file_name} is not there. HDF5 would fill its rows in."
                )
    elif dataset.chunks is not None and dataset.size:
        n_chunks = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
        n_missing = n_chunks - dataset.id.get_num_chunks()
        warn_of_missing_chunks(what, n_missing=n_missing, n_chunks=n_chunks, fill_value=dataset.fillvalue)
    elif dataset.size and not dataset.id.get_storage_size():
        warn_of_missing_chunks(what, n_missing=1, n_chunks=1, fill_value=dataset.fillvalue)


# -- its rows ------------------------------------------------------------------------------------------


def _matrix_source(
    dataset: h5py.Dataset,
    names: Names,
    opened: Callable[[], AbstractContextManager[h5py.Group]],
    *,
    description: Mapping[str, Any],
    known: bool,
    paths: tuple[Path, ...],
) -> Source:
    if names.columns is not None:
        raise InvalidParameterError("columns are given, and an HDF5 dataset has no named columns. Select them before.")
    what = Path(dataset.file.filename).name
    shape, group = _shape(dataset), dataset.parent
    check_matrix(shape, what=f"{dataset.name} of {what}")
    dtype = stored_dtype(dataset.dtype, what=f"{dataset.name} of {what}")
    shapes = {name: _shape(member) for name, member in _datasets(group).items()}
    shapes |= {name: _shape(group[name]) for name in names.roles.values() if name not in shapes and name in group}
    roles = choose_roles(shapes, names, n_rows=shape[0], what=what)
    members = {"X": dataset.name, **{role: group[name].name for role, name in roles.items()}}
    for name in members.values():
        if name != dataset.name:
            _check_whole(group[name], Path(dataset.file.filename))

    def blocks(start: int) -> Iterator[RowBlock]:
        with opened() as root:
            arrays = {role: _aligned(root[name]) for role, name in members.items()}
            yield from aligned_blocks(arrays.pop("X"), arrays, start)

    return Source(
        blocks=blocks,
        n_features=shape[1],
        dtype=dtype,
        description=description,
        recognisable=known,
        seekable=known,
        n_rows=shape[0],
        outputs_nbytes=outputs_nbytes(group[members["y"]]) if "y" in members else 0,
        block_nbytes=aligned_nbytes(_aligned(group[name]) for name in members.values()),
        paths=paths,
    )


def _aligned(dataset: h5py.Dataset) -> AlignedArray:
    return AlignedArray(
        read=functools.partial(_rows, dataset),
        n_rows=dataset.shape[0],
        row_nbytes=dataset.dtype.itemsize * math.prod(dataset.shape[1:]),
        chunk_rows=1 if dataset.chunks is None else dataset.chunks[0],
        what=f"{dataset.name} of {Path(dataset.file.filename).name}",
    )


def _rows(dataset: h5py.Dataset, start: int, stop: int) -> Any:
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return dataset.asstr()[start:stop]
    if dataset.ndim != 2 or dataset.chunks is None or dataset.chunks[1] >= dataset.shape[1]:
        return dataset[start:stop]
    # One column of chunks after the other: across them, HDF5 reads what is not compressed value by value.
    rows = np.empty((stop - start, dataset.shape[1]), dtype=dataset.dtype)
    for first in range(0, dataset.shape[1], dataset.chunks[1]):
        columns = slice(first, first + dataset.chunks[1])
        rows[:, columns] = dataset[start:stop, columns]
    return rows


def _table_source(
    dataset: h5py.Dataset,
    names: Names,
    opened: Callable[[], AbstractContextManager[h5py.Group]],
    *,
    description: Mapping[str, Any],
    known: bool,
    paths: tuple[Path, ...],
) -> Source:
    """Read the fields of a dataset of records as the columns of a table."""
    shape = _shape(dataset)
    if len(shape) != 1:
        raise InvalidDataError(f"{dataset.name} holds records in shape {shape}. Give one record for each row.")
    columns = select_columns(list(dataset.dtype.names), names)
    kinds = {name: dataset.dtype[name] for name in columns.features}
    for name, kind in kinds.items():
        if kind.kind not in "biuf":
            raise InvalidDataError(
                f"The field {name!r} of {dataset.name} has type {kind}, and features are numbers. Leave it out with "
                "columns=, or name it as y or ids.",
                column=name,
            )
    dtype = common_dtype(list(kinds.values()))

    def blocks(start: int) -> Iterator[RowBlock]:
        with opened() as root:
            for block in aligned_blocks(_aligned(root[dataset_name]), {}, start):
                records = block.X
                X = np.empty((len(records), len(columns.features)), dtype=dtype)
                for place, name in enumerate(columns.features):
                    X[:, place] = records[name]
                sides = {role: _texts(records[name]) for role, name in columns.roles.items()}
                yield RowBlock(X, **joined_sides(sides, start=start))

    dataset_name = dataset.name
    return Source(
        blocks=blocks,
        n_features=len(columns.features),
        dtype=dtype,
        description={**description, "columns": columns.describe()},
        recognisable=known,
        seekable=known,
        n_rows=shape[0],
        feature_names=columns.feature_names,
        block_nbytes=2 * aligned_nbytes([_aligned(dataset)]),
        paths=paths,
    )


def _texts(values: Any) -> Any:
    """Decode texts, which h5py gives as bytes inside of records."""
    kind = h5py.check_string_dtype(values.dtype)
    if kind is None:
        return values
    return np.array([value.decode(kind.encoding) for value in values.tolist()], dtype=object)
