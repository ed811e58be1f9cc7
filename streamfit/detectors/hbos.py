"""HBOS, exactly: extremes, then counts, then scores.

Goldstein, M. and Dengel, A. (2012). Histogram-based outlier score (HBOS): a fast unsupervised anomaly
detection algorithm. KI-2012 poster track.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyod.models import hbos

from streamfit.detectors.algorithm import Method, score_chunk
from streamfit.errors import InvalidParameterError
from streamfit.maths.histogram_scores import BinScores
from streamfit.maths.summaries.candidates import CandidateHistograms
from streamfit.maths.summaries.extremes import MinMax
from streamfit.maths.summaries.histogram import HistogramCounts
from streamfit.run.passes import spool_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.detectors.algorithm import FitContext
    from streamfit.options import Exact

__all__ = ["HBOSAlgorithm", "restored"]

_METHOD = Method("exact", "Bit-equal", "extremes and counts over all rows; bins scored by PyOD's own function.")


@dataclass(frozen=True, slots=True)
class _FittedHBOS:
    detector: Any
    bins: BinScores
    method: Method = _METHOD
    needs_scratch: bool = False
    reads_rows: bool = False

    def score(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return -self.bins.sums(X)


def restored(detector: Any) -> _FittedHBOS:
    """Make what scores new rows of an HBOS that was filled in by `HBOSAlgorithm`."""
    return _FittedHBOS(detector, _bin_scores(detector))


@dataclass(frozen=True, slots=True)
class HBOSAlgorithm:
    """``pyod.models.hbos.HBOS`` in three passes; bit-equal to its ``fit`` on all rows.

    With ``n_bins="auto"`` the second pass counts 1, 2, … √n bins, as PyOD does, which takes memory of
    ``4 · n`` bytes a feature.
    """

    options: Exact

    def refusal(self, detector: Any) -> str | None:  # noqa: ARG002  # all parameters have an exact form
        """Give None: every HBOS can be fitted exactly."""
        return None

    def fit(self, detector: Any, context: FitContext) -> _FittedHBOS:
        """Fill in a clone of `detector` and write the training scores."""
        store = context.store
        automatic = isinstance(detector.n_bins, str) and detector.n_bins.lower() == "auto"
        if not automatic and not (hasattr(detector.n_bins, "__index__") and detector.n_bins >= 2):
            raise InvalidParameterError(f"n_bins must be 'auto' or an integer of at least 2, got {detector.n_bins!r}.")
        extremes = store.reduce(
            MinMax(store.n_features, dtype=store.dtype), memory_limit=context.memory_limit, engine=context.engine
        )
        if automatic:
            candidates = CandidateHistograms(extremes.minimum, extremes.maximum, n_rows=store.n_rows)
            histograms = store.reduce(candidates, memory_limit=context.memory_limit, engine=context.engine)
        else:
            counts = HistogramCounts(extremes.minimum, extremes.maximum, n_bins=detector.n_bins)
            histograms = store.reduce(counts, memory_limit=context.memory_limit, engine=context.engine)
        hist = [_density(counts, edges) for counts, edges in histograms]
        edges = [edges for _, edges in histograms]
        detector.hist_ = hist if automatic else np.stack(hist, axis=1)
        detector.bin_edges_ = edges if automatic else np.stack(edges, axis=1).astype(np.float64)
        fitted = _FittedHBOS(detector, _bin_scores(detector))
        spool_scores(
            store.ref,
            store.layout,
            score_chunk,
            model=fitted,
            spool=context.spool,
            task_nbytes=8 * store.layout.chunk_rows + fitted.bins.tile_nbytes,
            memory_limit=context.memory_limit,
            engine=context.engine,
        )
        return fitted


def _density(counts: NDArray[np.int64], edges: NDArray[Any]) -> NDArray[np.float64]:
    # The very expression of np.histogram(density=True), so that not even the last bit differs.
    widths = np.array(np.diff(edges), float)
    density: NDArray[np.float64] = counts / widths / counts.sum()
    return density


def _bin_scores(detector: Any) -> BinScores:
    """Ask PyOD itself for the score of each bin, at the bin's right edge, so that it is PyOD's to the bit."""
    automatic = isinstance(detector.n_bins, str)
    edges = detector.bin_edges_ if automatic else list(detector.bin_edges_.T)
    scores = []
    for column, (column_edges, hist) in enumerate(zip(edges, _columns(detector), strict=True)):
        right = np.asarray(column_edges[1:])[:, None]
        if automatic:
            found = hbos._calculate_outlier_scores_auto(  # noqa: SLF001  # see canary
                right, [detector.bin_edges_[column]], [hist], detector.alpha, detector.tol
            )
        else:
            found = hbos._calculate_outlier_scores(  # noqa: SLF001  # see canary
                right.astype(np.float64),
                np.ascontiguousarray(detector.bin_edges_[:, [column]]),
                np.ascontiguousarray(hist[:, None]),
                detector.n_bins,
                detector.alpha,
                detector.tol,
            )
        scores.append(found[:, 0])
    return BinScores.of(edges, scores, tolerance=detector.tol)


def _columns(detector: Any) -> list[NDArray[np.float64]]:
    return detector.hist_ if isinstance(detector.n_bins, str) else list(detector.hist_.T)
