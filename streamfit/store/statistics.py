"""Per-column statistics, one chunk at a time, merged without cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Statistics"]

_FIELDS = ("n_finite", "n_nonfinite", "minimum", "maximum", "mean", "squares")
_BLOCK_NBYTES = 2**20
_COMPILED_VALUES = 2**17
"""From here on a compiled kernel pays, which needs a tenth of NumPy's time and .4 s to be loaded."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """What is known about each column, in float64. NaN where a column has no finite value.

    Examples
    --------
    >>> first = Statistics.of(np.array([[1.0, np.nan], [3.0, 5.0]]))
    >>> both = first.merge(Statistics.of(np.array([[8.0, np.inf]])))
    >>> both.mean, both.variance, both.n_nonfinite
    (array([4., 5.]), array([8.66666667, 0.        ]), array([0, 2]))
    """

    n_finite: NDArray[np.int64]
    """Finite values of each column, ``(n_features,)``."""
    n_nonfinite: NDArray[np.int64]
    """NaN and infinite values of each column."""
    minimum: NDArray[np.float64]
    """Smallest finite value of each column."""
    maximum: NDArray[np.float64]
    """Largest finite value of each column."""
    mean: NDArray[np.float64]
    """Mean of the finite values of each column."""
    squares: NDArray[np.float64]
    """Sum of squared deviations from the mean."""

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance of the finite values of each column, divided by their number (``ddof=0``)."""
        return np.where(self.n_finite > 0, self.squares / np.maximum(self.n_finite, 1), np.nan)

    @classmethod
    def empty(cls, n_features: int) -> Statistics:
        """Give the statistics of no rows."""
        none = np.zeros(n_features, dtype=np.int64)
        nan = np.full(n_features, np.nan)
        return cls(none, none, nan, nan, nan, np.zeros(n_features))

    @classmethod
    def of(cls, X: Any) -> Statistics:
        """Measure one chunk, ``(n_rows, n_features)``, an ndarray or CSR rows, at least one row.

        The mean is taken first and the squares are summed around it, so an offset of a million costs no
        digits.
        """
        if not isinstance(X, np.ndarray) or X.size >= _COMPILED_VALUES:
            return cls._of_many(X)
        with np.errstate(invalid="ignore", over="ignore"):
            minimum = X.min(axis=0).astype(np.float64)
            maximum = X.max(axis=0).astype(np.float64)
            # NaN passes through a minimum, and an infinity is one end or the other.
            if not (np.isfinite(minimum).all() and np.isfinite(maximum).all()):
                return cls._of_partly_finite(X)
            mean = X.mean(axis=0, dtype=np.float64)
            squares = np.zeros(X.shape[1])
            block = max(1, _BLOCK_NBYTES // (8 * X.shape[1]))
            for start in range(0, len(X), block):
                deviation = X[start : start + block] - mean
                squares += np.einsum("ij,ij->j", deviation, deviation)
        n_rows = np.full(X.shape[1], len(X), dtype=np.int64)
        return cls(n_rows, np.zeros_like(n_rows), minimum, maximum, mean, squares)

    @classmethod
    def _of_many(cls, X: Any) -> Statistics:
        # Numba is not imported for small stores: that takes longer than to write them.
        from streamfit.maths.column_moments import column_moments, sparse_column_moments

        measure = column_moments if isinstance(X, np.ndarray) else sparse_column_moments
        n_finite, minimum, maximum, mean, squares = measure(X)
        some = n_finite > 0
        return cls(
            n_finite,
            X.shape[0] - n_finite,
            np.where(some, minimum, np.nan),
            np.where(some, maximum, np.nan),
            np.where(some, mean, np.nan),
            squares,
        )

    @classmethod
    def _of_partly_finite(cls, X: NDArray[Any]) -> Statistics:
        finite = np.isfinite(X)
        n_finite = finite.sum(axis=0)
        some = n_finite > 0
        minimum = np.where(finite, X, np.inf).min(axis=0)
        maximum = np.where(finite, X, -np.inf).max(axis=0)
        mean = np.where(finite, X, 0).sum(axis=0, dtype=np.float64) / np.maximum(n_finite, 1)
        deviation = np.where(finite, X, mean) - mean
        squares = np.einsum("ij,ij->j", deviation, deviation)
        return cls(
            n_finite,
            len(X) - n_finite,
            np.where(some, minimum, np.nan).astype(np.float64),
            np.where(some, maximum, np.nan).astype(np.float64),
            np.where(some, mean, np.nan),
            squares,
        )

    def merge(self, other: Statistics) -> Statistics:
        """Join with the statistics of other rows (Chan, Golub and LeVeque 1979)."""
        n_finite = self.n_finite + other.n_finite
        share = other.n_finite / np.maximum(n_finite, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = np.where(self.n_finite > 0, other.mean - self.mean, 0.0)
            delta = np.where(other.n_finite > 0, delta, 0.0)
            start = np.where(self.n_finite > 0, self.mean, other.mean)
            between = delta * delta * (self.n_finite * share)
            return Statistics(
                n_finite,
                self.n_nonfinite + other.n_nonfinite,
                np.fmin(self.minimum, other.minimum),
                np.fmax(self.maximum, other.maximum),
                start + delta * share,
                self.squares + other.squares + between,
            )

    def to_json(self) -> dict[str, list[Any]]:
        """Give plain values; those that JSON cannot say are texts that ``float`` understands."""
        return {
            name: [value if np.isfinite(value) else str(value) for value in getattr(self, name).tolist()]
            for name in _FIELDS
        }

    @classmethod
    def from_json(cls, values: dict[str, list[Any]]) -> Statistics:
        """Read what `to_json` gave, bit for bit."""
        arrays: dict[str, NDArray[Any]] = {name: np.array([float(value) for value in values[name]]) for name in _FIELDS}
        for name in ("n_finite", "n_nonfinite"):
            arrays[name] = np.array(values[name], dtype=np.int64)
        return cls(**arrays)
