"""What defines an estimator, as plain values: parameters, and hashes of what was fitted."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from copyreg import dispatch_table
from pickle import PicklingError
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from streamfit.errors import CheckpointError
from streamfit.run.net_state import is_net

__all__ = ["describe_estimator", "digest_of"]


def describe_estimator(model: Any) -> dict[str, Any]:
    """All parameters of an estimator as plain values, with hashes for arrays, fitted links and other objects.

    Two estimators that are described alike learn alike. Functions are known by their name and, where they are written
    in Python, by their code, defaults and what they close over; not by the globals that they read.

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


def digest_of(value: Any) -> str:
    """Give a hash of all that an object holds: of a fitted estimator its parameters and what it learnt.

    Raises
    ------
    CheckpointError
        It holds something that cannot be described.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> one, other = StandardScaler().fit([[0.0], [1.0]]), StandardScaler().fit([[0.0], [2.0]])
    >>> digest_of(one) == digest_of(StandardScaler().fit([[0.0], [1.0]])), digest_of(one) == digest_of(other)
    (True, False)
    """
    try:
        described = json.dumps(_describe_value(value), sort_keys=True)
    except RecursionError as error:
        raise CheckpointError(f"A {type(value).__name__} holds itself and cannot be compared with others.") from error
    return hashlib.sha256(described.encode()).hexdigest()


def _full_name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _digest(described: Any) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def _describe_estimator(estimator: BaseEstimator, named: frozenset[int]) -> str:
    """Name of the class, and a hash of what it holds; `named` are estimators whose parameters are named elsewhere."""
    # A net is made anew from its parameters; what it holds besides are modules, which have no stable description.
    held = {} if is_net(estimator) and id(estimator) in named else dict(vars(estimator))
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
    if isinstance(value, FunctionType):
        return f"{_full_name(value)} {_digest(_describe_function(value))}"
    if isinstance(value, type):
        return _full_name(value)
    return _describe_pickled(value)


def _describe_function(function: FunctionType) -> Any:
    """Describe what a function does: two functions of one name, such as two lambdas, are not the same one."""
    cells = [held for held in map(_held_by, function.__closure__ or ()) if held is not function]
    given = [function.__defaults__, function.__kwdefaults__, cells]
    return [_describe_code(function.__code__), *(_describe_value(value) for value in given)]


def _held_by(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _describe_code(code: CodeType) -> Any:
    constants = [
        _describe_code(item) if isinstance(item, CodeType) else _describe_value(item) for item in code.co_consts
    ]
    return [_describe_value(code.co_code), list(code.co_names), constants]


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
