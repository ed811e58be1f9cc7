"""``TfidfTransformer``: document frequencies of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from streamfit.maths.summaries.stored_values import StoredValues
from streamfit.preprocessing.exact_fit import fit_stand_in, float_dtype

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["TfidfTransformerFit"]


class TfidfTransformerFit:
    """``TfidfTransformer``, with scikit-learn's steps from document frequencies to weights."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:  # noqa: ARG002
        """Give None: every TfidfTransformer can be fitted exactly."""
        return None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        # One document with every word: no frequency is 0.
        fit_stand_in(transformer, csr_array(np.ones((1, store.n_features), dtype=store.dtype)))
        if not transformer.use_idf:
            return
        dtype = float_dtype(store.dtype)
        frequency = store.reduce(StoredValues(store.n_features), memory_limit=memory_limit, engine=engine).astype(dtype)
        frequency += float(transformer.smooth_idf)
        with np.errstate(divide="ignore"):
            weights = np.full_like(frequency, store.n_rows + int(transformer.smooth_idf)) / frequency
        transformer.idf_ = np.log(weights) + dtype.type(1)
