"""The geometry of a store: chunks, and the partitions that tasks are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import check_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_PARTITIONS", "SparseSize", "StoreLayout", "chunk_rows_for", "rows_of_a_chunk", "sparse_chunk_rows_for"]

MAX_PARTITIONS = 2_000
"""Most tasks of one pass: a scheduler's cost grows with tasks, so large stores get larger partitions."""

_CHUNK_NBYTES = 8 * 2**20


def chunk_rows_for(n_features: int, itemsize: int) -> int:
    """Give the default number of rows in a chunk: about 8 MiB, so that one read is worth its overhead.

    Parameters
    ----------
    n_features : int
        Columns of the matrix.
    itemsize : int
        Bytes of one value.

    Returns
    -------
    int
        Rows in a chunk, a multiple of 64 where more than 64 fit.

    Examples
    --------
    >>> chunk_rows_for(100, 4)
    20928
    >>> chunk_rows_for(10_000_000, 8)
    1
    """
    return rows_of_a_chunk(n_features * itemsize)


def sparse_chunk_rows_for(mean_row_nnz: float, itemsize: int) -> int:
    """Give the default number of rows in a chunk of a sparse matrix: about 8 MiB on average.

    Parameters
    ----------
    mean_row_nnz : float
        Stored values of a row on average.
    itemsize : int
        Bytes of one value.

    Examples
    --------
    >>> sparse_chunk_rows_for(15.5, 8), sparse_chunk_rows_for(0.0, 8)
    (44096, 2097152)
    """
    return rows_of_a_chunk(4 + mean_row_nnz * (4 + itemsize))


def rows_of_a_chunk(row_nbytes: float) -> int:
    """Give how many rows of so many bytes make about 8 MiB, a multiple of 64 where more than 64 do."""
    rows = int(_CHUNK_NBYTES // max(1, row_nbytes))
    return max(1, rows - rows % 64 if rows > 64 else rows)


@dataclass(frozen=True, slots=True)
class SparseSize:
    """Bytes of the rows of a sparse matrix in memory: values, column numbers, row pointers."""

    nbytes: int
    """Of all rows."""
    chunk_nbytes: int
    """Of the largest chunk."""


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Rows, columns and chunks of a store, and the partitions that follow from them alone.

    Examples
    --------
    >>> layout = StoreLayout(n_rows=250, n_features=4, chunk_rows=100, itemsize=4)
    >>> layout.n_chunks, layout.chunk_bounds(2), layout.n_partitions
    (3, (200, 250), 3)
    >>> StoreLayout(n_rows=1, n_features=1, chunk_rows=100, itemsize=4).partition_bounds(0)
    (0, 1)
    >>> view = StoreLayout(n_rows=130, n_features=4, chunk_rows=100, itemsize=4, starts=(0, 30), aside_rows=100)
    >>> view.chunk_sizes, view.chunk_at(np.array([29, 30])), view.aside_nbytes
    (array([ 30, 100]), array([0, 1]), 3200)
    """

    n_rows: int
    """Rows, at least 1."""
    n_features: int
    """Columns, at least 1."""
    chunk_rows: int
    """Most rows of a chunk; where `starts` is None, only the last chunk may have fewer."""
    itemsize: int
    """Bytes of one value."""
    starts: tuple[int, ...] | None = field(default=None, repr=False)
    """First row of each chunk, where not all chunks but the last have `chunk_rows`; else None."""
    aside_rows: int = 0
    """Rows that are decoded aside while one chunk is read, since only a part of them belongs to it."""
    sparse: SparseSize | None = None
    """Bytes of a sparse matrix, whose rows have different sizes; None of a dense one."""
    outputs_nbytes: int = field(default=0, repr=False)
    """Bytes of the labels of a row where it has several; 0 where one is next to nothing beside the features."""
    _edges: NDArray[np.int64] | None = field(init=False, repr=False, compare=False)
    """`starts` and the number of rows; None where `starts` is."""

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise InvalidDataError(f"The matrix has {self.n_rows} rows. At least 1 row is needed.")
        if self.n_features < 1:
            raise InvalidDataError(f"The matrix has {self.n_features} columns. At least 1 column is needed.")
        check_count("chunk_rows", self.chunk_rows, least=1)
        check_count("itemsize", self.itemsize, least=1)
        check_count("aside_rows", self.aside_rows, least=0)
        object.__setattr__(self, "_edges", None if self.starts is None else self._checked_edges(self.starts))
        if self._edges is not None and np.array_equal(self._edges, self._regular_edges()):
            # One form for one geometry: equal chunks give equal plans, wherever they come from.
            object.__setattr__(self, "_edges", None)
            object.__setattr__(self, "starts", None)

    def _checked_edges(self, starts: tuple[int, ...]) -> NDArray[np.int64]:
        edges = np.array([*starts, self.n_rows], dtype=np.int64)
        sizes = np.diff(edges)
        if edges[0] != 0 or (sizes < 1).any() or (sizes > self.chunk_rows).any():
            raise InvalidParameterError(
                f"starts must begin with 0 and ascend by 1 to {self.chunk_rows} rows up to {self.n_rows}, "
                f"got {len(starts)} that do not."
            )
        edges.flags.writeable = False
        return edges

    def _regular_edges(self) -> NDArray[np.int64]:
        return np.append(np.arange(0, self.n_rows, self.chunk_rows, dtype=np.int64), self.n_rows)

    # -- chunks --------------------------------------------------------------------------------------

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_rows // self.chunk_rows) if self.starts is None else len(self.starts)

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of features, on average where the matrix is sparse."""
        return self.n_features * self.itemsize if self.sparse is None else -(-self.sparse.nbytes // self.n_rows)

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of one full chunk of features, decoded; of the largest one where the matrix is sparse."""
        return min(self.chunk_rows, self.n_rows) * self.row_nbytes if self.sparse is None else self.sparse.chunk_nbytes

    @property
    def aside_nbytes(self) -> int:
        """Bytes of what is decoded aside while one chunk is read, encoded and decoded; several labels a row too."""
        labels = min(self.chunk_rows, self.n_rows) * self.outputs_nbytes
        return 2 * (self.aside_rows * self.row_nbytes + labels)

    @property
    def nbytes(self) -> int:
        """Bytes of all features, decoded."""
        return self.n_rows * self.row_nbytes if self.sparse is None else self.sparse.nbytes

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        """First row of each chunk, then the number of rows, ``(n_chunks + 1,)``."""
        return self._regular_edges() if self._edges is None else self._edges

    @property
    def chunk_sizes(self) -> NDArray[np.int64]:
        """Rows of each chunk, ``(n_chunks,)``."""
        return np.diff(self.chunk_edges)

    def chunk_bounds(self, chunk: int) -> tuple[int, int]:
        """First row (inclusive) and last row (exclusive) of a chunk."""
        if not 0 <= chunk < self.n_chunks:
            raise IndexError(f"chunk {chunk} is not in 0..{self.n_chunks - 1}")
        if self._edges is not None:
            return int(self._edges[chunk]), int(self._edges[chunk + 1])
        start = chunk * self.chunk_rows
        return start, min(start + self.chunk_rows, self.n_rows)

    def chunk_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Chunk that holds each of some rows."""
        if self._edges is None:
            return rows // self.chunk_rows
        return np.searchsorted(self._edges, rows, side="right") - 1

    def chunks_between(self, start: int, stop: int) -> range:
        """Chunks that hold the rows `start` (inclusive) to `stop` (exclusive), at least one row."""
        first, last = self.chunk_at(np.array([start, stop - 1])).tolist()
        return range(first, last + 1)

    def rows_of_chunks(self, n_chunks: int) -> int:
        """Rows that as many chunks hold: where chunks differ, on average."""
        if self.starts is None:
            return min(n_chunks * self.chunk_rows, self.n_rows)
        return self.n_rows * min(n_chunks, self.n_chunks) // self.n_chunks

    def chunks_for_rows(self, n_rows: int) -> int:
        """Least number of chunks that hold as many rows, in the sense of `rows_of_chunks`, at least 1."""
        n_rows = min(n_rows, self.n_rows)
        least = -(-n_rows // self.chunk_rows) if self.starts is None else -(-n_rows * self.n_chunks // self.n_rows)
        return max(1, least)

    def chunks_within_rows(self, n_rows: int) -> int:
        """Give how many chunks have no more rows than that, whichever they are, but at least 1."""
        if n_rows >= self.n_rows:  # a short last chunk must not be counted as a full one
            return self.n_chunks
        return max(1, n_rows // self.chunk_rows)

    # -- partitions ----------------------------------------------------------------------------------

    @property
    def partition_chunks(self) -> int:
        """Chunks of a partition; only the last partition may have fewer."""
        return -(-self.n_chunks // MAX_PARTITIONS)

    @property
    def n_partitions(self) -> int:
        """Number of partitions, at most ``MAX_PARTITIONS``."""
        return -(-self.n_chunks // self.partition_chunks)

    def chunks_of(self, partition: int) -> range:
        """Chunks of a partition."""
        if not 0 <= partition < self.n_partitions:
            raise IndexError(f"partition {partition} is not in 0..{self.n_partitions - 1}")
        first = partition * self.partition_chunks
        return range(first, min(first + self.partition_chunks, self.n_chunks))

    def partition_bounds(self, partition: int) -> tuple[int, int]:
        """First row (inclusive) and last row (exclusive) of a partition."""
        chunks = self.chunks_of(partition)
        return self.chunk_bounds(chunks[0])[0], self.chunk_bounds(chunks[-1])[1]

    def partition_rows(self) -> tuple[int, ...]:
        """Rows of each partition, in order."""
        bounds = (self.partition_bounds(partition) for partition in range(self.n_partitions))
        return tuple(stop - start for start, stop in bounds)
