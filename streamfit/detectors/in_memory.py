"""All rows in memory, by PyOD itself: what ``method="auto"`` does where they fit."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.detectors.algorithm import Method

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.detectors.algorithm import FitContext
    from streamfit.plan.layout import StoreLayout

__all__ = ["InMemoryAlgorithm", "in_memory_nbytes", "restored"]

_METHOD = Method("in_memory", "Bit-equal", "PyOD's own fit on all rows, which fit the memory limit.")

_COPIES = 6
"""PyOD's detectors were seen to add up to 4.8 times the float64 matrix (ECOD) to the matrix itself."""


def in_memory_nbytes(layout: StoreLayout) -> int:
    """Project the bytes of fitting a PyOD detector to all rows in memory."""
    return layout.nbytes + _COPIES * layout.n_rows * layout.n_features * 8


@dataclass(frozen=True, slots=True)
class _FittedInMemory:
    detector: Any
    method: Method = _METHOD
    needs_scratch: bool = False
    reads_rows: bool = False

    def score(self, X: NDArray[Any]) -> NDArray[np.float64]:
        # Some detectors keep what they are computing on themselves, and tasks share one object: each has its own.
        scores = copy(self.detector).decision_function(X)
        return np.asarray(scores, dtype=np.float64).reshape(len(X))


def restored(detector: Any) -> _FittedInMemory:
    """Make what scores new rows of a fitted PyOD detector."""
    return _FittedInMemory(detector)


@dataclass(frozen=True, slots=True)
class InMemoryAlgorithm:
    """Any PyOD detector, fitted as PyOD fits it."""

    def fit(self, detector: Any, context: FitContext) -> _FittedInMemory:
        """Read all rows, fit, and write the training scores."""
        store = context.store
        detector.fit(store.take(np.arange(store.n_rows, dtype=np.int64)))
        context.spool.write(0, np.asarray(detector.decision_scores_, dtype=np.float64))
        return _FittedInMemory(detector)
