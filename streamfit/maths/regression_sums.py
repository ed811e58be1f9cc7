"""Means and squared deviations of true numbers and of errors, from pieces that are joined exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RegressionSums"]


@dataclass(frozen=True, slots=True, eq=False)
class RegressionSums:
    """Sums over rows of true and predicted numbers, of each output."""

    n_rows: int
    """Rows."""
    mean: NDArray[np.float64]
    """Mean of the true values, ``(n_outputs,)``."""
    squared_deviation: NDArray[np.float64]
    """Sum of the squared distances of the true values from their mean."""
    error_mean: NDArray[np.float64]
    """Mean of the errors."""
    error_squared_deviation: NDArray[np.float64]
    """Sum of the squared distances of the errors from their mean."""
    squared_error: NDArray[np.float64]
    """Sum of the squared errors."""

    @classmethod
    def of(cls, true: NDArray[Any], predicted: NDArray[Any]) -> RegressionSums:
        """Sum the rows of one chunk, ``(n_rows,)`` or ``(n_rows, n_outputs)``."""
        n_rows = len(true)
        values = np.asarray(true, dtype=np.float64).reshape(n_rows, -1)
        errors = values - np.asarray(predicted, dtype=np.float64).reshape(n_rows, -1)
        mean, error_mean = values.mean(axis=0), errors.mean(axis=0)
        return cls(
            n_rows=n_rows,
            mean=mean,
            squared_deviation=np.square(values - mean).sum(axis=0),
            error_mean=error_mean,
            error_squared_deviation=np.square(errors - error_mean).sum(axis=0),
            squared_error=np.square(errors).sum(axis=0),
        )

    def merge(self, other: RegressionSums) -> RegressionSums:
        """Join the sums of disjoint rows (Chan, Golub and LeVeque, 1979)."""
        n_rows = self.n_rows + other.n_rows
        # From the more rows to the fewer, so that merge(a, b) and merge(b, a) are the same bits.
        fewer, more = sorted((self, other), key=_place)
        share, pairs = fewer.n_rows / n_rows, fewer.n_rows * more.n_rows / n_rows
        apart, error_apart = fewer.mean - more.mean, fewer.error_mean - more.error_mean
        return RegressionSums(
            n_rows=n_rows,
            mean=more.mean + apart * share,
            squared_deviation=self.squared_deviation + other.squared_deviation + apart * apart * pairs,
            error_mean=more.error_mean + error_apart * share,
            error_squared_deviation=self.error_squared_deviation
            + other.error_squared_deviation
            + error_apart * error_apart * pairs,
            squared_error=self.squared_error + other.squared_error,
        )

    def r2(self) -> float:
        """Give the coefficient of determination, averaged over the outputs.

        Examples
        --------
        >>> RegressionSums.of(np.array([1.0, 3.0]), np.array([1.0, 2.0])).r2()
        0.5
        >>> RegressionSums.of(np.array([1.0]), np.array([1.0])).r2()
        nan
        """
        return math.nan if self.n_rows < 2 else _explained(self.squared_error, self.squared_deviation)

    def explained_variance(self) -> float:
        """Give the share of the variance that is explained, averaged over the outputs.

        Examples
        --------
        >>> RegressionSums.of(np.array([1.0, 3.0]), np.array([2.0, 4.0])).explained_variance()
        1.0
        """
        return _explained(self.error_squared_deviation, self.squared_deviation)


def _place(sums: RegressionSums) -> tuple[int, list[float], list[float]]:
    return sums.n_rows, sums.mean.tolist(), sums.error_mean.tolist()


def _explained(unexplained: NDArray[np.float64], total: NDArray[np.float64]) -> float:
    # Of a constant as scikit-learn has it: all where it is met, else nothing.
    shares = np.where(unexplained == 0, 1.0, 0.0)
    np.divide(unexplained, total, out=shares, where=total != 0)
    return float(np.mean(np.where(total != 0, 1.0 - shares, shares)))
