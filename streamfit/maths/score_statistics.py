"""What is kept of all training scores beside the scores themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["ScoreStatistics", "require_finite"]


@dataclass(frozen=True, slots=True)
class ScoreStatistics:
    """Range and moments of all training scores, by which PyOD turns scores into probabilities.

    Examples
    --------
    >>> ScoreStatistics.of([np.array([1.0, 2.0]), np.array([3.0])]).mean
    2.0
    """

    minimum: float
    """Smallest score."""
    maximum: float
    """Largest score."""
    mean: float
    """Mean."""
    std: float
    """Population standard deviation, as ``numpy.std``."""
    n_rows: int = 0
    """How many scores there are; 0 where only the others are known."""
    m2: float = 0.0
    """Sum of squared distances from the mean."""

    @classmethod
    def of(cls, blocks: Iterable[NDArray[np.float64]]) -> Self:
        """Read all scores once, in row order.

        Raises
        ------
        InvalidDataError
            A score is not finite; it names the row. Or there is none, or they are too large for sums.
        """
        start, merged = 0, None
        for block in blocks:
            found = cls.of_block(block, start=start)
            start += len(block)
            merged = found if merged is None else merged if found is None else merged.merged(found)
        if merged is None:
            raise InvalidDataError("There are no scores. Give at least 1.")
        return merged

    @classmethod
    def of_block(cls, block: NDArray[np.float64], *, start: int) -> Self | None:
        """Read the scores of rows from `start` on; None where there are none.

        Raises
        ------
        InvalidDataError
            A score is not finite; it names the row. Or they are too large for sums.
        """
        require_finite(block, start=start)
        if not len(block):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(block.mean())
            m2 = float(((block - mean) ** 2).sum())
        return cls._checked(float(block.min()), float(block.max()), mean, len(block), m2)

    @classmethod
    def _checked(cls, minimum: float, maximum: float, mean: float, n_rows: int, m2: float) -> Self:
        if not np.isfinite(m2):
            raise InvalidDataError(
                f"The scores reach from {minimum} to {maximum}, and float64 does not hold their sum of squares. Divide "
                "them by a constant first."
            )
        return cls(minimum, maximum, mean, float(np.sqrt(m2 / n_rows)), n_rows, m2)

    def merged(self, other: Self) -> Self:
        """Join the statistics of other rows to these."""
        n_rows = self.n_rows + other.n_rows
        delta = other.mean - self.mean
        return self._checked(
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.mean + delta * other.n_rows / n_rows,
            n_rows,
            # A product overflows to infinity, where a power would raise.
            self.m2 + (other.m2 + delta * delta * self.n_rows * other.n_rows / n_rows),
        )


def require_finite(scores: NDArray[np.float64], *, start: int) -> None:
    """Refuse scores of rows from `start` on that are not finite.

    Raises
    ------
    InvalidDataError
        A score is not finite; it names the row.
    """
    finite = np.isfinite(scores)
    if not finite.all():
        at = int(np.flatnonzero(~finite)[0])
        raise InvalidDataError(
            f"The score of row {start + at} is {scores[at]}, and so may others be. Look at this row's features: "
            "constant columns and very large values are the usual cause.",
            row=start + at,
        )
