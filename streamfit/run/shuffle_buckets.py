"""Files of rows on their way through a shuffle, one a bucket, written block by block and verified when they are read.

A block is a header (rows, and the xxh3-64 hash of what follows), the keys of its rows, and their values array by array,
as the store's own files hold them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import xxhash

from streamfit.errors import StoreCorruptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.run.shuffle_rows import RowBuffer

__all__ = ["BucketFiles"]

_HEADER = struct.Struct("<QQ")


class BucketFiles:
    """The files of all buckets in one folder.

    Parameters
    ----------
    folder : Path
        A folder that exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, bucket: int) -> Path:
        return self._folder / f"bucket-{bucket}"

    def append(self, bucket: int, block: Mapping[str, NDArray[Any]]) -> int:
        """Write a block behind the others of its bucket; give its bytes."""
        # The bucket is in the hash, so that no file can stand in for another one.
        digest = xxhash.xxh3_64(seed=bucket)
        for values in block.values():
            digest.update(values.data)
        n_rows = len(next(iter(block.values())))
        with self._file(bucket).open("ab", buffering=0) as file:
            header = memoryview(_HEADER.pack(n_rows, digest.intdigest()))
            for part in (header, *(values.data for values in block.values())):
                rest = part.cast("B")
                while rest:
                    rest = rest[file.write(rest) :]
        return _HEADER.size + sum(values.nbytes for values in block.values())

    def cut(self, sizes: Sequence[int], *, first: int) -> bool:
        """Cut each bucket from the first to the bytes that are known to be good; tell whether they are all there."""
        for bucket in range(first, len(sizes)):
            file = self._file(bucket)
            nbytes = file.stat().st_size if file.exists() else 0
            if nbytes < sizes[bucket]:
                return False
            if nbytes > sizes[bucket]:
                with file.open("r+b") as stream:
                    stream.truncate(sizes[bucket])
        return True

    def read(self, bucket: int, buffer: RowBuffer, *, n_rows: int) -> None:
        """Hold all rows of a bucket.

        Raises
        ------
        StoreCorruptError
            They are not those that were written.
        """
        buffer.clear()
        if not n_rows:
            return
        try:
            with self._file(bucket).open("rb", buffering=0) as file:
                while buffer.n_rows < n_rows:
                    self._read_block(file, bucket, buffer, most_rows=n_rows - buffer.n_rows)
        except (FileNotFoundError, EOFError) as error:
            raise StoreCorruptError(
                f"The scratch file {self._file(bucket)} is not as it was written. "
                "Shuffle again: the rows are scattered anew."
            ) from error

    @staticmethod
    def _read_block(file: Any, bucket: int, buffer: RowBuffer, *, most_rows: int) -> None:
        header = bytearray(_HEADER.size)
        _read_exactly(file, memoryview(header))
        n_rows, expected = _HEADER.unpack(header)
        if not 0 < n_rows <= most_rows:
            raise EOFError
        digest = xxhash.xxh3_64(seed=bucket)
        for values in buffer.room(n_rows):
            _read_exactly(file, memoryview(values.data).cast("B"))
            digest.update(values.data)
        if digest.intdigest() != expected:
            raise EOFError

    def remove(self, bucket: int) -> None:
        """Remove a bucket that is used up."""
        self._file(bucket).unlink(missing_ok=True)


def _read_exactly(file: Any, target: memoryview) -> None:
    while target:
        n_read = file.readinto(target)
        if not n_read:
            raise EOFError
        target = target[n_read:]
