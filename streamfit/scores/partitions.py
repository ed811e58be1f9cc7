"""A row a partition: where anomalies lie, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import dask.threaded
import numpy as np
import pandas as pd
from dask.base import DaskMethodsMixin

from streamfit.errors import InvalidParameterError
from streamfit.scores.checked import as_vector, block_starts, checked_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["LazyTable", "partition_summary"]


class LazyTable(DaskMethodsMixin):
    """A small dask collection that computes to a ``pandas.DataFrame``.

    A dask dataframe will not do: computed together with arrays it reads their blocks a second time.

    Parameters
    ----------
    records : dask.array.Array of a structured dtype, (n_rows,)
        The rows of the table; the fields are its columns.
    index : tuple of str or None
        Names of the rows; None: their numbers.
    """

    __dask_scheduler__ = staticmethod(dask.threaded.get)
    # That of arrays, so that dask optimises the table and arrays as one graph and runs shared tasks once.
    __dask_optimize__ = staticmethod(da.Array.__dask_optimize__)

    def __init__(self, records: da.Array, index: tuple[str, ...] | None = None) -> None:
        self._records = records
        self._index = index

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._records)} rows: {', '.join(self._records.dtype.names)})"

    def __dask_graph__(self) -> Any:
        return self._records.__dask_graph__()

    def __dask_keys__(self) -> Any:
        return self._records.__dask_keys__()

    def __dask_layers__(self) -> Any:
        return self._records.__dask_layers__()

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self._records.name, self._index

    def __dask_postcompute__(self) -> Any:
        return _frame, (self._index,)

    def __dask_postpersist__(self) -> Any:
        rebuild, arguments = self._records.__dask_postpersist__()
        return _persisted, (rebuild, arguments, self._index)


def partition_summary(
    scores: Any, threshold: Any = None, *, quantiles: Sequence[float] = (0.25, 0.5, 0.75)
) -> pd.DataFrame | LazyTable:
    """Summarise each partition of the scores in one row of a table.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        One block is one partition; a NumPy array is a single partition. NaN and infinities are counted
        and kept out of the statistics.
    threshold : float, dask.array.Array of shape () or None, default=None
        Rows above it are counted as flagged.
    quantiles : sequence of float, default=(0.25, 0.5, 0.75)
        Quantiles of each partition, 0 to 1 inclusive, exact within it.

    Returns
    -------
    pandas.DataFrame or LazyTable
        Columns ``first_row``, ``count``, ``n_nonfinite``, ``flagged`` (if there is a threshold), ``mean``,
        ``min``, one a quantile such as ``25%``, and ``max``; statistics are NaN where a partition has no
        finite score. The index numbers the partitions. Of a dask array, or with a lazy threshold, the table
        is lazy: ``compute()`` gives the dataframe.

    Raises
    ------
    InvalidParameterError
        A quantile is outside its range or named twice, or the threshold is NaN or no number.

    Examples
    --------
    >>> scores = da.from_array(np.array([1.0, 2.0, 3.0, np.inf]), chunks=3)
    >>> table = partition_summary(scores, threshold=2.5).compute()
    >>> table[["first_row", "count", "n_nonfinite", "flagged", "max"]]
       first_row  count  n_nonfinite  flagged  max
    0          0      3            0        1  3.0
    1          3      1            1        1  NaN
    """
    vector = as_vector(scores, name="scores")
    threshold = None if threshold is None else checked_threshold(threshold)
    shares = np.asarray(quantiles)
    if shares.ndim != 1 or shares.dtype.kind not in "if" or not ((shares >= 0) & (shares <= 1)).all():
        raise InvalidParameterError(f"quantiles must be a sequence of numbers between 0 and 1, got {quantiles!r}.")
    quantiles = shares.tolist()
    names = [f"{100 * quantile:g}%" for quantile in quantiles]
    if len(set(names)) < len(names):
        raise InvalidParameterError(f"quantiles must be distinct, got {quantiles}.")
    counts = ["first_row", "count", "n_nonfinite", *(["flagged"] if threshold is not None else [])]
    dtype = np.dtype(
        [(name, np.int64) for name in counts] + [(name, np.float64) for name in ("mean", "min", *names, "max")]
    )
    if not isinstance(vector, da.Array) and not isinstance(threshold, da.Array):
        start = np.zeros(1, dtype=np.int64)
        return _frame([_record(vector, start, threshold, quantiles, dtype, block_id=(0,))])
    vector = da.asarray(vector)
    records = da.map_blocks(
        _record,
        vector,
        block_starts(vector),
        threshold,
        tuple(quantiles),
        record_dtype=dtype,
        dtype=dtype,
        chunks=((1,) * vector.numblocks[0],),
        meta=np.empty(0, dtype=dtype),
    )
    return LazyTable(records)


def _record(
    scores: NDArray[Any],
    starts: NDArray[np.int64],
    threshold: Any,
    quantiles: Sequence[float],
    record_dtype: np.dtype[Any],
    *,
    block_id: tuple[int],
) -> NDArray[Any]:
    finite = scores[np.isfinite(scores)].astype(np.float64)
    record = np.full(1, np.nan, dtype=[(name, np.float64) for name in record_dtype.names or ()])
    record["first_row"] = starts[block_id[0]]
    record["count"] = len(scores)
    record["n_nonfinite"] = len(scores) - len(finite)
    if threshold is not None:
        record["flagged"] = np.count_nonzero(scores > threshold)
    if len(finite):
        record["mean"], record["min"], record["max"] = finite.mean(), finite.min(), finite.max()
        for quantile in quantiles:
            record[f"{100 * quantile:g}%"] = np.quantile(finite, quantile)
    return record.astype(record_dtype)


def _frame(records: list[NDArray[Any]], index: tuple[str, ...] | None = None) -> pd.DataFrame:
    return pd.DataFrame(np.concatenate(records), index=index)


def _persisted(
    graph: Any, rebuild: Any, arguments: Any, index: tuple[str, ...] | None, *, rename: Any = None
) -> LazyTable:
    return LazyTable(rebuild(graph, *arguments, rename=rename), index)
