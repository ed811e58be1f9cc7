"""Which metric a callback watches, and whether a value of it is better than another one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_args

from streamfit.errors import InvalidParameterError
from streamfit.options import check_choice, check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Mode", "Watch", "check_monitor", "is_better", "less_is_better", "monitored"]

Mode = Literal["auto", "min", "max"]

_BY_DEFAULT = (
    *(f"val_{name}" for name in ("log_loss", "mean_squared_error", "accuracy")),
    *(f"prequential_{name}" for name in ("log_loss", "mean_squared_error", "accuracy")),
)
"""Metrics of which the first that there is is watched where none is named."""
_LESS_IS_BETTER = ("loss", "error")
_MORE_IS_BETTER = ("accuracy", "auc", "precision", "recall", "f1", "r2", "_macro", "_micro", "_weighted")


def check_monitor(monitor: Any, *, mode: Any, min_delta: Any) -> None:
    """Refuse what names no metric, no direction, or no number of at least 0.

    Raises
    ------
    InvalidParameterError
        The message says which.
    """
    if monitor is not None and not isinstance(monitor, str):
        raise InvalidParameterError(f"monitor must be the name of a metric or None, got {monitor!r}.")
    check_number("min_delta", min_delta, least=0)
    check_choice("mode", mode, get_args(Mode))


def monitored(monitor: str | None, metrics: Mapping[str, float], *, by: str) -> str:
    """Give the name of the metric that is watched.

    Parameters
    ----------
    monitor : str or None
        Its name; None takes the first of ``val_log_loss``, ``val_mean_squared_error``, ``val_accuracy``, the same of
        ``prequential_...``, and then any other that there is.
    metrics : mapping of str to float
        Those that there are.
    by : str
        Name of the callback, for messages.

    Raises
    ------
    InvalidParameterError
        There is no such metric.
    """
    if monitor is not None:
        if monitor not in metrics:
            raise InvalidParameterError(
                f"{by} monitors {monitor!r}, and here is {sorted(metrics)}. Pass validation_data and this name in "
                "metrics, monitor one that there is, or measure it as often as it is asked for (validate_every_steps)."
            )
        return monitor
    for name in (*_BY_DEFAULT, *sorted(metrics)):
        if name in metrics:
            return name
    raise InvalidParameterError(f"{by} needs a metric, and none was measured here. Pass validation_data to fit.")


def less_is_better(name: str, mode: Mode) -> bool:
    """Tell whether less of a metric is better, by its name where `mode` is "auto".

    Raises
    ------
    InvalidParameterError
        The name does not tell.

    Examples
    --------
    >>> less_is_better("val_log_loss", "auto"), less_is_better("val_neg_log_loss", "auto"), less_is_better("x", "min")
    (True, False, True)
    >>> less_is_better("val_jaccard", "auto"), less_is_better("val_max_error", "auto")
    (False, True)
    """
    if mode != "auto":
        return mode == "min"
    metric = name.removeprefix("val_").removeprefix("prequential_").removesuffix("_window")
    if metric.startswith("neg_"):  # of scikit-learn's scorers more is always better
        return False
    from sklearn.metrics import get_scorer_names

    scorers = set(get_scorer_names())
    if metric in scorers or f"neg_{metric}" in scorers:
        return metric not in scorers
    for endings, less in ((_LESS_IS_BETTER, True), (_MORE_IS_BETTER, False)):
        if metric.endswith(endings):
            return less
    raise InvalidParameterError(f"It is not known whether less {name!r} is better. Pass mode='min' or 'max'.")


def is_better(value: float, best: float | None, *, name: str, mode: Mode, min_delta: float) -> bool:
    """Tell whether a value is better than the best so far by more than `min_delta`; ``nan`` never is.

    Raises
    ------
    InvalidParameterError
        It is not known whether less of this metric is better.

    Examples
    --------
    >>> is_better(0.4, 0.5, name="val_log_loss", mode="auto", min_delta=0.2)
    False
    """
    sign = 1.0 if less_is_better(name, mode) else -1.0
    return not math.isnan(value) and (best is None or sign * value < sign * best - min_delta)


class Watch:
    """The best value so far of one metric, for callbacks that act on it.

    Parameters
    ----------
    monitor : str or None
        Name of the metric; None takes one of those at the first control point (see `monitored`), and stays with it.
    mode : {"auto", "min", "max"}
        Whether less or more is better.
    min_delta : float
        A value is better if it is so by more than this.
    by : str
        Name of the callback, for messages.

    Attributes
    ----------
    name : str or None
        Name of the metric, once it is known.
    best : float or None
        Best value so far.
    """

    def __init__(self, monitor: str | None, *, mode: Mode, min_delta: float, by: str) -> None:
        check_monitor(monitor, mode=mode, min_delta=min_delta)
        self._monitor = monitor
        self._mode: Mode = mode
        self._min_delta = min_delta
        self._by = by
        self.name: str | None = monitor
        self.best: float | None = None

    def improves(self, metrics: Mapping[str, float]) -> bool:
        """Take the value at a control point, and tell whether it is the best so far.

        Raises
        ------
        InvalidParameterError
            There is no such metric, or it is not known whether less of it is better.
        """
        self.name = monitored(self.name, metrics, by=self._by)
        value = metrics[self.name]
        better = is_better(value, self.best, name=self.name, mode=self._mode, min_delta=self._min_delta)
        if better:
            self.best = float(value)
        return better

    def state(self) -> dict[str, Any]:
        """Give the best value and of what it is."""
        return {"monitor": self._monitor, "metric": self.name, "best": self.best}

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Go on from a checkpoint, and tell whether its state was of the same metric; another one is left aside."""
        if state["monitor"] != self._monitor:
            return False
        self.name = state.get("metric", self._monitor)  # checkpoints from before it was written down lack it
        self.best = state["best"]
        return True
