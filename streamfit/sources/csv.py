"""Text tables."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from streamfit.errors import InvalidDataError
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.frames import column_dtype, frame_block
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows
from streamfit.sources.tables import select_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streamfit.sources.source import Names

__all__ = ["csv_source"]


def csv_source(files: Sequence[Path], names: Names) -> Source:
    """Read text tables with a header, one after the other, compressed or not.

    Features become float64: whether a column holds whole numbers is only known at its last row. A file is
    parsed some thousand rows at a time.
    """
    separator = "\t" if ".tsv" in files[0].suffixes else ","
    present = _header(files[0], separator)
    columns = select_columns(present, names)
    step = block_rows(8 * len(present))
    dtype = np.dtype(np.float64)

    def read() -> Iterator[RowBlock]:
        start = 0
        for file in files:
            here = _header(file, separator)
            lacking = [name for name in columns.all if name not in here]
            if lacking:
                raise InvalidDataError(f"{file.name} has no column {lacking[0]!r}, which {files[0].name} has.")
            for frame in _frames(file, separator, step):
                for name in columns.features:
                    _check_numbers(frame[name], file, start)
                yield frame_block(frame, columns, dtype, start=start)
                start += len(frame)

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=len(columns.features),
        dtype=dtype,
        description={"kind": "csv", "files": describe_files(files), "columns": columns.describe()},
        recognisable=True,
        feature_names=columns.feature_names,
        # Text, parsed columns, and the matrix exist at once.
        block_nbytes=4 * step * 8 * len(present),
        paths=tuple(files),
    )


def _header(file: Path, separator: str) -> list[Any]:
    with reading(file):
        return list(pd.read_csv(file, sep=separator, nrows=0).columns)


def _frames(file: Path, separator: str, step: int) -> Iterator[pd.DataFrame]:
    # All columns are parsed: with usecols, pandas drops what a line has too much without a word.
    with (
        reading(file),
        pd.read_csv(file, sep=separator, index_col=False, chunksize=step, low_memory=False) as frames,
    ):
        while True:
            with warnings.catch_warnings():
                # pandas only warns where the first line is the long one.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = next(frames, None)
            if frame is None:
                return
            yield frame


def _check_numbers(column: pd.Series[Any], file: Path, start: int) -> None:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = (numbers.isna() & column.notna()).to_numpy()
    if not wrong.any():
        column_dtype(column.name, column.dtype, has_gaps=False)
        return
    place = int(wrong.argmax())
    raise InvalidDataError(
        f"Column {str(column.name)!r} of {file.name} holds {column.iloc[place]!r} in row {start + place}, and "
        "features are numbers. Encode the column, or leave it out with columns=.",
        row=start + place,
        column=str(column.name),
    )
