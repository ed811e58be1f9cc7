"""One chunk as one file: encoded and written as a whole, read and decoded into a given buffer.

Zarr's own pipeline reads a lost file as fill values, copies each chunk twice, and needs an event loop that
does not survive a fork. The files are those that Zarr would write, so that any Zarr reads them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from streamfit.store.encodings import EncodingError, decode, encode, most_encoded_nbytes
from streamfit.store.spare_buffers import spare_buffer

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.store.format import ArraySpec

__all__ = ["ChunkFileError", "checksum", "read_chunk_file", "write_chunk_file"]


class ChunkFileError(Exception):
    """A chunk's file is not what a writer left. The message is the reason."""


def checksum(values: Any) -> str:
    """Hash the bytes of a C-contiguous array, without a copy and outside the GIL; of CSR rows, of their arrays."""
    if isinstance(values, np.ndarray):
        return xxhash.xxh3_64_hexdigest(values.data)
    hasher = xxhash.xxh3_64()
    for part in (values.indptr, values.indices, values.data):
        hasher.update(np.ascontiguousarray(part).data)
    return hasher.hexdigest()


def write_chunk_file(folder: Path, spec: ArraySpec, index: int, values: NDArray[Any]) -> None:
    """Write a chunk so that a reader sees the old file or the new one, and nothing in between.

    Parameters
    ----------
    folder : Path
        The store.
    spec : ArraySpec
        The array.
    index : int
        Number of the chunk.
    values : ndarray of shape (n_rows,) or (n_rows, n_columns)
        At most ``spec.chunk_rows`` rows in C order; the rest of the chunk is filled.

    Raises
    ------
    OSError
        The file cannot be written; the old one is as it was.
    """
    if len(values) < spec.chunk_rows:
        padded = np.full(spec.shape(spec.chunk_rows), spec.fill_value, dtype=spec.dtype)
        padded[: len(values)] = values
        values = padded
    target = spec.chunk_file(folder, index)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb", buffering=0) as file:
            rest = encode(values, spec)
            while rest:  # one call writes at most 2 GiB
                rest = rest[file.write(rest) :]
            if target.exists():  # a manifest may promise rows of the old file
                os.fsync(file.fileno())
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)  # a full disk needs the room
        raise


def read_chunk_file(folder: Path, spec: ArraySpec, index: int, out: NDArray[Any]) -> None:
    """Read the first rows of a chunk into a C-contiguous buffer.

    Parameters
    ----------
    folder : Path
        The store.
    spec : ArraySpec
        The array.
    index : int
        Number of the chunk.
    out : ndarray of shape (n_rows,) or (n_rows, n_columns)
        Receives as many rows as it has, at most ``spec.chunk_rows``.

    Raises
    ------
    ChunkFileError
        The file is missing, has another length, or cannot be decoded.
    """
    target = memoryview(out.data).cast("B")
    try:
        with spec.chunk_file(folder, index).open("rb", buffering=0) as file:
            nbytes = os.fstat(file.fileno()).st_size
            if spec.codec == "raw":
                if nbytes != spec.chunk_nbytes:
                    raise ChunkFileError(f"its file has {nbytes} bytes instead of {spec.chunk_nbytes}")
                _read_exactly(file, target)
                return
            most_nbytes = most_encoded_nbytes(spec)
            if nbytes > most_nbytes:
                raise ChunkFileError(f"its file has {nbytes} bytes, more than were written")
            with spare_buffer(nbytes, most_nbytes=most_nbytes) as encoded:
                _read_exactly(file, encoded)
                decode(encoded, spec, target)
    except FileNotFoundError:
        raise ChunkFileError("its file is missing") from None
    except OSError as error:
        raise ChunkFileError(f"its file cannot be read ({error})") from error
    except EncodingError as error:
        raise ChunkFileError(str(error)) from error


def _read_exactly(file: Any, target: memoryview) -> None:
    while target:
        n_read = file.readinto(target)
        if not n_read:
            raise ChunkFileError("its file became shorter while it was read")
        target = target[n_read:]
