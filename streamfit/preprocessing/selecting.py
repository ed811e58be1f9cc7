"""``VarianceThreshold``: which columns vary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from streamfit.errors import InvalidDataError
from streamfit.preprocessing.exact_fit import fit_stand_in
from streamfit.preprocessing.scalers import finite_columns

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["VarianceThresholdFit"]


class VarianceThresholdFit:
    """``VarianceThreshold``, with the range in place of a smaller variance where the threshold is 0."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:  # noqa: ARG002
        """Give None: every VarianceThreshold can be fitted exactly."""
        return None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        # Two rows that vary more than any threshold, or scikit-learn refuses them.
        rows = np.zeros((2, store.n_features))
        rows[1] = 2 * np.sqrt(transformer.threshold) + 1
        fit_stand_in(transformer, csr_array(rows) if store.is_sparse else rows)
        columns = finite_columns(transformer, store, memory_limit=memory_limit, engine=engine, missing=np.nan)
        variances = columns.variance
        if transformer.threshold == 0:
            # NaN in a column: dense rows of NumPy then have no range, and scikit-learn's sparse ones have one.
            known = (columns.count > 0) & (store.is_sparse | (columns.n_missing == 0))
            spread = np.where(known, columns.maximum - np.where(known, columns.minimum, 0.0), np.nan)
            variances = np.fmin(variances, spread)
        if np.all(~np.isfinite(variances) | (variances <= transformer.threshold)):
            raise InvalidDataError(
                f"VarianceThreshold: no column varies by more than {transformer.threshold}"
                f"{' (there is one row only)' if columns.n_rows == 1 else ''}. Lower threshold."
            )
        transformer.variances_ = variances
