"""Histograms of columns, with the very counts of ``numpy.histogram``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["HistogramCounts"]

_TILE_VALUES = 65_536
"""Values binned at a time: their indices stay in the cache between the steps."""


@dataclass(frozen=True, slots=True, eq=False)
class HistogramCounts:
    """Summary of the histogram of each column over bins of equal width.

    The counts and edges are those of ``numpy.histogram(column, bins=n_bins, range=(minimum, maximum))`` over
    the whole column: there a value's bin depends on the value and the edges alone, so the counts of chunks
    add up. Bins are closed on the left, the last one on both sides. The range of a constant column is widened
    by 0.5 on both sides. Values outside the range, and NaN, are not counted.

    float32 and float64 data are binned in their own type, as in NumPy; integers (up to 2**53) as float64,
    as in NumPy; float16 as float32.

    Raises
    ------
    InvalidDataError
        A range is not finite, its width overflows, or it cannot be cut into so many distinct bins.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = HistogramCounts(np.array([0.0, 7.0]), np.array([4.0, 7.0]), n_bins=2)
    >>> rows = np.array([[0.0, 7.0], [2.0, 7.0], [4.0, 7.0], [4.1, np.nan]])
    >>> state = summary.update(summary.empty(), Chunk(0, 0, rows))
    >>> summary.finalize(state)[0]
    (array([1, 2]), array([0., 2., 4.]))
    >>> summary.finalize(state)[1]
    (array([0, 3]), array([6.5, 7. , 7.5]))
    """

    minimum: NDArray[Any]
    """Smallest value of each column, ``(n_features,)``, inclusive, in the dtype of the data."""
    maximum: NDArray[Any]
    """Largest value of each column, ``(n_features,)``, inclusive, in the dtype of the data."""
    n_bins: int | Sequence[int]
    """Bins of every column, or of each."""
    _bins: _Bins = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n_bins = [self.n_bins] * len(self.minimum) if isinstance(self.n_bins, int) else self.n_bins
        columns = enumerate(zip(self.minimum, self.maximum, n_bins, strict=True))
        edges = [_uniform_edges(column, low, high, n) for column, (low, high, n) in columns]
        object.__setattr__(self, "_bins", _Bins.of(edges))

    def empty(self) -> NDArray[np.int64]:
        """Give the counts of no rows: the bins of all columns, one column after the other."""
        return np.zeros(self._bins.left.size, dtype=np.int64)

    def update(self, state: NDArray[np.int64], chunk: Chunk) -> NDArray[np.int64]:
        """Add the rows of a chunk; the state is changed."""
        tile_rows = max(1, _TILE_VALUES // len(self.minimum))
        for start in range(0, chunk.n_rows, tile_rows):
            state += self._bins.count(chunk.X[start : start + tile_rows])
        return state

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Join the counts of two disjoint sets of rows."""
        return left + right

    def finalize(self, state: NDArray[np.int64]) -> tuple[tuple[NDArray[np.int64], NDArray[Any]], ...]:
        """Give the counts ``(n_bins,)`` and the edges ``(n_bins + 1,)`` of each column."""
        counts = np.split(state, self._bins.offset[1:])
        return tuple(zip(counts, self._bins.edges, strict=True))

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return 8 * self._bins.left.size


def _uniform_edges(column: int, low: Any, high: Any, n_bins: int) -> NDArray[Any]:
    dtype = np.result_type(low, np.float32 if np.asarray(low).dtype.kind == "f" else np.float64)
    low, high = dtype.type(low), dtype.type(high)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(high - low))
    if not finite:
        raise InvalidDataError(
            f"Column {column} has no finite range ({low} to {high}). Remove what is not finite, or rescale.",
            column=str(column),
        )
    try:
        return np.histogram_bin_edges(np.empty(0, dtype), bins=n_bins, range=(low, high))
    except ValueError as error:
        raise InvalidDataError(
            f"Column {column}, {low} to {high} in {dtype}, cannot be cut into {n_bins} bins. Use fewer bins, "
            "or shift the column towards 0.",
            column=str(column),
        ) from error


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """The bins of all columns, one column after the other, so that all columns are binned at once."""

    edges: list[NDArray[Any]]
    """Edges of each column, ``(n_bins + 1,)``, of one float type."""
    left: NDArray[Any]
    """Left edge of each bin."""
    right: NDArray[Any]
    """Right edge of each bin, +inf for the last bin of a column, which also holds its right edge."""
    offset: NDArray[np.intp]
    """First bin of each column."""
    last_bin: NDArray[np.intp]
    """Number of the last bin of each column, counted from 0 in its column."""
    first_edge: NDArray[Any]
    """First edge of each column."""
    last_edge: NDArray[Any]
    """Last edge of each column."""

    @classmethod
    def of(cls, edges: list[NDArray[Any]]) -> _Bins:
        n_bins = np.array([len(column) - 1 for column in edges], dtype=np.intp)
        return cls(
            edges=edges,
            left=np.concatenate([column[:-1] for column in edges]),
            right=np.concatenate([np.append(column[1:-1], column.dtype.type(np.inf)) for column in edges]),
            offset=np.cumsum(n_bins) - n_bins,
            last_bin=n_bins - 1,
            first_edge=np.array([column[0] for column in edges]),
            last_edge=np.array([column[-1] for column in edges]),
        )

    def count(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Count rows into bins by the steps of ``numpy.histogram``, in its order and in its types."""
        dtype = self.first_edge.dtype
        rows = rows.astype(dtype, copy=False)
        inside = rows >= self.first_edge
        inside &= rows <= self.last_edge
        all_inside = bool(inside.all())
        if not all_inside:
            rows = np.where(inside, rows, self.first_edge)
        position = rows - self.first_edge
        position /= self.last_edge - self.first_edge
        position *= (self.last_bin + 1).astype(dtype)
        index = position.astype(np.intp)
        np.minimum(index, self.last_bin, out=index)
        index += self.offset
        # The division may be off by a rounding: the edges decide, first to the left, then to the right.
        index -= rows < self.left[index]
        index += rows >= self.right[index]
        counted = index.ravel() if all_inside else index[inside]
        return np.bincount(counted, minlength=self.left.size)
