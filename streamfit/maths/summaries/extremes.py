"""Smallest and largest value of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from streamfit.batch import Chunk

__all__ = ["ColumnExtremes", "MinMax"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnExtremes:
    """Smallest and largest value of each column, in the dtype of the data."""

    minimum: NDArray[Any]
    """Smallest values, ``(n_features,)``; NaN where the column holds one. Of no rows: the largest number that
    the dtype has, which is +inf for floats."""
    maximum: NDArray[Any]
    """Largest values, ``(n_features,)``; NaN where the column holds one. Of no rows: the smallest number that
    the dtype has, which is -inf for floats."""


@dataclass(frozen=True, slots=True)
class MinMax:
    """Summary of the range of each column.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = MinMax(n_features=2, dtype=np.float64)
    >>> state = summary.update(summary.empty(), Chunk(0, 0, np.array([[1.0, 5.0], [2.0, np.nan]])))
    >>> summary.finalize(state).maximum
    array([ 2., nan])
    """

    n_features: int
    """Number of columns."""
    dtype: DTypeLike
    """Type of the data, floats or integers; the extremes keep it, since histograms round in it."""

    def empty(self) -> ColumnExtremes:
        """Give the range of no rows."""
        dtype = np.dtype(self.dtype)
        lowest, highest = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return ColumnExtremes(
            minimum=np.full(self.n_features, highest, dtype), maximum=np.full(self.n_features, lowest, dtype)
        )

    def update(self, state: ColumnExtremes, chunk: Chunk) -> ColumnExtremes:
        """Add the rows of a chunk."""
        if chunk.n_rows == 0:
            return state
        return self.merge(state, ColumnExtremes(chunk.X.min(axis=0), chunk.X.max(axis=0)))

    def merge(self, left: ColumnExtremes, right: ColumnExtremes) -> ColumnExtremes:
        """Join two ranges."""
        return ColumnExtremes(np.minimum(left.minimum, right.minimum), np.maximum(left.maximum, right.maximum))

    def finalize(self, state: ColumnExtremes) -> ColumnExtremes:
        """Give the range."""
        return state

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return 2 * np.dtype(self.dtype).itemsize * self.n_features
