"""The chunks of a sparse matrix on disk: CSR parts by rows, each three plain Zarr arrays in a group of its own.

::

    X/zarr.json                 a group; its attributes tell the shape and the rows of a part
    X/0/  X/1/  ...             a whole part: data, indices, indptr, as scipy and AnnData know them
    X/2-50/                     a last part of 50 rows, which no longer counts once rows are appended

A part is never written over with other rows: the one that an append fills gets a new name, so those who have the store
open go on reading theirs. Any Zarr reads a part, ``scipy.sparse.csr_array((data, indices, indptr), shape=shape)`` gives
its rows, and its attributes are those by which AnnData recognises such a matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from streamfit.maths.csr_rows import INDEX_DTYPE
from streamfit.store.chunk_files import ChunkFileError, read_chunk_file, write_chunk_file
from streamfit.store.format import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["part_arrays", "part_attributes", "part_files", "part_name", "read_part", "stale_parts", "write_part"]


def part_name(index: int, n_rows: int, chunk_rows: int) -> str:
    """Name the part of a chunk.

    Examples
    --------
    >>> part_name(2, 100, 100), part_name(2, 50, 100)
    ('2', '2-50')
    """
    return str(index) if n_rows == chunk_rows else f"{index}-{n_rows}"


def part_arrays(spec: ArraySpec, index: int, *, n_rows: int, nnz: int) -> dict[str, ArraySpec]:
    """Give the arrays of a part by their names; each is one chunk."""
    folder = f"{spec.folder}/{part_name(index, n_rows, spec.chunk_rows)}"
    lengths = {"data": (spec.dtype, nnz), "indices": (INDEX_DTYPE, nnz), "indptr": (INDEX_DTYPE, n_rows + 1)}
    return {
        name: ArraySpec(
            name=name,
            dtype=dtype,
            n_columns=None,
            chunk_rows=max(1, length),
            codec=spec.codec,
            folder=f"{folder}/{name}",
        )
        for name, (dtype, length) in lengths.items()
    }


def part_attributes(n_rows: int, n_columns: int) -> dict[str, Any]:
    """Give the attributes of a part's group, by which AnnData recognises the matrix."""
    return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n_rows, n_columns]}


def part_files(folder: Path, spec: ArraySpec, index: int, *, n_rows: int, nnz: int) -> list[Path]:
    """Give the chunk files of a part; no values have no file."""
    arrays = part_arrays(spec, index, n_rows=n_rows, nnz=nnz)
    return [array.chunk_file(folder, 0) for name, array in arrays.items() if nnz or name == "indptr"]


def write_part(folder: Path, spec: ArraySpec, index: int, rows: csr_array) -> None:
    """Write the chunk files of a part. Its metadata are for Zarr alone: see `streamfit.store.zarr_metadata`.

    Parameters
    ----------
    folder : Path
        The store.
    spec : ArraySpec
        The sparse array.
    index : int
        Number of the chunk.
    rows : csr_array of shape (n_rows, n_columns)
        At most ``spec.chunk_rows`` rows in the form of `streamfit.maths.csr_rows.canonical_rows`.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    for name, array in part_arrays(spec, index, n_rows=rows.shape[0], nnz=rows.nnz).items():
        values = np.ascontiguousarray(getattr(rows, name), dtype=array.dtype)
        if len(values):
            write_chunk_file(folder, array, 0, values)


def read_part(folder: Path, spec: ArraySpec, index: int, *, n_rows: int, nnz: int) -> csr_array:
    """Read the rows of a part.

    Raises
    ------
    ChunkFileError
        A file is missing, has another length, or cannot be decoded; or it holds no rows of a matrix.
    """
    found = {}
    for name, array in part_arrays(spec, index, n_rows=n_rows, nnz=nnz).items():
        found[name] = np.empty(nnz if name != "indptr" else n_rows + 1, dtype=array.dtype)
        if len(found[name]):
            try:
                read_chunk_file(folder, array, 0, found[name])
            except ChunkFileError as error:
                raise ChunkFileError(f"{name}: {error}") from error
    try:
        rows = csr_array((found["data"], found["indices"], found["indptr"]), shape=(n_rows, spec.n_columns))
        # Also where no checksums are compared: compiled code that is given a column that does not exist reads
        # memory that is not its own.
        rows.check_format(full_check=True)
    except ValueError as error:
        raise ChunkFileError(f"its row pointers or columns are not those of a matrix ({error})") from error
    if rows.indptr[-1] != nnz:
        raise ChunkFileError(f"its row pointers end with {rows.indptr[-1]} instead of {nnz}")
    return rows


def stale_parts(folder: Path, spec: ArraySpec, known: Iterable[str]) -> list[Path]:
    """Give the parts that no version knows.

    Parameters
    ----------
    folder : Path
        The store.
    spec : ArraySpec
        The sparse array.
    known : iterable of str
        Names of the parts that count in some version.
    """
    names = set(known)
    return [path for path in (folder / spec.folder).iterdir() if path.is_dir() and path.name not in names]
