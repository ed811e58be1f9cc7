"""What users give to ``fit``, as a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from streamfit.errors import InvalidParameterError, StoreExistsError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.sources.ingest import ingest
from streamfit.sources.registry import is_store

if TYPE_CHECKING:
    from os import PathLike

    from streamfit.store.manifest import NonFinite
    from streamfit.store.scratch import Scratch

__all__ = ["Cache", "as_store", "check_cache", "transformed_rows"]

Cache: TypeAlias = "bool | str | PathLike[str] | None"
"""Where transformed rows are kept while they are trained on: nowhere, on scratch (True), or in a folder."""


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


def check_cache(cache: Any) -> None:
    """Refuse what says nothing about where transformed rows are kept.

    Raises
    ------
    InvalidParameterError
        It is not None, a boolean, or a path.
    """
    if not (cache is None or isinstance(cache, bool | str | os.PathLike)):
        raise InvalidParameterError(
            f"cache must be None, True for a folder that goes after the fit, or the path of a folder, got {cache!r}."
        )


def transformed_rows(
    store: FeatureStore, transformer: Any, *, cache: Cache, scratch: Scratch, memory_limit: int | None
) -> FeatureStore:
    """Give the rows of a store through a fitted transformer: at each read, or written once.

    Parameters
    ----------
    store : FeatureStore
        The rows.
    transformer : transformer
        See `FeatureStore.transformed`.
    cache : bool, path or None
        Where they are written; None or False: nowhere. Rows that are there already are used if they are the same.
    scratch : Scratch
        Where they are written for ``cache=True``.
    memory_limit : int or None
        Limit in bytes.

    Raises
    ------
    StoreExistsError
        Something else is at the path.
    """
    if cache is None or cache is False:
        return store.transformed(transformer)
    folder = scratch.new("cache") if isinstance(cache, bool) else cache
    try:
        # Chunks of as many rows: what is made of them chunk by chunk, and the order of rows, stay the same.
        return store.transform(transformer, folder, memory_limit=memory_limit, chunk_rows=store.layout.chunk_rows)
    except StoreExistsError as error:
        raise StoreExistsError(
            f"cache={str(cache)!r} does not hold these rows as these transformers give them: other rows were written "
            "there, or something else. Remove that folder, or name another one."
        ) from error
