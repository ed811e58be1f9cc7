"""Matrices in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError
from streamfit.sources.fingerprint import array_hash
from streamfit.sources.source import RowBlock, Source, block_rows
from streamfit.store.format import stored_dtype
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.sources.source import Names

__all__ = ["array_source", "check_matrix"]


def check_matrix(shape: tuple[Any, ...], *, what: str) -> None:
    """Refuse what has not two dimensions.

    Raises
    ------
    InvalidDataError
        The shape is not ``(n_rows, n_features)``.
    """
    if len(shape) != 2:
        raise InvalidDataError(
            f"{what} has {len(shape)} dimensions (shape {tuple(shape)}). Give a matrix (n_rows, n_features)."
        )


def array_source(X: NDArray[Any], names: Names) -> Source:
    """Read a numpy array; all of it is hashed, so that the same rows are known again."""
    names.refuse("an array")
    check_matrix(X.shape, what="X")
    dtype = stored_dtype(X.dtype, what="X")
    unmasked(X, what="X")
    step = block_rows(X.shape[1] * X.itemsize)

    def blocks(start: int) -> Iterator[RowBlock]:
        return (RowBlock(X[row : row + step]) for row in range(start, len(X), step))

    return Source(
        blocks=blocks,
        n_features=X.shape[1],
        dtype=dtype,
        description={"kind": "array", "shape": list(X.shape), "dtype": X.dtype.str, "hash": array_hash(X)},
        recognisable=True,
        seekable=True,
        n_rows=len(X),
    )
