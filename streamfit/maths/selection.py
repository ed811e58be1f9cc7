"""Exact order statistics and percentiles of a sequence that does not fit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "interpolate",
    "interpolate_extended",
    "order_statistics",
    "percentile",
    "percentile_ranks",
    "quantile_ranks",
]

_SLICE_VALUES = 131_072
"""Values looked at at a time, whatever the size of the blocks."""
_DIGIT_BITS = 16
"""Most bits that one pass resolves: 65,536 counters of 8 bytes stay in the cache."""
_LEAST_DIGIT_BITS = 4
_SIGN = np.int64(-(2**63))
_LAST = np.uint64(2**64 - 1)


def percentile_ranks(n: int, q: float) -> tuple[int, int, float]:
    """Say between which order statistics the percentile of ``numpy.percentile`` lies.

    Parameters
    ----------
    n : int
        Number of values, at least 1.
    q : float
        Percentile, 0 to 100 inclusive.

    Returns
    -------
    lower, upper : int
        Ranks, counted from 0; ``upper`` is ``lower`` at the last rank and ``lower + 1`` elsewhere.
    weight : float
        Weight of the upper one, as `interpolate` takes it.

    Raises
    ------
    InvalidDataError
        There is no value.
    InvalidParameterError
        `q` is outside its range.

    Examples
    --------
    >>> percentile_ranks(5, 90)
    (3, 4, 0.6000000000000001)
    >>> percentile_ranks(1, 90)[:2]
    (0, 0)
    """
    if n < 1:
        raise InvalidDataError("A percentile of no values does not exist. Give at least 1 value.")
    if not 0 <= q <= 100:
        raise InvalidParameterError(f"q must be between 0 and 100, got {q}.")
    return quantile_ranks(n, float(np.true_divide(q, 100)))


def quantile_ranks(n: int, q: float) -> tuple[int, int, float]:
    """Say between which order statistics of `n` values the quantile of ``numpy.quantile`` lies, as `percentile_ranks`.

    Examples
    --------
    >>> quantile_ranks(5, 0.5), quantile_ranks(4, 0.5), quantile_ranks(4, 1.0)
    ((2, 3, 0.0), (1, 2, 0.5), (3, 3, 0.0))
    """
    position = (n - 1) * q
    lower = int(position)
    if lower >= n - 1:
        return n - 1, n - 1, 0.0
    return lower, lower + 1, position - lower


def interpolate(lower: float, upper: float, weight: float) -> float:
    """Interpolate between two order statistics with the roundings of ``numpy.percentile``.

    Examples
    --------
    >>> interpolate(1.0, 2.0, 0.25), interpolate(float("inf"), float("inf"), 0.0)
    (1.25, nan)
    """
    # Both forms are kept, as NumPy keeps them: each is exact at its own end.
    difference = upper - lower
    return lower + difference * weight if weight < 0.5 else upper - difference * (1 - weight)


def interpolate_extended(lower: float, upper: float, weight: float) -> float:
    """Interpolate as `interpolate` does, and where that overflows or meets an infinity give what is meant.

    Raises
    ------
    InvalidDataError
        The value lies between the two infinities, where there is none.

    Examples
    --------
    >>> inf = float("inf")
    >>> interpolate_extended(inf, inf, 0.5), interpolate_extended(1.0, inf, 0.5), interpolate_extended(1.0, inf, 0.0)
    (inf, inf, 1.0)
    >>> interpolate_extended(-1e308, 1e308, 0.75)
    5e+307
    """
    if np.isfinite(upper - lower):
        return interpolate(lower, upper, weight)
    if weight == 0 or lower == upper:
        return lower
    if np.isinf(lower) and np.isinf(upper):
        raise InvalidDataError(
            "A quantile would lie between -inf and inf, where no number is. Look at the rows with infinite values."
        )
    return lower * (1 - weight) + upper * weight


def percentile(blocks: Callable[[], Iterable[NDArray[Any]]], n: int, q: float, *, max_nbytes: int) -> float:
    """Give ``numpy.percentile(values, q)`` of values that come in blocks, bit for bit.

    Only the sign of a zero may differ: where zeros of both signs are tied, NumPy's own choice among them
    depends on the order of the values.

    Parameters
    ----------
    blocks : callable
        Gives a new iterator over the blocks, 1-D arrays, at each call.
    n : int
        Number of values in all blocks.
    q : float
        Percentile, 0 to 100 inclusive.
    max_nbytes : int
        As in `order_statistics`.

    Returns
    -------
    float
        The percentile; NaN where a value is NaN, or where it lies between two equal infinities, as in NumPy.

    Raises
    ------
    InvalidDataError
        There is no value, or the blocks do not hold `n` values.
    InvalidParameterError
        `q` is outside its range.

    Examples
    --------
    >>> percentile(lambda: [np.array([3.0, 1.0]), np.array([2.0])], 3, 75, max_nbytes=2**20)
    2.5
    """
    lower, upper, weight = percentile_ranks(n, q)
    # NaN is placed last, so the last value tells whether there is one.
    values = order_statistics(blocks, (lower, upper, n - 1), n=n, max_nbytes=max_nbytes)
    if np.isnan(values[2]):
        return float("nan")
    return interpolate(float(values[0]), float(values[1]), weight)


def order_statistics(
    blocks: Callable[[], Iterable[NDArray[Any]]], ranks: Sequence[int], *, n: int, max_nbytes: int
) -> NDArray[np.float64]:
    """Give ``numpy.sort(values)[ranks]`` of values that come in blocks.

    Each float64 is mapped to the unsigned integer of the same order. Where not all of them fit, a pass
    counts their leading bits, the next one looks only at those that share their leading bits with a wanted
    value, and so on, until the rest fits or all 64 bits are known: two passes are usual, five the most.

    Parameters
    ----------
    blocks : callable
        Gives a new iterator over the same blocks, 1-D arrays of real numbers, at each call.
    ranks : sequence of int
        Wanted ranks, 0 to ``n - 1``, in any order.
    n : int
        Number of values in all blocks.
    max_nbytes : int
        Bytes to use for values and counters, beside a few MiB for the slice in hand. It decides the number
        of passes, never the result.

    Returns
    -------
    ndarray of shape (len(ranks),)
        The values; NaN is placed last, -0.0 becomes 0.0.

    Raises
    ------
    InvalidDataError
        The blocks do not hold `n` values.
    InvalidParameterError
        A rank is outside its range.

    Examples
    --------
    >>> blocks = [np.array([3.0, np.nan]), np.array([-np.inf])]
    >>> order_statistics(lambda: blocks, [0, 2], n=3, max_nbytes=2**20)
    array([-inf,  nan])
    """
    wanted = np.asarray(ranks, dtype=np.int64)
    if wanted.size and not 0 <= wanted.min() <= wanted.max() < n:
        raise InvalidParameterError(f"ranks must be between 0 and {n - 1}, got {list(ranks)}.")
    prefixes = np.zeros(1, dtype=np.uint64)
    sizes = np.array([n])
    group = np.zeros(len(wanted), dtype=np.intp)
    n_known = 0
    while n_known < 64 and 8 * int(sizes.sum()) > max_nbytes:
        n_bits = _digit_bits(len(prefixes), 64 - n_known, max_nbytes)
        counts = np.zeros((len(prefixes), 2**n_bits), dtype=np.int64)
        _count_digits(_images(blocks, n), prefixes, n_known, counts)
        below = counts.cumsum(axis=1) - counts
        digit = np.array(
            [np.searchsorted(below[g], rank, side="right") - 1 for g, rank in zip(group, wanted, strict=True)],
            dtype=np.intp,
        )
        wanted = wanted - below[group, digit]
        longer = (prefixes[group] << np.uint64(n_bits)) | digit.astype(np.uint64)
        prefixes, first, next_group = np.unique(longer, return_index=True, return_inverse=True)
        sizes = counts[group, digit][first]
        group = next_group
        n_known += n_bits
    if n_known == 64:
        return _values(prefixes[group])
    images = np.empty(len(wanted), dtype=np.uint64)
    for index, members in enumerate(_gather(_images(blocks, n), prefixes, n_known, sizes)):
        mine = group == index
        members.partition(np.unique(wanted[mine]))
        images[mine] = members[wanted[mine]]
    return _values(images)


def _digit_bits(n_prefixes: int, n_unknown: int, max_nbytes: int) -> int:
    """Bits that the next pass can resolve: its counters and their sums are 16 bytes each."""
    affordable = (max_nbytes // (16 * n_prefixes)).bit_length() - 1
    return min(n_unknown, _DIGIT_BITS, max(_LEAST_DIGIT_BITS, affordable))


def _images(blocks: Callable[[], Iterable[NDArray[Any]]], n: int) -> Iterator[NDArray[np.uint64]]:
    """Give the values as unsigned integers of the same order, slice by slice."""
    seen = 0
    for block in blocks():
        seen += len(block)
        if seen > n:
            break
        for start in range(0, len(block), _SLICE_VALUES):
            yield _image(block[start : start + _SLICE_VALUES])
    if seen != n:
        raise InvalidDataError(f"{n} values were announced and the blocks hold {seen} or more. Give the right n.")


def _image(values: NDArray[Any]) -> NDArray[np.uint64]:
    # Adding 0.0 turns -0.0, which sorts with 0.0, into 0.0.
    floats = values.astype(np.float64, copy=False) + 0.0
    bits = floats.view(np.int64)
    # Negative floats rise as their bits fall: flip all of their bits, and only the sign of the others.
    image = (bits ^ ((bits >> 63) | _SIGN)).view(np.uint64)
    image[np.isnan(floats)] = _LAST
    return image


def _values(image: NDArray[np.uint64]) -> NDArray[np.float64]:
    bits = image.view(np.int64)
    return (bits ^ np.where(bits < 0, _SIGN, np.int64(-1))).view(np.float64)


def _with_prefix(image: NDArray[np.uint64], prefix: np.uint64, n_known: int) -> NDArray[np.uint64]:
    return image if n_known == 0 else image[image >> np.uint64(64 - n_known) == prefix]


def _count_digits(
    images: Iterable[NDArray[np.uint64]],
    prefixes: NDArray[np.uint64],
    n_known: int,
    counts: NDArray[np.int64],
) -> None:
    n_digits = counts.shape[1]
    shift = np.uint64(64 - n_known - (n_digits.bit_length() - 1))
    for image in images:
        for index, prefix in enumerate(prefixes):
            digits = (_with_prefix(image, prefix, n_known) >> shift) & np.uint64(n_digits - 1)
            counts[index] += np.bincount(digits.view(np.int64), minlength=n_digits)


def _gather(
    images: Iterable[NDArray[np.uint64]],
    prefixes: NDArray[np.uint64],
    n_known: int,
    sizes: NDArray[np.int64],
) -> list[NDArray[np.uint64]]:
    members = [np.empty(size, dtype=np.uint64) for size in sizes]
    filled = [0] * len(members)
    for image in images:
        for index, prefix in enumerate(prefixes):
            found = _with_prefix(image, prefix, n_known)
            members[index][filled[index] : filled[index] + len(found)] = found
            filled[index] += len(found)
    return members
