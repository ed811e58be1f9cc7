"""Rows in, chunks out: at most one chunk in memory, and a manifest that only tells of what is written."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError, StoreExistsError
from streamfit.store.chunk_files import ChunkFileError, checksum, choose_codec, read_chunk_file, write_chunk_file
from streamfit.store.destination import IfExists, prepare, refuse_strange_folder
from streamfit.store.format import ArraySpec, local_folder, stored_dtype
from streamfit.store.labels import LabelEncoder
from streamfit.store.lock import StoreLock
from streamfit.store.manifest import Manifest, NonFinite, commit_manifest, keep_in_history, load_manifest
from streamfit.store.reader import Reader, StoreRef
from streamfit.store.row_values import as_features, as_ids, as_weights, nonfinite_error
from streamfit.store.statistics import Statistics
from streamfit.store.zarr_metadata import create_array, resize_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["StoreWriter"]

logger = logging.getLogger(__name__)

_COMMIT_SECONDS = 5.0
"""A writer that is killed loses at most about this much work."""


class StoreWriter:
    """Writes one store. Make it with `create` or `append_to` and use it as a context manager.

    A new store is committed as it grows: an exception leaves it incomplete, and creating it again with
    ``if_exists="resume"`` goes on. An append is committed at its end: an exception leaves the store as it
    was. The lock is held from the making to `close`.
    """

    def __init__(self, folder: Path, lock: StoreLock, *, blank: Manifest, stored: Manifest, appends: bool) -> None:
        self._folder = folder
        self._lock = lock
        self._blank = blank  # what does not change while rows are added
        self._stored = stored  # what the manifest on disk says
        self._appends = appends
        self._arrays: dict[str, ArraySpec] = dict(stored.arrays)
        self._checksums: dict[str, list[str]] = {}
        self._buffers: dict[str, NDArray[Any]] = {}
        self._n_buffered = 0
        self._n_chunks = 0
        self._statistics = Statistics.empty(blank.n_features)
        self._labels = LabelEncoder()
        self._committed_at = time.monotonic()
        self._closed: Manifest | None = None

    # -- making --------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        n_features: int,
        dtype: np.dtype[Any],
        chunk_rows: int,
        feature_names: Sequence[str] | None,
        nonfinite: NonFinite,
        source: Mapping[str, Any],
        if_exists: IfExists,
        n_rows_expected: int | None = None,
    ) -> StoreWriter:
        """Begin a store, or go on with one whose writer stopped.

        Parameters
        ----------
        path : path-like
            Folder of the store.
        n_features : int
            Columns, at least 1.
        dtype : numpy.dtype
            Type of the features as the source has it; see `streamfit.store.format.stored_dtype`.
        chunk_rows : int
            Rows of a chunk, at least 1.
        feature_names : sequence of str or None
            One name a column.
        nonfinite : {"error", "keep"}
            Whether NaN and infinities in the features are refused or kept.
        source : mapping
            Plain values by which the same source is known again.
        if_exists : {"resume", "overwrite", "error"}
            ``"resume"`` compares the rows given with those that are stored, and writes what is missing.
        n_rows_expected : int, optional
            Rows of the source, where they are known.

        Raises
        ------
        StoreExistsError
            Something else is at this path, or ``if_exists="error"`` and a store is.
        StoreLockedError
            Another writer holds the store.
        """
        if feature_names is not None and len(feature_names) != n_features:
            raise InvalidParameterError(f"{len(feature_names)} feature names are given for {n_features} columns.")
        for name, value in (("n_features", n_features), ("chunk_rows", chunk_rows)):
            if value < 1:
                raise InvalidParameterError(f"{name} must be at least 1, got {value}.")
        folder = local_folder(path)
        blank = Manifest(
            n_rows=0,
            n_features=n_features,
            chunk_rows=chunk_rows,
            dtype=stored_dtype(np.dtype(dtype), what="X"),
            nonfinite=nonfinite,
            source=source,
            statistics=Statistics.empty(n_features),
            n_rows_expected=n_rows_expected,
            feature_names=None if feature_names is None else tuple(feature_names),
        )
        refuse_strange_folder(folder)
        lock = StoreLock(folder)
        try:
            stored = prepare(folder, blank, if_exists)
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, blank=blank, stored=stored, appends=False)

    @classmethod
    def append_to(cls, path: str | PathLike[str]) -> StoreWriter:
        """Add rows to a complete store. Those who have it open go on reading the rows they know.

        Raises
        ------
        StoreNotFoundError, StoreIncompleteError
            There is no complete store.
        StoreLockedError
            Another writer holds it.
        """
        folder = local_folder(path)
        load_manifest(folder)
        lock = StoreLock(folder)
        try:
            stored = load_manifest(folder)
            # An append that was killed may have left rows behind the last one.
            resize_arrays(folder, stored.arrays.values(), n_rows=stored.n_rows)
            keep_in_history(folder, stored)
            blank = dataclasses.replace(
                stored, n_rows_expected=None, whole_statistics=None, whole_labels=None, complete=False
            )
            writer = cls(folder, lock, blank=blank, stored=stored, appends=True)
            writer._restore()
        except BaseException:
            lock.release()
            raise
        return writer

    def _restore(self) -> None:
        """Take the state after the last whole chunk, and the rows behind it as if they came anew."""
        stored = self._stored
        self._n_chunks, n_tail = divmod(stored.n_rows, stored.chunk_rows)
        self._checksums = {name: list(sums[: self._n_chunks]) for name, sums in stored.checksums.items()}
        labels = stored.labels if stored.whole_statistics is None else stored.whole_labels
        self._statistics = stored.whole_statistics or stored.statistics
        if labels is not None:
            self._labels = LabelEncoder.restore(labels)
        if n_tail:
            reader = Reader(StoreRef(str(self._folder), stored.digest), stored)
            tail = reader.read_chunk(self._n_chunks)
            ids = reader.read_array("ids", self._n_chunks) if stored.has_ids else None
            self.append(tail.X, tail.y, tail.sample_weight, ids)

    # -- rows ----------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows given so far, those of earlier writers included where rows are appended."""
        return self._n_chunks * self._blank.chunk_rows + self._n_buffered

    def append(self, X: Any, y: Any = None, sample_weight: Any = None, ids: Any = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Features, of the store's dtype or one that it holds without loss; any memory order.
        y, sample_weight, ids : array-like of shape (n,), optional
            Labels, weights and integer ids: all rows have them, or none has.

        Raises
        ------
        InvalidDataError
            Shapes, types or lengths do not fit; or a value is not finite, with its row and column.
        """
        rows = as_features(X, self._blank, start=self.n_rows)
        if not len(rows):  # nor have its labels a type
            return
        given = {"X": rows}
        if y is not None:
            given["y"] = self._labels.encode(y, start=self.n_rows)
        if sample_weight is not None:
            given["sample_weight"] = as_weights(sample_weight, start=self.n_rows)
        if ids is not None:
            given["ids"] = as_ids(ids, start=self.n_rows)
        for name, values in given.items():
            if len(values) != len(rows):
                raise InvalidDataError(
                    f"{name} has {len(values)} rows and X has {len(rows)}. Give one value for each row."
                )
        if not self._buffers:
            self._make_buffers(given)
        if given.keys() != self._buffers.keys():
            changed = ", ".join(sorted(given.keys() ^ self._buffers.keys()))
            raise InvalidDataError(f"Some rows have {changed} and some have not. Give {changed} for all rows or none.")
        chunk_rows = self._blank.chunk_rows
        start = 0
        while start < len(rows):
            n = min(len(rows) - start, chunk_rows - self._n_buffered)
            for name, values in given.items():
                self._buffers[name][self._n_buffered : self._n_buffered + n] = values[start : start + n]
            self._n_buffered += n
            start += n
            if self._n_buffered == chunk_rows:
                self._flush()

    def _make_buffers(self, given: dict[str, NDArray[Any]]) -> None:
        blank = self._blank
        n_rows = min(blank.chunk_rows, blank.n_rows_expected or blank.chunk_rows)
        for name, values in given.items():
            dtype = blank.dtype if name == "X" else values.dtype
            if self._appends and name in self._arrays:
                dtype = self._arrays[name].dtype
            columns = (blank.n_features,) if name == "X" else ()
            self._buffers[name] = np.empty((n_rows, *columns), dtype=dtype)
            self._checksums.setdefault(name, [])
        if self._arrays and self._arrays.keys() != given.keys():
            raise InvalidDataError(
                f"The store {self._folder} holds {', '.join(sorted(self._arrays))}; given were "
                f"{', '.join(sorted(given))}. Give the same."
            )

    # -- chunks --------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what is buffered as the next chunk."""
        index, start, n_rows = self._n_chunks, self._n_chunks * self._blank.chunk_rows, self._n_buffered
        chunk = {name: buffer[:n_rows] for name, buffer in self._buffers.items()}
        statistics = Statistics.of(chunk["X"])
        if self._blank.nonfinite == "error" and statistics.n_nonfinite.any():
            raise nonfinite_error(chunk["X"], self._blank, start=start)
        sums = {name: checksum(values) for name, values in chunk.items()}
        if not self._arrays:
            self._create_arrays(chunk)
        if not self._appends and index < self._n_stored_chunks:
            self._compare(index, sums, chunk)
        elif not self._appends and self._stored.complete:
            raise self._changed(f"it has rows beyond the {self._stored.n_rows}")
        else:
            for name, values in chunk.items():
                write_chunk_file(self._folder, self._arrays[name], index, values)
        if "y" in chunk:
            self._labels.count(chunk["y"], start=start)
        self._statistics = self._statistics.merge(statistics)
        for name, value in sums.items():
            self._checksums[name].append(value)
        self._n_chunks += 1
        self._n_buffered = 0
        if time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            self._commit_progress()

    @property
    def _n_stored_chunks(self) -> int:
        return -(-self._stored.n_rows // self._stored.chunk_rows)

    def _create_arrays(self, chunk: dict[str, NDArray[Any]]) -> None:
        blank = self._blank
        self._arrays = {
            name: ArraySpec(
                name=name,
                dtype=values.dtype,
                n_columns=blank.n_features if name == "X" else None,
                chunk_rows=blank.chunk_rows,
                codec=choose_codec(values),
            )
            for name, values in chunk.items()
        }
        for spec in self._arrays.values():
            # Left by a writer that died before it committed a chunk.
            shutil.rmtree(self._folder / spec.name, ignore_errors=True)
            create_array(self._folder, spec, n_rows=len(chunk["X"]))

    def _compare(self, index: int, sums: dict[str, str], chunk: dict[str, NDArray[Any]]) -> None:
        """Check that a chunk is the one that was stored; write it again only if its file is damaged."""
        start = index * self._blank.chunk_rows
        for name, values in chunk.items():
            if sums[name] != self._stored.checksums[name][index]:
                raise self._changed(f"rows {start} to {start + len(values) - 1} of {name} are not those")
            spec, found = self._arrays[name], np.empty_like(values)
            with contextlib.suppress(ChunkFileError):
                read_chunk_file(self._folder, spec, index, found)
                if checksum(found) == sums[name]:
                    continue
            logger.warning("chunk %d of %s in %s was damaged and is written again", index, name, self._folder)
            write_chunk_file(self._folder, spec, index, values)

    def _changed(self, how: str) -> StoreExistsError:
        return StoreExistsError(
            f'The source changed: {how} that {self._folder} holds. Choose another path or say if_exists="overwrite".'
        )

    # -- committing ----------------------------------------------------------------------------------

    def _manifest(self, *, complete: bool) -> Manifest:
        chunk_rows = self._blank.chunk_rows
        return dataclasses.replace(
            self._blank,
            n_rows=self._n_chunks * chunk_rows,
            complete=complete,
            statistics=self._statistics,
            labels=self._labels.info() if "y" in self._arrays else None,
            arrays=self._arrays,
            checksums={name: tuple(self._checksums[name]) for name in self._arrays},
        )

    def _commit(self, manifest: Manifest) -> None:
        resize_arrays(self._folder, self._arrays.values(), n_rows=manifest.n_rows)
        commit_manifest(self._folder, manifest)
        self._stored = manifest

    def _commit_progress(self) -> None:
        """Commit the whole chunks, unless the manifest on disk tells of as many rows already."""
        progress = self._manifest(complete=False)
        if not (self._appends or self._stored.complete) and progress.n_rows > self._stored.n_rows:
            self._commit(progress)
        self._committed_at = time.monotonic()

    def close(self, *, complete: bool = True) -> Manifest:
        """Commit and let the next writer in.

        Parameters
        ----------
        complete : bool
            False drops what does not fill a chunk and leaves the store incomplete (or, where rows were
            appended, as it was).

        Returns
        -------
        Manifest
            What the store holds now.

        Raises
        ------
        InvalidDataError
            No rows were given, or not as many as were expected.
        """
        if self._closed is None:
            try:
                self._closed = self._finish() if complete else self._leave()
            except BaseException:
                self._closed = self._leave()
                raise
            finally:
                self._lock.release()
        return self._closed

    def _finish(self) -> Manifest:
        n_rows, expected = self.n_rows, self._blank.n_rows_expected
        if n_rows == 0:
            raise InvalidDataError("The source has 0 rows. At least 1 row is needed.")
        if expected is not None and n_rows != expected:
            raise InvalidDataError(f"The source gave {n_rows} rows instead of the {expected} it has. Ingest it again.")
        if not self._appends and n_rows < self._stored.n_rows:
            raise self._changed(f"it has {n_rows} rows of the {self._stored.n_rows}")
        whole = self._manifest(complete=False) if self._n_buffered else None
        if self._n_buffered:
            self._flush()
        manifest = dataclasses.replace(
            self._manifest(complete=True),
            n_rows=n_rows,
            n_rows_expected=None,
            whole_statistics=None if whole is None else whole.statistics,
            whole_labels=None if whole is None else whole.labels,
        )
        if manifest.digest != self._stored.digest:
            self._commit(manifest)
        return manifest

    def _leave(self) -> Manifest:
        """Make the best of what is written when the end was not reached."""
        if self._appends:
            resize_arrays(self._folder, self._arrays.values(), n_rows=self._stored.n_rows)
        else:
            self._commit_progress()
        return self._stored

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(complete=kind is None)
