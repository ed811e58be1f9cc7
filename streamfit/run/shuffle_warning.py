"""The warning that an order, though shuffled, will not be like a shuffle of all rows."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from streamfit.errors import ShuffleWarning
from streamfit.plan.shuffle_quality import shuffle_quality
from streamfit.run.correlation import order_correlation

if TYPE_CHECKING:
    from streamfit.plan.epoch import EpochPlan
    from streamfit.store.reader import Reader

__all__ = ["warn_of_order"]


def warn_of_order(reader: Reader, plan: EpochPlan, *, stacklevel: int) -> None:
    """Warn where the windows of a plan are far from being like all rows, with what to do about it.

    Parameters
    ----------
    reader : Reader
        The rows.
    plan : EpochPlan
        Their order. That of the store is never warned of: it was asked for by name.
    stacklevel : int
        As `warnings.warn` takes it, seen from the caller.

    Raises
    ------
    StoreCorruptError
        Labels are damaged.
    """
    correlation = order_correlation(reader, plan.shuffle)
    if correlation is None:
        return
    quality = shuffle_quality(
        plan.layout,
        batch_size=plan.batch_size,
        window_chunks=plan.window_chunks,
        correlation=correlation,
        shuffle=plan.shuffle,
    )
    if quality.problem is not None:
        warnings.warn(f"{quality.problem} {quality.remedy}", ShuffleWarning, stacklevel=stacklevel + 1)
