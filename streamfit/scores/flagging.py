"""One global threshold, and flags from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.selection import interpolate_extended, order_statistics, percentile_ranks
from streamfit.maths.sorted_runs import order_statistics_of_runs
from streamfit.options import check_count, check_number
from streamfit.scores.blockwise import is_lazy, joined
from streamfit.scores.checked import checked_scores, checked_threshold, require_rows
from streamfit.scores.revisiting import with_result
from streamfit.scores.sorting import SELECTION_NBYTES, all_runs, sorted_blocks
from streamfit.scores.thresholders import is_thresholder, thresholder_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.scores.sorting import SortedBlock

__all__ = ["check_contamination", "flags", "threshold", "threshold_of_share"]


def threshold(scores: Any, contamination: Any, *, n_sampled: int | None = None, seed: int = 0) -> Any:
    """Give the score above which rows are anomalies, as PyOD does.

    For a share of the rows it is ``numpy.percentile(scores, 100 * (1 - contamination))``, Bit-equal for any chunking:
    the scores are sorted block by block, on scratch where they are many, and no more than a few MiB are held of all of
    them. A thresholder of PyThresh (``pip install 'streamfit[thresholds]'``) gives its threshold on the scale of the
    scores: ``flags(scores, threshold)`` are Identical with its labels. It needs all scores in one task, 8 bytes a row
    and what it takes itself, unless `n_sampled` names a sample.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous. For a share of the rows infinities count as the largest and smallest scores.
    contamination : float or thresholder
        Share of the rows to flag, above 0 and at most 0.5; or an object of ``pythresh.thresholds``. It is copied, never
        changed, and draws random numbers by its own ``random_state``.
    n_sampled : int or None, default=None
        Show so many rows to the thresholder, and the lowest and the highest score. Which rows follows from `seed` and
        row numbers, not from blocks. None: all rows.
    seed : int, default=0
        Seed of the sample, 0 or more.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The threshold.

    Raises
    ------
    InvalidDataError
        There is no score, a score is NaN, or the threshold would lie at an infinity; for a thresholder also where
        a score is infinite or all are equal.
    InvalidParameterError
        `contamination` is outside its range, or there is a sample without a thresholder.
    UnsupportedError
        The labels of the thresholder are not those of a threshold.

    Examples
    --------
    >>> import dask.array as da
    >>> threshold([1.0, 2.0, 3.0, 4.0], contamination=0.25)
    3.25
    >>> threshold([7.0], contamination=0.5)
    7.0
    >>> lazy = threshold(da.arange(5, chunks=2), contamination=0.1)
    >>> float(lazy), float(np.percentile(np.arange(5), 90))
    (3.6, 3.6)
    """
    if n_sampled is not None:
        n_sampled = check_count("n_sampled", n_sampled, least=1)
    seed = check_count("seed", seed, least=0)
    check_contamination(contamination)
    checked = checked_scores(scores)
    require_rows(checked, purpose="A threshold")
    if is_thresholder(contamination):
        return thresholder_threshold(checked, contamination, n_sampled=n_sampled, seed=seed)
    if n_sampled is not None:
        raise InvalidParameterError(
            "n_sampled is for thresholders: for a share of the rows the threshold of all is exact. Leave it out."
        )
    if is_lazy(checked):
        return joined(sorted_blocks(checked), _finite_threshold_of_runs, arguments=(float(contamination),))
    return _finite(threshold_of_share(checked, float(contamination)))


def flags(scores: Any, threshold: Any) -> Any:
    """Give 1 for scores above the threshold and 0 for the others. Identical for any chunking.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous.
    threshold : float or dask.array.Array of shape ()
        A score equal to it is not flagged, as in PyOD. It may come from these very scores: many of them then wait for
        it on scratch.

    Returns
    -------
    ndarray or dask.array.Array of int64, (n_rows,)
        The flags, in blocks like those of `scores`.

    Raises
    ------
    InvalidDataError
        A score is NaN.
    InvalidParameterError
        The threshold is NaN or no number; a lazy NaN is noticed when it is computed.

    Examples
    --------
    >>> flags([1.0, 2.0, np.inf], threshold=2.0)
    array([0, 0, 1])
    """
    return with_result(_above, checked_scores(scores), result=checked_threshold(threshold), dtype=np.int64)


def check_contamination(contamination: Any) -> None:
    """Refuse what is neither a share of the rows nor a thresholder.

    Raises
    ------
    InvalidParameterError
        It is neither.
    """
    if is_thresholder(contamination):
        return
    if not 0 < check_number("contamination", contamination, least=0) <= 0.5:
        raise InvalidParameterError(f"contamination must be above 0 and at most 0.5, got {contamination}.")


def threshold_of_share(scores: NDArray[np.float64], contamination: float) -> float:
    """Give the threshold of scores in memory, at least one, for a share of them; it may be infinite."""
    lower, upper, weight = percentile_ranks(len(scores), 100 * (1 - contamination))
    found = order_statistics(lambda: [scores], (lower, upper), n=len(scores), max_nbytes=SELECTION_NBYTES)
    return interpolate_extended(float(found[0]), float(found[1]), weight)


def _above(scores: NDArray[np.float64], threshold: Any) -> NDArray[np.int64]:
    flagged: NDArray[np.int64] = (scores > threshold).astype(np.int64)
    return flagged


def _finite_threshold_of_runs(blocks: Sequence[SortedBlock], contamination: float) -> float:
    runs, _ = all_runs(blocks)
    lower, upper, weight = percentile_ranks(sum(run.n_values for run in runs), 100 * (1 - contamination))
    found = order_statistics_of_runs(runs, (lower, upper))
    # Added to 0.0 a zero has the sign that it has in memory.
    return _finite(interpolate_extended(float(found[0]) + 0.0, float(found[1]) + 0.0, weight))


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise InvalidDataError(
            f"The threshold would be {value}: too many scores are infinite. Look at the rows with infinite "
            "scores, or change contamination."
        )
    return value
