"""KNN, exactly: every pair of rows is measured, or left out by a proof that it cannot matter.

Ramaswamy, S., Rastogi, R. and Shim, K. (2000). Efficient algorithms for mining outliers from large data
sets. SIGMOD. Angiulli, F. and Pizzuti, C. (2002). Fast outlier detection in high dimensional spaces. PKDD.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import delayed

from streamfit.detectors.algorithm import Method
from streamfit.errors import BudgetError, InvalidParameterError
from streamfit.neighbor_search import SearchReport, neighbors_of_new_rows, neighbors_of_rows
from streamfit.options import check_count
from streamfit.plan.budget import FIXED_NBYTES
from streamfit.store.lazy import ref_node
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.detectors.algorithm import FitContext
    from streamfit.options import Exact
    from streamfit.plan.layout import StoreLayout
    from streamfit.run.spool import ScoreSpool
    from streamfit.store.reader import StoreRef
    from streamfit.store.scratch import Scratch

__all__ = ["KNNAlgorithm"]

_FLOPS_PER_SECOND = 2e10
"""Of one core at the slowest seen here, so that a projection is rather too long than too short."""


@dataclass(frozen=True, slots=True)
class _Search:
    n_neighbors: int
    aggregation: str

    def __post_init__(self) -> None:
        check_count("n_neighbors", self.n_neighbors, least=1)
        if self.aggregation not in ("largest", "mean", "median"):
            raise InvalidParameterError(f"method must be 'largest', 'mean' or 'median', got {self.aggregation!r}.")


@dataclass(frozen=True, slots=True)
class _FittedKNN:
    ref: StoreRef
    search: _Search
    memory_limit: int | None
    report: SearchReport
    scratch: Scratch  # the training rows may lie there
    detector: None = None  # PyOD's object would hold all training rows
    reads_rows: bool = True

    @property
    def method(self) -> Method:
        note = (
            f"all pairs, {self.report.measured_share:.2%} of them measured in float64 and the others left out by proof."
        )
        return Method("exact", "Equal", note)

    @property
    def needs_scratch(self) -> bool:
        # It reads the training rows, wherever they lie.
        return Path(self.scratch.path) in Path(self.ref.path).parents

    def score(self, X: NDArray[Any]) -> NDArray[np.float64]:
        blocks = neighbors_of_new_rows(
            open_reader(self.ref), X, n_neighbors=self.search.n_neighbors, memory_limit=self.memory_limit, n_workers=1
        )
        scores = [_aggregate(block.distances, self.search.aggregation) for block in blocks]
        return np.concatenate(scores) if scores else np.empty(0)


@dataclass(frozen=True, slots=True)
class KNNAlgorithm:
    """``pyod.models.knn.KNN`` with Euclidean distance; equal to float64 distances between all rows."""

    options: Exact

    def refusal(self, detector: Any) -> str | None:
        """Say which metric has no exact form here."""
        euclidean = detector.metric in ("euclidean", "l2") or (detector.metric == "minkowski" and detector.p == 2)
        if euclidean and detector.metric_params is None:
            return None
        return f"KNN is exact for Euclidean distance, got metric={detector.metric!r}, p={detector.p!r}"

    def fit(self, detector: Any, context: FitContext) -> _FittedKNN:
        """Search the neighbours of all rows and write their scores, block by block."""
        search = _Search(detector.n_neighbors, detector.method)
        store, engine = context.store, context.engine
        _check_time(store.layout, n_workers=engine.n_workers, max_hours=self.options.max_hours)
        limit = context.memory_limit
        # What is fixed is there once a process, and counted by each search.
        share = None if limit is None else FIXED_NBYTES + max(0, limit - FIXED_NBYTES) // engine.n_workers
        if engine.shares_memory:
            # One call with threads of its own, in this thread, so that an interrupt ends it.
            everything = range(store.n_rows)
            reports = [engine.run(_spool_run, store.ref, everything, search, context.spool, limit, engine.n_workers)]
        else:
            # A block is joined with itself at half the price, so there are no more blocks than workers.
            edges = np.linspace(0, store.n_rows, min(engine.n_workers, store.n_rows) + 1).astype(int).tolist()
            rows = ref_node(store.ref)
            tasks = [
                delayed(_spool_run, pure=False)(rows, range(a, b), search, context.spool, share, 1)
                for a, b in pairwise(edges)
            ]
            reports = list(engine.compute(*tasks))
        report = reports[0]
        for other in reports[1:]:
            report += other
        return _FittedKNN(store.ref, search, share, report, context.scratch)


def _spool_run(
    ref: StoreRef, rows: range, search: _Search, spool: ScoreSpool, memory_limit: int | None, n_threads: int
) -> SearchReport:
    report = SearchReport(0, 0, 0, 0, 0)
    for block in neighbors_of_rows(
        open_reader(ref), rows, n_neighbors=search.n_neighbors, memory_limit=memory_limit, n_workers=n_threads
    ):
        spool.write(block.start, _aggregate(block.distances, search.aggregation))
        report += block.report
    return report


def _aggregate(distances: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    if how == "largest":
        return distances[:, -1].copy()
    joined = distances.mean(axis=1) if how == "mean" else np.median(distances, axis=1)
    return np.asarray(joined, dtype=np.float64)


def _check_time(layout: StoreLayout, *, n_workers: int, max_hours: float) -> None:
    # Below 16 columns a pair costs about as much as with 16: its bound and its place in the list.
    flops = 2.0 * layout.n_rows**2 * max(16, layout.n_features)
    hours = flops / (_FLOPS_PER_SECOND * n_workers) / 3600
    if hours > max_hours:
        raise BudgetError(
            f"Exact neighbours of {layout.n_rows:,} rows × {layout.n_features} would take up to {hours:,.0f} hours on "
            f"{n_workers} workers, more than max_hours={max_hours:g}. Allow it with method=sf.Exact(max_hours="
            f"{int(hours) + 1}), use more workers, or ask for an approximation by name: method=sf.BatchWise()."
        )
