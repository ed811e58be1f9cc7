"""The bytes of a chunk as they lie in its file: compressed by Blosc's lz4 or by zstd, and given back.

The encodings are Zarr's own ``blosc`` and ``zstd`` codecs, so that any Zarr reads the files. Decoders believe what the
head of a chunk says, where one flipped bit may be other rows without an error: so it has to be one that we write before
anything is decoded.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numcodecs.blosc import Blosc
from numcodecs.zstd import Zstd

if TYPE_CHECKING:
    from streamfit.store.format import ArraySpec, Codec, Compression

__all__ = ["EncodingError", "choose_codec", "codec_metadata", "decode", "encode", "most_encoded_nbytes"]

_BLOSC_LEVEL = 5
_ZSTD_LEVEL = 1
_MIN_GAIN = 0.2

# Version of blosc's format, of its lz4 format, flags, size of an item; bytes decoded, of a block, encoded.
_BLOSC_HEADER = struct.Struct("<4B3I")
_BLOSC_FLAGS = {"blosc-lz4": 0x21, "blosc-lz4-bits": 0x24}
"""Shuffled by bytes or by bits, and in the lz4 format."""
_BLOSC_FREE_FLAGS = 0x12
"""Copied where nothing shrinks, and not split by the bytes of an item: Blosc decides chunk by chunk."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SINGLE_SEGMENT = 0x20
"""The whole chunk is the window, whose size then is not told."""
_ZSTD_REFUSED_FLAGS = 0x1F
"""A dictionary, a checksum of its own, and what is reserved."""
_ZSTD_SIZE_NBYTES = (1, 2, 4, 8)
"""Bytes of the field that tells the decoded size, by the two highest bits of the flags."""


class EncodingError(Exception):
    """Bytes are not what `encode` gave. The message is the reason."""


# -- which ---------------------------------------------------------------------------------------------


def choose_codec(values: Any, compression: Compression) -> Codec:
    """Choose how the chunks of an array are encoded, by the first of them.

    Without a wish they are compressed only where the first one shrinks by a fifth, which noise-like floats never do. By
    lz4 they are shuffled as they shrink most: by bits, quantised values and flags take less than half of what they take
    by bytes, and are read as quickly; sequences may take less by bytes. See ``tests/benchmarks/bench_formats.py``.

    Parameters
    ----------
    values : ndarray or csr_array
        The first chunk.
    compression : {"auto", "none", "lz4", "zstd"}
        What was asked for.
    """
    if compression == "none":
        return "raw"
    if compression == "zstd":
        return "zstd"
    parts = [values] if isinstance(values, np.ndarray) else [values.data, values.indices, values.indptr]
    parts = [np.ascontiguousarray(part) for part in parts if len(part)]
    sizes: dict[Codec, int] = {
        codec: sum(len(_blosc(codec).encode(part)) for part in parts) for codec in ("blosc-lz4", "blosc-lz4-bits")
    }
    least = min(sizes, key=sizes.__getitem__)
    if compression == "lz4":
        return least
    return least if sizes[least] <= (1 - _MIN_GAIN) * sum(part.nbytes for part in parts) else "raw"


def codec_metadata(spec: ArraySpec) -> dict[str, Any] | None:
    """Give what the metadata of an array tell Zarr about its compression; None where there is none."""
    if spec.codec == "raw":
        return None
    if spec.codec == "zstd":
        return {"name": "zstd", "configuration": {"level": _ZSTD_LEVEL, "checksum": False}}
    settings = {
        "typesize": spec.dtype.itemsize,
        "cname": "lz4",
        "clevel": _BLOSC_LEVEL,
        "shuffle": "bitshuffle" if spec.codec == "blosc-lz4-bits" else "shuffle",
        "blocksize": 0,
    }
    return {"name": "blosc", "configuration": settings}


# -- there and back ------------------------------------------------------------------------------------


def encode(values: Any, spec: ArraySpec) -> memoryview:
    """Give the content of the file of a whole chunk.

    Parameters
    ----------
    values : ndarray
        C-contiguous.
    spec : ArraySpec
        The array.
    """
    if spec.codec == "raw":
        return memoryview(values.data).cast("B")
    codec = _zstd() if spec.codec == "zstd" else _blosc(spec.codec)
    return memoryview(codec.encode(values)).cast("B")


def most_encoded_nbytes(spec: ArraySpec) -> int:
    """Bound the bytes of the file of a chunk."""
    nbytes = spec.chunk_nbytes
    if spec.codec == "raw":
        return nbytes
    if spec.codec == "zstd":  # ZSTD_COMPRESSBOUND
        return nbytes + (nbytes >> 8) + (max(0, 2**17 - nbytes) >> 11)
    return nbytes + _BLOSC_HEADER.size  # where nothing shrinks, Blosc copies


def decode(encoded: Any, spec: ArraySpec, target: memoryview) -> None:
    """Decode a compressed chunk into a buffer.

    Parameters
    ----------
    encoded : buffer
        What `encode` gave.
    spec : ArraySpec
        The array.
    target : memoryview of bytes
        Receives as many bytes as it has, from the first on.

    Raises
    ------
    EncodingError
        It is not what was encoded, as far as can be told without a checksum.
    """
    codec: Any
    if spec.codec == "zstd":
        _check_zstd_header(encoded, spec)
        codec = _zstd()
    else:
        _check_blosc_header(encoded, spec)
        codec = _blosc(spec.codec)
    whole = target if len(target) == spec.chunk_nbytes else np.empty(spec.chunk_nbytes, dtype=np.uint8).data
    try:
        codec.decode(encoded, out=whole)
    except (RuntimeError, ValueError) as error:
        raise EncodingError(f"its file cannot be decoded ({error})") from error
    if whole is not target:
        target[:] = whole[: len(target)]


def _blosc(codec: Codec) -> Blosc:
    shuffle = Blosc.BITSHUFFLE if codec == "blosc-lz4-bits" else Blosc.SHUFFLE
    return Blosc(cname="lz4", clevel=_BLOSC_LEVEL, shuffle=shuffle, blocksize=0)


def _zstd() -> Zstd:
    return Zstd(level=_ZSTD_LEVEL, checksum=False)


def _check_blosc_header(encoded: Any, spec: ArraySpec) -> None:
    # Blosc trusts its header: another shuffle is other rows without an error.
    if len(encoded) < _BLOSC_HEADER.size:
        raise EncodingError(f"its file has {len(encoded)} bytes, fewer than were written")
    version, lz4_version, flags, itemsize, nbytes, block_nbytes, n_encoded = _BLOSC_HEADER.unpack_from(encoded)
    if n_encoded != len(encoded):
        raise EncodingError(f"its file has {len(encoded)} bytes, and its header says {n_encoded}")
    written = (2, 1, _BLOSC_FLAGS[spec.codec], spec.dtype.itemsize, spec.chunk_nbytes)
    if (version, lz4_version, flags & ~_BLOSC_FREE_FLAGS, itemsize, nbytes) != written or block_nbytes > nbytes:
        raise EncodingError("its header is not one that was written")


def _check_zstd_header(encoded: Any, spec: ArraySpec) -> None:
    """Compare the head of a frame, as RFC 8878 (3.1.1.1) lays it out, with what is written for a chunk."""
    head = bytes(encoded[:14])  # magic number, flags, size of the window, decoded size: the longest there is
    flags = head[4] if len(head) > 4 else 0xFF
    if head[:4] != _ZSTD_MAGIC or flags & _ZSTD_REFUSED_FLAGS:
        raise EncodingError("its header is not one that was written")
    single = bool(flags & _ZSTD_SINGLE_SEGMENT)
    n_size, start = _ZSTD_SIZE_NBYTES[flags >> 6], 5 if single else 6
    field = head[start : start + n_size]
    if (n_size == 1 and not single) or len(field) < n_size:
        raise EncodingError("its header is not one that was written")
    nbytes = int.from_bytes(field, "little") + (256 if n_size == 2 else 0)
    if nbytes != spec.chunk_nbytes:
        raise EncodingError(f"its header says {nbytes} bytes, and {spec.chunk_nbytes} were written")
