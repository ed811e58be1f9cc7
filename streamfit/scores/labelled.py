"""Scores beside the truth: labels of 0 and 1, some of them missing, and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.options import check_choice
from streamfit.scores.checked import as_vector, checked_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MissingLabels",
    "Undefined",
    "check_missing",
    "check_undefined",
    "checked_weights",
    "known_rows",
    "labelled",
    "no_value",
    "require_as_many_labels",
    "weights_of_block",
]

MissingLabels = Literal["error", "drop"]
"""What is done with rows whose label is NaN: nobody knows what they are."""
Undefined = float | Literal["error"]
"""What a measure gives where it has no value: an error, or this number."""


def check_missing(missing: str) -> None:
    """Refuse what is no policy for missing labels."""
    check_choice("missing", missing, ("error", "drop"))


def check_undefined(undefined: Any) -> Undefined:
    """Give what a measure is without a value: the text "error", or a number, NaN included."""
    if isinstance(undefined, str):
        check_choice("undefined", undefined, ("error",))
        return "error"
    if isinstance(undefined, bool) or not isinstance(undefined, (int, float, np.integer, np.floating)):
        raise InvalidParameterError(f'undefined must be "error" or a number, such as math.nan, got {undefined!r}.')
    return float(undefined)


def no_value(policy: Undefined, why: str) -> float:
    """Give the number that was asked for, or say why there is none.

    Raises
    ------
    InvalidDataError
        No number was asked for.
    """
    if policy == "error":
        raise InvalidDataError(f"{why} To get a number instead of this error, such as NaN, give undefined=math.nan.")
    return float(policy)


def checked_weights(sample_weight: Any, *, n_rows: int) -> Any:
    """Give weights as a vector of as many real numbers as there are rows; values are looked at where they are used."""
    weights = as_vector(sample_weight, name="sample_weight")
    if weights.shape != (n_rows,):
        raise InvalidDataError(
            f"There are {weights.shape[0]} weights and {n_rows} scores. Give one of each for each row."
        )
    return weights


def require_as_many_labels(labels: Any, *, n_rows: int) -> None:
    """Refuse a vector of labels of other rows."""
    if labels.shape != (n_rows,):
        raise InvalidDataError(
            f"There are {labels.shape[0]} labels and {n_rows} scores. Give one of each for each row."
        )


def weights_of_block(weights: NDArray[Any], start: int) -> NDArray[np.float64]:
    """Give weights as float64.

    Raises
    ------
    InvalidDataError
        One is negative or not finite.
    """
    values = weights.astype(np.float64, copy=False)
    strange = ~((values >= 0) & (values < np.inf))
    if strange.any():
        at = int(strange.argmax())
        raise InvalidDataError(
            f"The sample_weight of row {start + at} is {values[at]}. Give finite weights of at least 0.",
            row=start + at,
        )
    return values


def labelled(labels: Any, scores: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Give scores, labels and weights (None where there are none) as vectors of one length.

    Raises
    ------
    InvalidDataError
        They have not one length, or are no vectors of numbers.
    """
    truth = as_vector(labels, name="labels")
    checked = checked_scores(scores)
    require_as_many_labels(truth, n_rows=checked.shape[0])
    weights = None if sample_weight is None else checked_weights(sample_weight, n_rows=checked.shape[0])
    return checked, truth, weights


def known_rows(
    scores: NDArray[np.float64],
    labels: NDArray[Any],
    weights: NDArray[Any] | None,
    start: int,
    missing: MissingLabels,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None]:
    """Give scores, whether each row is an anomaly, and weights of the rows of a block whose label is known.

    Raises
    ------
    InvalidDataError
        A label is neither 0 nor 1, or is missing where that is an error; a weight is negative or not finite.
    """
    values = None if weights is None else weights_of_block(weights, start)
    known = np.ones(len(labels), dtype=np.bool_)
    if missing == "drop" and labels.dtype.kind == "f":
        known = ~np.isnan(labels)
    strange = known & (labels != 0) & (labels != 1)
    if strange.any():
        at = int(strange.argmax())
        hint = ' Rows without a label are left out by missing="drop".' if labels[at] != labels[at] else ""
        raise InvalidDataError(
            f"The label of row {start + at} is {labels[at]}. Give 1 for anomalies and 0 for the other rows.{hint}",
            row=start + at,
        )
    anomaly = labels == 1
    if known.all():
        return scores, anomaly, values
    return scores[known], anomaly[known], None if values is None else values[known]
