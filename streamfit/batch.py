"""Rows on their way from a store to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Batch", "BatchTest", "Chunk"]


def _check_lengths(X: Any, others: dict[str, NDArray[Any] | None]) -> None:
    for name, values in others.items():
        if values is not None and len(values) != X.shape[0]:
            raise InvalidDataError(
                f"{name} has {len(values)} rows and X has {X.shape[0]}. Give one value of {name} for each row."
            )


@dataclass(frozen=True, slots=True)
class Chunk:
    """One decoded and verified chunk, or the part of it that is committed.

    `X` may be a view of a buffer that is used again: copy what must outlive the call.
    """

    index: int
    """Number of the chunk in its store, counted from 0."""
    start: int
    """Global number of its first row, inclusive."""
    X: Any
    """Features, ``(n_rows, n_features)``: an ndarray in C order and native byte order, or a ``csr_array`` where the
    store is sparse."""
    y: NDArray[Any] | None = None
    """Labels, ``(n_rows,)`` or ``(n_rows, n_outputs)``, decoded, or None where the store has none."""
    sample_weight: NDArray[np.float64] | None = None
    """Weights, ``(n_rows,)``, or None where the store has none."""

    def __post_init__(self) -> None:
        _check_lengths(self.X, {"y": self.y, "sample_weight": self.sample_weight})

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def stop(self) -> int:
        """Global number of its last row, exclusive."""
        return self.start + self.n_rows

    @property
    def rows(self) -> NDArray[np.int64]:
        """Global row numbers, ``(n_rows,)``."""
        return np.arange(self.start, self.stop, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step. It owns its memory: it may be kept, changed, or handed to another thread."""

    step: int
    """Position in the epoch, counted from 0."""
    epoch: int
    """Number of the epoch, counted from 0."""
    X: Any
    """Features, ``(n_rows, n_features)``: an ndarray in C order, or a ``csr_array`` where the store is sparse."""
    rows: NDArray[np.int64]
    """Global row numbers, ``(n_rows,)``."""
    y: NDArray[Any] | None = None
    """Labels, ``(n_rows,)`` or ``(n_rows, n_outputs)``, or None where the store has none."""
    sample_weight: NDArray[np.float64] | None = None
    """Weights, ``(n_rows,)``, or None where the store has none."""

    def __post_init__(self) -> None:
        _check_lengths(self.X, {"rows": self.rows, "y": self.y, "sample_weight": self.sample_weight})

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])


class BatchTest(Protocol):
    """Look at a batch with the model that has not learnt from it yet: a pure function, run where the model is.

    It is a small value that travels to workers.
    """

    def __call__(self, model: Any, batch: Batch) -> Any:
        """Give a small record of what was seen, made of what pickle knows, or None.

        `model` may lack a fit: at the first step it has learnt nothing at all.
        """
