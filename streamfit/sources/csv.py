"""Text tables."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streamfit.errors import InvalidDataError, NumbersAsNamesWarning
from streamfit.sources.column_kinds import ColumnKind, arrow_kind
from streamfit.sources.csv_file import CsvFile, NotAsGuessed
from streamfit.sources.csv_numbers import has_large, parse_numbers
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.located import FileRows
from streamfit.sources.source import RowBlock, Source, drop_rows
from streamfit.sources.table_rows import plan_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from streamfit.sources.source import Names
    from streamfit.sources.table_rows import TableRows

__all__ = ["csv_source"]

_FLOAT64 = np.dtype(np.float64)


def csv_source(files: Sequence[Path], names: Names) -> Source:
    """Read text tables with a header, one after the other, compressed or not.

    Features become float64 unless a type is asked for: whether a column holds whole numbers is only known at its last
    row. Where a value is no number, or so large that a whole number may not be the float that it was parsed to, the
    rest of the file is read as texts, each of which is looked at.
    """
    parts = [CsvFile(file, "\t" if ".tsv" in file.suffixes else ",") for file in files]
    first = parts[0]
    if first.has_numbers_as_names:
        warnings.warn(
            f"The first line of {first.path.name} holds numbers ({', '.join(first.names[:3])}, …) and is taken for the "
            "names of the columns. If it is a row, put a line of names before it.",
            NumbersAsNamesWarning,
            stacklevel=2,
        )
    for part in parts[1:]:
        _check_columns(part, first, names)
    guesses = first.guess()

    def kind(name: str) -> ColumnKind:
        if pa.types.is_temporal(guesses[name]):
            return arrow_kind(guesses[name])
        # A column of texts that nobody encodes is refused by its first text, with its row.
        return ColumnKind(str(guesses[name]), _FLOAT64, is_category=not _is_number(guesses[name]))

    def pieces(labels: list[Any]) -> Iterator[Mapping[Any, Any]]:
        for part in parts:
            yield from part.read(dict.fromkeys(labels, pa.string()), labels)

    rows = plan_rows(first.names, kind, names, pieces, from_text=True)
    file_rows = FileRows(files)

    def read() -> Iterator[RowBlock]:
        make, start = rows.maker(), 0
        for number, part in enumerate(parts):
            file_rows.begin(number, start)
            for columns in _columns(part, rows, start):
                n_rows = len(next(iter(columns.values())))
                yield make(columns.__getitem__, n_rows, start)
                start += n_rows

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=rows.n_features,
        dtype=rows.dtype,
        description={"kind": "csv", "files": describe_files(files), "columns": rows.columns.describe()},
        recognisable=True,
        # Rows of all files are only counted by reading them; that there are none is seen at once.
        n_rows=None if any(part.has_rows for part in parts) else 0,
        feature_names=rows.feature_names,
        block_nbytes=first.work_nbytes + 3 * rows.step * rows.n_features * rows.dtype.itemsize,
        paths=tuple(files),
        categories=rows.categories,
        locate=file_rows.locate,
    )


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind))


def _check_columns(part: CsvFile, first: CsvFile, names: Names) -> None:
    """Refuse a file that has not the columns of the first one, in any order."""
    wanted = first.names if names.columns is None else [*names.columns, *names.roles.values()]
    for name in wanted:
        if name in first.names and name not in part.names:
            raise InvalidDataError(
                f"{part.path.name} has no column {name!r}, which {first.path.name} has. Name the columns that all "
                "files have with columns=.",
                column=name,
            )
    for name in part.names:
        if name not in first.names and names.columns is None:
            raise InvalidDataError(
                f"{part.path.name} has a column {name!r}, which {first.path.name} has not. Name the columns that all "
                "files have with columns=.",
                column=name,
            )


def _columns(part: CsvFile, rows: TableRows, start: int) -> Iterator[Mapping[Any, Any]]:
    """Read the columns of a file, at most as many rows at a time as are made at once."""
    for columns in _parsed(part, rows, start):
        n_rows = len(next(iter(columns.values())))
        for row in range(0, n_rows, rows.step):
            yield {name: column.slice(row, rows.step) for name, column in columns.items()}


def _parsed(part: CsvFile, rows: TableRows, start: int) -> Iterator[Mapping[Any, Any]]:
    guesses = part.guess()
    features = [name for name in rows.columns.features if name not in rows.encodings]
    floats = rows.dtype.kind == "f"
    parsed = pa.float64() if floats else pa.uint64() if rows.dtype == np.uint64 else pa.int64()
    types = {name: guesses[name] if _is_number(guesses[name]) else pa.string() for name in rows.columns.all}
    types |= {name: pa.string() for name, kind in types.items() if pa.types.is_null(kind)}
    types |= dict.fromkeys(rows.encodings, pa.string())
    types |= {name: pa.bool_() if pa.types.is_boolean(guesses[name]) else parsed for name in features}
    n_read = 0
    try:
        for columns in part.read(types, rows.columns.all):
            if floats and any(has_large(columns[name], rows.dtype) for name in features if types[name] == pa.float64()):
                break
            yield columns
            n_read += len(next(iter(columns.values())))
        else:
            return
    except NotAsGuessed:
        pass
    texts = dict.fromkeys(rows.columns.all, pa.string())
    for columns in part.read(texts, rows.columns.all, skip=n_read):
        found = dict(columns)
        for name in rows.columns.all:
            if name in rows.encodings:
                continue
            if name in features:
                found[name] = parse_numbers(
                    columns[name],
                    rows.dtype,
                    booleans=types[name] == pa.bool_(),
                    start=start + n_read,
                    name=name,
                    file=part.path.name,
                )
            elif types[name] != pa.string():
                found[name] = _as_guessed(columns[name], types[name])
        yield found
        n_read += len(next(iter(columns.values())))


def _as_guessed(column: Any, kind: Any) -> Any:
    """Give labels, weights and ids as what they are where all are, else as texts, which say why they are refused."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return column
