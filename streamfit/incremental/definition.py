"""What defines a fit: seed, order of the rows, parameters. Two fits that are defined alike are bit-equal."""

from __future__ import annotations

import hashlib
import math
from copy import deepcopy
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import IncrementalPCA
from sklearn.utils import check_random_state

from streamfit.errors import InvalidParameterError
from streamfit.incremental.partial_fit import links_of
from streamfit.plan.budget import resolve_window
from streamfit.plan.epoch import EpochPlan, streams_canary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.feature_store import FeatureStore
    from streamfit.options import Shuffle, StreamOptions

__all__ = ["define_run", "describe_estimator", "plan_fit", "resolve_seed"]


def resolve_seed(random_state: Any, earlier: Mapping[str, Any] | None) -> int:
    """Turn a ``random_state`` into the seed of a fit.

    Parameters
    ----------
    random_state : int, RandomState or None
        None takes the seed of the earlier fit, or draws one.
    earlier : mapping or None
        Definition of the run that is gone on with.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] if earlier is None else earlier["seed"])
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise InvalidParameterError(f"random_state must be 0 or more, got {random_state}.")
        return int(random_state)
    # Drawn from a copy: the same fit gives the same result again.
    return int(check_random_state(deepcopy(random_state)).randint(2**31))


def plan_fit(
    store: FeatureStore,
    model: Any,
    *,
    batch_size: int,
    shuffle: Shuffle,
    stream: StreamOptions,
    seed: int,
    memory_limit: int | None,
    earlier: Mapping[str, Any] | None,
) -> EpochPlan:
    """Plan the first epoch of a fit.

    Parameters
    ----------
    store : FeatureStore
        The training rows.
    model : estimator
        The prepared estimator, which may need a number of rows in each batch.
    batch_size, shuffle, stream, seed, memory_limit
        As in `StreamTrainer`.
    earlier : mapping or None
        Definition of the run that is gone on with: its window is taken where none is asked for, since the
        memory limit may have changed and the order must not.

    Raises
    ------
    BudgetError
        The window does not fit `memory_limit`.
    InvalidParameterError
        A parameter is out of its range, or a batch exceeds the window.
    """
    window = int(earlier["window_chunks"]) if stream.window is None and earlier is not None else stream.window
    return EpochPlan(
        layout=store.layout,
        batch_size=batch_size,
        seed=seed,
        epoch=0,
        shuffle=shuffle,
        window_chunks=resolve_window(
            store.layout,
            batch_size=batch_size,
            requested=window,
            memory_limit=memory_limit,
            prefetch=stream.prefetch,
            label_nbytes=store.label_nbytes,
        ),
        min_batch=max(stream.min_batch, _rows_needed(model, store, batch_size)),
        drop_last=stream.drop_last,
    )


def _rows_needed(model: Any, store: FeatureStore, batch_size: int) -> int:
    """Rows that each batch must have for every link of the model to take it."""
    needed = 1
    for link in links_of(model):
        if isinstance(link, IncrementalPCA):
            components = link.n_components
            least = min(batch_size, store.n_features) if components is None else components
            if least > batch_size:
                raise InvalidParameterError(
                    f"IncrementalPCA(n_components={components}) needs as many rows in each batch, batch_size is "
                    f"{batch_size}. Raise batch_size or lower n_components."
                )
            needed = max(needed, least)
    return needed


def define_run(store: FeatureStore, plan: EpochPlan, model: Any) -> dict[str, Any]:
    """All that the bits of the result follow from but the number of epochs, as plain values."""
    return {
        "data": store.ref.digest,
        "numpy_streams": streams_canary(),
        **plan.describe(),
        **describe_estimator(model),
    }


def describe_estimator(model: Any) -> dict[str, Any]:
    """All parameters of an estimator as plain values, with hashes for arrays.

    Two estimators that are described alike learn alike.

    Examples
    --------
    >>> from sklearn.preprocessing import Normalizer
    >>> describe_estimator(Normalizer())
    {'estimator': 'sklearn.preprocessing._data.Normalizer', 'estimator.copy': True, 'estimator.norm': 'l2'}
    """
    described = {"estimator": _full_name(type(model))}
    for name, value in sorted(model.get_params(deep=True).items()):
        described[f"estimator.{name}"] = _describe_value(value)
    return described


def _full_name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _describe_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return _describe_value(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype.str} {value.shape} {digest}"
    if isinstance(value, list | tuple):
        return [_describe_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _describe_value(item) for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, np.random.RandomState):
        return [_describe_value(item) for item in value.get_state(legacy=True)]
    if callable(value) and hasattr(value, "__qualname__"):
        return _full_name(value)
    # Nested estimators are described by their own parameters, which `get_params(deep=True)` names too.
    return _full_name(type(value))
