"""One score a row from the scores of several detectors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from sklearn.utils import shuffle

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.calibration_curves import UnifyingCurve
from streamfit.maths.score_statistics import ScoreStatistics
from streamfit.options import check_choice, check_count
from streamfit.scores.blockwise import joined, per_block
from streamfit.scores.checked import checked_scores, require_rows
from streamfit.scores.rank_agreement import ranks
from streamfit.scores.revisiting import with_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["combine"]

Method = Literal["average", "maximum", "median", "aom", "moa"]
Standardize = Literal["zscore", "rank", "unify"]


def combine(
    scores: Sequence[Any] | Mapping[str, Any],
    *,
    method: Method = "average",
    standardize: Standardize | None = "zscore",
    weights: ArrayLike | None = None,
    n_buckets: int = 5,
    random_state: int | None = None,
) -> Any:
    """Combine the scores of several detectors for the same rows into one score a row.

    Scores of different detectors have different scales, so they are standardised over all rows first. Where rows are
    many, blocks wait on scratch for what all rows say: scores are computed once, and memory is that of a few blocks.
    With ``standardize="zscore"`` it is Equal to the functions of the package combo, which PyOD's combination module
    calls, on the matrix of all scores that PyOD's ``standardizer`` has scaled.

    Parameters
    ----------
    scores : sequence or mapping of dask.array.Array or array-like, (n_rows,)
        One vector a detector; of a mapping, or of a table with named columns, its values in their order. A matrix is
        refused, since its first axis would be taken for detectors: give ``list(matrix.T)``.
    method : {"average", "maximum", "median", "aom", "moa"}, default="average"
        Over the detectors; ``"aom"`` is the average of the maxima of buckets of detectors, ``"moa"`` the maximum of
        their averages (Aggarwal and Sathe, 2015).
    standardize : {"zscore", "rank", "unify"} or None, default="zscore"
        ``"zscore"``: mean 0 and standard deviation 1, of equal scores all 0. ``"rank"``: ranks by the number of rows.
        ``"unify"``: probabilities, see `calibrate`. None: scores as they are.
    weights : array-like of shape (n_detectors,) or None, default=None
        Of the detectors, for ``"average"``.
    n_buckets : int, default=5
        Buckets of ``"aom"`` and ``"moa"``; they have equally many detectors.
    random_state : int or None, default=None
        Seed by which those two deal detectors to buckets; they need one.

    Returns
    -------
    ndarray or dask.array.Array of float64, (n_rows,)
        Combined scores; lazy if one of the scores is.

    Raises
    ------
    InvalidDataError
        A score is NaN (or not finite, but for ``"rank"`` and None), lengths differ, there are no rows, or the scores of
        a row have no such combination, as the average of opposite infinities.
    InvalidParameterError
        A parameter is none of the above, or has no use for this method.

    Examples
    --------
    >>> combine([[0.0, 1.0], [10.0, 0.0]], standardize=None, method="maximum")
    array([10.,  1.])
    >>> combine([[0.0, 1.0, 2.0], [1.0, 3.0, 2.0]], standardize="rank")
    array([0.33333333, 0.83333333, 0.83333333])
    """
    columns = _one_a_detector(scores)
    function = _combination(method, len(columns), weights, n_buckets, random_state)
    if standardize is not None:
        check_choice("standardize", standardize, get_args(Standardize))
    vectors = [checked_scores(vector) for vector in columns]
    for number, vector in enumerate(vectors):
        require_rows(vector, purpose="A combination")
        if vector.shape != vectors[0].shape:
            raise InvalidDataError(
                f"There are {vector.shape[0]} scores in vector {number} and {vectors[0].shape[0]} in the first one. "
                "Give one score a row of each detector."
            )
    if standardize == "rank":
        return with_result(
            partial(_combine_ranks, function), *map(ranks, vectors), result=vectors[0].shape[0], dtype=np.float64
        )
    curves = None
    if standardize is not None:
        curves = joined(per_block(_statistics, *vectors), _curves, arguments=(standardize,), dtype=object)
    return with_result(partial(_combine_block, function), *vectors, result=curves, dtype=np.float64)


def _one_a_detector(scores: Any) -> list[Any]:
    if hasattr(scores, "keys"):
        return [scores[name] for name in scores.keys()]  # noqa: SIM118  # of a table, whatever iterating it gives
    if hasattr(scores, "ndim"):
        raise InvalidParameterError(
            f"scores must be a sequence with one vector a detector, got an array of shape {scores.shape}. Of a matrix "
            "with a column a detector give list(matrix.T)."
        )
    if not isinstance(scores, Iterable):
        raise InvalidParameterError(f"scores must be a sequence with one vector a detector, got {scores!r}.")
    return list(scores)


def _combination(
    method: Method, n_detectors: int, weights: ArrayLike | None, n_buckets: int, random_state: int | None
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    check_choice("method", method, get_args(Method))
    if n_detectors < 1:
        raise InvalidParameterError("scores must be a sequence of at least one vector, got none.")
    if weights is not None:
        if method != "average":
            raise InvalidParameterError(f'weights are for method="average", got method={method!r}. Leave them out.')
        try:
            given = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.shape != (n_detectors,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
            raise InvalidParameterError(
                f"weights must be one number of at least 0 for each of the {n_detectors} detectors and not all 0, got "
                f"{weights!r}."
            )
        weights = tuple(given.tolist())
    if method in ("aom", "moa"):
        n_buckets = check_count("n_buckets", n_buckets, least=1)
        if n_detectors % n_buckets:
            raise InvalidParameterError(
                f"{n_detectors} detectors cannot be dealt to {n_buckets} equal buckets. Choose another n_buckets."
            )
        if random_state is None:
            raise InvalidParameterError(
                f'method="{method}" deals detectors to buckets by chance, the same for all rows. Give random_state=.'
            )
        seed = check_count("random_state", random_state, least=0, most=2**32 - 1)
        return partial(_bucketed, method=method, n_buckets=n_buckets, random_state=seed)
    return partial(_row_wise, method=method, weights=weights)


def _row_wise(scores: NDArray[np.float64], *, method: str, weights: tuple[float, ...] | None) -> NDArray[np.float64]:
    if not len(scores):
        return np.empty(0)  # NumPy has no weighted mean of nothing
    if method == "average":
        averages: NDArray[np.float64] = np.average(scores, axis=1, weights=weights)
        return averages
    combined: NDArray[np.float64] = scores.max(axis=1) if method == "maximum" else np.median(scores, axis=1)
    return combined


def _bucketed(scores: NDArray[np.float64], *, method: str, n_buckets: int, random_state: int) -> NDArray[np.float64]:
    order = shuffle(range(scores.shape[1]), random_state=random_state)
    buckets = np.split(np.asarray(order), n_buckets)
    parts = [scores[:, bucket] for bucket in buckets]
    if method == "aom":
        combined: NDArray[np.float64] = np.mean([part.max(axis=1) for part in parts], axis=0)
    else:
        combined = np.max([part.mean(axis=1) for part in parts], axis=0)
    return combined


def _statistics(*given: Any) -> list[ScoreStatistics | None]:
    *blocks, start = given
    return [ScoreStatistics.of_block(block, start=start) for block in blocks]


def _curves(found: Sequence[list[ScoreStatistics | None]], standardize: str) -> list[Any]:
    totals = [
        reduce(ScoreStatistics.merged, (one for one in column if one is not None))
        for column in zip(*found, strict=True)
    ]
    return [UnifyingCurve(total) if standardize == "unify" else partial(_zscore, total) for total in totals]


def _zscore(statistics: ScoreStatistics, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    # Scores that differ by rounding alone are not scaled, as in scikit-learn's StandardScaler.
    n = statistics.n_rows
    tiny = n * np.finfo(np.float64).eps * statistics.std**2 + (n * statistics.mean * np.finfo(np.float64).eps) ** 2
    scale = 1.0 if statistics.std**2 <= tiny else statistics.std
    return (scores - statistics.mean) / scale


def _combine_block(function: Callable[..., NDArray[np.float64]], *given: Any) -> NDArray[np.float64]:
    *blocks, curves = given
    columns = blocks if curves is None else [curve(block) for curve, block in zip(curves, blocks, strict=True)]
    return _defined(function, np.stack(columns, axis=1))


def _defined(function: Callable[..., NDArray[np.float64]], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        combined = function(scores)
    if not np.isfinite(combined).all():
        lost = np.isnan(combined) | (np.isinf(combined) & np.isfinite(scores).all(axis=1))
        if lost.any():
            raise InvalidDataError(
                f"The scores {scores[lost.argmax()].tolist()} of a row have no combination that float64 holds. Look at "
                'the rows with such scores, or combine by standardize="rank".'
            )
    return combined


def _combine_ranks(function: Callable[..., NDArray[np.float64]], *given: Any) -> NDArray[np.float64]:
    *blocks, n_rows = given
    return function(np.stack(blocks, axis=1) / n_rows)
