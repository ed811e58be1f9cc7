"""What is kept of chunks for metrics over all rows, and the tallies that keep something of each row.

A tally is a small value that says what to keep; its states are joined in any order. scikit-learn's functions raise
ValueError for rows that they are not defined for; so do tallies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from streamfit.maths.metrics import codes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.incremental.responses import Response

__all__ = ["GatheredLabels", "GatheredResponses", "RowTally", "Rows", "Tally", "known_codes"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one chunk."""

    start: int
    """Number of the first one."""
    y: NDArray[Any]
    """Their labels."""


class Tally(Protocol):
    """What is kept of rows."""

    @property
    def response(self) -> Response | None:
        """What the model says of rows that this is made of; None where it is made of labels alone."""

    @property
    def nbytes(self) -> int:
        """Most bytes of one state, without those that grow with its rows."""

    @property
    def row_nbytes(self) -> int:
        """Bytes that are kept of each row."""

    def of(self, rows: Rows, response: Any) -> Any:
        """Give the state of the rows of one chunk."""

    def merge(self, left: Any, right: Any) -> Any:
        """Join the states of disjoint rows; neither is changed."""


@runtime_checkable
class RowTally(Protocol):
    """A tally that keeps something of each row."""

    @property
    def whole_nbytes(self) -> int:
        """Bytes of each row where all are put together, besides those that are kept."""

    def whole(self, state: Any) -> NDArray[Any]:
        """Give what was kept of all rows in their order."""


class _Gathered:
    """States that are arrays of rows with the number of the first one, so that all are in the order of the store."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Bytes of one state that do not grow with its rows."""
        return 0

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        """Join the rows of two states."""
        return sorted(left + right, key=lambda piece: piece[0])


@dataclass(frozen=True, slots=True, eq=False)
class GatheredLabels(_Gathered):
    """The label of each row."""

    classes: NDArray[Any] | None
    """Labels that occur, of which small numbers are kept instead; None: the labels themselves."""
    label_nbytes: int
    """Bytes of the labels of one row."""
    response: None = None
    """Labels alone are kept."""
    _code: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        n_classes = 0 if self.classes is None else len(self.classes)
        object.__setattr__(self, "_code", np.min_scalar_type(max(0, n_classes - 1)))

    @property
    def row_nbytes(self) -> int:
        """Bytes that are kept of each row."""
        return self.label_nbytes if self.classes is None else self._code.itemsize

    def of(self, rows: Rows, response: Any) -> list[Any]:  # noqa: ARG002
        """Keep the labels of one chunk."""
        if self.classes is None:
            return [(rows.start, np.array(rows.y))]
        return [(rows.start, known_codes(rows.y, self.classes).astype(self._code))]

    @property
    def whole_nbytes(self) -> int:
        """Bytes of each row where all are put together, besides those that are kept."""
        return self.row_nbytes + (0 if self.classes is None else self.classes.dtype.itemsize)

    def whole(self, state: list[Any]) -> NDArray[Any]:
        """Give the labels of all rows in their order."""
        kept = np.concatenate([piece for _, piece in state])
        return kept if self.classes is None else self.classes[kept]


@dataclass(frozen=True, slots=True, eq=False)
class GatheredResponses(_Gathered):
    """What the model says of each row."""

    response: Response
    """What is kept."""
    row_nbytes: int
    """Bytes that are kept of each row."""

    def of(self, rows: Rows, response: Any) -> list[Any]:
        """Keep what is said of one chunk."""
        return [(rows.start, np.array(response))]

    @property
    def whole_nbytes(self) -> int:
        """Bytes of each row where all are put together, besides those that are kept."""
        return self.row_nbytes

    def whole(self, state: list[Any]) -> NDArray[Any]:
        """Give what is said of all rows in their order."""
        return np.concatenate([piece for _, piece in state])


def known_codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Give the position of each label among the classes.

    Raises
    ------
    ValueError
        A label is not among them.
    """
    codes = codes_of(labels, classes)
    if (codes < 0).any():
        strange = labels[codes < 0][0]
        raise ValueError(f"The label {strange!r} is none of the classes that the model knows.")
    return codes
