"""Chunks to files, and a manifest that only promises what is written."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import StoreExistsError, StoreWriteError
from streamfit.store.chunk_files import ChunkFileError, checksum, read_chunk_file, write_chunk_file
from streamfit.store.early_flush import EarlyFlush
from streamfit.store.encodings import choose_codec
from streamfit.store.format import ArraySpec
from streamfit.store.manifest import Manifest, commit_manifest, load_manifest
from streamfit.store.parts import part_files, part_name, read_part, stale_parts, write_part
from streamfit.store.row_values import nonfinite_error
from streamfit.store.statistics import Statistics
from streamfit.store.versions import drop_journal, keep_in_history, kept_versions, write_journal
from streamfit.store.written import WrittenChunks
from streamfit.store.zarr_metadata import remove_chunks_behind, write_array_metadata, write_part_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.store.lock import StoreLock

__all__ = ["ChunkCommitter"]

logger = logging.getLogger(__name__)

_COMMIT_SECONDS = 5.0
"""A writer that is killed loses at most about this much work."""


def _has_nonfinite(X: Any, statistics: Statistics | None) -> bool:
    return bool((~np.isfinite(X.data)).any() if statistics is None else statistics.n_nonfinite.any())


class ChunkCommitter:
    """Puts the chunks of one store into files, and commits them: now and then, and at the end.

    Progress goes to the manifest of a new store, which says that it is incomplete, or to the journal of an append,
    which nobody reads but the next append.

    Parameters
    ----------
    folder : Path
        The store.
    lock : StoreLock
        Its lock, held.
    blank : Manifest
        What does not change while rows are added.
    stored : Manifest
        How far the rows on disk are known: of this source, or `base`.
    base : Manifest or None
        The version that rows are appended to; None for a new store.
    continues : bool
        True: the next chunk is the one behind those that are known. False: they come again, and are compared.
    """

    def __init__(
        self,
        folder: Path,
        lock: StoreLock,
        *,
        blank: Manifest,
        stored: Manifest,
        base: Manifest | None,
        continues: bool,
    ) -> None:
        self.stored = stored
        self.base = base
        self.written = WrittenChunks.restore(blank, stored if continues else base or blank)
        self.written.arrays = dict(stored.arrays)
        self._folder = folder
        self._lock = lock
        self._blank = blank
        self._n_comparable = 0 if stored is base else -(-stored.n_rows // stored.chunk_rows)
        self._whole: Manifest | None = None  # of the whole chunks, once the last one is not whole
        self._early_flush = EarlyFlush(folder)
        self._committed_at = time.monotonic()

    @property
    def n_rows_before(self) -> int:
        """Rows of the store that come from other sources. Messages count the rows of this one."""
        return 0 if self.base is None else self.base.n_rows

    # -- chunks --------------------------------------------------------------------------------------

    def write(self, chunk: dict[str, NDArray[Any]]) -> None:
        """Write the next chunk, by the names of its arrays, or compare it with the one that is stored.

        Raises
        ------
        InvalidDataError
            A value is not finite and may not be.
        StoreExistsError
            The source changed.
        StoreWriteError
            The disk refuses.
        """
        index = self.written.n_chunks
        statistics = None if self._blank.sparse else Statistics.of(chunk["X"])
        if self._blank.nonfinite == "error" and _has_nonfinite(chunk["X"], statistics):
            raise nonfinite_error(chunk["X"], self._blank, start=self.written.n_rows - self.n_rows_before)
        sums = {name: checksum(values) for name, values in chunk.items()}
        with self._writing():
            if not self.written.arrays:
                self._create_arrays(chunk)
            if not self._holds(index, sums, chunk):
                for name, values in chunk.items():
                    self._write_file(name, index, values)
        self.written.add(chunk, statistics, sums)
        if time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            with self._writing():
                self.commit_progress()

    def _write_file(self, name: str, index: int, values: Any) -> None:
        spec = self.written.arrays[name]
        if spec.sparse:
            size = {"n_rows": values.shape[0], "nnz": values.nnz}
            write_part(self._folder, spec, index, values)
            write_part_metadata(self._folder, spec, index, **size)
            files = part_files(self._folder, spec, index, **size)
        else:
            write_chunk_file(self._folder, spec, index, values)
            files = [spec.chunk_file(self._folder, index)]
        for file in files:
            self._early_flush.begin(file)

    def _create_arrays(self, chunk: dict[str, NDArray[Any]]) -> None:
        blank = self._blank
        for name, values in chunk.items():
            spec = ArraySpec(
                name=name,
                dtype=values.dtype,
                n_columns=values.shape[1] if values.ndim == 2 else None,
                chunk_rows=blank.chunk_rows,
                codec=choose_codec(values, blank.compression),
                sparse=name == "X" and blank.sparse,
            )
            # Left by a writer that died before it committed a chunk.
            shutil.rmtree(self._folder / spec.folder, ignore_errors=True)
            write_array_metadata(self._folder, spec, n_rows=values.shape[0])
            self.written.arrays[name] = spec

    def _holds(self, index: int, sums: dict[str, str], chunk: dict[str, NDArray[Any]]) -> bool:
        """Whether the chunk is stored already. One that is, in a damaged file, is written again."""
        if index >= self._n_comparable:
            if self.stored.complete and self.base is None:
                raise self.changed(f"it has rows beyond the {self.stored.n_rows}")
            return False
        for name, values in chunk.items():
            if sums[name] != self.stored.checksums[name][index]:
                if self.base is None:
                    start = index * self._blank.chunk_rows
                    raise self.changed(f"rows {start} to {start + values.shape[0] - 1} of {name} are not those")
                self._n_comparable = index  # the append that was stopped had other rows from here on
                self.stored = self.base
                return False
        for name, values in chunk.items():
            if not self._is_intact(name, index, sums[name], values):
                logger.warning("chunk %d of %s in %s was damaged and is written again", index, name, self._folder)
                self._write_file(name, index, values)
        return True

    def _is_intact(self, name: str, index: int, expected: str, values: Any) -> bool:
        spec = self.written.arrays[name]
        with contextlib.suppress(ChunkFileError):
            if spec.sparse:
                found = read_part(self._folder, spec, index, n_rows=values.shape[0], nnz=values.nnz)
            else:
                found = np.empty_like(values)
                read_chunk_file(self._folder, spec, index, found)
            return checksum(found) == expected
        return False

    def changed(self, how: str) -> StoreExistsError:
        """Say that the source is not the one that is stored."""
        return StoreExistsError(
            f'The source changed: {how} that {self._folder} holds. Choose another path or say if_exists="overwrite".'
        )

    # -- committing ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Say what is kept where the disk refuses."""
        self._lock.check()
        try:
            yield
        except StoreExistsError:
            raise
        except OSError as error:
            self._lock.check()
            with contextlib.suppress(OSError):
                self.commit_progress()
            raise StoreWriteError(
                f"The store {self._folder} cannot be written ({error.strerror or error}). {self.stored.n_rows} rows "
                "are kept. Free space or make the folder writable, and do the same again: it goes on from there."
            ) from error

    def _manifest(self, *, n_rows: int, complete: bool) -> Manifest:
        manifest = self.written.manifest(n_rows=n_rows, complete=complete)
        if self.base is None:
            return manifest
        *before, last = manifest.appended
        part = {**last, "n_rows": n_rows - self.base.n_rows}
        return dataclasses.replace(manifest, appended=(*before, part))

    def _flush(self) -> None:
        """Put on the disk what a manifest is about to promise."""
        self._early_flush.finish()

    def commit_progress(self) -> None:
        """Commit the whole chunks, unless as many are known to be on disk already."""
        progress = self._whole or self._manifest(n_rows=self.written.n_rows, complete=False)
        if progress.n_rows > self.stored.n_rows:
            self._flush()
            if self.base is not None:
                write_journal(self._folder, progress)
            else:
                self._write_metadata(progress)
                commit_manifest(self._folder, progress)
            self.stored = progress
        self._committed_at = time.monotonic()

    def _write_metadata(self, manifest: Manifest) -> None:
        for spec in manifest.arrays.values():
            write_array_metadata(self._folder, spec, n_rows=manifest.n_rows)

    def finish(self, rest: dict[str, NDArray[Any]] | None) -> Manifest:
        """Write the rows that do not fill a chunk, and commit the store as complete.

        Raises
        ------
        InvalidDataError, StoreExistsError, StoreWriteError
            See `write`.
        """
        n_rows = self.written.n_rows
        if rest:
            self._whole = self._manifest(n_rows=n_rows, complete=False)
            n_rows += rest["X"].shape[0]
            self.write(rest)
        whole = self._whole
        manifest = dataclasses.replace(
            self._manifest(n_rows=n_rows, complete=True),
            n_rows_expected=None,
            whole_statistics=None if whole is None else whole.statistics,
            whole_labels=None if whole is None else whole.labels,
        )
        with self._writing():
            self._flush()
            if manifest.digest != self.stored.digest:
                self._commit(manifest)
        return manifest

    def close(self) -> None:
        """End what runs beside the writer."""
        self._early_flush.close()

    def _remove_stale_parts(self, manifest: Manifest, spec: ArraySpec) -> None:
        """Remove the parts that no version knows, such as last ones of versions that are kept no more."""
        versions = [manifest, *([] if self.base is None else [self.base, *kept_versions(self._folder)])]
        known = {
            part_name(index, min(spec.chunk_rows, version.n_rows - index * spec.chunk_rows), spec.chunk_rows)
            for version in versions
            for index in range(len(version.nnz))
        }
        for path in stale_parts(self._folder, spec, known):
            shutil.rmtree(path)

    def _commit(self, manifest: Manifest) -> None:
        if self.base is not None:
            # Between the metadata and the manifest Zarr shows more rows than are committed: a journal tells why.
            write_journal(self._folder, self._whole or self._manifest(n_rows=manifest.n_rows, complete=False))
        for spec in manifest.arrays.values():
            if spec.sparse:
                self._remove_stale_parts(manifest, spec)
            else:
                remove_chunks_behind(self._folder, spec, n_chunks=self.written.n_chunks)
        self._write_metadata(manifest)
        if self.base is not None:
            keep_in_history(self._folder, self.base)
        try:
            commit_manifest(self._folder, manifest)
            drop_journal(self._folder)
        except OSError as error:
            # Once the manifest is there the rows count: "do the same again" would append them twice.
            if load_manifest(self._folder, allow_incomplete=True).digest != manifest.digest:
                raise
            logger.warning("%s is committed, but the disk may lose it in a power cut: %s", self._folder, error)
        self.stored = manifest
