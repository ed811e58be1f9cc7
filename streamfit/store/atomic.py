"""Files that are replaced as a whole, and bytes that outlive a power cut."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["flush_files", "make_folder", "remove_file", "write_atomically"]


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file so that it has the old content or the new one, whatever happens meanwhile.

    Raises
    ------
    OSError
        It cannot be written; the old file is as it was.
    """
    make_folder(file.parent)
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


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, on the disk and not only in the system's memory."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _flush(folder.parent)


def remove_file(file: Path) -> None:
    """Remove a file, if it is there, so that it does not come back after a power cut."""
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
        _flush(file.parent)


def flush_files(folder: Path, files: Iterable[Path]) -> None:
    """Return when these files of a folder are on the disk, and the names of all folders down to them."""
    folders = {folder}
    for file in files:
        _flush(file)
        folders.update(file.parents[: len(file.relative_to(folder).parts) - 1])
    for path in folders:
        _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
