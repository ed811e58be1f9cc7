"""Call functions with the events of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError
from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone, StepsMeasured

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamfit.events import Event

__all__ = ["Lambda"]


class Lambda:
    """Call a function with each event of a kind.

    Functions run on the thread of the fit, on a cluster in the process that called ``fit``. What they raise ends the
    fit.

    Parameters
    ----------
    fit_started : callable or None, default=None
        Called with `streamfit.events.FitStarted`.
    steps_done : callable or None, default=None
        Called with `streamfit.events.StepsDone`: after each step, on a cluster after each segment.
    steps_measured : callable or None, default=None
        Called with `streamfit.events.StepsMeasured`: metrics that were measured within an epoch.
    epoch_ended : callable or None, default=None
        Called with `streamfit.events.EpochEnded`.
    fit_ended : callable or None, default=None
        Called with `streamfit.events.FitEnded`, also where the fit has failed.

    Raises
    ------
    InvalidParameterError
        One of them is no function, or all are None.

    Examples
    --------
    >>> losses = []
    >>> callback = Lambda(epoch_ended=lambda event: losses.append(event.metrics["val_log_loss"]))
    >>> callback.notify(EpochEnded(epoch=0, seconds=1.5, metrics={"val_log_loss": 0.25}))
    >>> callback.notify(FitEnded(seconds=1.5))
    >>> losses
    [0.25]
    >>> Lambda(epoch_ended=losses)
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: epoch_ended must be a function of one event, got [0.25].
    """

    def __init__(
        self,
        *,
        fit_started: Callable[[FitStarted], Any] | None = None,
        steps_done: Callable[[StepsDone], Any] | None = None,
        steps_measured: Callable[[StepsMeasured], Any] | None = None,
        epoch_ended: Callable[[EpochEnded], Any] | None = None,
        fit_ended: Callable[[FitEnded], Any] | None = None,
    ) -> None:
        functions = {
            "fit_started": fit_started,
            "steps_done": steps_done,
            "steps_measured": steps_measured,
            "epoch_ended": epoch_ended,
            "fit_ended": fit_ended,
        }
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise InvalidParameterError(f"{name} must be a function of one event, got {function!r}.")
        if all(function is None for function in functions.values()):
            raise InvalidParameterError(f"Lambda has no function to call. Give one of {', '.join(functions)}.")
        self.fit_started = fit_started
        self.steps_done = steps_done
        self.steps_measured = steps_measured
        self.epoch_ended = epoch_ended
        self.fit_ended = fit_ended

    def notify(self, event: Event) -> None:
        """Call the function for an event of this kind."""
        function: Callable[[Any], Any] | None = None
        if isinstance(event, FitStarted):
            function = self.fit_started
        elif isinstance(event, StepsDone):
            function = self.steps_done
        elif isinstance(event, StepsMeasured):
            function = self.steps_measured
        elif isinstance(event, EpochEnded):
            function = self.epoch_ended
        elif isinstance(event, FitEnded):
            function = self.fit_ended
        if function is not None:
            function(event)
