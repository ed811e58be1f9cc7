"""How alike the labels of a chunk are, in one reading of some chunks."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.maths.chunk_variance import MeanSquares
from streamfit.plan.class_places import ENOUGH_ROWS
from streamfit.plan.shuffle_quality import ChunkCorrelation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.store.labels import LabelInfo
    from streamfit.store.reader import Reader

__all__ = ["correlation_of_labels", "sampled_outputs"]

_MOST_OUTPUTS = 16
"""Each costs a look at all labels of the chunks, before anything is trained."""
_MOST_UNSEEN_CLASSES = 32
_BLOCK_ROWS = 65_536


def correlation_of_labels(reader: Reader, labels: LabelInfo, chunks: list[int]) -> ChunkCorrelation:
    """Estimate the correlation of labels within chunks; see `streamfit.run.correlation.chunk_correlation`.

    Parameters
    ----------
    reader : Reader
        The rows.
    labels : LabelInfo
        What is known of their labels.
    chunks : list of int
        Numbers of the chunks to read, ascending.

    Returns
    -------
    ChunkCorrelation
        Of several labels a row that of the one with the largest: the order must make up for what any of them has in
        common within a chunk.
    """
    outputs = labels.outputs or (labels,)
    measures: list[_Measure] = [
        (_Classes if outputs[place].kind == "classes" else _Target)(outputs[place], place if labels.outputs else None)
        for place in sampled_outputs(len(outputs))
    ]
    for chunk in chunks:
        values = reader.read_array("y", chunk)
        for measure in measures:
            measure.add(values)
    return max((measure.correlation(reader, chunks) for measure in measures), key=lambda found: found.rho)


def sampled_outputs(n_outputs: int) -> list[int]:
    """Give at most 16 places of labels in a row, ascending and evenly spaced.

    Examples
    --------
    >>> sampled_outputs(3), sampled_outputs(40)[:5], len(sampled_outputs(10**6))
    ([0, 1, 2], [0, 2, 5, 7, 10], 16)
    """
    n_taken = min(n_outputs, _MOST_OUTPUTS)
    return [place * n_outputs // n_taken for place in range(n_taken)]


class _Measure(Protocol):
    """Looks at the labels of chunks, one after the other."""

    def add(self, values: NDArray[Any]) -> None:
        """Look at the stored labels of a chunk."""

    def correlation(self, reader: Reader, chunks: list[int]) -> ChunkCorrelation:
        """Give the correlation within the chunks that were looked at."""


def _column(values: NDArray[Any], output: int | None) -> NDArray[Any]:
    return values if output is None else values[:, output]


def _blocks(labels: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Cut the labels of a chunk: what is made of them takes several times as much memory."""
    return (labels[start : start + _BLOCK_ROWS] for start in range(0, len(labels), _BLOCK_ROWS))


def _mean_rows(reader: Reader, chunks: list[int]) -> float:
    return float(reader.layout.chunk_sizes[chunks].mean())


def _correlation(between: list[float], within: list[float], chunk_rows: float) -> float:
    """Give the correlation of mean squares that are added; 0 where there is no variance."""
    a, w = fsum(between), fsum(within)
    variance = a + (chunk_rows - 1) * w
    # Rounded, so that the last bits of a machine cannot choose another window.
    return round((a - w) / variance, 12) if variance > 0 and chunk_rows > 1 else 0.0


# -- classes -----------------------------------------------------------------------------------------


class _Classes:
    """Indicators of classes, and their values where they are numbers."""

    def __init__(self, labels: LabelInfo, output: int | None) -> None:
        self._labels = labels
        self._output = output
        self._squares, self._by_value = MeanSquares(len(labels.classes)), MeanSquares(1)
        self._values = _class_values(labels)
        self._n_found = np.zeros(len(labels.classes), dtype=np.int64)

    def add(self, values: NDArray[Any]) -> None:
        counts = self._counts(values)
        n_rows = counts.sum()
        self._squares.add(n_rows=n_rows, mean=counts / n_rows, deviations=counts * (n_rows - counts) / n_rows)
        mean = (counts * self._values).sum() / n_rows
        self._by_value.add(n_rows=n_rows, mean=[mean], deviations=[(counts * (self._values - mean) ** 2).sum()])
        self._n_found += counts > 0

    def correlation(self, reader: Reader, chunks: list[int]) -> ChunkCorrelation:
        labels, squares, by_value = self._labels, self._squares, self._by_value
        between, within = squares.between().tolist(), squares.within().tolist()
        if len(chunks) < reader.layout.n_chunks:
            for a, w in self._unseen(reader, chunks, np.flatnonzero(self._n_found == 0)):
                between.append(a)
                within.append(w)
        chunk_rows = float(squares.mean_chunk_rows()[0]) if len(chunks) > 1 else 0.0
        rho = _correlation(between, within, chunk_rows)
        if len(labels.classes) > 2 and self._values.any():
            rho = max(rho, _correlation(by_value.between().tolist(), by_value.within().tolist(), chunk_rows))
        return ChunkCorrelation(
            rho=rho,
            of="labels",
            n_sampled=len(chunks),
            chunk_rows=_mean_rows(reader, chunks),
            classes=tuple(labels.classes.tolist()),
            class_counts=tuple(labels.counts.tolist()),
            class_shares=tuple((self._n_found / len(chunks)).tolist()),
        )

    def _counts(self, values: NDArray[Any]) -> NDArray[np.int64]:
        counts = np.zeros(len(self._labels.classes), dtype=np.int64)
        for block in _blocks(_column(values, self._output)):
            counts += np.bincount(self._labels.positions(block), minlength=len(counts))
        return counts

    def _unseen(self, reader: Reader, chunks: list[int], classes: NDArray[np.int64]) -> list[tuple[float, float]]:
        """Give the mean squares of classes that no sampled chunk holds and that chance would have shown.

        Of a class with the share p of all rows and f of the rows of each chunk that holds it, A = c N / (N − 1) p
        (f − p) and W = c / (c − 1) p (1 − f).
        """
        layout, labels = reader.layout, self._labels
        share_sampled = layout.chunk_sizes[chunks].sum() / layout.n_rows
        missed = classes[labels.counts[classes] * share_sampled >= ENOUGH_ROWS]
        missed = missed[np.argsort(-labels.counts[missed], kind="stable")][:_MOST_UNSEEN_CLASSES]
        n_chunks, size = layout.n_chunks, layout.n_rows / layout.n_chunks
        found = []
        for name in missed.tolist() if size > 1 else []:
            first = int(layout.chunk_at(labels.first_rows[[name]])[0])
            near = range(first, min(first + 2, n_chunks))
            shares = [self._counts(reader.read_array("y", chunk))[name] / layout.chunk_sizes[chunk] for chunk in near]
            p = labels.counts[name] / layout.n_rows
            f = max(p, *shares)
            found.append(
                (float(size * n_chunks / (n_chunks - 1) * p * (f - p)), float(size / (size - 1) * p * (1 - f)))
            )
        return found


def _class_values(labels: LabelInfo) -> NDArray[np.float64]:
    """Give numbers in units of the largest, so that no square overflows; zeros of texts."""
    if labels.dtype.kind not in "iuf":
        return np.zeros(len(labels.classes))
    values = labels.classes.astype(np.float64)
    return values / (float(np.abs(values).max()) or 1.0)


# -- targets -----------------------------------------------------------------------------------------


class _Target:
    """Values of a target."""

    def __init__(self, labels: LabelInfo, output: int | None) -> None:  # noqa: ARG002  # as of classes
        self._output = output
        self._told: list[tuple[int, float, float, float]] = []

    def add(self, values: NDArray[Any]) -> None:
        values = _column(values, self._output)
        # In units of the largest value, so that no square overflows.
        unit = max(abs(float(values.min())), abs(float(values.max()))) or 1.0
        mean = fsum(float((block / unit).sum()) for block in _blocks(values)) / len(values)
        deviations = fsum(float(((block / unit - mean) ** 2).sum()) for block in _blocks(values))
        self._told.append((len(values), unit, mean, deviations))

    def correlation(self, reader: Reader, chunks: list[int]) -> ChunkCorrelation:
        largest = max(unit for _, unit, _, _ in self._told)
        squares = MeanSquares(1)
        for n_rows, unit, mean, deviations in self._told:
            scale = unit / largest
            squares.add(n_rows=n_rows, mean=[mean * scale], deviations=[deviations * scale * scale])
        chunk_rows = float(squares.mean_chunk_rows()[0]) if len(chunks) > 1 else 0.0
        return ChunkCorrelation(
            rho=_correlation(squares.between().tolist(), squares.within().tolist(), chunk_rows),
            of="labels",
            n_sampled=len(chunks),
            chunk_rows=_mean_rows(reader, chunks),
        )
