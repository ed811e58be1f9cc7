"""Which transformer has an exact fit, by the path of its class, so that nothing is imported early."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from streamfit.preprocessing.exact_fit import ExactFit

__all__ = ["Entry", "entries", "find"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An exact fit for one class."""

    transformer: str
    """Path of the class, as Python knows it."""
    fit: str
    """Path of the exact fit's class."""
    rung: str
    """Rung of equality with its ``fit`` on all rows in memory."""
    how: str
    """What is streamed, in a few words."""
    keeps_sparse: bool = True
    """Whether sparse rows leave it sparse."""

    def load(self) -> ExactFit:
        """Import and make the exact fit."""
        module, _, name = self.fit.rpartition(".")
        return cast("ExactFit", getattr(importlib.import_module(module), name)())


_ENTRIES = (
    Entry(
        "sklearn.preprocessing._data.StandardScaler",
        "streamfit.preprocessing.scalers.StandardScalerFit",
        "Equal",
        "means and variances of all rows",
    ),
    Entry(
        "sklearn.preprocessing._data.MinMaxScaler",
        "streamfit.preprocessing.scalers.MinMaxScalerFit",
        "Bit-equal",
        "smallest and largest values of all rows",
    ),
    Entry(
        "sklearn.preprocessing._data.MaxAbsScaler",
        "streamfit.preprocessing.scalers.MaxAbsScalerFit",
        "Bit-equal",
        "smallest and largest values of all rows",
    ),
    Entry(
        "sklearn.preprocessing._data.RobustScaler",
        "streamfit.preprocessing.quantiles.RobustScalerFit",
        "Bit-equal",
        "medians and percentiles of all rows, by counts of digits",
    ),
)


def entries() -> tuple[Entry, ...]:
    """Give all exact fits, sorted by class."""
    return tuple(sorted(_ENTRIES, key=lambda entry: entry.transformer))


def find(transformer: Any) -> Entry | None:
    """Give the exact fit of a transformer, or None. A subclass may learn otherwise: it has none."""
    path = f"{type(transformer).__module__}.{type(transformer).__qualname__}"
    return next((entry for entry in _ENTRIES if entry.transformer == path), None)
