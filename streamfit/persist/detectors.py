"""The file of a `StreamDetector`."""

from __future__ import annotations

import copy
import io
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from streamfit.detector import StreamDetector
from streamfit.detectors.algorithm import Method
from streamfit.detectors.prefix import split_detector
from streamfit.detectors.saved import ScoresLeftOut, restored, scores_to_save, with_scores, without_scores
from streamfit.errors import UnsupportedError
from streamfit.incremental.transformers import TransformerMethod
from streamfit.maths.score_statistics import ScoreStatistics
from streamfit.options import BatchWise, Exact
from streamfit.persist.parts import FITTED, LEFT_OUT, UNFITTED, column_names, file_bytes, name_columns
from streamfit.run.codecs import encode_estimator
from streamfit.run.column_order import ColumnOrder
from streamfit.run.links import links_of
from streamfit.run.row_mapping import TransformerChain

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from streamfit.run.model_file import ModelFile

__all__ = ["detector_bytes", "read_detector"]

_STEPS, _SCORES = "transformers.skops", "scores.npy"
_METHODS = {"Exact": Exact, "BatchWise": BatchWise}


def detector_bytes(detector: StreamDetector, *, trust: Collection[str]) -> bytes:
    """Write a detector as the content of a file.

    Raises
    ------
    UnsupportedError
        It scores new rows by more than a PyOD object.
    UnwritableError, UntrustedTypesError
        It cannot be written, or not be read back.
    """
    parameters = {name: value for name, value in detector.get_params(deep=False).items() if name not in LEFT_OUT}
    method = parameters.pop("method")
    facts: dict[str, Any] = {
        "parameters": parameters,
        "method": method if isinstance(method, str) else {type(method).__name__: asdict(method)},
        "fitted": None,
    }
    parts = {UNFITTED: encode_estimator(detector.detector, trust=trust, complete=True)}
    if not hasattr(detector, "threshold_"):
        return file_bytes("detector", facts, parts)
    state = vars(detector)
    fitted, prefix = state["_fitted"], state["_prefix"]
    if fitted.detector is None:
        raise UnsupportedError(_why_not(detector))
    pyod = without_scores(fitted.detector)
    restored(pyod, detector.method_)  # what could not be made again is refused now
    parts[FITTED] = encode_estimator(pyod, trust=trust, complete=True)
    if detector.transformers_:
        parts[_STEPS] = encode_estimator(Pipeline(detector.transformers_), trust=trust, complete=True)
    kept = state.get("decision_scores_")
    scores = None if kept is None else scores_to_save(kept)
    facts["fitted"] = {
        "method": asdict(detector.method_),
        "threshold": float(detector.threshold_),
        "statistics": asdict(state["_statistics"]),
        "n_features_in": detector.n_features_in_,
        "feature_names": column_names(detector),
        "transformer_methods": [asdict(way) for way in detector.transformer_methods_],
        "prefix": None if prefix is None else _prefix_facts(prefix),
        "n_rows": state["_n_scores_left_out"] if kept is None else int(kept.shape[0]),
    }
    if scores is not None:
        parts[_SCORES] = _npy(scores)
    return file_bytes("detector", facts, parts)


def read_detector(held: ModelFile, *, trust: Collection[str]) -> StreamDetector:
    """Read a detector.

    Raises
    ------
    CheckpointError
        As `sf.load`.
    """
    facts = held.facts
    method: Any = facts["method"]
    if not isinstance(method, str):
        ((name, options),) = method.items()
        method = _METHODS[name](**options)
    detector = StreamDetector(held.decode(UNFITTED, trust=trust), method=method, **facts["parameters"])
    found = facts["fitted"]
    if found is None:
        return detector
    threshold = found["threshold"]
    scores: Any = None
    if _SCORES in held.parts:
        scores = np.load(io.BytesIO(held.parts[_SCORES]), allow_pickle=False)
        labels: Any = (scores > threshold).astype(np.int64)
        detector.decision_scores_, detector.labels_ = scores, labels
    else:
        detector.__dict__["_n_scores_left_out"] = found["n_rows"]
        scores = labels = ScoresLeftOut(found["n_rows"])
    pyod = with_scores(held.decode(FITTED, trust=trust), scores, labels)
    steps = held.decode(_STEPS, trust=trust).steps if _STEPS in held.parts else []
    fitted = restored(pyod, Method(**found["method"]))
    detector.__dict__.update(
        _fitted=fitted,
        _prefix=None if found["prefix"] is None else _prefix(found["prefix"], steps),
        _statistics=ScoreStatistics(**found["statistics"]),
        _scratch=None,
    )
    detector.threshold_ = threshold
    detector.method_ = Method(**found["method"])
    detector.transformers_ = steps
    detector.transformer_methods_ = tuple(TransformerMethod(**way) for way in found["transformer_methods"])
    detector.detector_ = pyod
    if isinstance(detector.detector, Pipeline):
        detector.detector_ = Pipeline([*steps, (split_detector(detector.detector)[1], pyod)])
    detector.n_features_in_ = found["n_features_in"]
    name_columns(detector, found["feature_names"])
    return detector


def _why_not(detector: StreamDetector) -> str:
    name = type(split_detector(detector.detector)[2]).__name__
    if detector.method_.name == "batch_wise":
        why = "scores new rows by an ensemble that lies on scratch"
    else:
        why = "scores new rows by its training rows, which are a whole store"
    return (
        f"{name} fitted by method {detector.method_.name} {why}, so it is no file. Name a folder that stays, "
        "StreamDetector(…, scratch=folder), and pickle it; or fit PyOD's own object to rows in memory and save that."
    )


def _npy(scores: NDArray[np.float64]) -> bytes:
    content = io.BytesIO()
    np.save(content, scores, allow_pickle=False)
    return content.getvalue()


def _prefix_facts(prefix: TransformerChain) -> dict[str, Any]:
    first = prefix.transformers[0] if prefix.transformers else None
    return {
        "columns": list(first.columns) if isinstance(first, ColumnOrder) else None,
        "name": prefix.name,
        "dtype": prefix.dtype.str,
        "n_features": prefix.n_features,
        "feature_names": prefix.feature_names,
        "mean_row_nnz": prefix.mean_row_nnz,
        "work_row_nbytes": prefix.work_row_nbytes,
    }


def _prefix(facts: Mapping[str, Any], steps: list[tuple[str, Any]]) -> TransformerChain:
    links = [copy.deepcopy(link) for link in links_of(Pipeline(steps))]
    if facts["columns"] is not None:
        links.insert(0, ColumnOrder(tuple(facts["columns"])))
    names = facts["feature_names"]
    return TransformerChain.of(
        links,
        name=facts["name"],
        dtype=np.dtype(facts["dtype"]),
        n_features=facts["n_features"],
        feature_names=None if names is None else tuple(names),
        mean_row_nnz=facts["mean_row_nnz"],
        work_row_nbytes=facts["work_row_nbytes"],
    )
