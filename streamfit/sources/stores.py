"""Stores of streamfit, written again with other chunks, and lazy arrays that read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask.highlevelgraph import MaterializedLayer

from streamfit.maths.csr_rows import csr_nbytes
from streamfit.sources.source import RowBlock, Source
from streamfit.store.reader import StoreRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.feature_store import FeatureStore
    from streamfit.sources.source import Names
    from streamfit.store.reader import Reader

__all__ = ["store_source", "stores_behind"]


def store_source(store: FeatureStore, names: Names) -> Source:
    """Read a store with its labels and weights, verified."""
    names.refuse("a store")

    def blocks(start: int) -> Iterator[RowBlock]:
        for index in range(store.layout.n_chunks):
            first, end = store.layout.chunk_bounds(index)
            if end <= start:
                continue
            chunk = store.reader.read_chunk(index)
            ids = store.reader.read_array("ids", index) if store.has_ids else None
            yield RowBlock(chunk.X, chunk.y, chunk.sample_weight, ids).since(max(0, start - first))

    return Source(
        blocks=blocks,
        n_features=store.n_features,
        dtype=store.dtype,
        description={"kind": "store", "digest": store.digest},
        recognisable=True,
        seekable=True,
        n_rows=store.n_rows,
        feature_names=store.feature_names,
        categories=store.categories,
        block_nbytes=store.layout.chunk_nbytes + store.layout.aside_nbytes,
        paths=(Path(store.path),),
        outputs_nbytes=store.layout.outputs_nbytes,
        sparse=store.is_sparse,
        mean_row_nnz=_mean_row_nnz(store.reader) if store.is_sparse else None,
    )


def _mean_row_nnz(reader: Reader) -> float:
    # Each chunk has a row pointer more than rows.
    pointers_nbytes = csr_nbytes(reader.layout.n_rows + reader.layout.n_chunks - 1, 0, reader.dtype.itemsize)
    pair_nbytes = csr_nbytes(0, 1, reader.dtype.itemsize) - csr_nbytes(0, 0, reader.dtype.itemsize)
    return max(0, reader.layout.nbytes - pointers_nbytes) / pair_nbytes / reader.layout.n_rows


def stores_behind(collection: Any) -> set[Path]:
    """Find the stores that a lazy array reads, so that none is written over while it is read."""
    layers = list(getattr(collection.__dask_graph__(), "layers", {}).values())
    held = [literal for layer in layers for literal, _ in getattr(layer, "indices", ())]
    # The ref of a view is a node of its own.
    nodes = [node for layer in layers if isinstance(layer, MaterializedLayer) for node in layer.mapping.values()]
    held += [getattr(node, "value", None) for node in nodes]
    return {Path(ref.path) for ref in held if isinstance(ref, StoreRef)}
