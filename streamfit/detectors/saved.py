"""Fitted detectors without their training scores, and with them again: what a file of a model is made of."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from streamfit.errors import ScoresNotSavedError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.detectors.algorithm import FittedAlgorithm, Method

__all__ = ["SAVED_SCORES_NBYTES", "ScoresLeftOut", "restored", "scores_to_save", "with_scores", "without_scores"]

SAVED_SCORES_NBYTES = 64 * 2**20
"""Training scores of up to so many bytes, 8 a row, are a part of the file of a detector."""


class ScoresLeftOut:
    """Stands for training scores that are in no file: a PyOD object is fitted with it, and whoever reads it is told.

    Parameters
    ----------
    n_rows : int
        Training rows.
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows

    def refuse(self) -> Never:
        """Raise.

        Raises
        ------
        ScoresNotSavedError
            Always.
        """
        raise ScoresNotSavedError(
            f"The training scores of {self.n_rows:,} rows are no part of the saved detector: a file has those of up to "
            f"{SAVED_SCORES_NBYTES // 8:,} rows. Score the rows by decision_function, or write decision_scores_ beside "
            "the file when you save it."
        )

    def __getattr__(self, name: str) -> Never:
        if name.startswith("__") or name == "n_rows":  # Python asks for what may not be there
            raise AttributeError(name)
        self.refuse()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Never:
        self.refuse()

    def __len__(self) -> Never:  # noqa: PLE0303  # it raises
        self.refuse()

    def __getitem__(self, key: Any) -> Never:
        self.refuse()


def scores_to_save(scores: Any) -> NDArray[np.float64] | None:
    """Give training scores as an array, or None where they are too many for a file.

    Parameters
    ----------
    scores : dask.array.Array or ndarray, (n_rows,)
        The scores, which may be lazy.
    """
    if scores.dtype.itemsize * scores.shape[0] > SAVED_SCORES_NBYTES:
        return None
    return np.asarray(scores)


def without_scores(detector: Any) -> Any:
    """Give a copy of a fitted PyOD detector that has neither training scores nor labels."""
    detector = copy.copy(detector)
    for name in ("decision_scores_", "labels_"):
        vars(detector).pop(name, None)
    return detector


def with_scores(detector: Any, scores: Any, labels: Any) -> Any:
    """Give a PyOD detector its training scores and labels; it takes itself for fitted when they are there."""
    detector.decision_scores_, detector.labels_ = scores, labels
    return detector


def restored(detector: Any, method: Method) -> FittedAlgorithm:
    """Make what scores new rows from a fitted PyOD detector that was saved.

    Raises
    ------
    UnsupportedError
        A detector that was fitted by this method is more than a PyOD object.
    """
    if method.name == "in_memory":
        from streamfit.detectors import in_memory

        return in_memory.restored(detector)
    if method.name == "exact" and f"{type(detector).__module__}.{type(detector).__name__}" == "pyod.models.hbos.HBOS":
        from streamfit.detectors import hbos

        return hbos.restored(detector)
    raise UnsupportedError(
        f"A {type(detector).__name__} that was fitted by method {method.name} scores by more than its own attributes."
    )
