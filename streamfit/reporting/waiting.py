"""A line on the terminal while one long call runs, with the rows done where something tells them."""

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

__all__ = ["RowsDone", "waiting"]

logger = logging.getLogger(__name__)

RowsDone = tuple[int, int | None]
"""Rows done, and rows in all where they are known."""

_DRAW_SECONDS = 0.5
_LOG_SECONDS = 30.0


@contextmanager
def waiting(
    what: str, *, rows_done: Callable[[], RowsDone | None] | None = None, console: Console | None = None
) -> Iterator[None]:
    """Show that a call runs, for the length of a ``with`` block.

    On a terminal it is a line that is drawn again and again and is gone at the end; elsewhere it is a line
    of the log (level INFO) every half a minute.

    Parameters
    ----------
    what : str
        What runs, such as ``"ingest"``.
    rows_done : callable, optional
        Tells how far the call is, or None where that is not known yet. It is called by another thread.
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
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=None, rows="")

        def watch() -> None:
            began = time.monotonic()
            first: int | None = None
            while not stop.wait(interval):
                done = None if rows_done is None else rows_done()
                if done is None:
                    if not console.is_terminal:
                        logger.info("%s: still running after %.0f s.", what, time.monotonic() - began)
                    continue
                n_rows, total = done
                first = n_rows if first is None else first
                # What a stopped run had written before does not count towards the speed of this one.
                speed = (n_rows - first) / (time.monotonic() - began)
                text = f"{n_rows:,} rows, {speed:,.0f} rows/s"
                bar.update(task, completed=n_rows, total=total, rows=text)
                if not console.is_terminal:
                    logger.info("%s: %s.", what, text)

        thread = threading.Thread(target=watch, name="streamfit-waiting", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
