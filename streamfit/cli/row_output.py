"""One result a row on its way to a file, by its suffix, and the rows that stand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from numpy.lib import format as npy

from streamfit.errors import InvalidParameterError, StoreExistsError
from streamfit.run.ordered_blocks import blocks_in_order
from streamfit.scores import saving
from streamfit.scores.top import top_k
from streamfit.store.part_file import part_file

if TYPE_CHECKING:
    from pathlib import Path

    from streamfit.feature_store import FeatureStore
    from streamfit.scores.top import TopK

__all__ = ["check_out", "check_top_out", "top_facts", "top_of_file", "write_npy", "write_results", "write_top"]

_NPY = ".npy"
_TOP_SUFFIXES = (".csv", ".json")
_MOST_FEATURES = 1_000
"""Files of rows that stand out are for people and their tables: they hold no more columns of features than that."""


def check_out(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Raises
    ------
    InvalidParameterError
        It has another suffix.
    StoreExistsError
        Something is there. Scores of a call that was stopped are gone on with.
    """
    if path.suffix not in (_NPY, *saving.SUFFIXES):
        raise InvalidParameterError(
            f"--out writes {_NPY}, {' or '.join(saving.SUFFIXES)}, got {path.name!r}. Choose one of these suffixes."
        )
    if path.suffix == _NPY:
        if path.exists() and not overwrite:
            raise StoreExistsError(f"{path} exists already. Choose another --out or add --overwrite.")
        return
    try:
        saving.check_target(path, overwrite=overwrite)
    except StoreExistsError as error:
        raise StoreExistsError(str(error).replace("say overwrite=True", "add --overwrite")) from error


def check_top_out(path: Path) -> None:
    """Refuse a file of top rows with another suffix.

    Raises
    ------
    InvalidParameterError
        It has another suffix.
    """
    if path.suffix not in _TOP_SUFFIXES:
        raise InvalidParameterError(
            f"--top-out writes {' or '.join(_TOP_SUFFIXES)}, got {path.name!r}. Choose one of these suffixes."
        )


def write_results(path: Path, values: da.Array, store: FeatureStore, *, name: str, overwrite: bool) -> None:
    """Compute a lazy array and write it as it comes, a few blocks in memory at a time.

    Parameters
    ----------
    path : Path
        The file; its suffix was checked.
    values : dask.array.Array, (n_rows,) or (n_rows, n_outputs)
        Of known shape, in blocks of whole rows.
    store : FeatureStore
        The rows, whose ids go into a store or a Parquet file.
    name : str
        What the values are. Several columns get numbers behind it.
    overwrite : bool
        Replace what is there.

    Raises
    ------
    InvalidParameterError
        Such a file does not hold values of this type.
    """
    if path.suffix == _NPY:
        write_npy(path, values)
        return
    if values.dtype.kind not in "biuf":
        raise InvalidParameterError(f"{path} holds numbers, and these are {values.dtype}. Write them to {_NPY}.")
    columns = {name: values} if values.ndim == 1 else {f"{name}_{i}": values[:, i] for i in range(values.shape[1])}
    one = values.ndim == 1 and name == "score"
    saving.save(values if one else columns, path, store=store, overwrite=overwrite)


def write_npy(path: Path, values: da.Array) -> None:
    """Write a plain ``.npy`` file, which appears when it is complete.

    Raises
    ------
    InvalidParameterError
        The values are Python objects, which only pickling could write.
    """
    if values.dtype.hasobject:
        raise InvalidParameterError(f"{path} cannot hold values of dtype {values.dtype}. Choose another --function.")
    header = {"descr": npy.dtype_to_descr(values.dtype), "fortran_order": False, "shape": values.shape}
    with part_file(path) as file:
        npy.write_array_header_1_0(file, header)
        for (block,) in blocks_in_order([values]):
            file.write(np.ascontiguousarray(block, dtype=values.dtype).data)


def top_of_file(path: Path, store: FeatureStore, k: int) -> TopK:
    """Find the `k` rows with the highest scores in a file that was written here.

    Parameters
    ----------
    path : Path
        One number a row.
    store : FeatureStore
        The rows that were scored.
    k : int
        Rows to give.
    """
    if path.suffix == _NPY:
        mapped = np.load(path, mmap_mode="r")
        scores: Any = da.from_array(mapped, chunks=(store.layout.partition_rows(),), name=False)
    else:
        opened = saving.open(path)
        scores = next(iter(opened.values())) if isinstance(opened, dict) else opened
    return top_k(scores, k, store=store).compute()


def top_facts(top: TopK) -> list[dict[str, Any]]:
    """Give row, id (None where there are none) and score of each row, as plain values."""
    ids = [None] * len(top.rows) if top.ids is None else top.ids.tolist()
    return [
        {"row": row, "id": name, "score": score}
        for row, name, score in zip(top.rows.tolist(), ids, top.scores.tolist(), strict=True)
    ]


def write_top(path: Path, top: TopK) -> None:
    """Write top rows by the suffix of the file, with their features where they are not very many."""
    features = top.features.shape[1] <= _MOST_FEATURES
    if path.suffix == ".json":
        top.to_json(path, features=features)
    else:
        top.to_csv(path, features=features)
