"""Scores and thresholds that were looked at: of one dimension or none, and never NaN."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_vector", "block_starts", "checked_scores", "checked_threshold", "require_rows"]


def as_vector(values: Any, *, name: str) -> Any:
    """Give a dask array as it is and anything else as a NumPy array, if it is a real vector.

    Raises
    ------
    InvalidDataError
        It has more dimensions, is not of real numbers or masked, or its blocks do not know their rows.
    """
    vector = values if isinstance(values, da.Array) else np.asarray(unmasked(values, what=name))
    if vector.ndim != 1:
        raise InvalidDataError(f"{name} must have one dimension, got shape {vector.shape}. Pass one value a row.")
    if vector.dtype.kind not in "biuf":
        raise InvalidDataError(f"{name} must be real numbers, got {vector.dtype}. Convert them first.")
    if np.isnan(vector.shape[0]):
        raise InvalidDataError(f"{name} has blocks of unknown length. Call its compute_chunk_sizes() first.")
    return vector


def require_rows(vector: Any, *, purpose: str) -> None:
    """Refuse an empty vector."""
    if vector.shape[0] == 0:
        raise InvalidDataError(f"{purpose} of no scores does not exist. Pass at least 1 score.")


def block_starts(vector: da.Array) -> NDArray[np.int64]:
    """Give the global number of the first row of each block, ``(n_blocks,)``."""
    lengths = np.array(vector.chunks[0], dtype=np.int64)
    return np.cumsum(lengths) - lengths


def checked_scores(scores: Any) -> Any:
    """Give scores as float64; a NaN raises, for a dask array when its block is computed.

    Called twice on one dask array it gives the same keys, so that several aggregates share the work.

    Raises
    ------
    InvalidDataError
        A score is NaN; the message names the first such row, in a dask array the first of a block.
    """
    vector = as_vector(scores, name="scores")
    if not isinstance(vector, da.Array):
        return _check_block(vector, np.zeros(1, dtype=np.int64), block_id=(0,))
    return da.map_blocks(
        _check_block, vector, block_starts(vector), dtype=np.float64, meta=np.empty(0, dtype=np.float64)
    )


def _check_block(block: NDArray[Any], starts: NDArray[np.int64], *, block_id: tuple[int]) -> NDArray[np.float64]:
    scores = block.astype(np.float64, copy=False)
    missing = np.isnan(scores)
    if missing.any():
        row = int(starts[block_id[0]]) + int(missing.argmax())
        raise InvalidDataError(
            f"The score of row {row} is NaN, so the rows have no order. Look at the features of this row, or drop it.",
            row=row,
        )
    return scores


def checked_threshold(threshold: Any) -> Any:
    """Give a threshold as it is, if it is one number; of a lazy one a NaN raises when it is computed.

    Raises
    ------
    InvalidParameterError
        It is NaN, or no number.
    """
    if isinstance(threshold, da.Array) and threshold.ndim == 0:
        return da.map_blocks(_check_threshold, threshold, dtype=np.float64, meta=np.empty((), dtype=np.float64))
    if not isinstance(threshold, Real) and not (isinstance(threshold, np.ndarray) and threshold.ndim == 0):
        raise InvalidParameterError(f"threshold must be one number for all rows, got {threshold!r}.")
    return _check_threshold(threshold)


def _check_threshold(threshold: Any) -> Any:
    if np.isnan(threshold):
        raise InvalidParameterError("threshold must be a number, got NaN. Compute it from scores without NaN.")
    return threshold
