"""How many chunks a window should hold where nobody says so."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from streamfit.plan.shuffle_quality import clustered_rows

if TYPE_CHECKING:
    from streamfit.plan.layout import StoreLayout
    from streamfit.plan.shuffle_quality import ChunkCorrelation

__all__ = ["bound_of_window", "default_window"]

MOST_VARIANCE = 1.1
"""Variance of the mean of a batch, as a multiple of that after a full shuffle, that a window is chosen for."""

_USUAL_CHUNKS = 16
"""Where nothing is known of labels."""
_LEAST_CHUNKS = 4
"""Where labels ask for fewer: they do not tell all, and rows may be alike in other ways."""
_LEAST_NBYTES = 32 * 2**20
"""What 4 chunks of the usual 8 MiB hold: where chunks are smaller nothing is saved by a window of fewer than 16."""
_MOST_NBYTES = 256 * 2**20
_MOST_SMALL_CHUNKS = 64
"""Chunks of a view may hold few rows and cost whole stored chunks to read: windows of more would take long to begin."""


def default_window(layout: StoreLayout, *, batch_size: int, limited: bool, correlation: ChunkCorrelation | None) -> int:
    """Give the chunks of a window as one would like to have them, whatever they cost.

    Without labels they are 16, in a view as many, up to 64, as hold the rows of 16 stored ones. With labels they are
    as few as let the mean of a batch vary at most 1.1 times as much as after a full shuffle, but 4 at the least (in a
    view in the same sense), and as many, up to 16, as 32 MiB hold. They have at most 256 MiB; where the labels ask for
    more and there is a limit, that is for the limit to bound. They hold a batch.

    Parameters
    ----------
    layout : StoreLayout
        Geometry of the store.
    batch_size : int
        Rows of a batch.
    limited : bool
        Whether the user gave a limit.
    correlation : ChunkCorrelation or None
        Of the labels; None where they are not known, or where the order of the rows is kept.

    Examples
    --------
    >>> from streamfit.plan.layout import StoreLayout
    >>> from streamfit.plan.shuffle_quality import ChunkCorrelation
    >>> layout = StoreLayout(n_rows=10_000_000, n_features=100, chunk_rows=20_000, itemsize=4)
    >>> def window(rho, limited=False):
    ...     correlation = ChunkCorrelation(rho=rho, of="labels", n_sampled=32, chunk_rows=20_000)
    ...     return default_window(layout, batch_size=4096, limited=limited, correlation=correlation)
    >>> window(0.0), window(0.0002), window(0.9), window(0.9, limited=True)
    (4, 9, 33, 494)
    """
    affordable = layout.chunks_within_rows(_MOST_NBYTES // (layout.row_nbytes + layout.outputs_nbytes))
    if correlation is None:
        wanted = min(_as_stored(layout, _USUAL_CHUNKS), affordable)
    else:
        for_variance = _for_variance(layout, batch_size, correlation)
        least = _least(layout, affordable)
        wanted = max(least, for_variance if limited else min(for_variance, affordable))
    return min(max(layout.chunks_for_rows(batch_size), wanted), layout.n_chunks)


def bound_of_window(
    layout: StoreLayout,
    *,
    window_chunks: int,
    batch_size: int,
    requested: int | None,
    limited: bool,
    correlation: ChunkCorrelation | None,
) -> str:
    """Tell in a few words why a window that was chosen is not larger.

    Parameters
    ----------
    layout, batch_size, limited, correlation
        As in `default_window`.
    window_chunks : int
        What was chosen, after the limit was looked at.
    requested : int or None
        Chunks that the user asked for.
    """
    if window_chunks >= layout.n_chunks:
        return "all chunks"
    if requested is not None:
        return "as asked for"
    if window_chunks < default_window(layout, batch_size=batch_size, limited=limited, correlation=correlation):
        return "as many as fit memory_limit"
    if window_chunks == layout.chunks_for_rows(batch_size):
        return "one batch"
    affordable = f"as many as {_MOST_NBYTES // 2**20} MiB hold"
    if correlation is None:
        return "the usual" if window_chunks == _as_stored(layout, _USUAL_CHUNKS) else affordable
    if window_chunks == _for_variance(layout, batch_size, correlation):
        return f"batches vary at most {MOST_VARIANCE} times as much as after a full shuffle"
    return "the least" if window_chunks == _least(layout, layout.n_chunks) else affordable


def _least(layout: StoreLayout, affordable: int) -> int:
    least_rows = _LEAST_NBYTES // (layout.row_nbytes + layout.outputs_nbytes)
    within = min(_as_stored(layout, _USUAL_CHUNKS), layout.chunks_within_rows(least_rows))
    return min(max(_as_stored(layout, _LEAST_CHUNKS), within), affordable)


def _for_variance(layout: StoreLayout, batch_size: int, correlation: ChunkCorrelation) -> int:
    rows, batch_rows = clustered_rows(layout, correlation), min(batch_size, layout.n_rows)
    chunks = range(layout.chunks_for_rows(batch_size), layout.n_chunks)
    # The more chunks, the less a batch varies; all of them are a full shuffle.
    return chunks.start + bisect_left(
        chunks, 1, key=lambda n: rows.variance_ratio(n, batch_size=batch_rows) <= MOST_VARIANCE
    )


def _as_stored(layout: StoreLayout, n_chunks: int) -> int:
    """In a view, as many chunks as hold the rows of that many stored ones, within reason."""
    stored_rows = max(layout.chunk_rows, layout.aside_rows)
    return max(n_chunks, min(layout.chunks_for_rows(n_chunks * stored_rows), _MOST_SMALL_CHUNKS))
