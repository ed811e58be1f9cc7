"""Tensors, data sets and loaders of torch, as rows in the order in which they lie."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from streamfit.errors import InvalidDataError, UnsupportedError
from streamfit.sources.arrays import check_matrix
from streamfit.sources.side_columns import join_side_columns
from streamfit.sources.source import RowBlock, Source, block_rows, drop_rows, outputs_nbytes
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from streamfit.sources.source import Names

__all__ = ["as_numpy", "torch_source"]

_ROLES = ("y", "sample_weight")


def as_numpy(values: Any) -> Any:
    """Give a tensor as an array, without a copy where it lies in the memory of the processor; bfloat16 as float32.

    What is no tensor is given as it is.

    Raises
    ------
    UnsupportedError
        The tensor is sparse or quantised.
    """
    import torch

    if not isinstance(values, torch.Tensor):
        return values
    _check_dense(values)
    values = values.detach().cpu()
    if values.dtype is torch.bfloat16:
        values = values.float()
    return values.resolve_conj().resolve_neg().numpy()


def _check_dense(values: Any) -> None:
    import torch

    if values.layout is not torch.strided or values.is_quantized:
        raise UnsupportedError(
            f"A tensor has layout {values.layout} and dtype {values.dtype}. Give it dense (X.to_dense(), "
            "X.dequantize()), or sparse rows as scipy.sparse.csr_array."
        )


def torch_source(source: Any, names: Names) -> Source:
    """Read a tensor, a data set, or a loader.

    Tensors are hashed, so that the same rows are known again; the rows of other data sets and of loaders are compared.
    A loader gives its own batches, and must give the rows in their order.

    Raises
    ------
    InvalidDataError
        Items are no rows, or there are none.
    UnsupportedError
        A loader shuffles, or leaves rows out.
    """
    import torch
    from torch.utils import data as torch_data

    names.refuse("a data set of torch")
    if isinstance(source, torch.Tensor):
        return _tensor_source(source)
    if isinstance(source, torch_data.TensorDataset):
        X, *sides = source.tensors
        if len(sides) > len(_ROLES):
            raise InvalidDataError(
                f"A TensorDataset of {1 + len(sides)} tensors is given. Give X, (X, y) or (X, y, sample_weight)."
            )
        given = {role: as_numpy(values) for role, values in zip(_ROLES, sides, strict=False)}
        return join_side_columns(_tensor_source(X), given)
    if isinstance(source, torch_data.DataLoader):
        # What an iterable data set says of its length is no promise.
        n_rows = None if isinstance(source.dataset, torch_data.IterableDataset) else len(source.dataset)
        if n_rows is not None:
            _check_order(source)
        if source.batch_size is None and source.batch_sampler is None:
            return _items_source(source, n_rows=n_rows, kind="torch DataLoader")
        return _batches_source(source, n_rows=n_rows)
    if isinstance(source, torch_data.IterableDataset):
        return _items_source(source, n_rows=None, kind="torch IterableDataset")
    if isinstance(source, torch_data.Dataset) and hasattr(source, "__len__"):
        return _items_source(_InOrder(source, len(source)), n_rows=len(source), kind="torch Dataset")
    raise InvalidDataError(
        f"A {type(source).__name__} is no source of rows. Give a tensor, a DataLoader, or a Dataset with a length."
    )


class _InOrder:
    """The items of a data set that is read by index. torch's own class has no end: it counts up to an IndexError."""

    def __init__(self, dataset: Any, n_rows: int) -> None:
        self._dataset = dataset
        self._n_rows = n_rows

    def __iter__(self) -> Iterator[Any]:
        return (self._dataset[row] for row in range(self._n_rows))


def _check_order(loader: Any) -> None:
    from torch.utils.data import SequentialSampler

    sampler = loader.sampler if loader.batch_sampler is None else getattr(loader.batch_sampler, "sampler", None)
    if not isinstance(sampler, SequentialSampler):
        chosen = type(loader.batch_sampler if sampler is None else sampler).__name__
        raise UnsupportedError(
            f"The DataLoader takes rows by a {chosen}, and a store holds each row once, in an order that is known "
            "again. Give its dataset, or a DataLoader with shuffle=False: streamfit shuffles when it trains, and "
            "store.shuffle on disk."
        )
    if loader.drop_last and loader.batch_size and len(loader.dataset) % loader.batch_size:
        raise UnsupportedError(
            f"The DataLoader has drop_last=True and would leave out {len(loader.dataset) % loader.batch_size} of "
            f"{len(loader.dataset)} rows. Give its dataset, or a DataLoader with drop_last=False."
        )


# -- tensors -------------------------------------------------------------------------------------------


def _tensor_source(X: Any) -> Source:
    check_matrix(tuple(X.shape), what="X")
    n_rows, n_features = X.shape
    _check_dense(X)
    dtype = stored_dtype(as_numpy(X[:0]).dtype, what="X")
    step = block_rows(n_features * dtype.itemsize)

    def blocks(start: int) -> Iterator[RowBlock]:
        return (RowBlock(as_numpy(X[row : row + step])) for row in range(start, n_rows, step))

    hasher = xxhash.xxh3_64()
    for block in blocks(0):
        hasher.update(np.ascontiguousarray(block.X).view(np.uint8).data)
    return Source(
        blocks=blocks,
        n_features=n_features,
        dtype=dtype,
        description={
            "kind": "torch tensor",
            "shape": [n_rows, n_features],
            "dtype": str(X.dtype),
            "hash": hasher.hexdigest(),
        },
        recognisable=True,
        seekable=True,
        n_rows=n_rows,
    )


# -- items and batches ---------------------------------------------------------------------------------


def _items_source(items: Iterable[Any], *, n_rows: int | None, kind: str) -> Source:
    """Join items, each one row, to blocks."""
    if n_rows == 0:
        raise InvalidDataError(f"The {kind} has 0 rows. At least 1 row is needed.")
    iterator = iter(items)
    try:
        first = _row(next(iterator), 0)
    except StopIteration:
        raise InvalidDataError(f"The {kind} has 0 rows: it gave no item. At least 1 row is needed.") from None
    step = block_rows(first[0].nbytes)

    def read() -> Iterator[RowBlock]:
        rows = itertools.chain([first], (_row(item, 1 + number) for number, item in enumerate(iterator)))
        for start in itertools.count(0, step):
            some = list(itertools.islice(rows, step))
            if not some:
                return
            yield _joined(some, first, start)

    return Source(
        blocks=lambda start: drop_rows(read(), start),
        n_features=len(first[0]),
        dtype=stored_dtype(first[0].dtype, what="X"),
        description={"kind": kind, "n_features": len(first[0]), "dtype": first[0].dtype.str},
        recognisable=False,
        n_rows=n_rows,
        outputs_nbytes=first[1].nbytes if len(first) > 1 and first[1].size > 1 else 0,
        block_nbytes=3 * step * first[0].nbytes,
    )


def _batches_source(batches: Iterable[Any], *, n_rows: int | None) -> Source:
    iterator = iter(batches)
    try:
        first = _batch(next(iterator))
    except StopIteration:
        raise InvalidDataError("The DataLoader has 0 rows: it gave no batch. At least 1 row is needed.") from None
    return Source(
        blocks=lambda start: drop_rows(itertools.chain([first], map(_batch, iterator)), start),
        n_features=first.X.shape[1],
        dtype=stored_dtype(first.X.dtype, what="X"),
        description={"kind": "torch DataLoader", "n_features": first.X.shape[1], "dtype": first.X.dtype.str},
        recognisable=False,
        n_rows=n_rows,
        outputs_nbytes=outputs_nbytes(first.y),
        block_nbytes=2 * first.X.nbytes,
    )


def _batch(batch: Any) -> RowBlock:
    X, *sides = _parts(batch, what="A batch of the DataLoader")
    check_matrix(X.shape, what="A batch of the DataLoader")
    return RowBlock(X, **dict(zip(_ROLES, sides, strict=False)))


def _row(item: Any, number: int) -> list[NDArray[Any]]:
    parts = _parts(item, what=f"Item {number}")
    if parts[0].ndim != 1:
        raise InvalidDataError(
            f"Item {number} has shape {parts[0].shape}. An item is one row, of shape (n_features,): flatten it in the "
            "dataset (x.flatten()).",
            row=number,
        )
    return parts


def _parts(item: Any, *, what: str) -> list[NDArray[Any]]:
    """Part an item or a batch into features, label and weight: torch collates tuples to lists."""
    if isinstance(item, dict):
        raise InvalidDataError(
            f"{what} is a dict of {', '.join(map(repr, item))}. Give x, (x, y) or (x, y, sample_weight): "
            "torch.utils.data.StackDataset or a collate_fn make them."
        )
    values = item if isinstance(item, tuple) or (isinstance(item, list) and np.ndim(as_numpy(item[0]))) else (item,)
    if not 1 <= len(values) <= 1 + len(_ROLES):
        raise InvalidDataError(f"{what} has {len(values)} parts. Give x, (x, y) or (x, y, sample_weight).")
    return [np.asanyarray(as_numpy(value)) for value in values]


def _joined(rows: list[list[NDArray[Any]]], first: list[NDArray[Any]], start: int) -> RowBlock:
    for number, row in enumerate(rows, start=start):
        if len(row) != len(first) or row[0].shape != first[0].shape:
            raise InvalidDataError(
                f"Item {number} has {len(row)} parts and {len(row[0])} features, and the first one has {len(first)} "
                f"and {len(first[0])}. Give equal ones.",
                row=number,
            )
    X, *sides = (np.stack(values) for values in zip(*rows, strict=True))
    return RowBlock(X, **dict(zip(_ROLES, sides, strict=False)))
