"""What a fitted model says of rows that may be larger than memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from streamfit.detector import StreamDetector
from streamfit.detectors.registry import scores_rows_together
from streamfit.errors import InvalidParameterError, UnsupportedError
from streamfit.incremental.fitted_methods import FittedMethods, apply_to_rows
from streamfit.row_map import is_lazy, opened

__all__ = ["predict"]


def predict(model: Any, X: Any, *, method: str = "predict") -> Any:
    """Apply a fitted model to all rows, block by block, in their order: also one that was fitted in memory.

    Any model that treats rows one by one can be used: it needs no ``partial_fit``. Metrics of such a model are
    `streamfit.evaluate`.

    Parameters
    ----------
    model : estimator, pipeline, PyOD detector, StreamTrainer or StreamDetector
        Fitted. It is not changed.
    X : FeatureStore, path of a store, dask array or dataframe, array-like
        Rows ``(n_rows, n_features)``. Columns that have names are found by them, as they were fitted.
    method : str, default="predict"
        Name of a method that gives one value or one row for each row, such as ``"predict_proba"``,
        ``"decision_function"``, ``"score_samples"`` or ``"transform"``.

    Returns
    -------
    dask.array.Array or ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Lazy for a store, a path or a dask collection: nothing has run yet, and a block is computed at a time.

    Raises
    ------
    UnsupportedError
        The model has no such method, it gives a sparse matrix, or what it says of a row depends on the rows around it.
    InvalidDataError
        The columns are not those that the model was fitted on; or the values of rows in memory are refused by it.
    sklearn.exceptions.NotFittedError
        The model is not fitted.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.arange(8.0).reshape(4, 2), ["low", "low", "high", "high"]
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    >>> predict(tree, da.from_array(X, chunks=(3, 1))).compute().tolist()
    ['low', 'low', 'high', 'high']
    >>> predict(tree, X, method="decision_function")
    Traceback (most recent call last):
    ...
    streamfit.errors.UnsupportedError: DecisionTreeClassifier gives no decision_function: ...
    """
    if not isinstance(method, str):
        raise InvalidParameterError(f"method must be the name of a method, such as 'predict', got {method!r}.")
    if isinstance(model, FittedMethods | StreamDetector):
        return _method_of(model, method)(X)
    check_is_fitted(model)
    _method_of(model, method)
    X = opened(X)
    if is_lazy(X) and scores_rows_together(model):
        raise UnsupportedError(
            f"{type(model).__name__} scores rows by those around them, which are others in each block. Fit all rows by "
            "StreamDetector, or give rows in memory."
        )
    return apply_to_rows(
        model,
        method,
        X,
        n_features=_n_features(model, X),
        names=getattr(model, "feature_names_in_", None),
    )


def _method_of(model: Any, method: str) -> Any:
    try:
        return getattr(model, method)
    except AttributeError as error:
        # scikit-learn says why, such as a loss without probabilities.
        reason = error.__cause__ or error
        raise UnsupportedError(f"{type(model).__name__} gives no {method}: {reason}. Name another method.") from error


def _n_features(model: Any, X: Any) -> int:
    # PyOD does not say how many columns it was fitted on: it refuses others itself.
    fitted_on = getattr(model, "n_features_in_", None)
    if fitted_on is not None:
        return int(fitted_on)
    return int(X.n_features if hasattr(X, "n_features") else X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])
