"""Write what a fit measures to a text table."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.fit_record import FitRecord, goes_further
from streamfit.callbacks.log_path import check_path
from streamfit.errors import InvalidParameterError
from streamfit.events import FitStarted
from streamfit.store.atomic import write_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from streamfit.events import Event

__all__ = ["CSVLogger"]

_COLUMNS = ("epoch", "step", "n_rows", "seconds")


class CSVLogger:
    """Write each entry of the history to a csv file as soon as it is known.

    The rows are those of ``pandas.DataFrame(trainer.history_)``, and each number is written so that it is read back as
    the same float. The file is of one run: a fit that begins anew replaces it, and one that goes on from a checkpoint
    writes it as the checkpoint knows it and then goes on. So after a kill no row is missing and none is there twice.

    Parameters
    ----------
    path : str or path-like
        The file. Folders that are missing are made.
    separator : str, default=","
        What is put between values, one character.

    Raises
    ------
    InvalidParameterError
        The path or the separator is none.

    Examples
    --------
    >>> CSVLogger("metrics.csv", separator="::")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: separator must be one character, no quote and no line break, got '::'.
    """

    def __init__(self, path: str | os.PathLike[str], *, separator: str = ",") -> None:
        given: object = separator
        if not isinstance(given, str) or len(given) != 1 or given in '"\r\n':
            raise InvalidParameterError(
                f"separator must be one character, no quote and no line break, got {separator!r}."
            )
        self.path = check_path("path", path)
        self.separator = separator
        self._record = FitRecord()
        self._entries: list[dict[str, Any]] = []
        self._columns: list[str] = []

    def notify(self, event: Event) -> None:
        """Write what was measured."""
        entry = self._record.take(event)
        if isinstance(event, FitStarted):
            if not goes_further(event):
                self._entries = [dict(earlier) for earlier in event.history]
            self._rewrite()
        elif entry is not None:
            self._entries.append(entry)
            # A file that was taken away meanwhile is written anew as well, since it would lack its header.
            if set(entry) <= set(self._columns) and self.path.exists():
                with self.path.open("a", encoding="utf-8", newline="") as file:
                    file.write(self._lines([self._values(entry)]))
            else:
                self._rewrite()

    def _rewrite(self) -> None:
        self._columns = list(dict.fromkeys([*_COLUMNS, *(name for entry in self._entries for name in entry)]))
        write_atomically(self.path, self._lines([self._columns, *map(self._values, self._entries)]).encode())

    def _values(self, entry: dict[str, Any]) -> list[Any]:
        return [entry.get(name) for name in self._columns]

    def _lines(self, rows: Iterable[Sequence[Any]]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.separator, lineterminator="\n").writerows(rows)
        return text.getvalue()
