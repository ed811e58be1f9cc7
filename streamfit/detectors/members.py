"""One member of a batch-wise ensemble, which members score a row, and how their scores are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from streamfit.options import BatchWise

__all__ = ["Member", "combine", "draw_members"]

_DRAW_ROWS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A detector fitted on one batch, with what makes its scores comparable to those of others."""

    detector: Any
    """The fitted PyOD detector, or None where only its training scores are kept."""
    rows: NDArray[np.int64]
    """Global numbers of the rows it trained on, ascending, ``(rows of the batch,)``."""
    scores: NDArray[np.float64]
    """Their training scores, in the order of `rows`."""

    @classmethod
    def of(cls, detector: Any, rows: NDArray[np.int64], *, keep: bool) -> Self:
        """Take over a detector that was fitted on some rows, in this order."""
        order = np.argsort(rows)
        scores = _finite(detector, np.asarray(detector.decision_scores_, dtype=np.float64).reshape(len(rows)))
        return cls(detector if keep else None, rows[order], scores[order])

    def training_scores(self, rows: NDArray[np.int64], calibrate: str) -> NDArray[np.float64]:
        """Give calibrated training scores of rows that this member trained on."""
        return self._calibrate(self.scores[np.searchsorted(self.rows, rows)], calibrate)

    def new_scores(self, X: NDArray[Any], calibrate: str) -> NDArray[np.float64]:
        """Score rows ``(n_rows, n_features)`` that this member did not train on."""
        scores = np.asarray(self.detector.decision_function(X), dtype=np.float64).reshape(len(X))
        return self._calibrate(_finite(self.detector, scores), calibrate)

    def _calibrate(self, scores: NDArray[np.float64], how: str) -> NDArray[np.float64]:
        """Make scores comparable by the training scores of this member alone."""
        if how == "zscore":
            scaled: NDArray[np.float64] = (scores - self.scores.mean()) / (self.scores.std() or 1.0)
            return scaled
        if how == "rank":
            below: NDArray[np.float64] = np.searchsorted(np.sort(self.scores), scores, side="right") / len(self.scores)
            return below
        return scores


def _finite(detector: Any, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    bad = len(scores) - int(np.isfinite(scores).sum())
    if bad:
        raise InvalidDataError(
            f"{type(detector).__name__}, fitted on one batch, gave {bad} of {len(scores)} rows a score that is not "
            "finite. Raise batch_size, scale the features, or drop constant ones."
        )
    return scores


def draw_members(trained: NDArray[np.bool_], options: BatchWise, *, chunk: int) -> NDArray[np.bool_]:
    """Choose the members that score each row.

    Parameters
    ----------
    trained : ndarray of bool, (n_rows, n_members)
        Which members trained on which rows.
    options : BatchWise
        Seed, members a row, and whether rows are scored in or out of their batch.
    chunk : int
        Number of the chunk, part of the seed: the draw does not depend on which rows are scored together.

    Returns
    -------
    ndarray of bool, (n_rows, n_members)
        At least one member for each row: a row that all members trained on is scored by those.
    """
    eligible = trained if options.score == "in_batch" else ~trained
    # Where all members trained on a row, or none of those kept did, there is no other choice.
    eligible = np.where(eligible.any(axis=1, keepdims=True), eligible, True)
    if options.score == "in_batch":
        return eligible
    n_rows, n_members = trained.shape
    seeds = np.random.SeedSequence(options.random_state, spawn_key=(_DRAW_ROWS, chunk))
    keys = np.random.Generator(np.random.PCG64(seeds)).random((n_rows, n_members), dtype=np.float32)
    keys[~eligible] = 2.0  # beyond every key of an eligible member
    wanted = min(options.members_per_row, n_members)
    chosen = np.argpartition(keys, wanted - 1, axis=1)[:, :wanted]
    drawn = np.zeros_like(eligible)
    np.put_along_axis(drawn, chosen, values=True, axis=1)
    return drawn & eligible


def combine(scores: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Join calibrated scores ``(n_rows, n_scores)``; NaN marks members that did not score a row."""
    if how == "mean":
        joined = np.nanmean(scores, axis=1)
    elif how == "median":
        joined = np.nanmedian(scores, axis=1)
    else:
        joined = np.nanmax(scores, axis=1)
    return np.asarray(joined, dtype=np.float64)
