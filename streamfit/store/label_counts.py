"""How often each stored label occurs, where there are few enough to be classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["MAX_CLASSES", "LabelCounts", "distinct", "most_classes"]

MAX_CLASSES = 10_000
"""Whole numbers with more distinct values are a target, not classes."""

_MAX_CLASSES_OF_ROW = 100_000
"""Of several labels a row together: each class is told of in the manifest."""
_DENSE_RANGE = 65_536
"""Whole numbers in so small a range are counted by their place in it."""


def most_classes(n_outputs: int) -> int:
    """Give how many classes each of several labels a row may have; it follows from their number alone.

    Examples
    --------
    >>> most_classes(1), most_classes(10), most_classes(1_000), most_classes(10**6)
    (10000, 10000, 100, 2)
    """
    return max(2, min(MAX_CLASSES, _MAX_CLASSES_OF_ROW // n_outputs))


def distinct(stored: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Give distinct values, where each is first, and how many there are, as `numpy.unique` does.

    Examples
    --------
    >>> values, first, counts = distinct(np.array([7, -3, 7, 7], dtype=np.int8))
    >>> values.tolist(), first.tolist(), counts.tolist()
    ([-3, 7], [1, 0], [1, 3])
    """
    if stored.dtype.kind in "iu" and len(stored):
        least, most = int(stored.min()), int(stored.max())
        if most - least < _DENSE_RANGE:
            # Unsigned numbers of 64 bits need not fit signed ones, and differences of narrow types overflow.
            low = stored.dtype.type(least)
            places = (stored - low if stored.dtype.itemsize == 8 else stored.astype(np.int64) - least).astype(np.intp)
            counts = np.bincount(places, minlength=most - least + 1)
            first = np.empty(most - least + 1, dtype=np.int64)
            first[places[::-1]] = np.arange(len(places) - 1, -1, -1)  # of equal places the last one stays
            found = np.flatnonzero(counts)
            values = found.astype(stored.dtype) + low if stored.dtype.kind == "u" else found + least
            return values.astype(stored.dtype, copy=False), first[found], counts[found]
    return np.unique(stored, return_index=True, return_counts=True)


class LabelCounts:
    """Counts stored labels, until there is a fraction or too many distinct ones: then they are a target.

    Parameters
    ----------
    most : int
        Most distinct labels that are classes.
    counts, first_rows : mapping
        By stored label, where counting goes on.
    is_target : bool
        Whether it is known already.
    """

    def __init__(
        self,
        most: int,
        *,
        counts: Mapping[Any, int],
        first_rows: Mapping[Any, int],
        is_target: bool,
    ) -> None:
        self._most = most
        self.counts = dict(counts)
        self.first_rows = dict(first_rows)
        self.is_target = is_target

    @classmethod
    def empty(cls, most: int) -> LabelCounts:
        """Begin to count."""
        return cls(most, counts={}, first_rows={}, is_target=False)

    def add(self, stored: NDArray[Any], *, start: int) -> None:
        """Count the labels of rows of which the first has the number `start`, behind those that were counted."""
        if self.is_target:
            return
        if stored.dtype.kind == "f" and not (stored == np.trunc(stored)).all():
            self._become_target()
            return
        values, first, counts = distinct(stored)
        for value, row, count in zip(values.tolist(), first.tolist(), counts.tolist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + count
            self.first_rows.setdefault(value, start + row)
        if len(self.counts) > self._most:
            self._become_target()

    def _become_target(self) -> None:
        self.is_target = True
        self.counts.clear()
        self.first_rows.clear()
