"""Chunks to files, and a manifest that only tells of what is written."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from dask.utils import format_bytes

from streamfit.errors import InvalidDataError, InvalidParameterError, StoreExistsError
from streamfit.options import check_count
from streamfit.store.assembly import ChunkAssembly
from streamfit.store.chunk_files import ChunkFileError, checksum, choose_codec, read_chunk_file, write_chunk_file
from streamfit.store.destination import IfExists, prepare, refuse_strange_folder
from streamfit.store.format import ArraySpec, local_folder, stored_dtype
from streamfit.store.labels import LabelEncoder
from streamfit.store.lock import StoreLock
from streamfit.store.manifest import Manifest, NonFinite, commit_manifest, keep_in_history, load_manifest
from streamfit.store.reader import Reader, StoreRef
from streamfit.store.row_values import nonfinite_error
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

_MAX_CHUNK_NBYTES = 2**30
"""A chunk exists several times while it is written, and the last one is padded to its whole length."""

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
        self._n_chunks = 0
        self._statistics = Statistics.empty(blank.n_features)
        labels = stored.labels if stored.whole_statistics is None else stored.whole_labels
        self._labels = LabelEncoder.restore(labels) if appends and labels is not None else LabelEncoder()
        self._assembly = ChunkAssembly(blank, self._labels, arrays=stored.arrays)
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
            Rows of a chunk, at least 1, and at most 1 GiB of features.
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
        InvalidParameterError
            A parameter is out of its range.
        StoreExistsError
            Something else is at this path, or ``if_exists="error"`` and a store is.
        StoreLockedError
            Another writer holds the store.
        """
        if feature_names is not None and len(feature_names) != n_features:
            raise InvalidParameterError(f"{len(feature_names)} feature names are given for {n_features} columns.")
        n_features = check_count("n_features", n_features, least=1)
        dtype = stored_dtype(np.dtype(dtype), what="X")
        most = max(1, _MAX_CHUNK_NBYTES // (n_features * dtype.itemsize))
        chunk_rows = check_count("chunk_rows", chunk_rows, least=1)
        if chunk_rows > most:
            raise InvalidParameterError(
                f"chunk_rows={chunk_rows} makes chunks of {format_bytes(chunk_rows * n_features * dtype.itemsize)}, "
                f"and chunks are read as a whole. Give at most {most} rows."
            )
        folder = local_folder(path)
        blank = Manifest(
            n_rows=0,
            n_features=n_features,
            chunk_rows=chunk_rows,
            dtype=dtype,
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
        self._statistics = stored.whole_statistics or stored.statistics
        if n_tail:
            reader = Reader(StoreRef(str(self._folder), stored.digest), stored)
            tail = reader.read_chunk(self._n_chunks)
            ids = reader.read_array("ids", self._n_chunks) if stored.has_ids else None
            self.append(tail.X, tail.y, tail.sample_weight, ids)

    # -- rows ----------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows given so far, those of earlier writers included where rows are appended."""
        return self._n_chunks * self._blank.chunk_rows + self._assembly.n_rows

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
        for chunk in self._assembly.add(X, y, sample_weight, ids, start=self.n_rows):
            self._write(chunk)

    # -- chunks --------------------------------------------------------------------------------------

    def _write(self, chunk: dict[str, NDArray[Any]]) -> None:
        """Write the next chunk."""
        index, start = self._n_chunks, self._n_chunks * self._blank.chunk_rows
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
            self._checksums.setdefault(name, []).append(value)
        self._n_chunks += 1
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
            checksums={name: tuple(self._checksums.get(name, ())) for name in self._arrays},
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
        rest = self._assembly.rest() if self._assembly.n_rows else None
        whole = self._manifest(complete=False) if rest else None
        if rest:
            self._write(rest)
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
