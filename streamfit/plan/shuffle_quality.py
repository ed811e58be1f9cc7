"""How close the order of an epoch comes to a full shuffle, projected from what the rows of a chunk have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.plan.class_places import ENOUGH_ROWS, ClassPlaces
from streamfit.plan.cluster_sampling import ClusteredRows

if TYPE_CHECKING:
    from streamfit.options import Shuffle
    from streamfit.plan.layout import StoreLayout

__all__ = ["ChunkCorrelation", "ShuffleQuality", "clustered_rows", "rewritten_chunks", "shuffle_quality"]

MAX_DRIFT = 30.0
"""Most of `ShuffleQuality.remaining_drift` that is not worth a warning."""
MAX_LACKING = 0.05
"""Most of `ShuffleQuality.lacking_probability` that is not worth a warning."""
_TARGET_DRIFT = 20.0
"""What is to be left of it after the passes that are advised."""
_MOST_PASSES = 8
_REWRITTEN_NBYTES = 256 * 2**20
_REWRITTEN_ROW_NBYTES = 64


@dataclass(frozen=True, slots=True)
class ChunkCorrelation:
    """What the rows of a chunk have in common, as some chunks of a store tell."""

    rho: float
    """Intraclass correlation: 0 where rows lie at random, 1 where all rows of a chunk are alike, below 0 where chunks
    are more alike than chance makes them."""
    of: Literal["labels", "features"]
    """Of what: labels, each class as an indicator; or the columns of the matrix, the mean of their correlations."""
    n_sampled: int
    """Chunks that it was measured on."""
    chunk_rows: float
    """Rows of these chunks on average."""
    classes: tuple[Any, ...] | None = None
    """Classes of the labels, as `numpy.unique` gives them; None of a target or of features."""
    class_counts: tuple[int, ...] | None = None
    """Rows of each class in the whole store; None where `classes` is."""
    class_shares: tuple[float, ...] | None = None
    """Share of the sampled chunks that hold each class; None where `classes` is."""


@dataclass(frozen=True, slots=True)
class ShuffleQuality:
    """What the batches of an epoch are like, next to those of a full shuffle."""

    batch_variance: float
    """Variance of the mean of a batch (of labels, or whatever correlates like them, such as gradients) as a multiple
    of that after a full shuffle; 1 is as good. In the order of the rows it is at least so much."""
    drift: float
    """Variance of the mean of a window, or of several in a row, as a multiple of that of as many rows after a full
    shuffle: h_D of CorgiPile. How far a part of an epoch may lead away; a larger window hardly changes it."""
    alpha: float
    """Share of the chunks that a window holds, ``(n − 1) / (N − 1)``: 1 where one window holds everything."""
    lacking_probability: float | None
    """Probability that a window lacks a class of which it should hold 20 rows or more; None where labels are no
    classes, and in the order of the rows."""
    lacking_class: Any
    """The class that a window lacks most probably; None where none is lacked."""
    passes: int
    """Times that the rows would have to be rewritten through a window (``store.shuffle(path, passes=…)``) until
    nothing is left to be warned of; 0 where nothing is."""
    problem: str | None
    """What is worth a warning, in a sentence; None where nothing is."""
    remedy: str | None
    """What to do about it, with the call to write; None where nothing is to be done."""

    @property
    def remaining_drift(self) -> float:
        """``drift · (1 − alpha)``, which bounds how much slower training converges than on a full shuffle."""
        return self.drift * (1 - self.alpha)


def clustered_rows(layout: StoreLayout, correlation: ChunkCorrelation) -> ClusteredRows:
    """Give the rows of a store as theory sees them: in chunks of equal size, with a correlation."""
    chunk_rows = layout.n_rows / layout.n_chunks
    # An estimate may lie a little below what is possible.
    least = -1 / (chunk_rows - 1) if chunk_rows > 1 else 0.0
    return ClusteredRows(layout.n_chunks, chunk_rows, max(correlation.rho, least))


def shuffle_quality(
    layout: StoreLayout,
    *,
    batch_size: int,
    window_chunks: int,
    correlation: ChunkCorrelation,
    shuffle: Shuffle,
) -> ShuffleQuality:
    """Project how close an epoch comes to a full shuffle.

    Parameters
    ----------
    layout : StoreLayout
        Geometry of the store.
    batch_size : int
        Rows of a batch, at most those of a window where rows are shuffled.
    window_chunks : int
        Chunks in a window.
    correlation : ChunkCorrelation
        What the rows of a chunk have in common.
    shuffle : {"window", "none"}
        As in `EpochPlan`. In the order of the rows nothing is drawn: a batch is some consecutive rows. Nothing is
        warned of, since that order is what was asked for.

    Returns
    -------
    ShuffleQuality
        For a batch that lies in one full window, chunks of equal size.

    Raises
    ------
    InvalidParameterError
        There are fewer rows in a window than in a batch.

    Notes
    -----
    The variances follow from sampling in two stages (see `streamfit.plan.cluster_sampling`); that they govern how
    SGD converges is shown in Xu et al., "Stochastic gradient descent without full data shuffle" (CorgiPile, arXiv
    2206.05830), where the leading term is ``drift · (1 − alpha)``; what rewriting does to them in Livne et al.,
    "Corgi²" (arXiv 2309.01640). Both thresholds are of this module: 30 for ``drift · (1 − alpha)``, .05 for the
    probability that a window lacks a class.

    Each class is taken to lie in as many chunks as the sample tells, and the classes to be independent of each
    other. A class counts as gathered in few chunks only where the sampled ones that hold it are fewer than a random
    order would explain once in 10,000 samples.

    In the order of the rows the rows of a chunk are taken as alike as any others of it, and chunks as in no order:
    where neighbours are more alike than that, batches vary more.

    Examples
    --------
    >>> from streamfit.plan.layout import StoreLayout
    >>> layout = StoreLayout(n_rows=64_000_000, n_features=100, chunk_rows=20_000, itemsize=4)
    >>> sorted_by_label = ChunkCorrelation(rho=0.9, of="labels", n_sampled=32, chunk_rows=20_000)
    >>> quality = shuffle_quality(
    ...     layout, batch_size=4096, window_chunks=16, correlation=sorted_by_label, shuffle="window"
    ... )
    >>> round(quality.batch_variance), round(quality.drift), quality.passes
    (230, 18005, 3)
    """
    rows = clustered_rows(layout, correlation)
    n_chunks, batch_rows = layout.n_chunks, min(batch_size, layout.n_rows)
    if shuffle == "none":
        # A chunk is a window; or as many chunks are one batch.
        least = max(1.0, batch_rows / rows.chunk_rows)
        ratio = rows.variance_ratio(least, batch_size=batch_rows)
        return ShuffleQuality(ratio, rows.drift, 0.0, None, None, 0, None, None)
    window = min(window_chunks, n_chunks)
    if batch_rows > layout.rows_of_chunks(window):
        raise InvalidParameterError(
            f"A batch has {batch_rows} rows and a window {layout.rows_of_chunks(window)}. Give a larger window_chunks."
        )
    places = _class_places(layout, correlation)
    lacking, worst = (None, None) if places is None else places.lacking(window)
    problem = _problem(rows, correlation, window=window, lacking=lacking, worst=worst)
    passes = 0 if problem is None else _passes(rows, places, window=window, rewritten=rewritten_chunks(layout))
    return ShuffleQuality(
        batch_variance=rows.variance_ratio(window, batch_size=batch_rows),
        drift=rows.drift,
        alpha=_alpha(window, n_chunks),
        lacking_probability=lacking,
        lacking_class=_class_name(correlation, worst),
        passes=passes,
        problem=problem,
        remedy=None if problem is None else _remedy(passes),
    )


def rewritten_chunks(layout: StoreLayout) -> int:
    """Give the chunks in a window of ``store.shuffle(passes=…)`` with its default limit, or rather fewer."""
    n_rows = _REWRITTEN_NBYTES // (layout.row_nbytes + _REWRITTEN_ROW_NBYTES)
    return min(max(2, layout.chunks_within_rows(n_rows)), layout.n_chunks)


def _alpha(window: int, n_chunks: int) -> float:
    return 1.0 if window == n_chunks else (window - 1) / (n_chunks - 1)


def _class_places(layout: StoreLayout, correlation: ChunkCorrelation) -> ClassPlaces | None:
    if correlation.class_counts is None or correlation.class_shares is None:
        return None
    return ClassPlaces.of_sample(
        n_rows=layout.n_rows,
        n_chunks=layout.n_chunks,
        counts=np.array(correlation.class_counts, dtype=np.int64),
        n_sampled=correlation.n_sampled,
        n_found=np.rint(np.array(correlation.class_shares) * correlation.n_sampled).astype(np.int64),
    )


def _class_name(correlation: ChunkCorrelation, worst: int | None) -> Any:
    return None if worst is None or correlation.classes is None else correlation.classes[worst]


def _problem(
    rows: ClusteredRows, correlation: ChunkCorrelation, *, window: int, lacking: float | None, worst: int | None
) -> str | None:
    found = []
    remaining = rows.drift * (1 - _alpha(window, rows.n_chunks))
    if remaining > MAX_DRIFT:
        found.append(
            f"{correlation.of} are so much alike within chunks (correlation {correlation.rho:.2g}) that the means of "
            f"windows vary {remaining:,.0f} times as much as with all rows shuffled"
        )
    if lacking is not None and lacking > MAX_LACKING:
        found.append(
            f"a window lacks a class of which it should hold {ENOUGH_ROWS} rows or more with a probability of "
            f"{lacking:.2g}, most often {_class_name(correlation, worst)!r}"
        )
    return f"With {window} of {rows.n_chunks} chunks in a window, {', and '.join(found)}." if found else None


def _passes(rows: ClusteredRows, places: ClassPlaces | None, *, window: int, rewritten: int) -> int:
    """Count the passes after which nothing is left to be warned of."""
    alpha = _alpha(window, rows.n_chunks)
    for n_passes in range(1, _MOST_PASSES):
        rows = rows.rewritten(rewritten)
        places = None if places is None else places.rewritten(rewritten)
        lacking = 0.0 if places is None else places.lacking(window)[0]
        if rows.drift * (1 - alpha) <= _TARGET_DRIFT and lacking <= MAX_LACKING:
            return n_passes
    return _MOST_PASSES


def _remedy(passes: int) -> str:
    if passes == 1:
        return "Write the rows once in another order, store.shuffle(path, passes=1), and train on that store."
    if passes == 2:
        return (
            "Write the rows once in another order, store.shuffle(path, passes=2), or with about the same work in a "
            'random order of all rows, store.shuffle(path, passes="full"), and train on that store.'
        )
    return 'Write the rows once in a random order, store.shuffle(path, passes="full"), and train on that store.'
