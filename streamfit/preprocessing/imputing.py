"""``SimpleImputer``: mean, median or a constant for missing values."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.preprocessing.exact_fit import column_error, fit_stand_in
from streamfit.preprocessing.order_statistics import order_statistics
from streamfit.preprocessing.quantiles import median_ranks
from streamfit.preprocessing.scalers import finite_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["SimpleImputerFit"]


class SimpleImputerFit:
    """``SimpleImputer``: scikit-learn fits two rows that miss what all rows miss, then the statistics are filled in."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:
        """Refuse strategies that need all values at once."""
        if transformer.strategy not in ("mean", "median", "constant"):
            return f"strategy={transformer.strategy!r} has no exact form; use 'mean', 'median' or 'constant'"
        if not isinstance(transformer.missing_values, Real):
            return f"missing_values={transformer.missing_values!r} is no number"
        if sparse:
            return "imputed values of sparse rows have no exact form; leave out missing values before ingest"
        return None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        missing = float(transformer.missing_values)
        if transformer.strategy == "median":
            order = order_statistics(
                store, median_ranks, n_ranks=2, missing=missing, memory_limit=memory_limit, engine=engine
            )
            if order.n_infinite.any():
                raise column_error(transformer, store, order.n_infinite, "infinite values")
            # As numpy.ma.median adds two middle values: in their own type.
            count, n_missing = order.count, order.n_missing
            statistics = order.values.sum(axis=1) / order.values.dtype.type(2)
        else:
            columns = finite_columns(transformer, store, memory_limit=memory_limit, engine=engine, missing=missing)
            count, n_missing, statistics = columns.count, columns.n_missing, columns.mean
        fit_stand_in(transformer, _rows_missing(store, count, n_missing, transformer.missing_values))
        if transformer.strategy != "constant":
            found = transformer.statistics_
            transformer.statistics_ = np.where(count > 0, statistics.astype(found.dtype), found)


def _rows_missing(
    store: FeatureStore, count: NDArray[np.int64], n_missing: NDArray[np.int64], missing: Any
) -> NDArray[Any]:
    """Two rows of 0: the first one misses what any row misses, the second one what all rows miss."""
    present = 0 if missing != 0 else 1
    rows = np.full((2, store.n_features), present, dtype=store.dtype)
    if n_missing.any():
        rows[0, n_missing > 0] = missing
        rows[1, count == 0] = missing
    return rows
