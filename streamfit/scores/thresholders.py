"""A threshold as a thresholder of PyThresh finds it, on the scale of the scores."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, UnsupportedError
from streamfit.plan.shuffle_order import ShuffleOrder
from streamfit.scores.blockwise import joined, per_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["fitted_threshold", "is_thresholder", "thresholder_threshold"]

_NUMPY_SEED = threading.Lock()
"""Thresholders draw from NumPy's global random numbers."""


def is_thresholder(value: Any) -> bool:
    """Tell whether something is used as the thresholders of PyThresh are."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("fit", "eval"))


def thresholder_threshold(scores: Any, thresholder: Any, *, n_sampled: int | None, seed: int) -> Any:
    """Give the threshold that a thresholder finds in scores, or in a sample of them.

    Parameters
    ----------
    scores : ndarray or dask.array.Array of float64, (n_rows,)
        At least one.
    thresholder : PyThresh thresholder
        It is copied, never changed.
    n_sampled : int or None
        Rows to show to the thresholder beside the lowest and the highest score; None: all rows, in one task.
    seed : int
        Seed of the sample. Which rows it has follows from their numbers and the seed alone.

    Returns
    -------
    float, or dask.array.Array of shape ()
        The threshold.
    """
    n_rows = scores.shape[0]
    if n_sampled is None or n_sampled >= n_rows:
        return joined(per_block(_finite, scores), _of_all, arguments=(thresholder,))
    samples = per_block(_sample, scores, arguments=(ShuffleOrder(n_rows=n_rows, seed=seed), n_sampled))
    return joined(samples, _of_sample, arguments=(thresholder,), merge=_Sample.merged)


def fitted_threshold(thresholder: Any, scores: NDArray[np.float64]) -> tuple[float, Any]:
    """Give the threshold of a thresholder on the scale of the scores, and a copy of it that was fitted to them.

    A score is above the threshold exactly where the fitted thresholder has the label 1.

    Parameters
    ----------
    thresholder : PyThresh thresholder
        It is copied, never changed.
    scores : ndarray of float64, (n_rows,)
        Finite, at least one.

    Raises
    ------
    InvalidDataError
        All scores are equal, which leaves nothing to scale.
    UnsupportedError
        The labels are not those of any threshold.
    """
    least, most = float(scores.min()), float(scores.max())
    if least == most:
        raise InvalidDataError(
            f"All {len(scores)} scores are {least}, and a thresholder scales them by their range. Give a share of the "
            "rows as contamination, or look at the detector."
        )
    fitted = deepcopy(thresholder)
    with _seeded(getattr(thresholder, "random_state", None)):
        fitted.fit(scores)
    flagged = np.asarray(fitted.labels_).ravel() == 1
    below = float(scores[~flagged].max()) if not flagged.all() else float(np.nextafter(least, -np.inf))
    above = float(scores[flagged].min()) if flagged.any() else np.inf
    if above <= below:
        raise UnsupportedError(
            f"{type(thresholder).__name__} flags a score of {above} and not one of {below}, so its labels are not "
            "those of a threshold. Use them as they are, thresholder.fit(scores).labels_, or choose another one."
        )
    limit = getattr(fitted, "thresh_", None)
    if limit is None or not np.isfinite(limit):
        return below, fitted
    # What it found lies on a scale from 0 to 1, and a score there is flagged where it is reached: roundings of the
    # way back must not move a row to the other side.
    found = least + float(limit) * (most - least)
    return float(min(max(found, below), np.nextafter(above, -np.inf))), fitted


@contextmanager
def _seeded(random_state: Any) -> Iterator[None]:
    """Seed NumPy's global random numbers as thresholders do when they are made, and leave them as they were."""
    with _NUMPY_SEED:
        before = np.random.get_state()  # noqa: NPY002  # those that thresholders draw from
        try:
            if isinstance(random_state, (int, np.integer)):
                np.random.seed(int(random_state))  # noqa: NPY002
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


def _finite(scores: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    infinite = np.isinf(scores)
    if infinite.any():
        row = start + int(infinite.argmax())
        raise InvalidDataError(
            f"The score of row {row} is {scores[row - start]}, and thresholders take finite scores only. Look at the "
            "rows that nonfinite(scores) names, or give a share of the rows as contamination.",
            row=row,
        )
    return scores


def _of_all(blocks: Sequence[NDArray[np.float64]], thresholder: Any) -> float:
    return fitted_threshold(thresholder, np.concatenate(blocks) if len(blocks) > 1 else blocks[0])[0]


def _of_sample(samples: Sequence[_Sample], thresholder: Any) -> float:
    (sample,) = samples
    # Without the extremes the scale from 0 to 1 would be that of the sample.
    missing = [value for value in (sample.least, sample.most) if value not in sample.scores]
    return fitted_threshold(thresholder, np.append(sample.scores, missing))[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """The rows with the smallest keys, in row order, and the extremes of all rows."""

    n_rows: int
    """Rows to keep."""
    keys: NDArray[np.uint64]
    """Keys of the rows, ``(n_kept,)``."""
    scores: NDArray[np.float64]
    """Scores of the rows, ``(n_kept,)``."""
    least: float
    """Lowest score of all rows, +inf of none."""
    most: float
    """Highest score of all rows, -inf of none."""

    @classmethod
    def of(
        cls, keys: NDArray[np.uint64], scores: NDArray[np.float64], *, n_rows: int, least: float, most: float
    ) -> _Sample:
        if len(keys) > n_rows:
            cut = np.partition(keys, n_rows - 1)[n_rows - 1]
            kept = keys < cut
            kept[np.flatnonzero(keys == cut)[: n_rows - np.count_nonzero(kept)]] = True
            keys, scores = keys[kept], scores[kept]
        return cls(n_rows, keys, scores, least, most)

    def merged(self, other: _Sample) -> _Sample:
        return _Sample.of(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.scores, other.scores]),
            n_rows=self.n_rows,
            least=min(self.least, other.least),
            most=max(self.most, other.most),
        )


def _sample(scores: NDArray[np.float64], start: int, order: ShuffleOrder, n_sampled: int) -> _Sample:
    _finite(scores, start)
    keys = order.keys(start, start + len(scores))
    least, most = float(scores.min(initial=np.inf)), float(scores.max(initial=-np.inf))
    return _Sample.of(keys, scores, n_rows=n_sampled, least=least, most=most)
