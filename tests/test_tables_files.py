"""Tables in files: Parquet, folders with keys, and text tables."""

from __future__ import annotations

import bz2
import datetime as dt
import decimal
import gzip
import io
import lzma

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import streamfit as sf
from streamfit.errors import InvalidDataError
from streamfit.sources import csv_file

rng = np.random.default_rng(17)


def write(path, *tables, **options):
    for number, table in enumerate(tables):
        pq.write_table(
            table if isinstance(table, pa.Table) else pa.table(table), path / f"part-{number}.parquet", **options
        )
    return str(path / "part-*.parquet")


def rows(source, tmp_path, **options):
    return sf.ingest(source, tmp_path / "store", **options).X.compute()


# -- Parquet: several files --------------------------------------------------------------------------------


def test_columns_go_by_name(tmp_path):
    source = write(tmp_path, {"a": [1.0], "b": [2.0]}, {"b": [4.0], "a": [3.0]})
    np.testing.assert_array_equal(rows(source, tmp_path), [[1, 2], [3, 4]])


def test_a_column_that_only_some_files_have_is_named(tmp_path):
    source = write(tmp_path, {"a": [1.0]}, {"a": [3.0], "z": [4.0]})
    with pytest.raises(InvalidDataError, match=r"part-1\.parquet has a column 'z', which part-0\.parquet has not"):
        sf.ingest(source, tmp_path / "a")
    np.testing.assert_array_equal(rows(source, tmp_path, columns=["a"]), [[1], [3]])
    with pytest.raises(InvalidDataError, match=r"part-0\.parquet has no column 'z', which part-1"):
        sf.ingest([tmp_path / "part-1.parquet", tmp_path / "part-0.parquet"], tmp_path / "a")


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        pytest.param(pa.array([1], pa.int8()), pa.array([0.5], pa.float32()), "f4", id="int8-float32"),
        pytest.param(pa.array([1]), pa.array([0.5], pa.float32()), "f8", id="int64-float32"),
        pytest.param(pa.array([True]), pa.array([7], pa.int16()), "i2", id="bool-int16"),
        pytest.param(pa.array([1], pa.int32()), pa.array([None], pa.int32()), "f8", id="gap-in-the-second"),
        pytest.param(pa.array([1], pa.int32()), pa.nulls(1), "f8", id="null-type"),
        pytest.param(pa.array([1.5], pa.float32()), pa.nulls(1), "f4", id="null-type-beside-float"),
        pytest.param(pa.array([1], pa.int32()), pa.array([], pa.string()), "i4", id="text-without-rows"),
        pytest.param(pa.nulls(0), pa.array([1], pa.int32()), "i4", id="null-type-without-rows"),
        pytest.param(pa.nulls(2), pa.nulls(1), "f4", id="all-null-type"),
    ],
)
def test_types_are_decided_over_all_files(tmp_path, first, second, dtype):
    source = write(tmp_path, {"a": first}, {"a": second})
    store = sf.ingest(source, tmp_path / "a", nonfinite="keep")
    assert store.dtype == dtype
    expected = [np.nan if value is None else value for value in [*first.to_pylist(), *second.to_pylist()]]
    np.testing.assert_array_equal(store.X.compute().ravel(), np.array(expected, dtype=float))


def test_text_in_one_file_and_numbers_in_another(tmp_path):
    source = write(tmp_path, {"a": [1]}, {"a": ["x"]})
    with pytest.raises(InvalidDataError, match=r"'a' has type int64 in part-0\.parquet and string in part-1\.parquet"):
        sf.ingest(source, tmp_path / "a")


def test_files_and_row_groups_without_rows(tmp_path):
    schema = pa.schema({"a": pa.float64()})
    empty = schema.empty_table()
    with pq.ParquetWriter(tmp_path / "part-1.parquet", schema) as writer:
        for table in (empty, pa.table({"a": [1.0, 2.0]}), empty):
            writer.write_table(table)
    with pq.ParquetWriter(tmp_path / "part-0.parquet", schema):
        pass
    pq.write_table(empty, tmp_path / "part-2.parquet")
    np.testing.assert_array_equal(rows(str(tmp_path / "part-*.parquet"), tmp_path), [[1], [2]])
    with pytest.raises(InvalidDataError, match="0 rows and 1 columns"):
        sf.ingest([tmp_path / "part-0.parquet", tmp_path / "part-2.parquet"], tmp_path / "b")


@pytest.mark.parametrize("n_features", [1, 7, 300])
def test_many_rows_and_columns(tmp_path, n_features):
    values = rng.normal(size=(50_000 // n_features, n_features)).astype("f4")
    table = pa.table({f"c{i}": values[:, i] for i in range(n_features)})
    source = write(tmp_path, table[: len(values) // 3], table[len(values) // 3 :], row_group_size=1_000)
    store = sf.ingest(source, tmp_path / "a", chunk_rows=997)
    np.testing.assert_array_equal(store.X.compute(), values)
    assert sf.ingest(source, tmp_path / "a", chunk_rows=997).digest == store.digest


# -- Parquet: types ----------------------------------------------------------------------------------------

NOW = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        pytest.param(pa.array([NOW]), r"timestamp\[us.*seconds since.*weekday.*columns=", id="timestamp"),
        pytest.param(pa.array([NOW.date()]), "date32.*seconds since", id="date"),
        pytest.param(pa.array([NOW.time()]), "time64.*seconds since", id="time"),
        pytest.param(pa.array([dt.timedelta(1)]), "duration.*seconds since", id="duration"),
        pytest.param(pa.array([[1.0]]), "list.*column of each part", id="list"),
        pytest.param(pa.array([{"x": 1}]), "struct.*column of each part", id="struct"),
        pytest.param(pa.array([decimal.Decimal("1.5")], pa.decimal128(30, 4)), "decimal.*float64", id="decimal"),
        pytest.param(pa.array([b"x"]), "binary.*Cast it", id="binary"),
        pytest.param(pa.array(["x"], pa.large_string()), "large_string.*categorical=", id="text"),
        pytest.param(pa.array(["x"]).dictionary_encode(), "dictionary.*categorical=", id="dictionary"),
    ],
)
def test_columns_that_are_no_numbers(tmp_path, column, advice):
    source = write(tmp_path, {"a": [1.0], "b": column})
    with pytest.raises(InvalidDataError, match=f"Column 'b' has type {advice}") as caught:
        sf.ingest(source, tmp_path / "a")
    assert caught.value.column == "b"


def test_decimals_that_float64_gives_back(tmp_path):
    texts = ["0.1", "-12345678.9012345", "99999999.0000001"]
    prices = pa.array([decimal.Decimal(text) for text in texts], pa.decimal128(15, 7))
    whole = pa.array([decimal.Decimal(10**17 + 1), decimal.Decimal(3), decimal.Decimal(-7)], pa.decimal128(18, 0))
    assert rows(write(tmp_path, {"a": prices}), tmp_path).ravel().tolist() == [float(text) for text in texts]
    store = sf.ingest(pa.table({"a": whole}), tmp_path / "b")
    assert (store.dtype, store.X.compute().ravel().tolist()) == ("i8", [10**17 + 1, 3, -7])


def test_labels_of_any_arrow_type(tmp_path):
    labels = ["u", "v", "u"]
    for number, column in enumerate(
        [pa.array(labels).dictionary_encode(), pa.array(labels, pa.large_string()), pa.array(labels, pa.string_view())]
    ):
        table = pa.table({"a": [1.0, 2.0, 3.0], "y": column})
        assert sf.ingest(table, tmp_path / f"{number}", y="y").y.compute().tolist() == labels
        beside = sf.ingest(np.zeros((3, 1)), tmp_path / f"b{number}", y=column)
        assert beside.y.compute().tolist() == labels


def test_a_row_of_several_files_is_named_in_its_file(tmp_path):
    source = write(tmp_path, {"a": [1.0, 2.0]}, {"a": pa.array([], pa.float64())}, {"a": [3.0, np.nan]})
    with pytest.raises(InvalidDataError, match=r"NaN in row 3.*It is row 1 of part-2\.parquet") as caught:
        sf.ingest(source, tmp_path / "a")
    assert (caught.value.row, caught.value.column) == (3, "a")


# -- folders with keys -------------------------------------------------------------------------------------


def hive(path, **columns):
    n = 60
    table = pa.table({"a": np.arange(n) / 2, **{name: rng.choice(values, n) for name, values in columns.items()}})
    keys = pa.schema([(name, table.schema.field(name).type) for name in columns])
    ds.write_dataset(table, path, partitioning=ds.partitioning(keys, flavor="hive"), format="parquet")
    (path / "_temporary").mkdir()
    (path / "_temporary/x.parquet").write_text("not done")
    return ds.dataset(path, partitioning="hive").to_table().to_pandas()


def by_a(matrix):
    return matrix[np.argsort(matrix[:, 0])]


def test_number_keys_are_features_by_the_rules_of_pyarrow(tmp_path):
    expected = hive(tmp_path / "h", year=[2023, 2024], month=[2, 11]).to_numpy(dtype=float)
    store = sf.ingest(tmp_path / "h", tmp_path / "a")
    assert store.feature_names == ("a", "year", "month")
    np.testing.assert_array_equal(by_a(store.X.compute()), by_a(expected))
    matched = sf.ingest(str(tmp_path / "h/year=*/month=*/*.parquet"), tmp_path / "b")
    np.testing.assert_array_equal(matched.X.compute(), store.X.compute())
    listed = sf.ingest(sorted((tmp_path / "h").rglob("part*.parquet")), tmp_path / "c")
    np.testing.assert_array_equal(listed.X.compute(), store.X.compute())
    # What is above the folder that is named says nothing.
    assert sf.ingest(tmp_path / "h/year=2023", tmp_path / "d").feature_names == ("a", "month")
    assert sf.ingest(tmp_path / "h", tmp_path / "e", y="year", columns=["a"]).classes.tolist() == [2023, 2024]


def test_text_keys_are_categories(tmp_path):
    expected = hive(tmp_path / "h", place=["é/x y", "b=c"])
    with pytest.raises(InvalidDataError, match=r"Column 'place' .*categorical="):
        sf.ingest(tmp_path / "h", tmp_path / "a")
    store = sf.ingest(tmp_path / "h", tmp_path / "a", categorical="onehot")
    assert store.feature_names == ("a", "place_b=c", "place_é/x y")
    onehot = np.column_stack([expected["a"], expected["place"] == "b=c", expected["place"] == "é/x y"]).astype(float)
    np.testing.assert_array_equal(by_a(store.X.compute()), by_a(onehot))


def test_the_same_file_under_another_key_has_other_rows(tmp_path):
    for year in (2023, 2024):
        folder = tmp_path / f"h{year}/year={year}"
        folder.mkdir(parents=True)
        write(folder, {"a": [1.0]})
    store = sf.ingest(tmp_path / "h2023", tmp_path / "a")
    longer = sf.append(tmp_path / "h2024", store)
    np.testing.assert_array_equal(longer.X.compute(), [[1, 2023], [1, 2024]])


def test_missing_and_doubled_keys(tmp_path):
    for name in ("year=2023", "year=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "h" / name).mkdir(parents=True)
        write(tmp_path / "h" / name, {"a": [1.0]})
    store = sf.ingest(tmp_path / "h", tmp_path / "a", nonfinite="keep")
    np.testing.assert_array_equal(store.X.compute(), [[1, 2023], [1, np.nan]])
    write(tmp_path / "h", {"a": [1.0]})
    with pytest.raises(InvalidDataError, match="have no key 'year'"):
        sf.ingest(tmp_path / "h", tmp_path / "b")
    (tmp_path / "g/a=3").mkdir(parents=True)
    write(tmp_path / "g/a=3", {"a": [1.0]})
    with pytest.raises(InvalidDataError, match="a column 'a', and its folders have a key of that name"):
        sf.ingest(tmp_path / "g", tmp_path / "b")


# -- text tables -------------------------------------------------------------------------------------------


def text(path, content, name="x.csv"):
    (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path / name


PACKERS = {
    "csv": lambda content: content,
    "csv.gz": gzip.compress,
    "csv.bz2": bz2.compress,
    "csv.xz": lzma.compress,
    "csv.zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text(tmp_path, suffix):
    table = pd.DataFrame(rng.normal(size=(500, 3)), columns=list("abc"))
    source = text(tmp_path, PACKERS[suffix](table.to_csv(index=False).encode()), f"x.{suffix}")
    np.testing.assert_array_equal(rows(source, tmp_path), table.to_numpy())


def test_quotes_separators_and_newlines_in_fields(tmp_path):
    content = '\ufeffa,"b,\nc",label\r\n1,"2","x, ""y""\nz"\r\n\r\n3, 4 ,plain\r\n'
    store = sf.ingest(text(tmp_path, content), tmp_path / "a", y="label")
    assert store.feature_names == ("a", "b,\nc")
    np.testing.assert_array_equal(store.X.compute(), [[1, 2], [3, 4]])
    assert store.y.compute().tolist() == ['x, "y"\nz', "plain"]


def test_quoted_newlines_at_the_edges_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "_BLOCK_NBYTES", 200)
    labels = [f"{'line, ' * (i % 9)}\n{i}" for i in range(300)]
    table = pd.DataFrame({"a": np.arange(300) / 4, "label": labels})
    source = text(tmp_path, table.to_csv(index=False))
    store = sf.ingest(source, tmp_path / "a", y="label", chunk_rows=64)
    np.testing.assert_array_equal(store.X.compute()[:, 0], table["a"])
    assert store.y.compute().tolist() == labels
    text(tmp_path, source.read_text() + ('1,"' + "x" * 900 + '"\n') * 3, "long.csv")
    with pytest.raises(InvalidDataError, match=r"long\.csv has a row of more than 256 bytes"):
        sf.ingest(tmp_path / "long.csv", tmp_path / "b", y="label")


@settings(max_examples=40)
@given(
    values=st.lists(
        st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
        min_size=1,
        max_size=20,
    )
)
def test_numbers_are_read_as_python_reads_them(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("csv")
    source = text(folder, "a\n" + "".join(f"{value!r}\n" for value in values))
    np.testing.assert_array_equal(rows(source, folder).ravel(), [float(value) for value in values])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param("\n\n", "it is empty", id="blank"),
        pytest.param("a,b\n", "0 rows and 2 columns", id="header-only"),
        pytest.param("a,b", "0 rows and 2 columns", id="header-without-newline"),
        pytest.param("a,b\n1,2\n3\n", r"record 3 .* has 1 fields, and there are 2 columns: '3'", id="short-line"),
        pytest.param('a,b\n"1\n",2\n3,4,5\n', "record 3 .* has 3 fields", id="long-line-after-newlines"),
        pytest.param("a,b\n1,2,\n3,4,5\n", "record 3 .* has 3 fields", id="value-behind-the-last-separator"),
        pytest.param("a,a\n1,2\n", "more than one column 'a'", id="doubled-name"),
        pytest.param(b"a,\xe9\n1,2\n", "utf-8", id="latin-1"),
    ],
)
def test_text_that_is_no_table(tmp_path, content, message):
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(text(tmp_path, content), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_bad_number_is_named_by_file_and_rows(tmp_path):
    text(tmp_path, "a,b\n" + "1,2\n" * 50, "0.csv")
    text(tmp_path, "b,a\n" + "1,2\n" * 10 + "1,o'clock\n" + "1,2\n", "1.csv")
    with pytest.raises(
        InvalidDataError, match=r"'a' of 1\.csv holds \"o'clock\" in row 60.*It is row 10 of 1\.csv"
    ) as caught:
        sf.ingest(tmp_path / "*.csv", tmp_path / "a")
    assert (caught.value.row, caught.value.column) == (60, "a")
    text(tmp_path, "a,b\n1,2\n", "0.csv")
    text(tmp_path, "a\n1\n", "1.csv")
    with pytest.raises(InvalidDataError, match=r"1\.csv has no column 'b', which 0\.csv has"):
        sf.ingest(tmp_path / "*.csv", tmp_path / "a")


def test_text_is_read_on_where_a_value_is_not_as_guessed(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "_BLOCK_NBYTES", 64)
    lines = [f"{i},{i % 2 == 0},{i},x{i}\n" for i in range(100)]
    lines[70] = f"{2**60},TRUE,70,x70\n"
    source = text(tmp_path, "a,flag,label,t\n" + "".join(lines))
    store = sf.ingest(
        source, tmp_path / "a", y="label", categorical={"t": sf.Categorical(unknown="ignore", categories=["x3"])}
    )
    expected = np.array([[i, i % 2 == 0, -1] for i in range(100)], dtype=float)
    expected[70, 0], expected[3, 2] = 2.0**60, 0
    np.testing.assert_array_equal(store.X.compute(), expected)
    assert store.y.dtype == "i8"
    np.testing.assert_array_equal(store.y.compute(), np.arange(100))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "float32"])
def test_typed_text(tmp_path, dtype):
    source = text(tmp_path, "a,b\n1,7.0\n2,1e2\n")
    store = sf.ingest(source, tmp_path / "a", dtype=dtype)
    assert store.dtype == dtype
    np.testing.assert_array_equal(store.X.compute(), [[1, 7], [2, 100]])


def test_large_whole_numbers_of_text(tmp_path):
    source = text(tmp_path, f"a,b\n1,0.5\n{2**63 - 1},0\n")
    with pytest.raises(InvalidDataError, match="'9223372036854775807' in row 1, which float64"):
        sf.ingest(source, tmp_path / "a")
    assert sf.ingest(source, tmp_path / "b", columns=["a"], dtype="int64").X.compute().ravel().tolist() == [
        1,
        2**63 - 1,
    ]
    assert sf.ingest(source, tmp_path / "c", columns=["b"], ids="a").ids.compute().tolist() == [1, 2**63 - 1]


def test_columns_without_a_name_and_missing_values(tmp_path):
    table = pd.DataFrame({"a": [1.5, None], "b": [None, None]})
    buffer = io.StringIO()
    table.to_csv(buffer, na_rep="NA")
    store = sf.ingest(text(tmp_path, buffer.getvalue()), tmp_path / "a", nonfinite="keep")
    assert store.feature_names == ("Unnamed: 0", "a", "b")
    np.testing.assert_array_equal(store.X.compute(), [[0, 1.5, np.nan], [1, np.nan, np.nan]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("a;b\n1;2\n", "';' between its fields, not ','", id="semicolons"),
        pytest.param("a\tb\n1\t2\n", r"'\\t' between its fields", id="tabs"),
        pytest.param("t,b\n2024-01-01 10:00:00,2\n", r"'t' has type timestamp\[s\].*seconds since", id="timestamps"),
        pytest.param("t,b\n2024-01-01,2\n", r"'t' has type date32.*seconds since", id="dates"),
        pytest.param("7,7.5,7\n1,2,3\n", "more than one column '7'.*line of names before it", id="no-names"),
        pytest.param('a,b\n"1,000",2\n', r"'a' of x\.csv holds '1,000' in row 0", id="thousands"),
        pytest.param("a,b\n0x10,2\n", r"'a' of x\.csv holds '0x10' in row 0", id="hexadecimal"),
    ],
)
def test_text_tables_of_other_habits(tmp_path, content, message):
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(text(tmp_path, content), tmp_path / "a")


def test_dates_are_categories_where_that_is_said(tmp_path):
    source = text(tmp_path, "t,b\n2024-01-02,2\n2024-01-01,3\n")
    store = sf.ingest(source, tmp_path / "a", categorical={"t": "codes"})
    np.testing.assert_array_equal(store.X.compute(), [[1, 2], [0, 3]])
    with pytest.raises(InvalidDataError, match="'t' has type date32"):
        sf.ingest(source, tmp_path / "b", categorical="codes")


def test_a_first_line_of_numbers_is_warned_of(tmp_path):
    with pytest.warns(sf.errors.NumbersAsNamesWarning, match=r"first line of x\.csv holds numbers \(1\.5, 2\.5"):
        store = sf.ingest(text(tmp_path, "1.5,2.5\n3,4\n"), tmp_path / "a")
    assert store.feature_names == ("1.5", "2.5")
    # Names that count the columns are what pandas writes where there are none.
    assert sf.ingest(text(tmp_path, "0,1\n3,4\n"), tmp_path / "b").n_rows == 1


@pytest.mark.parametrize("kind", ["files", "table", "dataset", "dask"])
def test_the_index_of_a_table_is_no_feature_unless_it_is_named(tmp_path, kind):
    frame = pd.DataFrame({"a": np.arange(6) / 2, "b": 1.0})
    odd = frame.iloc[[0, 3, 4]]  # its index is written as a column, that of the whole table is not
    if kind == "dask":  # its own writer calls pandas in a way that warns
        table = pa.Table.from_pandas(frame.rename_axis("__null_dask_index__"), preserve_index=True)
        source, expected, name = write(tmp_path, table), frame, "__null_dask_index__"
    else:
        source, expected, name = write(tmp_path, pa.Table.from_pandas(odd)), odd, "__index_level_0__"
    if kind in {"table", "dataset"}:
        table = pa.Table.from_pandas(odd)
        source = table if kind == "table" else ds.dataset(tmp_path / "part-0.parquet")
    store = sf.ingest(source, tmp_path / "a")
    assert store.feature_names == ("a", "b")
    np.testing.assert_array_equal(store.X.compute(), expected)
    named = sf.ingest(source, tmp_path / "b", ids=name, columns=["b", name])
    assert named.feature_names == ("b", name)
    np.testing.assert_array_equal(named.ids.compute(), expected.index)


def test_an_index_that_only_some_files_have(tmp_path):
    frame = pd.DataFrame({"a": np.arange(6) / 2})
    odd = frame.iloc[[0, 3, 4]]
    source = write(tmp_path, pa.Table.from_pandas(frame), pa.Table.from_pandas(odd))
    np.testing.assert_array_equal(rows(source, tmp_path), pd.concat([frame, odd]))
    turned = [tmp_path / "part-1.parquet", tmp_path / "part-0.parquet"]
    np.testing.assert_array_equal(sf.ingest(turned, tmp_path / "b").X.compute(), pd.concat([odd, frame]))
    with pytest.raises(InvalidDataError, match=r"part-0\.parquet has no column '__index_level_0__'"):
        sf.ingest(turned, tmp_path / "c", ids="__index_level_0__")
