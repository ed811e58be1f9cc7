"""Each kind of source, made of a matrix and labels in memory: the list that the contract of sources is held to."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import zarr

import streamfit as sf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["KINDS", "Kind", "Made"]

COLUMNS = ("a", "b", "c", "d")
NOT_IN_SCIPY = ("f2", ">f4", ">i8")
"""Types that sparse matrices of scipy refuse, or do not come back from."""


@dataclass(frozen=True)
class Made:
    """A source, and its labels as they are given: by name where they lie in it, None where they come with it."""

    source: Any
    y: Any
    damaged: tuple[Path, ...] = ()
    """Files of which each one, cut anywhere, must be noticed."""
    text: Path | None = None
    """File of lines, which, cut between two of them, is a shorter file."""
    columns: tuple[str, ...] | None = None
    """Columns of the features, where there are more."""


@dataclass(frozen=True)
class Kind:
    """How to make a source of one kind."""

    make: Callable[[Path, Any, Any], Made]
    dtype: str | None = None
    """Type that it has, whatever the matrix has."""
    lacks: tuple[str, ...] = ()
    """Types that it has no form for."""
    rounds: bool = False
    """Whether it is text of float64 by its format, so that larger whole numbers are rounded as all decimals are."""
    texts: bool = True
    """Whether labels may be texts."""
    several: bool = True
    """Whether a row may have several labels."""
    needs: str | None = None
    """Module without which it is left out."""

    @property
    def missing(self) -> bool:
        """Whether it cannot be made here."""
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


def parts(X: Any) -> list[slice]:
    """Cut rows into three parts, one of them empty where there are few."""
    cuts = [0, len(X) // 2, len(X) // 2 + len(X) // 3, len(X)]
    return [slice(start, stop) for start, stop in itertools.pairwise(cuts)]


def native(X: Any) -> Any:
    return X.astype(X.dtype.newbyteorder("="))


def frame(X: Any, y: Any) -> pd.DataFrame:
    names = names_of(y)
    labels = {names: y} if isinstance(names, str) else dict(zip(names, y.T, strict=True))
    return pd.DataFrame(native(X), columns=list(COLUMNS)).assign(**labels)


def names_of(y: Any) -> str | list[str]:
    """Names of the columns of labels in a table."""
    return "label" if y.ndim == 1 else [f"label{place}" for place in range(y.shape[1])]


# -- files of arrays -----------------------------------------------------------------------------------


def npy(path: Path, X: Any, y: Any) -> Made:
    np.save(path / "x.npy", X)
    return Made(path / "x.npy", y, (path / "x.npy",))


def npy_list(path: Path, X: Any, y: Any) -> Made:
    files = tuple(path / f"part-{number}.npy" for number in range(3))
    for file, part in zip(files, parts(X), strict=True):
        np.save(file, X[part])
    return Made(list(files), y, files)


def npy_glob(path: Path, X: Any, y: Any) -> Made:
    return Made(str(path / "part-*.npy"), y, npy_list(path, X, y).damaged)


def npz(path: Path, X: Any, y: Any, save: Callable[..., None] = np.savez_compressed) -> Made:
    save(path / "x.npz", features=X, label=y)
    return Made(path / "x.npz", "label", (path / "x.npz",))


def hdf5(path: Path, X: Any, y: Any, **options: Any) -> Made:
    with h5py.File(path / "x.h5", "w") as root:
        root.create_dataset("g/X", data=X, **options)
        root["g/label"] = y.astype("S") if y.dtype.kind == "U" else y
    return Made(f"{path}/x.h5::g", "label", (path / "x.h5",))


def hdf5_chunks(path: Path, X: Any, y: Any) -> Made:
    # Empty datasets have no chunks.
    options = {"chunks": (min(len(X), 300), 3), "compression": "gzip"} if len(X) else {}
    return hdf5(path, X, y, **options)


def hdf5_object(path: Path, X: Any, y: Any) -> Made:
    hdf5(path, X, y)
    return Made(h5py.File(path / "x.h5")["g/X"], "label")


def zarr_array(path: Path, X: Any, y: Any, **options: Any) -> Made:
    # Every chunk is written: one of zeros would be missing otherwise, of which a warning tells.
    chunks = {"chunks": (max(1, min(len(X), 300)), 3), "config": {"write_empty_chunks": True}}
    zarr.create_array(path / "x.zarr", shape=X.shape, dtype=X.dtype, **{**chunks, **options})[:] = X
    files = [file for file in (path / "x.zarr").rglob("*") if file.is_file() and ".z" not in file.name]
    return Made(path / "x.zarr", y, tuple(file for file in files if file.name != "zarr.json"))


def zarr_shards(path: Path, X: Any, y: Any) -> Made:
    return zarr_array(path, X, y, chunks=(100, 2), shards=(300, 4))


def zarr_old(path: Path, X: Any, y: Any) -> Made:
    return zarr_array(path, X, y, zarr_format=2, order="F")


def zarr_group(path: Path, X: Any, y: Any) -> Made:
    group = zarr.create_group(path / "g.zarr")
    n_rows = max(1, min(len(X), 300))
    config = {"write_empty_chunks": True}
    group.create_array("deep/X", shape=X.shape, dtype=X.dtype, chunks=(n_rows, 4), config=config)[:] = X
    labels = y.astype(np.dtypes.StringDType()) if y.dtype.kind == "U" else y
    group.create_array("deep/label", shape=y.shape, dtype=labels.dtype, chunks=(n_rows, *y.shape[1:]), config=config)[
        :
    ] = labels
    files = [file for file in (path / "g.zarr").rglob("c/*") if file.is_file()]
    return Made(path / "g.zarr/deep", "label", tuple(files))


def store(path: Path, X: Any, y: Any) -> Made:
    sf.ingest(X, path / "s", y=y, chunk_rows=500)
    return Made(path / "s", None, tuple(file for file in (path / "s").glob("[Xy]/c/**/*") if file.is_file()))


# -- files of tables -----------------------------------------------------------------------------------


def parquet(path: Path, X: Any, y: Any) -> Made:
    pq.write_table(pa.Table.from_pandas(frame(X, y)), path / "x.parquet", row_group_size=700)
    return Made(path / "x.parquet", names_of(y), (path / "x.parquet",))


def parquet_folder(path: Path, X: Any, y: Any) -> Made:
    (path / "tables").mkdir()
    files = tuple(path / "tables" / f"{number}.parquet" for number in range(3))
    for file, part in zip(files, parts(X), strict=True):
        pq.write_table(pa.Table.from_pandas(frame(X, y)[part], preserve_index=False), file)
    return Made(path / "tables", names_of(y), files)


def parquet_glob(path: Path, X: Any, y: Any) -> Made:
    made = parquet_folder(path, X, y)
    return Made(f"{path}/tab*/*.parquet", names_of(y), made.damaged)


def parquet_hive(path: Path, X: Any, y: Any) -> Made:
    files = []
    for number, part in enumerate(parts(X)):
        (path / f"tables/part={number}").mkdir(parents=True)
        files.append(path / f"tables/part={number}/0.parquet")
        pq.write_table(pa.Table.from_pandas(frame(X, y)[part], preserve_index=False), files[-1])
    return Made(path / "tables", names_of(y), tuple(files), columns=COLUMNS)


def csv(path: Path, X: Any, y: Any, name: str = "x.csv", sep: str = ",", cuts: bool = False) -> Made:
    # Texts of float64 have its digits; those of a float32 are of another number in float64.
    exact = X.astype("f8") if X.dtype.kind == "f" else X
    # With its time, the same text would be another file.
    packed = {"method": "gzip", "mtime": 1} if name.endswith(".gz") else "infer"
    frame(exact, y).to_csv(path / name, index=False, sep=sep, compression=packed)
    packed_file = (path / name,) if cuts else ()
    return Made(path / name, names_of(y), packed_file, text=None if cuts else path / name)


def svmlight(path: Path, X: Any, y: Any) -> Made:
    lines = (
        " ".join([str(label), *(f"{column}:{value!r}" for column, value in enumerate(row, 1) if value)])
        for row, label in zip(X.astype("f8").tolist() if X.dtype.kind == "f" else (X + 0).tolist(), y, strict=True)
    )
    (path / "x.svmlight").write_text("".join(f"{line}\n" for line in lines))
    return Made(path / "x.svmlight", None, text=path / "x.svmlight")


def sparse_npz(path: Path, X: Any, y: Any) -> Made:
    sp.save_npz(path / "x.npz", sp.csr_array(X))
    return Made(path / "x.npz", y, (path / "x.npz",))


# -- in memory -----------------------------------------------------------------------------------------


def batches(X: Any, y: Any) -> Any:
    for start in range(0, len(X), 400):
        yield X[start : start + 400], y[start : start + 400]


def sparse_batches(X: Any, y: Any) -> Any:
    return ((sp.csr_array(rows), labels) for rows, labels in batches(X, y))


def reader(X: Any, y: Any) -> Any:
    table = pa.Table.from_pandas(frame(X, y), preserve_index=False)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=300))


def torch_tensors(X: Any, y: Any) -> Any:
    import torch

    return torch.utils.data.TensorDataset(torch.from_numpy(native(X).copy()), torch.from_numpy(y))


def torch_dataset(X: Any, y: Any) -> Any:
    from torch.utils.data import Subset

    return Subset(torch_tensors(X, y), range(len(X)))


def torch_loader(X: Any, y: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(torch_tensors(X, y), batch_size=300)


def with_it(give: Callable[[Any, Any], Any]) -> Callable[[Path, Any, Any], Made]:
    """Labels come with the rows."""
    return lambda _, X, y: Made(give(X, y), None)


def table(give: Callable[[Any, Any], Any]) -> Callable[[Path, Any, Any], Made]:
    """Labels are a column."""
    return lambda _, X, y: Made(give(X, y), names_of(y))


def array(give: Callable[[Any], Any]) -> Callable[[Path, Any, Any], Made]:
    """Labels are given beside the rows."""
    return lambda _, X, y: Made(give(X), y)


TORCH: dict[str, Any] = {"texts": False, "needs": "torch"}

KINDS = {
    "array": Kind(array(lambda X: X)),
    "npy": Kind(npy),
    "npy-list": Kind(npy_list),
    "npy-glob": Kind(npy_glob),
    "npz": Kind(npz),
    "npz-plain": Kind(lambda path, X, y: npz(path, X, y, np.savez)),
    "hdf5": Kind(hdf5),
    "hdf5-chunks": Kind(hdf5_chunks),
    "hdf5-object": Kind(hdf5_object),
    "zarr-2": Kind(zarr_old),
    "zarr-3": Kind(zarr_array),
    "zarr-shards": Kind(zarr_shards),
    "zarr-group": Kind(zarr_group),
    "store": Kind(store),
    "pandas": Kind(table(frame)),
    "polars": Kind(table(lambda X, y: pl.from_pandas(frame(X, y)))),
    "polars-lazy": Kind(table(lambda X, y: pl.from_pandas(frame(X, y)).lazy())),
    "arrow-table": Kind(table(lambda X, y: pa.Table.from_pandas(frame(X, y), preserve_index=False))),
    "arrow-reader": Kind(table(reader)),
    "parquet": Kind(parquet),
    "parquet-folder": Kind(parquet_folder),
    "parquet-glob": Kind(parquet_glob),
    "parquet-keys": Kind(parquet_hive),
    "csv": Kind(csv, dtype="f8"),
    "csv-gz": Kind(lambda path, X, y: csv(path, X, y, "x.csv.gz", cuts=True), dtype="f8"),
    "csv-zst": Kind(lambda path, X, y: csv(path, X, y, "x.csv.zst", cuts=True), dtype="f8"),
    "tsv": Kind(lambda path, X, y: csv(path, X, y, "x.tsv", sep="\t"), dtype="f8"),
    "dask-array": Kind(array(lambda X: da.from_array(X, chunks=(max(1, len(X) // 3), 3)))),
    "dask-frame": Kind(table(lambda X, y: dd.from_pandas(frame(X, y), npartitions=3))),
    "batches": Kind(with_it(batches)),
    "callable": Kind(with_it(lambda X, y: lambda: batches(X, y))),
    "csr": Kind(array(sp.csr_array), lacks=NOT_IN_SCIPY),
    "csc": Kind(array(sp.csc_matrix), lacks=NOT_IN_SCIPY),
    "sparse-npz": Kind(sparse_npz, lacks=NOT_IN_SCIPY),
    "sparse-batches": Kind(with_it(sparse_batches), lacks=NOT_IN_SCIPY),
    "svmlight": Kind(svmlight, dtype="f8", rounds=True, texts=False, several=False),
    "tensors": Kind(with_it(torch_tensors), **TORCH),
    "torch-dataset": Kind(with_it(torch_dataset), **TORCH),
    "torch-loader": Kind(with_it(torch_loader), **TORCH),
}
