"""A few rows from all over a store for a trial, and how long reading them took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.batch import Batch
from streamfit.maths.csr_rows import joined_rows
from streamfit.run.correlation import sampled_chunks
from streamfit.run.windows import joined

if TYPE_CHECKING:
    from streamfit.plan.layout import StoreLayout
    from streamfit.store.reader import Reader

__all__ = ["SampledRows", "rows_for_trial", "sample_rows"]

_LEAST_CHUNKS = 4
_MOST_NBYTES = 64 * 2**20
_SEED = 20_261_201


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows:
    """Rows of some chunks, mixed, and the time that a row took."""

    batch: Batch
    """The rows, as a first batch would hold them."""
    seconds_a_row: float
    """Wall time of reading a row, verified as the reader does it, and of putting it in a batch."""


def rows_for_trial(reader: Reader, *, batch_size: int, least: int) -> int:
    """Give the rows of a trial: those of a batch, of which no more than 64 MiB unless `least` asks for more."""
    layout = reader.layout
    return min(batch_size, layout.n_rows, max(least, _MOST_NBYTES // max(1, layout.row_nbytes)))


def sample_rows(reader: Reader, *, n_rows: int, few_chunks: bool) -> SampledRows:
    """Read some chunks, chosen by their number alone, and take rows from each of them.

    Parameters
    ----------
    reader : Reader
        The store.
    n_rows : int
        Rows to be taken, at least 1.
    few_chunks : bool
        Read 32 chunks at the most, and take fewer rows where these hold no more. Else as many as it takes.

    Raises
    ------
    StoreCorruptError
        A chunk is damaged.
    """
    layout = reader.layout
    chunks = _chosen_chunks(layout, n_rows=n_rows, few=few_chunks)
    buffer: Any = None
    if not reader.is_sparse:
        buffer = np.empty((min(layout.chunk_rows, layout.n_rows), layout.n_features), dtype=reader.dtype)
    rng = np.random.Generator(np.random.PCG64(_SEED))
    parts: list[Batch] = []
    read_seconds = cut_seconds = 0.0
    n_read = n_taken = 0
    # The first chunk comes twice: what is imported, compiled or allocated once is no part of the time.
    for place, chunk in enumerate([chunks[0], *chunks]):
        start, stop = layout.chunk_bounds(chunk)
        wanted = -(-(n_rows - n_taken) // max(1, len(chunks) + 1 - place))
        order = rng.permutation(stop - start)[:wanted]
        began = time.perf_counter()
        read = reader.read_chunk(chunk, out=None if buffer is None else buffer[: stop - start])
        done = time.perf_counter()
        part = Batch(
            step=0,
            epoch=0,
            X=read.X[order],
            rows=start + order,
            y=None if read.y is None else read.y[order],
            sample_weight=None if read.sample_weight is None else read.sample_weight[order],
        )
        cut = time.perf_counter()
        if place:
            parts.append(part)
            read_seconds, cut_seconds = read_seconds + done - began, cut_seconds + cut - done
            n_read, n_taken = n_read + stop - start, n_taken + len(order)
    return SampledRows(_joined(parts, rng), read_seconds / n_read + cut_seconds / n_taken)


def _chosen_chunks(layout: StoreLayout, *, n_rows: int, few: bool) -> list[int]:
    sizes = layout.chunk_sizes
    chunks = np.array(sampled_chunks(layout.n_chunks))
    n_wanted = max(_LEAST_CHUNKS, 1 + layout.chunks_for_rows(n_rows))
    if not few and sizes[chunks].sum() < n_rows:
        chunks = np.arange(layout.n_chunks)
    while True:
        chosen = chunks[np.linspace(0, len(chunks) - 1, min(len(chunks), n_wanted)).round().astype(int)]
        if len(chosen) == len(chunks) or sizes[chosen].sum() >= n_rows:
            break
        n_wanted *= 2
    # The smallest first: larger ones make up for what they lack.
    return [int(chunk) for chunk in chosen[np.argsort(sizes[chosen], kind="stable")]]


def _joined(parts: list[Batch], rng: np.random.Generator) -> Batch:
    order = rng.permutation(sum(part.n_rows for part in parts))
    features = [part.X for part in parts]
    X = np.concatenate(features) if isinstance(features[0], np.ndarray) else joined_rows(features)
    labels, weights = joined([part.y for part in parts]), joined([part.sample_weight for part in parts])
    return Batch(
        step=0,
        epoch=0,
        X=X[order],
        rows=np.concatenate([part.rows for part in parts])[order],
        y=None if labels is None else labels[order],
        sample_weight=None if weights is None else weights[order],
    )
