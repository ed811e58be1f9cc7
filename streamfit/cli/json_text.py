"""JSON as the commands print and write it."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["json_text"]


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Give plain values as JSON; NaN and infinities, which JSON has no words for, become null.

    Examples
    --------
    >>> json_text({"history": [{"val_roc_auc": float("nan")}], "top": (float("inf"), 1.5)})
    '{"history": [{"val_roc_auc": null}], "top": [null, 1.5]}'
    """
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
