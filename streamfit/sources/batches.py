"""Batches from an iterable, as a training loop would make them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.source import RowBlock, Source, drop_rows
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamfit.sources.source import Names

__all__ = ["batches_source"]


def batches_source(batches: Iterable[Any], names: Names) -> Source:
    """Read batches ``X``, ``(X, y)`` or ``(X, y, sample_weight)``; memory holds one batch.

    The first batch decides the columns and the type.

    Raises
    ------
    InvalidDataError
        There is no batch.
    """
    names.refuse("an iterable of batches")
    iterator = iter(batches)
    try:
        first = _block(next(iterator))
    except StopIteration:
        raise InvalidDataError("The source has 0 rows: it gave no batch. At least 1 row is needed.") from None

    def blocks(start: int) -> Iterator[RowBlock]:
        return drop_rows(itertools.chain([first], map(_block, iterator)), start)

    return Source(
        blocks=blocks,
        n_features=first.X.shape[1],
        dtype=stored_dtype(first.X.dtype, what="X"),
        description={"kind": "batches", "n_features": first.X.shape[1], "dtype": first.X.dtype.str},
        recognisable=False,
        block_nbytes=2 * first.X.nbytes,
    )


def _block(batch: Any) -> RowBlock:
    if not isinstance(batch, tuple):
        batch = (batch,)
    if not 1 <= len(batch) <= 3:
        raise InvalidDataError(f"A batch has {len(batch)} parts. Give X, (X, y) or (X, y, sample_weight).")
    X = np.asanyarray(batch[0])  # with its mask, which the writer refuses by the row
    check_matrix(X.shape, what="A batch")
    return RowBlock(X, *batch[1:])
