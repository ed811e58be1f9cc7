"""From scores to the probability of being an anomaly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from dask.base import compute

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.calibration_curves import LinearCurve, UnifyingCurve
from streamfit.maths.calibration_fits import fit_isotonic, fit_sigmoid
from streamfit.maths.ranked_values import distinct_values
from streamfit.maths.score_statistics import ScoreStatistics, require_finite
from streamfit.maths.sorted_runs import extremes
from streamfit.options import check_choice
from streamfit.scores.blockwise import joined, per_block
from streamfit.scores.checked import checked_scores, require_rows
from streamfit.scores.labelled import check_missing, known_rows
from streamfit.scores.revisiting import with_result
from streamfit.scores.sorted_classes import class_totals, one_class, sorted_labelled
from streamfit.scores.sorting import all_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.maths.calibration_curves import CalibrationCurve
    from streamfit.scores.labelled import MissingLabels
    from streamfit.scores.sorting import SortedBlock

__all__ = ["Calibration", "calibrate"]

Method = Literal["linear", "unify", "isotonic", "sigmoid"]
_LEAST_RANGE = 1e-290
"""Of narrower scores the slope of a curve is no number."""
_SUPERVISED = ("isotonic", "sigmoid")


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A curve from scores to probabilities. Of lazy scores it is lazy; `compute` fits it."""

    method: Method
    """How it was fitted."""
    curve: Any
    """A `streamfit.maths.calibration_curves.CalibrationCurve`, or a dask object of it."""

    def compute(self) -> Calibration:
        """Give the same with a fitted curve."""
        computed: tuple[Calibration] = compute(self)
        return computed[0]

    def transform(self, scores: Any) -> Any:
        """Turn scores into probabilities.

        Parameters
        ----------
        scores : dask.array.Array or array-like, (n_rows,)
            Any scores of the detector that it was fitted for.

        Returns
        -------
        ndarray or dask.array.Array of float64, (n_rows,)
            Probability of being an anomaly, 0 to 1; lazy if the scores or the curve are.

        Raises
        ------
        InvalidDataError
            A score is NaN.
        """
        return with_result(_probabilities, checked_scores(scores), result=self.curve, dtype=np.float64)


def calibrate(
    scores: Any,
    labels: Any = None,
    *,
    method: Method,
    sample_weight: Any = None,
    missing: MissingLabels = "error",
) -> Calibration:
    """Fit a curve from scores to the probability of being an anomaly, over all rows in bounded memory.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous.
    labels : dask.array.Array or array-like, (n_rows,), or None
        1 for anomalies, 0 for the other rows, NaN where nobody knows; for the last two methods, which need them.
    method : {"linear", "unify", "isotonic", "sigmoid"}
        ``"linear"`` and ``"unify"`` are those of PyOD's ``predict_proba`` for the scores that it was fitted to, Equal.
        ``"isotonic"`` is scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``, Equal. ``"sigmoid"`` is Platt's,
        the optimum that scikit-learn's ``CalibratedClassifierCV`` approaches up to its own tolerance.
    sample_weight : dask.array.Array or array-like, (n_rows,), or None
        Weights of the rows, with labels.
    missing : {"error", "drop"}, default="error"
        What to do with rows without a label.

    Returns
    -------
    Calibration
        Its ``transform(scores)`` gives probabilities.

    Raises
    ------
    InvalidDataError
        There is no score, a score is not finite, the scores are too large or too near together, or labels are of one
        class only.
    InvalidParameterError
        A parameter is none of the above, or labels are given to a method that has no use for them, or are missing.

    Examples
    --------
    >>> curve = calibrate([0.0, 1.0, 2.0, 3.0], [0, 1, 0, 1], method="isotonic")
    >>> curve.transform([0.0, 1.5, 9.0]).tolist()
    [0.0, 0.5, 1.0]
    >>> calibrate([0.0, 4.0], method="linear").transform([1.0]).tolist()
    [0.25]
    """
    check_choice("method", method, get_args(Method))
    if method in _SUPERVISED:
        if labels is None:
            raise InvalidParameterError(f'method="{method}" needs labels. Give them, or choose "linear" or "unify".')
        blocks = sorted_labelled(labels, scores, sample_weight, missing, known=_known_finite)
        arguments = (method, None if sample_weight is None else "weight")
        return Calibration(method, joined(blocks, _supervised, arguments=arguments, dtype=object))
    if labels is not None or sample_weight is not None:
        raise InvalidParameterError(
            f'method="{method}" uses neither labels nor weights. Leave them out, or choose "isotonic" or "sigmoid".'
        )
    check_missing(missing)
    checked = checked_scores(scores)
    require_rows(checked, purpose="A calibration")
    return Calibration(
        method, joined(per_block(_statistics, checked), _unsupervised, arguments=(method,), dtype=object)
    )


def _probabilities(scores: NDArray[np.float64], curve: CalibrationCurve) -> NDArray[np.float64]:
    return curve(scores)


def _statistics(scores: NDArray[np.float64], start: int) -> ScoreStatistics | None:
    return ScoreStatistics.of_block(scores, start=start)


def _unsupervised(found: Sequence[ScoreStatistics | None], method: Method) -> CalibrationCurve:
    statistics = reduce(ScoreStatistics.merged, (one for one in found if one is not None))
    return LinearCurve(statistics) if method == "linear" else UnifyingCurve(statistics)


def _known_finite(scores: NDArray[np.float64], *others: Any) -> Any:
    require_finite(scores, start=others[2])
    return known_rows(scores, *others)


def _supervised(blocks: Sequence[SortedBlock], method: Method, weight: str | None) -> CalibrationCurve:
    groups = all_runs(blocks)
    n_others, n_anomalies = class_totals(groups, weight)
    if not n_others or not n_anomalies:
        raise InvalidDataError(one_class(groups))
    runs = [*groups[0], *groups[1]]
    least, most = extremes(runs)
    if not np.isfinite(most - least) or 0 < most - least < _LEAST_RANGE:
        raise InvalidDataError(
            f"The scores reach from {least} to {most}, and float64 does not hold a curve over this range. Multiply "
            "them by a constant first."
        )
    if method == "isotonic":
        return fit_isotonic(distinct_values(groups, weight=weight))
    return fit_sigmoid(
        lambda: distinct_values(groups, weight=weight),
        n_others=n_others,
        n_anomalies=n_anomalies,
        scale=(least + (most - least) / 2, (most - least) / 2 or 1.0),
    )
