"""One text table: its header, a guess at its columns, and its columns block by block."""

from __future__ import annotations

import csv
import io
import lzma
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from streamfit.errors import InvalidDataError, StreamfitError
from streamfit.sources.damaged import reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["CsvFile", "NotAsGuessed"]

_MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What pandas takes for a missing value."""

_BLOCK_NBYTES = 2**20
"""Text that is parsed at a time."""
_AFTER_LAST = "\0"
"""Name of what is behind a last separator."""
_N_BLOCKS = 16
"""Blocks that pyarrow holds at most: those read ahead, as text and as columns."""


class NotAsGuessed(StreamfitError):  # noqa: N818  # nobody sees it: the file is read in another way
    """A value is not what was guessed of its column."""


class CsvFile:
    """One text table with a header.

    Parameters
    ----------
    path : Path
        The file; ``.gz``, ``.bz2``, ``.zst`` and ``.xz`` are decompressed.
    separator : str
        What is between two fields.

    Raises
    ------
    InvalidDataError
        It is empty, cannot be read, or two columns have one name.
    """

    def __init__(self, path: Path, separator: str) -> None:
        self.path = path
        self._separator = separator
        with reading(path), self._text() as text:
            records = (record for record in csv.reader(text, delimiter=separator) if record)
            self._header = next(records, [])
            first = next(records, [])
        if not self._header:
            raise InvalidDataError(f"{path.name} cannot be read: it is empty. A table begins with a line of names.")
        self.has_rows = bool(first)
        if len(self._header) == len(first) == 1:
            self._refuse_other_separators(self._header[0], first[0])
        # Some programs write a separator behind each value, the last one too, but for the header.
        self._ends_with_separator = len(first) == len(self._header) + 1 and not first[-1]
        # As pandas names them.
        self.names = [name or f"Unnamed: {place}" for place, name in enumerate(self._header)]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            row = " If the first line is a row, put a line of names before it." if self.has_numbers_as_names else ""
            raise InvalidDataError(f"{path.name} has more than one column {twice!r}. Rename one.{row}", column=twice)
        self._raw = dict(zip(self.names, self._header, strict=True))
        # A row has to fit a block.
        self._block_nbytes = max(_BLOCK_NBYTES, 32 * sum(len(name) + 1 for name in self._header))

    @property
    def has_numbers_as_names(self) -> bool:
        """Whether the header may be a row: all names are numbers, and do not just count the columns."""
        try:
            numbers = [float(name) for name in self._header]
        except ValueError:
            return False
        return numbers not in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))

    @property
    def work_nbytes(self) -> int:
        """Bytes that reading takes."""
        return _N_BLOCKS * self._block_nbytes

    def guess(self) -> dict[str, Any]:
        """Guess from the first block what the columns hold: Arrow types by name, null where there is nothing."""
        if not self.has_rows:
            return dict.fromkeys(self.names, pa.null())
        with self._explaining(), self._stream() as stream, self._open(stream, {}, None, skip=0) as batches:
            schema = batches.schema
        return {name: schema.field(place).type for place, name in enumerate(self.names)}

    def read(self, types: Mapping[str, Any], columns: Sequence[str], *, skip: int = 0) -> Iterator[dict[str, Any]]:
        """Read columns, some rows at a time.

        Parameters
        ----------
        types : mapping of str to pyarrow.DataType
            What the columns are read as.
        columns : sequence of str
            The columns.
        skip : int
            Rows to pass over.

        Raises
        ------
        NotAsGuessed
            A value is not of the type of its column.
        InvalidDataError
            A line has too many or too few fields, or the file cannot be read.
        """
        if not self.has_rows:
            return
        with self._explaining(), self._stream() as stream, self._open(stream, types, columns, skip=skip) as batches:
            for batch in batches:
                if self._ends_with_separator and batch.column(len(columns)).null_count < batch.num_rows:
                    self._refuse_ragged()
                yield {name: batch.column(place) for place, name in enumerate(columns)}

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say what is wrong with the file where pyarrow cannot read it."""
        with reading(self.path):
            try:
                yield
            except pa.ArrowInvalid as error:
                text = str(error)
                if "conversion error" in text:
                    raise NotAsGuessed(text) from error
                if "straddl" in text:
                    raise InvalidDataError(
                        f"{self.path.name} has a row of more than {self._block_nbytes:,} bytes. Close the quote that "
                        "is open in it, or write the table to Parquet."
                    ) from error
                if "CSV parse error" in text:
                    self._refuse_ragged()
                raise

    def _refuse_other_separators(self, header: str, first: str) -> None:
        for mark in (mark for mark in ";\t|" if 0 < header.count(mark) == first.count(mark)):
            raise InvalidDataError(
                f"{self.path.name} has {mark!r} between its fields, not {self._separator!r}: {header[:60]!r}. Write it "
                "with commas, or with tabs as a .tsv file."
            )

    def _refuse_ragged(self) -> None:
        """Name the first record that has not as many fields as the header; pyarrow numbers them in one thread only."""
        n_columns, n_records = len(self._header), 0
        with reading(self.path), self._text() as text:
            for record in csv.reader(text, delimiter=self._separator):
                n_records += bool(record)
                fields = record[:-1] if self._ends_with_separator and record[-1:] == [""] else record
                if record and n_records > 1 and len(fields) != n_columns:
                    start = self._separator.join(record)
                    raise InvalidDataError(
                        f"{self.path.name} cannot be read: record {n_records} (the header is 1) has {len(fields)} "
                        f"fields, and there are {n_columns} columns: {start[:60]!r}. Mend that line."
                    )

    def _open(self, stream: Any, types: Mapping[str, Any], columns: Sequence[str] | None, *, skip: int) -> Any:
        kinds = {self._raw[name]: kind for name, kind in types.items()}
        wanted = None if columns is None else [self._raw[name] for name in columns]
        if self._ends_with_separator:
            # A column more than the header has; that it is empty everywhere is checked.
            kinds[_AFTER_LAST] = pa.string()
            wanted = None if wanted is None else [*wanted, _AFTER_LAST]
        return pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                block_size=self._block_nbytes,
                skip_rows_after_names=skip,
                skip_rows=int(self._ends_with_separator),
                column_names=[*self._header, _AFTER_LAST] if self._ends_with_separator else None,
            ),
            parse_options=pa_csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=kinds,
                include_columns=wanted,
                null_values=list(_MISSING),
                strings_can_be_null=True,
            ),
        )

    def _text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(self._stream(), "utf-8-sig", newline="")

    def _stream(self) -> Any:
        if self.path.suffix == ".xz":
            return pa.PythonFile(lzma.open(self.path), mode="r")
        return pa.input_stream(str(self.path), compression="detect")
