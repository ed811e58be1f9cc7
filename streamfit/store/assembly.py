"""Rows as they come, any number at a time, to chunks as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dask.utils import format_bytes

from streamfit.errors import InvalidDataError
from streamfit.maths.csr_rows import csr_nbytes, joined_rows
from streamfit.store.format import MAX_CHUNK_NBYTES
from streamfit.store.label_values import check_chunk_of_labels
from streamfit.store.row_values import as_features, as_ids, as_weights

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from streamfit.store.label_encoder import LabelEncoder
    from streamfit.store.manifest import Manifest

__all__ = ["ChunkAssembly"]


class ChunkAssembly:
    """Holds the rows that do not fill a chunk yet, in one buffer for each array.

    Parameters
    ----------
    manifest : Manifest
        Of the store, for its columns, its type, and the rows of a chunk.
    labels : LabelEncoder
        Gives the stored form of labels.
    arrays : collection of str
        Names of the arrays that the store holds; none where the first rows decide.
    n_rows_before : int
        Rows of the store that come from other sources.
    """

    def __init__(
        self, manifest: Manifest, labels: LabelEncoder, *, arrays: Collection[str], n_rows_before: int
    ) -> None:
        self._manifest = manifest
        self._labels = labels
        self._arrays = set(arrays)
        self._n_rows_before = n_rows_before
        self._buffers: dict[str, NDArray[Any]] = {}
        self._sparse: list[Any] = []  # rows of different sizes have no buffer
        self.n_rows = 0

    def add(self, X: Any, y: Any, sample_weight: Any, ids: Any, *, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Take rows, and give each chunk that they complete: views that hold until the next one is asked for.

        Parameters
        ----------
        X, y, sample_weight, ids
            See `streamfit.store.writer.StoreWriter.append`.
        start : int
            Number of the first row in its source, for messages.
        """
        given = self._stored_form(X, y, sample_weight, ids, start)
        n_rows, n_taken, chunk_rows = given["X"].shape[0], 0, self._manifest.chunk_rows
        while n_taken < n_rows:
            n = min(n_rows - n_taken, chunk_rows - self.n_rows)
            if self._manifest.sparse:
                self._hold(given["X"][n_taken : n_taken + n])
            for name, values in given.items():
                if name == "X" and self._manifest.sparse:
                    continue
                self._buffer(name, values)[self.n_rows : self.n_rows + n] = values[n_taken : n_taken + n]
            self.n_rows += n
            n_taken += n
            if self.n_rows == chunk_rows:
                yield self.rest()
                self.n_rows = 0
                self._sparse.clear()

    def rest(self) -> dict[str, Any]:
        """Give the rows that are held, as views."""
        held: dict[str, Any] = {name: buffer[: self.n_rows] for name, buffer in self._buffers.items()}
        if self._manifest.sparse:
            self._sparse = [joined_rows(self._sparse)]
            held = {"X": self._sparse[0], **held}
        return held

    def _hold(self, rows: Any) -> None:
        self._sparse.append(rows)
        n_rows, nnz = sum(part.shape[0] for part in self._sparse), sum(part.nnz for part in self._sparse)
        if csr_nbytes(n_rows, nnz, self._manifest.dtype.itemsize) > MAX_CHUNK_NBYTES:
            raise InvalidDataError(
                f"{n_rows} rows with {nnz} stored values exceed {format_bytes(MAX_CHUNK_NBYTES)}, and are one chunk. "
                "Give a smaller chunk_rows."
            )

    def _stored_form(self, X: Any, y: Any, sample_weight: Any, ids: Any, start: int) -> dict[str, Any]:
        given = {"X": as_features(X, self._manifest, start=start)}
        n_rows = given["X"].shape[0]
        if not n_rows:  # nor have its labels a type
            return given
        if y is not None:
            given["y"] = self._labels.encode(y, start=start)
            check_chunk_of_labels(given["y"], chunk_rows=self._manifest.chunk_rows)
        if sample_weight is not None:
            given["sample_weight"] = as_weights(sample_weight, start=start)
        if ids is not None:
            given["ids"] = as_ids(ids, start=start)
        expected = self._manifest.n_rows_expected
        if expected is not None and start + n_rows > expected - self._n_rows_before:
            raise InvalidDataError(
                "The source gives more rows than it says it has: "
                f"row {expected - self._n_rows_before} was not expected. Correct it."
            )
        for name, values in given.items():
            if values.shape[0] != n_rows:
                raise InvalidDataError(
                    f"{name} has {values.shape[0]} rows and X has {n_rows}. Give one value for each row."
                )
        self._arrays = self._arrays or set(given)
        if given.keys() != self._arrays:
            changed = ", ".join(sorted(given.keys() ^ self._arrays))
            raise InvalidDataError(f"Some rows have {changed} and some have not. Give {changed} for all rows or none.")
        return given

    def _buffer(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        if name not in self._buffers:
            manifest = self._manifest
            n_rows = min(manifest.chunk_rows, manifest.n_rows_expected or manifest.chunk_rows)
            dtype = manifest.dtype if name == "X" else values.dtype
            self._buffers[name] = np.empty((n_rows, *values.shape[1:]), dtype=dtype)
        return self._buffers[name]
