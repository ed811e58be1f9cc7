"""Labels and weights of a store as the values by which rows are sampled, counted once in a pass over them alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, get_args

import numpy as np
from dask.utils import format_bytes

from streamfit.errors import InvalidDataError
from streamfit.options import Sampling, check_choice
from streamfit.plan.balanced_rows import BalancedRows
from streamfit.plan.sampling import StratifiedRows
from streamfit.plan.weighted_rows import WeightedRows, sum_in_order
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from streamfit.plan.layout import StoreLayout
    from streamfit.plan.sampling import RowSampling
    from streamfit.store.reader import Reader
    from streamfit.store.ref import StoreRef

__all__ = ["StoredClasses", "StoredWeights", "stored_sampling"]

_MOST_COUNTS_NBYTES = 2**30
"""Most bytes of the rows of each class before each chunk."""


@dataclass(frozen=True, slots=True)
class StoredClasses:
    """The class of each row, by its place among the classes of the store. It pickles as a ref: labels do not travel."""

    digest: str
    """Identity of the rows."""
    ref: StoreRef = field(compare=False, repr=False)
    """Where they are."""
    layout: StoreLayout = field(compare=False, repr=False)
    """The chunks of the plan, which need not be those of the store."""

    def of(self, chunks: NDArray[np.int64], /) -> NDArray[Any]:
        """Read the classes of the rows of some chunks, end to end.

        Raises
        ------
        StoreCorruptError
            A chunk of labels is damaged.
        """
        reader = open_reader(self.ref)
        labels = reader.labels
        if labels is None:
            raise AssertionError("a store that had labels has none")
        dtype = np.min_scalar_type(len(labels.classes))
        bounds = map(self.layout.chunk_bounds, chunks.tolist())
        return np.concatenate([labels.positions(_column(reader, "y", *rows)).astype(dtype) for rows in bounds])


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The weight of each row. It pickles as a ref: weights do not travel."""

    digest: str
    """Identity of the rows."""
    ref: StoreRef = field(compare=False, repr=False)
    """Where they are."""
    layout: StoreLayout = field(compare=False, repr=False)
    """The chunks of the plan, which need not be those of the store."""

    def of(self, chunks: NDArray[np.int64], /) -> NDArray[np.float64]:
        """Read the weights of the rows of some chunks, end to end.

        Raises
        ------
        StoreCorruptError
            A chunk of weights is damaged.
        """
        reader = open_reader(self.ref)
        bounds = map(self.layout.chunk_bounds, chunks.tolist())
        return np.concatenate([_column(reader, "sample_weight", *rows) for rows in bounds])


def _column(reader: Reader, name: str, start: int, stop: int) -> NDArray[Any]:
    """Read the rows from `start` (inclusive) to `stop` (exclusive) of an array with one value a row."""
    parts = []
    for chunk in reader.layout.chunks_between(start, stop):
        first = reader.layout.chunk_bounds(chunk)[0]
        parts.append(reader.read_array(name, chunk)[max(0, start - first) : stop - first])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def stored_sampling(ref: StoreRef, sampling: Sampling | None, *, layout: StoreLayout) -> RowSampling | None:
    """Give the way to sample the rows of a store that a user names; None stays None.

    The classes of each chunk are counted, or its weights added, in a pass over them alone, once a process and version.

    Parameters
    ----------
    ref : StoreRef
        The rows.
    sampling : {"stratified", "balanced", "weighted"} or None
        The way.
    layout : StoreLayout
        The chunks of the plan: those of the store, or those in which its rows are written elsewhere.

    Raises
    ------
    InvalidParameterError
        There is no such way.
    InvalidDataError
        The store has no labels, no classes, or no weights; a weight is negative, or all are zero; or there are too many
        chunks and classes to be counted.
    StoreCorruptError
        A chunk of them is damaged.
    """
    if sampling is None:
        return None
    check_choice("sampling", sampling, get_args(Sampling))
    # What the features become does not matter, and transformers need not travel with the plan.
    return _counted(dataclasses.replace(ref, mapping=None), sampling, layout)


@lru_cache(maxsize=16)
def _counted(ref: StoreRef, sampling: Sampling, layout: StoreLayout) -> RowSampling:
    reader = open_reader(ref)
    if sampling == "weighted":
        return _weighted(reader, StoredWeights(reader.digest, ref, layout))
    labels = reader.labels
    if labels is None:
        raise InvalidDataError(
            f"sampling={sampling!r} goes by classes, and the store {ref.path} has no labels. Give it some with "
            "streamfit.attach, or leave sampling out."
        )
    if labels.kind != "classes":
        raise InvalidDataError(
            f"sampling={sampling!r} goes by classes, and y of the store {ref.path} has fractions, too many distinct "
            "values to be classes, or several labels a row. Leave sampling out."
        )
    values = StoredClasses(reader.digest, ref, layout)
    return StratifiedRows(values) if sampling == "stratified" else _balanced(values, len(labels.classes))


def _balanced(values: StoredClasses, n_classes: int) -> BalancedRows:
    n_chunks = values.layout.n_chunks
    nbytes = 8 * (n_chunks + 1) * n_classes
    if nbytes > _MOST_COUNTS_NBYTES:
        raise InvalidDataError(
            f"To balance {n_classes} classes in {n_chunks} chunks takes {format_bytes(nbytes)} of counts. Write the "
            "store with a larger chunk_rows."
        )
    rows_before = np.zeros((n_chunks + 1, n_classes), dtype=np.int64)
    for chunk in range(n_chunks):
        rows_before[chunk + 1] = np.bincount(values.of(np.array([chunk])), minlength=n_classes)
    return BalancedRows(values, _frozen(np.cumsum(rows_before, axis=0, out=rows_before)))


def _weighted(reader: Reader, values: StoredWeights) -> WeightedRows:
    if not reader.has_sample_weight:
        raise InvalidDataError(
            f"sampling='weighted' goes by weights, and the store {values.ref.path} has no sample_weight. Give it some "
            "with streamfit.attach, or leave sampling out."
        )
    layout = values.layout
    weight_before = np.zeros(layout.n_chunks + 1)
    for chunk in range(layout.n_chunks):
        weights = values.of(np.array([chunk]))
        wrong = ~(weights >= 0)  # nan is not
        if wrong.any():
            place = int(np.argmax(wrong))
            row = layout.chunk_bounds(chunk)[0] + place
            raise InvalidDataError(
                f"The sample_weight of row {row} is {weights[place]}, by which it cannot be drawn. Give weights of "
                "at least 0.",
                row=row,
            )
        weight_before[chunk + 1] = sum_in_order(weights)
    return WeightedRows(values, _frozen(np.cumsum(weight_before, out=weight_before)), layout.n_rows)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values
