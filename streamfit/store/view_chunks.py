"""The chunks of a view: what it selects of one stored chunk, or of several that are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamfit.plan.layout import SparseSize, StoreLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.store.selection import Selection

__all__ = ["MAX_JOINED", "Part", "ViewChunks"]

MAX_JOINED = 8
"""Most stored chunks of a view's chunk: a task reads whole ones of these, however few rows it takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What a view's chunk takes from one stored chunk."""

    chunk: int
    """Number of the stored chunk."""
    n_rows: int
    """Rows that are taken."""
    rows: slice | NDArray[np.int64] | None
    """Which rows of the stored chunk, ascending; None for all."""


class ViewChunks:
    """Which stored chunks the chunks of a view come from.

    Consecutive stored chunks are joined, at most `MAX_JOINED`, while what is selected of them fits one stored chunk: so
    each is read once in a pass, and few selected rows make neither many small chunks nor few that read all the others.

    Parameters
    ----------
    selection : Selection
        At least one row.
    stored : StoreLayout
        Geometry of the store.
    """

    def __init__(self, selection: Selection, stored: StoreLayout) -> None:
        self._selection = selection
        self._stored = stored
        counts = selection.counts(stored.chunk_edges)
        self._kept = np.flatnonzero(counts)
        sizes = counts[self._kept]
        self._edges = np.concatenate(([0], np.cumsum(sizes)))
        """First row of the view in each kept chunk, then the number of rows."""
        self._groups = _joined(sizes, stored.chunk_rows)
        """First kept chunk of each chunk of the view, then the number of kept chunks."""
        starts = self._edges[self._groups]
        stored_sizes = stored.chunk_sizes[self._kept]
        self.most_stored_rows = int(np.add.reduceat(stored_sizes, self._groups[:-1]).max())
        """Most rows of the stored chunks that one chunk of the view comes from."""
        partly = bool((sizes < stored_sizes).any())
        self.layout = StoreLayout(
            selection.n_rows,
            stored.n_features,
            int(np.diff(starts).max()),
            stored.itemsize,
            starts=tuple(starts[:-1].tolist()),
            aside_rows=min(stored.chunk_rows, stored.n_rows) if partly else 0,
            sparse=_part_of(stored, selection.n_rows),
            outputs_nbytes=stored.outputs_nbytes,
        )

    @property
    def stored(self) -> NDArray[np.int64]:
        """Numbers of the stored chunks that hold a row of the view, ascending."""
        return self._kept

    def parts(self, index: int) -> Iterator[Part]:
        """Give what a chunk of the view is made of, in order.

        Parameters
        ----------
        index : int
            Number of the chunk.
        """
        for kept in range(int(self._groups[index]), int(self._groups[index + 1])):
            chunk, n_rows = int(self._kept[kept]), int(self._edges[kept + 1] - self._edges[kept])
            start, stop = self._stored.chunk_bounds(chunk)
            if n_rows == stop - start:
                yield Part(chunk, n_rows, None)
                continue
            rows = self._selection.rows_between(start, stop) - start
            first, last = int(rows[0]), int(rows[-1])
            yield Part(chunk, n_rows, slice(first, last + 1) if last - first + 1 == n_rows else rows)

    def row_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the numbers that rows of the view have in the store, ``(n,)``."""
        numbers = np.empty(len(rows), dtype=np.int64)
        owners = np.searchsorted(self._edges, rows, side="right") - 1
        order = np.argsort(owners, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1) if len(order) else []:
            kept = int(owners[places[0]])
            found = self._selection.rows_between(*self._stored.chunk_bounds(int(self._kept[kept])))
            numbers[places] = found[rows[places] - self._edges[kept]]
        return numbers


def _part_of(stored: StoreLayout, n_rows: int) -> SparseSize | None:
    """Bytes of some rows of a sparse matrix, as if its rows were alike."""
    if stored.sparse is None:
        return None
    return SparseSize(-(-stored.sparse.nbytes * n_rows // stored.n_rows), stored.sparse.chunk_nbytes)


def _joined(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Join consecutive sizes greedily up to `most` rows; give where each group begins, then the number of sizes."""
    begins, filled = [0], 0
    for place, size in enumerate(sizes.tolist()):
        if filled and (filled + size > most or place - begins[-1] == MAX_JOINED):
            begins.append(place)
            filled = 0
        filled += size
    return np.array([*begins, len(sizes)])
