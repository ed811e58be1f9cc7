"""Text files of sparse rows in the format of svmlight and libsvm: ``label column:value column:value ...``."""

from __future__ import annotations

import bz2
import gzip
import io
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from streamfit.errors import InvalidDataError
from streamfit.maths.csr_rows import canonical_rows
from streamfit.sources.damaged import reading
from streamfit.sources.fingerprint import describe_files
from streamfit.sources.source import RowBlock, Source, drop_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.sources.source import Names

__all__ = ["svmlight_source"]

_TEXT_NBYTES = 4 * 2**20
"""Read at a time; parsed, it takes up to four times as much."""


@dataclass(slots=True)
class _Seen:
    """What a first pass tells of all files."""

    n_rows: int = 0
    nnz: int = 0
    first_column: int | None = None
    last_column: int = -1


def svmlight_source(files: Sequence[Path], names: Names) -> Source:
    """Read files of sparse rows, one after the other; the labels are in them.

    A first pass finds the number of columns, and whether they are counted from 0 or from 1: from 0 where a column 0
    occurs. Values are float64.

    Raises
    ------
    InvalidDataError
        A line cannot be read, or there are no columns.
    """
    names.refuse("a svmlight file")
    seen = _Seen()
    for file in files:
        for X, _ in _pieces(file):
            seen.n_rows += X.shape[0]
            seen.nnz += X.nnz
            if X.nnz:
                least = int(X.indices.min())
                seen.first_column = least if seen.first_column is None else min(seen.first_column, least)
                seen.last_column = max(seen.last_column, int(X.indices.max()))
    offset = 0 if seen.first_column is None else min(seen.first_column, 1)
    n_features = max(0, seen.last_column + 1 - offset)

    def read() -> Iterator[RowBlock]:
        for file in files:
            for X, y in _pieces(file):
                shifted = (X.data, X.indices - offset, X.indptr)
                rows = csr_array(shifted, shape=(X.shape[0], n_features))
                yield RowBlock(canonical_rows(rows, np.dtype(np.float64)), y=y)

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=n_features,
        dtype=np.dtype(np.float64),
        description={"kind": "svmlight", "files": describe_files(files)},
        recognisable=True,
        n_rows=seen.n_rows,
        block_nbytes=5 * _TEXT_NBYTES,
        paths=tuple(files),
        sparse=True,
        mean_row_nnz=seen.nnz / seen.n_rows if seen.n_rows else 0.0,
    )


def _open(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(file))
    return cast("IO[bytes]", bz2.open(file)) if file.suffix == ".bz2" else file.open("rb")


def _pieces(file: Path) -> Iterator[tuple[Any, NDArray[np.float64]]]:
    """Give rows with columns as they are numbered in the file, and their labels, some at a time."""
    line = 1
    with reading(file), _open(file) as stream:
        while lines := stream.readlines(_TEXT_NBYTES):
            yield _parsed(lines, file, line)
            line += len(lines)


def _parsed(lines: list[bytes], file: Path, first_line: int) -> tuple[Any, NDArray[np.float64]]:
    try:
        X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
    except (ValueError, OverflowError) as error:
        raise _bad_line(lines, file, first_line, error) from error
    return X, y


def _bad_line(lines: list[bytes], file: Path, first_line: int, error: Exception) -> InvalidDataError:
    for number, text in enumerate(lines, first_line):
        try:
            load_svmlight_file(io.BytesIO(text), zero_based=True)
        except (ValueError, OverflowError) as found:
            shown = text[:80].decode(errors="replace").strip()
            return InvalidDataError(
                f"Line {number} of {file.name} is no row of 'label column:value ...' with ascending columns ({found}): "
                f"{shown!r}. Correct it."
            )
    return InvalidDataError(f"{file.name} cannot be read as svmlight text ({error}). Check the file.")
