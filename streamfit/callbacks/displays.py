"""How a fit that runs is drawn: on a terminal, in a notebook, or as lines of the log."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rich.console import Console, Group
from rich.jupyter import JupyterMixin
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from streamfit.callbacks.standing import Standing
    from streamfit.events import EpochEnded

__all__ = ["Display", "display_on"]

logger = logging.getLogger(__name__)

_NOTEBOOK_SECONDS = 0.5
_DRAWN_A_SECOND = 4


class Display(Protocol):
    """Where a fit is shown."""

    def steps_done(self) -> None:
        """Show, if it is time to, that steps are done."""

    def epoch_ended(self, event: EpochEnded) -> None:
        """Show that an epoch is done."""

    def close(self) -> None:
        """Show how the fit ended."""


def display_on(console: Console | None, standing: Standing, *, log_seconds: float) -> Display:
    """Begin to show a fit in the way that suits the console; None is the standard error output."""
    console = console or Console(stderr=True)
    if console.is_jupyter:
        return _Notebook(standing)
    # On a terminal that cannot move its cursor nothing can be drawn again.
    draws = console.is_terminal and not console.is_dumb_terminal
    return _Terminal(console, standing) if draws else _Log(standing, log_seconds)


# -- lines of the log --------------------------------------------------------------------------------


class _Log:
    """A line for each epoch, and for each so many seconds."""

    def __init__(self, standing: Standing, log_seconds: float) -> None:
        self._standing = standing
        self._log_seconds = log_seconds
        self._logged = time.monotonic()

    def steps_done(self) -> None:
        now, shown = time.monotonic(), self._standing
        if now - self._logged < self._log_seconds:
            return
        self._logged = now
        measured = shown.metrics_text()
        logger.info(
            "Epoch %d of %d: %s of %s rows, step %s%s, %s.",
            shown.epoch + 1,
            shown.fit.n_epochs,
            f"{shown.n_rows:,}",
            f"{shown.fit.n_rows:,}",
            shown.step_text(),
            f", {measured}" if measured else "",
            self._rest(),
        )

    def epoch_ended(self, event: EpochEnded) -> None:
        self._logged, shown = time.monotonic(), self._standing
        measured = ", ".join(f"{name} {value:.4g}" for name, value in event.metrics.items())
        logger.info(
            "Epoch %d of %d done in %.1f s%s; %s.",
            event.epoch + 1,
            shown.fit.n_epochs,
            event.seconds,
            f": {measured}" if measured else "",
            self._rest(),
        )

    def _rest(self) -> str:
        shown = self._standing
        parts = (shown.speed_text(), shown.memory_text(), f"{shown.elapsed_text()} elapsed, {shown.left_text()} left")
        return ", ".join(parts)

    def close(self) -> None:
        ended = self._standing.ended
        if ended is None:
            return
        if ended.error is None:
            logger.info("Fit ended after %.1f s.", ended.seconds)
        else:
            logger.info("Fit failed after %.1f s: %s.", ended.seconds, ended.error)


# -- drawings ----------------------------------------------------------------------------------------


def _drawing(standing: Standing) -> RenderableType:
    """Draw a bar with where the fit stands and the time, and a line of what was measured."""
    bar = Table.grid(padding=(0, 1), expand=True)
    for ratio in (None, None, 1, None):
        bar.add_column(ratio=ratio, no_wrap=True)
    bar.add_row(
        Text(f"epoch {standing.epoch_text()}"),
        Text(f"step {standing.step_text()}"),
        ProgressBar(total=max(standing.n_rows_all, 1), completed=standing.n_rows_done),
        Text.assemble(f"{standing.elapsed_text()} elapsed, ", _end(standing)),
    )
    facts = (standing.speed_text(), standing.memory_text(), standing.metrics_text())
    return Group(bar, Padding(Text(", ".join(filter(None, facts))), (0, 0, 0, 2)))


def _end(standing: Standing) -> tuple[str, str]:
    """Say how long the rest takes, or how the fit ended, with the style of that."""
    if standing.ended is None:
        return f"{standing.left_text()} left", "progress.remaining"
    if standing.ended.error is not None:
        return standing.ended.error, "bold red"
    return "done" if standing.n_rows_done >= standing.n_rows_all else "stopped", "green"


class _Terminal:
    """Lines at the end of a terminal that are drawn again and again.

    Fits that run at once on one terminal, one in another or in threads, share its live lines: two that draw by
    themselves would write over each other.
    """

    _open: ClassVar[dict[int, tuple[Live, list[Standing]]]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, console: Console, standing: Standing) -> None:
        self._standing = standing
        self._key = id(console.file)
        with self._lock:
            if self._key in self._open:
                self._open[self._key][1].append(standing)
                return
            shown = [standing]
            live = Live(
                console=console,
                get_renderable=lambda: Group(*map(_drawing, tuple(shown))),
                refresh_per_second=_DRAWN_A_SECOND,
            )
            live.start()
            self._open[self._key] = (live, shown)

    def steps_done(self) -> None:
        """Do nothing: the thread of the live lines looks by itself."""

    def epoch_ended(self, event: EpochEnded) -> None:
        """Do nothing, as `steps_done`."""

    def close(self) -> None:
        with self._lock:
            live, shown = self._open[self._key]
            if len(shown) > 1:
                shown.remove(self._standing)
                live.console.print(_drawing(self._standing))
            else:
                del self._open[self._key]
                live.stop()


class _Drawn(JupyterMixin):
    """What a notebook draws."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def __rich__(self) -> RenderableType:
        return _drawing(self._standing)


class _Notebook:
    """One output of a cell that is drawn anew."""

    def __init__(self, standing: Standing) -> None:
        import IPython.display

        display: Any = IPython.display.display
        self._drawn = _Drawn(standing)
        self._handle = display(self._drawn, display_id=True)
        self._updated = time.monotonic()

    def steps_done(self) -> None:
        if time.monotonic() - self._updated >= _NOTEBOOK_SECONDS:
            self._update()

    def epoch_ended(self, event: EpochEnded) -> None:  # noqa: ARG002
        self.steps_done()

    def close(self) -> None:
        self._update()

    def _update(self) -> None:
        self._updated = time.monotonic()
        if self._handle is not None:
            self._handle.update(self._drawn)
