"""Metrics of a model as one summary over a store."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.incremental.partial_fit import as_text
from streamfit.incremental.tallies import Rows, RowTally
from streamfit.run.links import call_last

if TYPE_CHECKING:
    from streamfit.batch import Chunk
    from streamfit.incremental.metric_ways import Measured
    from streamfit.incremental.tallies import Tally

__all__ = ["MetricSummary", "Undefined"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Undefined:
    """The state of a tally, or the value of a metric, that is not defined for these rows."""

    reason: str
    """Why, in scikit-learn's words where it refused."""


@dataclass(slots=True)
class _State:
    """What is kept of the rows seen so far."""

    n_rows: int
    tallies: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class MetricSummary:
    """Metrics as a summary: right over all rows, whatever the chunks.

    Sums and counts are kept where a metric follows from those. Else the labels and what the model says of each row are
    gathered, in the order of the rows, and scikit-learn's own function is called once.
    """

    model: Any
    """The fitted estimator."""
    measured: tuple[Measured, ...]
    """How each metric follows from tallies."""
    tallies: tuple[Tally, ...]
    """What is kept."""
    n_rows: int
    """Rows in all."""

    @property
    def state_nbytes(self) -> int:
        """Upper bound of the size of one state in bytes, without the rows that it has gathered."""
        return sum(tally.nbytes for tally in self.tallies) + 1024

    @cached_property
    def rows_nbytes(self) -> int:
        """Bytes of all rows that are gathered, in pieces and put together, and of what is done with them."""
        kept = sum(tally.row_nbytes for tally in self.tallies)
        whole = sum(tally.whole_nbytes for tally in self.tallies if isinstance(tally, RowTally))
        return self.n_rows * (kept + whole + max((way.work_nbytes for way in self.measured), default=0))

    def empty(self) -> _State:
        """Give the state of no rows."""
        return _State(0, (None,) * len(self.tallies))

    def update(self, state: _State, chunk: Chunk) -> _State:
        """Add the rows of one chunk."""
        if chunk.y is None:
            raise InvalidDataError("Metrics need y and the data have none. Give y, or ingest with y=.")
        if chunk.n_rows == 0:  # estimators refuse to predict no rows
            return state
        rows = Rows(chunk.start, as_text(chunk.y))
        # Each method of the model is called once for all metrics.
        given = {
            method: call_last(self.model, method, chunk.X)
            for method in sorted({tally.response.method for tally in self.tallies if tally.response is not None})
        }
        return self.merge(state, _State(chunk.n_rows, tuple(_of(tally, rows, given) for tally in self.tallies)))

    def merge(self, left: _State, right: _State) -> _State:
        """Join the states of two disjoint sets of rows."""
        pairs = zip(self.tallies, left.tallies, right.tallies, strict=True)
        return _State(left.n_rows + right.n_rows, tuple(_merged(*pair) for pair in pairs))

    def finalize(self, state: _State) -> dict[str, float | Undefined]:
        """Give each metric by its name; where it is not defined for these rows, the reason."""
        whole = [_whole(tally, kept) for tally, kept in zip(self.tallies, state.tallies, strict=True)]
        with warnings.catch_warnings():
            # scikit-learn warns of classes without rows and of what it sets to 0 therefore, once a metric and epoch.
            warnings.simplefilter("ignore")
            return {way.metric.name: _value(way, state.n_rows, whole) for way in self.measured}


def _of(tally: Tally, rows: Rows, given: dict[str, Any]) -> Any:
    try:
        return tally.of(rows, None if tally.response is None else tally.response.of(given[tally.response.method]))
    except ValueError as error:
        return Undefined(str(error))


def _merged(tally: Tally, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    undefined = [state for state in (left, right) if isinstance(state, Undefined)]
    # The same one whichever comes first.
    return min(undefined, key=lambda state: state.reason) if undefined else tally.merge(left, right)


def _whole(tally: Tally, kept: Any) -> Any:
    return tally.whole(kept) if isinstance(tally, RowTally) and not isinstance(kept, Undefined) else kept


def _value(way: Measured, n_rows: int, states: list[Any]) -> float | Undefined:
    needed = [states[number] for number in way.tallies]
    undefined = [state for state in needed if isinstance(state, Undefined)]
    if undefined:
        return undefined[0]
    try:
        value = way.finish(n_rows, *needed)
    except ValueError as error:
        return Undefined(str(error))
    try:
        return float(way.metric.sign * value)
    except TypeError as error:
        raise InvalidParameterError(
            f"The metric {way.metric.name!r} gives {value!r}, and one number is needed. Choose an average, or what "
            "sums its values up."
        ) from error
