"""The geometry of a store: chunks, and the partitions that tasks are made of."""

from __future__ import annotations

from dataclasses import dataclass

from streamfit.errors import InvalidDataError
from streamfit.options import check_count

__all__ = ["MAX_PARTITIONS", "StoreLayout", "chunk_rows_for"]

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
    rows = _CHUNK_NBYTES // max(1, n_features * itemsize)
    return max(1, rows - rows % 64 if rows > 64 else rows)


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
    """

    n_rows: int
    """Rows, at least 1."""
    n_features: int
    """Columns, at least 1."""
    chunk_rows: int
    """Rows of a chunk; only the last chunk may have fewer."""
    itemsize: int
    """Bytes of one value."""

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise InvalidDataError(f"The matrix has {self.n_rows} rows. At least 1 row is needed.")
        if self.n_features < 1:
            raise InvalidDataError(f"The matrix has {self.n_features} columns. At least 1 column is needed.")
        check_count("chunk_rows", self.chunk_rows, least=1)
        check_count("itemsize", self.itemsize, least=1)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_rows // self.chunk_rows)

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of features."""
        return self.n_features * self.itemsize

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of one full chunk of features, decoded."""
        return min(self.chunk_rows, self.n_rows) * self.row_nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of all features, decoded."""
        return self.n_rows * self.row_nbytes

    def chunk_bounds(self, chunk: int) -> tuple[int, int]:
        """First row (inclusive) and last row (exclusive) of a chunk."""
        if not 0 <= chunk < self.n_chunks:
            raise IndexError(f"chunk {chunk} is not in 0..{self.n_chunks - 1}")
        start = chunk * self.chunk_rows
        return start, min(start + self.chunk_rows, self.n_rows)

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
