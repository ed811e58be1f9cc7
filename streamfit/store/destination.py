"""What lies where a store is to be written: gone on with, written over, or left alone."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from streamfit.errors import (
    StoreCorruptError,
    StoreError,
    StoreExistsError,
    StoreLockedError,
    StoreNotFoundError,
    StoreWriteError,
)
from streamfit.store.compression import has_compression
from streamfit.store.format import ARRAY_NAMES, HISTORY_FOLDER, LOCK_FILE, MANIFEST_FILE, OWN_FOLDER, SHUFFLE_FOLDER
from streamfit.store.lock import StoreLock
from streamfit.store.manifest import Manifest, commit_manifest, load_manifest
from streamfit.store.versions import drop_journal, has_journal, load_journal
from streamfit.store.zarr_metadata import write_array_metadata, write_group_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "IfExists",
    "give_up_append",
    "locked",
    "prepare",
    "refuse_overlap",
    "remove_new_store",
    "sweep_journal",
    "writing",
]

IfExists = Literal["resume", "overwrite", "error"]

_ARRAY_FOLDER = re.compile(rf"({'|'.join(ARRAY_NAMES)})(\.[0-9]+)?")
"""Also of a column that was attached anew."""

_FILE = re.compile(r"source\.files\[(?P<name>.*)\](\.(hash|nbytes))?")
"""Where two descriptions of a source differ in one file."""

_IDENTITY = ("source", "n_features", "dtype", "sparse", "chunk_rows", "feature_names", "categories", "nonfinite")


def refuse_overlap(folder: Path, sources: Sequence[Path]) -> None:
    """Refuse a destination that is, holds, or lies in a source, before anything is deleted.

    Raises
    ------
    StoreExistsError
        They overlap.
    """
    target = folder.resolve()
    for source in sources:
        other = source.resolve()
        if target == other or target in other.parents or other in target.parents:
            raise StoreExistsError(f"The store {folder} would lie over its source {source}. Choose another path.")


@contextlib.contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[StoreLock]:
    """Hold the lock of a store while its writer is made, who keeps it from then on.

    Parameters
    ----------
    folder : Path
        The store.
    new : bool
        Whether it may be made; what no streamfit writer has made is refused.

    Raises
    ------
    StoreExistsError
        There is a file, or a folder that is neither empty nor a store.
    StoreLockedError
        Another writer holds it.
    StoreWriteError
        Nothing can be written there.
    """
    with writing(folder):
        if new:
            _refuse_strange_folder(folder)
        lock = StoreLock(folder)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say what to do where the disk refuses.

    Raises
    ------
    StoreWriteError
        The ``with`` block raised another error of the system.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreWriteError(
            f"The store {folder} cannot be written ({error.strerror or error}). "
            "Free space, make the folder writable, or choose another path."
        ) from error


def _refuse_strange_folder(folder: Path) -> None:
    if not folder.exists():
        return
    if not (folder.is_dir() and _is_ours(folder)):
        raise StoreExistsError(f"{folder} exists and is not a streamfit store. Choose another path.")


def _is_ours(folder: Path) -> bool:
    own = folder / OWN_FOLDER
    if (own / LOCK_FILE).exists():
        return True
    found = list(folder.iterdir())
    # A writer that was killed when it began or ended may have left its own folder, and nothing in it.
    return not found or (found == [own] and own.is_dir() and not any(own.iterdir()))


def _shortly(value: object) -> str:
    return textwrap.shorten(repr(value), width=160, placeholder=" …")


def prepare(folder: Path, blank: Manifest, if_exists: IfExists, *, continues: bool) -> Manifest:
    """Decide what is kept, and begin a new store if nothing is. The caller holds the lock.

    Parameters
    ----------
    folder : Path
        Where the store is written.
    blank : Manifest
        What is to be written, without rows.
    if_exists : {"resume", "overwrite", "error"}
        What to do with a store that is there.
    continues : bool
        Whether rows are known by their source, or are given again to be compared.

    Returns
    -------
    Manifest
        What the store holds: a part or all of the same source, or `blank`.

    Raises
    ------
    StoreExistsError
        A store of something else is there, or any store where `if_exists` says so.
    """
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except StoreNotFoundError:
        stored = blank
    except StoreCorruptError:
        if if_exists != "overwrite":
            raise
        stored = blank
    # Without rows nothing is lost: a first attempt that was refused must not stand in the way of the next.
    if stored.n_rows and if_exists == "error":
        raise StoreExistsError(f'There is a store at {folder}. Choose another path or say if_exists="overwrite".')
    if stored.n_rows and if_exists == "resume":
        _refuse_other(folder, stored, blank)
        if stored.extends is not None and not continues:
            raise StoreExistsError(
                f"Rows or columns were added to the store {folder}, so it cannot be compared with its first source "
                'alone. Use it as it is, append to it, or say if_exists="overwrite", which drops what was added.'
            )
        write_group_metadata(folder)
        return stored
    # The manifest comes first: from here on the store says that it is incomplete, and what lies around does not count.
    commit_manifest(folder, blank)
    _remove_rows(folder)
    if if_exists == "overwrite" or stored.source != blank.source:  # else a shuffle finds what it has scattered
        shutil.rmtree(folder / OWN_FOLDER / SHUFFLE_FOLDER, ignore_errors=True)
    write_group_metadata(folder)
    return blank


def _refuse_other(folder: Path, stored: Manifest, blank: Manifest) -> None:
    lost = " (it drops what was appended)" if stored.appended else ""
    remedy = f'Choose another path or say if_exists="overwrite"{lost}.'
    wished = () if has_compression(stored, blank.compression) else ("compression",)
    for name in (*_IDENTITY, *wished):
        if getattr(stored, name) != getattr(blank, name):
            place, has, wants = _difference(name, getattr(stored, name), getattr(blank, name))
            file = _FILE.fullmatch(place)
            if file is None:
                how = f"was written with {place}={_shortly(has)}, now it is {_shortly(wants)}"
            elif has is None:
                how = f"was written without {file['name']}. To add its rows append it"
            elif wants is None:
                how = f"was written with {file['name']}, which the source has no more"
            else:
                how = f"was written from {file['name']}, which has other content by now"
            raise StoreExistsError(f"The store {folder} {how}. {remedy}")


def _difference(place: str, has: Any, wants: Any) -> tuple[str, Any, Any]:
    """Go down to the first place where two descriptions differ.

    Examples
    --------
    >>> files = [{"name": "a.npy", "hash": "1"}, {"name": "b.npy", "hash": "2"}]
    >>> _difference("files", files, [files[0], {"name": "b.npy", "hash": "3"}])
    ('files[b.npy].hash', '2', '3')
    >>> _difference("files", files[:1], files)
    ('files[b.npy]', None, {'name': 'b.npy', 'hash': '2'})
    """
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(has, Mapping) and isinstance(wants, Mapping):
        parts = [(f"{place}.{key}", has.get(key), wants.get(key)) for key in dict.fromkeys([*wants, *has])]
    elif isinstance(has, (list, tuple)) and isinstance(wants, (list, tuple)):
        for number, pair in enumerate(itertools.zip_longest(has, wants)):
            names = [value["name"] for value in pair if isinstance(value, Mapping) and "name" in value]
            parts.append((f"{place}[{names[0] if names else number}]", *pair))
    for part, old, new in parts:
        if old != new:
            return _difference(part, old, new)
    return place, has, wants


def give_up_append(folder: Path, base: Manifest) -> None:
    """Forget an append that was stopped: Zarr's metadata may tell of its rows already. The caller holds the lock."""
    if has_journal(folder):
        for spec in base.arrays.values():
            write_array_metadata(folder, spec, n_rows=base.n_rows)
        drop_journal(folder)


def sweep_journal(folder: Path) -> None:
    """Remove what an append left that was killed between its commit and its end. A store in use is left alone."""
    if has_journal(folder):
        with contextlib.suppress(StoreLockedError, StoreWriteError), locked(folder, new=False) as lock:
            journal = load_journal(folder)
            if journal is None or journal.extends != load_manifest(folder).digest:
                drop_journal(folder)
            lock.release()


def _remove_rows(folder: Path) -> None:
    # What is not ours stays.
    drop_journal(folder)
    stale = [folder / OWN_FOLDER / HISTORY_FOLDER]
    stale += [path for path in folder.iterdir() if _ARRAY_FOLDER.fullmatch(path.name)]
    for path in stale:
        if path.is_dir():
            shutil.rmtree(path)


def remove_new_store(folder: Path, lock: StoreLock) -> None:
    """Leave nothing of a store that never got a row, but for what is not the writer's. The caller holds the lock."""
    own = folder / OWN_FOLDER
    for file in (own / MANIFEST_FILE, own / "zarr.json", folder / "zarr.json"):
        file.unlink(missing_ok=True)
    _remove_rows(folder)
    if [path.name for path in own.iterdir()] == [LOCK_FILE]:
        lock.remove()
        with contextlib.suppress(OSError):  # somebody else's file is in it, or the next writer's lock
            own.rmdir()
            folder.rmdir()
