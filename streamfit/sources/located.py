"""In which of several files a row lies."""

from __future__ import annotations

import bisect
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streamfit.sources.source import Source

__all__ = ["FileRows", "naming_files"]


class FileRows:
    """Where the rows of each file begin, as far as that is known.

    Parameters
    ----------
    files : sequence of Path
        The files in the order of their rows.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._starts: list[int] = []

    def begin(self, number: int, row: int) -> None:
        """Note the first row of a file; files are begun in order, perhaps several times."""
        self._starts[number:] = [row]

    def locate(self, row: int) -> str | None:
        """Tell in which file a row lies, and which row it is there; nothing where there is but one file.

        Examples
        --------
        >>> from pathlib import Path
        >>> rows = FileRows([Path("a.csv"), Path("b.csv")])
        >>> rows.begin(0, 0), rows.begin(1, 10), rows.locate(12)
        (None, None, 'row 2 of b.csv')
        """
        if len(self._files) < 2 or not self._starts:
            return None
        # Of files without rows, the last one that begins here has the row.
        number = bisect.bisect_right(self._starts, row) - 1
        return f"row {row - self._starts[number]} of {self._files[number].name}"


@contextmanager
def naming_files(rows: Source) -> Iterator[None]:
    """Add the file, and the row inside it, to an error that names a row of several files."""
    try:
        yield
    except InvalidDataError as error:
        place = None if error.row is None or rows.locate is None else rows.locate(error.row)
        if place is None:
            raise
        raise InvalidDataError(f"{error} It is {place}.", row=error.row, column=error.column) from error
