"""Show on a terminal, in a notebook, or in the log, how a fit goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamfit.callbacks.displays import display_on
from streamfit.callbacks.standing import Standing
from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone
from streamfit.options import check_number

if TYPE_CHECKING:
    from rich.console import Console

    from streamfit.callbacks.displays import Display
    from streamfit.events import Event

__all__ = ["Progress"]


class Progress:
    """Show epoch and step, rows and bytes a second, memory, the last metrics, and the time that is left.

    On a terminal these are two lines that are drawn again and again, in a notebook one output of the cell; elsewhere
    lines of the log (level INFO of ``streamfit``), one for each epoch and for every `log_seconds`. Speed and time left
    are those of this call, also where it goes on from a checkpoint. Memory is what the process that called ``fit`` has
    grown by since then, the estimator's included, beside `memory_limit` where there is one.

    Parameters
    ----------
    log_seconds : float, default=30.0
        Seconds between two lines of the log.
    console : rich.console.Console or None, default=None
        Where to draw; None draws on the standard error output.

    Raises
    ------
    InvalidParameterError
        `log_seconds` is no number.
    """

    def __init__(self, *, log_seconds: float = 30.0, console: Console | None = None) -> None:
        check_number("log_seconds", log_seconds, least=0)
        self.log_seconds = log_seconds
        self.console = console
        # A fit within a fit, with the same object, is shown beside it.
        self._fits: list[tuple[Standing, Display]] = []

    def notify(self, event: Event) -> None:
        """Draw or log an event."""
        if isinstance(event, FitStarted):
            standing = Standing(event)
            self._fits.append((standing, display_on(self.console, standing, log_seconds=self.log_seconds)))
            return
        if not self._fits:
            return
        standing, display = self._fits[-1]
        standing.take(event)
        if isinstance(event, StepsDone):
            display.steps_done()
        elif isinstance(event, EpochEnded):
            display.epoch_ended(event)
        elif isinstance(event, FitEnded):
            self._fits.pop()
            display.close()
