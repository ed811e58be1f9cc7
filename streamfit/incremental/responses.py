"""What a model says of rows, in the form that scikit-learn's metrics take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.incremental.scorers import Metric

__all__ = ["Response", "response_of"]


@dataclass(frozen=True, slots=True)
class Response:
    """The result of a method for some rows, as scikit-learn's scorers pass it on."""

    method: str
    """Method of the model."""
    positive: int | None
    """Which of two classes is the positive one; None where all columns are passed on."""

    def of(self, given: Any) -> NDArray[Any]:
        """Take what is passed on from what the method gave.

        Raises
        ------
        ValueError
            The model knows one class only, and there is no second column.
        """
        if self.method in ("predict_proba", "predict_log_proba"):
            if isinstance(given, list):  # one array an output
                return np.column_stack([values[:, -1] for values in given])
            if self.positive is None:
                return np.asarray(given)
            if given.shape[1] < 2:
                raise ValueError(
                    f"{self.method} gives {given.shape[1]} column, and a classifier with two classes is needed."
                )
            return np.asarray(given[:, self.positive])
        values = np.asarray(given)
        return -values if self.method == "decision_function" and self.positive == 0 else values


def response_of(metric: Metric, classes: NDArray[Any] | None, method: str) -> Response:
    """Tell what a metric takes of a model.

    Parameters
    ----------
    metric : Metric
        The metric.
    classes : ndarray or None
        Classes of the model; None where it is no classifier, or one of several outputs.
    method : str
        Method of the model, see `Metric.method_of`.
    """
    if method == "predict" or metric.raw or classes is None or len(classes) > 2:
        return Response(method, None)
    label = positive_label(metric, classes)
    return Response(method, list(classes).index(label))


def positive_label(metric: Metric, classes: NDArray[Any]) -> Any:
    """Give the label of two that a metric is about: as scikit-learn's function has it, else the second one."""
    label = metric.positive
    return label if label in list(classes) else classes[-1]
