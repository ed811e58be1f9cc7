"""From scores to the probability of being an outlier, as PyOD turns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

from streamfit.errors import InvalidParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.detectors.score_statistics import ScoreStatistics

__all__ = ["outlier_probabilities"]


def outlier_probabilities(scores: Any, statistics: ScoreStatistics, method: str) -> Any:
    """Give the probabilities of an inlier and of an outlier, ``(n_rows, 2)``, lazy for lazy scores.

    Parameters
    ----------
    scores : dask.array.Array or ndarray of float64, (n_rows,)
        Scores of new rows.
    statistics : ScoreStatistics
        Of the training scores.
    method : {"linear", "unify"}
        See `streamfit.detector.StreamDetector.predict_proba`.

    Raises
    ------
    InvalidParameterError
        `method` is none of these.
    """
    if method == "linear":
        span = statistics.maximum - statistics.minimum
        # As scikit-learn's MinMaxScaler does: scores that differ by rounding alone are not scaled.
        span = span if span >= 10 * np.finfo(np.float64).eps else 1.0
        outlier = (scores - statistics.minimum) / span
    elif method == "unify":
        outlier = (scores - statistics.mean) / ((statistics.std or 1.0) * np.sqrt(2))
    else:
        raise InvalidParameterError(f"method must be 'linear' or 'unify', got {method!r}.")
    if isinstance(outlier, np.ndarray):
        return _two_classes(outlier, method)
    return outlier.map_blocks(
        _two_classes,
        method,
        dtype=np.float64,
        new_axis=1,
        chunks=(outlier.chunks[0], (2,)),
        meta=np.empty((0, 2)),
    )


def _two_classes(outlier: NDArray[np.float64], method: str) -> NDArray[np.float64]:
    probability = np.clip(erf(outlier) if method == "unify" else outlier, 0, 1)
    return np.stack([1 - probability, probability], axis=1)
