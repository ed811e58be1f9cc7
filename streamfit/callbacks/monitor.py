"""Which metric a callback watches, and whether a value of it is better than another one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_args

from streamfit.errors import InvalidParameterError
from streamfit.options import check_choice, check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Mode", "check_monitor", "is_better", "less_is_better", "monitored"]

Mode = Literal["auto", "min", "max"]

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
        Its name; None takes the first of ``val_log_loss``, ``val_mean_squared_error``, ``val_accuracy`` and then any
        other that there is.
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
                f"{by} monitors {monitor!r}, the epoch has {sorted(metrics)}. "
                "Pass validation_data and this name in metrics, or monitor one that there is."
            )
        return monitor
    for name in ("val_log_loss", "val_mean_squared_error", "val_accuracy", *sorted(metrics)):
        if name in metrics:
            return name
    raise InvalidParameterError(f"{by} needs a metric. Pass validation_data to fit.")


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
    metric = name.removeprefix("val_")
    if metric.startswith("neg_"):  # of scikit-learn's scorers more is always better
        return False
    from sklearn.metrics import get_scorer_names

    scorers = set(get_scorer_names())
    if metric in scorers or f"neg_{metric}" in scorers:
        return metric not in scorers
    for endings, less in ((_LESS_IS_BETTER, True), (_MORE_IS_BETTER, False)):
        if name.endswith(endings):
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
