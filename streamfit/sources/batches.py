"""Batches from an iterable, as a training loop would make them."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

from streamfit.errors import InvalidDataError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.exact import converted
from streamfit.sources.source import RowBlock, Source, drop_rows, outputs_nbytes
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamfit.sources.source import Names

__all__ = ["batches_source"]


def batches_source(batches: Iterable[Any], names: Names) -> Source:
    """Read batches ``X``, ``(X, y)`` or ``(X, y, sample_weight)``; memory holds one batch.

    The first batch decides the columns, the type, and whether the rows are sparse. Batches that are tables must name
    their columns alike.

    Raises
    ------
    InvalidDataError
        There is no batch.
    """
    names.refuse("an iterable of batches")
    iterator = iter(batches)
    try:
        batch = next(iterator)
    except StopIteration:
        raise InvalidDataError("The source has 0 rows: it gave no batch. At least 1 row is needed.") from None
    first, columns = _block(batch), _columns(batch)
    sparse = issparse(first.X)
    dtype = stored_dtype(first.X.dtype, what="X")

    def read() -> Iterator[RowBlock]:
        yield first
        n_rows = first.n_rows
        for batch in iterator:
            block = _block(batch)
            if (present := _columns(batch)) != columns:
                raise InvalidDataError(
                    f"The columns of a batch are {_told(present)} from row {n_rows} on, and those of the first are "
                    f"{_told(columns)}. Give each batch the same columns in the same order.",
                    row=n_rows,
                )
            yield _exact(block, dtype, start=n_rows)
            n_rows += block.n_rows

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=first.X.shape[1],
        dtype=dtype,
        description={"kind": "batches", "n_features": first.X.shape[1], "dtype": first.X.dtype.str},
        recognisable=False,
        feature_names=columns,
        block_nbytes=2 * (first.X.data.nbytes + first.X.indices.nbytes if sparse else first.X.nbytes),
        outputs_nbytes=outputs_nbytes(first.y),
        sparse=sparse,
        mean_row_nnz=first.X.nnz / max(1, first.n_rows) if sparse else None,
    )


def _block(batch: Any) -> RowBlock:
    if isinstance(batch, dict):
        raise InvalidDataError(
            f"A batch is a dict of {', '.join(map(repr, batch))}. Give X, (X, y) or (X, y, sample_weight)."
        )
    if not isinstance(batch, tuple):
        batch = (batch,)
    if not 1 <= len(batch) <= 3:
        raise InvalidDataError(f"A batch has {len(batch)} parts. Give X, (X, y) or (X, y, sample_weight).")
    X, *sides = map(_plain, batch)
    check_matrix(X.shape, what="A batch")
    return RowBlock(X, *sides)


def _plain(values: Any) -> Any:
    """Give what a batch holds as an array: with its mask, which the writer refuses by the row."""
    if values is None:
        return None
    if issparse(values):
        return csr_array(values)
    if "torch" in sys.modules and isinstance(values, sys.modules["torch"].Tensor):
        from streamfit.sources.torch_data import as_numpy  # torch only where it is used

        return as_numpy(values)
    return np.asanyarray(values)


def _columns(batch: Any) -> tuple[str, ...] | None:
    labels = getattr(batch[0] if isinstance(batch, tuple) else batch, "columns", None)
    names = None if labels is None else tuple(labels)
    return names if names and all(isinstance(name, str) for name in names) else None


def _told(columns: tuple[str, ...] | None) -> str:
    return "without names" if columns is None else ", ".join(columns)


def _exact(block: RowBlock, dtype: np.dtype[Any], *, start: int) -> RowBlock:
    """Refuse whole numbers that the floats of the first batch do not hold; all else the writer looks at."""
    if issparse(block.X) or not (block.X.dtype.kind in "iu" and dtype.kind == "f"):
        return block
    X: Any = block.X
    if np.can_cast(X.dtype, dtype, "safe"):
        X = converted(X, dtype, start=start, name=str)
    return dataclasses.replace(block, X=X)
