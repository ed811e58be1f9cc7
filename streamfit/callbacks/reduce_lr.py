"""Take smaller steps once a metric no longer gets better."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import Verdict
from streamfit.callbacks.monitor import Mode, Watch
from streamfit.callbacks.rate import rate_at
from streamfit.errors import InvalidParameterError
from streamfit.options import check_count, check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.callbacks.control import ControlPoint

__all__ = ["ReduceLROnPlateau"]

logger = logging.getLogger(__name__)


class ReduceLROnPlateau:
    """Multiply the learning rate by a factor after some epochs without a better value of one metric.

    It decides as the callback of this name in Keras does. A run with checkpoints decides the same wherever it was
    interrupted.

    Parameters
    ----------
    monitor : str or None, default=None
        Name of the metric, such as ``"val_log_loss"``; None takes, at the first time, the first of ``val_log_loss``,
        ``val_mean_squared_error``, ``val_accuracy``, the same of ``prequential_...``, and then any other that there is.
    factor : float, default=0.1
        What the learning rate is multiplied by, above 0 and below 1.
    patience : int, default=3
        Epochs in a row without a better value after which it is; with `every_steps`, times that it was asked.
    min_delta : float, default=1e-4
        A value is better if it is so by more than this.
    mode : {"auto", "min", "max"}, default="auto"
        Whether less or more is better; "auto" knows it from the metric's name.
    cooldown : int, default=0
        Epochs after a reduction that are not counted, as many times with `every_steps`.
    min_lr : float, default=0.0
        The learning rate is never made less than this.
    every_steps : int or None, default=None
        Compare also after each so many steps of an epoch, where the metric must be measured:
        ``StreamTrainer(validate_every_steps=)`` of the same number, or `PrequentialMetrics`.

    Attributes
    ----------
    best_ : float or None
        Best value so far. ``nan`` is never better.
    reductions_ : list of (int, float)
        Epoch after which, or within which, the learning rate was reduced, and what it became.

    Examples
    --------
    >>> from streamfit.callbacks import ControlPoint
    >>> reduce = ReduceLROnPlateau("val_log_loss", factor=0.5, patience=1)
    >>> losses = [0.5, 0.4, 0.45]
    >>> points = [ControlPoint(epoch, 9, 9, {"val_log_loss": loss}, 1.0, None) for epoch, loss in enumerate(losses)]
    >>> [reduce.judge(point).learning_rate for point in points]
    [None, None, 0.5]
    >>> reduce.reductions_
    [(2, 0.5)]
    """

    def __init__(
        self,
        monitor: str | None = None,
        *,
        factor: float = 0.1,
        patience: int = 3,
        min_delta: float = 1e-4,
        mode: Mode = "auto",
        cooldown: int = 0,
        min_lr: float = 0.0,
        every_steps: int | None = None,
    ) -> None:
        self._watch = Watch(monitor, mode=mode, min_delta=min_delta, by=type(self).__name__)
        if not 0 < check_number("factor", factor, least=0) < 1:
            raise InvalidParameterError(f"factor must be above 0 and below 1, got {factor!r}.")
        check_count("patience", patience, least=1)
        check_count("cooldown", cooldown, least=0)
        check_number("min_lr", min_lr, least=0)
        if every_steps is not None:
            check_count("every_steps", every_steps, least=1)
        self.monitor = monitor
        self.factor = factor
        self.patience = patience
        self.min_delta = min_delta
        self.mode = mode
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.every_steps = every_steps
        self.reductions_: list[tuple[int, float]] = []
        self._waited = 0
        self._cooling = 0

    @property
    def best_(self) -> float | None:
        """Best value so far."""
        return self._watch.best

    def judge(self, point: ControlPoint) -> Verdict:
        """Compare the model as it is here with the best so far.

        Raises
        ------
        InvalidParameterError
            There is no such metric, it is not known whether less of it is better, or the estimator has no learning rate
            that could be changed.
        """
        rate = rate_at(point, by=type(self).__name__)
        if self._cooling > 0:
            self._cooling -= 1
            self._waited = 0
        if self._watch.improves(point.metrics):
            self._waited = 0
            return Verdict()
        if self._cooling > 0:
            return Verdict()
        self._waited += 1
        if self._waited < self.patience or rate <= self.min_lr:
            return Verdict()
        reduced = max(float(rate * self.factor), float(self.min_lr))
        self._cooling, self._waited = self.cooldown, 0
        self.reductions_.append((point.epoch, reduced))
        logger.info("Learning rate %g after epoch %d: no better %s.", reduced, point.epoch, self._watch.name)
        return Verdict(learning_rate=reduced)

    def state(self) -> dict[str, Any]:
        """Give the best value so far, how long ago it was, and what was reduced."""
        return self._watch.state() | {
            "waited": self._waited,
            "cooling": self._cooling,
            "reductions": [list(reduction) for reduction in self.reductions_],
        }

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Go on from a checkpoint; the state of another metric is left aside."""
        if self._watch.restore(state):
            self._waited = state["waited"]
            self._cooling = state["cooling"]
            self.reductions_ = [(epoch, rate) for epoch, rate in state["reductions"]]
        return False
