"""Metrics of a model over all rows of a store, chunk by chunk."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from streamfit.errors import InvalidDataError
from streamfit.incremental.metric_summary import MetricSummary, Undefined
from streamfit.incremental.metric_trial import check_on_trial
from streamfit.incremental.metric_ways import Target, ways_of
from streamfit.incremental.partial_fit import as_text, classes_of
from streamfit.incremental.scorers import check_metrics, default_metrics, metrics_of
from streamfit.incremental.several_labels import check_learnt
from streamfit.run.links import links_of
from streamfit.run.passes import summarising_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.scorers import Metrics
    from streamfit.run.engine import Engine

__all__ = [
    "check_metrics",
    "check_validation",
    "default_metrics",
    "evaluate",
    "evaluate_epoch",
    "known_classes",
    "metric_summary",
]

logger = logging.getLogger(__name__)


def check_validation(
    validation: FeatureStore,
    train: FeatureStore,
    estimator: Any,
    names: Metrics | None,
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
    names : sequence, mapping or None
        See `metrics_of`; None takes `default_metrics`.
    memory_limit, engine
        As in `evaluate`.

    Raises
    ------
    InvalidDataError
        The columns or the labels of the validation rows do not go with those of the training rows.
    InvalidParameterError
        A metric is not for such labels, such as one for two classes where there is another number.
    BudgetError
        The metrics need more than `memory_limit`.
    """
    if validation.n_features != train.n_features:
        raise InvalidDataError(
            f"validation_data has {validation.n_features} features and the training rows have {train.n_features}. "
            "Give the same columns in the same order."
        )
    several = n_outputs_of(train) > 1
    if validation.label_dtype is not None and n_outputs_of(validation) != n_outputs_of(train):
        raise InvalidDataError(
            f"validation_data has {n_outputs_of(validation)} label(s) a row and the training rows have "
            f"{n_outputs_of(train)}. Give as many."
        )
    known = None if several or not is_classifier(estimator) else classes_of(train, type(estimator).__name__)
    chosen = default_metrics(estimator, known) if names is None else names
    if len(chosen):
        summary = metric_summary(estimator, chosen, validation, classes=known)
        summarising_tasks(validation.layout, summary, memory_limit=memory_limit, engine=engine)


def n_outputs_of(store: FeatureStore) -> int:
    """Give the number of labels of a row; 1 where there are none."""
    y = store.y
    return 1 if y is None or y.ndim == 1 else int(y.shape[1])


def known_classes(model: Any, store: FeatureStore) -> NDArray[Any] | None:
    """Give the classes that a fitted model of one output knows; None where it is no classifier, or of several."""
    if not is_classifier(model):
        return None
    # Some models of several outputs have a list of arrays or nothing, others the numbers of the outputs.
    classes = getattr(model, "classes_", None)
    return classes if isinstance(classes, np.ndarray) and n_outputs_of(store) == 1 else None


def metric_summary(model: Any, metrics: Metrics, store: FeatureStore, *, classes: Any) -> MetricSummary:
    """Make the summary that gives metrics over the rows of a store.

    Parameters
    ----------
    model : estimator
        Fitted, where the summary is to be computed.
    metrics : sequence or mapping
        See `metrics_of`.
    store : FeatureStore
        Rows with labels.
    classes : ndarray or None
        Classes of the model; None where it is no classifier, or one of several outputs.

    Raises
    ------
    InvalidDataError
        The store has no labels, or they are not of the kind that the model predicts.
    InvalidParameterError
        A metric is unknown, or not for such labels.
    """
    dtype = store.label_dtype
    if dtype is None:
        raise InvalidDataError("Metrics need y and the data have none. Give y, or ingest with y=.")
    check_metrics(metrics, model)
    name = type(model).__name__
    if is_regressor(model) and dtype.kind in "US":
        raise InvalidDataError(f"{name} is a regressor and y is text. Give numbers, or use a classifier.")
    n_outputs = n_outputs_of(store)
    present = None
    if classes is not None:
        if n_outputs > 1:
            raise InvalidDataError(f"y has {n_outputs} outputs and {name} was trained on one. Give one label a row.")
        present = classes_of(store, name)
        if (present.dtype.kind == "U") != (classes.dtype.kind == "U"):
            raise InvalidDataError(
                f"The labels are {present.dtype} and the model is trained on {classes.dtype}. Give labels of the same "
                "kind."
            )
        present = np.union1d(classes, present)
    elif n_outputs == 1 and not is_regressor(model) and store.classes is not None:
        present = as_text(store.classes)
    label_nbytes = n_outputs * dtype.itemsize * (4 if dtype.kind == "S" else 1)
    flags = not is_classifier(model) or all(
        known is not None and np.isin(known, [0, 1]).all() for known in store.output_classes
    )
    target = Target(model, classes, present, label_nbytes, n_outputs, flags)
    measured, tallies = ways_of(metrics_of(metrics), target)
    check_on_trial(measured, target)
    return MetricSummary(model, measured, tallies, store.n_rows)


def evaluate(
    model: Any, store: FeatureStore, names: Metrics, *, memory_limit: int | None, engine: Engine
) -> dict[str, float]:
    """Compute metrics over all rows of a store.

    Parameters
    ----------
    model : estimator
        Fitted.
    store : FeatureStore
        Rows with labels.
    names : sequence or mapping
        See `metrics_of`.
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
        A metric is unknown, or not for such labels.
    BudgetError
        What has to be kept of each row needs more than `memory_limit`.
    """
    if is_classifier(model) or is_regressor(model):
        check_learnt(links_of(model)[-1], type(links_of(model)[-1]).__name__, store)
    summary = metric_summary(model, names, store, classes=known_classes(model, store))
    results: dict[str, float | Undefined] = store.reduce(summary, memory_limit=memory_limit, engine=engine)
    values: dict[str, float] = {}
    reasons: dict[str, list[str]] = {}
    for name, value in results.items():
        values[name] = value if isinstance(value, float) else math.nan
        if math.isnan(values[name]):
            reason = value.reason if isinstance(value, Undefined) else "one class only, or too few rows"
            reasons.setdefault(reason, []).append(name)
    if reasons:
        logger.warning(
            "%s; the value is nan.",
            "; ".join(
                f"{', '.join(sorted(named))}: not defined for these rows ({why})" for why, named in reasons.items()
            ),
        )
    return values


def evaluate_epoch(
    model: Any,
    *,
    store: FeatureStore,
    names: Metrics | None,
    memory_limit: int | None,
    engine: Engine,
) -> dict[str, float]:
    """Compute the metrics of an epoch, named ``val_...``.

    Parameters
    ----------
    names : sequence, mapping or None
        See `metrics_of`; None takes `default_metrics`.
    model, store, memory_limit, engine
        As in `evaluate`.
    """
    chosen = default_metrics(model, known_classes(model, store)) if names is None else names
    if not len(chosen):
        return {}
    values = evaluate(model, store, chosen, memory_limit=memory_limit, engine=engine)
    return {f"val_{name}": value for name, value in values.items()}
