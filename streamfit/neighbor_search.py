"""Exact nearest neighbours of rows, out of core.

Queries are taken in blocks of as many rows as the memory limit allows; all other rows are streamed past
each block in windows. Where one block holds all rows, the data are read once. What a row's neighbours are
does not depend on blocks, windows or threads: see `streamfit.maths.neighbors`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.neighbors.bounds import MAX_FEATURES, check_values, frame_of
from streamfit.maths.neighbors.join import join, join_with_itself
from streamfit.maths.neighbors.memory import plan_search, points_dtype, windows_outside
from streamfit.maths.neighbors.report import SearchReport
from streamfit.maths.neighbors.tiles import Lists, prepare, tile_rows_for
from streamfit.run.blas import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.batch import Chunk
    from streamfit.maths.neighbors.bounds import Frame
    from streamfit.maths.neighbors.join import MapTiles
    from streamfit.maths.neighbors.memory import SearchPlan
    from streamfit.maths.neighbors.tiles import Tiles
    from streamfit.plan.layout import StoreLayout

__all__ = [
    "ChunkSource",
    "NeighborBlock",
    "SearchReport",
    "neighbors_of_new_rows",
    "neighbors_of_rows",
    "search_block",
]

_FRAME_ROWS = 1024
_MANY_QUERIES = 1024
"""Below this, putting candidates in order costs more than it saves."""


class ChunkSource(Protocol):
    """Rows that are read by chunks, such as the reader of a store."""

    @property
    def layout(self) -> StoreLayout:
        """Rows, columns and chunks."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the features."""

    def read_chunk(self, index: int, *, out: NDArray[Any] | None = None) -> Chunk:
        """Read a chunk; `out` is a buffer to decode into."""


@dataclass(frozen=True, slots=True)
class NeighborBlock:
    """The neighbours of a run of rows."""

    start: int
    """Number of the first row, inclusive."""
    distances: NDArray[np.float64]
    """Euclidean, ascending, ``(n_rows, n_neighbors)``."""
    neighbors: NDArray[np.int64]
    """Global row numbers, ascending among equal distances, ``(n_rows, n_neighbors)``."""
    report: SearchReport
    """Of this block."""

    @property
    def stop(self) -> int:
        """Number of the last row, exclusive."""
        return self.start + len(self.distances)


def neighbors_of_rows(
    source: ChunkSource,
    rows: range | None = None,
    *,
    n_neighbors: int,
    memory_limit: int | None,
    n_workers: int,
) -> Iterator[NeighborBlock]:
    """Find the nearest other training rows of training rows, block by block, in row order.

    Parameters
    ----------
    source : ChunkSource
        The training rows.
    rows : range or None
        Rows whose neighbours are sought, step 1; None for all.
    n_neighbors : int
        Neighbours a row, at least 1.
    memory_limit : int or None
        Bytes that may be held; None holds all rows at once.
    n_workers : int
        Threads; BLAS runs on one thread in each.

    Yields
    ------
    NeighborBlock
        A row is not its own neighbour; its copies are. Equal distances are ordered by row number. Bit-equal
        for any memory limit, chunks, range and number of threads.

    Raises
    ------
    InvalidDataError
        There are `n_neighbors` rows or fewer, or values that are not finite or of at least ``2**500``.
    InvalidParameterError
        `rows` is not a part of the source, or a count is below 1.
    BudgetError
        The memory limit holds no tile and chunk.
    """
    layout = source.layout
    rows = range(layout.n_rows) if rows is None else rows
    if rows.step != 1 or not 0 <= rows.start < rows.stop <= layout.n_rows:
        raise InvalidParameterError(f"rows must be a range within 0..{layout.n_rows} of step 1, got {rows}.")
    _check(layout, n_neighbors=n_neighbors, n_workers=n_workers, n_others=layout.n_rows - 1)
    dtype = points_dtype(source.dtype)
    plan = plan_search(
        layout,
        dtype,
        n_queries=len(rows),
        n_neighbors=n_neighbors,
        n_workers=n_workers,
        memory_limit=memory_limit,
        queries_are_rows=True,
    )
    return _Search(source, plan, dtype, n_neighbors, n_workers).blocks_of_rows(rows)


def search_block(
    source: ChunkSource, rows: range, *, n_neighbors: int, memory_limit: int | None, n_workers: int
) -> NeighborBlock:
    """Find the neighbours of one run of training rows, as one task of many; see `neighbors_of_rows`."""
    return _joined(
        list(neighbors_of_rows(source, rows, n_neighbors=n_neighbors, memory_limit=memory_limit, n_workers=n_workers))
    )


def _joined(blocks: list[NeighborBlock]) -> NeighborBlock:
    return NeighborBlock(
        start=blocks[0].start,
        distances=np.concatenate([block.distances for block in blocks]),
        neighbors=np.concatenate([block.neighbors for block in blocks]),
        report=sum((block.report for block in blocks), SearchReport()),
    )


def neighbors_of_new_rows(
    source: ChunkSource, X: NDArray[Any], *, n_neighbors: int, memory_limit: int | None, n_workers: int
) -> Iterator[NeighborBlock]:
    """Find the nearest training rows of new rows, block by block, in row order.

    Parameters
    ----------
    source : ChunkSource
        The training rows.
    X : ndarray of shape (n_new, n_features)
        New rows. A row that is equal to training rows has them as neighbours.
    n_neighbors, memory_limit, n_workers
        As in `neighbors_of_rows`. `X` itself is not counted.

    Yields
    ------
    NeighborBlock
        A row's neighbours do not depend on the other new rows.

    Raises
    ------
    InvalidDataError
        As in `neighbors_of_rows`, or the columns of `X` are not those of the source.
    """
    layout = source.layout
    if X.ndim != 2 or X.shape[1] != layout.n_features:
        raise InvalidDataError(
            f"The new rows have shape {X.shape} and the training rows have {layout.n_features} columns. "
            "Give a matrix with the same columns."
        )
    _check(layout, n_neighbors=n_neighbors, n_workers=n_workers, n_others=layout.n_rows)
    dtype = points_dtype(source.dtype, X.dtype)
    if len(X) == 0:
        return iter(())
    plan = plan_search(
        layout,
        dtype,
        n_queries=len(X),
        n_neighbors=n_neighbors,
        n_workers=n_workers,
        memory_limit=memory_limit,
        queries_are_rows=False,
    )
    return _Search(source, plan, dtype, n_neighbors, n_workers).blocks_of_new_rows(X)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search that is planned.

    Each block and each window lives in a call of its own: none is held while the next one is read.
    """

    source: ChunkSource
    plan: SearchPlan
    dtype: np.dtype[Any]
    """Of the points."""
    n_neighbors: int
    n_workers: int

    def blocks_of_rows(self, rows: range) -> Iterator[NeighborBlock]:
        for start in range(rows.start, rows.stop, self.plan.block_rows):
            yield self.block_of_rows(start, min(start + self.plan.block_rows, rows.stop))

    def block_of_rows(self, start: int, stop: int) -> NeighborBlock:
        points = self.read(start, stop)
        with _workers(self.n_workers) as map_tiles:
            queries = _prepare(points, start, _frame(points), n_queries=len(points))
            # One more than asked for: the row itself is among them until the end.
            lists = Lists.empty(queries.n_rows, self.n_neighbors + 1)
            lists.offer_own_copies(queries)
            report = SearchReport(n_rows=len(points)) + join_with_itself(queries, lists, map_tiles=map_tiles)
            for first, last in windows_outside(self.source.layout, start, stop, self.plan.window_rows):
                report += self.join_window(queries, lists, first, last, map_tiles)
        return NeighborBlock(start, *lists.results_without_self(queries), report)

    def blocks_of_new_rows(self, X: NDArray[Any]) -> Iterator[NeighborBlock]:
        for start in range(0, len(X), self.plan.block_rows):
            yield self.block_of_new_rows(X[start : start + self.plan.block_rows], start)

    def block_of_new_rows(self, X: NDArray[Any], start: int) -> NeighborBlock:
        points = np.ascontiguousarray(X, dtype=self.dtype)
        check_values(points, start, "new row")
        report = SearchReport(n_rows=len(points))
        with _workers(self.n_workers) as map_tiles:
            queries = _prepare(points, start, _frame(points), n_queries=len(points))
            lists = Lists.empty(queries.n_rows, self.n_neighbors)
            for first, last in windows_outside(self.source.layout, 0, 0, self.plan.window_rows):
                report += self.join_window(queries, lists, first, last, map_tiles)
        return NeighborBlock(start, *lists.results(queries), report)

    def join_window(self, queries: Tiles, lists: Lists, first: int, last: int, map_tiles: MapTiles) -> SearchReport:
        points = self.read(first, last)
        window = _prepare(points, first, queries.frame, n_queries=len(queries.points))
        return join(queries, lists, window, map_tiles=map_tiles)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        layout = self.source.layout
        points = np.empty((stop - start, layout.n_features), dtype=self.dtype)
        buffer = np.empty((min(layout.chunk_rows, layout.n_rows), layout.n_features), dtype=self.source.dtype)
        for index in layout.chunks_between(start, stop):
            chunk = self.source.read_chunk(index, out=buffer)
            first, last = max(chunk.start, start), min(chunk.stop, stop)
            points[first - start : last - start] = chunk.X[first - chunk.start : last - chunk.start]
            check_values(points[first - start : last - start], first, "row")
        return points


def _check(layout: StoreLayout, *, n_neighbors: int, n_workers: int, n_others: int) -> None:
    for name, value in (("n_neighbors", n_neighbors), ("n_workers", n_workers)):
        if value < 1:
            raise InvalidParameterError(f"{name} must be at least 1, got {value}.")
    if n_others < n_neighbors:
        raise InvalidDataError(
            f"n_neighbors is {n_neighbors} and a row has {n_others} candidates ({layout.n_rows} training rows). "
            "Lower n_neighbors or give more rows."
        )
    if layout.n_features > MAX_FEATURES:
        raise InvalidDataError(
            f"The matrix has {layout.n_features} columns; neighbours are sought among at most {MAX_FEATURES}. "
            "Reduce the columns first."
        )


def _frame(points: NDArray[Any]) -> Frame:
    return frame_of(points[:: -(-len(points) // _FRAME_ROWS)], dtype=np.float32)


def _prepare(points: NDArray[Any], first_row: int, frame: Frame, *, n_queries: int) -> Tiles:
    return prepare(
        points,
        first_row=first_row,
        frame=frame,
        tile_rows=tile_rows_for(points.shape[1]),
        arrange=n_queries >= _MANY_QUERIES,
    )


@contextmanager
def _workers(n_workers: int) -> Iterator[MapTiles]:
    """Give a ``map`` over threads, with one BLAS thread in each."""
    with one_blas_thread():
        if n_workers == 1:
            yield map
            return
        pool = ThreadPoolExecutor(n_workers, thread_name_prefix="streamfit-neighbors")
        try:
            yield pool.map
        finally:
            # After an interrupt only the tiles under way are finished, not all that were handed out.
            pool.shutdown(cancel_futures=True)
