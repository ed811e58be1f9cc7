"""What the rows of a chunk have in common, measured on some chunks of a store."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from math import fsum
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from streamfit.maths.chunk_variance import MeanSquares
from streamfit.options import check_choice
from streamfit.plan.class_places import ENOUGH_ROWS
from streamfit.plan.shuffle_quality import ChunkCorrelation
from streamfit.store.reader import open_reader
from streamfit.store.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.options import Shuffle
    from streamfit.store.labels import LabelInfo
    from streamfit.store.reader import Reader, StoreRef

__all__ = ["chunk_correlation", "order_correlation", "sampled_chunks"]

_N_SAMPLED = 32
_SEED = 20_260_101
_MOST_UNSEEN_CLASSES = 32
_BLOCK_ROWS = 65_536

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
    though no number repeats: there the larger of both is given. Columns are divided one by one, over their finite
    values, and their mean is given.

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
    if labels.outputs:
        # What one label has in common within a chunk, the order must make up for.
        return max((_of_target(reader, chunks, output) for output in range(len(labels.outputs))), key=lambda c: c.rho)
    return _of_classes(reader, labels, chunks) if labels.kind == "classes" else _of_target(reader, chunks, None)


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


def _mean_rows(reader: Reader, chunks: list[int]) -> float:
    return float(reader.layout.chunk_sizes[chunks].mean())


def _correlation(between: list[float], within: list[float], chunk_rows: float) -> float:
    """Give the correlation of mean squares that are added; 0 where there is no variance."""
    a, w = fsum(between), fsum(within)
    variance = a + (chunk_rows - 1) * w
    # Rounded, so that the last bits of a machine cannot choose another window.
    return round((a - w) / variance, 12) if variance > 0 and chunk_rows > 1 else 0.0


# -- labels ------------------------------------------------------------------------------------------


def _blocks(labels: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Cut the labels of a chunk: what is made of them takes several times as much memory."""
    return (labels[start : start + _BLOCK_ROWS] for start in range(0, len(labels), _BLOCK_ROWS))


def _class_counts(reader: Reader, labels: LabelInfo, chunk: int) -> NDArray[np.int64]:
    counts = np.zeros(len(labels.classes), dtype=np.int64)
    for block in _blocks(reader.read_array("y", chunk)):
        counts += np.bincount(labels.positions(block), minlength=len(counts))
    return counts


def _class_values(labels: LabelInfo) -> NDArray[np.float64]:
    """Give numbers in units of the largest, so that no square overflows; zeros of texts."""
    if labels.dtype.kind not in "iuf":
        return np.zeros(len(labels.classes))
    values = labels.classes.astype(np.float64)
    return values / (float(np.abs(values).max()) or 1.0)


def _of_classes(reader: Reader, labels: LabelInfo, chunks: list[int]) -> ChunkCorrelation:
    squares, by_value = MeanSquares(len(labels.classes)), MeanSquares(1)
    values = _class_values(labels)
    n_found = np.zeros(len(labels.classes), dtype=np.int64)
    for chunk in chunks:
        counts = _class_counts(reader, labels, chunk)
        n_rows = counts.sum()
        squares.add(n_rows=n_rows, mean=counts / n_rows, deviations=counts * (n_rows - counts) / n_rows)
        mean = (counts * values).sum() / n_rows
        by_value.add(n_rows=n_rows, mean=[mean], deviations=[(counts * (values - mean) ** 2).sum()])
        n_found += counts > 0
    between, within = squares.between().tolist(), squares.within().tolist()
    if len(chunks) < reader.layout.n_chunks:
        for a, w in _unseen(reader, labels, chunks, np.flatnonzero(n_found == 0)):
            between.append(a)
            within.append(w)
    chunk_rows = float(squares.mean_chunk_rows()[0]) if len(chunks) > 1 else 0.0
    rho = _correlation(between, within, chunk_rows)
    if len(labels.classes) > 2 and values.any():
        rho = max(rho, _correlation(by_value.between().tolist(), by_value.within().tolist(), chunk_rows))
    return ChunkCorrelation(
        rho=rho,
        of="labels",
        n_sampled=len(chunks),
        chunk_rows=_mean_rows(reader, chunks),
        classes=tuple(labels.classes.tolist()),
        class_counts=tuple(labels.counts.tolist()),
        class_shares=tuple((n_found / len(chunks)).tolist()),
    )


def _unseen(
    reader: Reader, labels: LabelInfo, chunks: list[int], classes: NDArray[np.int64]
) -> list[tuple[float, float]]:
    """Give the mean squares of classes that no sampled chunk holds and that chance would have shown.

    Of a class with the share p of all rows and f of the rows of each chunk that holds it, A = c N / (N − 1) p (f − p)
    and W = c / (c − 1) p (1 − f).
    """
    layout = reader.layout
    share_sampled = layout.chunk_sizes[chunks].sum() / layout.n_rows
    missed = classes[labels.counts[classes] * share_sampled >= ENOUGH_ROWS]
    missed = missed[np.argsort(-labels.counts[missed], kind="stable")][:_MOST_UNSEEN_CLASSES]
    n_chunks, size = layout.n_chunks, layout.n_rows / layout.n_chunks
    found = []
    for name in missed.tolist() if size > 1 else []:
        first = int(layout.chunk_at(labels.first_rows[[name]])[0])
        near = range(first, min(first + 2, n_chunks))
        shares = [_class_counts(reader, labels, chunk)[name] / layout.chunk_sizes[chunk] for chunk in near]
        p = labels.counts[name] / layout.n_rows
        f = max(p, *shares)
        found.append((float(size * n_chunks / (n_chunks - 1) * p * (f - p)), float(size / (size - 1) * p * (1 - f))))
    return found


def _of_target(reader: Reader, chunks: list[int], output: int | None) -> ChunkCorrelation:
    told = []
    for chunk in chunks:
        values = reader.read_array("y", chunk)
        values = values if output is None else values[:, output]
        # In units of the largest value, so that no square overflows.
        unit = max(abs(float(values.min())), abs(float(values.max()))) or 1.0
        mean = fsum(float((block / unit).sum()) for block in _blocks(values)) / len(values)
        deviations = fsum(float(((block / unit - mean) ** 2).sum()) for block in _blocks(values))
        told.append((len(values), unit, mean, deviations))
    largest = max(unit for _, unit, _, _ in told)
    squares = MeanSquares(1)
    for n_rows, unit, mean, deviations in told:
        scale = unit / largest
        squares.add(n_rows=n_rows, mean=[mean * scale], deviations=[deviations * scale * scale])
    chunk_rows = float(squares.mean_chunk_rows()[0]) if len(chunks) > 1 else 0.0
    return ChunkCorrelation(
        rho=_correlation(squares.between().tolist(), squares.within().tolist(), chunk_rows),
        of="labels",
        n_sampled=len(chunks),
        chunk_rows=_mean_rows(reader, chunks),
    )


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
        chunk_rows=_mean_rows(reader, chunks),
    )
