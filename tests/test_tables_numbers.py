"""Numbers in the type of the store: with the same value, or refused by row and column; for every kind of source."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, StoreExistsError
from streamfit.sources.exact import converted

INTS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
EDGES = [
    sign * 2**power + step
    for power in (7, 8, 15, 24, 31, 32, 53, 54, 63, 64)
    for step in (-1, 0, 1)
    for sign in (1, -1)
]


# -- one array -------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(data=st.data(), given_type=st.sampled_from([*INTS, "f4", "f8"]), wanted=st.sampled_from([*INTS, "f4", "f8"]))
def test_a_value_is_kept_or_refused(data, given_type, wanted):
    given_type, wanted = np.dtype(given_type), np.dtype(wanted)
    if given_type.kind == "f":
        numbers = st.one_of(st.floats(width=given_type.itemsize * 8), st.sampled_from(EDGES).map(float))
    else:
        bounds = np.iinfo(given_type)
        fitting = [edge for edge in EDGES if bounds.min <= edge <= bounds.max]
        numbers = st.one_of(st.integers(bounds.min, bounds.max), st.sampled_from([*fitting, bounds.min, bounds.max]))
    values = np.array(data.draw(st.lists(numbers, min_size=1, max_size=5)), dtype=given_type)
    held = [is_held(value, wanted) for value in values.tolist()]
    if all(held):
        result = converted(values, wanted, start=3, name="c")
        assert result.dtype == wanted
        if wanted.kind == "f" and given_type.kind == "f":
            np.testing.assert_array_equal(result, values.astype(wanted))
        else:
            assert result.tolist() == values.tolist()
    else:
        with pytest.raises(InvalidDataError, match=f"'c' .*{wanted}") as caught:
            converted(values, wanted, start=3, name="c")
        assert (caught.value.row, caught.value.column) == (3 + held.index(False), "c")


def is_held(value, dtype):
    """By Python's numbers, which have no limit."""
    if isinstance(value, float):
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return not np.isfinite(value) or bool(np.isfinite(np.dtype(dtype).type(value)))
        if not np.isfinite(value) or value != int(value):
            return False
    if dtype.kind == "f":
        return int(dtype.type(value)) == value
    return np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max


# -- tables ----------------------------------------------------------------------------------------------


def parquet(table, path):
    pq.write_table(pa.Table.from_pandas(table), path / "x.parquet", row_group_size=2)
    return path / "x.parquet"


def csv(table, path):
    table.to_csv(path / "x.csv", index=False)
    return path / "x.csv"


KINDS = {
    "pandas": lambda table, _: table,
    "pandas-arrow": lambda table, _: table.astype(
        {name: pd.ArrowDtype(pa.from_numpy_dtype(kind)) for name, kind in table.dtypes.items()}
    ),
    "dask": lambda table, _: dd.from_pandas(table, npartitions=2),
    "polars": lambda table, _: pl.from_pandas(table),
    "polars-lazy": lambda table, _: pl.from_pandas(table).lazy(),
    "arrow": lambda table, _: pa.Table.from_pandas(table),
    "dataset": lambda table, path: ds.dataset(parquet(table, path)),
    "parquet": parquet,
    "csv": csv,
}


def big(value, dtype):
    """Put a large whole number in row 3, beside a column of fractions."""
    return pd.DataFrame({"a": np.array([1, 2, 3, value, 5], dtype=dtype), "b": [0.5, 1.5, 2.5, 3.5, 4.5]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("value", "dtype"), [(2**53 + 1, "i8"), (-(2**53) - 1, "i8"), (2**63 + 1, "u8")])
def test_a_whole_number_is_never_rounded(tmp_path, kind, value, dtype):
    source = KINDS[kind](big(value, dtype), tmp_path)
    with pytest.raises(InvalidDataError, match=f"'a'.* holds '?{value}'? in row 3.* float64") as caught:
        sf.ingest(source, tmp_path / "a")
    assert (caught.value.row, caught.value.column) == (3, "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("value", "dtype"), [(2**53, "i8"), (2**60 + 2**10, "i8"), (2**64 - 2**11, "u8")])
def test_one_that_a_float_holds_is_kept(tmp_path, kind, value, dtype):
    store = sf.ingest(KINDS[kind](big(value, dtype), tmp_path), tmp_path / "a")
    assert store.dtype == "f8"
    assert int(store.take([3])[0, 0]) == value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_whole_numbers_alone_stay_exact(tmp_path, kind, dtype):
    table = pd.DataFrame({"a": np.array([1, np.iinfo(dtype).max], dtype), "b": np.array([2, 2**53 + 1], dtype)})
    store = sf.ingest(KINDS[kind](table, tmp_path), tmp_path / "a", dtype=dtype)
    np.testing.assert_array_equal(store.X.compute(), table)
    if kind not in {"csv", "dask", "pandas-arrow"}:
        assert sf.ingest(KINDS[kind](table, tmp_path), tmp_path / "b").dtype == dtype


@pytest.mark.parametrize("kind", ["pandas", "arrow", "parquet", "polars"])
def test_int64_beside_uint64(tmp_path, kind):
    table = pd.DataFrame({"a": np.array([-1, 5], "i8"), "b": np.array([1, 2**63 + 1], "u8")})
    with pytest.raises(InvalidDataError, match=r"'b' holds 9223372036854775809 in row 1, which float64"):
        sf.ingest(KINDS[kind](table, tmp_path), tmp_path / "a")


GAPS = {"a": pd.array([1, None, 2**53 + 1], "Int64")}


@pytest.mark.parametrize("kind", ["pandas", "dask", "polars", "arrow", "parquet"])
def test_gaps_make_no_float_of_a_large_whole_number(tmp_path, kind):
    source = KINDS[kind](pd.DataFrame(GAPS), tmp_path)
    with pytest.raises(InvalidDataError, match=r"'a' holds 9007199254740993 in row 2"):
        sf.ingest(source, tmp_path / "a", nonfinite="keep", dtype="float64")


def test_later_batches_of_whole_numbers_are_not_rounded(tmp_path):
    batches = [np.array([[0.5]]), np.array([[2**53 + 1]])]
    with pytest.raises(InvalidDataError, match="'0' holds 9007199254740993 in row 1"):
        sf.ingest(batches, tmp_path / "a")
    store = sf.ingest(np.array([[0.5]]), tmp_path / "b")
    with pytest.raises(InvalidDataError, match="'0' holds 9007199254740993 in row 1"):
        sf.append(np.array([[1], [2**53 + 1]]), store)


# -- the type that was asked for -------------------------------------------------------------------------

X = np.random.default_rng(2).integers(-100, 100, (90, 3)).astype("f8")
NAMES = list("abc")


def npy(path, matrix):
    np.save(path / "x.npy", matrix)
    return path / "x.npy"


SOURCES = {
    **{kind: lambda path, make=make: make(pd.DataFrame(X, columns=NAMES), path) for kind, make in KINDS.items()},
    "array": lambda _: X,
    "fortran": lambda _: np.asfortranarray(X),
    "npy": lambda path: npy(path, X),
    "dask-array": lambda _: da.from_array(X, chunks=(40, 3)),
    "batches": lambda _: [X[:50], X[50:]],
    "sparse": lambda _: sp.csr_array(X),
    "store": lambda path: sf.ingest(X, path / "store"),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
def test_every_source_gives_the_type(tmp_path, kind, dtype):
    store = sf.ingest(SOURCES[kind](tmp_path), tmp_path / "a", dtype=dtype, chunk_rows=25)
    assert store.dtype == dtype
    rows = store.take(np.arange(90))
    np.testing.assert_array_equal(rows.toarray() if store.is_sparse else rows, X)
    assert store.verify().ok


@pytest.mark.parametrize("kind", SOURCES)
def test_what_the_type_does_not_hold_is_named(tmp_path, kind, monkeypatch):
    changed = X.copy()
    changed[71, 1] = 128
    monkeypatch.setitem(globals(), "X", changed)
    with pytest.raises(InvalidDataError, match=r"holds '?128(\.0)?'? in row 71.* int8") as caught:
        sf.ingest(SOURCES[kind](tmp_path), tmp_path / "a", dtype="int8", chunk_rows=25)
    assert caught.value.row == 71
    assert caught.value.column in {"b", "1"}


@pytest.mark.parametrize("kind", SOURCES)
def test_fractions_and_infinities_are_named(tmp_path, kind, monkeypatch):
    changed = X.copy()
    changed[3, 0], changed[80, 0] = 0.5, 1e300
    monkeypatch.setitem(globals(), "X", changed)
    with pytest.raises(InvalidDataError, match=r"holds '?0\.5'? in row 3"):
        sf.ingest(SOURCES[kind](tmp_path), tmp_path / "a", dtype="int64")
    with pytest.raises(InvalidDataError, match=r"holds 1e\+300 in row 80.* float32 .*infinity"):
        sf.ingest(SOURCES[kind](tmp_path), tmp_path / "b", dtype="float32")


def test_floats_are_rounded_as_numpy_rounds(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 3))
    for number, source in enumerate([values, pd.DataFrame(values, columns=NAMES), csv(pd.DataFrame(values), tmp_path)]):
        store = sf.ingest(source, tmp_path / f"{number}", dtype="float32")
        np.testing.assert_array_equal(store.X.compute(), values.astype("f4"))


def test_the_type_is_part_of_the_store(tmp_path):
    store = sf.ingest(X, tmp_path / "a", dtype="float32")
    assert sf.ingest(X, tmp_path / "a", dtype=np.float32).digest == store.digest
    with pytest.raises(StoreExistsError, match="dtype"):
        sf.ingest(X, tmp_path / "a")
    with pytest.raises(InvalidDataError, match='Say dtype="float32"'):
        sf.append(X + 1, store)
    assert sf.append(X + 1, store, dtype="float32").n_rows == 180


@pytest.mark.parametrize("dtype", ["float16", "complex", "bool", "text", 3, object])
def test_types_that_no_store_has(tmp_path, dtype):
    with pytest.raises(InvalidParameterError, match="dtype must be one of float32"):
        sf.ingest(X, tmp_path / "a", dtype=dtype)
