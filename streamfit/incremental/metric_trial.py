"""Whether a metric can be computed for such labels at all, found out on a few made-up rows before any are read."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_clusterer, is_outlier_detector

from streamfit.errors import InvalidParameterError
from streamfit.incremental.metric_ways import counts_whole_rows, options_of
from streamfit.incremental.responses import response_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.incremental.metric_ways import Measured, Target
    from streamfit.incremental.scorers import Metric

__all__ = ["check_on_trial"]

_MOST_CLASSES = 200


def check_on_trial(measured: tuple[Measured, ...], target: Target) -> None:
    """Refuse metrics whose function, being scikit-learn's, refuses labels of this kind.

    Raises
    ------
    InvalidParameterError
        Such as ``f1`` for three classes. The message has scikit-learn's reason.
    """
    for way in measured:
        metric = way.metric
        trial = _trial(metric, target) if metric.ours and not counts_whole_rows(metric, target) else None
        if trial is None:
            continue
        y, response = trial
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = metric.function(y, response, **options_of(metric, target))
        except ValueError as error:
            raise InvalidParameterError(
                f"The metric {metric.name} cannot be computed, {_kind(target)}: {error}. Choose another one, such as "
                + ("f1_macro for f1 where there are more than two classes." if target.flags else "accuracy.")
            ) from error
        if np.ndim(value) != 0:
            raise InvalidParameterError(
                f"The metric {metric.name} gives {np.size(value)} numbers, and one is needed. Choose an average."
            )


def _kind(target: Target) -> str:
    if target.n_outputs > 1:
        more = "" if target.flags else " that are not all 0 or 1"
        return f"the labels have {target.n_outputs} outputs{more}"
    return f"there are {target.n_classes} classes" if target.n_classes else "with these labels and this estimator"


def _trial(metric: Metric, target: Target) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Labels of a few rows with what a model could say of them; None where too little is known."""
    method = metric.method_of(target.model)
    if method is None:
        return None
    if target.n_outputs > 1:
        if not is_classifier(target.model):
            numbers = np.arange(1.0, 3 * target.n_outputs + 1).reshape(3, -1)
            return numbers, numbers
        flags = np.indices((4, target.n_outputs)).sum(axis=0) % (2 if target.flags else 3)
        return flags, flags if method == "predict" else flags / 4 + 0.25
    if target.present is None:
        numbers = np.array([1.0, 2.0, 3.0])
        return numbers, numbers
    labels = target.present if target.classes is None else target.classes
    n_labels = len(labels)
    if not 1 < n_labels <= _MOST_CLASSES:
        return None
    y = np.concatenate([labels, labels])
    if target.classes is not None:
        scores = (np.eye(n_labels) + 1 / n_labels) / 2
        given = {
            "predict": labels,
            "decision_function": np.array([-1.0, 1.0]) if n_labels == 2 else scores,
            "predict_proba": scores,
            "predict_log_proba": np.log(scores),
        }.get(method)
        if given is None:
            return None
        return y, response_of(metric, target.classes, method).of(np.concatenate([given, given]))
    if method == "predict" and is_clusterer(target.model):
        return y, np.arange(len(y)) % 2
    if method == "predict" and is_outlier_detector(target.model):
        return y, 2 * (np.arange(len(y)) % 2) - 1
    return (y, np.linspace(-1.0, 1.0, len(y))) if method in ("decision_function", "score_samples") else None
