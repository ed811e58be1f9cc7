"""The links of a pipeline, called one by one as scikit-learn would call them together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline

__all__ = ["as_it_was_fitted", "call_last", "links_of"]


def links_of(model: Any) -> list[Any]:
    """Give the estimators of a pipeline in their order, or the estimator itself.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.linear_model import SGDRegressor
    >>> links_of(make_pipeline(StandardScaler(), "passthrough", SGDRegressor()))
    [StandardScaler(), SGDRegressor()]
    """
    if not isinstance(model, Pipeline):
        return [model]
    return [link for _, step in model.steps if step not in ("passthrough", None) for link in links_of(step)]


def as_it_was_fitted(estimator: Any, X: Any) -> Any:
    """Give rows as an estimator takes them: as a table with the names that it was fitted with, else as they are.

    The values are not copied, and columns are taken in the order that they have.
    """
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or hasattr(X, "columns") or issparse(X) or np.shape(X)[1:] != (len(names),):
        return X
    return pd.DataFrame(X, columns=names, copy=False)


def call_last(model: Any, method: str, X: Any) -> Any:
    """Call a method of a model with rows; in a pipeline the transformers before it are called first."""
    links = links_of(model)
    if not isinstance(model, Pipeline) or not links:
        return getattr(model, method)(as_it_was_fitted(model, X))
    for link in links[:-1]:
        X = link.transform(as_it_was_fitted(link, X))
    return getattr(links[-1], method)(as_it_was_fitted(links[-1], X))
