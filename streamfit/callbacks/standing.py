"""Where a fit stands, in numbers and in words."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil

from streamfit.callbacks.fit_record import FitRecord
from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone, StepsMeasured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.events import Event

__all__ = ["Standing"]


class Standing:
    """What is known of a fit that runs, from its first event on.

    Rates and the time left count what this call has done: neither the rows before a checkpoint that it goes on from
    nor the time of another call. Memory is what this process has grown by since the fit began.

    Parameters
    ----------
    fit : FitStarted
        The first event.
    """

    def __init__(self, fit: FitStarted) -> None:
        self.fit = fit
        self.epoch, self.step = fit.epoch, fit.step
        # Not told, and near enough for a bar.
        self.n_rows = fit.step * fit.n_rows // fit.n_steps if fit.n_steps else 0
        if fit.epoch >= fit.n_epochs > 0:
            self.epoch, self.step, self.n_rows = fit.n_epochs - 1, fit.n_steps, fit.n_rows
        self.metrics: Mapping[str, float] = {}
        self.ended: FitEnded | None = None
        self._record = FitRecord()
        self._record.take(fit)
        self._process = psutil.Process()
        self._nbytes = int(self._process.memory_info().rss)
        self._grown = 0
        self._began = time.monotonic()

    def take(self, event: Event) -> None:
        """Take note of an event of this fit."""
        self._record.take(event)
        if isinstance(event, StepsDone):
            self.epoch, self.step, self.n_rows = event.epoch, event.step, event.n_rows
        elif isinstance(event, EpochEnded):
            self.epoch, self.step, self.n_rows = event.epoch, self.fit.n_steps, self.fit.n_rows
            self.metrics = event.metrics or self.metrics
        elif isinstance(event, StepsMeasured):
            self.metrics = event.metrics or self.metrics
        elif isinstance(event, FitEnded):
            # What is shown at the end stays as it was then.
            self._grown = self._growth()
            self.ended = event

    # -- numbers -------------------------------------------------------------------------------------

    @property
    def n_rows_done(self) -> int:
        """Rows that are done, earlier epochs included."""
        return self.epoch * self.fit.n_rows + self.n_rows

    @property
    def n_rows_all(self) -> int:
        """Rows of all epochs."""
        return self.fit.n_epochs * self.fit.n_rows

    @property
    def seconds(self) -> float:
        """Wall time of this call so far."""
        return time.monotonic() - self._began if self.ended is None else self.ended.seconds

    @property
    def rows_per_second(self) -> float:
        """Rows of this call in its wall time, validation included."""
        return self._record.n_rows_done / max(self.seconds, 1e-9)

    def _growth(self) -> int:
        if self.ended is not None:
            return self._grown
        return max(0, int(self._process.memory_info().rss) - self._nbytes)

    # -- words ---------------------------------------------------------------------------------------

    def epoch_text(self) -> str:
        """Say which epoch it is."""
        return f"{min(self.epoch + 1, self.fit.n_epochs)}/{self.fit.n_epochs}"

    def step_text(self) -> str:
        """Say which step of the epoch it is."""
        return f"{self.step:,}/{self.fit.n_steps:,}"

    def speed_text(self) -> str:
        """Say how fast it goes."""
        speed = self.rows_per_second
        return f"{speed:,.0f} rows/s, {_megabytes(speed * self.fit.row_nbytes)} MB/s"

    def memory_text(self) -> str:
        """Say by how much memory has grown, and how much it may."""
        limit = self.fit.memory_limit
        grown = f"memory +{_megabytes(self._growth())} MB"
        return grown if limit is None else f"{grown} of {_megabytes(limit)} MB"

    def metrics_text(self) -> str:
        """Say what was measured last."""
        return ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())

    def elapsed_text(self) -> str:
        """Say how long this call has run."""
        return str(timedelta(seconds=round(self.seconds)))

    def left_text(self) -> str:
        """Say how long the rest takes at the speed so far."""
        speed = self.rows_per_second
        if speed == 0:
            return "-:--:--"
        return str(timedelta(seconds=round((self.n_rows_all - self.n_rows_done) / speed)))


def _megabytes(nbytes: float) -> str:
    """Give bytes in units of 10^6, with a digit behind the point below 10.

    Examples
    --------
    >>> [_megabytes(nbytes) for nbytes in (0, 1_440_000, 12_600_000, 2_000_000_000)]
    ['0.0', '1.4', '13', '2,000']
    """
    return f"{nbytes / 1e6:,.{1 if nbytes < 10e6 else 0}f}"
