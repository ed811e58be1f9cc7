"""Callbacks of a fit: observers are told how it goes, controls may change it at control points."""

from __future__ import annotations

from streamfit.callbacks.control import Control, ControlPoint, Verdict
from streamfit.callbacks.csv_logger import CSVLogger
from streamfit.callbacks.early_stopping import EarlyStopping
from streamfit.callbacks.history import History
from streamfit.callbacks.lambda_callback import Lambda
from streamfit.callbacks.lr_scheduler import LearningRateScheduler
from streamfit.callbacks.mlflow import MLflow
from streamfit.callbacks.model_checkpoint import ModelCheckpoint
from streamfit.callbacks.prequential import PrequentialMetrics
from streamfit.callbacks.progress import Progress
from streamfit.callbacks.reduce_lr import ReduceLROnPlateau
from streamfit.callbacks.tensorboard import TensorBoard
from streamfit.callbacks.time_limit import TimeLimit
from streamfit.events import Observer

__all__ = [
    "CSVLogger",
    "Control",
    "ControlPoint",
    "EarlyStopping",
    "History",
    "Lambda",
    "LearningRateScheduler",
    "MLflow",
    "ModelCheckpoint",
    "Observer",
    "PrequentialMetrics",
    "Progress",
    "ReduceLROnPlateau",
    "TensorBoard",
    "TimeLimit",
    "Verdict",
]
