"""Rows of one source to one store: begun, gone on with, appended, ended."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from dask.utils import format_bytes

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.csr_rows import INDEX_DTYPE
from streamfit.options import check_choice, check_count
from streamfit.store.assembly import ChunkAssembly
from streamfit.store.committing import ChunkCommitter
from streamfit.store.destination import IfExists, give_up_append, locked, prepare, remove_new_store, writing
from streamfit.store.format import MAX_CHUNK_NBYTES, Compression, local_folder, stored_dtype
from streamfit.store.manifest import Manifest, NonFinite, load_manifest
from streamfit.store.reader import Reader, StoreRef
from streamfit.store.statistics import Statistics
from streamfit.store.versions import load_journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path
    from types import TracebackType

    from streamfit.store.categories import ColumnCategories
    from streamfit.store.lock import StoreLock

__all__ = ["StoreWriter"]

logger = logging.getLogger(__name__)


class StoreWriter:
    """Writes one store. Make it with `create` or `append_to` and use it as a context manager.

    Progress is committed as the rows come: to the manifest of a new store, which says that it is incomplete, or to the
    journal of an append, which nobody reads but the next append. The lock is held from the making to `close`.
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
        self._folder = folder
        self._lock = lock
        self._n_rows_expected = blank.n_rows_expected
        self._chunks = ChunkCommitter(folder, lock, blank=blank, stored=stored, base=base, continues=continues)
        self._assembly = ChunkAssembly(
            blank,
            self._chunks.written.labels,
            arrays=stored.arrays,
            n_rows_before=self._chunks.n_rows_before,
        )
        # Of a complete store nothing is left to be written, unless its rows come again to be compared.
        self._closed: Manifest | None = stored if continues and stored.complete else None
        if self._closed is not None:
            lock.release()
        elif base is not None and not continues:
            self._restore_tail(base)

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
        continues: bool,
        n_rows_expected: int | None = None,
        sparse: bool = False,
        categories: Sequence[ColumnCategories] = (),
        compression: Compression = "auto",
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
            ``"resume"`` goes on with what is stored of the same source.
        continues : bool
            How to go on. True: rows are given from `next_row` on, since an equal `source` means equal rows. False: they
            are given from the first one again, compared with those that are stored, and written where they are missing.
        n_rows_expected : int, optional
            Rows of the source, where they are known.
        sparse : bool
            Store the features as CSR parts.
        categories : sequence of ColumnCategories
            How columns of the source became numbers.
        compression : {"auto", "none", "lz4", "zstd"}
            What the arrays are compressed by; ``"auto"`` goes on with whatever the store has.

        Raises
        ------
        InvalidParameterError
            A parameter is out of its range.
        StoreExistsError
            Something else is at this path, or ``if_exists="error"`` and a store is.
        StoreLockedError
            Another writer holds the store.
        StoreWriteError
            Nothing can be written there.
        """
        if feature_names is not None and len(feature_names) != n_features:
            raise InvalidParameterError(f"{len(feature_names)} feature names are given for {n_features} columns.")
        n_features = check_count("n_features", n_features, least=1, most=np.iinfo(INDEX_DTYPE).max if sparse else None)
        check_choice("compression", compression, get_args(Compression))
        dtype = stored_dtype(np.dtype(dtype), what="X")
        most = max(1, MAX_CHUNK_NBYTES // (n_features * dtype.itemsize))
        chunk_rows = check_count("chunk_rows", chunk_rows, least=1)
        if chunk_rows > most and not sparse:
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
            statistics=None if sparse else Statistics.empty(n_features),
            sparse=sparse,
            n_rows_expected=n_rows_expected,
            feature_names=None if feature_names is None else tuple(feature_names),
            categories=tuple(categories),
            compression=compression,
        )
        with locked(folder, new=True) as lock, writing(folder):
            stored = prepare(folder, blank, if_exists, continues=continues)
            blank = dataclasses.replace(blank, compression=stored.compression)
            return cls(folder, lock, blank=blank, stored=stored, base=None, continues=continues)

    @classmethod
    def append_to(
        cls,
        path: str | PathLike[str],
        *,
        source: Mapping[str, Any],
        continues: bool,
        n_rows_expected: int | None = None,
    ) -> StoreWriter:
        """Add rows to a complete store. Those who have it open go on reading the rows they know.

        Parameters
        ----------
        path : path-like
            Folder of the store.
        source : mapping
            Plain values by which the same source is known again. An append of it that was stopped is gone on with.
        continues : bool
            As in `create`. Rows that are given again and differ replace those of the append that was stopped.
        n_rows_expected : int, optional
            Rows of the source, where they are known.

        Raises
        ------
        StoreNotFoundError, StoreIncompleteError
            There is no complete store.
        StoreLockedError
            Another writer holds it.
        StoreWriteError
            Nothing can be written there.
        """
        folder = local_folder(path)
        load_manifest(folder)
        with locked(folder, new=False) as lock, writing(folder):
            base = load_manifest(folder)
            blank = dataclasses.replace(
                base,
                n_rows_expected=None if n_rows_expected is None else base.n_rows + n_rows_expected,
                whole_statistics=None,
                whole_labels=None,
                complete=False,
                appended=(*base.appended, {"source": dict(source), "n_rows": 0}),
                extends=base.digest,
            )
            stored = _stopped_append(folder, blank)
            if stored is None:
                # The chunks that an append of other rows noted are about to be written over.
                give_up_append(folder, base)
                stored = base
            return cls(folder, lock, blank=blank, stored=stored, base=base, continues=continues and stored is not base)

    def _restore_tail(self, base: Manifest) -> None:
        """Take the rows behind the last whole chunk as if they came anew."""
        if base.n_rows % base.chunk_rows:
            reader = Reader(StoreRef(str(self._folder), base.digest), base)
            tail = reader.read_chunk(self._chunks.written.n_chunks)
            ids = reader.read_array("ids", self._chunks.written.n_chunks) if base.has_ids else None
            self.append(tail.X, tail.y, tail.sample_weight, ids)

    # -- rows ----------------------------------------------------------------------------------------

    @property
    def base(self) -> Manifest:
        """The version that rows are appended to, or what is known of a new store."""
        return self._chunks.base or self._chunks.stored

    @property
    def n_rows(self) -> int:
        """Rows of the store so far, those of earlier writers included."""
        return self._closed.n_rows if self._closed is not None else self._chunks.written.n_rows + self._assembly.n_rows

    @property
    def next_row(self) -> int:
        """Row of the source that is to be given next, counted from 0."""
        return self.n_rows - self._chunks.n_rows_before

    def append(self, X: Any, y: Any = None, sample_weight: Any = None, ids: Any = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Features, of the store's dtype or one that it holds without loss; any memory order.
        y, sample_weight, ids : array-like of shape (n,), optional
            Labels, weights and integer ids: all rows have them, or none has. Several labels a row have the shape
            ``(n, n_outputs)``.

        Raises
        ------
        InvalidDataError
            Shapes, types or lengths do not fit; or a value is not finite, with its row and column.
        StoreWriteError
            The disk is full, or the folder cannot be written any more.
        """
        if self._closed is not None:
            raise self._chunks.changed(f"it has rows beyond the {self._closed.n_rows}")
        for chunk in self._assembly.add(X, y, sample_weight, ids, start=self.next_row):
            self._chunks.write(chunk)

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
        StoreWriteError
            The disk is full, or the folder cannot be written any more.
        """
        if self._closed is None:
            try:
                self._closed = self._finish() if complete else self._leave()
            except BaseException:
                self._closed = self._leave()
                raise
            finally:
                self._chunks.close()
                self._lock.release()
        return self._closed

    def _finish(self) -> Manifest:
        n_rows, expected = self.n_rows, self._n_rows_expected
        if self._chunks.base is not None and self.next_row == 0:
            return self.base
        if n_rows == 0:
            raise InvalidDataError("The source has 0 rows. At least 1 row is needed.")
        if expected is not None and n_rows != expected:
            promised = expected - n_rows + self.next_row
            raise InvalidDataError(f"The source gave {self.next_row} rows instead of the {promised} it has.")
        if self._chunks.base is None and n_rows < self._chunks.stored.n_rows:
            raise self._chunks.changed(f"it has {n_rows} rows of the {self._chunks.stored.n_rows}")
        return self._chunks.finish(self._assembly.rest() if self._assembly.n_rows else None)

    def _leave(self) -> Manifest:
        """Make the best of what is written when the end was not reached."""
        try:
            self._lock.check()
            self._chunks.commit_progress()
            if self._chunks.base is None and not self._chunks.stored.n_rows:
                remove_new_store(self._folder, self._lock)
        except OSError as error:  # the error that brought us here is the one to tell
            logger.warning("the last rows of %s could not be kept: %s", self._folder, error)
        return self.base

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(complete=kind is None)


def _stopped_append(folder: Path, blank: Manifest) -> Manifest | None:
    """Find how far an append of the same source to the same rows came."""
    journal = load_journal(folder)
    if journal is None or journal.extends != blank.extends or journal.appended[-1]["n_rows"] <= 0:
        return None
    return journal if journal.appended[-1]["source"] == blank.appended[-1]["source"] else None
