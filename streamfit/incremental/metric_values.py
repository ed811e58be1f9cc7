"""Values of metrics from the number of rows and the states of tallies over all rows."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn.metrics as sk
from sklearn.metrics import get_scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from streamfit.maths.contingency import Contingency

__all__ = [
    "LIKELIHOOD_RATIOS",
    "brier",
    "by_function",
    "d2_brier",
    "d2_log_loss",
    "log_loss",
    "mean",
    "of_counts",
    "of_order",
    "of_sums",
]

LIKELIHOOD_RATIOS = tuple(
    get_scorer(name)._score_func  # noqa: SLF001  # they have no other public name
    for name in ("positive_likelihood_ratio", "neg_negative_likelihood_ratio")
)
"""The two functions of scikit-learn's scorers that take no weights, in the order of `class_likelihood_ratios`."""


def of_sums(value: Callable[[Any], float], n_rows: int, state: Any) -> float:  # noqa: ARG001
    """Take the value from a state alone."""
    return value(state)


def mean(n_rows: int, sums: NDArray[np.float64], *, root: bool) -> float:
    """Give the mean over rows, or its root, averaged over the outputs."""
    means = sums / n_rows
    return float(np.mean(np.sqrt(means) if root else means))


def of_counts(function: Callable[..., Any], options: dict[str, Any], n_rows: int, table: Contingency) -> Any:  # noqa: ARG001
    """Call a function of scikit-learn with one row for each pair of labels, weighted by how many there are."""
    true, predicted, counts = table.pairs()
    if function in LIKELIHOOD_RATIOS:
        known = inspect.signature(sk.class_likelihood_ratios).parameters
        options = {**options, **({"replace_undefined_by": 1.0} if "replace_undefined_by" in known else {})}
        ratios = sk.class_likelihood_ratios(true, predicted, sample_weight=counts, **options)
        return ratios[LIKELIHOOD_RATIOS.index(function)]
    return function(true, predicted, sample_weight=counts, **options)


def log_loss(n_rows: int, sums: NDArray[np.float64], *, n_classes: int) -> float:  # noqa: ARG001
    """Give the mean of the negative log-likelihood."""
    return float(sums[0] / n_rows)


def brier(n_rows: int, sums: NDArray[np.float64], *, n_classes: int) -> float:
    """Give the mean squared error of probabilities, halved for two classes as scikit-learn has it."""
    return float(sums[1] / n_rows) * (0.5 if n_classes == 2 else 1.0)


def d2_log_loss(n_rows: int, sums: NDArray[np.float64], counts: NDArray[np.int64], *, n_classes: int) -> float:  # noqa: ARG001
    """Give the share of the log loss that is explained."""
    eps = np.finfo(np.float64).eps
    return _share(sums[0], float(-counts @ np.log(np.clip(counts / n_rows, eps, 1 - eps))), counts)


def d2_brier(n_rows: int, sums: NDArray[np.float64], counts: NDArray[np.int64], *, n_classes: int) -> float:  # noqa: ARG001
    """Give the share of the squared error of probabilities that is explained."""
    return _share(sums[1], float(counts @ (1 - counts / n_rows)), counts)


def _share(loss: float, of_shares_alone: float, counts: NDArray[np.int64]) -> float:
    """Share of a loss that is explained, against probabilities that are the shares of the classes."""
    if np.count_nonzero(counts) < 2:
        raise ValueError("There is one class only.")
    return 1.0 - loss / of_shares_alone


def of_order(
    value: Callable[..., float],
    classes: NDArray[Any],
    positive: Any,
    n_rows: int,  # noqa: ARG001
    y: NDArray[Any],
    scores: NDArray[Any],
) -> float:
    """Take the value from the order of the scores of the rows of two classes."""
    is_positive = y == positive
    if not (is_positive | (y == classes[0]) | (y == classes[1])).all():
        raise ValueError("There are labels that the model does not know.")
    return value(is_positive, scores)


def by_function(
    function: Callable[..., Any],
    options: dict[str, Any],
    n_rows: int,  # noqa: ARG001
    y: NDArray[Any],
    response: NDArray[Any],
) -> Any:
    """Call a function of scikit-learn, or of the user, with all rows."""
    return function(y, response, **options)
