"""Metrics of a model over all rows of a store, chunk by chunk."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.incremental.partial_fit import as_text, classes_of
from streamfit.maths.metrics import (
    COUNT_METRICS,
    RANKING_METRICS,
    REGRESSION_METRICS,
    RegressionSums,
    codes_of,
    confusion_counts,
    count_metric,
    negative_log_likelihood,
)
from streamfit.run.links import call_last
from streamfit.run.passes import summarising_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.batch import Chunk
    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["MetricSummary", "check_metrics", "check_validation", "default_metrics", "evaluate", "evaluate_epoch"]

logger = logging.getLogger(__name__)


def default_metrics(model: Any, classes: NDArray[Any] | None) -> tuple[str, ...]:
    """Give the metrics that are computed where none are asked for.

    Parameters
    ----------
    model : estimator
        Fitted or not.
    classes : ndarray or None
        Classes that it is trained on, or None where it is no classifier.
    """
    if is_regressor(model):
        return ("r2", "mean_squared_error")
    if classes is None:
        return ()
    names = ["accuracy"]
    if hasattr(model, "predict_proba"):
        names.append("log_loss")
    if len(classes) == 2 and (hasattr(model, "decision_function") or hasattr(model, "predict_proba")):
        names.append("roc_auc")
    return tuple(names)


def check_metrics(names: Sequence[str], estimator: Any) -> None:
    """Refuse metrics that are not known for this kind of estimator.

    Raises
    ------
    InvalidParameterError
        The message lists those that are.
    """
    known: set[str] = set()
    if is_classifier(estimator):
        known = {*COUNT_METRICS, *RANKING_METRICS}
        if hasattr(estimator, "predict_proba"):
            known.add("log_loss")
    elif is_regressor(estimator):
        known = set(REGRESSION_METRICS)
    unknown = sorted(set(names) - known)
    if unknown:
        raise InvalidParameterError(
            f"No such metrics for {type(estimator).__name__}: {', '.join(unknown)}. "
            f"Known are: {', '.join(sorted(known)) or 'none'}."
        )


def check_validation(
    validation: FeatureStore,
    train: FeatureStore,
    estimator: Any,
    names: Sequence[str] | None,
    *,
    memory_limit: int | None,
    engine: Engine,
) -> None:
    """Find out before a fit that its metrics could not be computed after an epoch.

    Parameters
    ----------
    validation, train : FeatureStore
        Rows for the metrics, and those that are trained on.
    estimator : estimator
        The last link, not yet fitted.
    names : sequence of str or None
        None takes `default_metrics`.
    memory_limit, engine
        As in `evaluate`.

    Raises
    ------
    InvalidDataError
        The columns or the labels of the validation rows do not go with those of the training rows.
    InvalidParameterError
        A metric is for two classes and there is another number.
    BudgetError
        The metrics need more than `memory_limit`.
    """
    if validation.n_features != train.n_features:
        raise InvalidDataError(
            f"validation_data has {validation.n_features} features and the training rows have {train.n_features}. "
            "Give the same columns in the same order."
        )
    name = type(estimator).__name__
    known = classes_of(train, name) if is_classifier(estimator) else None
    chosen = default_metrics(estimator, known) if names is None else tuple(names)
    if chosen:
        classes = _classes_of_both(validation, chosen, known, name)
        summary = MetricSummary(estimator, chosen, classes, validation.n_rows)
        summarising_tasks(validation.layout, summary, memory_limit=memory_limit, engine=engine)


def _classes_of_both(store: FeatureStore, names: Sequence[str], known: NDArray[Any] | None, name: str) -> NDArray[Any]:
    """Classes of a model and of labelled rows together, sorted; empty where the model knows no classes."""
    if known is None:
        if store.label_dtype is None:
            raise InvalidDataError("Metrics need y and the data have none. Give y, or ingest with y=.")
        return np.empty(0)
    binary = sorted({*RANKING_METRICS, "f1", "precision", "recall"} & set(names))
    if binary and len(known) != 2:
        raise InvalidParameterError(
            f"{', '.join(binary)} are for two classes, there are {len(known)}. Use names such as f1_macro."
        )
    present = classes_of(store, name)
    if (present.dtype.kind == "U") != (known.dtype.kind == "U"):
        raise InvalidDataError(
            f"The labels are {present.dtype} and the model is trained on {known.dtype}. Give labels of the same kind."
        )
    return np.union1d(known, present)


@dataclass(slots=True)
class _State:
    """Sums over the rows seen so far."""

    n_rows: int
    counts: NDArray[np.int64]
    likelihood: float
    sums: RegressionSums
    scores: list[NDArray[np.float64]]
    positive: list[NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class MetricSummary:
    """Metrics as a summary: right over all rows, whatever the chunks.

    The metrics that follow from the order of the scores (``roc_auc``, ``average_precision``) are exact and
    keep 9 bytes of each row; the others keep sums.
    """

    model: Any
    """The fitted estimator."""
    names: tuple[str, ...]
    """Metrics to compute."""
    classes: NDArray[Any]
    """Classes of the model and of the rows together, sorted; empty for numbers."""
    n_rows: int
    """Rows in all."""

    @property
    def state_nbytes(self) -> int:
        """Upper bound of the size of one state in bytes."""
        return 9 * self.n_rows * bool(self._ranking) + 8 * len(self.classes) ** 2 + 1024

    @property
    def _ranking(self) -> set[str]:
        return RANKING_METRICS.keys() & set(self.names)

    def empty(self) -> _State:
        """Give the state of no rows."""
        n_classes = len(self.classes)
        return _State(0, np.zeros((n_classes, n_classes), np.int64), 0.0, RegressionSums(), [], [])

    def update(self, state: _State, chunk: Chunk) -> _State:
        """Add the rows of one chunk."""
        if chunk.y is None:
            raise InvalidDataError("Metrics need y and the data have none. Give y, or ingest with y=.")
        if chunk.n_rows == 0:  # estimators refuse to predict no rows
            return state
        state.n_rows += chunk.n_rows
        if not len(self.classes):
            state.sums = state.sums.merge(RegressionSums.of(chunk.y, call_last(self.model, "predict", chunk.X)))
            return state
        y = as_text(chunk.y)
        if any(name in COUNT_METRICS for name in self.names):
            predicted = codes_of(call_last(self.model, "predict", chunk.X), self.classes)
            state.counts += confusion_counts(codes_of(y, self.classes), predicted, len(self.classes))
        if "log_loss" in self.names:
            codes = codes_of(y, self.model.classes_)
            state.likelihood += negative_log_likelihood(codes, call_last(self.model, "predict_proba", chunk.X))
        if self._ranking:
            state.scores.append(_ranking_scores(self.model, chunk.X))
            state.positive.append(y == self.model.classes_[1])
        return state

    def merge(self, left: _State, right: _State) -> _State:
        """Join the states of two disjoint sets of rows."""
        return _State(
            left.n_rows + right.n_rows,
            left.counts + right.counts,
            left.likelihood + right.likelihood,
            left.sums.merge(right.sums),
            left.scores + right.scores,
            left.positive + right.positive,
        )

    def finalize(self, state: _State) -> dict[str, float]:
        """Give each metric by its name."""
        values: dict[str, float] = {}
        for name in self.names:
            if name in RANKING_METRICS:
                positive, scores = np.concatenate(state.positive), np.concatenate(state.scores)
                values[name] = RANKING_METRICS[name](positive, scores)
            elif name == "log_loss":
                values[name] = state.likelihood / state.n_rows
            elif name in COUNT_METRICS:
                # In two classes the second one is the positive one, as in scikit-learn.
                positive_class = int(codes_of(self.model.classes_[-1:], self.classes)[0])
                values[name] = count_metric(name, state.counts, positive_class)
            else:
                values[name] = state.sums.metric(name)
        return values


def _ranking_scores(model: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=np.float64)
    return np.asarray(call_last(model, "predict_proba", X)[:, 1], dtype=np.float64)


def evaluate(
    model: Any, store: FeatureStore, names: tuple[str, ...], *, memory_limit: int | None, engine: Engine
) -> dict[str, float]:
    """Compute metrics over all rows of a store.

    Parameters
    ----------
    model : estimator
        Fitted.
    store : FeatureStore
        Rows with labels.
    names : tuple of str
        See `check_metrics`.
    memory_limit : int or None
        Limit in bytes.
    engine : Engine
        Where it runs.

    Returns
    -------
    dict
        Value by name; ``nan``, and a warning in the log, where a metric is not defined for these rows.

    Raises
    ------
    InvalidDataError
        The store has no labels, or they are not of the kind that the model predicts.
    InvalidParameterError
        A metric is for two classes and the model knows another number.
    """
    known = model.classes_ if is_classifier(model) else None
    classes = _classes_of_both(store, names, known, type(model).__name__)
    summary = MetricSummary(model, names, classes, store.n_rows)
    values: dict[str, float] = store.reduce(summary, memory_limit=memory_limit, engine=engine)
    undefined = sorted(name for name, value in values.items() if math.isnan(value))
    if undefined:
        logger.warning(
            "%s: not defined for these rows (one class only, labels unknown to the model, or too few rows); "
            "the value is nan.",
            ", ".join(undefined),
        )
    return values


def evaluate_epoch(
    model: Any,
    *,
    store: FeatureStore,
    names: Sequence[str] | None,
    memory_limit: int | None,
    engine: Engine,
) -> dict[str, float]:
    """Compute the metrics of an epoch, named ``val_...``.

    Parameters
    ----------
    names : sequence of str or None
        None takes `default_metrics`.
    model, store, memory_limit, engine
        As in `evaluate`.
    """
    classes = model.classes_ if is_classifier(model) else None
    chosen = default_metrics(model, classes) if names is None else tuple(names)
    if not chosen:
        return {}
    values = evaluate(model, store, chosen, memory_limit=memory_limit, engine=engine)
    return {f"val_{name}": value for name, value in values.items()}
