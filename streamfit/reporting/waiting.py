"""A line on the terminal while one long call runs, with the rows or chunks done where something tells them."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Counter", "Done", "waiting"]

logger = logging.getLogger(__name__)

Done = tuple[int, int | None]
"""How much is done, and how much there is in all where that is known."""

_DRAW_SECONDS = 0.5
_LOG_SECONDS = 30.0


class Counter:
    """Keeps what a call tells by ``on_progress=`` until it is asked for."""

    def __init__(self) -> None:
        self.last: Done | None = None

    def __call__(self, n_done: int, n_all: int | None) -> None:
        """Take how much is done, and how much there is in all."""
        self.last = (n_done, n_all)


@contextmanager
def waiting(
    what: str,
    *,
    done: Callable[[], Done | None] | None = None,
    unit: str = "rows",
    unit_nbytes: Callable[[], float | None] | None = None,
    console: Console | None = None,
) -> Iterator[None]:
    """Show that a call runs, for the length of a ``with`` block.

    On a terminal it is a line that is drawn again and again and is gone at the end; elsewhere it is a line
    of the log (level INFO) every half a minute.

    Parameters
    ----------
    what : str
        What runs, such as ``"ingest"``.
    done : callable, optional
        Tells how far the call is, or None where that is not known yet. It is called by another thread.
    unit : str
        What it counts.
    unit_nbytes : callable, optional
        Tells the bytes of one of these, once something is done, or None.
    console : rich.console.Console, optional
        Where to draw; by default the standard error output.
    """
    console = console or Console(stderr=True)
    interval = _DRAW_SECONDS if console.is_terminal else _LOG_SECONDS
    stop = threading.Event()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=None, count="")

        def watch() -> None:
            began = time.monotonic()
            first: tuple[int, float] | None = None
            nbytes: float | None = None
            while not stop.wait(interval):
                so_far = None if done is None else done()
                if so_far is None:
                    if not console.is_terminal:
                        logger.info("%s: still running after %.0f s.", what, time.monotonic() - began)
                    continue
                n_done, total = so_far
                # Neither what a stopped run had written before nor the time before the first of them is speed.
                first = (n_done, time.monotonic()) if first is None else first
                nbytes = unit_nbytes() if nbytes is None and unit_nbytes is not None else nbytes
                text = _so_far(
                    so_far, unit, n_new=n_done - first[0], seconds=time.monotonic() - first[1], nbytes=nbytes
                )
                bar.update(task, completed=n_done, total=total, count=text)
                if not console.is_terminal:
                    logger.info("%s: %s.", what, text)

        thread = threading.Thread(target=watch, name="streamfit-waiting", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _so_far(done: Done, unit: str, *, n_new: int, seconds: float, nbytes: float | None) -> str:
    n_done, total = done
    share = f" ({n_done / total:.0%})" if total else ""
    parts = [f"{n_done:,} {unit}{share}"]
    if n_new > 0:
        speed = n_new / seconds
        parts.append(f"{speed:,.0f} {unit}/s")
        if nbytes is not None:
            parts.append(f"{speed * nbytes / 1e6:,.0f} MB/s")
        if total is not None:
            parts.append(f"{_duration((total - n_done) / speed)} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    """Say how long, to the nearest second, minute or tenth of an hour.

    Examples
    --------
    >>> [_duration(seconds) for seconds in (0.2, 59.6, 150, 5_400)]
    ['0 s', '60 s', '2 min', '1.5 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
