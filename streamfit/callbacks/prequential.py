"""Test the model on each batch before it learns from it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import Verdict
from streamfit.callbacks.tested_batches import (
    CLASS_METRICS,
    NUMBER_METRICS,
    BatchRecord,
    PredictBatch,
    RecordSums,
    record_of_state,
    record_state,
)
from streamfit.errors import InvalidParameterError
from streamfit.options import check_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamfit.callbacks.control import BatchTest, ControlPoint

__all__ = ["PrequentialMetrics"]

_CURVE_POINTS = 512


class PrequentialMetrics:
    """Test the model on each batch, then train it on that batch: metrics without rows set aside.

    Each row is predicted by a model that has learnt from the batches before it alone, so that the metrics tell how well
    the model did while it learnt, as is usual for rows in the order of time. For that, train with
    ``StreamTrainer(shuffle=False, transformers="online")``: transformers that are fitted to all rows before know the
    future. From the second epoch on the model has seen the rows before, and the metrics tell how well it fits them.

    The first batch finds a model that has learnt nothing, and is not tested. Rows count alike, whatever their weights.
    Tests run where the model is, and cost a prediction of each row. The training is not changed.

    Parameters
    ----------
    metrics : sequence of str or None, default=None
        Names without ``prequential_``. None: ``accuracy`` for classifiers, ``mean_squared_error`` for regressors.
        Classifiers: ``accuracy``, ``balanced_accuracy``, ``f1``, ``precision``, ``recall``, these with ``_macro``,
        ``_micro`` or ``_weighted``, and ``log_loss``. Regressors: ``mean_squared_error``,
        ``root_mean_squared_error``, ``mean_absolute_error``, ``r2``. A classifier that knows no probability of a label
        that comes makes ``log_loss`` ``nan``; for the others such a row is one that is not predicted rightly.
    window : int or None, default=None
        Give each metric also over the last so many batches, as ``prequential_accuracy_window``.
    every_steps : int or None, default=None
        Give the metrics also after each so many steps of an epoch, and not at its end alone: ``StreamTrainer.history_``
        then has an entry for each.

    Attributes
    ----------
    curve_ : list of (int, float)
        Steps that were done since the fit began, and the first metric over all rows tested until then, or over the
        `window` where there is one; at most 512 points, evenly spaced over the fit.
    n_rows_ : int
        Rows that were tested.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> import streamfit as sf
    >>> trainer = sf.StreamTrainer(SGDClassifier(), batch_size=2, shuffle=False, callbacks=[PrequentialMetrics()])
    >>> trainer.fit([[0.0], [1.0], [0.0], [1.0], [1.0], [1.0]], [0, 1, 0, 1, 0, 1]).callbacks_[0].curve_
    [(2, 1.0), (3, 0.75)]
    >>> trainer.history_[0]["prequential_accuracy"]
    0.75
    """

    def __init__(
        self, metrics: Sequence[str] | None = None, *, window: int | None = None, every_steps: int | None = None
    ) -> None:
        if metrics is not None:
            _check_names(metrics)
        for name, count in (("window", window), ("every_steps", every_steps)):
            if count is not None:
                check_count(name, count, least=1)
        self.metrics_given = metrics
        self.window = window
        self.every_steps = every_steps
        self._names: tuple[str, ...] = () if metrics is None else tuple(metrics)
        self._rows = RecordSums()
        self._recent: deque[BatchRecord] = deque(maxlen=window or 0)
        self._n_batches = 0
        self._stride = 1
        self._curve: list[tuple[int, int, float]] = []
        self._n_steps = 0

    @property
    def curve_(self) -> list[tuple[int, float]]:
        """Steps done, and the first metric then."""
        return [(epoch * self._n_steps + step, value) for epoch, step, value in self._curve]

    @property
    def n_rows_(self) -> int:
        """Rows that were tested."""
        return self._rows.n_rows

    @property
    def batch_test(self) -> BatchTest:
        """How a batch is tested."""
        return PredictBatch(None if self.metrics_given is None else tuple(self.metrics_given))

    def collect(self, epoch: int, step: int, record: BatchRecord) -> None:
        """Add what was seen of a batch; `step` counts it."""
        self._names = record.names
        if record.n_rows == 0:
            return
        self._rows.add(record)
        self._recent.append(record)
        self._n_batches += 1
        if self._n_batches % self._stride == 0:
            value = (self._rows if self.window is None else self._last()).metric(self._names[0])
            self._curve.append((epoch, step, value))
            if len(self._curve) > _CURVE_POINTS:
                self._curve = self._curve[1::2]
                self._stride *= 2

    def _last(self) -> RecordSums:
        rows = RecordSums()
        for record in self._recent:
            rows.add(record)
        return rows

    def metrics(self) -> dict[str, float]:
        """Give the metrics by now; ``nan`` before a batch was tested."""
        values = {f"prequential_{name}": self._rows.metric(name) for name in self._names}
        if self.window is not None:
            last = self._last()
            values |= {f"prequential_{name}_window": last.metric(name) for name in self._names}
        return values

    def judge(self, point: ControlPoint) -> Verdict:
        """Let the fit go on."""
        self._n_steps = point.n_steps
        return Verdict()

    def state(self) -> dict[str, Any]:
        """Give all that was counted."""
        return {
            "given": None if self.metrics_given is None else list(self.metrics_given),
            "window": self.window,
            "names": list(self._names),
            "rows": self._rows.state(),
            "recent": [record_state(record) for record in self._recent],
            "n_batches": self._n_batches,
            "stride": self._stride,
            "curve": [list(point) for point in self._curve],
            "n_steps": self._n_steps,
        }

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Go on from a checkpoint; what was counted for other metrics or another window is left aside."""
        given = None if self.metrics_given is None else list(self.metrics_given)
        if (state["given"], state["window"]) == (given, self.window):
            self._names = tuple(state["names"])
            self._rows = RecordSums.of_state(state["rows"])
            records = (record_of_state(record, names=self._names) for record in state["recent"])
            self._recent = deque(records, maxlen=self.window or 0)
            self._n_batches = state["n_batches"]
            self._stride = state["stride"]
            self._curve = [(epoch, step, value) for epoch, step, value in state["curve"]]
            self._n_steps = state["n_steps"]
        return False


def _check_names(names: Any) -> None:
    if isinstance(names, str) or not names:
        raise InvalidParameterError(f"metrics must be a sequence of names such as ('accuracy',), got {names!r}.")
    known = NUMBER_METRICS if names[0] in NUMBER_METRICS else CLASS_METRICS
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidParameterError(
            f"PrequentialMetrics has no {', '.join(map(repr, unknown))} beside these. Of classes there are: "
            f"{', '.join(CLASS_METRICS)}; of numbers: {', '.join(NUMBER_METRICS)}."
        )
