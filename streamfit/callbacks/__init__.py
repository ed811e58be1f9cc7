"""Callbacks of a fit: observers are told how it goes, controls may change it at control points."""

from __future__ import annotations

from streamfit.callbacks.control import Control, ControlPoint, Verdict
from streamfit.callbacks.early_stopping import EarlyStopping
from streamfit.callbacks.history import History
from streamfit.callbacks.progress import Progress
from streamfit.events import Observer

__all__ = ["Control", "ControlPoint", "EarlyStopping", "History", "Observer", "Progress", "Verdict"]
