"""Apply a fitted model to rows, whatever holds them: numpy in, numpy out; lazy in, lazy out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection, tokenize
from dask.delayed import delayed

from streamfit.batch import Chunk
from streamfit.errors import InvalidDataError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.maths.csr_rows import as_csr, csr_nbytes, is_sparse, place_of_value
from streamfit.run.blas import one_blas_thread
from streamfit.run.column_order import column_order
from streamfit.sources.table_values import as_one_type, column_names, is_table, with_columns
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import DTypeLike, NDArray

__all__ = ["check_finite", "is_lazy", "map_rows", "matched", "opened"]

_BLOCK_NBYTES = 32 * 2**20


def is_lazy(X: Any) -> bool:
    """Tell whether results for `X` are given as dask arrays: stores, paths and dask collections."""
    return isinstance(X, (FeatureStore, str, os.PathLike)) or is_dask_collection(X)


def matched(X: Any, trained: Iterable[str] | None) -> Any:
    """Give rows with the columns of the training rows in the order that they had there, found by name.

    Where either have no names, columns stay as they are. A table becomes one of numbers of one type.

    Raises
    ------
    InvalidDataError
        Columns are missing, there are more, or one holds no numbers.
    """
    names = column_names(X)
    order = column_order(names, trained)
    if isinstance(X, FeatureStore):
        return X if order is None else X.transformed(order)
    if not is_table(X):
        return X
    return as_one_type(X if order is None or names is None else with_columns(X, (names[i] for i in order.columns)))


def opened(X: Any) -> Any:
    """Open the path of a store; give everything else as it is."""
    return open_store(X) if isinstance(X, (str, os.PathLike)) else X


def map_rows(
    function: Callable[[Any, Chunk], NDArray[Any]],
    X: Any,
    *,
    model: Any,
    n_features: int,
    dtype: DTypeLike,
    n_outputs: int | None = None,
    finite: bool = True,
) -> Any:
    """Apply ``function(model, chunk)`` to all rows, in their order.

    Parameters
    ----------
    function : callable
        Gives ``(rows of the chunk,)`` or ``(rows of the chunk, n_outputs)``; it is pure.
    X : FeatureStore, path of a store, dask array or dataframe, array-like
        The rows, ``(n_rows, n_features)``.
    model : object
        First argument of `function`.
    n_features : int
        Columns that the model was fitted on.
    dtype : dtype
        Of the result.
    n_outputs : int or None, default=None
        Columns of the result, or None for one value a row.
    finite : bool, default=True
        Refuse rows of arrays whose values are not finite. False: the function decides.

    Returns
    -------
    dask.array.Array or ndarray
        ``(n_rows,)`` or ``(n_rows, n_outputs)``: a dask array for lazy `X`, on which nothing ran yet.

    Raises
    ------
    InvalidDataError
        `X` has another number of columns, or (in memory) values that are not finite.
    """
    X = opened(X)
    if isinstance(X, FeatureStore):
        _check_width(X.n_features, n_features)
        return X.map(function, model=model, dtype=dtype, n_outputs=n_outputs)
    if is_dask_collection(X):
        return _map_dask(
            function, X, model=model, n_features=n_features, dtype=dtype, n_outputs=n_outputs, finite=finite
        )
    return _map_memory(function, X, model=model, n_features=n_features, dtype=dtype, n_outputs=n_outputs, finite=finite)


def check_finite(X: Any, start: int) -> None:
    """Refuse NaN and infinity in rows of which the first one has the number `start`.

    Raises
    ------
    InvalidDataError
        It names the first such row and its column.
    """
    finite = np.isfinite(X.data if is_sparse(X) else X)
    if not finite.all():
        row, column = place_of_value(X, int(finite.argmin())) if is_sparse(X) else np.argwhere(~finite)[0]
        raise InvalidDataError(
            f"Row {start + row}, column {column} holds {X[row, column]}. Values must be finite.",
            row=int(start + row),
            column=str(column),
        )


def _check_width(got: int, expected: int) -> None:
    if got != expected:
        raise InvalidDataError(
            f"X has {got} features and the model was fitted on {expected}. Give the same columns in the same order."
        )


def _map_memory(
    function: Callable[[Any, Chunk], NDArray[Any]],
    X: Any,
    *,
    model: Any,
    n_features: int,
    dtype: DTypeLike,
    n_outputs: int | None,
    finite: bool,
) -> NDArray[Any]:
    X = as_csr(X) if is_sparse(X) else np.asarray(unmasked(X, what="X"))
    if X.ndim != 2:
        raise InvalidDataError(f"X must have 2 dimensions (rows, features), got {X.ndim}. Reshape it.")
    if X.dtype.kind not in "fiub":
        raise InvalidDataError(f"X must be numeric, got dtype {X.dtype}. Encode the columns as numbers.")
    _check_width(X.shape[1], n_features)
    n_rows = X.shape[0]
    out = np.empty(n_rows if n_outputs is None else (n_rows, n_outputs), dtype=dtype)
    row_nbytes = 8 * n_features if isinstance(X, np.ndarray) else csr_nbytes(1, -(-X.nnz // max(1, n_rows)), 8)
    block_rows = max(1, _BLOCK_NBYTES // row_nbytes)
    for start in range(0, n_rows, block_rows):
        block = _block(X, start, start + block_rows)
        if finite:
            check_finite(block, start)
        out[start : start + block.shape[0]] = function(model, Chunk(start // block_rows, start, block))
    return out


def _block(X: Any, start: int, stop: int) -> Any:
    if not isinstance(X, np.ndarray):
        return X[start:stop]
    block = np.ascontiguousarray(X[start:stop])
    return block.astype(np.float32 if block.dtype == np.float16 else block.dtype.newbyteorder("="), copy=False)


@one_blas_thread()
def _map_block(
    X: NDArray[Any],
    model: Any,
    *,
    function: Any,
    n_features: int,
    out_dtype: np.dtype[Any],
    n_outputs: int | None,
    finite: bool,
) -> NDArray[Any]:
    return _map_memory(
        function, X, model=model, n_features=n_features, dtype=out_dtype, n_outputs=n_outputs, finite=finite
    )


def _map_dask(
    function: Callable[[Any, Chunk], NDArray[Any]],
    X: Any,
    *,
    model: Any,
    n_features: int,
    dtype: DTypeLike,
    n_outputs: int | None,
    finite: bool,
) -> da.Array:
    array = X if isinstance(X, da.Array) else X.to_dask_array()
    if array.ndim != 2:
        raise InvalidDataError(f"X must have 2 dimensions (rows, features), got {array.ndim}. Reshape it.")
    _check_width(array.shape[1], n_features)
    if array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    dtype = np.dtype(dtype)
    mapped: da.Array = da.map_blocks(
        _map_block,
        array,
        delayed(model, pure=True, traverse=False, name=f"model-{tokenize(model)}"),
        function=function,
        n_features=n_features,
        out_dtype=dtype,
        n_outputs=n_outputs,
        finite=finite,
        dtype=dtype,
        drop_axis=1 if n_outputs is None else None,
        chunks=(array.chunks[0],) if n_outputs is None else (array.chunks[0], (n_outputs,)),
        meta=np.empty((0,) if n_outputs is None else (0, n_outputs), dtype=dtype),
    )
    return mapped
