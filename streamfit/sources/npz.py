"""NumPy's ``.npz`` files, as a stream where the order of the matrix allows it."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.plan.budget import FIXED_NBYTES, Budget
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.members import choose_matrix, choose_roles
from streamfit.sources.npy import matrix_dtype, read_header
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows, outputs_nbytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.sources.npy import NpyHeader
    from streamfit.sources.source import Names

__all__ = ["npz_source"]


def npz_source(file: Path, names: Names, *, member: str | None, memory_limit: int | None) -> Source:
    """Read a matrix of a ``.npz`` file; labels, weights and ids are members, too.

    A matrix in C order is decompressed as it is read. One in Fortran order holds its last column at its
    end, so it is decompressed as a whole, which `memory_limit` must allow; so are the one-dimensional ones.

    Parameters
    ----------
    file : Path
        The file.
    names : Names
        Members for labels, weights and ids.
    member : str or None
        Name of the matrix; by default ``X``, or else the only matrix.
    memory_limit : int or None
        Limit in bytes.

    Raises
    ------
    BudgetError
        What has to be decompressed as a whole does not fit `memory_limit`.
    InvalidDataError
        The file is damaged, holds several matrices and none is named, or the member is no matrix of numbers.
    InvalidParameterError
        The file has no such member.
    """
    if names.columns is not None:
        raise InvalidParameterError("columns are given, and a .npz file has no named columns. Select them before.")
    present = _headers(file)
    shapes = {name: header.shape for name, header in present.items()}
    member = choose_matrix(shapes, names, member=member, what=file.name, prefix=f"{file.name}::")
    header = present[member]
    dtype = matrix_dtype(header, what=f"{member} of {file.name}")
    n_rows, n_features = header.shape
    roles = choose_roles(shapes, names, n_rows=n_rows, what=file.name)
    for role, name in roles.items():
        if present[name].dtype.hasobject:
            raise InvalidDataError(
                f"{role} is {name} of {file.name}, which holds pickled objects, which are not opened. Save texts as "
                f"texts: {name}.astype(str)."
            )
    row_nbytes = n_features * header.dtype.itemsize
    step = block_rows(row_nbytes)
    whole = {**({"X": member} if header.fortran_order else {}), **roles}
    nbytes = sum(present[name].nbytes for name in whole.values())
    Budget(((f"{', '.join(whole)} as a whole", nbytes), ("fixed", FIXED_NBYTES))).check(
        memory_limit, "Raise memory_limit, or save the matrix in C order or as .npy."
    )

    def read() -> Iterator[RowBlock]:
        with reading(file), zipfile.ZipFile(file) as archive:
            columns = {role: _read_member(archive, name) for role, name in roles.items()}
            for start, rows in _matrix(archive, member, header, step):
                stop = start + len(rows)
                yield RowBlock(rows, **{role: values[start:stop] for role, values in columns.items()})

    return Source(
        # A zip has no way to a later row but to decompress what lies before it, which its checksum needs as well.
        blocks=lambda start: drop_rows(read(), start),
        n_features=n_features,
        dtype=dtype,
        description=_describe(file, member, names.roles),
        recognisable=True,
        seekable=True,
        n_rows=n_rows,
        block_nbytes=nbytes + step * row_nbytes,
        paths=(file,),
        outputs_nbytes=outputs_nbytes(present.get(roles.get("y", ""))),
    )


def _headers(file: Path) -> dict[str, NpyHeader]:
    with reading(file), zipfile.ZipFile(file) as archive:
        headers = {}
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as stream:
                    headers[name.removesuffix(".npy")] = read_header(stream, f"{file.name}:{name}")
    return headers


def _describe(file: Path, member: str, roles: Mapping[str, str]) -> dict[str, Any]:
    files = describe_files([file])
    if member != "X":  # another matrix of the same file is another source
        files[0]["hash"] += f"::{member}"
    return {"kind": "npz", "files": files, "columns": dict(roles)}


def _matrix(archive: zipfile.ZipFile, member: str, header: NpyHeader, step: int) -> Iterator[tuple[int, NDArray[Any]]]:
    n_rows, n_features = header.shape
    if header.fortran_order:
        X = _read_member(archive, member)
        yield from ((start, X[start : start + step]) for start in range(0, n_rows, step))
        return
    with archive.open(f"{member}.npy") as stream:
        stream.read(header.offset)
        for start in range(0, n_rows, step):
            n = min(step, n_rows - start)
            content = stream.read(n * n_features * header.dtype.itemsize)
            if len(content) < n * n_features * header.dtype.itemsize:
                raise InvalidDataError(f"{member} of {archive.filename} ends before its last row. Write it again.")
            yield start, np.frombuffer(content, dtype=header.dtype).reshape(n, n_features)


def _read_member(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    with archive.open(f"{member}.npy") as stream:
        values: NDArray[Any] = npy_format.read_array(stream, allow_pickle=False)
    return values
