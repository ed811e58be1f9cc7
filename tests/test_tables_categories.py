"""Columns of categories, against scikit-learn's encoders in memory."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, StoreExistsError
from streamfit.sources import categories, table_rows

N_ROWS = 300
rng = np.random.default_rng(11)
COLORS = ["red", "green", "größe, in m", "a\nb"]


def frame():
    table = pd.DataFrame(
        {
            "x": rng.normal(size=N_ROWS).astype("f4"),
            "color": np.array(COLORS[:-1])[rng.integers(0, 3, N_ROWS)],
            "size": rng.integers(-1, 3, N_ROWS).astype("i2") * 50,
            "flag": rng.random(N_ROWS) < 0.5,
            "z": rng.normal(size=N_ROWS).astype("f4"),
        }
    )
    table.loc[N_ROWS - 1, "color"] = COLORS[-1]  # first seen in the last row
    return table


TABLE = frame()
CODED = ["color", "size", "flag"]


def parquet(table, path):
    for number, start in enumerate(range(0, N_ROWS, 120)):
        table[start : start + 120].to_parquet(path / f"part-{number}.parquet", row_group_size=50)
    return str(path / "part-*.parquet")


def csv(table, path, name="x.csv"):
    table.to_csv(path / name, index=False)
    return path / name


KINDS = {
    "pandas": lambda table, _: table,
    "pandas-category": lambda table, _: table.astype({"color": "category"}),
    "pandas-object": lambda table, _: table.astype({"color": object}),
    "pandas-arrow": lambda table, _: table.convert_dtypes(dtype_backend="pyarrow"),
    "pandas-nullable": lambda table, _: table.astype({"color": "string", "size": "Int16", "flag": "boolean"}),
    "dask": lambda table, _: dd.from_pandas(table, npartitions=3),
    "dask-category": lambda table, _: dd.from_pandas(table, npartitions=3).astype({"color": "category"}),
    "dask-known-category": lambda table, _: dd.from_pandas(table, npartitions=3).categorize(columns=["color"]),
    "polars": lambda table, _: pl.from_pandas(table),
    "polars-category": lambda table, _: pl.from_pandas(table).with_columns(pl.col("color").cast(pl.Categorical)),
    "polars-enum": lambda table, _: pl.from_pandas(table).with_columns(pl.col("color").cast(pl.Enum(COLORS[::-1]))),
    "polars-lazy": lambda table, _: pl.from_pandas(table).lazy(),
    "arrow": lambda table, _: pa.Table.from_pandas(table),
    "arrow-chunks": lambda table, _: pa.concat_tables(
        pa.Table.from_pandas(part.astype({"color": "category"})) for part in (table[:100], table[100:200], table[200:])
    ),
    "dataset": lambda table, path: ds.dataset(csv_free(table, path)),
    "parquet": parquet,
    "csv": csv,
    "csv-gz": lambda table, path: csv(table, path, "x.csv.gz"),
}


def csv_free(table, path):
    pq.write_table(pa.Table.from_pandas(table), path / "one.parquet", row_group_size=70)
    return path / "one.parquet"


def ordinal(table):
    values = OrdinalEncoder().fit_transform(table[CODED])
    return np.column_stack([table["x"], values, table["z"]])


def onehot(table):
    values = OneHotEncoder(sparse_output=False).fit_transform(table[CODED])
    return np.column_stack([table["x"], values, table["z"]])


@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_those_of_the_ordinal_encoder(tmp_path, kind):
    store = sf.ingest(
        KINDS[kind](TABLE, tmp_path), tmp_path / "a", categorical=dict.fromkeys(CODED, "codes"), chunk_rows=64
    )
    assert store.dtype == ("f8" if "csv" in kind else "f4")
    np.testing.assert_array_equal(store.X.compute().astype("f4"), ordinal(TABLE).astype("f4"))
    assert store.feature_names == tuple(TABLE.columns)
    assert [encoding.column for encoding in store.categories] == CODED
    assert store.categories[0].categories == tuple(sorted(COLORS))
    assert store.categories[1].categories == (-50, 0, 50, 100)
    assert store.categories[2].categories == (False, True)
    assert sf.open_store(tmp_path / "a").categories == store.categories
    assert store.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_those_of_the_one_hot_encoder(tmp_path, kind):
    store = sf.ingest(
        KINDS[kind](TABLE, tmp_path), tmp_path / "a", categorical=dict.fromkeys(CODED, "onehot"), chunk_rows=64
    )
    np.testing.assert_array_equal(store.X.compute().astype("f4"), onehot(TABLE).astype("f4"))
    encoder = OneHotEncoder().fit(TABLE[CODED])
    assert store.feature_names == ("x", *encoder.get_feature_names_out(CODED).tolist(), "z")


@pytest.mark.parametrize("kind", KINDS)
def test_one_word_encodes_each_column_that_is_no_number(tmp_path, kind):
    store = sf.ingest(KINDS[kind](TABLE, tmp_path), tmp_path / "a", categorical="codes")
    assert [encoding.column for encoding in store.categories] == ["color"]
    expected = TABLE.assign(color=ordinal(TABLE)[:, 1])
    np.testing.assert_array_equal(store.X.compute().astype("f4"), expected.to_numpy(dtype="f4"))


@settings(max_examples=40)
@given(
    values=st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=30).filter(
        lambda values: any(value is not None for value in values)
    ),
    encode=st.sampled_from(["codes", "onehot"]),
)
def test_any_texts(tmp_path_factory, values, encode):
    table = pa.table({"t": pa.array(values, pa.string())})
    how = sf.Categorical(encode, unknown="ignore")
    store = sf.ingest(table, tmp_path_factory.mktemp("t") / "a", categorical={"t": how}, chunk_rows=7)
    known = sorted({value for value in values if value is not None})
    codes = np.array([-1 if value is None else known.index(value) for value in values])
    expected = codes[:, None] if encode == "codes" else (codes[:, None] == np.arange(len(known))).astype(int)
    np.testing.assert_array_equal(store.X.compute(), expected)
    assert store.categories[0].categories == tuple(known)


@pytest.mark.parametrize(("n", "dtype"), [(2, "i1"), (128, "i1"), (129, "i2"), (40_000, "i4")])
def test_codes_have_the_smallest_type(tmp_path, n, dtype):
    store = sf.ingest(pd.DataFrame({"a": [f"{i:05}" for i in range(n)]}), tmp_path / "a", categorical="codes")
    assert store.dtype == dtype
    np.testing.assert_array_equal(store.X.compute().ravel(), np.arange(n))


# -- values that are none of the categories ----------------------------------------------------------------


@pytest.mark.parametrize("value", ["blue", None])
@pytest.mark.parametrize("encode", ["codes", "onehot"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "polars-enum"])
def test_unknown_values_follow_the_policy(tmp_path, kind, encode, value):
    table = TABLE[["x", "color"]].copy()
    table.loc[250, "color"] = value
    source = KINDS[kind](table.assign(size=np.int16(1), flag=True), tmp_path)
    options = {"columns": ["x", "color"], "chunk_rows": 64}
    how = {"encode": encode, "categories": COLORS}
    with pytest.raises(InvalidDataError, match=r"'color' .*row 250.*unknown=.ignore") as caught:
        sf.ingest(source, tmp_path / "a", categorical={"color": sf.Categorical(**how)}, **options)
    assert (caught.value.row, caught.value.column) == (250, "color")
    assert (value or "no value") in str(caught.value)
    ignoring = sf.Categorical(**how, unknown="ignore")
    store = sf.ingest(source, tmp_path / "b", categorical={"color": ignoring}, **options)
    row = store.take([250])[0, 1:]
    np.testing.assert_array_equal(row, [-1] if encode == "codes" else [0, 0, 0, 0])
    first = COLORS.index(table["color"][0])
    np.testing.assert_array_equal(store.take([0])[0, 1:], [first] if encode == "codes" else np.eye(4)[first])


def test_an_append_is_encoded_as_the_store_is(tmp_path):
    store = sf.ingest(TABLE, tmp_path / "a", categorical={"color": "onehot", "size": "codes"}, chunk_rows=64)
    more = TABLE[::-1].reset_index(drop=True)[["z", "flag", "size", "color", "x"]]
    longer = sf.append(csv(more, tmp_path), store, dtype="float32")
    both = longer.X.compute()
    np.testing.assert_array_equal(both[N_ROWS:], both[:N_ROWS][::-1])
    assert longer.categories == store.categories
    with pytest.raises(InvalidDataError, match=r"'color' holds 'blue' in row 3, which is none of its 4 categories"):
        sf.append(more.assign(color=["red", "red", "red", "blue"] * 75), store)
    with pytest.raises(InvalidDataError, match="not the column 'color'"):
        sf.append(more.drop(columns="color"), store)
    # Rows without names, and other stores, are taken as encoded: where they are.
    assert sf.append(both[:5], longer).n_rows == 2 * N_ROWS + 5
    other = sf.ingest(TABLE[:50], tmp_path / "b", categorical={"color": "onehot", "size": "codes"})
    with pytest.raises(InvalidDataError, match="encoded in another way"):
        sf.append(other, longer)


def test_what_was_encoded_otherwise_is_another_store(tmp_path):
    store = sf.ingest(TABLE, tmp_path / "a", categorical="codes")
    assert sf.ingest(TABLE, tmp_path / "a", categorical="codes").digest == store.digest
    with pytest.raises(StoreExistsError, match="categories"):
        sf.ingest(TABLE, tmp_path / "a", categorical=sf.Categorical("codes", unknown="ignore"))
    again = sf.ingest(store, tmp_path / "b", chunk_rows=32)
    assert again.categories == store.categories
    assert store.shuffle(tmp_path / "c", seed=0).categories == store.categories
    assert store[10:20].categories == store.categories


def test_an_encoded_store_is_repaired_from_its_table(tmp_path):
    store = sf.ingest(csv(TABLE, tmp_path), tmp_path / "a", categorical="codes", dtype="float32", chunk_rows=64)
    (tmp_path / "a/X/c/2/0").unlink()
    assert sf.repair(tmp_path / "x.csv", store).ok


# -- what cannot be encoded --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "message"),
    [
        pytest.param([1.5, 2.0], r"'a' holds 1\.5, and categories are", id="fractions"),
        pytest.param(["a", 1], "types int, str", id="mixed"),
        pytest.param([None, None], "no values from which", id="empty"),
        pytest.param(pd.to_datetime(["2024-01-01", "2024-01-02"]), "Cast it to text", id="dates"),
        pytest.param([[1], [2]], "Cast it to text", id="lists"),
    ],
)
def test_what_has_no_categories_is_named(tmp_path, column, message):
    with pytest.raises(InvalidDataError, match=message) as caught:
        sf.ingest(pd.DataFrame({"a": column}), tmp_path / "a", categorical={"a": "codes"})
    assert caught.value.column == "a"


def test_whole_numbers_with_gaps_are_categories(tmp_path):
    how = sf.Categorical("codes", unknown="ignore")
    store = sf.ingest(pd.DataFrame({"a": [3.0, None, 1.0]}), tmp_path / "a", categorical={"a": how})
    assert store.X.compute().ravel().tolist() == [1, -1, 0]
    assert store.categories[0].categories == (1, 3)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(["2", "10"], (2, 10), id="numbers"),
        pytest.param(["2.0", "10"], (2, 10), id="numbers-with-gaps"),
        pytest.param(["02", "2"], ("02", "2"), id="leading-zero"),
        pytest.param(["1.5", "2"], ("1.5", "2"), id="fractions"),
        pytest.param(["true", "FALSE"], (False, True), id="booleans"),
        pytest.param(["true", "x"], ("true", "x"), id="texts"),
    ],
)
def test_categories_of_text_tables(tmp_path, texts, expected):
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{text},0\n" for text in texts))
    store = sf.ingest(tmp_path / "x.csv", tmp_path / "a", categorical={"a": "codes"})
    assert store.categories[0].categories == expected
    assert sorted(store.X.compute()[:, 0].tolist()) == [0, 1]


def test_too_many_are_refused(tmp_path, monkeypatch):
    table = pd.DataFrame({"a": [str(i) for i in range(50)], "b": 1.0})
    monkeypatch.setattr(table_rows, "MAX_ONEHOT", 49)
    with pytest.raises(InvalidDataError, match=r"makes 50 columns.*'a'.*codes"):
        sf.ingest(table, tmp_path / "a", categorical="onehot")
    monkeypatch.setattr(categories, "MAX_CATEGORIES", 49)
    with pytest.raises(InvalidDataError, match="more than 49 different values"):
        sf.ingest(table, tmp_path / "a", categorical="codes")


def test_rows_that_come_once_need_declared_categories(tmp_path):
    reader = pa.table({"a": ["x", "y"]}).to_reader
    with pytest.raises(InvalidDataError, match="can be read only once"):
        sf.ingest(reader(), tmp_path / "a", categorical="codes")
    how = {"a": sf.Categorical(categories=["y", "x"])}
    assert sf.ingest(reader(), tmp_path / "a", categorical=how).X.compute().tolist() == [[1], [0]]


def test_names_that_meet_are_refused(tmp_path):
    table = pd.DataFrame({"a": ["b", "c"], "a_b": [0, 1]})
    with pytest.raises(InvalidDataError, match="Two columns would be named 'a_b'"):
        sf.ingest(table, tmp_path / "a", categorical="onehot")


@pytest.mark.parametrize(
    ("categorical", "message"),
    [
        pytest.param("hash", "categorical must be 'codes'", id="word"),
        pytest.param({"color": 3}, "categorical must be", id="value"),
        pytest.param({"colour": "codes"}, "no column 'colour' for categorical", id="name"),
    ],
)
def test_wrong_requests(tmp_path, categorical, message):
    with pytest.raises(InvalidParameterError, match=message):
        sf.ingest(TABLE, tmp_path / "a", categorical=categorical)


def test_arrays_have_no_columns_to_encode(tmp_path):
    with pytest.raises(InvalidParameterError, match="categorical is given, and an array has no named columns"):
        sf.ingest(np.zeros((3, 2)), tmp_path / "a", categorical="codes")


def test_columns_without_texts_as_names_are_encoded_too(tmp_path):
    store = sf.ingest(pd.DataFrame({0: ["u", "v"], 1: [0.5, 1.5]}), tmp_path / "a", categorical={"0": "onehot"})
    assert store.feature_names is None
    assert store.X.compute().tolist() == [[1, 0, 0.5], [0, 1, 1.5]]
