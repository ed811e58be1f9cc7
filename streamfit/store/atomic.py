"""Files that are replaced as a whole, and bytes that outlive a power cut."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

__all__ = ["flush_file", "flush_files", "flush_names", "make_folder", "remove_file", "write_atomically"]


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
    flush_file(file.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, on the disk and not only in the system's memory."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        flush_file(folder.parent)


def remove_file(file: Path) -> None:
    """Remove a file, if it is there, so that it does not come back after a power cut."""
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
        flush_file(file.parent)


def flush_files(folder: Path, files: Collection[Path]) -> None:
    """Return when these files of a folder are on the disk, and the names of all folders down to them."""
    for file in files:
        flush_file(file)
    flush_names(folder, files)


def flush_names(folder: Path, files: Collection[Path]) -> None:
    """Return when the names of these files of a folder are on the disk, and those of all folders down to them."""
    folders = {folder}
    for file in files:
        folders.update(file.parents[: len(file.relative_to(folder).parts) - 1])
    for path in folders:
        flush_file(path)


def flush_file(path: Path) -> None:
    """Return when the content of a file is on the disk, or the names in a folder are."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
