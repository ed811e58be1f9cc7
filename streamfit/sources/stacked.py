"""Files of one kind, one below the other, as one source."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError
from streamfit.sources.exact import converted
from streamfit.sources.tables import common_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamfit.sources.source import RowBlock, Source

__all__ = ["stacked_source"]


def stacked_source(sources: Sequence[Source]) -> Source:
    """Read matrices of equal width one after the other.

    The type is decided before the first row is read: the one that holds the values of all of them. A whole number
    that it does not hold, being float64, is refused by row and column.

    Parameters
    ----------
    sources : sequence of Source
        One or more, each of known length and of files of its own; their order is that of the rows.

    Raises
    ------
    InvalidDataError
        They have not the same columns.
    """
    first = sources[0]
    if len(sources) == 1:
        return first
    for source in sources[1:]:
        if source.n_features != first.n_features:
            raise InvalidDataError(
                f"{_name(source)} has {source.n_features} columns and {_name(first)} has {first.n_features}. Files "
                "that are read as one matrix have equally many."
            )
    if len({source.sparse for source in sources}) > 1:
        raise InvalidDataError("Some of the files are sparse and some are dense. Ingest one kind, append the other.")
    lengths = [source.n_rows or 0 for source in sources]
    n_rows = sum(lengths)
    dtype = common_dtype([source.dtype for source in sources])

    def blocks(start: int) -> Iterator[RowBlock]:
        before = 0
        for source, length in zip(sources, lengths, strict=True):
            row = max(start, before)
            if row < before + length:
                for block in source.blocks(row - before):
                    yield block if source.sparse else dataclasses.replace(block, X=_exact(block.X, row))
                    row += block.n_rows
            before += length

    def _exact(X: Any, row: int) -> Any:
        return X if X.dtype == dtype else converted(X, dtype, start=row, name=str)

    nnz = [length * (source.mean_row_nnz or 0.0) for source, length in zip(sources, lengths, strict=True)]
    return dataclasses.replace(
        first,
        blocks=blocks,
        dtype=dtype,
        description={
            **first.description,
            "files": [file for source in sources for file in source.description["files"]],
        },
        n_rows=n_rows,
        block_nbytes=max(source.block_nbytes for source in sources),
        paths=tuple(path for source in sources for path in source.paths),
        mean_row_nnz=sum(nnz) / max(1, n_rows) if first.sparse else None,
    )


def _name(source: Source) -> str:
    return str(source.description["files"][0]["name"])
