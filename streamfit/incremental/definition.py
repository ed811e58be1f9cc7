"""What defines a fit: seed, order of the rows, parameters. Two fits that are defined alike are bit-equal."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from copy import deepcopy
from copyreg import dispatch_table
from numbers import Integral
from pickle import PicklingError
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from streamfit.errors import CheckpointError, InvalidParameterError
from streamfit.incremental.suitability import rows_needed
from streamfit.options import check_count
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

    Raises
    ------
    InvalidParameterError
        It is none of these.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] if earlier is None else earlier["seed"])
    if isinstance(random_state, np.random.RandomState):
        # Drawn from a copy: the same fit gives the same result again.
        return int(deepcopy(random_state).randint(2**31))
    if isinstance(random_state, Integral):
        return check_count("random_state", random_state, least=0)
    raise InvalidParameterError(f"random_state must be an integer, a RandomState or None, got {random_state!r}.")


def plan_fit(
    store: FeatureStore,
    model: Any,
    *,
    batch_size: int,
    n_epochs: int,
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
    n_epochs : int
        Epochs in all: they take memory, and leave the plan as it is.
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
            n_epochs=n_epochs,
        ),
        min_batch=max(stream.min_batch, rows_needed(model, store, batch_size)),
        drop_last=stream.drop_last,
    )


def define_run(store: FeatureStore, plan: EpochPlan, model: Any) -> dict[str, Any]:
    """All that the bits of the result follow from but the number of epochs, as plain values."""
    return {
        "data": store.digest,
        "numpy_streams": streams_canary(),
        **plan.describe(),
        **describe_estimator(model),
    }


def describe_estimator(model: Any) -> dict[str, Any]:
    """All parameters of an estimator as plain values, with hashes for arrays, fitted links and other objects.

    Two estimators that are described alike learn alike. Functions are known by their name.

    Raises
    ------
    CheckpointError
        The estimator holds something that cannot be described.

    Examples
    --------
    >>> from sklearn.preprocessing import Normalizer
    >>> describe_estimator(Normalizer())
    {'estimator': 'sklearn.preprocessing._data.Normalizer', 'estimator.copy': True, 'estimator.norm': 'l2'}
    """
    parameters = sorted(model.get_params(deep=True).items())
    named = frozenset(id(value) for _, value in parameters if isinstance(value, BaseEstimator))
    described = {"estimator": _full_name(type(model))}
    return described | {f"estimator.{name}": _describe_value(value, named) for name, value in parameters}


def _full_name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _digest(described: Any) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def _describe_estimator(estimator: BaseEstimator, named: frozenset[int]) -> str:
    """Name of the class, and a hash of what it holds; `named` are estimators whose parameters are named elsewhere."""
    held = dict(vars(estimator))
    if id(estimator) in named:
        for name in estimator.get_params(deep=False):
            held.pop(name, None)
    name = _full_name(type(estimator))
    return f"{name} {_digest(_describe_value(held))}" if held else name


def _describe_value(value: Any, named: frozenset[int] = frozenset()) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, bytes | bytearray):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        value = np.asarray(value) if value.dtype.kind in "VmM" else value.item()
        return _describe_value(value)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return _describe_value(value.tolist())
        if value.dtype.names is not None:  # between its fields there may be any bytes
            return {name: _describe_value(value[name]) for name in value.dtype.names}
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype.str} {value.shape} {digest}"
    if isinstance(value, list | tuple):
        return [_describe_value(item, named) for item in value]
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: str(pair[0]))
        return {str(key): _describe_value(item, named) for key, item in pairs}
    if isinstance(value, set | frozenset):
        return sorted((_describe_value(item) for item in value), key=str)
    if isinstance(value, BaseEstimator):
        return _describe_estimator(value, named)
    if isinstance(value, type | FunctionType):
        return _full_name(value)
    return _describe_pickled(value)


def _describe_pickled(value: Any) -> Any:
    """Describe any other object by the parts that pickle would write, such as function and arguments of a partial."""
    name = _full_name(type(value))
    try:
        # Not a hash of the pickle itself: it depends on which equal parts are the same object.
        reduce = dispatch_table.get(type(value))
        parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
        parts = parts if isinstance(parts, str) else [list(p) if isinstance(p, Iterator) else p for p in parts]
        return f"{name} {_digest(_describe_value(parts))}"
    except (TypeError, AttributeError, RecursionError, PicklingError) as error:
        raise CheckpointError(
            f"The estimator holds a {name}, which cannot be compared with that of another fit ({error}). "
            "Fit without checkpoint, or use a value that can be pickled."
        ) from error
