"""What lies where a store is to be written: gone on with, written over, or left alone."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Literal

from streamfit.errors import StoreExistsError, StoreNotFoundError
from streamfit.store.format import ARRAY_NAMES, HISTORY_FOLDER, LOCK_FILE, MANIFEST_FILE, OWN_FOLDER
from streamfit.store.manifest import Manifest, commit_manifest, load_manifest
from streamfit.store.zarr_metadata import create_group

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["IfExists", "prepare", "refuse_strange_folder"]

IfExists = Literal["resume", "overwrite", "error"]

_IDENTITY = ("source", "n_features", "dtype", "chunk_rows", "feature_names", "nonfinite")


def refuse_strange_folder(folder: Path) -> None:
    """Refuse what no streamfit writer has made.

    Raises
    ------
    StoreExistsError
        There is a file, or a folder that is neither empty nor a store.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / OWN_FOLDER / LOCK_FILE).exists()):
        raise StoreExistsError(f"{folder} exists and is not a streamfit store. Choose another path.")


def _shortly(value: object) -> str:
    return textwrap.shorten(repr(value), width=160, placeholder=" …")


def prepare(folder: Path, blank: Manifest, if_exists: IfExists) -> Manifest:
    """Decide what is kept, and begin a new store if nothing is. The caller holds the lock.

    Parameters
    ----------
    folder : Path
        Where the store is written.
    blank : Manifest
        What is to be written, without rows.
    if_exists : {"resume", "overwrite", "error"}
        What to do with a store that is there.

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
    # Without rows nothing is lost: a first attempt that was refused must not stand in the way of the next.
    if stored.n_rows and if_exists == "error":
        raise StoreExistsError(f'There is a store at {folder}. Choose another path or say if_exists="overwrite".')
    if stored.n_rows and if_exists == "resume":
        for name in _IDENTITY:
            has, wants = getattr(stored, name), getattr(blank, name)
            if has != wants:
                raise StoreExistsError(
                    f"The store {folder} was written with {name}={_shortly(has)}, now it is {_shortly(wants)}. "
                    'Choose another path or say if_exists="overwrite".'
                )
        return stored
    _remove_store(folder)
    create_group(folder)
    commit_manifest(folder, blank)
    return blank


def _remove_store(folder: Path) -> None:
    # The manifest goes first: what is left without one never counts. What is not ours stays, and the lock.
    own = folder / OWN_FOLDER
    for file in (own / MANIFEST_FILE, own / "zarr.json", folder / "zarr.json"):
        file.unlink(missing_ok=True)
    for stale in (own / HISTORY_FOLDER, *(folder / name for name in ARRAY_NAMES)):
        if stale.exists():
            shutil.rmtree(stale)
