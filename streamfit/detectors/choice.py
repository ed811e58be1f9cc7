"""Which algorithm fits a detector: exact, in memory, or batch-wise."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import psutil
from dask.utils import format_bytes

from streamfit.detectors import registry
from streamfit.detectors.batchwise import BatchWiseAlgorithm
from streamfit.detectors.in_memory import InMemoryAlgorithm, in_memory_nbytes
from streamfit.errors import ApproximationWarning, InvalidParameterError, UnsupportedError
from streamfit.options import BatchWise, Exact

if TYPE_CHECKING:
    from streamfit.detectors.algorithm import Algorithm
    from streamfit.feature_store import FeatureStore

__all__ = ["choose_algorithm"]


def choose_algorithm(
    detector: Any, method: str | Exact | BatchWise, store: FeatureStore, *, memory_limit: int | None
) -> Algorithm:
    """Choose as `StreamDetector` documents it.

    Raises
    ------
    InvalidParameterError
        `method` is none of those that exist.
    UnsupportedError
        The named method does not exist for this detector, or ``"auto"`` would have to approximate a
        detector whose scores need all pairs of rows.

    Warns
    -----
    ApproximationWarning
        ``"auto"`` approximates.
    """
    name = type(detector).__name__
    if store.is_sparse:
        raise UnsupportedError(
            f"{name} needs dense rows, as all detectors of PyOD, and the store {store.path} is sparse with "
            f"{store.n_features:,} columns. Make few dense columns of them first, such as by the pipeline "
            f"make_pipeline(SparseRandomProjection(100, dense_output=True), {name}())."
        )
    together = registry.scores_rows_together(detector)
    if isinstance(method, BatchWise):
        if together and method.score != "in_batch":
            raise UnsupportedError(
                f"{name} scores rows among each other, so a member's score of rows that it did not train on depends on "
                'which of them come together. Use sf.BatchWise(score="in_batch").'
            )
        return BatchWiseAlgorithm(method)
    if not (isinstance(method, Exact) or method == "auto"):
        raise InvalidParameterError(f"method must be 'auto', sf.Exact() or sf.BatchWise(), got {method!r}.")
    entry = registry.find(detector)
    reason = f"there is no exact algorithm for {name} yet"
    if entry is not None:
        exact = entry.load(method if isinstance(method, Exact) else Exact())
        refused = exact.refusal(detector)
        if refused is None:
            return exact
        reason = refused
    if isinstance(method, Exact):
        raise UnsupportedError(f"{name} cannot be fitted exactly: {reason}. Use method=sf.BatchWise().")
    needed = in_memory_nbytes(store.layout)
    affordable = memory_limit if memory_limit is not None else psutil.virtual_memory().available // 2
    if needed <= affordable:
        return InMemoryAlgorithm()
    too_much = f"{format_bytes(needed)} for all {store.n_rows:,} rows exceed {format_bytes(affordable)}"
    hopeless = registry.refusal(detector)
    if hopeless is not None:
        raise UnsupportedError(
            f"{name}: {hopeless}, and {too_much}. Ask for an approximation by name: method=sf.BatchWise()."
        )
    warnings.warn(
        f"{name} is approximated batch-wise: {reason}, and {too_much}. Scores are those of an ensemble over batches, "
        f"not of {name} on all rows; pass method=sf.BatchWise() to choose its options and to silence this.",
        ApproximationWarning,
        stacklevel=3,
    )
    return BatchWiseAlgorithm(BatchWise(score="in_batch") if together else BatchWise())
