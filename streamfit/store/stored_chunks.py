"""The chunks of a store as they were committed: read, and compared with their checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.errors import StoreCorruptError
from streamfit.store.chunk_files import ChunkFileError, checksum, read_chunk_file
from streamfit.store.parts import read_part
from streamfit.store.versions import load_version

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from streamfit.options import VerifyMode
    from streamfit.store.manifest import Manifest

__all__ = ["StoredChunks"]


class StoredChunks:
    """Verified reads of stored chunks. It holds no open files and may be used by many threads at once.

    Parameters
    ----------
    folder : Path
        The store.
    manifest : Manifest
        What was committed.
    verify : {"always", "first", "never"}
        Compare checksums at every read, at the first read of each chunk, or never.
    """

    def __init__(self, folder: Path, manifest: Manifest, verify: VerifyMode) -> None:
        self._folder = folder
        self._manifest = manifest
        self._verify = verify
        self._verified: set[tuple[str, int]] = set()

    def read(self, name: str, index: int, out: NDArray[Any]) -> None:
        """Decode the committed rows of one chunk of one array into a buffer of exactly those rows.

        Raises
        ------
        StoreCorruptError
            The stored bytes are not those that were committed; it names the array, the chunk and its rows.
        """
        try:
            read_chunk_file(self._folder, self._manifest.arrays[name], index, out)
        except ChunkFileError as error:
            raise self._corrupt(name, index, str(error)) from error
        self._check(name, index, out)

    def read_sparse(self, index: int) -> csr_array:
        """Read the committed rows of one part of a sparse store's features.

        Raises
        ------
        StoreCorruptError
            As `read`.
        """
        start, stop = self._manifest.layout.chunk_bounds(index)
        spec, nnz = self._manifest.arrays["X"], self._manifest.nnz[index]
        try:
            rows = read_part(self._folder, spec, index, n_rows=stop - start, nnz=nnz)
        except ChunkFileError as error:
            raise self._corrupt("X", index, str(error)) from error
        self._check("X", index, rows)
        return rows

    def _check(self, name: str, index: int, values: Any) -> None:
        if self._verify == "always" or (self._verify == "first" and (name, index) not in self._verified):
            if checksum(values) != self._manifest.checksums[name][index]:
                raise self._corrupt(name, index, "its bytes are not those that were written")
            if self._verify == "first":
                self._verified.add((name, index))

    def _corrupt(self, name: str, index: int, reason: str) -> StoreCorruptError:
        start, stop = self._manifest.layout.chunk_bounds(index)
        message = f"Chunk {index} of {name} (rows {start} to {stop - 1}) in {self._folder} is corrupt: {reason}. "
        try:
            load_version(self._folder, self._manifest.digest)
            message += "Repair it from its source (streamfit.repair), or write the store again."
        except OSError as error:  # the version that is read here is gone: say so
            message += str(error)
        return StoreCorruptError(message, array=name, chunk=index, rows=(start, stop))
