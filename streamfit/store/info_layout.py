"""Names, values and tables as a text with aligned columns, and as HTML for notebooks, light or dark."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Table", "as_html", "as_text"]

# Colours are those of the page: a fixed one is unreadable on light or on dark.
_BOX = "font-size:90%;line-height:1.4;color:inherit"
_TABLE = "border-collapse:collapse;margin:.4em 0;color:inherit;background:transparent"
_LEFT = "text-align:left;padding:.1em 1.2em .1em 0;vertical-align:top;background:transparent"
_RIGHT = "text-align:right;padding:.1em 1.2em .1em 0;vertical-align:top;background:transparent"
_FAINT = ";font-weight:normal;opacity:.65"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts below a heading."""

    heading: Sequence[str]
    """One text a column."""
    rows: Sequence[Sequence[str]]
    """One text a column each."""
    n_left: int
    """How many columns are aligned to the left; those behind are numbers."""
    note: str = ""
    """A line below."""


def as_text(title: str, facts: Mapping[str, str], tables: Sequence[Table]) -> str:
    """Give a text, a fact a line.

    Examples
    --------
    >>> print(as_text("a.zarr", {"rows": "3"}, [Table(("array", "bytes"), [("X", "24"), ("y", "3")], n_left=1)]))
    a.zarr
    rows  3
    <BLANKLINE>
    array  bytes
    X         24
    y          3
    """
    width = max(map(len, facts), default=0)
    lines = [_printable(title), *(f"{name:<{width}}  {_printable(value)}" for name, value in facts.items())]
    for table in tables:
        lines += ["", *_aligned(table)]
        if table.note:
            lines.append(table.note)
    return "\n".join(lines)


def _aligned(table: Table) -> Iterator[str]:
    rows = [[_printable(text) for text in row] for row in (table.heading, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.ljust(width) if place < table.n_left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def as_html(title: str, facts: Mapping[str, str], tables: Sequence[Table]) -> str:
    """Give HTML without scripts, style sheets or links; every text is escaped.

    Examples
    --------
    >>> "&lt;b&gt;" in as_html("<b>", {}, []) and "<b>" not in as_html("<b>", {}, [])
    True
    """
    lines = "".join(f"<tr>{_cell('th', _LEFT + _FAINT, name)}{_cell('td', _LEFT, facts[name])}</tr>" for name in facts)
    parts = [f"<strong>{_escaped(title)}</strong>", f'<table style="{_TABLE}">{lines}</table>']
    for table in tables:
        aligned = [_LEFT if place < table.n_left else _RIGHT for place in range(len(table.heading))]
        rows = [
            "".join(_cell("th", style + _FAINT, text) for style, text in zip(aligned, table.heading, strict=True)),
            *(
                "".join(_cell("td", style, text) for style, text in zip(aligned, row, strict=True))
                for row in table.rows
            ),
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        parts.append(f'<table style="{_TABLE}">{body}</table>{_escaped(table.note)}')
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _cell(tag: str, style: str, text: str) -> str:
    return f'<{tag} style="{style}">{_escaped(text)}</{tag}>'


def _escaped(text: str) -> str:
    return html.escape(_printable(text), quote=True)


def _printable(text: str) -> str:
    # Names come from files of other people: none may end a line or command a terminal.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
