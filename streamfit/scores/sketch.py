"""Quantiles of any number of scores in a few KiB, with a stated error: a KLL sketch of Apache DataSketches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import compute, is_dask_collection

from streamfit.errors import InvalidParameterError, UnsupportedError
from streamfit.options import check_count
from streamfit.scores.blockwise import joined, per_block
from streamfit.scores.checked import checked_scores, require_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["QuantileSketch", "quantile_sketch"]

_LEAST_K, _MOST_K = 8, 65_535
"""What datasketches takes."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantileSketch:
    """A KLL sketch of scores: to be kept, sent, merged with those of other days, and asked for quantiles.

    Of lazy scores it is lazy; `compute` makes it.
    """

    serialized: Any
    """The sketch as datasketches writes it in any of its languages: bytes, or a dask object of them."""

    def compute(self) -> QuantileSketch:
        """Give the same with its bytes."""
        computed: tuple[QuantileSketch] = compute(self)
        return computed[0]

    @property
    def n_rows(self) -> int:
        """Rows that it stands for, exact."""
        return int(self._sketch().n)

    @property
    def minimum(self) -> float:
        """Lowest score, exact."""
        return float(self._sketch().get_min_value())

    @property
    def maximum(self) -> float:
        """Highest score, exact."""
        return float(self._sketch().get_max_value())

    @property
    def rank_error(self) -> float:
        """Error of a rank as a share of the rows, which 99 of 100 sketches stay within, as datasketches states it.

        The score that `quantile` gives for `q` has a rank between ``q - rank_error`` and ``q + rank_error``. It is 0
        where every score is still held.
        """
        sketch = self._sketch()
        return float(sketch.normalized_rank_error(False)) if sketch.is_estimation_mode() else 0.0

    def quantile(self, q: Any) -> Any:
        """Give scores at or below which lie about shares of the rows.

        Parameters
        ----------
        q : float or array-like
            Shares, 0 to 1 inclusive.

        Returns
        -------
        float or ndarray of float64, the shape of `q`
            Scores that the sketch has seen; the lowest one for 0 and the highest one for 1.

        Raises
        ------
        InvalidParameterError
            `q` is outside its range.
        """
        shares = np.asarray(q)
        if shares.dtype.kind not in "iuf" or not ((shares >= 0) & (shares <= 1)).all():
            raise InvalidParameterError(f"q must be between 0 and 1, got {q!r}.")
        sketch = self._sketch()
        inclusive = True
        found = np.array(sketch.get_quantiles(shares.ravel().tolist(), inclusive), dtype=np.float64)
        found = found.reshape(shares.shape)
        # The sketch knows both ends, and answers with scores that it still holds.
        found = np.where(shares == 0, sketch.get_min_value(), np.where(shares == 1, sketch.get_max_value(), found))
        return float(found) if shares.ndim == 0 else found

    def rank(self, value: float) -> float:
        """Give about the share of the rows whose score is at most `value`.

        Raises
        ------
        InvalidParameterError
            `value` is NaN.
        """
        if np.isnan(value):
            raise InvalidParameterError("value must be a number, got NaN. Give one score.")
        return float(self._sketch().get_rank(float(value), True))  # inclusive

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """Give the sketch of the rows of both; its error is that of the coarser one."""
        return QuantileSketch(_merged(self._bytes(), other._bytes()))

    def _bytes(self) -> bytes:
        if is_dask_collection(self.serialized):
            raise InvalidParameterError("This sketch is lazy. Make it first: sketch.compute().")
        return bytes(self.serialized)

    def _sketch(self) -> Any:
        return _read(self._bytes())


def quantile_sketch(scores: Any, k: int = 200) -> QuantileSketch:
    """Sketch the distribution of scores in a few KiB, to be merged with sketches of other scores.

    `quantile` gives exact quantiles of scores that are there; a sketch is what can be kept of them. It takes
    `datasketches` (``pip install 'streamfit[sketches]'``). Its number of rows and extremes are Identical for any
    chunking. Quantiles and ranks are on none of the rungs: the sketch draws random numbers that cannot be seeded, and
    its ``rank_error`` bounds them.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Infinities count as the largest and smallest scores.
    k : int, default=200
        Size of the sketch, 8 to 65,535. The error falls about as 1/k: 1.33 % of the rows for 200, .2 % for 1,600.

    Returns
    -------
    QuantileSketch
        The sketch; lazy for lazy scores.

    Raises
    ------
    InvalidDataError
        There is no score, or a score is NaN.
    InvalidParameterError
        `k` is outside its range.
    UnsupportedError
        datasketches is not installed.

    Examples
    --------
    >>> sketch = quantile_sketch(np.arange(100.0))
    >>> sketch.n_rows, sketch.minimum, sketch.quantile(0.5), sketch.maximum
    (100, 0.0, 49.0, 99.0)
    """
    k = check_count("k", k, least=_LEAST_K, most=_MOST_K)
    _kll()
    checked = checked_scores(scores)
    require_rows(checked, purpose="A sketch")
    return QuantileSketch(joined(per_block(_sketched, checked, arguments=(k,)), _single, merge=_merged, dtype=object))


def _kll() -> Any:
    try:
        from datasketches import kll_doubles_sketch
    except ImportError as error:
        raise UnsupportedError(
            "Sketches need datasketches, which is not installed: pip install 'streamfit[sketches]'. Exact quantiles, "
            "scores.quantile, do not."
        ) from error
    return kll_doubles_sketch


def _read(serialized: bytes) -> Any:
    try:
        return _kll().deserialize(serialized)
    except (RuntimeError, ValueError, IndexError) as error:
        raise InvalidParameterError(f"These {len(serialized)} bytes are no sketch of scores ({error}).") from error


def _sketched(scores: NDArray[np.float64], _start: int, k: int) -> bytes:
    sketch = _kll()(k)
    if len(scores):
        # It takes arrays only that it could write to, of values one behind the other.
        sketch.update(np.require(scores, requirements=["C", "W"]))
    return bytes(sketch.serialize())


def _merged(left: bytes, right: bytes) -> bytes:
    sketch = _read(left)
    sketch.merge(_read(right))
    return bytes(sketch.serialize())


def _single(found: Sequence[bytes]) -> bytes:
    return found[0]
