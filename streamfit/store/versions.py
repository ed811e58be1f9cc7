"""The versions of a store: those that the present one extends, and one that is not committed yet."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from streamfit.errors import StoreCorruptError
from streamfit.store.atomic import remove_file
from streamfit.store.format import HISTORY_FOLDER, JOURNAL_FILE, OWN_FOLDER
from streamfit.store.manifest import load_manifest, read_manifest, write_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from streamfit.store.manifest import Manifest

__all__ = [
    "drop_journal",
    "has_journal",
    "keep_in_history",
    "kept_versions",
    "load_journal",
    "load_version",
    "write_journal",
]

_HISTORY_LENGTH = 32


def load_version(folder: Path, digest: str) -> Manifest:
    """Read the manifest with this digest: the present one, or one that appends have since extended.

    Raises
    ------
    StoreCorruptError
        The store was written anew since, or added to more often than versions are kept.
    StoreNotFoundError, StoreIncompleteError
        See `load_manifest`.
    """
    present = load_manifest(folder, allow_incomplete=True)
    if present.digest == digest:
        return present
    try:
        return read_manifest(folder / OWN_FOLDER / HISTORY_FOLDER / f"{digest}.json")
    except (FileNotFoundError, StoreCorruptError):
        grown = len(_history_files(folder)) >= _HISTORY_LENGTH
        how = f"added to more than {_HISTORY_LENGTH} times" if grown else "written anew"
        raise StoreCorruptError(f"The store {folder} was {how} since it was opened. Open it again.") from None


def keep_in_history(folder: Path, manifest: Manifest) -> None:
    """Keep a manifest that is about to be extended, so that those who opened it can go on reading."""
    before = _history_files(folder)
    file = folder / OWN_FOLDER / HISTORY_FOLDER / f"{manifest.digest}.json"
    write_manifest(file, manifest)
    if before and before[-1] != file and file.stat().st_mtime_ns <= (newest := before[-1].stat().st_mtime_ns):
        os.utime(file, ns=(newest + 1, newest + 1))  # a clock that was set back must not make it the first to go
    for file in _history_files(folder)[:-_HISTORY_LENGTH]:
        file.unlink()


def kept_versions(folder: Path) -> list[Manifest]:
    """Give the manifests of the history, oldest first; one that is damaged is left out."""
    versions = []
    for file in _history_files(folder):
        with contextlib.suppress(StoreCorruptError):
            versions.append(read_manifest(file))
    return versions


def _history_files(folder: Path) -> list[Path]:
    history = folder / OWN_FOLDER / HISTORY_FOLDER
    return sorted(history.glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))


def write_journal(folder: Path, manifest: Manifest) -> None:
    """Note how far an append came that is not committed yet."""
    write_manifest(folder / OWN_FOLDER / JOURNAL_FILE, manifest)


def load_journal(folder: Path) -> Manifest | None:
    """Read what `write_journal` wrote; None where there is nothing, or nothing that can be read."""
    try:
        return read_manifest(folder / OWN_FOLDER / JOURNAL_FILE)
    except (FileNotFoundError, StoreCorruptError):
        return None


def has_journal(folder: Path) -> bool:
    """Whether an append was stopped, or is running."""
    return (folder / OWN_FOLDER / JOURNAL_FILE).exists()


def drop_journal(folder: Path) -> None:
    """Forget an append that was committed or given up."""
    remove_file(folder / OWN_FOLDER / JOURNAL_FILE)
