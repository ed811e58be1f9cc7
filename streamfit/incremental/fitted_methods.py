"""What a fitted estimator does with rows, in memory or lazily over a store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from streamfit.errors import InvalidDataError, UnsupportedError
from streamfit.incremental.validation import evaluate
from streamfit.inputs import as_store
from streamfit.plan.budget import parse_memory_limit
from streamfit.row_map import is_lazy, map_rows, matched, opened
from streamfit.run.engine import current_engine
from streamfit.run.links import call_last, links_of
from streamfit.store.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from streamfit.batch import Chunk

__all__ = ["FittedMethods", "apply_to_rows"]

MethodT = TypeVar("MethodT")


def _has(method: str) -> Callable[[MethodT], MethodT]:
    def check(trainer: FittedMethods) -> bool:
        # Its own error says what is missing, such as a loss without probabilities.
        getattr(getattr(trainer, "estimator_", trainer.estimator), method)
        return True

    return cast("Callable[[MethodT], MethodT]", available_if(check))


def _apply(method: str, model: Any, chunk: Chunk) -> NDArray[Any]:
    return np.asarray(call_last(model, method, chunk.X))


def _apply_output(method: str, output: int, model: Any, chunk: Chunk) -> NDArray[Any]:
    return np.asarray(call_last(model, method, chunk.X)[output])


def _outputs_of(model: Any, method: str, n_features: int, dtype: Any) -> list[tuple[np.dtype[Any], int | None]] | None:
    """Give for each array of a list, one an output, its dtype and columns; None where there is no list."""
    probe = call_last(model, method, np.ones((2, n_features), dtype=dtype))
    if not isinstance(probe, list) or not all(np.ndim(part) == 2 and len(part) == 2 for part in probe):
        return None
    return [(part.dtype, part.shape[1]) for part in map(np.asarray, probe)]


def _output_of(model: Any, method: str, n_features: int, dtype: Any) -> tuple[np.dtype[Any], int | None]:
    """Give the dtype of a method's result and the number of its columns, None for one value a row."""
    # Ones are in the range of logarithms and quotients, where zeros are not.
    probe = call_last(model, method, np.ones((2, n_features), dtype=dtype))
    if issparse(probe):
        raise UnsupportedError(f"{type(model).__name__}.{method} gives a sparse matrix. Ask it for a dense one.")
    if isinstance(probe, list | tuple) or np.ndim(probe) not in {1, 2} or len(probe) != 2:
        raise UnsupportedError(
            f"{type(model).__name__}.{method} gives no value, or row of values, for each row. Name another method."
        )
    probe = np.asarray(probe)
    return probe.dtype, None if probe.ndim == 1 else probe.shape[1]


def apply_to_rows(model: Any, method: str, X: Any, *, n_features: int, names: Any) -> Any:
    """Call a method of a fitted model with rows: in memory at once, lazily where they are lazy.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str
        Its name; it gives one value or one row for each row.
    X : FeatureStore, path of a store, dask array or dataframe, array-like
        Rows ``(n_rows, n_features)``.
    n_features : int
        Columns that the model was fitted on.
    names : sequence of str or None
        Their names; columns of `X` that have names are found by them.

    Returns
    -------
    dask.array.Array or ndarray
        ``(n_rows,)`` or ``(n_rows, n_outputs)``, in the order of the rows; of several labels a row a list of these
        where the model gives a list, as `sklearn.multioutput.MultiOutputClassifier` gives probabilities.

    Raises
    ------
    InvalidDataError
        The rows are not as the model needs them.
    UnsupportedError
        The method gives a sparse matrix, or something else than one value or row for each row.
    """
    X = matched(opened(X), names)
    if not is_lazy(X):
        try:
            # A table is of numbers in the right order by now: its names would only be compared again.
            return call_last(model, method, np.asarray(X) if hasattr(X, "columns") else X)
        except ValueError as error:  # as for rows that are read lazily
            raise InvalidDataError(f"{type(model).__name__}.{method} refuses X: {error}") from error
    rows_dtype = getattr(X, "dtype", np.float64)
    several = _outputs_of(model, method, n_features, rows_dtype)
    if several is not None:
        return [
            map_rows(
                partial(_apply_output, method, output),
                X,
                model=model,
                n_features=n_features,
                dtype=dtype,
                n_outputs=n_outputs,
            )
            for output, (dtype, n_outputs) in enumerate(several)
        ]
    dtype, n_outputs = _output_of(model, method, n_features, rows_dtype)
    return map_rows(partial(_apply, method), X, model=model, n_features=n_features, dtype=dtype, n_outputs=n_outputs)


class FittedMethods:
    """The methods of the fitted estimator: numpy in, numpy out; lazy in, lazy out, in row order."""

    estimator: Any
    estimator_: Any
    fit: Callable[..., Any]
    memory_limit: str | float | None
    n_features_in_: int

    def _call(self, method: str, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        names = getattr(self, "feature_names_in_", None)
        return apply_to_rows(self.estimator_, method, X, n_features=self.n_features_in_, names=names)

    @_has("predict")
    def predict(self, X: Any) -> Any:
        """Predict classes, numbers or clusters.

        Parameters
        ----------
        X : FeatureStore, path of a store, dask array or dataframe, array-like
            Rows ``(n_rows, n_features)``.

        Returns
        -------
        dask.array.Array or ndarray of shape (n_rows,)
            Lazy for a store, a path or a dask collection.
        """
        return self._call("predict", X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Give the probabilities of the classes, ``(n_rows, n_classes)``, in their order; see `predict`."""
        return self._call("predict_proba", X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Give the decision function, ``(n_rows,)`` or ``(n_rows, n_classes)``; see `predict`."""
        return self._call("decision_function", X)

    @_has("transform")
    def transform(self, X: Any) -> Any:
        """Transform rows, ``(n_rows, n_outputs)``; see `predict`."""
        return self._call("transform", X)

    @_has("transform")
    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and transform the same rows; see `StreamTrainer.fit` and `predict`."""
        return self.fit(X, y, **fit_params).transform(X)

    @_has("fit_predict")
    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and predict the same rows; see `StreamTrainer.fit` and `predict`."""
        return self.fit(X, y, **fit_params).predict(X)

    @_has("score_samples")
    def score_samples(self, X: Any) -> Any:
        """Give the estimator's own score of each row, ``(n_rows,)``; see `predict`."""
        return self._call("score_samples", X)

    @_has("score")
    def score(self, X: Any, y: Any = None) -> float:
        """Give the accuracy of a classifier, the r2 of a regressor or the score of k-means, over all rows.

        Parameters
        ----------
        X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
            Rows ``(n_rows, n_features)``.
        y : array-like of shape (n_rows,) or None
            Labels, where `X` is no store.

        Raises
        ------
        UnsupportedError
            The estimator is none of these.
        """
        check_is_fitted(self, "estimator_")
        model = self.estimator_
        if isinstance(links_of(model)[-1], MiniBatchKMeans):
            # The sum over rows of the squared distances to the nearest centre, negative.
            distances = self._call("transform", X)
            return float(-(distances.min(axis=1) ** 2).sum())
        if not (is_classifier(model) or is_regressor(model)):
            raise UnsupportedError(
                f"score is for classifiers and regressors. {type(model).__name__}'s own score takes rows in memory: "
                "trainer.estimator_.score(X)."
            )
        name = "accuracy" if is_classifier(model) else "r2"
        limit = parse_memory_limit(self.memory_limit)
        scratch = Scratch.create()
        try:
            store = as_store(X, y, sample_weight=None, scratch=scratch, memory_limit=limit)
            store = matched(store, getattr(self, "feature_names_in_", None))
            return evaluate(model, store, (name,), memory_limit=limit, engine=current_engine())[name]
        finally:
            scratch.remove()
