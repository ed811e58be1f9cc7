"""NumPy's files: ``.npy`` by slices, ``.npz`` as a stream where the member's order allows it."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.plan.budget import FIXED_NBYTES, Budget
from streamfit.sources.arrays import check_matrix
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.sources.source import Names

__all__ = ["npy_source", "npz_source"]


@dataclass(frozen=True, slots=True)
class _Header:
    """What a ``.npy`` file says about itself."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int
    """Bytes before the first value."""

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def _read_header(stream: IO[bytes], name: str) -> _Header:
    try:
        version = npy_format.read_magic(stream)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran_order, dtype = read(stream)
    except ValueError as error:
        raise InvalidDataError(f"{name} is not an array as numpy.save writes it ({error}).") from error
    return _Header(shape, fortran_order, dtype, stream.tell())


def npy_source(file: Path, names: Names) -> Source:
    """Read a ``.npy`` file by slices of rows, in either memory order.

    It is read and not mapped: mapped pages count as resident memory until the system takes them away.
    """
    names.refuse("a .npy file")
    with file.open("rb") as stream:
        header = _read_header(stream, file.name)
    check_matrix(header.shape, what=file.name)
    n_rows, n_features = header.shape
    dtype = stored_dtype(header.dtype, what=file.name)
    step = block_rows(n_features * header.dtype.itemsize)

    def blocks(start: int) -> Iterator[RowBlock]:
        with file.open("rb", buffering=0) as stream:
            for row in range(start, n_rows, step):
                yield RowBlock(_read_rows(stream, header, row, min(row + step, n_rows)))

    return Source(
        blocks=blocks,
        n_features=n_features,
        dtype=dtype,
        description={"kind": "npy", "files": describe_files([file])},
        recognisable=True,
        seekable=True,
        n_rows=n_rows,
        paths=(file,),
    )


def _read_rows(stream: IO[bytes], header: _Header, start: int, stop: int) -> NDArray[Any]:
    n_rows, n_features = header.shape
    itemsize = header.dtype.itemsize
    rows = np.empty((stop - start, n_features), dtype=header.dtype, order="F" if header.fortran_order else "C")
    if not header.fortran_order:
        _read_exactly(stream, header.offset + start * n_features * itemsize, rows)
    else:
        for column in range(n_features):
            _read_exactly(stream, header.offset + (column * n_rows + start) * itemsize, rows[:, column])
    return rows


def _read_exactly(stream: IO[bytes], position: int, out: NDArray[Any]) -> None:
    stream.seek(position)
    target = memoryview(out.view(np.uint8).data if out.size else b"").cast("B")
    while target:
        n_read = stream.readinto(target)  # type: ignore[attr-defined]  # a raw file has it
        if not n_read:
            raise InvalidDataError(f"{stream.name} ends before its last row. Write it again.")
        target = target[n_read:]


def npz_source(file: Path, names: Names, *, memory_limit: int | None) -> Source:
    """Read the member ``X`` of a ``.npz`` file; labels, weights and ids are members, too.

    A member in C order is decompressed as it is read. One in Fortran order holds its last column at its
    end, so it is decompressed as a whole, which `memory_limit` must allow; so are the one-dimensional ones.

    Raises
    ------
    BudgetError
        What has to be decompressed as a whole does not fit `memory_limit`.
    InvalidParameterError
        The file has no such member.
    """
    if names.columns is not None:
        raise InvalidParameterError("columns are given, and a .npz file has no named columns. Select them before.")
    with reading(file), zipfile.ZipFile(file) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        headers = {}
        for role, member in {"X": "X", **names.roles}.items():
            if member not in members:
                raise InvalidParameterError(
                    f"{file.name} has no member {member!r} for {role}. It has {', '.join(members)}."
                )
            with archive.open(f"{member}.npy") as stream:
                headers[role] = _read_header(stream, f"{file.name}:{member}")
    header = headers["X"]
    check_matrix(header.shape, what=f"X of {file.name}")
    n_rows, n_features = header.shape
    row_nbytes = n_features * header.dtype.itemsize
    step = block_rows(row_nbytes)
    whole = [role for role in headers if role != "X" or header.fortran_order]
    nbytes = sum(headers[role].nbytes for role in whole)
    Budget(((f"{', '.join(whole)} as a whole", nbytes), ("fixed", FIXED_NBYTES))).check(
        memory_limit, "Raise memory_limit, or save the matrix in C order or as .npy."
    )

    def read() -> Iterator[RowBlock]:
        with reading(file), zipfile.ZipFile(file) as archive:
            columns = {role: _read_member(archive, member) for role, member in names.roles.items()}
            for role, values in columns.items():
                if len(values) != n_rows:
                    raise InvalidDataError(
                        f"{role} has {len(values)} rows and X has {n_rows}. Give one value for each row."
                    )
            X = _read_member(archive, "X") if header.fortran_order else None
            with archive.open("X.npy") as stream:
                stream.read(header.offset)
                for start in range(0, n_rows, step):
                    stop = min(start + step, n_rows)
                    if X is not None:
                        rows = X[start:stop]
                    else:
                        content = stream.read((stop - start) * row_nbytes)
                        rows = np.frombuffer(content, dtype=header.dtype).reshape(stop - start, n_features)
                    yield RowBlock(rows, **{role: values[start:stop] for role, values in columns.items()})

    return Source(
        # A zip has no way to a later row but to decompress what lies before it, which its checksum needs as well.
        blocks=lambda start: drop_rows(read(), start),
        n_features=n_features,
        dtype=stored_dtype(header.dtype, what=f"X of {file.name}"),
        description={"kind": "npz", "files": describe_files([file]), "columns": names.roles},
        recognisable=True,
        seekable=True,
        n_rows=n_rows,
        block_nbytes=nbytes + step * row_nbytes,
        paths=(file,),
    )


def _read_member(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    with archive.open(f"{member}.npy") as stream:
        values: NDArray[Any] = npy_format.read_array(stream, allow_pickle=False)
    return values
