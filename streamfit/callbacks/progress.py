"""Show on a terminal, or in the log, how a fit goes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone
from streamfit.options import check_number

if TYPE_CHECKING:
    from streamfit.events import Event

__all__ = ["Progress"]

logger = logging.getLogger(__name__)


class Progress:
    """Show epoch, rows a second, metrics and the time left.

    On a terminal it is a bar that is drawn again and again; elsewhere it is one line of the log (level
    INFO) for each epoch and for every `log_seconds`.

    Parameters
    ----------
    log_seconds : float, default=30.0
        Seconds between two lines of the log.
    console : rich.console.Console or None, default=None
        Where to draw; None draws on the standard error output.
    """

    def __init__(self, *, log_seconds: float = 30.0, console: Console | None = None) -> None:
        check_number("log_seconds", log_seconds, least=0)
        self.log_seconds = log_seconds
        self.console = console
        self._bar: Bar | None = None
        self._task: Any = None
        self._fit: FitStarted | None = None
        self._began = self._logged = 0.0
        self._first_row = 0

    def notify(self, event: Event) -> None:
        """Draw or log an event."""
        now = time.monotonic()
        if isinstance(event, FitStarted):
            self._start(event, now)
        elif self._fit is None:
            return
        elif isinstance(event, StepsDone):
            self._show(self._fit, event.epoch, event.n_rows, now)
        elif isinstance(event, EpochEnded):
            self._end_epoch(self._fit, event, now)
        elif isinstance(event, FitEnded):
            self._stop()
            logger.info("Fit ended after %.1f s.", event.seconds)

    def _start(self, event: FitStarted, now: float) -> None:
        self._stop()
        self._fit, self._began, self._logged = event, now, now
        self._first_row = event.epoch * event.n_rows + event.step * event.n_rows // event.n_steps
        console = self.console or Console(stderr=True)
        if console.is_terminal:
            self._bar = Bar(
                TextColumn("epoch {task.fields[epoch]}/{task.fields[n_epochs]}"),
                BarColumn(),
                TextColumn("{task.fields[speed]} {task.fields[metrics]}"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task(
                "fit",
                total=event.n_epochs * event.n_rows,
                completed=self._first_row,
                epoch=event.epoch + 1,
                n_epochs=event.n_epochs,
                speed="",
                metrics="",
            )
            self._bar.start()

    def _speed(self, fit: FitStarted, epoch: int, n_rows: int, now: float) -> str:
        rows = epoch * fit.n_rows + n_rows - self._first_row
        seconds = max(now - self._began, 1e-9)
        return f"{rows / seconds:,.0f} rows/s, {rows * fit.row_nbytes / seconds / 1e6:,.0f} MB/s"

    def _show(self, fit: FitStarted, epoch: int, n_rows: int, now: float) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task,
                completed=epoch * fit.n_rows + n_rows,
                epoch=epoch + 1,
                speed=self._speed(fit, epoch, n_rows, now),
            )
        elif now - self._logged >= self.log_seconds:
            self._logged = now
            logger.info(
                "Epoch %d of %d: %d of %d rows, %s.",
                epoch + 1,
                fit.n_epochs,
                n_rows,
                fit.n_rows,
                self._speed(fit, epoch, n_rows, now),
            )

    def _end_epoch(self, fit: FitStarted, event: EpochEnded, now: float) -> None:
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in event.metrics.items())
        if self._bar is not None:
            self._bar.update(self._task, metrics=metrics)
            return
        self._logged = now
        logger.info(
            "Epoch %d of %d done in %.1f s%s",
            event.epoch + 1,
            fit.n_epochs,
            event.seconds,
            f": {metrics}" if metrics else ".",
        )

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
