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

    def of(self, chunks: NDArray[np.int64], /) -> NDArray[Any]:
        """Read the classes of the rows of some chunks, end to end.

        Raises
        ------
        StoreCorruptError
            A chunk of labels is damaged.
        """
        reader = open_reader(self.ref)
        labels = reader.labels
        if labels is None:  # the ref says which rows: they have not lost them
            raise AssertionError("labels are gone")
        sizes = reader.layout.chunk_sizes[chunks]
        classes = np.empty(int(sizes.sum()), dtype=np.min_scalar_type(len(labels.classes)))
        stop = 0
        for chunk, size in zip(chunks.tolist(), sizes.tolist(), strict=True):
            start, stop = stop, stop + size
            classes[start:stop] = labels.positions(reader.read_array("y", chunk))
        return classes


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The weight of each row. It pickles as a ref: weights do not travel."""

    digest: str
    """Identity of the rows."""
    ref: StoreRef = field(compare=False, repr=False)
    """Where they are."""

    def of(self, chunks: NDArray[np.int64], /) -> NDArray[np.float64]:
        """Read the weights of the rows of some chunks, end to end.

        Raises
        ------
        StoreCorruptError
            A chunk of weights is damaged.
        """
        reader = open_reader(self.ref)
        return np.concatenate([reader.read_array("sample_weight", chunk) for chunk in chunks.tolist()])


def stored_sampling(ref: StoreRef, sampling: Sampling | None) -> RowSampling | None:
    """Give the way to sample the rows of a store that a user names; None stays None.

    The classes of each chunk are counted, or its weights added, in a pass over them alone, once a process and version.

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
    return _counted(dataclasses.replace(ref, mapping=None), sampling)


@lru_cache(maxsize=16)
def _counted(ref: StoreRef, sampling: Sampling) -> RowSampling:
    reader = open_reader(ref)
    if sampling == "weighted":
        return _weighted(reader, StoredWeights(reader.digest, ref))
    labels = reader.labels
    if labels is None:
        raise InvalidDataError(
            f"sampling={sampling!r} goes by classes, and the store {ref.path} has no labels. Give it some with "
            "streamfit.attach, or leave sampling out."
        )
    if labels.kind != "classes":
        raise InvalidDataError(
            f"sampling={sampling!r} goes by classes, and y of the store {ref.path} has fractions or too many distinct "
            "values to be classes. Leave sampling out."
        )
    values = StoredClasses(reader.digest, ref)
    return StratifiedRows(values) if sampling == "stratified" else _balanced(reader, values, len(labels.classes))


def _balanced(reader: Reader, values: StoredClasses, n_classes: int) -> BalancedRows:
    n_chunks = reader.layout.n_chunks
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
    layout = reader.layout
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
