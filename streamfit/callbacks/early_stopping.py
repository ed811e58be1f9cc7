"""End a fit that no longer gets better."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import Verdict
from streamfit.callbacks.monitor import Mode, Watch
from streamfit.options import check_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.callbacks.control import ControlPoint

__all__ = ["EarlyStopping"]

logger = logging.getLogger(__name__)


class EarlyStopping:
    """End a fit after some epochs without a better value of one metric.

    A run with checkpoints that was ended stays ended when it is resumed, whatever the number of epochs.

    Parameters
    ----------
    monitor : str or None, default=None
        Name of the metric, such as ``"val_log_loss"``; None takes, at the first time, the first of ``val_log_loss``,
        ``val_mean_squared_error``, ``val_accuracy``, the same of ``prequential_...``, and then any other that there is.
    patience : int, default=3
        Epochs in a row without a better value after which the fit ends; with `every_steps`, times that it was asked.
    min_delta : float, default=0.0
        A value is better if it is so by more than this.
    mode : {"auto", "min", "max"}, default="auto"
        Whether less or more is better; "auto" knows it from the metric's name.
    restore_best : bool, default=True
        Give the best model instead of the last one.
    every_steps : int or None, default=None
        Compare also after each so many steps of an epoch, where the metric must be measured:
        ``StreamTrainer(validate_every_steps=)`` of the same number, or `PrequentialMetrics`.

    Attributes
    ----------
    best_ : float or None
        Best value so far. ``nan`` is never better.
    best_epoch_ : int or None
        Its epoch, counted from 0.
    best_step_ : int or None
        Steps that were done then since the fit began, earlier epochs included.
    stopped_epoch_ : int or None
        Epoch after which, or within which, the fit was ended.

    Examples
    --------
    >>> from streamfit.callbacks import ControlPoint
    >>> stopping = EarlyStopping("val_log_loss", patience=1)
    >>> losses = [0.5, 0.4, 0.45]
    >>> points = [ControlPoint(epoch, 9, 9, {"val_log_loss": loss}, None, None) for epoch, loss in enumerate(losses)]
    >>> [stopping.judge(point).stop for point in points]
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
        mode: Mode = "auto",
        restore_best: bool = True,
        every_steps: int | None = None,
    ) -> None:
        self._watch = Watch(monitor, mode=mode, min_delta=min_delta, by=type(self).__name__)
        check_count("patience", patience, least=1)
        if every_steps is not None:
            check_count("every_steps", every_steps, least=1)
        self.monitor = monitor
        self.patience = patience
        self.min_delta = min_delta
        self.mode = mode
        self.restore_best = restore_best
        self.every_steps = every_steps
        self.best_epoch_: int | None = None
        self.best_step_: int | None = None
        self.stopped_epoch_: int | None = None
        self._waited = 0

    @property
    def best_(self) -> float | None:
        """Best value so far."""
        return self._watch.best

    def judge(self, point: ControlPoint) -> Verdict:
        """Compare the model as it is here with the best one so far.

        Raises
        ------
        InvalidParameterError
            There is no such metric, or it is not known whether less of it is better.
        """
        if self._watch.improves(point.metrics):
            self.best_epoch_, self.best_step_, self._waited = point.epoch, point.total_steps, 0
            return Verdict(keep=self.restore_best)
        self._waited += 1
        if self._waited < self.patience:
            return Verdict()
        self.stopped_epoch_ = point.epoch
        logger.info("Stopped in epoch %d: %s was best in epoch %s.", point.epoch, self._watch.name, self.best_epoch_)
        return Verdict(stop=True)

    def state(self) -> dict[str, Any]:
        """Give the best value so far and how long ago it was."""
        return self._watch.state() | {
            "best_epoch": self.best_epoch_,
            "best_step": self.best_step_,
            "stopped_epoch": self.stopped_epoch_,
            "waited": self._waited,
        }

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Go on from a checkpoint; the state of another metric is left aside."""
        if not self._watch.restore(state):
            return False
        self.best_epoch_ = state["best_epoch"]
        self.best_step_ = state.get("best_step")  # not in checkpoints from before it was counted
        self.stopped_epoch_ = state["stopped_epoch"]
        self._waited = state["waited"]
        return self.restore_best
