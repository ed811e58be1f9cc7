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

__all__ = ["Done", "waiting"]

logger = logging.getLogger(__name__)

Done = tuple[int, int | None]
"""How much is done, and how much there is in all where that is known."""

_DRAW_SECONDS = 0.5
_LOG_SECONDS = 30.0


@contextmanager
def waiting(
    what: str, *, done: Callable[[], Done | None] | None = None, unit: str = "rows", console: Console | None = None
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
            first: int | None = None
            while not stop.wait(interval):
                so_far = None if done is None else done()
                if so_far is None:
                    if not console.is_terminal:
                        logger.info("%s: still running after %.0f s.", what, time.monotonic() - began)
                    continue
                n_done, total = so_far
                first = n_done if first is None else first
                # What a stopped run had written before does not count towards the speed of this one.
                speed = (n_done - first) / (time.monotonic() - began)
                text = f"{n_done:,} {unit}, {speed:,.0f} {unit}/s"
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
