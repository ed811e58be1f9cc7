"""From scores to the probability of being an outlier, as PyOD turns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.maths.calibration_curves import LinearCurve, UnifyingCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.maths.calibration_curves import CalibrationCurve
    from streamfit.maths.score_statistics import ScoreStatistics

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
        curve: CalibrationCurve = LinearCurve(statistics)
    elif method == "unify":
        curve = UnifyingCurve(statistics)
    else:
        raise InvalidParameterError(f"method must be 'linear' or 'unify', got {method!r}.")
    if isinstance(scores, np.ndarray):
        return _two_classes(scores, curve)
    return scores.map_blocks(
        _two_classes,
        curve,
        dtype=np.float64,
        new_axis=1,
        chunks=(scores.chunks[0], (2,)),
        meta=np.empty((0, 2)),
    )


def _two_classes(scores: NDArray[np.float64], curve: CalibrationCurve) -> NDArray[np.float64]:
    probability = curve(scores)
    return np.stack([1 - probability, probability], axis=1)
