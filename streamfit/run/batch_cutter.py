"""Batches cut from windows, each gathered into memory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.batch import Batch
from streamfit.maths.csr_rows import joined_rows
from streamfit.run.windows import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.run.windows import Visit, Window

__all__ = ["BatchCutter"]


class BatchCutter:
    """Cuts the windows of an epoch, given in order, into batches that may begin in one window and end in another."""

    def __init__(self) -> None:
        self._filling: _Filling | None = None
        self._position: int | None = None
        """Next position in the order of the epoch; None at the beginning of a window."""

    def cut(self, window: Window) -> tuple[Batch | None, bool]:
        """Take rows from a window until a batch is full or the window is used up.

        Parameters
        ----------
        window : Window
            The one that was given last unless that is used up; then the one that follows it.

        Returns
        -------
        batch : Batch or None
            None: it goes on in the next window.
        used_up : bool
            Whether the window has no more rows.
        """
        visit = window.visit
        position = visit.start if self._position is None else self._position
        if self._filling is None:
            step = min(position // visit.plan.batch_size, len(visit.plan) - 1)
            self._filling = _Filling(visit, step, window.X)
        position = self._filling.fill(window, position)
        used_up = position == visit.stop
        self._position = None if used_up else position
        batch = None
        if position == self._filling.last:
            batch = self._filling.build()
            self._filling = None
        return batch, used_up


class _Filling:
    """A batch that is being filled, from one window or from several."""

    def __init__(self, visit: Visit, step: int, X: Any) -> None:
        self.plan = visit.plan
        self.step = step
        self.first, self.last = visit.plan.step_bounds(step)
        dense = isinstance(X, np.ndarray)
        self.X = np.empty((self.last - self.first, X.shape[1]), dtype=X.dtype) if dense else None
        self.sparse: list[Any] = []
        self.rows: list[NDArray[np.int64]] = []
        self.labels: list[Any] = []
        self.weights: list[Any] = []

    def fill(self, window: Window, position: int) -> int:
        """Take the rows from `position` on, as far as window and batch go; give the next position."""
        visit = window.visit
        end = min(self.last, visit.stop)
        part = slice(position - visit.start, end - visit.start)
        order = window.order[part]
        if self.X is None:
            self.sparse.append(window.X[order])
        else:
            target = self.X[position - self.first : end - self.first]
            if self.plan.shuffle == "none":
                np.copyto(target, window.X[order[0] : order[-1] + 1])
            else:
                # The default mode would gather into a buffer first, in case that an index is out of range.
                np.take(window.X, order, axis=0, out=target, mode="clip")
        self.rows.append(window.rows[part])
        self.labels.append(None if window.y is None else window.y[order])
        self.weights.append(None if window.sample_weight is None else window.sample_weight[order])
        return end

    def build(self) -> Batch:
        return Batch(
            step=self.step,
            epoch=self.plan.epoch,
            X=joined_rows(self.sparse) if self.X is None else self.X,
            rows=np.concatenate(self.rows),
            y=joined(self.labels),
            sample_weight=joined(self.weights),
        )
