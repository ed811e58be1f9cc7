"""Sparse matrices in memory, and the ``.npz`` files that ``scipy.sparse.save_npz`` writes."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from scipy.sparse import csr_array, load_npz

from streamfit.errors import InvalidDataError
from streamfit.maths.csr_rows import as_csr, canonical_rows, csr_nbytes
from streamfit.plan.budget import FIXED_NBYTES, Budget
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.source import RowBlock, Source, block_rows
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from streamfit.sources.source import Names

__all__ = ["is_sparse_npz", "sparse_npz_source", "sparse_source"]


def sparse_source(X: Any, names: Names) -> Source:
    """Read a sparse matrix of scipy in any form; all of it is hashed, so that the same rows are known again."""
    names.refuse("a sparse matrix")
    if X.ndim != 2:
        raise InvalidDataError(
            f"X is sparse and has {X.ndim} dimension(s). Give a matrix (n_rows, n_features), such as csr_array(X)."
        )
    rows = as_csr(X)
    return _source(rows, {"kind": "sparse", "shape": list(rows.shape), "dtype": rows.dtype.str, "hash": _hash(rows)})


def is_sparse_npz(file: Path) -> bool:
    """Tell whether ``scipy.sparse.save_npz`` wrote a file.

    Raises
    ------
    InvalidDataError
        It is no ``.npz`` file.
    """
    with reading(file), zipfile.ZipFile(file) as archive:
        return {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist())


def sparse_npz_source(files: Sequence[Path], names: Names, *, memory_limit: int | None) -> Source:
    """Read a file of ``scipy.sparse.save_npz``, which is loaded as a whole.

    Raises
    ------
    BudgetError
        The matrix does not fit `memory_limit`.
    InvalidDataError
        There are several files, or it is damaged.
    """
    names.refuse("a sparse .npz file")
    if len(files) > 1:
        raise InvalidDataError(f"{len(files)} sparse .npz files are given. Ingest the first and append the others.")
    (file,) = files
    with reading(file):
        with np.load(file) as members:
            nbytes = sum(_decoded_nbytes(members, name) for name in members.files)
        # The arrays, and those of a CSR form of another one.
        Budget((("the matrix as a whole", 2 * nbytes), ("fixed", FIXED_NBYTES))).check(
            memory_limit, "Raise memory_limit, or give batches of csr rows."
        )
        try:
            rows = csr_array(load_npz(file))
        except ValueError as error:
            raise InvalidDataError(f"{file.name} is no matrix as scipy.sparse.save_npz writes it ({error}).") from error
    return replace(_source(rows, {"kind": "sparse npz", "files": describe_files([file])}), paths=(file,))


def _decoded_nbytes(members: Any, name: str) -> int:
    with members.zip.open(f"{name}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    return int(np.prod(shape, dtype=object)) * int(dtype.itemsize)


def _source(rows: csr_array, description: Mapping[str, Any]) -> Source:
    n_rows, n_features = rows.shape
    dtype = stored_dtype(rows.dtype, what="X")
    mean_row_nnz = rows.nnz / n_rows if n_rows else 0.0
    step = block_rows(csr_nbytes(1, round(mean_row_nnz), dtype.itemsize))

    def blocks(start: int) -> Iterator[RowBlock]:
        for row in range(start, n_rows, step):
            yield RowBlock(canonical_rows(rows[row : row + step], dtype))

    return Source(
        blocks=blocks,
        n_features=n_features,
        dtype=dtype,
        description=description,
        recognisable=True,
        seekable=True,
        n_rows=n_rows,
        sparse=True,
        mean_row_nnz=mean_row_nnz,
    )


def _hash(rows: csr_array) -> str:
    hasher = xxhash.xxh3_64(f"{rows.shape}{rows.dtype.str}".encode())
    for part in (rows.indptr.astype("<i8"), rows.indices.astype("<i8"), rows.data):
        hasher.update(np.ascontiguousarray(part).view(np.uint8).data)
    return hasher.hexdigest()
