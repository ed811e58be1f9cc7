"""One chunk as one file: encoded and written as a whole, read and decoded into a given buffer.

Zarr's own pipeline reads a lost file as fill values, copies each chunk twice, and needs an event loop that
does not survive a fork. The encodings here are Zarr's ``bytes`` and ``blosc`` codecs, so that any Zarr reads
the files.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numcodecs.blosc import Blosc

from streamfit.store.format import CODECS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.store.format import ArraySpec, Codec

__all__ = ["ChunkFileError", "checksum", "choose_codec", "read_chunk_file", "write_chunk_file"]

BLOSC_LEVEL = 5
_MIN_GAIN = 0.2

# Version of blosc's format, of its lz4 format, flags, size of an item; bytes decoded, of a block, encoded.
_BLOSC_HEADER = struct.Struct("<4B3I")
_BLOSC_FLAGS = {"blosc-lz4": 0x21, "blosc-lz4-bits": 0x24}
"""Shuffled by bytes or by bits, and in the lz4 format."""
_BLOSC_FREE_FLAGS = 0x12
"""Copied where nothing shrinks, and not split by the bytes of an item: Blosc decides chunk by chunk."""


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


def _blosc(codec: Codec) -> Blosc:
    shuffle = Blosc.BITSHUFFLE if codec == "blosc-lz4-bits" else Blosc.SHUFFLE
    return Blosc(cname="lz4", clevel=BLOSC_LEVEL, shuffle=shuffle, blocksize=0)


def choose_codec(values: Any) -> Codec:
    """Compress only where the first chunk shrinks by a fifth, which noise-like floats never do, and as it shrinks most.

    Shuffled by bits, quantised values and flags take less than half of what they take shuffled by bytes, and are read
    as quickly; sequences may take less by bytes. See ``tests/benchmarks/bench_formats.py``.
    """
    parts = [values] if isinstance(values, np.ndarray) else [values.data, values.indices, values.indptr]
    parts = [np.ascontiguousarray(part) for part in parts if len(part)]
    sizes: dict[Codec, int] = {
        codec: sum(len(_blosc(codec).encode(part)) for part in parts) for codec in CODECS if codec != "raw"
    }
    least = min(sizes, key=sizes.__getitem__)
    return least if sizes[least] <= (1 - _MIN_GAIN) * sum(part.nbytes for part in parts) else "raw"


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
            rest = memoryview(values.data if spec.codec == "raw" else _blosc(spec.codec).encode(values)).cast("B")
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
            if nbytes > spec.chunk_nbytes + _BLOSC_HEADER.size:  # where nothing shrinks, Blosc copies
                raise ChunkFileError(f"its file has {nbytes} bytes, more than were written")
            encoded = bytearray(nbytes)
            _read_exactly(file, memoryview(encoded))
    except FileNotFoundError:
        raise ChunkFileError("its file is missing") from None
    except OSError as error:
        raise ChunkFileError(f"its file cannot be read ({error})") from error
    _decode_blosc(encoded, spec, target)


def _read_exactly(file: Any, target: memoryview) -> None:
    while target:
        n_read = file.readinto(target)
        if not n_read:
            raise ChunkFileError("its file became shorter while it was read")
        target = target[n_read:]


def _decode_blosc(encoded: bytearray, spec: ArraySpec, target: memoryview) -> None:
    # Blosc trusts its header: another shuffle is other rows without an error.
    if len(encoded) < _BLOSC_HEADER.size:
        raise ChunkFileError(f"its file has {len(encoded)} bytes, fewer than were written")
    version, lz4_version, flags, itemsize, nbytes, block_nbytes, n_encoded = _BLOSC_HEADER.unpack_from(encoded)
    if n_encoded != len(encoded):
        raise ChunkFileError(f"its file has {len(encoded)} bytes, and its header says {n_encoded}")
    written = (2, 1, _BLOSC_FLAGS[spec.codec], spec.dtype.itemsize, spec.chunk_nbytes)
    if (version, lz4_version, flags & ~_BLOSC_FREE_FLAGS, itemsize, nbytes) != written or block_nbytes > nbytes:
        raise ChunkFileError("its header is not one that was written")
    whole = target if len(target) == nbytes else memoryview(bytearray(nbytes))
    try:
        _blosc(spec.codec).decode(encoded, out=whole)
    except (RuntimeError, ValueError) as error:
        raise ChunkFileError(f"its file cannot be decoded ({error})") from error
    if whole is not target:
        target[:] = whole[: len(target)]
