"""Tables in memory, as streams, and as queries: pandas, polars, Arrow, and dask dataframes."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError

rng = np.random.default_rng(23)
N_ROWS = 230
X = rng.normal(size=(N_ROWS, 3)).astype("f4")
LABELS = np.array(["ham", "spam"])[rng.integers(0, 2, N_ROWS)]
TABLE = pa.table({**{name: X[:, i] for i, name in enumerate("abc")}, "label": LABELS, "number": np.arange(N_ROWS)})


class Stream:
    """What gives its rows as an Arrow stream, as often as it is asked, and is nothing else."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


class Once(Stream):
    def __init__(self):
        self.reader = TABLE.to_reader(max_chunksize=50)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader.__arrow_c_stream__(requested_schema)


class Batch:
    def __arrow_c_array__(self, requested_schema=None):
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


def dataset(path):
    path = path / "files"
    path.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, N_ROWS, 100)):
        pq.write_table(TABLE.slice(start, 100), path / f"{number}.parquet", row_group_size=30)
    return ds.dataset(path)


KINDS = {
    "table": lambda _: TABLE,
    "table-chunks": lambda _: pa.Table.from_batches(TABLE.to_batches(max_chunksize=17)),
    "batch": lambda _: TABLE.to_batches()[0],
    "reader": lambda _: TABLE.to_reader(max_chunksize=50),
    "stream": lambda _: Stream(),
    "stream-once": lambda _: Once(),
    "array": lambda _: Batch(),
    "dataset": dataset,
    "polars": lambda _: pl.from_arrow(TABLE),
    "polars-chunks": lambda _: pl.concat([pl.from_arrow(TABLE[:100]), pl.from_arrow(TABLE[100:])], rechunk=False),
    "polars-lazy": lambda _: pl.from_arrow(TABLE).lazy(),
    "polars-scan": lambda path: dataset(path) and pl.scan_parquet(path / "files/*.parquet"),
    "polars-query": lambda _: (
        pl.from_arrow(TABLE).lazy().with_columns((pl.col("a") * 2).alias("b2")).filter(pl.col("number") >= 0).drop("b2")
    ),
}
RECOGNISABLE = {"table", "table-chunks", "batch", "array", "polars", "polars-chunks"}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_labels_and_ids(tmp_path, kind):
    store = sf.ingest(KINDS[kind](tmp_path), tmp_path / "a", y="label", ids="number", chunk_rows=64)
    assert store.dtype == "f4"
    assert store.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), LABELS)
    np.testing.assert_array_equal(store.ids.compute(), np.arange(N_ROWS))
    assert store.verify().ok
    again = sf.ingest(KINDS[kind](tmp_path), tmp_path / "a", y="label", ids="number", chunk_rows=64)
    assert again.digest == store.digest
    if kind in RECOGNISABLE:
        with pytest.warns(sf.errors.AlreadyStoredWarning):
            sf.append(KINDS[kind](tmp_path), store, y="label", ids="number")
    else:
        assert sf.append(KINDS[kind](tmp_path), store, y="label", ids="number").n_rows == 2 * N_ROWS


@pytest.mark.parametrize("kind", ["table", "table-chunks", "polars", "polars-chunks"])
def test_a_table_is_known_by_its_values(tmp_path, kind):
    options = {"y": "label", "ids": "number"}
    plain = sf.ingest(KINDS[kind](tmp_path), tmp_path / "a", **options).manifest.source["hashes"]
    chunks = sf.ingest(KINDS[kind](tmp_path), tmp_path / "b", chunk_rows=7, **options).manifest.source["hashes"]
    assert plain == chunks
    values = TABLE["a"].to_numpy().copy()
    values[100] = np.nextafter(values[100], np.float32(9))
    other = TABLE.set_column(0, "a", pa.array(values))
    changed = sf.ingest(other, tmp_path / "c", **options).manifest.source["hashes"]
    assert changed[0] != plain[0]
    assert changed[1:] == plain[1:]
    assert sf.ingest(TABLE, tmp_path / "d", **options).manifest.source["hashes"][0] == plain[0]


def test_gaps_in_a_known_table_make_floats_and_in_a_stream_are_named(tmp_path):
    table = pa.table({"a": pa.array([1, None, 3])})
    store = sf.ingest(table, tmp_path / "a", nonfinite="keep")
    np.testing.assert_array_equal(store.X.compute().ravel(), [1, np.nan, 3])
    with pytest.raises(InvalidDataError, match=r"'a' has no value in row 1.*dtype=.float64.") as caught:
        sf.ingest(table.to_reader(), tmp_path / "b", nonfinite="keep")
    assert caught.value.row == 1
    store = sf.ingest(table.to_reader(), tmp_path / "c", nonfinite="keep", dtype="float64")
    np.testing.assert_array_equal(store.X.compute().ravel(), [1, np.nan, 3])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda: pl.Series("a", [1.0]), id="polars-series"),
        pytest.param(lambda: pa.chunked_array([[1.0]]), id="arrow-column"),
        pytest.param(lambda: pa.array([1.0]), id="arrow-array"),
    ],
)
def test_a_column_is_no_table(tmp_path, source):
    with pytest.raises(InvalidDataError, match="column a feature"):
        sf.ingest(source(), tmp_path / "a")


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        pytest.param([1, 2], "Int64", "i8", id="Int64"),
        pytest.param([1, None], "Int64", "f8", id="Int64-gap"),
        pytest.param([True, False], "boolean", "u1", id="boolean"),
        pytest.param([True, None], "boolean", "f8", id="boolean-gap"),
        pytest.param([0.5, None], "Float32", "f4", id="Float32-gap"),
        pytest.param([1, None], "int16[pyarrow]", "f8", id="arrow-int-gap"),
        pytest.param([True, None], "bool[pyarrow]", "f8", id="arrow-bool-gap"),
        pytest.param([0.5, 1], "float[pyarrow]", "f4", id="arrow-float"),
        pytest.param([0.0, 1.5], pd.SparseDtype("f4", 0.0), "f4", id="sparse"),
        pytest.param([1, 0], pd.SparseDtype("i2", 0), "i2", id="sparse-ints"),
    ],
)
@pytest.mark.parametrize("kind", ["pandas", "dask"])
def test_types_of_pandas(tmp_path, values, dtype, expected, kind):
    table = pd.DataFrame({"a": pd.array(values, dtype=dtype)})
    source = dd.from_pandas(table, npartitions=2) if kind == "dask" else table
    store = sf.ingest(source, tmp_path / "a", nonfinite="keep")
    given = [np.nan if value is None else float(value) for value in values]
    np.testing.assert_array_equal(store.X.compute().ravel(), given)
    if kind == "pandas" or isinstance(table["a"].dtype, pd.SparseDtype):
        assert store.dtype == expected
    else:  # gaps of later partitions are not known beforehand
        assert store.dtype == ("f4" if expected == "f4" else "f8")


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        pytest.param(pd.date_range("2024", periods=2), "datetime64.*seconds since", id="datetime"),
        pytest.param(pd.date_range("2024", periods=2, tz="UTC"), "datetime64.*seconds since", id="datetime-zone"),
        pytest.param(pd.to_timedelta([1, 2]), "timedelta64.*seconds since", id="timedelta"),
        pytest.param(pd.period_range("2024", periods=2, freq="D"), "period.*seconds since", id="period"),
        pytest.param(pd.interval_range(0, 2), "interval.*Cast it", id="interval"),
        pytest.param(pd.Categorical([1, 2]), "category.*categorical=", id="category"),
        pytest.param(pd.array(["x", "y"], dtype="string"), "string.*categorical=", id="string"),
        pytest.param([[1], [2]], "object.*categorical=", id="lists"),
    ],
)
def test_pandas_columns_that_are_no_numbers(tmp_path, column, advice):
    with pytest.raises(InvalidDataError, match=f"Column 'b' has type {advice}"):
        sf.ingest(pd.DataFrame({"a": [1.0, 2.0], "b": column}), tmp_path / "a")


def test_doubled_names_are_refused(tmp_path):
    table = pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
    with pytest.raises(InvalidDataError, match="more than one column 'a'"):
        sf.ingest(table, tmp_path / "a")
    with pytest.raises(InvalidDataError, match="more than one column 'a'"):
        sf.ingest(pa.table([[1.0], [2.0]], names=["a", "a"]), tmp_path / "a")
    with pytest.raises(InvalidParameterError, match="no column 'z' for columns"):
        sf.ingest(TABLE, tmp_path / "a", columns=["z"])


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(pl.Series(LABELS.tolist()), id="polars"),
        pytest.param(pl.Series(LABELS.tolist(), dtype=pl.Categorical), id="polars-category"),
        pytest.param(pa.array(LABELS.tolist()), id="arrow"),
        pytest.param(
            pa.chunked_array([LABELS[:9].tolist(), LABELS[9:].tolist()]).dictionary_encode(), id="arrow-category"
        ),
        pytest.param(pd.Series(pd.Categorical(LABELS)), id="pandas-category"),
        pytest.param(pd.Series(LABELS, dtype="string[pyarrow]"), id="pandas-arrow"),
    ],
)
def test_labels_of_other_libraries(tmp_path, labels):
    store = sf.ingest(X, tmp_path / "a", y=labels)
    np.testing.assert_array_equal(store.y.compute(), LABELS)


def test_a_store_is_not_written_over_a_data_set(tmp_path):
    with pytest.raises(sf.errors.StoreExistsError, match="would lie over its source"):
        sf.ingest(dataset(tmp_path), tmp_path / "files", y="label")


def test_text_ids_are_refused_with_advice(tmp_path):
    with pytest.raises(InvalidDataError, match="leave text ids out"):
        sf.ingest(TABLE, tmp_path / "a", ids="label", columns=["a"])


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128])
@pytest.mark.parametrize("lazy", [False, True])
def test_whole_numbers_that_arrow_has_not_are_named(tmp_path, kind, lazy):
    frame = pl.DataFrame({"a": [0.5, 2.0], "b": pl.Series([1, 2], dtype=kind)})
    source = frame.lazy() if lazy else frame
    with pytest.raises(InvalidDataError, match=r"Column 'b' has type U?Int128.*Cast it to Int64"):
        sf.ingest(source, tmp_path / "a")
    assert sf.ingest(source, tmp_path / "a", columns=["a"]).X.compute().tolist() == [[0.5], [2.0]]


def test_partitions_without_rows(tmp_path):
    frame = pd.DataFrame({"a": range(8), "c": pd.Categorical(list("xyzxyzxy"))})
    parts = dd.from_pandas(frame, npartitions=4)
    store = sf.ingest(parts[parts.a.isin([2, 7])], tmp_path / "a", y="c")
    assert (store.X.compute().ravel().tolist(), store.y.compute().tolist()) == ([2, 7], ["z", "y"])
    with pytest.raises(InvalidDataError, match="0 rows"):
        sf.ingest(parts[parts.a > 10], tmp_path / "b", y="c")
    with pytest.raises(InvalidDataError, match=r"'a' holds 9007199254740993 in row 3.*float64"):
        sf.ingest(parts.assign(a=parts.a + (parts.a == 3) * (2**53 - 2), b=0.5)[["a", "b"]], tmp_path / "c")


def test_objects_that_may_be_numbers_are_told_how(tmp_path):
    with pytest.raises(InvalidDataError, match=r"'a' has type object.*astype\(float\).*categorical="):
        sf.ingest(pd.DataFrame({"a": pd.Series([1, 2.5], dtype=object)}), tmp_path / "a")


@pytest.mark.parametrize("n_columns", [1, 15, 16, 129, 300])
@pytest.mark.parametrize("n_rows", [1, 2_048, 2_049, 5_000])
def test_columns_become_rows(tmp_path, n_columns, n_rows):
    values = np.arange(n_rows * n_columns, dtype="f4").reshape(n_rows, n_columns)
    table = pa.table({f"c{i:03}": values[:, i] for i in range(n_columns)})
    np.testing.assert_array_equal(sf.ingest(table, tmp_path / "a").X.compute(), values)


def test_columns_between_encoded_ones_become_rows(tmp_path):
    values = np.arange(3_000 * 40, dtype="f4").reshape(3_000, 40)
    table = pa.table({f"c{i:02}": values[:, i] for i in range(40)} | {"c05": ["u", "v", "w"] * 1_000})
    X = sf.ingest(table, tmp_path / "a", categorical="onehot").X.compute()
    np.testing.assert_array_equal(np.delete(X, [5, 6, 7], axis=1), np.delete(values, 5, axis=1))
    np.testing.assert_array_equal(X[:, 5:8], np.tile(np.eye(3), (1_000, 1)))


def test_what_is_no_text_is_named(tmp_path):
    source = pd.DataFrame({"a": pd.Series(["x", "\ud800"], dtype=object)})
    with pytest.raises(InvalidDataError, match=r"'a' holds '\\ud800', which is no Unicode text"):
        sf.ingest(source, tmp_path / "a", categorical="codes")
