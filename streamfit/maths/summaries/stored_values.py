"""How many rows store a value in each column: document frequencies of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["StoredValues"]


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Summary of the number of values of each column that sparse rows store, or that are not 0 in dense rows.

    Examples
    --------
    >>> from streamfit.batch import Chunk
    >>> summary = StoredValues(n_features=2)
    >>> summary.update(summary.empty(), Chunk(0, 0, np.array([[0.0, 1.0], [0.0, np.nan]])))
    array([0, 2])
    """

    n_features: int
    """Number of columns."""

    def empty(self) -> NDArray[np.int64]:
        """Give the counts of no rows."""
        return np.zeros(self.n_features, dtype=np.int64)

    def update(self, state: NDArray[np.int64], chunk: Chunk) -> NDArray[np.int64]:
        """Add the rows of a chunk; the state is changed."""
        X: Any = chunk.X
        state += np.bincount(X.indices, minlength=self.n_features) if issparse(X) else np.count_nonzero(X, axis=0)
        return state

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Join the counts of two disjoint sets of rows."""
        return left + right

    def finalize(self, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the counts, ``(n_features,)``."""
        return state

    @property
    def state_nbytes(self) -> int:
        """Size of a state in bytes."""
        return 8 * self.n_features
