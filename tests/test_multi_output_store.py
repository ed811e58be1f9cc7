"""Several labels a row: stored, read, viewed, appended and shuffled as one label is, from every source."""

from __future__ import annotations

import json

import dask.array as da
import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import zarr
from sklearn.exceptions import DataConversionWarning

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError, StoreCorruptError
from streamfit.plan.budget import FIXED_NBYTES

N_ROWS = 230


@pytest.fixture(scope="module")
def X():  # noqa: N802
    return np.random.default_rng(1).normal(size=(N_ROWS, 5)).astype(np.float32)


def labels_of(kind, X):
    flags = np.column_stack([X[:, 0] > 0, X[:, 1] > 0.5, X[:, 2] > -1])
    return {
        "floats": np.column_stack([X[:, 0] * 2.0, X[:, 1] - X[:, 2]]).astype(np.float64),
        "float32": np.column_stack([X[:, 0], X[:, 1], X[:, 3]]),
        "integers": np.column_stack([np.digitize(X[:, 0], [-1, 0, 1]), np.digitize(X[:, 1], [0])]),
        "flags": flags.astype(np.int8),
        "booleans": flags,
    }[kind]


KINDS = ["floats", "float32", "integers", "flags", "booleans"]


@pytest.mark.parametrize(
    ("kind", "chunk_rows"), [("floats", 1), *((kind, chunk_rows) for kind in KINDS for chunk_rows in (37, 230, 1_000))]
)
def test_every_way_to_the_labels(tmp_path, X, kind, chunk_rows):
    y = labels_of(kind, X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=chunk_rows)
    assert (store.n_outputs, store.classes, store.class_counts) == (y.shape[1], None, None)
    assert store.label_dtype == y.dtype
    assert store.label_nbytes == y.dtype.itemsize * y.shape[1]
    assert store.y.shape == y.shape
    np.testing.assert_array_equal(store.y.compute(), y)
    assert store.y.dtype == y.dtype
    rows = [5, 229, 0, 5]
    np.testing.assert_array_equal(store.take_labels(rows), y[rows])
    streamed = np.full_like(y, 0)
    for batch in store.stream(store.plan(batch_size=40, seed=3)):
        np.testing.assert_array_equal(batch.X, X[batch.rows])
        streamed[batch.rows] = batch.y
    np.testing.assert_array_equal(streamed, y)
    mapped = store.map(lambda _, chunk: chunk.y[:, 0].astype(float), model=None, dtype="float64").compute()
    np.testing.assert_array_equal(mapped, y[:, 0])
    assert store.verify().ok
    again = sf.open_store(store.path)
    assert again.digest == store.digest
    # For Zarr it is a plain matrix.
    stored = zarr.open_array(tmp_path / "store" / "y", mode="r")
    np.testing.assert_array_equal(stored[:], y)
    assert sf.ingest(X, tmp_path / "store", y=y, chunk_rows=chunk_rows).digest == store.digest


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_those_that_zarr_would_write(tmp_path, X, kind, compression):
    store = sf.ingest(X, tmp_path / "store", y=labels_of(kind, X), chunk_rows=37, compression=compression)
    folder = tmp_path / "store" / "y"
    ours = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert ours.keys() == {"zarr.json", *(f"c/{chunk}/0" for chunk in range(store.layout.n_chunks))}
    array = zarr.open_array(folder, mode="r")
    metadata = {"dtype": array.dtype, "chunks": array.chunks, "fill_value": array.fill_value}
    codecs = {"compressors": array.compressors, "serializer": array.serializer, "filters": array.filters}
    again = zarr.create_array(tmp_path / "again", shape=array.shape, **metadata, **codecs)
    again[:] = array[:]
    for name, content in ours.items():
        theirs = (tmp_path / "again" / name).read_bytes()
        assert theirs == content if name != "zarr.json" else json.loads(theirs) == json.loads(content), name


@pytest.mark.parametrize("kind", KINDS)
def test_classes_of_each_label(tmp_path, X, kind):
    y = labels_of(kind, X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    for one in (store, store[10:90], sf.open_store(store.path)):
        part = y[10:90] if one.n_rows == 80 else y
        for known, column in zip(one.output_classes, part.T, strict=True):
            if kind.startswith("float"):
                assert known is None
            else:
                np.testing.assert_array_equal(known, np.unique(column))
                assert known.dtype == y.dtype
    assert sf.ingest(X, tmp_path / "one", y=y[:, 0]).output_classes == ()
    assert sf.ingest(X, tmp_path / "none").n_outputs is None


def batches(X, y):
    return lambda: ((X[start : start + 50], y[start : start + 50]) for start in range(0, N_ROWS, 50))


@pytest.mark.parametrize(
    "give",
    [
        pytest.param(lambda X, y, _: {"source": X, "y": da.from_array(y, chunks=(60, 1))}, id="dask"),
        pytest.param(
            lambda X, y, _: {"source": X, "y": dd.from_pandas(pd.DataFrame(y), npartitions=3)}, id="dask-frame"
        ),
        pytest.param(lambda X, y, _: {"source": X, "y": pd.DataFrame(y)}, id="pandas"),
        pytest.param(lambda X, y, _: {"source": X, "y": pl.DataFrame(y)}, id="polars"),
        pytest.param(lambda X, y, _: {"source": X, "y": pa.table({"a": y[:, 0], "b": y[:, 1]})}, id="arrow"),
        pytest.param(lambda X, y, _: {"source": X, "y": np.asfortranarray(y)}, id="fortran"),
        pytest.param(lambda X, y, _: {"source": X, "y": y.tolist()}, id="lists"),
        pytest.param(lambda X, y, _: {"source": batches(X, y)}, id="generator"),
        pytest.param(lambda X, y, folder: {"source": npz(folder, X, y), "y": "y"}, id="npz"),
        pytest.param(lambda X, y, folder: {"source": npz(folder, X, np.asfortranarray(y)), "y": "y"}, id="npz-fortran"),
        pytest.param(lambda X, y, folder: {"source": hdf5(folder, X, y), "y": "y"}, id="hdf5"),
        pytest.param(lambda X, y, folder: {"source": records(folder, X, y), "y": ["b", "a"]}, id="hdf5-records"),
        pytest.param(lambda X, y, folder: {"source": zarr_group(folder, X, y), "y": "y"}, id="zarr"),
        pytest.param(lambda X, y, folder: {"source": sf.ingest(X, folder / "first", y=y)}, id="store"),
        pytest.param(
            lambda X, y, folder: {"source": X, "y": sf.ingest(X, folder / "first", y=y).y}, id="lazy-of-store"
        ),
        pytest.param(lambda X, y, folder: {"source": parquet(folder, X, y), "y": ["b", "a"]}, id="parquet"),
        pytest.param(lambda X, y, folder: {"source": csv(folder, X, y), "y": ("b", "a")}, id="csv"),
        pytest.param(lambda X, y, _: {"source": frame(X, y), "y": ["b", "a"]}, id="columns-of-pandas"),
        pytest.param(lambda X, y, _: {"source": frame(X, y), "y": frame(X, y).columns[[6, 5]]}, id="index-of-pandas"),
        pytest.param(lambda X, y, _: {"source": pl.from_pandas(frame(X, y)), "y": ["b", "a"]}, id="columns-of-polars"),
        pytest.param(
            lambda X, y, _: {"source": pl.from_pandas(frame(X, y)).lazy(), "y": ["b", "a"]}, id="columns-of-lazy"
        ),
        pytest.param(
            lambda X, y, _: {"source": pa.Table.from_pandas(frame(X, y)), "y": ["b", "a"]}, id="columns-of-arrow"
        ),
        pytest.param(
            lambda X, y, _: {"source": pa.Table.from_pandas(frame(X, y)).to_reader(), "y": ["b", "a"]},
            id="arrow-reader",
        ),
        pytest.param(
            lambda X, y, folder: {"source": pyarrow.dataset.dataset(parquet(folder, X, y)), "y": ["b", "a"]},
            id="arrow-dataset",
        ),
        pytest.param(
            lambda X, y, _: {"source": dd.from_pandas(frame(X, y), npartitions=3), "y": ["b", "a"]},
            id="columns-of-dask",
        ),
    ],
)
def test_from_every_source(tmp_path, X, give):
    y = labels_of("floats", X)
    given = give(X, y, tmp_path)
    store = sf.ingest(given.pop("source"), tmp_path / "store", chunk_rows=60, **given)
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)


def hdf5(folder, X, y):
    with h5py.File(folder / "rows.h5", "w") as root:
        root.create_dataset("X", data=X, chunks=(50, 2))
        root.create_dataset("y", data=y, chunks=(40, y.shape[1] // 2))
    return folder / "rows.h5"


def records(folder, X, y):
    with h5py.File(folder / "rows.h5", "w") as root:
        root["rows"] = frame(X, y).to_records(index=False)
    return f"{folder}/rows.h5::rows"


def zarr_group(folder, X, y):
    group = zarr.create_group(folder / "rows.zarr")
    group.create_array("X", data=X, chunks=(50, 2))
    group.create_array("y", data=y, chunks=(40, y.shape[1] // 2))
    return folder / "rows.zarr"


def npz(folder, X, y):
    np.savez(folder / "rows.npz", X=X, y=y)
    return folder / "rows.npz"


def frame(X, y):
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(5)])
    return table.assign(a=y[:, 1], b=y[:, 0])


def parquet(folder, X, y):
    frame(X, y).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def csv(folder, X, y):
    frame(X, y).astype({f"x{i}": "float64" for i in range(5)}).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def test_names_of_columns_and_texts_are_told_apart(tmp_path, X):
    table = frame(X, labels_of("floats", X))
    texts = ["low", "high"] * (N_ROWS // 2)
    np.testing.assert_array_equal(sf.ingest(table, tmp_path / "texts", y=texts).classes, ["high", "low"])
    np.save(tmp_path / "rows.npy", X[:3])
    assert sf.ingest(tmp_path / "rows.npy", tmp_path / "three", y=["a", "b", "c"]).classes.tolist() == ["a", "b", "c"]
    with pytest.raises(InvalidParameterError, match="'none'"):
        sf.ingest(parquet(tmp_path, X, labels_of("floats", X)), tmp_path / "s", y=["a", "none"])
    with pytest.raises(InvalidParameterError, match=r"y names the columns a, b, and rows.h5 is no table"):
        sf.ingest(hdf5(tmp_path, X, X), tmp_path / "s", y=["a", "b"])


@pytest.mark.parametrize(
    "table_of",
    [
        pytest.param(pd.DataFrame, id="pandas"),
        pytest.param(pl.from_pandas, id="polars"),
        pytest.param(lambda table: pl.from_pandas(table).lazy(), id="lazy"),
        pytest.param(pa.Table.from_pandas, id="arrow"),
        pytest.param(lambda table: dd.from_pandas(table, npartitions=2), id="dask"),
    ],
)
def test_a_misspelt_name_of_a_table_in_memory_is_told(tmp_path, X, table_of):
    table = table_of(frame(X, labels_of("floats", X)))
    with pytest.raises(InvalidParameterError, match=r"There is no column 'none' for y\.(?!\d)"):
        sf.ingest(table, tmp_path / "store", y=["a", "none"])


def test_labels_of_few_rows_are_no_names_though_one_is_that_of_a_column(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0], "x": [3.0, 4.0]})
    assert sf.ingest(table, tmp_path / "store", y=["a", "other"]).classes.tolist() == ["a", "other"]


def test_a_list_of_one_name_is_one_label_a_row(tmp_path, X):
    table = frame(X, labels_of("floats", X))
    store = sf.ingest(table.drop(columns="a"), tmp_path / "store", y=["b"])
    assert store.n_outputs is None
    np.testing.assert_array_equal(store.y.compute(), table["b"])


def test_whole_numbers_of_a_column_are_not_rounded_for_another(tmp_path, X):
    table = frame(X, labels_of("floats", X)).assign(b=np.r_[np.arange(N_ROWS - 1), 2**53 + 1])
    for name, source in (("pandas", table), ("polars", pl.from_pandas(table)), ("arrow", pa.Table.from_pandas(table))):
        with pytest.raises(InvalidDataError, match=f"labels of row {N_ROWS - 1}: 9007199254740993 would be float64"):
            sf.ingest(source, tmp_path / name, y=["a", "b"])
    assert sf.ingest(table, tmp_path / "wholes", y="b", columns=["x0"]).label_dtype == np.int64


def test_views_splits_and_selections(tmp_path, X):
    y = labels_of("integers", X)
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=37)
    positive = np.flatnonzero(X[:, 0] > 0)
    for view, rows in ((store[5:200:7], np.arange(5, 200, 7)), (store.select(X[:, 0] > 0), positive)):
        np.testing.assert_array_equal(view.y.compute(), y[rows])
        np.testing.assert_array_equal(view.take_labels([3, 1]), y[rows[[3, 1]]])
    first, second = store.split(0.7, seed=1)
    rows = np.concatenate([part.row_numbers(np.arange(len(part))) for part in (first, second)])
    np.testing.assert_array_equal(np.concatenate([first.y.compute(), second.y.compute()]), y[rows])
    with pytest.raises(InvalidDataError, match="stratify=True goes by the classes of one label a row, and y has 2"):
        store.split(0.7, stratify=True)


@pytest.mark.parametrize("kind", ["floats", "integers"])
def test_rows_are_appended_labels_attached_and_all_shuffled(tmp_path, X, kind):
    y = labels_of(kind, X)
    store = sf.ingest(X[:100], tmp_path / "store", y=y[:100], chunk_rows=37)
    longer = sf.append(X[100:], store, y=y[100:])
    np.testing.assert_array_equal(longer.y.compute(), y)
    whole = sf.ingest(X, tmp_path / "whole", y=y, chunk_rows=37)
    for one, other in zip(longer.output_classes, whole.output_classes, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(store.y.compute(), y[:100])  # as it was opened

    bare = sf.ingest(X, tmp_path / "bare", chunk_rows=37)
    attached = sf.attach(bare, y=y)
    np.testing.assert_array_equal(attached.y.compute(), y)
    assert attached.n_outputs == 2
    other = sf.attach(attached, y=y[:, ::-1], if_exists="overwrite")
    np.testing.assert_array_equal(other.y.compute(), y[:, ::-1])
    assert sf.attach(other, y=y[:, 0], if_exists="overwrite").n_outputs is None

    for passes in ("full", 2):
        shuffled = whole.shuffle(tmp_path / f"shuffled-{passes}", seed=4, passes=passes)
        rows = shuffled.X.compute()
        order = np.lexsort(rows.T)
        expected = np.lexsort(X.T)
        np.testing.assert_array_equal(rows[order], X[expected])
        np.testing.assert_array_equal(shuffled.y.compute()[order], y[expected])
        assert (rows != X).any()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(slice(0, 2), 0, id="several-then-one"),
        pytest.param(0, slice(0, 2), id="one-then-several"),
        pytest.param(slice(0, 2), slice(0, 3), id="more"),
    ],
)
def test_other_numbers_of_labels_are_refused(tmp_path, X, first, second):
    y = labels_of("float32", X)
    store = sf.ingest(X[:100], tmp_path / "store", y=y[:100, first])
    with pytest.raises(InvalidDataError, match=r"label\(s\) a row from row 0 on"):
        sf.append(X[100:], store, y=y[100:, second])
    assert sf.open_store(store.path).n_rows == 100


@pytest.mark.parametrize(
    ("y", "message"),
    [
        pytest.param([["a", "b"]] * 3, "Several labels a row must be numbers", id="texts"),
        pytest.param(np.zeros((3, 2, 2)), r"y has shape \(3, 2, 2\)", id="three-dimensions"),
        pytest.param(np.zeros((3, 0)), r"y has shape \(3, 0\)", id="none"),
        pytest.param([[1.0, 2.0], [np.nan, 1.0], [0.0, 0.0]], "The label of row 1 is", id="nan"),
        pytest.param(np.ma.masked_equal([[1, 2], [3, 4], [5, 6]], 4), "y is masked in row 1", id="masked"),
        pytest.param(np.zeros((2, 2)), "y has 2 rows and X has 3", id="too-few"),
        pytest.param(np.zeros((3, 2), dtype=complex), "complex", id="complex"),
    ],
)
def test_what_cannot_be_labels_is_refused(tmp_path, y, message):
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(np.ones((3, 2)), tmp_path / "store", y=y)


def test_a_column_is_one_label_a_row(tmp_path, X):
    y = labels_of("integers", X)[:, :1]
    with pytest.warns(DataConversionWarning, match="column-vector y was passed when a 1d array was expected"):
        store = sf.ingest(X, tmp_path / "store", y=y)
    assert store.n_outputs is None
    np.testing.assert_array_equal(store.classes, np.unique(y))


def test_the_format_is_a_later_one_where_rows_have_several(tmp_path, X):
    several = sf.ingest(X, tmp_path / "several", y=labels_of("floats", X))
    one = sf.ingest(X, tmp_path / "one", y=X[:, 0])
    assert (several.info().format_version, one.info().format_version) == (4, 1)
    manifest = json.loads((tmp_path / "one" / "streamfit" / "manifest.json").read_bytes())["manifest"]
    assert "n_columns" not in manifest["arrays"]["y"]
    assert "outputs" not in manifest["labels"]
    assert "2 a row, of float64" in str(several.info())
    assert several.info().to_json()["labels"]["n_outputs"] == 2
    assert "2 labels a row" in repr(several)


def test_damage_is_found(tmp_path, X):
    store = sf.ingest(X, tmp_path / "store", y=labels_of("floats", X), chunk_rows=50, compression="none")
    file = tmp_path / "store" / "y" / "c" / "2" / "0"
    content = bytearray(file.read_bytes())
    content[17] ^= 4
    file.write_bytes(content)
    report = sf.open_store(store.path).verify()
    assert not report.ok
    assert [(bad.array, bad.chunk) for bad in report.bad_chunks] == [("y", 2)]
    with pytest.raises(StoreCorruptError, match="Chunk 2 of y"):
        store.y.compute()
    sf.repair(X, store.path, y=labels_of("floats", X))
    np.testing.assert_array_equal(sf.open_store(store.path).y.compute(), labels_of("floats", X))


def test_sampling_by_class_is_refused(tmp_path, X):
    store = sf.ingest(X, tmp_path / "store", y=labels_of("flags", X))
    with pytest.raises(InvalidDataError, match="several labels a row"):
        store.plan(batch_size=10, sampling="balanced")


def test_sorted_labels_are_warned_of(tmp_path):
    X = np.zeros((20_000, 2))
    y = np.column_stack([np.random.default_rng(0).normal(size=20_000), np.arange(20_000.0)])
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=500)
    with pytest.warns(sf.ShuffleWarning):
        store.plan(batch_size=20)
    assert store.project(batch_size=20).correlation > 0.9


# -- memory --------------------------------------------------------------------------------------------


def test_many_labels_a_row_make_smaller_chunks(tmp_path):
    X, y = np.ones((90, 1), "f4"), np.ones((90, 1_000))
    names = [f"y{place}" for place in range(1_000)]
    table = pa.table({"x": X[:, 0], **{name: y[:, place] for place, name in enumerate(names)}})
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    sources = {
        "array": {"source": X, "y": y},
        "dask": {"source": X, "y": da.from_array(y, chunks=(40, 100))},
        "generator": {"source": lambda: iter([(X, y)])},
        "npz": {"source": tmp_path / "rows.npz", "y": "y"},
        "hdf5": {"source": hdf5(tmp_path, X[:, [0, 0]], y), "y": "y"},
        "zarr": {"source": zarr_group(tmp_path, X[:, [0, 0]], y), "y": "y"},
        "names": {"source": table, "y": names},
    }
    for name, given in sources.items():
        store = sf.ingest(given.pop("source"), tmp_path / name, **given)
        assert store.layout.chunk_rows == 1_024, name
    store = sf.open_store(tmp_path / "array")
    assert sf.ingest(store, tmp_path / "copy").layout.chunk_rows == 1_024
    assert sf.ingest(X, tmp_path / "one", y=y[:, 0]).layout.chunk_rows > 2**20


def test_the_bytes_of_labels_are_in_every_budget(tmp_path):
    X, y = np.zeros((60_000, 1), "f4"), np.zeros((60_000, 100), "f8")
    y[::7] = 0.5
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=10_000)
    chunk_nbytes = 10_000 * 800
    assert store.layout.outputs_nbytes == store[::2].layout.outputs_nbytes == 800
    assert store.layout.aside_nbytes == 2 * chunk_nbytes
    assert store.label_nbytes == 800
    # A block of labels has the rows of a block of features.
    assert store.y.chunks[0] == store.X.chunks[0] == (60_000,)
    assert store.to_dask(block_nbytes=2 * chunk_nbytes)[0].chunks[0] == (20_000,) * 3
    least = FIXED_NBYTES + 3 * chunk_nbytes
    with pytest.raises(BudgetError, match="3 chunks that are written"):
        sf.ingest(X, tmp_path / "other", y=y, chunk_rows=10_000, memory_limit=least)
    with pytest.raises(BudgetError):
        store.plan(batch_size=10, memory_limit=least)
    with pytest.raises(BudgetError):
        store.shuffle(tmp_path / "shuffled", memory_limit=least)
    with pytest.raises(BudgetError):
        store.reduce(Rows(), memory_limit=FIXED_NBYTES + chunk_nbytes)
    assert store.reduce(Rows()) == 60_000


class Rows:
    """A summary of next to nothing."""

    state_nbytes = 8

    def empty(self):
        return 0

    def update(self, state, chunk):
        return state + len(chunk.y)

    def merge(self, left, right):
        return left + right

    def finalize(self, state):
        return state


def test_a_chunk_of_labels_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("streamfit.store.label_values.MAX_CHUNK_NBYTES", 10_000)
    X, y = np.zeros((50, 1)), np.zeros((50, 30))
    with pytest.raises(InvalidDataError, match=r"30 labels a row, and those of a chunk of 50 rows take 11\.72 kiB"):
        sf.ingest(X, tmp_path / "store", y=y, chunk_rows=50)
    store = sf.ingest(X, tmp_path / "store", chunk_rows=50)
    with pytest.raises(InvalidDataError, match="Write the store with a smaller chunk_rows"):
        sf.attach(store, y=y)
    assert sf.attach(sf.ingest(X, tmp_path / "small", chunk_rows=40), y=y).n_outputs == 30
