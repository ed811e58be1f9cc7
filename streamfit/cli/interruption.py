"""Ctrl-C and SIGTERM: a fit finishes its step, writes its state and says how it goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, NoReturn, Self

from streamfit.callbacks.control import Verdict
from streamfit.cli.failure import Interrupted
from streamfit.events import FitEnded, FitStarted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from streamfit.callbacks.control import ControlPoint
    from streamfit.events import Event

__all__ = ["SignalPause", "spared_from_ctrl_c"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAME_SIGNAL_SECONDS = 0.3
_HEARD = b"Finishing this step and writing the state. Press Ctrl-C once more to stop at once.\n"


class SignalPause:
    """A callback by which a signal pauses a fit.

    From the first step on a signal is taken note of, and the fit ends after the step that is under way, with its state
    written. Before, and after the last step, a signal raises `Interrupted` at once, and so does a second Ctrl-C.
    Programs that start others pass a signal on which these got as well, so that one that comes twice is one, and a
    second SIGTERM is nothing new at all.

    Attributes
    ----------
    signal_number : int or None
        The signal that came.
    paused_at : tuple of (int, int, int) or None
        Where the fit was paused: epoch, counted from 0; steps of it that are done; steps of an epoch.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.paused_at: tuple[int, int, int] | None = None
        self._fit: FitStarted | None = None
        self._heard = 0.0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A fit works with copies of its controls, and there is one process that a signal can come to.
        return self

    @contextmanager
    def listening(self) -> Iterator[Self]:
        """Take the signals for the length of a ``with`` block; only the main thread of a process can."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.getsignal(number) for number in _SIGNALS}
        try:
            for number, handler in before.items():
                if handler is not signal.SIG_IGN:  # as for what a script starts in the background
                    signal.signal(number, self._take)
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _take(self, signal_number: int, _frame: FrameType | None) -> None:
        if self._fit is None:
            self._stop(signal_number)
        elif self.signal_number is None:
            self.signal_number, self._heard = signal_number, time.monotonic()
            # Not by print: it may be what was interrupted.
            os.write(2, _HEARD)
        elif signal_number == signal.SIGINT and time.monotonic() - self._heard > _SAME_SIGNAL_SECONDS:
            self._stop(signal_number)

    def _stop(self, signal_number: int) -> NoReturn:
        self.signal_number = signal_number
        raise Interrupted(signal_number)

    # -- as a callback -------------------------------------------------------------------------------

    def notify(self, event: Event) -> None:
        """Take note of when steps are done, and when no longer."""
        if isinstance(event, FitStarted):
            self._fit = event
        elif isinstance(event, FitEnded):
            self._fit = None

    def wants_pause(self) -> bool:
        """Tell whether a signal came."""
        return self.signal_number is not None

    def judge(self, point: ControlPoint) -> Verdict:
        """Pause, if a signal came and the fit is not done anyway."""
        done = point.ended and self._fit is not None and point.epoch + 1 == self._fit.n_epochs
        if self.signal_number is None or done:
            return Verdict()
        self.paused_at = (point.epoch, point.step, point.n_steps)
        return Verdict(pause=True)

    def state(self) -> dict[str, Any]:
        """Give nothing: a signal is one process's affair."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Take nothing back, and keep no model."""
        return False


@contextmanager
def spared_from_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started in a ``with`` block, and from this one until its end.

    A terminal sends it to all processes of a command. Workers would leave for good, in the middle of the step that is
    to be finished.
    """
    # multiprocessing lets the signal through again when it starts this helper, which it does before its first process.
    resource_tracker.ensure_running()
    # Threads inherit what is blocked, and so do the processes that they start, also those that replace a lost worker.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
