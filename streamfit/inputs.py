"""What users give to ``fit``, as a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.sources.ingest import ingest
from streamfit.sources.registry import is_store

if TYPE_CHECKING:
    from streamfit.store.manifest import NonFinite
    from streamfit.store.scratch import Scratch

__all__ = ["as_store"]


def as_store(
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    scratch: Scratch,
    memory_limit: int | None = None,
    nonfinite: NonFinite = "error",
) -> FeatureStore:
    """Give a store as it is, and write everything else to scratch.

    Parameters
    ----------
    X : FeatureStore, path of a store, or any source that `streamfit.ingest` takes
        The rows.
    y, sample_weight : str or array-like of shape (n_rows,), optional
        Labels and weights. A store brings its own: give None.
    scratch : Scratch
        Where the rows are written; it must live as long as the store is used.
    memory_limit : int or None
        Limit in bytes.
    nonfinite : {"error", "keep"}
        Refuse NaN and infinities, or keep them. A store has decided.

    Raises
    ------
    InvalidParameterError
        Labels or weights are given beside a store.
    InvalidDataError, UnsupportedError, BudgetError
        See `streamfit.ingest`.
    """
    if isinstance(X, FeatureStore) or (isinstance(X, (str, os.PathLike)) and is_store(X)):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise InvalidParameterError(
                    f"{name} is given beside a store, which brings its own. Attach it before: streamfit.attach."
                )
        return X if isinstance(X, FeatureStore) else open_store(X)
    return ingest(
        X,
        scratch.new("store"),
        y=y,
        sample_weight=sample_weight,
        nonfinite=nonfinite,
        memory_limit=memory_limit,
    )
