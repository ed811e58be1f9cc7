"""Transformers that learn nothing but the shape of the rows: scikit-learn fits a row that stands for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.random_projection import johnson_lindenstrauss_min_dim

from streamfit.errors import InvalidParameterError
from streamfit.preprocessing.exact_fit import fit_stand_in

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["RandomProjectionFit", "ShapeFit"]


def _stand_in(store: FeatureStore) -> Any:
    if store.is_sparse:  # it may have millions of columns
        return csr_array(([1], ([0], [0])), shape=(1, store.n_features), dtype=store.dtype)
    return np.ones((1, store.n_features), dtype=store.dtype)


class ShapeFit:
    """Any transformer whose ``fit`` looks at the number of columns alone; nothing is read."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:
        """Refuse what scikit-learn would have to learn from values."""
        if getattr(transformer, "gamma", None) == "scale":
            return "gamma='scale' is learnt from all values; give a number"
        if sparse and not transformer.__sklearn_tags__().input_tags.sparse:
            return f"{type(transformer).__name__} takes no sparse rows"
        return None

    def fit(
        self,
        transformer: Any,
        store: FeatureStore,
        *,
        memory_limit: int | None,  # noqa: ARG002  # nothing is read
        engine: Engine | None,  # noqa: ARG002
    ) -> None:
        """Fill in the fitted attributes."""
        fit_stand_in(transformer, _stand_in(store))


class RandomProjectionFit:
    """Random projections: the number of rows decides on ``n_components="auto"``; nothing is read."""

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:  # noqa: ARG002
        """Give None: every projection can be drawn exactly."""
        return None

    def fit(
        self,
        transformer: Any,
        store: FeatureStore,
        *,
        memory_limit: int | None,  # noqa: ARG002  # nothing is read
        engine: Engine | None,  # noqa: ARG002
    ) -> None:
        """Fill in the fitted attributes."""
        if transformer.n_components != "auto":
            fit_stand_in(transformer, _stand_in(store))
            return
        n_components = johnson_lindenstrauss_min_dim(n_samples=store.n_rows, eps=transformer.eps)
        if not 0 < n_components <= store.n_features:
            raise InvalidParameterError(
                f"{type(transformer).__name__}: eps={transformer.eps} and {store.n_rows} rows ask for {n_components} "
                f"components, and there are {store.n_features} columns. Raise eps, or give n_components."
            )
        transformer.n_components = int(n_components)
        try:
            fit_stand_in(transformer, _stand_in(store))
        finally:
            transformer.n_components = "auto"
        transformer.n_components_ = n_components
