"""Pipelines that end in a detector: what is before it is applied to rows before they are scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from streamfit.batch import Chunk
from streamfit.detectors.algorithm import score_chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from streamfit.detectors.algorithm import FittedAlgorithm
    from streamfit.store.transformed import RowMapping

__all__ = ["PrefixedAlgorithm", "score_prefixed", "split_detector"]


def split_detector(detector: Any) -> tuple[list[tuple[str, Any]], str, Any]:
    """Part a pipeline into the steps before its end, and the name and the estimator at its end.

    A pipeline at the end of another one is a part of it. What is no pipeline has no steps before it.

    Examples
    --------
    >>> from pyod.models.hbos import HBOS
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> split_detector(make_pipeline(StandardScaler(), HBOS()))[:2]
    ([('standardscaler', StandardScaler())], 'hbos')
    """
    if not isinstance(detector, Pipeline) or not detector.steps:
        return [], "detector", detector
    *steps, (name, last) = detector.steps
    if not isinstance(last, Pipeline):
        return steps, name, last
    inner, inner_name, last = split_detector(last)
    return [*steps, *((f"{name}-{step}", link) for step, link in inner)], f"{name}-{inner_name}", last


@dataclass(frozen=True, slots=True, eq=False)
class PrefixedAlgorithm:
    """A fitted detector behind fitted transformers."""

    prefix: RowMapping
    """The transformers."""
    fitted: FittedAlgorithm
    """The detector, fitted on what they give."""


def score_prefixed(model: PrefixedAlgorithm, chunk: Chunk) -> NDArray[np.float64]:
    """Transform the rows of a chunk and score them; the function that passes over a store are given.

    Raises
    ------
    InvalidDataError
        A transformer refuses the rows, or gives a value that is not finite.
    """
    # A copy: a transformer may work in place, and rows in memory are the caller's.
    rows = model.prefix.apply(chunk.X.copy(), start=chunk.start)
    return score_chunk(model.fitted, Chunk(chunk.index, chunk.start, rows))
