"""Archives that end in a checksum of all of them: an archive's own checksums do not cover its directory."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["opened_archive", "sealed_archive"]

_SEAL_NBYTES = 16


def sealed_archive(parts: Mapping[str, bytes | str], *, base: bytes = b"") -> bytes:
    """Make a zip archive, uncompressed, whose comment is a checksum of what is before it.

    Parameters
    ----------
    parts : mapping of str to bytes or str
        Names and contents.
    base : bytes, default=b""
        An archive that they are added to.

    Examples
    --------
    >>> content = sealed_archive({"a.txt": "one"})
    >>> opened_archive(content).read("a.txt")
    b'one'
    >>> opened_archive(content[:-1] + b"x")
    Traceback (most recent call last):
    ...
    zipfile.BadZipFile: its checksum is another one
    """
    content = io.BytesIO(base)
    with zipfile.ZipFile(content, "a" if base else "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
        archive.comment = b"0" * _SEAL_NBYTES
    body = content.getvalue()[:-_SEAL_NBYTES]
    return body + _seal(body)


def opened_archive(content: bytes) -> zipfile.ZipFile:
    """Open what `sealed_archive` made.

    Raises
    ------
    zipfile.BadZipFile
        It is something else, or was changed.
    """
    if content[-_SEAL_NBYTES:] != _seal(content[:-_SEAL_NBYTES]):
        raise zipfile.BadZipFile("its checksum is another one")
    return zipfile.ZipFile(io.BytesIO(content))


def _seal(content: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(content).encode()
