r"""Lower bounds of squared distances for the price of one matrix product.

Let :math:`u` be the unit roundoff of the dtype of the product (:math:`2^{-24}` for float32), :math:`d` the
number of features, :math:`s^2 = \lVert x - y \rVert^2` the true squared distance of two rows in scaled
units, and :math:`\hat a, \hat b` the rows as the product sees them: centred, scaled by a power of two, and
rounded. Each operand row carries two more entries, so that one product is the whole bound:

.. math:: L = (-2\hat a,\ 1,\ \alpha) \cdot (\hat b,\ \beta,\ 1), \qquad
          \alpha = (1 - 2c)\lVert \hat a \rVert^2 - \tau, \quad \beta = (1 - 2c)\lVert \hat b \rVert^2 - \tau

*Claim*: :math:`\mathrm{fl}(L) \le s^2` for :math:`c = (1.1d + 6)u + (d + 1)2^{-53}` and
:math:`d \le 2^{20}`.

1. Product. In any order of summation, with or without fused operations, a sum of :math:`d + 2` products
   has an error of at most :math:`\gamma_{d+2} \sum |p_l|`, :math:`\gamma_n = nu / (1 - nu)`, and here
   :math:`\sum |p_l| \le (\lVert \hat a \rVert + \lVert \hat b \rVert)^2 \le
   2(\lVert \hat a \rVert^2 + \lVert \hat b \rVert^2)`. (Higham, Accuracy and Stability of Numerical
   Algorithms, section 3.1.) At the largest :math:`d`, :math:`\gamma_{d+2} \le 1.067(d + 2)u`.
2. Operands. Centring, in float64, and rounding change an entry by at most :math:`u' = u + 2^{-53}` times
   itself, so :math:`s \ge \hat s - u'(\lVert a \rVert + \lVert b \rVert)` and
   :math:`s^2 \ge \hat s^2 - 2 u' (1 + 2u') (\lVert \hat a \rVert + \lVert \hat b \rVert)^2`. The centre
   itself may be anything: it is the same for both rows.
3. Norms are summed in float64: they are too large by at most :math:`1.067(d + 1)2^{-53}` times themselves.

Together the errors are at most
:math:`2(\gamma_{d+2} + 2u'(1 + 2u') + 0.54(d + 1)2^{-53})(\lVert \hat a \rVert^2 + \lVert \hat b \rVert^2)`,
and :math:`2c(\lVert \hat a \rVert^2 + \lVert \hat b \rVert^2)` is subtracted. :math:`\alpha` and
:math:`\beta` are rounded down. :math:`\tau` covers all that underflow can do: :math:`d + 2` products and
roundings that are each off by at most the smallest normal number. Rows whose norm might overflow are
replaced by zeros with a hugely negative :math:`\beta`, so that their bounds are negative.

A pair may be left out where :math:`\mathrm{fl}(L)` is at least the limit, which is the last squared
distance of the list times ``1 + 2**-20`` and a floor: that is more than the error of the measured float64
sums, :math:`(d + 3) 2^{-53}`, and the rounding of the limit itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LARGEST_VALUE", "MAX_FEATURES", "Frame", "candidate_operand", "check_values", "frame_of", "query_operand"]

MAX_FEATURES = 2**20
"""Most features for which the bound is proved."""
LARGEST_VALUE = 2.0**500
"""Values of at least this size have squared distances that float64 cannot hold."""

_LIMIT_FACTOR = 1 + 2.0**-20
_LARGEST_ENTRY = {np.dtype(np.float32): 2.0**50, np.dtype(np.float64): 2.0**500}
_NO_BOUND = {np.dtype(np.float32): -(2.0**126), np.dtype(np.float64): -(2.0**1022)}
_UNDERFLOW = {np.dtype(np.float32): 2.0**-100, np.dtype(np.float64): 2.0**-990}


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the origin is and what one unit is, for both operands of a product."""

    centre: NDArray[np.float64]
    """Subtracted from each row, ``(n_features,)``."""
    exponent: int
    """Rows are divided by two to this power after that."""
    dtype: np.dtype[Any]
    """Of the product: float32 or float64."""

    @property
    def limit_factor(self) -> float:
        """Turns a squared distance into a limit for the bounds, together with `limit_floor`."""
        return float(np.ldexp(_LIMIT_FACTOR, -2 * self.exponent))

    @property
    def limit_floor(self) -> float:
        """Smallest limit: covers underflow."""
        return _UNDERFLOW[self.dtype]


def check_values(points: NDArray[Any], first_row: int, what: str) -> None:
    """Refuse values that have no squared distances.

    Raises
    ------
    InvalidDataError
        A value is not finite, or its size is at least ``LARGEST_VALUE``; names row and column.
    """
    # Two reductions without temporaries; NaN fails both comparisons.
    if float(points.max()) < LARGEST_VALUE and float(points.min()) > -LARGEST_VALUE:
        return
    row, column = np.argwhere(~(np.abs(points) < LARGEST_VALUE))[0]
    raise InvalidDataError(
        f"The value in {what} {first_row + row}, column {column} is {points[row, column]}. Distances need finite "
        f"values below {LARGEST_VALUE:.3g} in size: replace or rescale it.",
        row=int(first_row + row),
    )


def frame_of(sample: NDArray[Any], *, dtype: type[np.float32 | np.float64]) -> Frame:
    """Choose a frame in which typical rows have a norm of about 1.

    Any frame gives valid bounds; a good one gives sharp ones. Medians, because one row with huge values
    must not make all others look alike.

    Parameters
    ----------
    sample : ndarray of shape (n_rows, n_features)
        Rows of the data, at least one.
    dtype : type
        Of the product.
    """
    rows = sample.astype(np.float64)
    centre = np.median(rows, axis=0)
    rows -= centre
    sizes = np.abs(rows).max(axis=1)
    typical = float(np.median(sizes)) or float(sizes.max())
    # The typical norm is between the largest entry and that times the root of d; entries decide.
    exponent = int(np.frexp(typical)[1]) + int(np.frexp(np.sqrt(rows.shape[1]))[1]) if typical > 0 else 0
    return Frame(centre=centre, exponent=max(exponent, -400), dtype=np.dtype(dtype))


def candidate_operand(rows: NDArray[Any], frame: Frame) -> NDArray[Any]:
    """Give ``(row, beta, 1)`` for each row.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Original values.
    frame : Frame
        Origin and unit.

    Returns
    -------
    ndarray of shape (n_rows, n_features + 2)
        The operand, of the frame's dtype.
    """
    n_rows, n_features = rows.shape
    scaled = rows.astype(np.float64)
    scaled -= frame.centre
    scaled *= np.ldexp(1.0, -frame.exponent)
    too_large = np.maximum(scaled.max(axis=1), -scaled.min(axis=1)) > _LARGEST_ENTRY[frame.dtype]
    scaled[too_large] = 0
    operand = np.empty((n_rows, n_features + 2), dtype=frame.dtype)
    operand[:, :n_features] = scaled
    # The norm of what was rounded, not of what it was rounded from.
    scaled[:] = operand[:, :n_features]
    c = (1.1 * n_features + 6) * float(np.finfo(frame.dtype).epsneg) + (n_features + 1) * 2.0**-53
    shrunk = np.einsum("ij,ij->i", scaled, scaled) * (1 - 2 * c) - _UNDERFLOW[frame.dtype]
    shrunk[too_large] = _NO_BOUND[frame.dtype]
    operand[:, n_features] = np.nextafter(shrunk.astype(frame.dtype), frame.dtype.type(-np.inf))
    operand[:, n_features + 1] = 1
    return operand


def query_operand(operand: NDArray[Any]) -> NDArray[Any]:
    """Turn ``(row, beta, 1)`` into ``(-2 row, 1, alpha)``. Nothing is rounded."""
    n_features = operand.shape[1] - 2
    query = np.empty_like(operand)
    np.multiply(operand[:, :n_features], -2, out=query[:, :n_features])
    query[:, n_features] = 1
    query[:, n_features + 1] = operand[:, n_features]
    return query
