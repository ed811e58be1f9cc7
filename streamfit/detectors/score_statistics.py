"""What is kept of all training scores beside the scores themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["ScoreStatistics"]


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

    @classmethod
    def of(cls, blocks: Iterable[NDArray[np.float64]]) -> Self:
        """Read all scores once, in row order.

        Raises
        ------
        InvalidDataError
            A score is not finite; it names the row.
        """
        n, mean, m2 = 0, 0.0, 0.0
        minimum, maximum = np.inf, -np.inf
        for block in blocks:
            finite = np.isfinite(block)
            if not finite.all():
                at = int(np.flatnonzero(~finite)[0])
                raise InvalidDataError(
                    f"The score of row {n + at} is {block[at]}, and so may others be. Look at this row's features: "
                    "constant columns and very large values are the usual cause.",
                    row=n + at,
                )
            minimum, maximum = min(minimum, float(block.min())), max(maximum, float(block.max()))
            block_mean = float(block.mean())
            delta, total = block_mean - mean, n + len(block)
            m2 += float(((block - block_mean) ** 2).sum()) + delta**2 * n * len(block) / total
            mean += delta * len(block) / total
            n = total
        return cls(minimum, maximum, mean, float(np.sqrt(m2 / n)))
