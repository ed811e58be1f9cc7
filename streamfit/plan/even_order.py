"""Rows of several classes in an order in which every part is made up as the whole is."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["even_order"]


def even_order(classes: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Order rows at random, but so that each run of them holds every class in its proportion.

    The rows of a class are shuffled. Then the two smallest groups are merged to one until one is left, as Huffman's
    code is made: a merge spaces the rows of the smaller group evenly among those of the other one, from a random
    phase on. A run of `L` rows of a merged group then holds ⌊q L⌋ or ⌈q L⌉ rows of a part that is `q` of it, and of two
    classes that holds for the whole order. Of more, each merge above a class adds less than one row, times the share
    that the class has in what was merged. As groups grow at least as Fibonacci's numbers do towards the whole, a run
    has less than 1 + 1 + 1/2 + 1/3 + 1/5 + … < 3.36 rows of a class more or less than its proportion, however many
    classes there are; less than 2 are seen. (No order of three or more classes stays within one row in every run, but
    for few proportions.) Every row is equally likely at every place.

    Parameters
    ----------
    classes : ndarray of unsigned integers, (n_rows,)
        Class of each row.
    rng : Generator
        Where chance comes from.

    Returns
    -------
    ndarray of int64, (n_rows,)
        A permutation of the rows.

    Examples
    --------
    >>> classes = np.array([0, 0, 0, 0, 0, 0, 1, 1], dtype=np.uint8)
    >>> order = even_order(classes, np.random.Generator(np.random.PCG64(0)))
    >>> classes[order]
    array([0, 0, 1, 0, 0, 0, 1, 0], dtype=uint8)
    >>> even_order(classes[:0], np.random.Generator(np.random.PCG64(0)))
    array([], dtype=int64)
    """
    shuffled = rng.permutation(len(classes))
    shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
    ends = np.cumsum(np.bincount(classes)).tolist()
    starts = [0, *ends[:-1]]
    # Equal sizes are merged in the order of their numbers: a heap alone would compare arrays.
    groups = [
        (end - start, number, shuffled[start:end])
        for number, (start, end) in enumerate(zip(starts, ends, strict=False))
        if end > start
    ]
    heapify(groups)
    number = len(ends)
    while len(groups) > 1:
        merged = _merged(heappop(groups)[2], heappop(groups)[2], rng)
        heappush(groups, (len(merged), number, merged))
        number += 1
    return groups[0][2] if groups else shuffled


def _merged(few: NDArray[np.int64], many: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Space the rows of one group evenly among those of another one."""
    n_rows = len(few) + len(many)
    phase = rng.bit_generator.random_raw() % n_rows
    # The first t places hold ⌊(t · few + phase) / n⌋ rows of the smaller group: row j lies where that becomes j + 1.
    places = -((phase - n_rows * np.arange(1, len(few) + 1)) // len(few)) - 1
    merged = np.empty(n_rows, dtype=np.int64)
    is_free = np.ones(n_rows, dtype=np.bool_)
    is_free[places] = False
    merged[places] = few
    merged[is_free] = many
    return merged
