"""Scores that are no finite numbers: how many, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import compute

from streamfit.options import check_count
from streamfit.scores.blockwise import joined, per_block
from streamfit.scores.checked import as_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["NonFinite", "nonfinite"]


@dataclass(frozen=True, slots=True, eq=False)
class NonFinite:
    """Scores that are NaN or infinite. Of lazy scores it holds lazy arrays; `compute` runs them in one pass."""

    n_nan: Any
    """Rows whose score is NaN."""
    n_positive_infinity: Any
    """Rows whose score is +inf."""
    n_negative_infinity: Any
    """Rows whose score is -inf."""
    rows: Any
    """Global numbers of the first such rows, ascending, int64, ``(n_named,)``."""
    scores: Any
    """Their scores, float64, ``(n_named,)``."""

    def compute(self) -> NonFinite:
        """Give the same with numbers and NumPy arrays."""
        computed: tuple[NonFinite] = compute(self)
        return computed[0]


def nonfinite(scores: Any, n_rows: int = 20) -> NonFinite:
    """Count the scores that are NaN or infinite, and name the first rows that have them.

    Other aggregates refuse NaN, and this one finds where it is. Identical for any chunking.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Any scores.
    n_rows : int, default=20
        Most rows to name, at least 0.

    Returns
    -------
    NonFinite
        Counts, row numbers and scores; lazy for lazy scores.

    Raises
    ------
    InvalidDataError
        The scores are no vector of numbers.
    InvalidParameterError
        `n_rows` is below 0, or no integer.

    Examples
    --------
    >>> nonfinite([1.0, float("nan"), float("inf"), float("nan")], n_rows=2)
    NonFinite(n_nan=2, n_positive_infinity=1, n_negative_infinity=0, rows=array([1, 2]), scores=array([nan, inf]))
    """
    n_rows = check_count("n_rows", n_rows, least=0)
    blocks = per_block(_found, as_vector(scores, name="scores"), arguments=(n_rows,))

    def part(take: Callable[[Sequence[_Found]], Any], shape: tuple[float, ...], dtype: Any) -> Any:
        return joined(blocks, take, merge=_Found.merged, shape=shape, dtype=dtype)

    return NonFinite(
        n_nan=part(_n_nan, (), np.int64),
        n_positive_infinity=part(_n_positive, (), np.int64),
        n_negative_infinity=part(_n_negative, (), np.int64),
        rows=part(_rows, (np.nan,), np.int64),
        scores=part(_scores, (np.nan,), np.float64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What was found in some neighbouring blocks."""

    counts: tuple[int, int, int]
    """Rows with NaN, +inf and -inf."""
    rows: NDArray[np.int64]
    """The first of them, ``(n_named,)``."""
    scores: NDArray[np.float64]
    """Their scores, ``(n_named,)``."""
    most: int
    """Rows to name."""

    def merged(self, after: _Found) -> _Found:
        nan, positive, negative = (left + right for left, right in zip(self.counts, after.counts, strict=True))
        return _Found(
            (nan, positive, negative),
            np.concatenate([self.rows, after.rows])[: self.most],
            np.concatenate([self.scores, after.scores])[: self.most],
            self.most,
        )


def _found(scores: NDArray[Any], start: int, most: int) -> _Found:
    at = np.flatnonzero(~np.isfinite(scores))
    values = scores[at].astype(np.float64)
    counts = (
        int(np.isnan(values).sum()),
        int(np.count_nonzero(values == np.inf)),
        int(np.count_nonzero(values == -np.inf)),
    )
    return _Found(counts, start + at[:most].astype(np.int64), values[:most], most)


def _n_nan(found: Sequence[_Found]) -> int:
    return found[0].counts[0]


def _n_positive(found: Sequence[_Found]) -> int:
    return found[0].counts[1]


def _n_negative(found: Sequence[_Found]) -> int:
    return found[0].counts[2]


def _rows(found: Sequence[_Found]) -> NDArray[np.int64]:
    return found[0].rows


def _scores(found: Sequence[_Found]) -> NDArray[np.float64]:
    return found[0].scores
