"""``streamfit fit`` of a PyOD detector: scores, threshold and the rows that stand out, in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.cli.refusals import refusals_of
from streamfit.cli.row_output import top_facts, top_of_file, write_npy, write_top
from streamfit.reporting.waiting import waiting

if TYPE_CHECKING:
    from streamfit.cli.fitted_folder import FittedFolder
    from streamfit.detector import StreamDetector
    from streamfit.feature_store import FeatureStore

__all__ = ["fit_detector"]

_N_TOP = 20
_COUNTED_ROWS = 1 << 20


def fit_detector(detector: StreamDetector, store: FeatureStore, folder: FittedFolder) -> dict[str, Any]:
    """Fit, write the results, and give what the summary tells of them."""
    name = type(detector.detector).__name__
    with waiting(f"fit {name}"):
        with refusals_of(detector.detector):
            detector.fit(store)
        lazy_scores: Any = detector.decision_scores_  # of a store they are a dask array
        write_npy(folder.scores_file, lazy_scores)
    scores = np.load(folder.scores_file, mmap_mode="r")
    starts = range(0, len(scores), _COUNTED_ROWS)
    n_flagged = sum(int((scores[start : start + _COUNTED_ROWS] > detector.threshold_).sum()) for start in starts)
    top = top_of_file(folder.scores_file, store, _N_TOP)
    write_top(folder.path / "top.csv", top)
    method = detector.method_
    if detector.detector_ is None:
        not_saved: str | None = (
            f"{name} fitted by method {method.name} is no single PyOD object, and such models are not written yet."
        )
    else:
        not_saved = folder.write_model(detector.detector_)
    return {
        "not_saved": not_saved,
        "method": {"name": method.name, "rung": method.rung, "note": method.note},
        "threshold": detector.threshold_,
        "n_flagged": n_flagged,
        "flagged_share": n_flagged / store.n_rows,
        "top": top_facts(top),
    }
