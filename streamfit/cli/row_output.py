"""One result a row on its way to a file: a plain ``.npy``, and the top rows as csv."""

from __future__ import annotations

import csv
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from numpy.lib import format as npy

from streamfit.errors import InvalidParameterError
from streamfit.run.engine import current_engine
from streamfit.scores.top import top_k

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore

__all__ = ["TopRow", "top_rows", "write_csv", "write_npy"]


@dataclass(frozen=True, slots=True)
class TopRow:
    """A row with one of the highest scores."""

    row: int
    """Global number."""
    id: int | None
    """Its id, where the store has ids."""
    score: float
    """Its score."""


def write_npy(path: Path, values: da.Array) -> None:
    """Compute a lazy array and write it as it comes, a few blocks in memory at a time.

    Parameters
    ----------
    path : Path
        The file; it appears when it is complete.
    values : dask.array.Array, (n_rows,) or (n_rows, n_outputs)
        Of known shape, in blocks of whole rows.

    Raises
    ------
    InvalidParameterError
        The values are Python objects, which only pickling could write.
    """
    if values.dtype.hasobject:
        raise InvalidParameterError(f"{path} cannot hold values of dtype {values.dtype}. Choose another --function.")
    engine = current_engine()
    blocks = [values.blocks[i] for i in range(values.numblocks[0])]
    # A block of results is small beside the chunks it is made from: several a worker keep all of them busy.
    at_once = 4 * engine.n_workers
    header = {"descr": npy.dtype_to_descr(values.dtype), "fortran_order": False, "shape": values.shape}
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as file:
        npy.write_array_header_1_0(file, header)
        for first in range(0, len(blocks), at_once):
            for block in engine.compute(*blocks[first : first + at_once]):
                file.write(np.ascontiguousarray(block, dtype=values.dtype).data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def top_rows(store: FeatureStore, scores: NDArray[Any], k: int) -> list[TopRow]:
    """Give the `k` rows with the highest scores, highest first.

    Parameters
    ----------
    store : FeatureStore
        The rows that were scored.
    scores : ndarray, (n_rows,)
        May be mapped from a file.
    k : int
        Rows to give.
    """
    blocks = da.from_array(scores, chunks=(store.layout.partition_rows(),), name=False)
    top = top_k(blocks, k).compute()
    return [
        TopRow(int(row), _id(store, int(row)), float(score)) for row, score in zip(top.rows, top.scores, strict=True)
    ]


def _id(store: FeatureStore, row: int) -> int | None:
    if not store.has_ids:
        return None
    chunk = int(store.layout.chunk_at(np.array(row)))
    return int(store.reader.read_array("ids", chunk)[row - store.layout.chunk_bounds(chunk)[0]])


def write_csv(path: Path, rows: Sequence[TopRow]) -> None:
    """Write top rows below a heading; where the store has no ids, they are empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=["row", "id", "score"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
