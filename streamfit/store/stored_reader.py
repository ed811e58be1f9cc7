"""The one verified way from a store's files to arrays."""

from __future__ import annotations

from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from streamfit.batch import Chunk
from streamfit.errors import InvalidParameterError
from streamfit.maths.csr_rows import joined_rows
from streamfit.store.statistics import Statistics
from streamfit.store.stored_chunks import StoredChunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from streamfit.plan.layout import StoreLayout
    from streamfit.store.categories import ColumnCategories
    from streamfit.store.format import ArraySpec
    from streamfit.store.labels import LabelInfo
    from streamfit.store.manifest import Manifest
    from streamfit.store.ref import StoreRef

__all__ = ["Reader"]


class Reader:
    """Reads the rows that its manifest knows, whatever a writer appends meanwhile.

    It holds no open files, may be used by many threads at once, and pickles as its `ref`.

    Parameters
    ----------
    ref : StoreRef
        The store, its version, and when to compare checksums.
    manifest : Manifest
        The manifest with the digest of `ref`.
    """

    def __init__(self, ref: StoreRef, manifest: Manifest) -> None:
        self.ref = ref
        self.manifest: Manifest = manifest
        self.layout: StoreLayout = manifest.layout
        self.dtype: np.dtype[Any] = manifest.dtype
        self.arrays: Mapping[str, ArraySpec] = manifest.arrays
        self._folder = Path(ref.path)
        self._chunks = StoredChunks(self._folder, manifest, ref.verify)

    # -- what the rows are ---------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """Identity of exactly these rows."""
        return self.manifest.digest

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None where they have none."""
        return self.manifest.feature_names

    @property
    def categories(self) -> tuple[ColumnCategories, ...]:
        """How columns of categories became these numbers."""
        return self.manifest.categories

    def column_name(self, column: int) -> str:
        """Name of a column, or its number where the columns have no names."""
        names = self.feature_names
        return str(column) if names is None else names[column]

    @property
    def has_sample_weight(self) -> bool:
        """Whether each row has a weight."""
        return self.manifest.has_sample_weight

    @property
    def has_ids(self) -> bool:
        """Whether each row has an id."""
        return self.manifest.has_ids

    @property
    def label_dtype(self) -> np.dtype[Any] | None:
        """Type of the labels, decoded; None without labels."""
        return None if self.manifest.labels is None else self.manifest.labels.dtype

    @property
    def label_nbytes(self) -> int:
        """Bytes of the label and the weight of one row, decoded."""
        return self.manifest.label_nbytes

    @property
    def labels(self) -> LabelInfo | None:
        """What is known about the labels of these rows; None without labels."""
        return self.manifest.labels

    @property
    def is_sparse(self) -> bool:
        """Whether features are given as CSR rows (``scipy.sparse.csr_array``)."""
        return self.arrays["X"].sparse

    @cached_property
    def statistics(self) -> Statistics:
        """Of the columns, over these rows; of a sparse store measured once in a pass."""
        found = self.manifest.statistics
        return self._measured() if found is None else found

    @property
    def n_nonfinite(self) -> NDArray[np.int64]:
        """NaN and infinite values of each column, ``(n_features,)``, over these rows."""
        if self.manifest.statistics is None and self.manifest.nonfinite == "error":
            return np.zeros(self.layout.n_features, dtype=np.int64)  # nothing is read
        return self.statistics.n_nonfinite

    @property
    def stored_chunks(self) -> Sequence[int]:
        """Numbers of the stored chunks that hold these rows, ascending."""
        return range(self.layout.n_chunks)

    @property
    def read_nbytes(self) -> int:
        """Most bytes of features that are decoded for one chunk."""
        return self.layout.chunk_nbytes

    # -- reads ---------------------------------------------------------------------------------------

    def read_array(self, name: str, index: int, *, out: NDArray[Any] | None = None) -> Any:
        """Read the committed rows of one chunk of one array, as they are stored.

        Sparse features are a ``csr_array`` of their own; `out` is for what is dense.

        Parameters
        ----------
        name : str
            Name of the array.
        index : int
            Number of the chunk.
        out : ndarray, optional
            A C-contiguous buffer of the stored dtype with at least as many rows; the result is a view of it.

        Raises
        ------
        StoreCorruptError
            The stored bytes are not those that were committed.
        """
        start, stop = self.layout.chunk_bounds(index)
        spec = self.arrays[name]
        if spec.sparse:
            return self._read_sparse(index)
        shape = spec.shape(stop - start)
        values = np.empty(shape, dtype=spec.dtype) if out is None else out[: stop - start]
        if values.shape != shape or values.dtype != spec.dtype or not values.flags.c_contiguous:
            raise InvalidParameterError(
                f"out must be C-contiguous, of dtype {spec.dtype}, with room for the shape {shape}; "
                f"got {values.dtype} and {values.shape}."
            )
        self._read_into(name, index, values)
        return values

    def _read_into(self, name: str, index: int, out: NDArray[Any]) -> None:
        self._chunks.read(name, index, out)

    def _read_sparse(self, index: int) -> csr_array:
        return self._chunks.read_sparse(index)

    def expected_nnz(self, index: int) -> int:
        """Give how many stored values a chunk of sparse features has at the most, or is expected to have."""
        return self.manifest.nnz[index]

    def _measured(self) -> Statistics:
        """Measure the columns in a pass."""
        if self.is_sparse:
            parts = (self._read_sparse(index) for index in range(self.layout.n_chunks))
            return reduce(Statistics.merge, map(Statistics.of, parts))
        buffer = np.empty((self.layout.chunk_rows, self.layout.n_features), dtype=self.dtype)
        chunks = (self.read_array("X", index, out=buffer) for index in range(self.layout.n_chunks))
        return reduce(Statistics.merge, map(Statistics.of, chunks))

    def row_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the numbers of rows in the store, ``(n,)``.

        Raises
        ------
        InvalidParameterError
            A row number is not a whole number in ``0 .. n_rows - 1``.
        """
        return self._checked_rows(rows)

    def read_chunk(self, index: int, *, out: NDArray[Any] | None = None) -> Chunk:
        """Read one chunk.

        Parameters
        ----------
        index : int
            Number of the chunk, 0 or more.
        out : ndarray of shape (>= n_rows, n_features), optional
            Buffer to decode into, C-contiguous, of the store's dtype; the chunk's ``X`` is then a view of it.

        Raises
        ------
        StoreCorruptError
            The stored bytes are not those that were committed.
        """
        X = self.read_array("X", index, out=out)
        weight = self.read_array("sample_weight", index) if self.manifest.has_sample_weight else None
        return Chunk(index, self.layout.chunk_bounds(index)[0], X, self.read_labels(index), weight)

    def read_labels(self, index: int) -> NDArray[Any] | None:
        """Read the labels of one chunk, decoded; None where the store has none."""
        labels = self.manifest.labels
        return None if labels is None else labels.decode(self.read_array("y", index))

    def take(self, name: str, rows: ArrayLike) -> Any:
        """Read some rows of one array as they are stored, each chunk once.

        Parameters
        ----------
        name : str
            Name of the array.
        rows : array-like of int, shape (n,)
            Row numbers in any order; a row may be named more than once.

        Returns
        -------
        ndarray of shape (n,) or (n, n_features)
            In the order asked; a ``csr_array`` of sparse features.

        Raises
        ------
        InvalidParameterError
            A row number is not a whole number in ``0 .. n_rows - 1``.
        StoreCorruptError
            The stored bytes are not those that were committed.
        """
        numbers = self._checked_rows(rows)
        spec, layout = self.arrays[name], self.layout
        if spec.sparse:
            return self._take_sparse(numbers)
        taken = np.empty(spec.shape(len(numbers)), dtype=spec.dtype)
        buffer = np.empty(spec.shape(min(layout.chunk_rows, layout.n_rows)), dtype=spec.dtype)
        order = np.argsort(numbers, kind="stable")
        edges = np.flatnonzero(np.diff(layout.chunk_at(numbers[order]))) + 1
        for places in np.split(order, edges) if len(order) else []:
            index = int(layout.chunk_at(numbers[places[0]]))
            chunk = self.read_array(name, index, out=buffer)
            taken[places] = chunk[numbers[places] - layout.chunk_bounds(index)[0]]
        return taken

    def _take_sparse(self, numbers: NDArray[np.int64]) -> csr_array:
        order = np.argsort(numbers, kind="stable")
        owners = self.layout.chunk_at(numbers[order])
        parts = [
            self._read_sparse(int(owners[places[0]]))[
                numbers[order[places]] - self.layout.chunk_bounds(int(owners[places[0]]))[0]
            ]
            for places in np.split(np.arange(len(order)), np.flatnonzero(np.diff(owners)) + 1)
            if len(places)
        ] or [csr_array((0, self.layout.n_features), dtype=self.dtype)]
        joined = joined_rows(parts)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return joined[back]

    def _checked_rows(self, rows: Any) -> NDArray[np.int64]:
        numbers = np.asarray(rows)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise InvalidParameterError(
                f"rows must be a sequence of row numbers, got {numbers.dtype} of shape {numbers.shape}."
            )
        wrong = (numbers < 0) | (numbers >= self.layout.n_rows)
        if wrong.any():
            raise InvalidParameterError(
                f"rows holds {numbers[wrong][0]}; the store has the rows 0 to {self.layout.n_rows - 1}."
            )
        return numbers.astype(np.int64)
