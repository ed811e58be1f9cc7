"""Remember what a fit measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.callbacks.fit_record import FitRecord
from streamfit.events import EpochEnded

if TYPE_CHECKING:
    from streamfit.events import Event

__all__ = ["History"]


class History:
    """Collect what one or more fits measured while it watched.

    Attributes
    ----------
    epochs : list of dict
        ``epoch``, ``seconds``, ``learning_rate`` where the estimator has one, and the metrics of each epoch that ended.
    entries : list of dict
        Ends of epochs and what was measured within them, as in ``StreamTrainer.history_``: ``epoch``, ``step`` and
        ``n_rows`` (steps and rows of the epoch that were done), ``seconds``, ``learning_rate`` where there is one, and
        the metrics.

    Examples
    --------
    >>> history = History()
    >>> history.notify(EpochEnded(epoch=0, seconds=1.5, metrics={"val_accuracy": 0.9}))
    >>> history.epochs
    [{'epoch': 0, 'seconds': 1.5, 'val_accuracy': 0.9}]
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self._record = FitRecord()

    def notify(self, event: Event) -> None:
        """Take note of what was measured."""
        entry = self._record.take(event)
        if entry is not None:
            self.entries.append(entry)
        if isinstance(event, EpochEnded):
            rate = {} if event.learning_rate is None else {"learning_rate": event.learning_rate}
            self.epochs.append({"epoch": event.epoch, "seconds": event.seconds, **rate, **event.metrics})
