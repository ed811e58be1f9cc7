"""Train and score on feature matrices larger than memory, and get the answer memory would have given.

The names below are imported when they are first used, so that ``import streamfit`` costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streamfit import callbacks, errors, scores
    from streamfit.detector import StreamDetector
    from streamfit.errors import ShuffleWarning
    from streamfit.evaluation import evaluate
    from streamfit.feature_store import FeatureStore, open_store
    from streamfit.model_selection import ChunkKFold, cross_validate
    from streamfit.options import BatchWise, Categorical, Exact, StreamOptions
    from streamfit.persist import load, save
    from streamfit.plan.state import StreamState
    from streamfit.prediction import predict
    from streamfit.run.checkpoint import CheckpointOptions
    from streamfit.run.connect import connect
    from streamfit.run.projection import FitProjection
    from streamfit.sources.append import append
    from streamfit.sources.attach import attach
    from streamfit.sources.ingest import ingest
    from streamfit.sources.repair import repair
    from streamfit.trainer import StreamTrainer

_HOMES = {
    "BatchWise": "streamfit.options",
    "Categorical": "streamfit.options",
    "CheckpointOptions": "streamfit.run.checkpoint",
    "ChunkKFold": "streamfit.model_selection",
    "Exact": "streamfit.options",
    "FeatureStore": "streamfit.feature_store",
    "FitProjection": "streamfit.run.projection",
    "ShuffleWarning": "streamfit.errors",
    "StreamDetector": "streamfit.detector",
    "StreamOptions": "streamfit.options",
    "StreamState": "streamfit.plan.state",
    "StreamTrainer": "streamfit.trainer",
    "append": "streamfit.sources.append",
    "attach": "streamfit.sources.attach",
    "connect": "streamfit.run.connect",
    "cross_validate": "streamfit.model_selection",
    "evaluate": "streamfit.evaluation",
    "ingest": "streamfit.sources.ingest",
    "load": "streamfit.persist",
    "open_store": "streamfit.feature_store",
    "predict": "streamfit.prediction",
    "repair": "streamfit.sources.repair",
    "save": "streamfit.persist",
}
_ROOMS = ("callbacks", "errors", "scores")

__all__ = [
    "BatchWise",
    "Categorical",
    "CheckpointOptions",
    "ChunkKFold",
    "Exact",
    "FeatureStore",
    "FitProjection",
    "ShuffleWarning",
    "StreamDetector",
    "StreamOptions",
    "StreamState",
    "StreamTrainer",
    "__version__",
    "append",
    "attach",
    "callbacks",
    "connect",
    "cross_validate",
    "errors",
    "evaluate",
    "ingest",
    "load",
    "open_store",
    "predict",
    "repair",
    "save",
    "scores",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"streamfit.{name}")
    raise AttributeError(f"module 'streamfit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
