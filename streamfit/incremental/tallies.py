"""What is kept of each chunk for metrics over all rows: sums, counts, or what was said of each row.

A tally is a small value that says what to keep; its states are joined in any order. scikit-learn's functions raise
ValueError for rows that they are not defined for; so do tallies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.maths.contingency import Contingency
from streamfit.maths.metrics import codes_of, negative_log_likelihood, squared_probability_error
from streamfit.maths.regression_sums import RegressionSums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from streamfit.incremental.responses import Response

__all__ = [
    "Counts",
    "GatheredLabels",
    "GatheredResponses",
    "Hits",
    "LabelCounts",
    "Largest",
    "LossSums",
    "Numbers",
    "ProbabilitySums",
    "Rows",
    "Tally",
    "known_codes",
]


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


# -- sums and counts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Bounded:
    """What does not grow with the rows."""

    response: Response
    """What the model says of rows that this is made of."""

    @property
    def row_nbytes(self) -> int:
        """Bytes that are kept of each row."""
        return 0


class _Adding:
    """States that are arrays, and are added."""

    __slots__ = ()

    def merge(self, left: Any, right: Any) -> Any:
        """Join the states of disjoint rows."""
        return left + right


@dataclass(frozen=True, slots=True, eq=False)
class Counts(_Bounded):
    """Rows of each pair of a true and a predicted label."""

    true: NDArray[Any]
    """Labels that occur."""
    predicted: NDArray[Any] | None
    """Labels that the model predicts, where it is known which."""
    n_predicted: int
    """How many they are at most."""

    @property
    def nbytes(self) -> int:
        """Most bytes of one state."""
        return 8 * len(self.true) * self.n_predicted + 2 * self.true.nbytes + 8 * self.n_predicted

    def of(self, rows: Rows, response: Any) -> Contingency:
        """Count the rows of one chunk."""
        return Contingency.of(rows.y, response, labels=(self.true, self.predicted))

    def merge(self, left: Contingency, right: Contingency) -> Contingency:
        """Join the counts of disjoint rows."""
        return left.merge(right)


@dataclass(frozen=True, slots=True, eq=False)
class LossSums(_Adding, _Bounded):
    """A loss that is a mean over rows, added up, of each output."""

    function: Callable[..., Any]
    """Gives the mean over some rows."""
    options: Mapping[str, Any]
    """Keywords of the function."""
    n_outputs: int
    """Outputs."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 8 * self.n_outputs

    def of(self, rows: Rows, response: Any) -> NDArray[np.float64]:
        """Add up the loss of the rows of one chunk."""
        predicted = np.asarray(response, dtype=np.float64)
        mean = self.function(np.asarray(rows.y, dtype=np.float64), predicted, **self.options)
        return np.atleast_1d(np.asarray(mean, dtype=np.float64)) * len(rows.y)


@dataclass(frozen=True, slots=True, eq=False)
class Largest(_Bounded):
    """The largest absolute error."""

    function: Callable[..., Any]
    """Gives it for some rows."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 8

    def of(self, rows: Rows, response: Any) -> float:
        """Give the largest error of one chunk."""
        return float(self.function(rows.y, response))

    def merge(self, left: float, right: float) -> float:
        """Give the larger one."""
        return max(left, right)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers(_Bounded):
    """Means and squared deviations of numbers and errors."""

    n_outputs: int
    """Outputs."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 48 * self.n_outputs

    def of(self, rows: Rows, response: Any) -> RegressionSums:
        """Sum the rows of one chunk."""
        if np.shape(rows.y) != np.shape(response) and np.size(rows.y) != np.size(response):
            raise ValueError(f"y has the shape {np.shape(rows.y)}, and what is predicted {np.shape(response)}.")
        if not np.isfinite(response).all():
            raise ValueError("The predictions contain NaN or infinity.")
        return RegressionSums.of(rows.y, response)

    def merge(self, left: RegressionSums, right: RegressionSums) -> RegressionSums:
        """Join the sums of disjoint rows."""
        return left.merge(right)


@dataclass(frozen=True, slots=True, eq=False)
class ProbabilitySums(_Adding, _Bounded):
    """The negative log-likelihood, and the squared error, of the probabilities of classes."""

    classes: NDArray[Any]
    """Classes of the model."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 16

    def of(self, rows: Rows, response: Any) -> NDArray[np.float64]:
        """Add up the rows of one chunk."""
        if not (response.min() >= 0 and response.max() <= 1):  # NaN is not either
            raise ValueError("There are probabilities that are not between 0 and 1.")
        codes = known_codes(rows.y, self.classes)
        # As scikit-learn does where it is given the second class alone.
        both = np.column_stack([1 - response, response]) if response.ndim == 1 else response
        return np.array([negative_log_likelihood(codes, both), squared_probability_error(codes, both)])


@dataclass(frozen=True, slots=True, eq=False)
class Hits(_Adding, _Bounded):
    """Rows whose true class is among the `k` classes with the highest scores, of more than two classes."""

    function: Callable[..., Any]
    """``top_k_accuracy_score``."""
    classes: NDArray[Any]
    """Classes of the model."""
    k: int
    """How many classes count as a hit."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 8

    def of(self, rows: Rows, response: Any) -> NDArray[np.float64]:
        """Count the hits of one chunk."""
        known_codes(rows.y, self.classes)
        return np.array([self.function(rows.y, response, k=self.k, labels=self.classes, normalize=False)])


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts(_Adding):
    """Rows of each class."""

    classes: NDArray[Any]
    """Classes of the model."""
    response: None = None
    """Labels alone are counted."""
    row_nbytes: int = 0
    """Bytes that are kept of each row."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 8 * len(self.classes)

    def of(self, rows: Rows, response: Any) -> NDArray[np.int64]:  # noqa: ARG002
        """Count the rows of one chunk."""
        return np.bincount(known_codes(rows.y, self.classes), minlength=len(self.classes))


# -- rows ----------------------------------------------------------------------------------------------


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

    def all(self, state: list[Any]) -> NDArray[Any]:
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

    def all(self, state: list[Any]) -> NDArray[Any]:
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
