"""Models named on the command line: an import path and ``name=value`` parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError
from streamfit.run.trust import is_trusted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["import_model", "is_detector", "parse_params", "trusted_packages"]

_ALLOWED = ("sklearn", "pyod", "streamfit")
"""Packages whose classes may be named. Importing a module runs its code, so others need the user's word."""


def trusted_packages(trusted: Sequence[str]) -> tuple[str, ...]:
    """Give all packages whose types may be made.

    Examples
    --------
    >>> trusted_packages(["mine"])
    ('sklearn', 'pyod', 'streamfit', 'mine')
    """
    return (*_ALLOWED, *trusted)


def parse_params(texts: Sequence[str]) -> dict[str, Any]:
    """Read parameters; a value is a Python literal where it looks like one, else text.

    Examples
    --------
    >>> parse_params(["loss=log_loss", "alpha=1e-4", "average=True", "name='3'", "empty="])
    {'loss': 'log_loss', 'alpha': 0.0001, 'average': True, 'name': '3', 'empty': ''}
    >>> parse_params(["alpha"])
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: --param takes name=value, got 'alpha'.
    """
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidParameterError(f"--param takes name=value, got {text!r}.")
        if name in params:
            raise InvalidParameterError(f"--param {name} is given twice. Give it once.")
        try:
            params[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            params[name] = value
    return params


def is_detector(model: Any) -> bool:
    """Tell PyOD detectors from scikit-learn estimators, without importing PyOD to ask."""
    return any(c.__module__ == "pyod.models.base" and c.__name__ == "BaseDetector" for c in type(model).__mro__)


def import_model(path: str, params: dict[str, Any], *, trusted: Sequence[str] = ()) -> Any:
    """Make the estimator or detector that an import path names.

    Parameters
    ----------
    path : str
        Such as ``"sklearn.linear_model.SGDClassifier"``.
    params : dict
        Arguments of its constructor.
    trusted : sequence of str
        Packages or modules that are allowed besides scikit-learn, PyOD and streamfit.

    Raises
    ------
    InvalidParameterError
        The path is not allowed, leads nowhere or to no estimator, or does not take these parameters.
    """
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise InvalidParameterError(
            f"MODEL is an import path such as sklearn.linear_model.SGDClassifier, got {path!r}."
        )
    _check_allowed(path, module_name, trusted)
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise InvalidParameterError(f"{path} cannot be imported: {error}. Check the path and the package.") from error
    if not (inspect.isclass(found) and callable(getattr(found, "fit", None))):
        raise InvalidParameterError(f"{path} is not an estimator or detector: it is no class with a fit method.")
    _check_allowed(path, found.__module__, trusted)
    accepted = set(inspect.signature(found).parameters)
    unknown = sorted(set(params) - accepted)
    if unknown:
        raise InvalidParameterError(
            f"{name} has no parameter {', '.join(unknown)}. It has {', '.join(sorted(accepted))}."
        )
    try:
        return found(**params)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} refuses its parameters: {error}") from error


def _check_allowed(path: str, module_name: str, trusted: Sequence[str]) -> None:
    if not is_trusted(module_name, trusted_packages(trusted)):
        raise InvalidParameterError(
            f"{path} lies outside of {', '.join(_ALLOWED)}. Importing runs its code: if you trust it, "
            f"add --trust {module_name.partition('.')[0]}."
        )
