"""Which PyOD detector has which method, by the path of its class, so that nothing is imported early."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from streamfit.detectors.algorithm import ExactAlgorithm
    from streamfit.options import Exact

__all__ = ["Entry", "entries", "find", "refusal", "scores_rows_together"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An exact algorithm for one PyOD class."""

    detector: str
    """Path of the PyOD class."""
    algorithm: str
    """Path of the algorithm's class, which is made with the options of `Exact`."""
    rung: str
    """Rung of equality with PyOD on all rows in memory."""
    how: str
    """What is streamed, in a few words."""

    def load(self, options: Exact) -> ExactAlgorithm:
        """Import and make the algorithm."""
        module, _, name = self.algorithm.rpartition(".")
        return cast("ExactAlgorithm", getattr(importlib.import_module(module), name)(options))


_ENTRIES = (
    Entry(
        "pyod.models.hbos.HBOS",
        "streamfit.detectors.hbos.HBOSAlgorithm",
        "Bit-equal",
        "extremes, then counts, then scores",
    ),
    Entry(
        "pyod.models.knn.KNN",
        "streamfit.detectors.knn.KNNAlgorithm",
        "Equal",
        "all pairs: left out by proven bounds, or measured in float64 (Euclidean distance)",
    ),
)

# Classes whose single scores make no sense without an n × n matrix, by the reason a user can act on.
_REFUSED_BY_AUTO = {
    "pyod.models.ocsvm.OCSVM": "a support vector machine needs all pairs of rows at once",
    "pyod.models.kpca.KPCA": "kernel PCA needs the matrix of all pairs of rows",
}


# Their `decision_function` ranks, scales or connects the given rows among each other (seen with PyOD 3.6.7: scores of
# single rows differ from those of the same rows together), so it is no function of a row.
_SCORES_ROWS_TOGETHER = frozenset(
    f"pyod.models.{name.lower()}.{name}"
    for name in ("CD", "COF", "COPOD", "ECOD", "LMDD", "RGraph", "ROD", "SOD", "SOS")
)


def entries() -> tuple[Entry, ...]:
    """Give all exact algorithms, sorted by class."""
    return tuple(sorted(_ENTRIES, key=lambda entry: entry.detector))


def _class_path(detector: Any) -> str:
    return f"{type(detector).__module__}.{type(detector).__qualname__}"


def find(detector: Any) -> Entry | None:
    """Give the exact algorithm of a detector, or None. A subclass may score otherwise: it has none."""
    path = _class_path(detector)
    return next((entry for entry in _ENTRIES if entry.detector == path), None)


def scores_rows_together(detector: Any) -> bool:
    """Tell whether PyOD's score of a new row depends on the rows that it is scored with."""
    return _class_path(detector) in _SCORES_ROWS_TOGETHER


def refusal(detector: Any) -> str | None:
    """Say why ``method="auto"`` refuses a detector that does not fit memory, or None if it does not."""
    return _REFUSED_BY_AUTO.get(_class_path(detector))
