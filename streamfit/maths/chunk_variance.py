"""The intraclass correlation of rows in chunks, from the mean and the squares of each chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["MeanSquares"]


class MeanSquares:
    """Mean squares between and within chunks for each column, added up chunk by chunk (one-way analysis of variance).

    What is held is a few values a column, however many chunks are added. Means of chunks are joined as Chan, Golub
    and LeVeque (1979) do, so that an offset of all values costs no digits.

    Parameters
    ----------
    n_columns : int
        Columns.

    Examples
    --------
    >>> squares = MeanSquares(1)
    >>> for values in ([1.0, 3.0], [2.0, 4.0], [7.0, 9.0]):
    ...     squares.add(n_rows=2, mean=[np.mean(values)], deviations=[np.var(values) * 2])
    >>> squares.between(), squares.within()  # 2 · (4 + 1 + 9) / 2 · 2 / 3 of the chunks' means, and 6 / 3
    (array([20.66666667]), array([2.]))
    >>> squares.mean_chunk_rows()
    array([2.])
    """

    def __init__(self, n_columns: int) -> None:
        self._n_chunks = np.zeros(n_columns, dtype=np.int64)
        self._n_rows = np.zeros(n_columns)
        self._squared_rows = np.zeros(n_columns)
        self._mean = np.zeros(n_columns)
        self._between = np.zeros(n_columns)
        self._within = np.zeros(n_columns)

    def add(self, *, n_rows: ArrayLike, mean: ArrayLike, deviations: ArrayLike) -> None:
        """Add a chunk.

        Parameters
        ----------
        n_rows : array-like, scalar or of shape (n_columns,)
            Values of each column in the chunk; a column without one is left as it is.
        mean : array-like of shape (n_columns,)
            Their mean.
        deviations : array-like of shape (n_columns,)
            Sum of their squared deviations from it.
        """
        n_new = np.broadcast_to(np.asarray(n_rows, dtype=np.float64), self._mean.shape)
        some = n_new > 0
        n_all = self._n_rows + n_new
        away = np.where(some, np.asarray(mean, dtype=np.float64) - self._mean, 0.0)
        share = n_new / np.where(some, n_all, 1.0)
        self._between += away * away * share * self._n_rows
        self._mean += away * share
        self._within += np.where(some, deviations, 0.0)
        self._n_rows = n_all
        self._squared_rows += n_new * n_new
        self._n_chunks += some

    def between(self) -> NDArray[np.float64]:
        """Give the mean square between chunks, ``(n_columns,)``; 0 of fewer than two chunks."""
        return _quotient(self._between, self._n_chunks - 1)

    def within(self) -> NDArray[np.float64]:
        """Give the mean square within chunks, ``(n_columns,)``; 0 where no chunk has two values."""
        return _quotient(self._within, self._n_rows - self._n_chunks)

    def mean_chunk_rows(self) -> NDArray[np.float64]:
        """Give the rows of a chunk that stand for chunks of different sizes, ``(n_columns,)``.

        It is the mean less a share of the variance: what makes the expectation of the mean square between chunks
        what it is for chunks of equal size (Donner, 1986, International Statistical Review 54).
        """
        unequal = self._squared_rows / np.maximum(self._n_rows, 1.0)
        return _quotient(self._n_rows - unequal, self._n_chunks - 1)

    def varying(self) -> NDArray[Any]:
        """Tell which columns vary and have the two chunks, and two values in one, that a correlation needs."""
        measurable = (self._n_chunks > 1) & (self._n_rows > self._n_chunks)
        return measurable & (self._between + self._within > 0)


def _quotient(numerator: NDArray[np.float64], divisor: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(divisor > 0, numerator / np.maximum(divisor, 1), 0.0)
