"""Scalers that need the range, the mean or the variance of each column: one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.preprocessing._data import _handle_zeros_in_scale, _is_constant_feature

from streamfit.maths.summaries.valid_moments import ValidColumns, ValidMoments
from streamfit.preprocessing.exact_fit import column_error, fit_stand_in, float_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["MaxAbsScalerFit", "MinMaxScalerFit", "StandardScalerFit", "finite_columns"]


def finite_columns(
    transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None, missing: float
) -> ValidColumns:
    """Measure the columns of a store for a transformer that takes missing values but no infinite ones.

    Raises
    ------
    InvalidDataError
        There is an infinite value.
    """
    columns: ValidColumns = store.reduce(
        ValidMoments(store.n_features, missing=missing), memory_limit=memory_limit, engine=engine
    )
    if columns.n_infinite.any():
        raise column_error(transformer, store, columns.n_infinite, "infinite values")
    return columns


def _range(columns: ValidColumns) -> NDArray[np.float64]:
    """Smallest and largest values, ``(2, n_features)``; NaN where there is none."""
    return np.where(columns.count > 0, np.stack([columns.minimum, columns.maximum]), np.nan)


class StandardScalerFit:
    """``StandardScaler``: means and variances, with scikit-learn's own rule for columns that are nearly constant."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:
        """Refuse to center sparse rows."""
        if sparse and transformer.with_mean:
            return "sparse rows cannot be centered; pass with_mean=False"
        return None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        sparse = store.is_sparse
        row = np.zeros((1, store.n_features), dtype=store.dtype)
        fit_stand_in(transformer, csr_array(row) if sparse else row)
        columns = finite_columns(transformer, store, memory_limit=memory_limit, engine=engine, missing=np.nan)
        count = columns.count.astype(np.asarray(transformer.n_samples_seen_).dtype)
        transformer.n_samples_seen_ = count[0] if count.min() == count.max() else count
        if transformer.mean_ is not None:
            transformer.mean_ = np.where(columns.count > 0, columns.mean, np.nan)
        if transformer.with_std:
            transformer.var_ = columns.variance
            constant = _is_constant_feature(transformer.var_, columns.mean, columns.count)
            transformer.scale_ = _handle_zeros_in_scale(np.sqrt(transformer.var_), constant_mask=constant)


class MinMaxScalerFit:
    """``MinMaxScaler``: scikit-learn fits the two rows of smallest and of largest values."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:  # noqa: ARG002
        """Refuse sparse rows."""
        return "MinMaxScaler takes no sparse rows; use MaxAbsScaler" if sparse else None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        fit_stand_in(transformer, np.zeros((1, store.n_features), dtype=store.dtype))
        columns = finite_columns(transformer, store, memory_limit=memory_limit, engine=engine, missing=np.nan)
        transformer.fit(_range(columns).astype(float_dtype(store.dtype)))
        transformer.n_samples_seen_ = columns.n_rows


class MaxAbsScalerFit:
    """``MaxAbsScaler``: scikit-learn fits the two rows of smallest and of largest values."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:  # noqa: ARG002
        """Give None: every MaxAbsScaler can be fitted exactly."""
        return None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        columns = finite_columns(transformer, store, memory_limit=memory_limit, engine=engine, missing=np.nan)
        fit_stand_in(transformer, _range(columns).astype(float_dtype(store.dtype)))
        transformer.n_samples_seen_ = columns.n_rows
