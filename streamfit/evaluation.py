"""Metrics of a fitted model over rows that may be larger than memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.incremental.fitted_methods import FittedMethods
from streamfit.incremental.partial_fit import links_of
from streamfit.incremental.validation import default_metrics, known_classes
from streamfit.incremental.validation import evaluate as evaluate_store
from streamfit.inputs import as_store
from streamfit.plan.budget import parse_memory_limit
from streamfit.row_map import matched
from streamfit.run.engine import current_engine
from streamfit.store.scratch import Scratch

if TYPE_CHECKING:
    from streamfit.incremental.scorers import Metrics

__all__ = ["evaluate"]


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    metrics: Metrics | None = None,
    memory_limit: str | float | None = None,
) -> dict[str, float]:
    """Compute metrics of a fitted model over all rows, as scikit-learn's scorers would in memory.

    Each method of the model is called once a chunk, whatever the number of metrics. Those that follow from sums and
    counts take no memory for rows; for the others the labels and what the model says of each row are kept, and
    scikit-learn's own function is called once.

    Parameters
    ----------
    model : StreamTrainer or estimator
        Fitted. A pipeline's transformers are applied to each chunk.
    X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
        Rows ``(n_rows, n_features)``.
    y : array-like of shape (n_rows,), str or None, default=None
        Labels, where `X` is no store.
    metrics : sequence of str or scorer, mapping of str to str or scorer, or None, default=None
        Names of ``sklearn.metrics.get_scorer_names()``, these without ``neg_`` for the value that is less where it is
        better (``"log_loss"``), or what ``sklearn.metrics.make_scorer`` gives. None takes the trainer's, else accuracy,
        and log_loss and roc_auc where the model gives them, for classifiers; r2 and mean_squared_error for regressors.
    memory_limit : str, int or None, default=None
        Limit of streamfit's own memory, such as ``"2GB"``; None takes the trainer's, if there is one.

    Returns
    -------
    dict of str to float
        Value by name, equal to that of scikit-learn's scorer on all rows. ``nan``, with a warning in the log that says
        why, where it is not defined for these rows, such as the area under a curve where there is one class only.

    Raises
    ------
    InvalidParameterError
        A metric is unknown, or not for this kind of model or labels; or `y` is given beside a store.
    InvalidDataError
        There are no labels, or they, or the columns, are not those that the model was trained on.
    BudgetError
        What is kept of the rows needs more than `memory_limit`.
    sklearn.exceptions.NotFittedError
        The model is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.arange(6.0).reshape(6, 1), np.array([0, 0, 1, 0, 1, 1])
    >>> evaluate(GaussianNB().fit(X, y), X, y, metrics=["accuracy", "matthews_corrcoef"])
    {'accuracy': 0.666..., 'matthews_corrcoef': 0.333...}
    """
    fitted, names = model, getattr(model, "feature_names_in_", None)
    limit = memory_limit
    if isinstance(model, FittedMethods):
        check_is_fitted(model, "estimator_")
        fitted = model.estimator_
        limit = model.memory_limit if limit is None else limit
        metrics = getattr(model, "metrics", None) if metrics is None else metrics
    else:
        check_is_fitted(model)
    nbytes = parse_memory_limit(limit)
    scratch = Scratch.create()
    try:
        store = matched(as_store(X, y, scratch=scratch, memory_limit=nbytes), names)
        n_features = getattr(model, "n_features_in_", store.n_features)
        if store.n_features != n_features:
            raise InvalidDataError(
                f"X has {store.n_features} features and the model was trained on {n_features}. Give the same columns "
                "in the same order."
            )
        if metrics is None:
            metrics = default_metrics(fitted, known_classes(fitted, store))
        if not len(metrics):
            raise InvalidParameterError(
                f"There are no metrics that {type(links_of(fitted)[-1]).__name__} is measured by unless asked. Name "
                "some: metrics=['adjusted_rand_score']."
            )
        return evaluate_store(fitted, store, metrics, memory_limit=nbytes, engine=current_engine())
    finally:
        scratch.remove()
