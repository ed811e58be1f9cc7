"""Tallies of sums and counts, which do not grow with the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.incremental.tallies import known_codes
from streamfit.maths.contingency import Contingency
from streamfit.maths.metrics import negative_log_likelihood, squared_probability_error
from streamfit.maths.regression_sums import RegressionSums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from streamfit.incremental.responses import Response
    from streamfit.incremental.tallies import Rows

__all__ = ["Counts", "Hits", "LabelCounts", "Largest", "LossSums", "Numbers", "ProbabilitySums", "WholeRows"]


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
class WholeRows(_Adding, _Bounded):
    """Rows of which each of several labels is predicted, which ``MultiOutputClassifier.score`` counts."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return 8

    def of(self, rows: Rows, response: Any) -> NDArray[np.float64]:
        """Count the rows of one chunk."""
        if np.shape(rows.y) != np.shape(response):
            raise ValueError(f"y has the shape {np.shape(rows.y)}, and what is predicted {np.shape(response)}.")
        return np.array([float((rows.y == np.asarray(response)).all(axis=1).sum())])


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
