"""Remember the metrics of each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.events import EpochEnded

if TYPE_CHECKING:
    from streamfit.events import Event

__all__ = ["History"]


class History:
    """Collect the epochs of one or more fits.

    Attributes
    ----------
    epochs : list of dict
        ``epoch``, ``seconds`` and the metrics of each epoch that ended while it watched.

    Examples
    --------
    >>> history = History()
    >>> history.notify(EpochEnded(epoch=0, seconds=1.5, metrics={"val_accuracy": 0.9}))
    >>> history.epochs
    [{'epoch': 0, 'seconds': 1.5, 'val_accuracy': 0.9}]
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []

    def notify(self, event: Event) -> None:
        """Take note of an epoch's end."""
        if isinstance(event, EpochEnded):
            self.epochs.append({"epoch": event.epoch, "seconds": event.seconds, **event.metrics})
