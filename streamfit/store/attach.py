"""Labels, weights and ids for the rows that a store has already."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamfit.errors import InvalidDataError, StoreExistsError
from streamfit.maths.sampling import recut
from streamfit.store.atomic import flush_files
from streamfit.store.chunk_files import checksum, write_chunk_file
from streamfit.store.destination import give_up_append, locked, writing
from streamfit.store.encodings import choose_codec
from streamfit.store.format import ArraySpec, local_folder
from streamfit.store.label_encoder import LabelEncoder
from streamfit.store.label_values import check_chunk_of_labels
from streamfit.store.manifest import commit_manifest, load_manifest
from streamfit.store.row_values import as_ids, as_weights
from streamfit.store.versions import keep_in_history, kept_versions
from streamfit.store.zarr_metadata import write_array_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.store.labels import LabelInfo
    from streamfit.store.manifest import Manifest

__all__ = ["IfAttached", "attach_columns"]

IfAttached = Literal["resume", "overwrite", "error"]


def attach_columns(
    path: str | PathLike[str], columns: Mapping[str, Iterable[Any]], *, if_exists: IfAttached
) -> Manifest:
    """Add columns to a complete store, all or none of them. Those who have it open go on reading what they know.

    Parameters
    ----------
    path : path-like
        Folder of the store.
    columns : mapping of str to iterable of array-like
        ``y``, ``sample_weight`` or ``ids``: one value for each row, in blocks of any lengths.
    if_exists : {"resume", "overwrite", "error"}
        What to do with a column that the store has: leave it where the values are the same, replace it, or refuse.

    Returns
    -------
    Manifest
        What the store holds now.

    Raises
    ------
    InvalidDataError
        There is not one value for each row, or a value cannot be used.
    StoreExistsError
        The store has such a column, with other values or where `if_exists` says so.
    StoreNotFoundError, StoreIncompleteError
        There is no complete store.
    StoreLockedError
        A writer holds it.
    StoreWriteError
        It cannot be written.
    """
    folder = local_folder(path)
    load_manifest(folder)
    with locked(folder, new=False) as lock:
        base = load_manifest(folder)
        taken = sorted(columns.keys() & base.arrays.keys())
        if taken and if_exists == "error":
            raise _taken(folder, taken)
        with contextlib.ExitStack() as attempt:
            manifest = base
            for name, blocks in columns.items():
                with writing(folder):
                    free = _free_folder(folder, base, name)
                # What failed must not hold room on the disk.
                attempt.callback(shutil.rmtree, folder / free, ignore_errors=True)
                manifest = _with_column(folder, manifest, name, free, blocks)
            other = [name for name in taken if not _is_same(base, manifest, name)]
            if other and if_exists == "resume":
                raise _taken(folder, other)
            if other or taken != sorted(columns):
                lock.check()
                manifest = dataclasses.replace(manifest, extends=base.digest)
                with writing(folder):
                    keep_in_history(folder, base)
                    give_up_append(folder, base)  # it goes on from the version before
                    attempt.pop_all()
                    commit_manifest(folder, manifest)
            else:
                manifest = base
        lock.release()
    return manifest


def _taken(folder: Path, names: Sequence[str]) -> StoreExistsError:
    return StoreExistsError(
        f'The store {folder} has {" and ".join(names)} already. Say if_exists="overwrite" to replace what it has.'
    )


def _is_same(base: Manifest, manifest: Manifest, name: str) -> bool:
    """Whether a column was attached with the values that it had."""
    # Codes of texts have a meaning only with their classes.
    labels = [each.labels and each.labels.to_json() for each in (base, manifest)] if name == "y" else [None, None]
    return labels[0] == labels[1] and base.checksums[name] == manifest.checksums[name]


def _with_column(folder: Path, base: Manifest, name: str, free: str, blocks: Iterable[Any]) -> Manifest:
    """Write an array into a folder that no version of the store knows."""
    writer = _ColumnWriter(folder, base, name, free)
    for chunk in recut(writer.stored_blocks(blocks), base.chunk_rows):
        with writing(folder):
            writer.write(chunk)
    with writing(folder):
        spec = writer.finish()
    manifest = dataclasses.replace(
        base,
        arrays={**base.arrays, name: spec},
        checksums={**base.checksums, name: tuple(writer.checksums)},
    )
    if name != "y":
        return manifest
    return dataclasses.replace(manifest, labels=writer.labels.info(), whole_labels=writer.whole_labels)


class _ColumnWriter:
    """Writes one array, chunk by chunk."""

    def __init__(self, folder: Path, base: Manifest, name: str, free: str) -> None:
        self.labels = LabelEncoder()
        self.whole_labels: LabelInfo | None = None
        self.checksums: list[str] = []
        self._folder = folder
        self._base = base
        self._name = name
        self._free = free
        self._spec: ArraySpec | None = None
        self._files: list[Path] = []
        self._n_rows = 0

    def stored_blocks(self, blocks: Iterable[Any]) -> Iterator[NDArray[Any]]:
        """Turn values into what is stored, and count them."""
        n_rows, n_given = self._base.n_rows, 0
        encode = {"y": self.labels.encode, "sample_weight": as_weights, "ids": as_ids}[self._name]
        for block in blocks:
            values = encode(block, start=n_given) if len(block) else np.empty(0)
            n_given += len(values)
            if n_given > n_rows:
                break
            if len(values):
                if self._name == "y":
                    check_chunk_of_labels(values, chunk_rows=self._base.chunk_rows)
                yield values
        if n_given != n_rows:
            more = " or more" if n_given > n_rows else ""
            raise InvalidDataError(
                f"{self._name} has {n_given} values{more} and the store has {n_rows} rows. Give one value for each row."
            )

    def write(self, values: NDArray[Any]) -> None:
        """Write the next chunk."""
        index, start = len(self.checksums), self._n_rows
        if self._spec is None:
            self._spec = ArraySpec(
                name=self._name,
                dtype=values.dtype,
                n_columns=values.shape[1] if values.ndim == 2 else None,
                chunk_rows=self._base.chunk_rows,
                codec=choose_codec(values, self._base.compression),
                folder=self._free,
            )
        write_chunk_file(self._folder, self._spec, index, values)
        self._files.append(self._spec.chunk_file(self._folder, index))
        self.checksums.append(checksum(values))
        if self._name == "y":
            if len(values) < self._base.chunk_rows:
                self.whole_labels = self.labels.info() if index else None
            self.labels.count(values, start=start)
        self._n_rows += len(values)

    def finish(self) -> ArraySpec:
        """Put all of it on the disk."""
        if self._spec is None:
            raise AssertionError("a store has rows")
        flush_files(self._folder, self._files)
        write_array_metadata(self._folder, self._spec, n_rows=self._n_rows)
        return self._spec


def _free_folder(folder: Path, base: Manifest, name: str) -> str:
    """Choose a folder that no version knows, so that open readers keep theirs, and empty it."""
    versions = [base, *kept_versions(folder)]
    known = {spec.folder for version in versions for spec in version.arrays.values()}
    number, free = 0, name
    while free in known:
        number += 1
        free = f"{name}.{number}"
    if (folder / free).exists():
        shutil.rmtree(folder / free)  # of an attempt that was stopped
    return free
