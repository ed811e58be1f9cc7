"""``RobustScaler``: exact medians and percentiles of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm
from sklearn.preprocessing._data import _handle_zeros_in_scale

from streamfit.preprocessing.exact_fit import column_error, fit_stand_in, float_dtype
from streamfit.preprocessing.order_statistics import order_statistics, percentile_between

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["RobustScalerFit", "median_ranks"]


def median_ranks(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the ranks of the two middle values, ``(n_features, 2)``; of an odd number they are the same one.

    Examples
    --------
    >>> median_ranks(np.array([4, 5]))
    array([[1, 2], [2, 2]])
    """
    return np.stack([np.maximum(count - 1, 0) // 2, count // 2], axis=1)


class RobustScalerFit:
    """``RobustScaler``, with the roundings of ``numpy.nanmedian`` and ``numpy.nanpercentile``."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:  # noqa: ARG002
        """Refuse sparse rows."""
        return "exact quantiles of sparse rows are not known; use MaxAbsScaler" if sparse else None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        fit_stand_in(transformer, np.zeros((1, store.n_features), dtype=store.dtype))
        q_min, q_max = transformer.quantile_range

        def ranks(count: NDArray[np.int64]) -> NDArray[np.int64]:
            percentiles = [percentile_between(count, q)[0] for q in (q_min, q_max)]
            return np.concatenate([median_ranks(count), *percentiles], axis=1)

        order = order_statistics(store, ranks, n_ranks=6, missing=np.nan, memory_limit=memory_limit, engine=engine)
        if order.n_infinite.any():
            raise column_error(transformer, store, order.n_infinite, "infinite values")
        values = order.values.astype(float_dtype(store.dtype), copy=False)
        if transformer.with_centering:
            transformer.center_ = values[:, :2].mean(axis=1)
        if transformer.with_scaling:
            low = _interpolate(values[:, 2], values[:, 3], percentile_between(order.count, q_min)[1])
            high = _interpolate(values[:, 4], values[:, 5], percentile_between(order.count, q_max)[1])
            transformer.scale_ = _handle_zeros_in_scale(high - low, copy=False)
            if transformer.unit_variance:
                transformer.scale_ = transformer.scale_ / (norm.ppf(q_max / 100.0) - norm.ppf(q_min / 100.0))


def _interpolate(lower: NDArray[Any], upper: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[Any]:
    # As NumPy interpolates: both forms, each exact at its own end, and weights in float64.
    difference = upper - lower
    between: NDArray[Any] = np.where(weight >= 0.5, upper - difference * (1 - weight), lower + difference * weight)
    return between
