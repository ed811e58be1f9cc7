"""What the files of trainers and detectors have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import UnwritableError
from streamfit.run.model_file import model_file_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FITTED", "LEFT_OUT", "UNFITTED", "column_names", "file_bytes", "name_columns"]

UNFITTED, FITTED = "estimator.skops", "fitted.skops"
"""Parts: what the user gave, and what was fitted."""

LEFT_OUT = frozenset({"estimator", "detector", "callbacks", "checkpoint", "cache", "scratch"})
"""Parameters that are parts of their own, or belong to the place of the fit."""


def file_bytes(kind: str, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """Give the content of a file.

    Raises
    ------
    UnwritableError
        A fact is no plain value.
    """
    try:
        return model_file_bytes(kind, facts, parts)
    except TypeError as error:
        raise UnwritableError(
            f"A parameter of the {kind} cannot be written as text: {error}. Name metrics instead of giving functions, "
            "or save trainer.estimator_."
        ) from error


def column_names(fitted: Any) -> list[str] | None:
    """Give the names of the columns that something was fitted on, or None."""
    return list(getattr(fitted, "feature_names_in_", ())) or None


def name_columns(fitted: Any, names: list[str] | None) -> None:
    """Tell a fitted object the names of its columns."""
    if names is not None:
        fitted.feature_names_in_ = np.asarray(names, dtype=object)
