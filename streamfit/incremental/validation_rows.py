"""The rows that metrics are measured on: given, or split off."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from sklearn.base import is_classifier

from streamfit.errors import InvalidParameterError
from streamfit.incremental.arguments import validation_pair
from streamfit.inputs import as_store
from streamfit.row_map import matched

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore
    from streamfit.store.scratch import Scratch

__all__ = ["with_validation"]


def with_validation(
    store: FeatureStore,
    validation_data: Any,
    last: Any,
    *,
    seed: int,
    scratch: Scratch,
    memory_limit: int | None,
) -> tuple[FeatureStore, FeatureStore | None]:
    """Give the training rows and those for metrics.

    Parameters
    ----------
    store : FeatureStore
        All rows that were given for training.
    validation_data : FeatureStore, path, (X, y), float or None
        As in `StreamTrainer.fit`.
    last : estimator
        What learns: of a classifier each class is split alike.
    seed : int
        Seed of the fit, by which a share is drawn.
    scratch : Scratch
        Where rows that are in no store are written.
    memory_limit : int or None
        Limit in bytes.

    Raises
    ------
    InvalidParameterError
        A share leaves a part without a row, or what is given is no validation data.
    InvalidDataError
        The columns are not those of the training rows.
    """
    if validation_data is None:
        return store, None
    if isinstance(validation_data, Real):
        return _split(store, float(validation_data), last, seed=seed)
    X, y = validation_pair(validation_data)
    rows = as_store(X, y, sample_weight=None, scratch=scratch, memory_limit=memory_limit)
    return store, matched(rows, store.feature_names)


def _split(store: FeatureStore, share: float, last: Any, *, seed: int) -> tuple[FeatureStore, FeatureStore]:
    if not 0 < share < 1:
        raise InvalidParameterError(f"A share of rows as validation_data must be between 0 and 1, got {share!r}.")
    if not 0 < round((1 - share) * store.n_rows) < store.n_rows:
        raise InvalidParameterError(
            f"validation_data={share!r} leaves {store.n_rows} rows no row to validate on, or none to train on. "
            "Choose another share, or give rows."
        )
    return store.split(1 - share, seed=seed, stratify=is_classifier(last) and store.classes is not None)
