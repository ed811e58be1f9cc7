"""Nets of skorch as bytes: what they learnt, read back without running code that a file brings.

A net is taken out of the estimator or pipeline that it ends, and a `SavedNet` stands for it in the file of skops. Its
weights, the state of its optimizer and of the generator that it draws from are tensors, which torch reads with
``weights_only=True``. What makes the net (its module's class and parameters) comes from the user's own object where a
fit goes on, and is in the file where it is to be read without one.
"""

from __future__ import annotations

import copy
import io
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from streamfit.errors import CheckpointError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["DRAWS", "SavedNet", "is_net", "net_bytes", "own_draws", "seed_net", "with_nets", "without_nets"]

DRAWS = "torch_state_"
"""Attribute of a net: the state of the generator that it draws weights, dropout and shuffles from."""

_NET = ("skorch.net", "NeuralNet")
_RATES = ("lr", "optimizer__lr")
"""Parameters of a net that a fit may change."""


def is_net(estimator: Any) -> bool:
    """Tell a net of skorch, without importing skorch to ask.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> is_net(GaussianNB())
    False
    """
    return any((parent.__module__, parent.__name__) == _NET for parent in type(estimator).__mro__)


class SavedNet(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Stands for a net in the file of a model.

    Parameters
    ----------
    number : int
        Which of the nets of the model.
    kind : class or None
        Class of the net; None where it comes from the user's object.
    parameters : dict or None
        Its parameters, without those that are tensors.
    """

    def __init__(self, number: int, kind: type | None = None, parameters: dict[str, Any] | None = None) -> None:
        self.number = number
        self.kind = kind
        self.parameters = parameters


def seed_net(net: Any, seed: int) -> None:
    """Give a net a generator of its own, for first weights, dropout and shuffles.

    Raises
    ------
    UnsupportedError
        skorch or torch is not installed.
    """
    setattr(net, DRAWS, _import_torch().Generator().manual_seed(seed).get_state())


@contextmanager
def own_draws(estimator: Any) -> Iterator[None]:
    """Let a net draw from its own generator, whatever else draws in this process; others are left alone."""
    state = getattr(estimator, DRAWS, None)
    if state is None:
        yield
        return
    torch = _import_torch()
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(state)
        yield
        setattr(estimator, DRAWS, torch.get_rng_state())


def without_nets(model: Any, *, complete: bool) -> tuple[Any, list[Any]]:
    """Give a model in which `SavedNet` stands for each net, and the nets in their order.

    Parameters
    ----------
    model : estimator
        An estimator or pipeline. It is not changed.
    complete : bool
        Whether what makes a net is kept too, so that it can be read back without the user's object.
    """
    nets: list[Any] = []

    def replaced(part: Any) -> Any:
        if is_net(part):
            nets.append(part)
            if not complete:
                return SavedNet(len(nets) - 1)
            parameters = {name: value for name, value in _parameters(part).items() if not _is_tensor(value)}
            return SavedNet(len(nets) - 1, type(part), parameters)
        if isinstance(part, Pipeline):
            steps = [(name, replaced(step)) for name, step in part.steps]
            if any(after is not before for (_, after), (_, before) in zip(steps, part.steps, strict=True)):
                part = copy.copy(part)
                part.steps = steps
        return part

    return replaced(model), nets


def with_nets(model: Any, states: Mapping[int, bytes], *, like: Any) -> Any:
    """Put nets back where `SavedNet` stands for them.

    Parameters
    ----------
    model : estimator
        As it was read; it is changed.
    states : mapping of int to bytes
        What `net_bytes` gave for each net, by its number.
    like : estimator or None
        The user's model with the same parts, whose nets are copied; None takes what is in the file.

    Raises
    ------
    CheckpointError
        A net is of another shape, or the file has not what makes it.
    UnsupportedError
        skorch or torch is not installed.
    """
    if isinstance(model, SavedNet):
        return _restored(model, states, like)
    if isinstance(model, Pipeline):
        parts = [None] * len(model.steps) if like is None else [step for _, step in like.steps]
        model.steps = [
            (name, with_nets(step, states, like=part)) for (name, step), part in zip(model.steps, parts, strict=True)
        ]
    return model


def _restored(saved: SavedNet, states: Mapping[int, bytes], like: Any) -> Any:
    _import_torch()
    state = _read(states[saved.number])
    if like is not None:
        net = clone(like)
    elif saved.kind is not None and saved.parameters is not None:
        net = saved.kind(**saved.parameters, **state["parameters"])
    else:
        raise CheckpointError("The file has the weights of a net and not what makes it: it is a checkpoint of a fit.")
    try:
        _fill(net, state)
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"The weights in the file are not those of this {type(net).__name__}: {error}. Use the module and the "
            "optimizer that it was fitted with."
        ) from error
    return net


# -- the state of one net ----------------------------------------------------------------------------


def net_bytes(net: Any) -> bytes:
    """Write what a net has learnt, and those of its parameters that are tensors.

    Raises
    ------
    CheckpointError
        Something in it cannot be written without pickling.
    """
    torch = _import_torch()
    state: dict[str, Any] = {
        "parameters": {name: value for name, value in _parameters(net).items() if _is_tensor(value)},
        "initialized": bool(net.initialized_),
        "draws": getattr(net, DRAWS, None),
        "rates": {name: float(value) for name in _RATES if (value := getattr(net, name, None)) is not None},
    }
    if net.initialized_:
        classes = getattr(net, "classes_inferred_", None)
        state |= {
            "parts": {name: part.state_dict() for name, part in _parts(net).items()},
            "history": json.dumps(net.history.to_list(), default=_plain),
            "callbacks": json.dumps([_plain_state(callback) for _, callback in net.callbacks_]),
            "classes": None if classes is None else torch.as_tensor(np.asarray(classes)),
        }
    content = io.BytesIO()
    torch.save(state, content)
    data = content.getvalue()
    try:
        # What cannot be read back is found out when it is written, not when it is needed.
        _read(data)
    except CheckpointError as error:
        raise CheckpointError(
            f"{type(net).__name__} cannot be written without pickling: {error}. Keep plain values and tensors in the "
            "state of modules and optimizers."
        ) from error
    return data


def _read(data: bytes) -> dict[str, Any]:
    torch = _import_torch()
    try:
        return dict(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))
    except Exception as error:
        # torch lets through whatever a damaged file leads to.
        raise CheckpointError(f"the weights of a net cannot be read ({error})") from error


def _fill(net: Any, state: Mapping[str, Any]) -> None:
    torch = _import_torch()
    if state["draws"] is not None:
        setattr(net, DRAWS, state["draws"])
    for name, rate in state["rates"].items():
        setattr(net, name, rate)
    if not state["initialized"]:
        return
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced right away
        net.initialize()
    parts = _parts(net)
    if parts.keys() != state["parts"].keys():
        raise ValueError(f"it has {', '.join(sorted(parts))} and the file {', '.join(sorted(state['parts']))}")
    for name, part in parts.items():
        part.load_state_dict(state["parts"][name])
    net.history = type(net.history)(json.loads(state["history"]))
    for (_, callback), values in zip(net.callbacks_, json.loads(state["callbacks"]), strict=True):
        vars(callback).update(values)
    if state["classes"] is not None:
        net.classes_inferred_ = state["classes"].numpy()


def _parts(net: Any) -> dict[str, Any]:
    """Give the modules, criteria and optimizers of an initialized net that have a state."""
    names = [*net._modules, *net._criteria, *net._optimizers]  # noqa: SLF001  # subclasses may have further ones
    parts = {name: getattr(net, f"{name}_", None) for name in names}
    return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}


def _parameters(net: Any) -> dict[str, Any]:
    return {name: value for name, value in net.get_params(deep=False).items() if not name.startswith("_")}


def _plain_state(callback: Any) -> dict[str, Any]:
    """Give what a callback of skorch keeps from one call to the next, where that is plain values."""
    kept = {}
    for name, value in vars(callback).items():
        if name.endswith("_") and not name.endswith("__"):
            try:
                kept[name] = json.loads(json.dumps(value, default=_plain))
            except (TypeError, ValueError):
                continue  # made anew when a net is initialized, such as a scorer
    return kept


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no plain value")


def _is_tensor(value: Any) -> bool:
    return any(parent.__module__ == "torch" and parent.__name__ == "Tensor" for parent in type(value).__mro__)


def _import_torch() -> Any:
    try:
        import skorch  # noqa: F401  # its nets cannot be made without it
        import torch
    except ImportError as error:
        raise UnsupportedError(f"{error}. A net of skorch needs it: pip install 'streamfit[skorch]'.") from error
    return torch
