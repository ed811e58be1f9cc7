"""The rows of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BatchPlan", "Piece"]


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a batch that comes from one window."""

    window: int
    """Number of the window."""
    positions: NDArray[np.int64]
    """Rows of the window's buffer, in the order of the batch.

    The buffer holds the window's chunks in ascending order, end to end.
    """


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The rows of one step."""

    step: int
    """Position in the epoch, counted from 0."""
    pieces: tuple[Piece, ...]
    """Where the rows are found, window by window."""
    rows: NDArray[np.int64]
    """Global row numbers, in the order of the batch."""
