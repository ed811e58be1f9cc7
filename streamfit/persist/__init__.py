"""Fitted models as files: ``sf.save`` and ``sf.load``."""

from __future__ import annotations

from streamfit.persist.files import load, save

__all__ = ["load", "save"]
