"""NumPy's ``.npy`` files, by slices of rows."""

from __future__ import annotations

from dataclasses import dataclass
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from streamfit.errors import InvalidDataError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.source import RowBlock, Source, block_rows
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.sources.source import Names

__all__ = ["NpyHeader", "matrix_dtype", "npy_source", "read_header"]

_VERSIONS = ((1, 0), (2, 0), (3, 0))


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What an array says about itself before its values."""

    shape: tuple[int, ...]
    """Rows, columns, and whatever comes after them."""
    fortran_order: bool
    """Whether the values of a column are neighbours."""
    dtype: np.dtype[Any]
    """Type of the values, in their own byte order."""
    offset: int
    """Bytes before the first value."""

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def read_header(stream: IO[bytes], name: str) -> NpyHeader:
    """Read the header of an array, and leave the stream at its first value.

    Raises
    ------
    InvalidDataError
        There is none.
    """
    try:
        version = npy_format.read_magic(stream)
        if version not in _VERSIONS:
            raise ValueError(f"its format is {version[0]}.{version[1]}")  # noqa: TRY301  # told as those of numpy are
        # Format 3.0 differs in the names of fields alone, and arrays with fields are refused.
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran_order, dtype = read(stream)
        if any(size < 0 for size in shape):
            raise ValueError(f"its shape is {shape}")  # noqa: TRY301
    except (ValueError, TypeError, SyntaxError, TokenError) as error:  # what numpy raises for damaged headers
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidDataError(f"{name} is not an array as numpy.save writes it ({reason}). Write it again.") from error
    return NpyHeader(shape, fortran_order, dtype, stream.tell())


def matrix_dtype(header: NpyHeader, *, what: str) -> np.dtype[Any]:
    """Give the type in which a matrix is stored.

    Raises
    ------
    InvalidDataError
        It is no matrix of numbers.
    """
    if header.dtype.names is not None:
        raise InvalidDataError(
            f"{what} has the fields {', '.join(header.dtype.names)} in place of columns. Make it a matrix with "
            "numpy.lib.recfunctions.structured_to_unstructured, or a table with pandas.DataFrame."
        )
    if header.dtype.hasobject:
        raise InvalidDataError(f"{what} holds pickled objects, which are not opened. Convert it to numbers first.")
    check_matrix(header.shape, what=what)
    return stored_dtype(header.dtype, what=what)


def npy_source(file: Path, names: Names) -> Source:
    """Read a ``.npy`` file by slices of rows, in either memory order.

    It is read and not mapped: mapped pages count as resident memory until the system takes them away.

    Raises
    ------
    InvalidDataError
        It is no matrix of numbers, or ends before its last row.
    """
    names.refuse("a .npy file")
    with file.open("rb") as stream:
        header = read_header(stream, file.name)
    dtype = matrix_dtype(header, what=file.name)
    n_rows, n_features = header.shape
    if file.stat().st_size < header.offset + header.nbytes:
        raise _ends_early(file.name)
    step = block_rows(n_features * header.dtype.itemsize)

    def blocks(start: int) -> Iterator[RowBlock]:
        with file.open("rb", buffering=0) as stream:
            for row in range(start, n_rows, step):
                yield RowBlock(_read_rows(stream, header, row, min(row + step, n_rows), file.name))

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


def _read_rows(stream: IO[bytes], header: NpyHeader, start: int, stop: int, name: str) -> NDArray[Any]:
    n_rows, n_features = header.shape
    itemsize = header.dtype.itemsize
    rows = np.empty((stop - start, n_features), dtype=header.dtype, order="F" if header.fortran_order else "C")
    if not header.fortran_order:
        _read_exactly(stream, header.offset + start * n_features * itemsize, rows, name)
    else:
        for column in range(n_features):
            _read_exactly(stream, header.offset + (column * n_rows + start) * itemsize, rows[:, column], name)
    return rows


def _read_exactly(stream: IO[bytes], position: int, out: NDArray[Any], name: str) -> None:
    stream.seek(position)
    target = memoryview(out.view(np.uint8).data if out.size else b"").cast("B")
    while target:
        n_read = stream.readinto(target)  # type: ignore[attr-defined]  # a raw file has it
        if not n_read:  # it was cut while it was read
            raise _ends_early(name)
        target = target[n_read:]


def _ends_early(name: str) -> InvalidDataError:
    return InvalidDataError(f"{name} ends before its last row. Write it again.")
