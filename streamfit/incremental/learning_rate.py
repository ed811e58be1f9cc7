"""The step size of an estimator, read and changed between steps.

What counts is the number that the estimator multiplies its next step by, under its own schedule: a base for
schedules that shrink it with time, such as ``eta0`` of ``learning_rate="invscaling"``. Classes are known by package
and name, so that nothing is imported that the user has not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.options import check_number
from streamfit.run.links import links_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OwnLearningRate", "learning_rate_of", "set_learning_rate"]


@runtime_checkable
class OwnLearningRate(Protocol):
    """An estimator that says itself how its step size is read and changed."""

    def get_learning_rate(self) -> float:
        """Give the step size that is taken next."""

    def set_learning_rate(self, value: float) -> None:
        """Take another step size from the next ``partial_fit`` on."""


def learning_rate_of(model: Any) -> float | None:
    """Give the step size that an estimator takes next; None where it has none that could be changed.

    Parameters
    ----------
    model : estimator
        The estimator, or a pipeline, of which the last link counts.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> learning_rate_of(SGDClassifier(learning_rate="constant", eta0=0.5)), learning_rate_of(SGDClassifier())
    (0.5, None)
    """
    rate = _rate_of(model)
    return None if isinstance(rate, str) else rate.get()


def set_learning_rate(model: Any, value: float) -> None:
    """Change the step size from the next ``partial_fit`` on, in place.

    Parameters
    ----------
    model : estimator
        The estimator, or a pipeline, of which the last link is changed.
    value : float
        The step size; what `learning_rate_of` gives from here on.

    Raises
    ------
    InvalidParameterError
        The estimator has none that has an effect, or the value is no step size.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> model = SGDClassifier(learning_rate="constant", eta0=0.5)
    >>> set_learning_rate(model, 0.25)
    >>> model
    SGDClassifier(eta0=0.25, learning_rate='constant')
    """
    rate = _rate_of(model)
    if isinstance(rate, str):
        raise InvalidParameterError(f"The learning rate cannot be set to {value!r}: {rate}")
    number = check_number("The learning rate", value, least=0)
    if math.isinf(number) or (number == 0 and not rate.may_be_zero):
        raise InvalidParameterError(
            f"The learning rate of {_name_of(model)} must be a finite number above 0, got {value!r}."
        )
    rate.put(number)


@dataclass(frozen=True, slots=True)
class _Rate:
    """How the step size of one estimator is read and changed."""

    get: Callable[[], float]
    put: Callable[[float], None]
    may_be_zero: bool
    """Whether its class takes 0, which changes nothing."""


def _name_of(model: Any) -> str:
    links = links_of(model)
    return type(links[-1] if links else model).__name__


def _rate_of(model: Any) -> _Rate | str:
    """Find the step size of the last link, or say why there is none and what to do."""
    links = links_of(model)
    if not links:
        return "an empty pipeline has none. Give an estimator that has one."
    last = links[-1]
    if isinstance(last, OwnLearningRate):
        return _Rate(last.get_learning_rate, last.set_learning_rate, may_be_zero=True)
    for parent in type(last).__mro__:
        family = _FAMILIES.get((parent.__module__.partition(".")[0], parent.__name__))
        if family is not None:
            return family(last)
    several = _several(last)
    if several is not None:
        return several
    for holder in (last, *(getattr(last, name, None) for name in ("model_", "model"))):
        for optimizer in (getattr(holder, name, None) for name in ("optimizer_", "optimizer")):
            rate = _of_optimizer(optimizer)
            if rate is not None:
                return rate
    return (
        f"{type(last).__name__} has none. Use an estimator that has one, such as "
        "SGDClassifier(learning_rate='constant', eta0=0.01) or an MLPClassifier; one of your own may hold an optimizer "
        "of torch or Keras as optimizer_, or have the methods get_learning_rate and set_learning_rate."
    )


# -- scikit-learn ------------------------------------------------------------------------------------


def _parameters(estimator: Any, *names: str) -> _Rate:
    """Take parameters that the estimator looks up at each step."""

    def put(value: float) -> None:
        for name in names:
            setattr(estimator, name, value)

    return _Rate(lambda: float(getattr(estimator, names[0])), put, may_be_zero=False)


def _of_sgd(estimator: Any) -> _Rate | str:
    if estimator.learning_rate == "optimal":
        return (
            f"{type(estimator).__name__}(learning_rate='optimal') takes it from alpha and the number of rows. Pass "
            "learning_rate='constant' or 'invscaling', with eta0."
        )
    # Of "pa1" and "pa2" it is the aggressiveness: the largest step, or how little a step is held back.
    return _parameters(estimator, "eta0")


def _of_mlp(estimator: Any) -> _Rate | str:
    if estimator.solver not in ("sgd", "adam"):
        return f"{type(estimator).__name__}(solver={estimator.solver!r}) takes no steps. Pass solver='adam' or 'sgd'."
    optimizer = getattr(estimator, "_optimizer", None)
    if optimizer is None:  # it is made from the parameter at the first step
        return _parameters(estimator, "learning_rate_init")
    shrinks = estimator.learning_rate == "invscaling"

    def get() -> float:
        # "adaptive" divides the rate that is taken and leaves the first one; Adam and "invscaling" begin at the first.
        live = estimator.solver == "sgd" and not shrinks
        return float(optimizer.learning_rate if live else optimizer.learning_rate_init)

    def put(value: float) -> None:
        estimator.learning_rate_init = optimizer.learning_rate_init = value
        if estimator.solver == "sgd":
            # As the last step left it, had it begun at this value.
            optimizer.learning_rate = value / (estimator.t_ + 1) ** estimator.power_t if shrinks else value

    return _Rate(get, put, may_be_zero=False)


def _several(estimator: Any) -> _Rate | None:
    """Take that of all estimators that one estimator is made of, and of the one that it copies at its first step."""
    fitted = getattr(estimator, "estimators_", None)
    copied = getattr(estimator, "estimator", None)
    made = [*fitted] if isinstance(fitted, (list, tuple)) else []
    rates = [rate for inner in (*made, copied) if inner is not None and isinstance(rate := _rate_of(inner), _Rate)]
    return _together(rates) if rates else None


def _together(rates: Sequence[_Rate]) -> _Rate:
    def put(value: float) -> None:
        for rate in rates:
            rate.put(value)

    return _Rate(rates[0].get, put, may_be_zero=all(rate.may_be_zero for rate in rates))


# -- torch, skorch, Keras ----------------------------------------------------------------------------


def _of_skorch(net: Any) -> _Rate:
    names = ["lr", *(name for name in ("optimizer__lr",) if hasattr(net, name))]
    parameters = _parameters(net, *reversed(names))  # the more special name wins
    groups = _of_optimizer(getattr(net, "optimizer_", None))
    return parameters if groups is None else _together([groups, parameters])


def _of_optimizer(optimizer: Any) -> _Rate | None:
    groups = getattr(optimizer, "param_groups", None)
    if isinstance(groups, list) and groups and all(isinstance(group, dict) and "lr" in group for group in groups):
        return _of_groups(groups)
    rate: Any = getattr(optimizer, "learning_rate", None)
    if callable(getattr(rate, "assign", None)):
        return _Rate(lambda: _as_float(optimizer.learning_rate), rate.assign, may_be_zero=True)
    if isinstance(rate, Real):

        def put(value: float) -> None:
            optimizer.learning_rate = value

        return _Rate(lambda: float(optimizer.learning_rate), put, may_be_zero=True)
    return None


def _of_groups(groups: list[dict[str, Any]]) -> _Rate:
    """Take that of the first group of parameters; the others keep their ratio to it."""

    def put(value: float) -> None:
        first = _as_float(groups[0]["lr"])
        for group in groups:
            own = _as_float(group["lr"])
            rate = value if first in (own, 0) else value * (own / first)
            if callable(getattr(group["lr"], "fill_", None)):
                group["lr"].fill_(rate)  # a tensor, which compiled steps hold on to
            else:
                group["lr"] = rate

    return _Rate(lambda: _as_float(groups[0]["lr"]), put, may_be_zero=True)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except TypeError:
        return float(np.asarray(value))


_FAMILIES: dict[tuple[str, str], Callable[[Any], _Rate | str]] = {
    ("sklearn", "PassiveAggressiveClassifier"): lambda estimator: _parameters(estimator, "C", "eta0"),
    ("sklearn", "PassiveAggressiveRegressor"): lambda estimator: _parameters(estimator, "C", "eta0"),
    ("sklearn", "BaseSGD"): _of_sgd,
    ("sklearn", "BaseMultilayerPerceptron"): _of_mlp,
    ("sklearn", "BernoulliRBM"): lambda estimator: _parameters(estimator, "learning_rate"),
    ("skorch", "NeuralNet"): _of_skorch,
}
"""Classes whose step size is known, by package and name; those that inherit from them have it too."""
