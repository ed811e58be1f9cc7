"""Zarr arrays and groups of other makers, format 2 or 3."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from streamfit.errors import InvalidParameterError
from streamfit.sources.aligned import AlignedArray, aligned_blocks, aligned_nbytes, warn_of_missing_chunks
from streamfit.sources.arrays import check_matrix
from streamfit.sources.damaged import reading
from streamfit.sources.members import choose_matrix, choose_roles
from streamfit.sources.source import Source, drop_rows, outputs_nbytes
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streamfit.sources.source import Names, RowBlock

__all__ = ["open_zarr", "zarr_source"]


def open_zarr(folder: Path) -> zarr.Array[Any] | zarr.Group:
    """Open the array or the group at a folder.

    Raises
    ------
    InvalidDataError
        Its metadata cannot be read.
    """
    with reading(folder):
        return zarr.open(folder, mode="r")


def zarr_source(node: zarr.Array[Any] | zarr.Group, names: Names) -> Source:
    """Read a Zarr array, or a group with its matrix, labels, weights and ids, by whole chunks of rows.

    The matrix of a group is the member ``X``, or else the only array with two dimensions. Zarr reads chunks
    that it lacks as fill values: a warning counts them, unless the fill value is NaN.

    Raises
    ------
    InvalidDataError
        There is no matrix of numbers, or more than one.
    InvalidParameterError
        A named member does not exist.
    """
    X, columns = _members(node, names)
    what = _name(X)
    check_matrix(X.shape, what=what)
    n_rows, n_features = X.shape
    dtype = stored_dtype(np.dtype(X.dtype), what=what)
    for array in (X, *columns.values()):
        _warn(array)

    def read() -> Iterator[RowBlock]:
        return aligned_blocks(_aligned(X), {role: _aligned(array) for role, array in columns.items()}, 0)

    root = getattr(X.store, "root", None)
    description = {"kind": "zarr", "shape": [n_rows, n_features], "dtype": np.dtype(X.dtype).str}
    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=n_features,
        dtype=dtype,
        description={**description, "columns": names.roles} if columns else description,
        recognisable=False,
        n_rows=n_rows,
        block_nbytes=aligned_nbytes(map(_aligned, (X, *columns.values()))),
        outputs_nbytes=outputs_nbytes(columns.get("y")),
        paths=() if root is None else (Path(root, node.path).absolute(),),
    )


def _members(node: zarr.Array[Any] | zarr.Group, names: Names) -> tuple[zarr.Array[Any], dict[str, zarr.Array[Any]]]:
    if isinstance(node, zarr.Array):
        names.refuse("a Zarr array")
        return node, {}
    if names.columns is not None:
        raise InvalidParameterError("columns are given, and a Zarr group has no named columns. Select them before.")
    with reading(str(node.store_path)):
        arrays: Mapping[str, Any] = {
            name: member for name, member in node.members(max_depth=None) if isinstance(member, zarr.Array)
        }
    shapes = {name: array.shape for name, array in arrays.items()}
    what = _name(node)
    X = arrays[choose_matrix(shapes, names, member=None, what=what, prefix=f"{what}/")]
    check_matrix(X.shape, what=_name(X))
    roles = choose_roles(shapes, names, n_rows=X.shape[0], what=what)
    return X, {role: arrays[name] for role, name in roles.items()}


def _name(node: zarr.Array[Any] | zarr.Group) -> str:
    root = getattr(node.store, "root", None)
    return node.path or "the Zarr store" if root is None else str(Path(root.name, node.path))


def _aligned(array: zarr.Array[Any]) -> AlignedArray:
    return AlignedArray(
        read=lambda start, stop: array[start:stop],
        n_rows=array.shape[0],
        row_nbytes=np.dtype(array.dtype).itemsize * math.prod(array.shape[1:]),
        chunk_rows=(array.shards or array.chunks)[0],
        what=str(array.store_path),
    )


def _warn(array: zarr.Array[Any]) -> None:
    with reading(str(array.store_path)):
        n_chunks, n_missing = array.nchunks, array.nchunks - array.nchunks_initialized
    warn_of_missing_chunks(_name(array), n_missing=n_missing, n_chunks=n_chunks, fill_value=array.fill_value)
