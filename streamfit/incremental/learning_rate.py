"""The step size of an estimator, read and changed between steps."""

from __future__ import annotations

from typing import Any

from streamfit.errors import InvalidParameterError

__all__ = ["learning_rate_of", "set_learning_rate"]


def learning_rate_of(_model: Any) -> float | None:
    """Give the step size that an estimator takes next; None where it has none that could be changed."""
    return None


def set_learning_rate(model: Any, value: float) -> None:
    """Change the step size from here on.

    Raises
    ------
    InvalidParameterError
        The estimator has none that could be changed.
    """
    raise InvalidParameterError(f"{type(model).__name__} has no learning rate that could be set to {value}.")
