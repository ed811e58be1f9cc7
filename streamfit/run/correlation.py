"""What the rows of a chunk have in common, measured on some chunks of a store."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from math import fsum
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from streamfit.maths.chunk_variance import MeanSquares
from streamfit.options import check_choice
from streamfit.plan.shuffle_quality import ChunkCorrelation
from streamfit.run.label_correlation import correlation_of_labels
from streamfit.store.reader import open_reader
from streamfit.store.statistics import Statistics

if TYPE_CHECKING:
    from streamfit.options import Shuffle
    from streamfit.store.reader import Reader, StoreRef

__all__ = ["chunk_correlation", "order_correlation", "sampled_chunks"]

_N_SAMPLED = 32
_SEED = 20_260_101

Of = Literal["labels", "features"]


def chunk_correlation(reader: Reader, *, of: Of = "labels") -> ChunkCorrelation | None:
    """Estimate the intraclass correlation of labels or features within the chunks of a store.

    At most 32 chunks are read and verified as usual, chosen by the number of chunks alone, so that what follows from
    the result is the same everywhere. It is measured once a process and version.

    Parameters
    ----------
    reader : Reader
        The store, a view, or transformed rows.
    of : {"labels", "features"}
        Labels; or each column of the matrix, dense or sparse, of which one chunk is held at a time.

    Returns
    -------
    ChunkCorrelation or None
        None for the labels of a store without labels.

    Raises
    ------
    InvalidParameterError
        `of` is neither.
    StoreCorruptError
        A chunk is damaged.

    Notes
    -----
    The estimator is that of the analysis of variance, ``(A − W) / (A + (c − 1) W)`` with the mean squares between and
    within chunks (Donner, 1986, International Statistical Review 54). Classes enter by their indicators, and their
    mean squares are added before they are divided: each class counts by the variance of its indicator. A target
    enters by its values. Classes that are numbers may be a target of whole numbers, such as counts, that lie in order
    though no number repeats: there the larger of both is given. Of several labels a row it is that of the label that
    has the largest, among 16 where there are more. Columns are divided one by one, over their finite values, and their
    mean is given.

    It is 0 where nothing varies, where each chunk has one row, and where there is one chunk: nothing can be alike
    there that matters. A class that no sampled chunk holds, although a random order would have shown 20 rows of it or
    more, is taken to be as alike in its chunks as it is in that of its first row or the next one, whichever has more.
    """
    check_choice("of", of, get_args(Of))
    if of == "features":
        return _measured(reader.ref, of)
    # A mapping leaves labels and chunks as they are.
    return None if reader.manifest.labels is None else _measured(dataclasses.replace(reader.ref, mapping=None), of)


def order_correlation(reader: Reader, shuffle: Shuffle) -> ChunkCorrelation | None:
    """Give the correlation of the labels where an order depends on it: not where the order of the rows is kept.

    Raises
    ------
    StoreCorruptError
        Labels are damaged.
    """
    return chunk_correlation(reader) if shuffle == "window" else None


@lru_cache(maxsize=64)
def _measured(ref: StoreRef, of: Of) -> ChunkCorrelation:
    reader = open_reader(ref)
    chunks = sampled_chunks(reader.layout.n_chunks)
    if of == "features":
        return _of_features(reader, chunks)
    labels = reader.labels
    if labels is None:
        raise AssertionError("asked for with labels only")
    return correlation_of_labels(reader, labels, chunks)


def sampled_chunks(n_chunks: int) -> list[int]:
    """Give at most 32 different chunks, ascending, as a function of their number alone.

    Examples
    --------
    >>> sampled_chunks(3), len(sampled_chunks(10**9)), sampled_chunks(1000)[:4]
    ([0, 1, 2], 32, [34, 98, 122, 198])
    """
    if n_chunks <= _N_SAMPLED:
        return list(range(n_chunks))
    # Raw bits by name: unlike what `choice` draws, they never change (Floyd's algorithm).
    bits = np.random.PCG64(np.random.SeedSequence(_SEED)).random_raw(_N_SAMPLED)
    chosen: set[int] = set()
    for last, drawn in zip(range(n_chunks - _N_SAMPLED, n_chunks), bits.tolist(), strict=True):
        place = drawn % (last + 1)
        chosen.add(last if place in chosen else place)
    return sorted(chosen)


# -- features ----------------------------------------------------------------------------------------


def _of_features(reader: Reader, chunks: list[int]) -> ChunkCorrelation:
    layout = reader.layout
    squares = MeanSquares(layout.n_features)
    buffer: Any = None
    if not reader.is_sparse:
        buffer = np.empty((min(layout.chunk_rows, layout.n_rows), layout.n_features), dtype=reader.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # a column whose squares overflow is left out below
        for chunk in chunks:
            measured = Statistics.of(reader.read_array("X", chunk, out=buffer))
            squares.add(n_rows=measured.n_finite, mean=measured.mean, deviations=measured.squares)
        between, within, size = squares.between(), squares.within(), squares.mean_chunk_rows()
        variance = between + (size - 1) * within
        known = squares.varying() & np.isfinite(variance)
        found = (between[known] - within[known]) / variance[known]
    return ChunkCorrelation(
        rho=round(fsum(found.tolist()) / len(found), 12) if len(found) else 0.0,
        of="features",
        n_sampled=len(chunks),
        chunk_rows=float(layout.chunk_sizes[chunks].mean()),
    )
