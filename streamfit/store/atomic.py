"""Files that are replaced as a whole, and bytes that outlive a power cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["flush_files", "write_atomically"]


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file so that it has the old content or the new one, whatever happens meanwhile.

    Raises
    ------
    OSError
        It cannot be written; the old file is as it was.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    _flush(file.parent)


def flush_files(files: Iterable[Path]) -> None:
    """Return when the bytes of these files are on the disk and not only in the system's memory."""
    folders = set()
    for file in files:
        _flush(file)
        folders.add(file.parent)
    for folder in folders:
        _flush(folder)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
