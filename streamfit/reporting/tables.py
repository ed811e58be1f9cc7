"""Results as tables for people; programs read JSON instead."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["print_facts", "print_records", "print_table"]

_FILE_WIDTH = 200
"""Columns of a table in a file or pipe: lines that are cut there cannot be read elsewhere."""


def _console() -> Console:
    # Made for each use: the standard streams may have been replaced since.
    return Console(highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)


def print_facts(facts: Mapping[str, str], *, title: str | None = None) -> None:
    """Print names and values, one a line.

    Parameters
    ----------
    facts : mapping of str to str
        In the order of the lines.
    title : str, optional
        A line above.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        # Text, not str: brackets in a path are not markup.
        grid.add_row(name, Text(value))
    console = _console()
    if title is not None:
        console.print(Text(title, style="bold"))
    console.print(grid)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
    """Print rows below a heading.

    Parameters
    ----------
    columns : sequence of str
        Heading.
    rows : iterable of sequence of str
        One value a column.
    numbers : sequence of str
        Those columns whose values are aligned to the right.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    _console().print(table)


def print_records(records: Sequence[Mapping[str, Any]]) -> None:
    """Print numbers by name, a record a row; columns without any value are left out.

    Parameters
    ----------
    records : sequence of mapping
        All with the names of the first; None is shown as nothing.
    """
    names = [name for name in (records[0] if records else ()) if any(record[name] is not None for record in records)]
    if names:
        print_table(names, ([_text(record[name]) for name in names] for record in records), numbers=names)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
