"""Whether detectors agree on the order of the rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.rank_pieces import rank_pieces
from streamfit.maths.sorted_runs import SortedRun
from streamfit.options import check_count
from streamfit.run.kept_arrays import KeptArrays
from streamfit.scores.blockwise import is_lazy, joined, per_block
from streamfit.scores.checked import checked_scores, require_rows
from streamfit.scores.labelled import check_undefined, no_value
from streamfit.scores.partitions import LazyTable, frame
from streamfit.scores.sorting import RUN_ROWS, page_rows_for, scratch_for
from streamfit.scores.top import top_k

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from streamfit.run.kept_arrays import PlannedScratch
    from streamfit.scores.labelled import Undefined

__all__ = ["agreement", "overlap_at_k", "rank_correlation", "ranks"]

_SORTED, _ORDER, _RANK = "score", "order", "rank"


def ranks(scores: Any) -> Any:
    """Rank all rows from 1 on by their scores; tied ones get the mean of their ranks.

    It is ``scipy.stats.rankdata``, Bit-equal for any chunking. Blocks are sorted one by one, on scratch where rows are
    many, and ranked a piece at a time: memory for a few blocks, and 28 bytes a row of scratch.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Infinities are ordered like numbers.

    Returns
    -------
    ndarray or dask.array.Array of float64, (n_rows,)
        Ranks in row order, in blocks like those of `scores`.

    Raises
    ------
    InvalidDataError
        A score is NaN.

    Examples
    --------
    >>> ranks([0.3, 0.1, 0.3])
    array([2.5, 1. , 2.5])
    """
    checked = checked_scores(scores)
    scratch = scratch_for(checked, row_nbytes=28)
    blocks = per_block(_sort_with_order, checked, arguments=(scratch, page_rows_for(checked)))
    ranked = joined(blocks, _rank_all, arguments=(scratch,), dtype=object)
    if not is_lazy(checked):
        return _in_row_order(blocks[0], ranked[0])
    # A block needs its own order and the ranks of all: both lie on scratch.
    return da.map_blocks(
        _ranks_of_block,
        blocks,
        ranked,
        dtype=np.float64,
        chunks=checked.chunks,
        meta=np.empty(0, dtype=np.float64),
    )


def rank_correlation(first: Any, second: Any, *, undefined: Undefined = "error") -> Any:
    """Give Spearman's rank correlation of the scores of two detectors for the same rows.

    It is Equal to ``scipy.stats.spearmanr(first, second).statistic``. Memory and scratch are those of `ranks`.

    Parameters
    ----------
    first, second : dask.array.Array or array-like, (n_rows,)
        Scores of the same rows.
    undefined : "error" or float, default="error"
        What to give where all scores of a detector are equal: an error, or this number, such as NaN.

    Returns
    -------
    float, or dask.array.Array of shape ()
        -1 to 1.

    Raises
    ------
    InvalidDataError
        A score is NaN, the lengths differ, there are no rows, or all scores of a detector are equal.

    Examples
    --------
    >>> rank_correlation([1.0, 2.0, 3.0], [0.1, 0.2, 100.0]), rank_correlation([1.0, 2.0], [7.0, 1.0])
    (1.0, -1.0)
    """
    products = _products({"first": first, "second": second})
    return joined(products, _correlation, arguments=(check_undefined(undefined),))


def agreement(scores: Mapping[str, Any], *, undefined: Undefined = "error") -> pd.DataFrame | LazyTable:
    """Give Spearman's rank correlation of each pair of detectors, Equal to ``scipy.stats.spearmanr``.

    Parameters
    ----------
    scores : mapping of str to dask.array.Array or array-like, (n_rows,)
        Scores of the same rows, by name of the detector.
    undefined : "error" or float, default="error"
        As in `rank_correlation`.

    Returns
    -------
    pandas.DataFrame or LazyTable
        Square and symmetric, rows and columns by name; lazy where one of the scores is.

    Raises
    ------
    InvalidDataError
        As in `rank_correlation`.
    InvalidParameterError
        `scores` is no mapping, or an empty one, or its names are not distinct texts.

    Examples
    --------
    >>> agreement({"a": [1.0, 2.0, 3.0], "b": [3.0, 2.0, 1.0]})
         a    b
    a  1.0 -1.0
    b -1.0  1.0
    """
    given = list(scores.keys()) if hasattr(scores, "keys") else []
    if not given:
        raise InvalidParameterError(
            f'scores must be a mapping of names to scores, such as {{"a": scores}}, got {scores!r}.'
        )
    columns = {str(name): scores[name] for name in given}
    names = tuple(columns)
    if len(names) < len(given) or not all(names):
        raise InvalidParameterError(f"Names of scores must be distinct texts that are not empty, got {given!r}.")
    dtype = np.dtype([(name, np.float64) for name in names])
    arguments = (dtype, names, check_undefined(undefined))
    records = joined(_products(columns), _table, arguments=arguments, shape=(len(names),), dtype=dtype)
    return LazyTable(records, names) if is_lazy(records) else frame([records], names)


def overlap_at_k(first: Any, second: Any, k: int) -> Any:
    """Give the share of the `k` highest rows of one detector that are among the `k` highest of another one.

    Bit-equal for any chunking.

    Parameters
    ----------
    first, second : dask.array.Array or array-like, (n_rows,)
        Scores of the same rows.
    k : int
        Rows, at least 1; all of them where there are fewer. Of tied rows those with lower numbers count, as in `top_k`.

    Returns
    -------
    float, or dask.array.Array of shape ()
        0 to 1.

    Raises
    ------
    InvalidDataError
        A score is NaN, the lengths differ, or there are no rows.
    InvalidParameterError
        `k` is below 1, or no integer.

    Examples
    --------
    >>> overlap_at_k([1.0, 2.0, 3.0], [1.0, 5.0, 0.0], k=2)
    0.5
    """
    k = check_count("k", k, least=1)
    vectors = _aligned({"first": first, "second": second})
    tops = [top_k(vector, k).rows for vector in vectors]
    if not is_lazy(*tops):
        return _shared(*tops)
    meta = np.empty((), dtype=np.float64)
    one = [da.asarray(top).rechunk(-1) for top in tops]
    return da.blockwise(_shared_blocks, "", one[0], "i", one[1], "j", dtype=np.float64, meta=meta, concatenate=True)


def _aligned(scores: Mapping[str, Any]) -> list[Any]:
    vectors = [checked_scores(vector) for vector in scores.values()]
    for name, vector in zip(scores, vectors, strict=True):
        require_rows(vector, purpose="An agreement")
        if vector.shape != vectors[0].shape:
            raise InvalidDataError(
                f"There are {vector.shape[0]} scores of {name!r} and {vectors[0].shape[0]} of {next(iter(scores))!r}. "
                "Give one of each for each row."
            )
    return vectors


# -- ranks -------------------------------------------------------------------------------------------


def _sort_with_order(
    scores: NDArray[np.float64], _start: int, scratch: PlannedScratch | None, page_rows: int
) -> list[SortedRun]:
    runs = []
    for start in range(0, len(scores), RUN_ROWS):
        values = scores[start : start + RUN_ROWS]
        order = np.argsort(values).astype(np.int32)
        arrays: dict[str, NDArray[Any]] = {_SORTED: values[order], _ORDER: order}
        kept = KeptArrays.keep(arrays, scratch=scratch)
        runs.append(SortedRun.of(kept, _SORTED, arrays[_SORTED], start=0, page_rows=page_rows))
    return runs


def _rank_all(blocks: Sequence[list[SortedRun]], scratch: PlannedScratch | None) -> list[list[KeptArrays]]:
    """Rank the values of all runs; each run's ranks are written in its own order, one range after the other."""
    runs = [run for block in blocks for run in block]
    kept = [KeptArrays.keep({_RANK: np.empty(0)}, scratch=scratch) for _ in runs]
    for number, found in rank_pieces(runs):
        kept[number].extend(_RANK, found)
    rest = iter(kept)
    return [[next(rest) for _ in block] for block in blocks]


def _in_row_order(runs: list[SortedRun], ranked: list[KeptArrays]) -> NDArray[np.float64]:
    pieces = []
    for run, kept in zip(runs, ranked, strict=True):
        piece = np.empty(run.n_values)
        piece[run.read(0, run.n_values, name=_ORDER)] = kept.read(_RANK)
        pieces.append(piece)
    return np.concatenate(pieces) if pieces else np.empty(0)


def _ranks_of_block(box: NDArray[Any], ranked: list[list[KeptArrays]], *, block_id: tuple[int]) -> NDArray[np.float64]:
    return _in_row_order(box[0], ranked[block_id[0]])


# -- correlation -------------------------------------------------------------------------------------


def _products(scores: Mapping[str, Any]) -> Any:
    vectors = _aligned(scores)
    middle = (vectors[0].shape[0] + 1) / 2
    return per_block(_centred_products, *[ranks(vector) for vector in vectors], arguments=(middle,))


def _centred_products(*given: Any) -> NDArray[np.float64]:
    *columns, _, middle = given
    centred = np.stack(columns) - middle
    products: NDArray[np.float64] = centred @ centred.T
    return products


def _matrix(products: Sequence[NDArray[np.float64]], names: Sequence[str], policy: Undefined) -> NDArray[np.float64]:
    total = np.add.reduce(products, axis=0)
    spread = np.diag(total)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The root of the product: of equal ranks it is their spread itself, and the correlation 1.
        matrix: NDArray[np.float64] = np.clip(total / np.sqrt(np.outer(spread, spread)), -1, 1)
    for number in np.flatnonzero(spread == 0).tolist():
        value = no_value(policy, f"All scores of {names[number]!r} are equal, so that they order nothing.")
        matrix[number] = matrix[:, number] = value
    return matrix


def _correlation(products: Sequence[NDArray[np.float64]], policy: Undefined) -> float:
    return float(_matrix(products, ("first", "second"), policy)[0, 1])


def _table(
    products: Sequence[NDArray[np.float64]], dtype: np.dtype[Any], names: tuple[str, ...], policy: Undefined
) -> NDArray[Any]:
    matrix = _matrix(products, names, policy)
    table = np.empty(len(names), dtype=dtype)
    for column, name in enumerate(names):
        table[name] = matrix[:, column]
    return table


def _shared(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    return len(np.intersect1d(first, second)) / len(first) if len(first) else math.nan


def _shared_blocks(first: NDArray[np.int64], second: NDArray[np.int64]) -> np.float64:
    return np.float64(_shared(first, second))
