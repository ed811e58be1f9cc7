"""The learning rate at a control point, for callbacks that change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamfit.errors import InvalidParameterError
from streamfit.run.links import links_of

if TYPE_CHECKING:
    from streamfit.callbacks.control import ControlPoint

__all__ = ["rate_at"]


def rate_at(point: ControlPoint, *, by: str) -> float:
    """Give the learning rate that is in force at a control point.

    Parameters
    ----------
    point : ControlPoint
        Where the fit stands.
    by : str
        Name of the callback, for messages.

    Raises
    ------
    InvalidParameterError
        The estimator has none that could be changed.

    Examples
    --------
    >>> from streamfit.callbacks import ControlPoint
    >>> rate_at(ControlPoint(0, 9, 9, {}, 0.5, None), by="LearningRateScheduler")
    0.5
    """
    if point.learning_rate is not None:
        return point.learning_rate
    links = links_of(point.model)
    name = type(links[-1] if links else point.model).__name__
    raise InvalidParameterError(
        f"{by} changes the learning rate, and this {name} has none that could be changed. An estimator that has one is "
        "SGDClassifier(learning_rate='constant', eta0=0.01), or with 'invscaling', but not with 'optimal'."
    )
