"""How a source is known again: names, sizes and hashes; never a clock or an absolute path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from streamfit.sources.source import block_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["array_hash", "describe_files"]

_WHOLE_NBYTES = 2**30
_SAMPLE_NBYTES = 64 * 2**10
_N_SAMPLES = 16
_READ_NBYTES = 2**20


def describe_files(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Describe files by name, size, and a hash: of all bytes up to 1 GiB, else of sixteen parts of 64 KiB.

    The parts lie between the first and the last byte; an edit that keeps the size and misses them is not seen.
    """
    return [{"name": file.name, "nbytes": file.stat().st_size, "hash": _file_hash(file)} for file in files]


def _file_hash(file: Path) -> str:
    nbytes = file.stat().st_size
    hasher = xxhash.xxh3_64()
    with file.open("rb", buffering=0) as stream:
        if nbytes <= _WHOLE_NBYTES:
            while content := stream.read(_READ_NBYTES):
                hasher.update(content)
            return hasher.hexdigest()
        last = nbytes - _SAMPLE_NBYTES
        for number in range(_N_SAMPLES):
            stream.seek(last * number // (_N_SAMPLES - 1))
            hasher.update(stream.read(_SAMPLE_NBYTES))
    return hasher.hexdigest()


def array_hash(values: NDArray[Any]) -> str:
    """Hash all values of an array in row order, a block of rows at a time."""
    hasher = xxhash.xxh3_64(f"{values.shape}{values.dtype.str}".encode())
    if values.dtype.kind in "OT":  # texts and mixtures have no bytes of their own
        for value in values.tolist():
            hasher.update(f"{type(value).__name__}:{value!s}\0".encode(errors="surrogatepass"))
        return hasher.hexdigest()
    step = block_rows(values[:1].nbytes)
    for start in range(0, len(values), step):
        hasher.update(np.ascontiguousarray(values[start : start + step]).view(np.uint8).data)
    return hasher.hexdigest()
