"""How each metric is computed over all rows: from sums, from counts, or by its function on what is gathered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn.metrics as sk

import streamfit.incremental.metric_values as values
from streamfit.incremental.responses import Response, positive_label, response_of
from streamfit.incremental.sum_tallies import (
    Counts,
    Hits,
    LabelCounts,
    Largest,
    LossSums,
    Numbers,
    ProbabilitySums,
    WholeRows,
)
from streamfit.incremental.tallies import GatheredLabels, GatheredResponses
from streamfit.maths.contingency import Contingency
from streamfit.maths.metrics import average_precision, roc_auc
from streamfit.maths.regression_sums import RegressionSums

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from streamfit.incremental.scorers import Metric
    from streamfit.incremental.tallies import Tally

__all__ = ["Measured", "Target", "ways_of"]

_OF_COUNTS = {
    sk.accuracy_score,
    sk.balanced_accuracy_score,
    sk.cohen_kappa_score,
    sk.f1_score,
    sk.fbeta_score,
    sk.hamming_loss,
    sk.jaccard_score,
    sk.matthews_corrcoef,
    sk.precision_score,
    sk.recall_score,
    sk.zero_one_loss,
    *values.LIKELIHOOD_RATIOS,
}
"""Functions that take weights, so that each pair of labels is one row that weighs as many as there are."""

_OF_GROUPS: dict[Any, Callable[[Contingency], float]] = {
    sk.adjusted_mutual_info_score: Contingency.adjusted_mutual_info,
    sk.adjusted_rand_score: Contingency.adjusted_rand,
    sk.completeness_score: Contingency.completeness,
    sk.fowlkes_mallows_score: Contingency.fowlkes_mallows,
    sk.homogeneity_score: Contingency.homogeneity,
    sk.mutual_info_score: Contingency.mutual_info,
    sk.normalized_mutual_info_score: Contingency.normalized_mutual_info,
    sk.rand_score: Contingency.rand,
    sk.v_measure_score: Contingency.v_measure,
}

_RAW = {"multioutput": "raw_values"}
_MEANS: dict[Any, tuple[Any, dict[str, Any], bool]] = {
    sk.mean_absolute_error: (sk.mean_absolute_error, _RAW, False),
    sk.mean_absolute_percentage_error: (sk.mean_absolute_percentage_error, _RAW, False),
    sk.mean_gamma_deviance: (sk.mean_gamma_deviance, {}, False),
    sk.mean_poisson_deviance: (sk.mean_poisson_deviance, {}, False),
    sk.mean_squared_error: (sk.mean_squared_error, _RAW, False),
    sk.mean_squared_log_error: (sk.mean_squared_log_error, _RAW, False),
    sk.root_mean_squared_error: (sk.mean_squared_error, _RAW, True),
    sk.root_mean_squared_log_error: (sk.mean_squared_log_error, _RAW, True),
}
"""Losses that are means over rows: the function of some rows, its keywords, and whether the root is taken."""

_OF_NUMBERS = {
    sk.explained_variance_score: RegressionSums.explained_variance,
    sk.r2_score: RegressionSums.r2,
}

_OF_PROBABILITIES: dict[Any, Callable[..., float]] = {
    sk.brier_score_loss: values.brier,
    sk.d2_brier_score: values.d2_brier,
    sk.d2_log_loss_score: values.d2_log_loss,
    sk.log_loss: values.log_loss,
}

_OF_ORDER = {sk.average_precision_score: average_precision, sk.roc_auc_score: roc_auc}
"""Functions of two classes whose value follows from the order of the scores."""

_ORDER_NBYTES = 48
"""Bytes a row to sort scores."""
_FUNCTION_NBYTES, _COLUMN_NBYTES = 64, 40
"""Bytes a row that scikit-learn's functions take at the most, and of each column of the response besides."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What is known of the model and the labels before rows are read."""

    model: Any
    """The estimator, fitted or not."""
    classes: NDArray[Any] | None
    """Its classes; None where it is no classifier, or one of several outputs."""
    present: NDArray[Any] | None
    """Labels that occur and classes of the model, ascending; None of numbers and of several outputs."""
    label_nbytes: int
    """Bytes of the labels of one row."""
    n_outputs: int
    """Outputs of the labels."""
    flags: bool = True
    """Whether each of several labels a row is 0 or 1."""

    @property
    def n_classes(self) -> int:
        """Classes of the model; 0 where `classes` is None."""
        return 0 if self.classes is None else len(self.classes)

    def columns_of(self, response: Response) -> int:
        """Give the columns of a response."""
        one = response.method == "predict" or response.positive is not None or self.classes is None
        return self.n_outputs if one else self.n_classes


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """How the value of a metric follows from tallies."""

    metric: Metric
    """The metric."""
    tallies: tuple[int, ...]
    """Numbers of the tallies."""
    finish: Callable[..., Any]
    """Gives the value from the number of rows and the states of the tallies."""
    work_nbytes: int
    """Bytes a row that are needed for that."""


class _Tallies:
    """Tallies that metrics share: equal ones are there once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.chosen: list[Tally] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, make: Callable[[], Tally]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.chosen)
            self.chosen.append(make())
        return self._numbers[key]

    def counts(self, response: Response) -> int:
        target = self.target
        true = np.empty(0) if target.present is None else target.present
        n_predicted = target.n_classes or _groups_of(target.model)
        return self.number(("counts", response), lambda: Counts(response, true, target.classes, n_predicted))

    def labels(self) -> int:
        target = self.target
        return self.number("labels", lambda: GatheredLabels(target.present, target.label_nbytes))

    def responses(self, response: Response) -> int:
        return self.number(("responses", response), lambda: GatheredResponses(response, self._row_nbytes(response)))

    def _row_nbytes(self, response: Response) -> int:
        classes = self.target.classes
        label_nbytes = 0 if classes is None or response.method != "predict" else classes.dtype.itemsize
        return self.target.columns_of(response) * max(8, label_nbytes)


def _groups_of(model: Any) -> int:
    """How many labels a model without classes predicts: clusters where it says how many, else a guess."""
    return int(getattr(model, "n_clusters", None) or 1000)


def ways_of(metrics: tuple[Metric, ...], target: Target) -> tuple[tuple[Measured, ...], tuple[Tally, ...]]:
    """Tell how metrics are computed, and from which tallies.

    Parameters
    ----------
    metrics : tuple of Metric
        The model has a method for each.
    target : Target
        What is known of the model and the labels.
    """
    tallies = _Tallies(target)
    measured = tuple(_way(metric, target, tallies) for metric in metrics)
    return measured, tuple(tallies.chosen)


def _way(metric: Metric, target: Target, tallies: _Tallies) -> Measured:
    method = metric.method_of(target.model)
    if method is None:
        raise TypeError(f"{type(target.model).__name__} has none of {metric.methods}.")
    function, plain = metric.function, not metric.options
    response, classes = response_of(metric, target.classes, method), target.classes

    def measured(finish: Callable[..., Any], *numbers: int, work: int = 0) -> Measured:
        return Measured(metric, numbers, finish, work)

    if target.present is not None and (function in _OF_COUNTS or (plain and function in _OF_GROUPS)):
        counts = tallies.counts(response)
        if function in _OF_COUNTS:
            return measured(partial(values.of_counts, function, options_of(metric, target)), counts)
        # The chance of equal divisions is added up over all sizes of groups.
        work = 64 if function is sk.adjusted_mutual_info_score else 0
        return measured(partial(values.of_sums, _OF_GROUPS[function]), counts, work=work)
    if counts_whole_rows(metric, target):
        return measured(
            partial(values.mean, root=False), tallies.number(("whole rows", response), lambda: WholeRows(response))
        )
    if plain and function in _MEANS:
        loss, options, root = _MEANS[function]
        sums = tallies.number(("sums", loss), lambda: LossSums(response, loss, options, target.n_outputs))
        return measured(partial(values.mean, root=root), sums)
    if plain and function in _OF_NUMBERS:
        numbers = tallies.number("numbers", lambda: Numbers(response, target.n_outputs))
        return measured(partial(values.of_sums, _OF_NUMBERS[function]), numbers)
    if plain and function is sk.max_error:
        return measured(
            partial(values.of_sums, float), tallies.number("largest", lambda: Largest(response, sk.max_error))
        )
    if plain and function in _OF_PROBABILITIES and classes is not None and len(classes) > 1:
        sums = tallies.number(("probabilities", response), lambda: ProbabilitySums(response, classes))
        finish = partial(_OF_PROBABILITIES[function], n_classes=target.n_classes)
        if function in (sk.log_loss, sk.brier_score_loss):
            return measured(finish, sums)
        return measured(finish, sums, tallies.number("label counts", lambda: LabelCounts(classes)))
    if function is sk.top_k_accuracy_score and metric.options.keys() <= {"k"}:
        k = int(metric.options.get("k", 2))
        if classes is not None and k < len(classes) > 2:
            hits = tallies.number(("hits", k, response), lambda: Hits(response, function, classes, k))
            return measured(partial(values.mean, root=False), hits)
    gathered = tallies.labels(), tallies.responses(response)
    if plain and function in _OF_ORDER and classes is not None and len(classes) == 2:
        finish = partial(values.of_order, _OF_ORDER[function], classes, positive_label(metric, classes))
        return measured(finish, *gathered, work=_ORDER_NBYTES)
    work = _FUNCTION_NBYTES + _COLUMN_NBYTES * target.columns_of(response)
    return measured(partial(values.by_function, function, options_of(metric, target)), *gathered, work=work)


def counts_whole_rows(metric: Metric, target: Target) -> bool:
    """Tell whether a metric is the accuracy of several labels a row, which may be of any classes."""
    return target.n_outputs > 1 and metric.function is sk.accuracy_score and not metric.options


def options_of(metric: Metric, target: Target) -> dict[str, Any]:
    """Give the keywords that a metric's function is called with."""
    options = dict(metric.options)
    if metric.takes_positive and target.classes is not None and len(target.classes) == 2:
        # Where scikit-learn takes 1 for the positive class and there is none, it is the second one.
        options["pos_label"] = positive_label(metric, target.classes)
    return options
