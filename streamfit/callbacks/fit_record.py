"""What a fit has told an observer so far, as entries of its history and as steps on one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.events import EpochEnded, FitStarted, StepsDone, StepsMeasured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.events import Event

__all__ = ["FitRecord", "begins_anew", "goes_further"]

_COUNTED = ("epoch", "step", "n_rows", "seconds")


class FitRecord:
    """Makes of events what `StreamTrainer.history_` has.

    Examples
    --------
    >>> record = FitRecord()
    >>> events = [
    ...     FitStarted(n_epochs=2, n_steps=3, n_rows=25, row_nbytes=8),
    ...     StepsDone(epoch=0, step=3, n_rows=25),
    ...     EpochEnded(epoch=0, seconds=1.5, metrics={"val_r2": 0.5}, learning_rate=0.1),
    ... ]
    >>> [record.take(event) for event in events][-1]
    {'epoch': 0, 'step': 3, 'n_rows': 25, 'seconds': 1.5, 'learning_rate': 0.1, 'val_r2': 0.5}
    >>> record.total_steps(epoch=1, step=2)
    5
    """

    def __init__(self) -> None:
        self.fit: FitStarted | None = None
        self.n_rows_done = 0
        """Rows of this call that are done, without those before a resume."""
        self._n_rows: int | None = None
        self._epoch = 0
        self._steps_of: dict[int, int] = {}
        self._before = (0, 0)

    def take(self, event: Event) -> dict[str, Any] | None:
        """Give the entry of the history that an event tells of, or None where it tells of none."""
        if isinstance(event, FitStarted):
            self._start(event)
        elif self.fit is None:
            return None
        elif isinstance(event, StepsDone):
            # After a resume within an epoch it is not known which rows are of this call, so the first step counts none.
            before = self._n_rows if event.epoch == self._epoch else 0
            self.n_rows_done += 0 if before is None else event.n_rows - before
            self._epoch, self._n_rows = event.epoch, event.n_rows
        elif isinstance(event, EpochEnded):
            self._steps_of[event.epoch] = self.fit.n_steps
            return self._entry(event, self.fit.n_steps)
        elif isinstance(event, StepsMeasured):
            return self._entry(event, event.step)
        return None

    def total_steps(self, epoch: int, step: int) -> int:
        """Give the steps that are done after `step` steps of an epoch, those of the epochs before included."""
        if self._before[0] != epoch:
            # Epochs of other rows, by `partial_fit`, have another number of steps.
            n_steps = 0 if self.fit is None else self.fit.n_steps
            self._before = (epoch, sum(self._steps_of.get(earlier, n_steps) for earlier in range(epoch)))
        return self._before[1] + step

    def scalars(self, entry: Mapping[str, Any]) -> dict[str, float]:
        """Give what is to be drawn of an entry: learning rate, metrics, speed, and at its end the time of an epoch."""
        scalars = {name: float(value) for name, value in entry.items() if name not in _COUNTED}
        if entry["seconds"] > 0:
            scalars["rows_per_second"] = entry["n_rows"] / entry["seconds"]
        n_steps = 0 if self.fit is None else self.fit.n_steps
        if entry["step"] == self._steps_of.get(entry["epoch"], n_steps):
            scalars["epoch_seconds"] = entry["seconds"]
        return scalars

    def _start(self, event: FitStarted) -> None:
        if not goes_further(event):
            self._steps_of = {}
        for entry in event.history:
            # The last entry of an epoch is that of its end.
            if entry["epoch"] < event.epoch:
                self._steps_of[entry["epoch"]] = entry["step"]
        self.fit, self._before = event, (0, 0)
        self.n_rows_done, self._epoch, self._n_rows = 0, event.epoch, None if event.step else 0

    def _entry(self, event: EpochEnded | StepsMeasured, step: int) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "epoch": event.epoch,
            "step": step,
            "n_rows": self._n_rows or 0,
            "seconds": event.seconds,
        }
        return (
            entry
            | ({} if event.learning_rate is None else {"learning_rate": event.learning_rate})
            | dict(event.metrics)
        )


def goes_further(event: FitStarted) -> bool:
    """Tell whether a fitted model is trained on: what goes on from a checkpoint knows what was measured before."""
    return event.epoch > 0 and not event.history


def begins_anew(event: FitStarted) -> bool:
    """Tell whether nothing was done before."""
    return event.epoch == 0 and event.step == 0
