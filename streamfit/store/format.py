"""What lies in a store's folder: names, array types, and the Zarr metadata that other tools read.

::

    features.zarr/
      zarr.json                 a Zarr v3 group
      X/  y/  sample_weight/  ids/       plain Zarr arrays, chunked by whole rows
      X/0/  X/1/  X/2-50/                of a sparse store instead: CSR parts by rows (see `streamfit.store.parts`)
      streamfit/zarr.json       an empty array: Zarr lists no strange files and warns about none
      streamfit/manifest.json   the manifest
      streamfit/lock            held by the one writer
      streamfit/journal.json    how far an append came that is not committed yet
      streamfit/shuffle/        rows on their way, while a shuffle writes the store
      streamfit/history/        manifests that the present one extends, by digest

**How the format may change.** A key may be added to the manifest without a new `FORMAT_VERSION` if a store without it
means what such stores have always meant, and a streamfit that ignores it reads the same rows. Everything else raises
`FORMAT_VERSION`: an older streamfit then refuses the store by name, and `Manifest.from_bytes` goes on reading each
earlier version. For every version a small store that was written with it is kept among the tests and read by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError

if TYPE_CHECKING:
    from os import PathLike

__all__ = [
    "ARRAY_NAMES",
    "CODECS",
    "FORMAT_VERSION",
    "HISTORY_FOLDER",
    "JOURNAL_FILE",
    "LOCK_FILE",
    "MANIFEST_FILE",
    "MAX_CHUNK_NBYTES",
    "OWN_FOLDER",
    "SHUFFLE_FOLDER",
    "ArraySpec",
    "Codec",
    "Compression",
    "local_folder",
    "stored_dtype",
]

MAX_CHUNK_NBYTES = 2**30
"""A chunk exists several times while it is written, and the last one is padded to its whole length."""

FORMAT_VERSION = 4
"""Sparse stores came with 2, zstd with 3, and several labels a row with 4; others are written as 1, so that older
versions read them."""
OWN_FOLDER = "streamfit"
MANIFEST_FILE = "manifest.json"
LOCK_FILE = "lock"
JOURNAL_FILE = "journal.json"
HISTORY_FOLDER = "history"
SHUFFLE_FOLDER = "shuffle"
ARRAY_NAMES = ("X", "y", "sample_weight", "ids")

Codec = Literal["raw", "blosc-lz4", "blosc-lz4-bits", "zstd"]
"""Bytes as they are; lz4 by Blosc, after the bytes or the bits of the values were put together by their place; zstd."""

CODECS: tuple[Codec, ...] = ("raw", "blosc-lz4", "blosc-lz4-bits", "zstd")

Compression = Literal["auto", "none", "lz4", "zstd"]
"""What a store is asked to compress its arrays by: lz4 where the first chunk shrinks by it, nothing, or always so."""


def local_folder(path: str | PathLike[str]) -> Path:
    """Turn a path into an absolute folder of this machine.

    Raises
    ------
    InvalidParameterError
        It is no path.
    UnsupportedError
        The path is a URL.
    """
    if not str(path) or "\0" in str(path):
        raise InvalidParameterError(f"The path of a folder is needed, got {path!r}.")
    if "://" in str(path):
        raise UnsupportedError(f"Stores live in local or mounted folders, got {str(path)!r}. Copy the store first.")
    try:
        return Path(path).expanduser().absolute()
    except (TypeError, RuntimeError) as error:  # no path, or the home of nobody
        raise InvalidParameterError(f"The path of a folder is needed, got {path!r}.") from error


def stored_dtype(dtype: np.dtype[Any], *, what: str) -> np.dtype[Any]:
    """Give the dtype in which values are stored: the same, never one that holds less.

    Parameters
    ----------
    dtype : numpy.dtype
        As the source has it.
    what : str
        What has this dtype, for the message.

    Raises
    ------
    InvalidDataError
        Values of this dtype are not numbers, or no estimator takes them.

    Examples
    --------
    >>> stored_dtype(np.dtype(">i2"), what="X"), stored_dtype(np.dtype("f2"), what="X")
    (dtype('int16'), dtype('float32'))
    >>> stored_dtype(np.dtype(bool), what="X")
    dtype('uint8')
    >>> stored_dtype(np.dtype(complex), what="X")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: X has dtype complex128. Complex data not supported: give integers, booleans, ...
    """
    if dtype.kind == "b":
        return np.dtype("u1")
    if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8)):
        return np.dtype(f"<{dtype.kind}{dtype.itemsize}")
    if dtype.kind == "f" and dtype.itemsize == 2:
        return np.dtype("<f4")
    why = "Complex data not supported: give" if dtype.kind == "c" else "Give"
    raise InvalidDataError(f"{what} has dtype {dtype}. {why} integers, booleans, float32 or float64.")


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One stored array. Its chunks are whole rows; the last one is padded with `fill_value`."""

    name: str
    """What it holds, one of `ARRAY_NAMES`."""
    dtype: np.dtype[Any]
    """Stored dtype, little-endian."""
    n_columns: int | None
    """Columns of a matrix; None for one value a row."""
    chunk_rows: int
    """Rows of a chunk."""
    codec: Codec
    """How a chunk is encoded."""
    folder: str = ""
    """Name of its folder; by default `name`. A replaced array gets another one, so that open readers keep theirs."""
    sparse: bool = False
    """Whether its chunks are CSR parts, as `streamfit.store.parts` writes them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder or self.name)

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row, decoded."""
        return self.dtype.itemsize * (1 if self.n_columns is None else self.n_columns)

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of one whole chunk, decoded."""
        return self.chunk_rows * self.row_nbytes

    @property
    def fill_value(self) -> Any:
        """What Zarr shows where a chunk is lost: never a zero that looks like data."""
        if self.dtype.kind == "f":
            return self.dtype.type(np.nan)
        bounds = np.iinfo(self.dtype)
        return self.dtype.type(bounds.min if self.dtype.kind == "i" else bounds.max)

    def shape(self, n_rows: int) -> tuple[int, ...]:
        """Shape of `n_rows` rows."""
        return (n_rows,) if self.n_columns is None else (n_rows, self.n_columns)

    def chunk_file(self, folder: Path, index: int) -> Path:
        """File of a chunk, by Zarr's default chunk keys."""
        key = (str(index),) if self.n_columns is None else (str(index), "0")
        return folder.joinpath(self.folder, "c", *key)
