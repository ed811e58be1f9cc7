"""Show a fit in TensorBoard."""

from __future__ import annotations

import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.event_files import (
    append_events,
    begin_event,
    event_files,
    new_event_file,
    read_events,
    values_event,
)
from streamfit.callbacks.fit_record import FitRecord, begins_anew
from streamfit.callbacks.log_path import check_path
from streamfit.events import FitStarted, StepsDone
from streamfit.options import check_count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from streamfit.events import Event

__all__ = ["TensorBoard"]

_PARAMETERS = "parameters"


class TensorBoard:
    """Write event files that ``tensorboard --logdir`` shows.

    Scalars are each metric by its name, ``learning_rate`` where the estimator has one, ``rows_per_second`` of the epoch
    so far, and ``epoch_seconds``; all of these without the time of validation. The axis counts steps from the first
    epoch on. The parameters of the fit are a text. Nothing but streamfit is needed to write them; to look at them:
    ``pip install 'streamfit[tensorboard]'``.

    A folder is a run: a fit that begins anew in it hides what was there. One that goes on from a checkpoint hides what
    lay beyond the checkpoint, and adds what the checkpoint knows and the files lack. So after a kill no value is
    missing and none is shown twice.

    Parameters
    ----------
    log_dir : str or path-like
        The folder. It is made where it is missing.
    every_steps : int or None, default=None
        Write ``steps/rows_per_second`` after each so many steps, of these steps (on a cluster at the first end of a
        segment after them); None: not at all.

    Raises
    ------
    InvalidParameterError
        The folder is no path, or the number of steps is none.

    Examples
    --------
    >>> TensorBoard("logs", every_steps=0)
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: every_steps must be an integer of at least 1, got 0.
    """

    def __init__(self, log_dir: str | os.PathLike[str], *, every_steps: int | None = None) -> None:
        self.log_dir = check_path("log_dir", log_dir)
        self.every_steps = None if every_steps is None else check_count("every_steps", every_steps, least=1)
        self._record = FitRecord()
        self._file: Path | None = None
        self._marked_step = self._marked_rows = 0
        self._marked_at = 0.0

    def notify(self, event: Event) -> None:
        """Write what was measured."""
        entry = self._record.take(event)
        if isinstance(event, FitStarted):
            self._begin(event)
        elif self._file is None:
            return
        elif isinstance(event, StepsDone):
            if self.every_steps is not None:
                self._mark_steps(self._file, event, self.every_steps)
        elif entry is not None:
            append_events(self._file, [values_event(self._step_of(entry), time.time(), self._record.scalars(entry))])
            # Validation is no time of the next steps.
            self._marked_at = time.perf_counter()

    def _step_of(self, entry: Mapping[str, Any]) -> int:
        return self._record.total_steps(entry["epoch"], entry["step"])

    def _begin(self, event: FitStarted) -> None:
        done = self._record.total_steps(event.epoch, event.step)
        files = event_files(self.log_dir)
        known: dict[tuple[int, str], float | str] = {(0, _PARAMETERS): _table(event)}
        for entry in event.history:
            known |= {(self._step_of(entry), tag): value for tag, value in self._record.scalars(entry).items()}
        there: set[tuple[int, str]] = set()
        if not begins_anew(event):
            for stored in read_events(files):
                if stored.begins:
                    there = {at for at in there if at[0] < stored.step}
                there |= {(stored.step, tag) for tag in stored.tags if (stored.step, tag) in known}
        missing = {at: value for at, value in known.items() if at not in there}
        # Steps are written in their order, so what follows the first that is missing is written once more.
        first = min((step for step, _ in missing), default=done + 1)
        kept = [] if begins_anew(event) else _kept(files, first, done)
        now = time.time()
        added = [(step, values_event(step, now, {tag: value})) for (step, tag), value in missing.items()]
        in_order = [content for _, content in sorted([*kept, *added], key=itemgetter(0))]
        self._file = new_event_file(self.log_dir)
        append_events(self._file, [begin_event(first, now), *in_order] if files else in_order)
        self._set_mark(done)

    def _mark_steps(self, file: Path, event: StepsDone, every_steps: int) -> None:
        step, rows = self._record.total_steps(event.epoch, event.step), self._record.n_rows_done - self._marked_rows
        if step // every_steps > self._marked_step // every_steps:
            seconds = max(time.perf_counter() - self._marked_at, 1e-9)
            if rows:
                append_events(file, [values_event(step, time.time(), {"steps/rows_per_second": rows / seconds})])
            self._set_mark(step)

    def _set_mark(self, step: int) -> None:
        self._marked_step, self._marked_rows, self._marked_at = step, self._record.n_rows_done, time.perf_counter()


def _kept(files: Iterable[Path], first: int, last: int) -> list[tuple[int, bytes]]:
    """Give what a reader shows of some steps, each event with its step."""
    kept: list[tuple[int, bytes]] = []
    for stored in read_events(files):
        if stored.begins:
            kept = [(step, content) for step, content in kept if step < stored.step]
        elif stored.tags and first <= stored.step <= last:
            kept.append((stored.step, stored.content))
    return kept


def _table(event: FitStarted) -> str:
    """Write the parameters of a fit as a table of Markdown."""
    rows = [f"| {name} | {str(value).replace('|', '&#124;')} |" for name, value in event.parameters.items()]
    return "\n".join(["| parameter | value |", "|---|---|", *rows])
