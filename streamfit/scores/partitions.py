"""A row a partition: where anomalies lie, at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import dask.threaded
import numpy as np
import pandas as pd
from dask.base import DaskMethodsMixin, annotate

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.scores.blockwise import is_lazy
from streamfit.scores.checked import as_vector, block_starts, checked_threshold
from streamfit.scores.flagging import check_contamination, threshold_of_share
from streamfit.scores.labelled import known_rows, require_as_many_labels
from streamfit.scores.revisiting import with_result
from streamfit.scores.thresholders import fitted_threshold, is_thresholder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["LazyTable", "frame", "partition_summary"]


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
        return frame, (self._index,)

    def __dask_postpersist__(self) -> Any:
        rebuild, arguments = self._records.__dask_postpersist__()
        return _persisted, (rebuild, arguments, self._index)


def partition_summary(
    scores: Any,
    threshold: Any = None,
    *,
    quantiles: Sequence[float] = (0.25, 0.5, 0.75),
    labels: Any = None,
    contamination: Any = None,
) -> pd.DataFrame | LazyTable:
    """Summarise each partition of the scores in one row of a table.

    Counts and thresholds are Identical to what NumPy gives for a partition alone, statistics Equal.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        One block is one partition; a NumPy array is a single partition. NaN and infinities are counted
        and kept out of the statistics.
    threshold : float, dask.array.Array of shape () or None, default=None
        Rows above it are counted as flagged. It may come from these very scores: many of them then wait for it on
        scratch.
    quantiles : sequence of float, default=(0.25, 0.5, 0.75)
        Quantiles of each partition, 0 to 1 inclusive, exact within it.
    labels : dask.array.Array or array-like, (n_rows,), or None, default=None
        1 or True for anomalies, 0 or False for the other rows, NaN where nobody knows: the anomalies are counted.
    contamination : float, thresholder or None, default=None
        As in `threshold`: the threshold that each partition would have alone, and what it would flag.

    Returns
    -------
    pandas.DataFrame or LazyTable
        Columns ``first_row``, ``count``, ``n_nonfinite``, ``flagged`` (if there is a threshold), ``n_anomalies`` (if
        there are labels), ``mean``, ``min``, one a quantile such as ``25%``, ``max``, and ``own_threshold`` and
        ``own_flagged`` (if there is a contamination). Statistics are NaN where a partition has no finite score, and its
        own threshold where it has no score that is a number, or for a thresholder none that differ. The index numbers
        the partitions. Of a dask array, or with a lazy threshold, the table is lazy: ``compute()`` gives the dataframe.

    Raises
    ------
    InvalidDataError
        A label is neither 0 nor 1, or there are more or fewer labels than scores.
    InvalidParameterError
        A quantile is outside its range or named twice, the threshold is NaN or no number, or the contamination is
        outside its range.

    Examples
    --------
    >>> scores = da.from_array(np.array([1.0, 2.0, 3.0, np.inf]), chunks=3)
    >>> table = partition_summary(scores, threshold=2.5, contamination=0.5).compute()
    >>> table[["first_row", "count", "n_nonfinite", "flagged", "max", "own_threshold", "own_flagged"]]
       first_row  count  n_nonfinite  flagged  max  own_threshold  own_flagged
    0          0      3            0        1  3.0            2.0            1
    1          3      1            1        1  NaN            inf            0
    """
    vector = as_vector(scores, name="scores")
    truth = None if labels is None else as_vector(labels, name="labels")
    if truth is not None:
        require_as_many_labels(truth, n_rows=vector.shape[0])
    threshold = None if threshold is None else checked_threshold(threshold)
    if contamination is not None:
        check_contamination(contamination)
    shares, names = _checked_quantiles(quantiles)
    dtype = np.dtype(
        [
            *((name, np.int64) for name in ("first_row", "count", "n_nonfinite")),
            *(
                (name, np.int64)
                for name, given in (("flagged", threshold), ("n_anomalies", truth))
                if given is not None
            ),
            *((name, np.float64) for name in ("mean", "min", *names, "max")),
            *(() if contamination is None else (("own_threshold", np.float64), ("own_flagged", np.int64))),
        ]
    )
    what = _Columns(shares, names, contamination, dtype)
    if not is_lazy(vector, truth, threshold):
        record = what.record(vector, truth, 0)
        return frame([record if threshold is None else _with_flagged(record, _n_above(vector, threshold))])
    if not is_lazy(vector):
        vector = da.from_array(vector, chunks=-1)
        vector = vector.rechunk(truth.chunks) if isinstance(truth, da.Array) else vector
    chunks = ((1,) * vector.numblocks[0],)
    meta = np.empty(0, dtype=dtype)
    cut = [vector] if truth is None else [vector, da.asarray(truth).rechunk(vector.chunks)]
    # An annotation keeps dask from joining this step to the one that waits for the threshold, with the block.
    with annotate(streamfit="record"):
        records = da.map_blocks(
            _record_of_block, what, block_starts(vector), *cut, dtype=dtype, chunks=chunks, meta=meta
        )
    if threshold is not None:
        flagged = with_result(_n_above, vector, result=threshold, dtype=np.int64, chunks=chunks)
        records = da.map_blocks(_with_flagged, records, flagged, dtype=dtype, chunks=chunks, meta=meta)
    return LazyTable(records)


def _checked_quantiles(quantiles: Any) -> tuple[tuple[float, ...], tuple[str, ...]]:
    shares = np.asarray(quantiles)
    if shares.ndim != 1 or shares.dtype.kind not in "if" or not ((shares >= 0) & (shares <= 1)).all():
        raise InvalidParameterError(f"quantiles must be a sequence of numbers between 0 and 1, got {quantiles!r}.")
    names = tuple(f"{100 * share:g}%" for share in shares.tolist())
    if len(set(names)) < len(names):
        raise InvalidParameterError(f"quantiles must be distinct, got {shares.tolist()}.")
    return tuple(shares.tolist()), names


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """What is told of a partition."""

    shares: tuple[float, ...]
    """Quantiles, between 0 and 1."""
    names: tuple[str, ...]
    """Names of their columns."""
    contamination: Any
    """For the threshold of a partition alone, or None."""
    dtype: np.dtype[Any]
    """The columns."""

    def record(self, scores: NDArray[Any], labels: NDArray[Any] | None, start: int) -> NDArray[Any]:
        """Give the row of the table but for what is flagged, ``(1,)``."""
        values = scores.astype(np.float64, copy=False)
        finite = values[np.isfinite(values)]
        record = np.zeros(1, dtype=self.dtype)
        record["first_row"], record["count"], record["n_nonfinite"] = start, len(values), len(values) - len(finite)
        if labels is not None:
            record["n_anomalies"] = np.count_nonzero(known_rows(values, labels, None, start, "drop")[1])
        for name in ("mean", "min", *self.names, "max"):
            record[name] = np.nan
        if len(finite):
            record["mean"], record["min"], record["max"] = _mean(finite), finite.min(), finite.max()
            for name, share in zip(self.names, self.shares, strict=True):
                record[name] = np.quantile(finite, share)
        if self.contamination is not None:
            own = self._own_threshold(values, finite)
            record["own_threshold"], record["own_flagged"] = own, _n_above(values, own)
        return record

    def _own_threshold(self, values: NDArray[np.float64], finite: NDArray[np.float64]) -> float:
        thresholder = is_thresholder(self.contamination)
        ordered = finite if thresholder else values[~np.isnan(values)]
        if not len(ordered):
            return float("nan")
        try:
            if thresholder:
                return fitted_threshold(self.contamination, ordered)[0]
            return threshold_of_share(ordered, float(self.contamination))
        except InvalidDataError:
            # Of this partition alone there is none, which must not hide the others.
            return float("nan")


def _record_of_block(what: _Columns, starts: NDArray[np.int64], *blocks: Any, block_id: tuple[int]) -> NDArray[Any]:
    scores, labels = blocks if len(blocks) == 2 else (*blocks, None)
    return what.record(scores, labels, int(starts[block_id[0]]))


def _n_above(scores: NDArray[Any], threshold: Any) -> NDArray[np.int64]:
    # As float64: NumPy would compare float32 scores with a threshold that it rounds to float32.
    return np.array([np.count_nonzero(scores.astype(np.float64, copy=False) > threshold)], dtype=np.int64)


def _with_flagged(record: NDArray[Any], flagged: NDArray[np.int64]) -> NDArray[Any]:
    record = record.copy()
    record["flagged"] = flagged
    return record


def frame(records: list[NDArray[Any]], index: tuple[str, ...] | None = None) -> pd.DataFrame:
    """Give records as a table."""
    return pd.DataFrame(np.concatenate(records), index=index)


def _persisted(
    graph: Any, rebuild: Any, arguments: Any, index: tuple[str, ...] | None, *, rename: Any = None
) -> LazyTable:
    return LazyTable(rebuild(graph, *arguments, rename=rename), index)


def _mean(values: NDArray[np.float64]) -> float:
    with np.errstate(over="ignore"):
        mean = float(values.mean())
    # The sum of very large values is infinite where their mean is not.
    return mean if np.isfinite(mean) else float((values / len(values)).sum())
