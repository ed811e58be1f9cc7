"""Metrics of batches that a model is tested on before it learns from them, from small records that add up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import f1_score, precision_score, recall_score

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.metrics import codes_of, negative_log_likelihood
from streamfit.maths.regression_sums import RegressionSums
from streamfit.run.links import as_it_was_fitted, call_last, links_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from streamfit.batch import Batch

__all__ = [
    "CLASS_METRICS",
    "NUMBER_METRICS",
    "BatchRecord",
    "PredictBatch",
    "RecordSums",
    "record_of_state",
    "record_state",
]

_PER_CLASS = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
_AVERAGES = ("macro", "micro", "weighted")
CLASS_METRICS = (
    "accuracy",
    "balanced_accuracy",
    *(f"{name}{ending}" for name in _PER_CLASS for ending in ("", *(f"_{average}" for average in _AVERAGES))),
    "log_loss",
)
"""Metrics of classes."""
NUMBER_METRICS = ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error", "r2")
"""Metrics of numbers."""

_Label = str | float | int | bool


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What was seen of the rows of one batch."""

    names: tuple[str, ...]
    """Metrics that are asked for."""
    n_rows: int = 0
    """Rows; none of the first batch of a fit, which finds a model that has learnt nothing."""
    pairs: tuple[tuple[_Label, _Label, int], ...] = ()
    """True label, predicted label and rows, of each pair of labels that occurs."""
    positive: _Label | None = None
    """Of two classes the one that ``f1``, ``precision`` and ``recall`` without an ending are about."""
    likelihood: float = 0.0
    """Negative logarithm of the likelihood of the true classes."""
    sums: RegressionSums | None = None
    """Sums of true numbers and of errors."""
    absolute_error: float = 0.0
    """Sum of the absolute errors, the mean over outputs."""


@dataclass(frozen=True, slots=True)
class PredictBatch:
    """How a batch is tested: a small pure value that runs where the model is."""

    names: tuple[str, ...] | None
    """Metrics; None: accuracy for classifiers, the mean squared error for regressors."""

    def __call__(self, model: Any, batch: Batch) -> BatchRecord:
        """Predict the rows of a batch and compare.

        Raises
        ------
        InvalidParameterError
            The metrics are none of this kind of estimator.
        InvalidDataError
            The rows have no labels, or the model refuses them.
        """
        *before, last = links_of(model)
        empty = BatchRecord(self._names_for(last))
        if batch.y is None:
            raise InvalidDataError("PrequentialMetrics needs y and the data have none. Give y, or ingest with y=.")
        if batch.y.ndim > 1 and empty.names[0] in CLASS_METRICS:
            raise InvalidParameterError(
                f"PrequentialMetrics of classes are of one label a row, y has {batch.y.shape[1]}. Leave it out, and "
                "measure validation_data."
            )
        if batch.epoch == 0 and batch.step == 0:
            return empty
        X: Any = batch.X
        try:
            for link in before:
                X = link.transform(as_it_was_fitted(link, X))
            if empty.names[0] in NUMBER_METRICS:
                return _compare_numbers(empty, batch.y, call_last(last, "predict", X))
            return _compare_classes(empty, last, X, _as_text(batch.y))
        except InvalidParameterError:
            raise
        except ValueError as error:
            raise InvalidDataError(
                f"{type(last).__name__} cannot be tested on step {batch.step} of epoch {batch.epoch}: {error}"
            ) from error

    def _names_for(self, last: Any) -> tuple[str, ...]:
        kind = type(last).__name__
        classifies, regresses = is_classifier(last), is_regressor(last)
        if self.names is None:
            if not (classifies or regresses):
                raise InvalidParameterError(
                    f"PrequentialMetrics does not know what {kind} predicts. Say metrics=('accuracy',) or "
                    "metrics=('mean_squared_error',)."
                )
            return ("accuracy",) if classifies else ("mean_squared_error",)
        of_numbers = self.names[0] in NUMBER_METRICS
        if (of_numbers and classifies) or (not of_numbers and regresses):
            known = CLASS_METRICS if classifies else NUMBER_METRICS
            raise InvalidParameterError(
                f"PrequentialMetrics of {kind} cannot be {', '.join(self.names)}. Known are: {', '.join(known)}."
            )
        method = "predict_proba" if "log_loss" in self.names else "predict"
        if not hasattr(last, method):
            raise InvalidParameterError(
                f"PrequentialMetrics needs {method} for {', '.join(self.names)}, which {kind} does not have. Use other "
                "metrics, or another estimator (SGDClassifier: loss='log_loss')."
            )
        return self.names


def _as_text(labels: NDArray[Any]) -> NDArray[Any]:
    return np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels


def _compare_numbers(empty: BatchRecord, true: NDArray[Any], predicted: Any) -> BatchRecord:
    predicted = np.asarray(predicted, dtype=np.float64).reshape(true.shape)
    return replace(
        empty,
        n_rows=len(true),
        sums=RegressionSums.of(true, predicted),
        absolute_error=float(np.abs(true.astype(np.float64) - predicted).mean() * len(true)),
    )


def _compare_classes(empty: BatchRecord, last: Any, X: Any, true: NDArray[Any]) -> BatchRecord:
    likelihood = 0.0
    if "log_loss" in empty.names:
        codes = codes_of(true, last.classes_)
        probabilities = np.asarray(call_last(last, "predict_proba", X))
        # Of a class that the model does not know the likelihood is not defined.
        likelihood = negative_log_likelihood(codes, probabilities) if (codes >= 0).all() else math.nan
    pairs: tuple[tuple[_Label, _Label, int], ...] = ()
    if set(empty.names) != {"log_loss"}:
        pairs = _pairs(true, np.asarray(call_last(last, "predict", X)))
    return replace(empty, n_rows=len(true), pairs=pairs, positive=_positive(empty.names, last), likelihood=likelihood)


def _pairs(true: NDArray[Any], predicted: NDArray[Any]) -> tuple[tuple[_Label, _Label, int], ...]:
    rows, true_codes = np.unique(true, return_inverse=True)
    columns, predicted_codes = np.unique(predicted, return_inverse=True)
    places, counts = np.unique(true_codes * len(columns) + predicted_codes, return_counts=True)
    row, column = np.divmod(places, len(columns))
    return tuple(zip(rows[row].tolist(), columns[column].tolist(), counts.tolist(), strict=True))


def _positive(names: Sequence[str], last: Any) -> _Label | None:
    binary = [name for name in names if name in _PER_CLASS]
    if not binary:
        return None
    classes = np.asarray(getattr(last, "classes_", ()))
    if len(classes) != 2:
        raise InvalidParameterError(
            f"{', '.join(binary)} are for two classes, {type(last).__name__} has {len(classes)}. Use names such as "
            f"{binary[0]}_macro."
        )
    positive: _Label = classes[1].item()
    return positive


class RecordSums:
    """The sum of the records of some batches, in a size that does not grow with them."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._pairs: dict[tuple[_Label, _Label], int] = {}
        self._positive: _Label | None = None
        self._likelihood = 0.0
        self._sums: RegressionSums | None = None
        self._absolute_error = 0.0

    def add(self, tested: BatchRecord) -> None:
        """Add the rows of a batch."""
        self.n_rows += tested.n_rows
        for true, predicted, count in tested.pairs:
            self._pairs[true, predicted] = self._pairs.get((true, predicted), 0) + count
        if tested.positive is not None:
            self._positive = tested.positive
        self._likelihood += tested.likelihood
        if tested.sums is not None:
            self._sums = tested.sums if self._sums is None else self._sums.merge(tested.sums)
        self._absolute_error += tested.absolute_error

    def metric(self, name: str) -> float:
        """Compute a metric over all rows; ``nan`` where there are none."""
        if self.n_rows == 0:
            return math.nan
        if name == "log_loss":
            return self._likelihood / self.n_rows
        if name == "mean_absolute_error":
            return self._absolute_error / self.n_rows
        if self._sums is not None:
            if name == "r2":
                return self._sums.r2()
            squared = self._sums.squared_error / self.n_rows
            return float(np.mean(np.sqrt(squared) if name == "root_mean_squared_error" else squared))
        return self._of_classes(name)

    def _of_classes(self, name: str) -> float:
        if name == "accuracy":
            return sum(count for (true, predicted), count in self._pairs.items() if true == predicted) / self.n_rows
        keys = sorted(self._pairs)  # sums must not depend on what came first
        true, predicted = (np.array([key[place] for key in keys]) for place in (0, 1))
        counts = np.array([self._pairs[key] for key in keys], dtype=np.float64)
        options: dict[str, Any] = {"sample_weight": counts, "zero_division": 0.0}
        if name == "balanced_accuracy":
            return float(recall_score(true, predicted, labels=np.unique(true), average="macro", **options))
        base, _, average = name.partition("_")
        if average:
            return float(_PER_CLASS[base](true, predicted, average=average, **options))
        return float(_PER_CLASS[base](true, predicted, labels=[self._positive], average="macro", **options))

    def state(self) -> dict[str, Any]:
        """Give it as JSON knows it."""
        return {
            "n_rows": self.n_rows,
            "pairs": [[*labels, count] for labels, count in self._pairs.items()],
            "positive": self._positive,
            "likelihood": self._likelihood,
            "sums": _sums_state(self._sums),
            "absolute_error": self._absolute_error,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> RecordSums:
        """Take back what `state` gave."""
        rows = cls()
        rows.add(record_of_state(state, names=()))
        return rows


def record_state(tested: BatchRecord) -> dict[str, Any]:
    """Give the record of a batch as JSON knows it."""
    rows = RecordSums()
    rows.add(tested)
    return rows.state()


def record_of_state(state: Mapping[str, Any], *, names: tuple[str, ...]) -> BatchRecord:
    """Take back what `record_state` gave."""
    sums = state["sums"]
    return BatchRecord(
        names=names,
        n_rows=state["n_rows"],
        pairs=tuple((true, predicted, count) for true, predicted, count in state["pairs"]),
        positive=state["positive"],
        likelihood=state["likelihood"],
        sums=None if sums is None else RegressionSums(sums[0], *(np.array(values) for values in sums[1:])),
        absolute_error=state["absolute_error"],
    )


def _sums_state(sums: RegressionSums | None) -> list[Any] | None:
    if sums is None:
        return None
    arrays = (
        sums.mean,
        sums.squared_deviation,
        sums.error_mean,
        sums.error_squared_deviation,
        sums.squared_error,
    )
    return [sums.n_rows, *(values.tolist() for values in arrays)]
