"""End a fit that no longer gets better."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, Literal

from streamfit.callbacks.control import Verdict
from streamfit.errors import InvalidParameterError
from streamfit.options import check_choice, check_count, check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EarlyStopping"]

logger = logging.getLogger(__name__)

_LESS_IS_BETTER = ("loss", "error")
_MORE_IS_BETTER = ("accuracy", "auc", "precision", "recall", "f1", "r2", "_macro", "_micro", "_weighted")


class EarlyStopping:
    """End a fit after some epochs without a better value of one metric.

    A run with checkpoints that was ended stays ended when it is resumed, whatever the number of epochs.

    Parameters
    ----------
    monitor : str or None, default=None
        Name of the metric, such as ``"val_log_loss"``; None takes the first of ``val_log_loss``,
        ``val_mean_squared_error``, ``val_accuracy`` and then any other that there is.
    patience : int, default=3
        Epochs in a row without a better value after which the fit ends.
    min_delta : float, default=0.0
        A value is better if it is so by more than this.
    mode : {"auto", "min", "max"}, default="auto"
        Whether less or more is better; "auto" knows it from the metric's name.
    restore_best : bool, default=True
        Give the model of the best epoch instead of the last one.

    Attributes
    ----------
    best_ : float or None
        Best value so far. ``nan`` is never better.
    best_epoch_ : int or None
        Its epoch, counted from 0.
    stopped_epoch_ : int or None
        Epoch after which the fit was ended.

    Examples
    --------
    >>> stopping = EarlyStopping("val_log_loss", patience=1)
    >>> [stopping.epoch_ended(i, {"val_log_loss": loss}).stop for i, loss in enumerate([0.5, 0.4, 0.45])]
    [False, False, True]
    >>> stopping.best_, stopping.best_epoch_
    (0.4, 1)
    """

    def __init__(
        self,
        monitor: str | None = None,
        *,
        patience: int = 3,
        min_delta: float = 0.0,
        mode: Literal["auto", "min", "max"] = "auto",
        restore_best: bool = True,
    ) -> None:
        if monitor is not None and not isinstance(monitor, str):
            raise InvalidParameterError(f"monitor must be the name of a metric or None, got {monitor!r}.")
        check_count("patience", patience, least=1)
        check_number("min_delta", min_delta, least=0)
        check_choice("mode", mode, ("auto", "min", "max"))
        self.monitor = monitor
        self.patience = patience
        self.min_delta = min_delta
        self.mode = mode
        self.restore_best = restore_best
        self.best_: float | None = None
        self.best_epoch_: int | None = None
        self.stopped_epoch_: int | None = None
        self._waited = 0

    def epoch_ended(self, epoch: int, metrics: Mapping[str, float]) -> Verdict:
        """Compare this epoch with the best one so far.

        Raises
        ------
        InvalidParameterError
            There is no such metric, or it is not known whether less of it is better.
        """
        name = self._monitored(metrics)
        value, sign = metrics[name], 1.0 if self._less_is_better(name) else -1.0
        if not math.isnan(value) and (self.best_ is None or sign * value < sign * self.best_ - self.min_delta):
            self.best_, self.best_epoch_, self._waited = value, epoch, 0
            return Verdict(keep=self.restore_best)
        self._waited += 1
        if self._waited < self.patience:
            return Verdict()
        self.stopped_epoch_ = epoch
        logger.info("Stopped after epoch %d: %s was best in epoch %s.", epoch, name, self.best_epoch_)
        return Verdict(stop=True)

    def _monitored(self, metrics: Mapping[str, float]) -> str:
        if self.monitor is not None:
            if self.monitor not in metrics:
                raise InvalidParameterError(
                    f"EarlyStopping monitors {self.monitor!r}, the epoch has {sorted(metrics)}. "
                    "Pass validation_data and this name in metrics, or monitor one that there is."
                )
            return self.monitor
        for name in ("val_log_loss", "val_mean_squared_error", "val_accuracy", *sorted(metrics)):
            if name in metrics:
                return name
        raise InvalidParameterError("EarlyStopping needs a metric. Pass validation_data to fit.")

    def _less_is_better(self, name: str) -> bool:
        if self.mode != "auto":
            return self.mode == "min"
        for endings, less in ((_LESS_IS_BETTER, True), (_MORE_IS_BETTER, False)):
            if name.endswith(endings):
                return less
        raise InvalidParameterError(f"It is not known whether less {name!r} is better. Pass mode='min' or 'max'.")

    def state(self) -> dict[str, Any]:
        """Give the best value so far and how long ago it was."""
        return {
            "monitor": self.monitor,
            "best": self.best_,
            "best_epoch": self.best_epoch_,
            "stopped_epoch": self.stopped_epoch_,
            "waited": self._waited,
        }

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Go on from a checkpoint; the state of another metric is left aside."""
        if state["monitor"] != self.monitor:
            return False
        self.best_ = state["best"]
        self.best_epoch_ = state["best_epoch"]
        self.stopped_epoch_ = state["stopped_epoch"]
        self._waited = state["waited"]
        return self.restore_best
