from __future__ import annotations

import gzip

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import streamfit as sf
from streamfit.errors import (
    BudgetError,
    InvalidDataError,
    InvalidParameterError,
    SourceNotFoundError,
    StoreExistsError,
    StoreIncompleteError,
    StoreNotFoundError,
)
from streamfit.sources import fingerprint

N_ROWS = 237
rng = np.random.default_rng(5)
X = rng.normal(size=(N_ROWS, 5)).astype("f4")
y = np.array(["ham", "spam"])[rng.integers(0, 2, N_ROWS)]
w = rng.random(N_ROWS)
NAMES = ("a", "b", "c", "d", "e")


def frame():
    return pd.DataFrame(X, columns=list(NAMES)).assign(label=y, weight=w, number=np.arange(N_ROWS))


ROLES = {"y": "label", "sample_weight": "weight", "ids": "number"}
SIDES = {"y": y, "sample_weight": w, "ids": np.arange(N_ROWS)}


# -- every kind of source gives the same rows ----------------------------------------------------------


def npz(path, matrix, save=np.savez):
    save(path / "x.npz", X=matrix, label=y, weight=w, number=np.arange(N_ROWS))
    return path / "x.npz"


def npy(path, matrix):
    np.save(path / "x.npy", matrix)
    return path / "x.npy"


def parquet(path, **options):
    pq.write_table(pa.Table.from_pandas(frame()), path / "x.parquet", **options)
    return path / "x.parquet"


def parquet_folder(path):
    folder = path / "tables" / "deep"
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, N_ROWS, 60)):
        frame()[start : start + 60].to_parquet(folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    return path / "tables"


def csv(path, name="x.csv", **options):
    frame().to_csv(path / name, index=False, **options)
    return path / name


def zarr_array(path, version):
    array = zarr.create_array(path / "x", shape=X.shape, chunks=(50, 2), dtype="f4", zarr_format=version)
    array[:] = X
    return array


def batches(n=3):
    for start in range(0, N_ROWS, 70):
        cut = slice(start, start + 70)
        yield (X[cut], y[cut], w[cut])[:n]


MATRICES = {
    "array": lambda _: X,
    "fortran-array": lambda _: np.asfortranarray(X),
    "big-endian-array": lambda _: X.astype(">f4"),
    "list": lambda _: X.astype("f8").tolist(),
    "npy": lambda path: npy(path, X),
    "fortran-npy": lambda path: npy(path, np.asfortranarray(X)),
    "zarr-2": lambda path: zarr_array(path, 2),
    "zarr-3": lambda path: zarr_array(path, 3),
    "zarr-path": lambda path: zarr_array(path, 3) and path / "x",
    "dask": lambda _: da.from_array(X, chunks=(100, 5)),
    "dask-empty-chunks": lambda _: da.from_array(X, chunks=((100, 0, 37, 0, 100), 5)),
    "dask-column-chunks": lambda _: da.from_array(X, chunks=((100, 137), (2, 3))),
    "dask-unknown-chunks": lambda _: unknown(da.from_array(X, chunks=(100, 5))),
    "dask-unknown-column-chunks": lambda _: unknown(da.from_array(X, chunks=(100, 2))),
    "batches": lambda _: list(batches(1)),
}


def unknown(array):
    return array[da.from_array(np.ones(N_ROWS, dtype=bool), chunks=array.chunks[0])]


SIDE_KINDS = {
    "numpy": lambda values: values,
    "dask-70": lambda values: da.from_array(values, chunks=70),
    "dask-unknown": lambda values: da.from_array(values, chunks=70)[da.ones(N_ROWS, chunks=70, dtype=bool)],
    "pandas": pd.Series,
    "list": lambda values: values.tolist(),
}


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        *((kind, "numpy") for kind in MATRICES),
        # Each kind of column, cut to blocks of each kind.
        *(
            (kind, side)
            for kind in ("array", "dask-empty-chunks", "dask-unknown-chunks", "batches")
            for side in SIDE_KINDS
            if side != "numpy"
        ),
    ],
)
def test_matrices_with_labels_beside_them(tmp_path, kind, side):
    sides = {role: SIDE_KINDS[side](values) for role, values in SIDES.items()}
    store = sf.ingest(MATRICES[kind](tmp_path), tmp_path / "a", chunk_rows=50, **sides)
    assert_rows(store, dtype="f8" if kind == "list" else "f4")
    assert store.feature_names is None


TABLES = {
    "frame": lambda _: frame(),
    "frame-shuffled-index": lambda _: frame().set_axis(rng.permutation(N_ROWS)),
    "frame-categorical": lambda _: frame().astype({"label": "category"}),
    "frame-nullable": lambda _: frame().astype({**dict.fromkeys(NAMES, "Float32"), "label": "string"}),
    "frame-arrow": lambda _: frame().convert_dtypes(dtype_backend="pyarrow"),
    "dask-frame": lambda _: dd.from_pandas(frame(), npartitions=4),
    "dask-frame-empty-partitions": lambda _: dd.from_pandas(frame(), npartitions=9).pipe(emptied),
    "parquet": parquet,
    "parquet-row-groups": lambda path: parquet(path, row_group_size=13),
    "parquet-dictionary": lambda path: parquet(path, use_dictionary=["label"], store_schema=False),
    "parquet-folder": parquet_folder,
    "parquet-list": lambda path: parquet_folder(path) and sorted((path / "tables").rglob("*.parquet")),
    "parquet-glob": lambda path: parquet_folder(path) and str(path / "tables/*/part-*.parquet"),
    "csv": csv,
    "csv-gz": lambda path: csv(path, "x.csv.gz"),
    "tsv": lambda path: csv(path, "x.tsv", sep="\t"),
}


def emptied(table):
    return dd.concat([table[table["a"] > 1e9], table, table[table["a"] > 1e9]])


@pytest.mark.parametrize("kind", TABLES)
def test_tables_with_named_columns(tmp_path, kind):
    store = sf.ingest(TABLES[kind](tmp_path), tmp_path / "a", chunk_rows=50, **ROLES)
    assert_rows(store, dtype="f8" if "csv" in kind or "tsv" in kind else "f4")
    assert store.feature_names == NAMES


@pytest.mark.parametrize("kind", ["C", "F", "compressed"])
def test_npz(tmp_path, kind):
    matrix = np.asfortranarray(X) if kind == "F" else X
    file = npz(tmp_path, matrix, np.savez_compressed if kind == "compressed" else np.savez)
    assert_rows(sf.ingest(file, tmp_path / "a", chunk_rows=50, **ROLES))


def test_pickled_labels_of_an_npz_are_not_opened(tmp_path):
    np.savez(tmp_path / "x.npz", X=X, label=np.array(["a", "b"] * N_ROWS, dtype=object)[:N_ROWS])
    with pytest.raises(InvalidDataError, match=r"y is label of x\.npz.*label\.astype\(str\)"):
        sf.ingest(tmp_path / "x.npz", tmp_path / "a", y="label")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "give", [batches, lambda: batches, lambda: list(batches())], ids=["generator", "callable", "list"]
)
def test_batches_with_labels_and_weights(tmp_path, give):
    store = sf.ingest(give(), tmp_path / "a", chunk_rows=50, ids=np.arange(N_ROWS))
    assert_rows(store)


def test_a_store_is_written_again_with_other_chunks(tmp_path):
    first = sf.ingest(frame(), tmp_path / "a", chunk_rows=50, **ROLES)
    for number, source in enumerate([first, tmp_path / "a", str(tmp_path / "a")]):
        store = sf.ingest(source, tmp_path / f"b{number}", chunk_rows=64)
        assert_rows(store)
        assert store.layout.chunk_rows == 64
        assert store.feature_names == NAMES


def assert_rows(store, dtype="f4"):
    assert store.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(store.X.compute().astype("f4"), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    np.testing.assert_array_equal(store.sample_weight.compute(), w)
    np.testing.assert_array_equal(store.ids.compute(), np.arange(N_ROWS))
    assert store.classes.tolist() == ["ham", "spam"]
    np.testing.assert_allclose(store.statistics.mean, X.astype("f8").mean(axis=0), rtol=1e-6, atol=1e-7)
    assert store.verify().ok


@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=6).filter(sum),
    cuts=st.lists(st.integers(1, 4), max_size=2, unique=True),
    data=st.data(),
)
def test_any_chunks_of_dask_arrays(tmp_path_factory, sizes, cuts, data):
    rows = X[: sum(sizes)] if sum(sizes) <= N_ROWS else np.resize(X, (sum(sizes), 5))
    bounds = [0, *sorted(cuts), 5]
    lazy = da.from_array(rows, chunks=(tuple(sizes), tuple(np.diff(bounds).tolist())))
    label_chunk = data.draw(st.integers(1, len(rows)))
    labels = da.from_array(np.arange(len(rows)), chunks=label_chunk)
    store = sf.ingest(lazy, tmp_path_factory.mktemp("dask") / "a", y=labels, chunk_rows=32)
    np.testing.assert_array_equal(store.X.compute(), rows)
    np.testing.assert_array_equal(store.y.compute(), np.arange(len(rows)))


# -- types ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param(["f4", "f4"], "f4", id="float32"),
        pytest.param(["f4", "f8"], "f8", id="floats"),
        pytest.param(["i8", "f4"], "f8", id="int64-and-float32"),
        pytest.param(["i4", "i8"], "i8", id="ints"),
        pytest.param(["i2", "?"], "i2", id="int-and-bool"),
        pytest.param(["?", "?"], "u1", id="bools"),
        pytest.param(["f2", "f2"], "f4", id="float16"),
    ],
)
@pytest.mark.parametrize("kind", ["pandas", "dask", "parquet"])
def test_a_table_gets_the_one_type_that_holds_all_columns(tmp_path, types, expected, kind):
    table = pd.DataFrame({f"c{n}": np.array([0, 1, 1]).astype(dtype) for n, dtype in enumerate(types)})
    source = table
    if kind == "dask":
        source = dd.from_pandas(table, npartitions=2)
    elif kind == "parquet":
        source = tmp_path / "x.parquet"
        table.to_parquet(source)
    store = sf.ingest(source, tmp_path / "a")
    assert store.dtype == np.dtype(expected)
    np.testing.assert_array_equal(store.X.compute(), table.to_numpy(dtype=expected))


def test_files_of_different_types_get_the_wider_one(tmp_path):
    pd.DataFrame({"c": np.array([1, 2], "i4")}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"c": [0.5]}).to_parquet(tmp_path / "1.parquet")
    assert sf.ingest(tmp_path / "*.parquet", tmp_path / "a").X.compute().ravel().tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("kind", ["pandas-nullable", "parquet", "csv"])
def test_whole_numbers_with_gaps_count_as_missing_floats(tmp_path, kind):
    table = pd.DataFrame({"a": [1, 2, 3], "b": pd.array([1, None, 3], dtype="Int64")})
    source = {
        "pandas-nullable": lambda: table,
        "parquet": lambda: table.to_parquet(tmp_path / "x.parquet") or tmp_path / "x.parquet",
        "csv": lambda: table.to_csv(tmp_path / "x.csv", index=False) or tmp_path / "x.csv",
    }[kind]()
    with pytest.raises(InvalidDataError, match="row 1, column b") as caught:
        sf.ingest(source, tmp_path / "a")
    assert (caught.value.row, caught.value.column) == (1, "b")
    store = sf.ingest(source, tmp_path / "a", nonfinite="keep")
    np.testing.assert_array_equal(store.X.compute(), [[1, 1], [2, np.nan], [3, 3]])


BAD_COLUMNS = {
    "text": ["x", "y", "z"],
    "date": pd.date_range("2024-01-01", periods=3),
    "mixed": [1, "y", 3],
    "categorical": pd.Categorical([1, 2, 1]),
    "complex": [1j, 2, 3],
}
HOLDS = {
    "pandas": BAD_COLUMNS,
    "dask": BAD_COLUMNS,
    "parquet": ["text", "date"],
    "csv": ["text", "date", "mixed", "complex"],
}


@pytest.mark.parametrize(("kind", "column"), [(kind, column) for kind in HOLDS for column in HOLDS[kind]])
def test_feature_columns_that_are_no_numbers_are_named(tmp_path, column, kind):
    table = pd.DataFrame({"a": [1.0, 2, 3], "b": BAD_COLUMNS[column]})
    source = table
    if kind == "dask":
        source = dd.from_pandas(table, npartitions=2)
    elif kind != "pandas":
        source = tmp_path / f"x.{kind}"
        getattr(table, f"to_{kind}")(source, index=False)
    with pytest.raises(InvalidDataError, match=r"Column 'b'.* features are numbers.*columns=") as caught:
        sf.ingest(source, tmp_path / "a")
    assert caught.value.column == "b"
    assert sf.ingest(source, tmp_path / "b", columns=["a"]).shape == (3, 1)


def test_text_late_in_a_csv_is_named_by_row(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 40 + "1,oops\n" + "1,2\n" * 5)
    with pytest.raises(InvalidDataError, match=r"'b' of x\.csv holds 'oops' in row 40") as caught:
        sf.ingest(tmp_path / "x.csv", tmp_path / "a")
    assert caught.value.row == 40


def test_columns_are_taken_in_the_order_asked(tmp_path):
    store = sf.ingest(parquet(tmp_path), tmp_path / "a", y="label", columns=["c", "a"])
    assert store.feature_names == ("c", "a")
    np.testing.assert_array_equal(store.X.compute(), X[:, [2, 0]])


def test_columns_without_texts_as_names(tmp_path):
    store = sf.ingest(pd.DataFrame(X).assign(label=y), tmp_path / "a", y="label")
    assert store.feature_names is None
    assert sf.ingest(pd.DataFrame(X), tmp_path / "b", y="4").n_features == 4


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(np.empty((0, 3)), "0 rows and 3 columns", id="array"),
        pytest.param(np.empty((3, 0)), "3 rows and 0 columns", id="no-columns"),
        pytest.param(pd.DataFrame({"a": []}, dtype="f4"), "0 rows", id="frame"),
        pytest.param(da.empty((0, 3)), "0 rows", id="dask"),
        pytest.param(iter([]), "no batch", id="no-batch"),
        pytest.param([np.empty((0, 3))], "0 rows", id="empty-batch"),
        pytest.param(emptied(dd.from_pandas(frame()[:0], npartitions=1)[["a"]]), "0 rows", id="dask-frame"),
    ],
)
def test_no_rows(tmp_path, source, message):
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(source, tmp_path / "a")
    # What was refused does not stand in the way.
    assert sf.ingest(X, tmp_path / "a").n_rows == N_ROWS


@pytest.mark.parametrize("n_labels", [N_ROWS - 1, N_ROWS + 1, 0, 1_000])
@pytest.mark.parametrize(
    ("source", "labels"),
    [
        pytest.param("array", "numpy", id="known"),
        pytest.param("dask-unknown-chunks", "numpy", id="unknown-rows"),
        pytest.param("array", "dask", id="unknown-labels"),
        pytest.param("dask-unknown-chunks", "dask", id="both-unknown"),
        pytest.param("batches", "dask", id="batches"),
    ],
)
def test_labels_of_another_length_are_told_with_both(tmp_path, source, labels, n_labels):
    values = np.arange(n_labels)
    if labels == "dask":
        values = da.from_array(np.arange(max(n_labels, 1)), chunks=70)
        values = values[values < n_labels]
    with pytest.raises(InvalidDataError, match=rf"y has {n_labels} rows and X has \d+") as caught:
        sf.ingest(MATRICES[source](tmp_path), tmp_path / "a", y=values, chunk_rows=50)
    assert n_labels < N_ROWS or caught.match(f"X has {N_ROWS}")


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        pytest.param(np.zeros((2, 3, 4)), {}, InvalidDataError, r"3 dimensions \(shape \(2, 3, 4\)\)", id="3-D"),
        pytest.param(np.zeros(3), {}, InvalidDataError, "1 dimensions", id="1-D"),
        pytest.param(da.zeros((2, 3, 4)), {}, InvalidDataError, "3 dimensions", id="dask-3-D"),
        pytest.param([np.zeros((2, 3, 4))], {}, InvalidDataError, "dimensions", id="batch-3-D"),
        pytest.param(np.zeros((2, 3), complex), {}, InvalidDataError, "complex128", id="complex"),
        pytest.param(np.zeros((2, 3), object), {}, InvalidDataError, "object", id="object"),
        pytest.param(7, {}, InvalidDataError, "int is no source", id="number"),
        pytest.param({"X": X}, {}, InvalidDataError, "dict is no source", id="dict"),
        pytest.param(b"x.npy", {}, InvalidDataError, "bytes is no source", id="bytes"),
        pytest.param(lambda: None, {}, InvalidDataError, "callable gave a NoneType", id="callable-gives-nothing"),
        pytest.param("none/*.parquet", {}, SourceNotFoundError, "No file matches", id="pattern"),
        pytest.param(["none.parquet"], {}, SourceNotFoundError, "There is no file at 'none.parquet'", id="list"),
        pytest.param("none.csv", {}, SourceNotFoundError, "nothing at 'none.csv'", id="no-file"),
        pytest.param(X, {"y": "label"}, InvalidParameterError, "y='label' names a column", id="name-in-array"),
        pytest.param(X, {"columns": ["a"]}, InvalidParameterError, "no named columns", id="columns-of-array"),
        pytest.param(frame(), {"y": "lable"}, InvalidParameterError, "no column 'lable' for y", id="typing-error"),
        pytest.param(frame(), {"columns": []}, InvalidParameterError, "No column is left", id="no-column"),
        *(
            pytest.param(X, {"chunk_rows": value}, InvalidParameterError, "chunk_rows", id=f"chunk_rows-{value!r}")
            for value in (0, -1, 1.5, "a", True, 10**12)
        ),
        pytest.param(frame(), {"columns": "a"}, InvalidParameterError, "columns must be", id="columns-text"),
        pytest.param(frame(), {"columns": 3}, InvalidParameterError, "columns must be", id="columns-number"),
        pytest.param(X, {"nonfinite": "drop"}, InvalidParameterError, "nonfinite", id="nonfinite"),
        pytest.param(X, {"if_exists": "append"}, InvalidParameterError, "if_exists", id="if_exists"),
        pytest.param(X, {"y": np.zeros((N_ROWS, 2, 2))}, InvalidDataError, "y has shape", id="y-of-three-dimensions"),
        pytest.param(X, {"memory_limit": "1MB"}, BudgetError, "lower chunk_rows", id="memory"),
    ],
)
def test_what_cannot_be_ingested(tmp_path, source, options, error, message):
    with pytest.raises(error, match=message):
        sf.ingest(source, tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


MASK = np.arange(N_ROWS) == 123
MASKED_ROWS = np.ma.array(X, mask=np.outer(MASK, [0, 0, 1, 0, 0]))


@pytest.mark.parametrize(
    ("source", "sides", "what"),
    [
        pytest.param(MASKED_ROWS, {}, "X", id="array"),
        pytest.param(list(MASKED_ROWS), {}, "X", id="list-of-rows"),
        pytest.param(da.from_array(MASKED_ROWS, chunks=(50, 3)), {}, "X", id="dask"),
        pytest.param([X[:100], MASKED_ROWS[100:]], {}, "X", id="batches"),
        pytest.param([(X[:100], y[:100]), (X[100:], np.ma.array(y, mask=MASK)[100:])], {}, "y", id="batch-labels"),
        pytest.param(
            [(X[:100], y[:100], w[:100]), (X[100:], y[100:], np.ma.array(w, mask=MASK)[100:])],
            {},
            "sample_weight",
            id="batch-weights",
        ),
        *(
            pytest.param(X, {role: give(np.ma.array(values, mask=MASK))}, role, id=f"{kind}-{role}")
            for role, values in SIDES.items()
            for kind, give in {
                "array": lambda a: a,
                "dask": lambda a: da.from_array(a, chunks=50),
                "list": list,
            }.items()
        ),
    ],
)
def test_masked_values_are_refused_by_row(tmp_path, source, sides, what):
    with pytest.raises(InvalidDataError, match=f"{what} is masked in row 123. Fill") as caught:
        sf.ingest(source, tmp_path / "a", chunk_rows=50, **sides)
    assert caught.value.row == 123


def test_a_mask_counts_although_the_same_values_are_stored(tmp_path):
    sf.ingest(X, tmp_path / "a", y=y)
    with pytest.raises(InvalidDataError, match="X is masked"):
        sf.ingest(MASKED_ROWS, tmp_path / "a", y=y)


def test_a_mask_that_hides_nothing_is_no_matter(tmp_path):
    none = np.zeros(N_ROWS, dtype=bool)
    for number, rows in enumerate([np.ma.array(X, mask=False), da.from_array(np.ma.array(X), chunks=(50, 3))]):
        sides = {role: np.ma.array(values, mask=none) for role, values in SIDES.items()}
        assert_rows(sf.ingest(rows, tmp_path / f"{number}", chunk_rows=50, **sides))


def test_columns_that_occur_twice(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "a", "c", "d"])
    with pytest.raises(InvalidDataError, match="more than one column 'a'"):
        sf.ingest(table, tmp_path / "a")


def test_files_that_lack_a_column(tmp_path):
    for kind in ("parquet", "csv"):
        for number, table in enumerate([frame()[["a", "b"]], frame()[["a"]]]):
            getattr(table, f"to_{kind}")(tmp_path / f"{number}.{kind}", index=False)
        with pytest.raises(InvalidDataError, match=r"1\.\w+ .*(lacks|no) .*column"):
            sf.ingest(tmp_path / f"*.{kind}", tmp_path / kind)


@pytest.mark.parametrize("name", ["x.json", "x.zip", "x"])
def test_files_of_no_known_kind(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(b"1"))
    with pytest.raises(InvalidDataError, match="no known kind"):
        sf.ingest(tmp_path / name, tmp_path / "a")


def test_a_damaged_npy(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"nothing of numpy")
    with pytest.raises(InvalidDataError, match=r"x\.npy is not an array"):
        sf.ingest(tmp_path / "x.npy", tmp_path / "a")
    file = npy(tmp_path, X)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InvalidDataError, match="ends before its last row"):
        sf.ingest(file, tmp_path / "a")


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return file


def text(path, content, name="x.csv"):
    (path / name).write_bytes(content)
    return path / name


def changed_byte(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)
    return file


def npy_header(path, header):
    (path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(108))
    return path / "x.npy"


def zip_before_its_beginning(file):
    content = bytearray(file.read_bytes())
    content[-6:-2] = (2**31).to_bytes(4, "little")  # where the directory begins
    file.write_bytes(content)
    return file


def zip_of_later_version(file):
    content = bytearray(file.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 120  # what is needed to extract the first member: 12.0
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda path: text(path, b"a,b\n1,2\n3,4,5\n"),
            "record 3 .* has 3 fields, and there are 2 columns",
            id="csv-long-line",
        ),
        pytest.param(
            lambda path: text(path, b"a,b\n1,2,9\n3,4,5\n"), "record 2 .* has 3 fields", id="csv-all-lines-long"
        ),
        pytest.param(lambda path: text(path, b"\n"), "empty", id="csv-empty"),
        pytest.param(lambda path: text(path, b"a,b\n1,2\n3,\xff\n"), "utf-8", id="csv-no-utf-8"),
        pytest.param(lambda path: cut(csv(path, "x.csv.gz")), "Truncated", id="csv-cut-gzip"),
        pytest.param(lambda path: text(path, b"1,2", "x.csv.gz"), "header", id="csv-no-gzip"),
        pytest.param(lambda path: cut(parquet(path)), "Parquet", id="parquet-cut"),
        pytest.param(lambda path: changed_byte(parquet(path), 4), "page header", id="parquet-page"),
        pytest.param(lambda path: text(path, b"PK no zip", "x.npz"), "zip", id="npz-garbage"),
        pytest.param(lambda path: cut(npz(path, X)), "zip", id="npz-cut"),
        pytest.param(lambda path: zip_of_later_version(npz(path, X)), "version", id="npz-version"),
        pytest.param(lambda path: zip_before_its_beginning(npz(path, X)), "Mend the file", id="npz-offset"),
        pytest.param(lambda path: changed_byte(npz(path, X, np.savez_compressed), 300), "", id="npz-member"),
        pytest.param(lambda path: cut(npy(path, X)), "its last row", id="npy-cut"),
        pytest.param(lambda path: npy_header(path, b"{'shape': (9, 3), 'descr': '<f4'"), "numpy.save", id="npy-open"),
        pytest.param(lambda path: npy_header(path, b"{'shape': (-9, 3)}"), "numpy.save", id="npy-keys"),
        pytest.param(
            lambda path: npy_header(path, b"{'descr': '<f4', 'fortran_order': False, 'shape': (-9, 3)}"),
            r"its shape is \(-9, 3\)",
            id="npy-negative",
        ),
        pytest.param(
            lambda path: npy_header(path, b"{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000000, 3)}"),
            "its last row",
            id="npy-huge",
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path, make, message):
    file = make(tmp_path)
    with pytest.raises(InvalidDataError, match=f"{file.name} (cannot be read|ends|is not an array).*{message}"):
        sf.ingest(file, tmp_path / "a", columns=None if file.suffix in (".npy", ".npz") else ["a"])


def test_a_damaged_chunk_of_a_zarr_array_is_named(tmp_path):
    zarr_array(tmp_path, 3)
    (tmp_path / "x/c/1/0").write_bytes(b"nothing of Zarr")
    with pytest.raises(InvalidDataError, match=r"x, rows 0 to 236 cannot be read"):
        sf.ingest(tmp_path / "x", tmp_path / "a")


def test_a_comma_at_the_end_of_each_line_is_no_column(tmp_path):
    store = sf.ingest(text(tmp_path, b"a,b\n1,2,\n3,4,\n"), tmp_path / "a")
    np.testing.assert_array_equal(store.X.compute(), [[1, 2], [3, 4]])


def test_a_missing_file_stays_the_systems_word(tmp_path):
    from streamfit.demo.data import load_npz

    with pytest.raises(FileNotFoundError):
        load_npz(tmp_path / "none.npz")
    with pytest.raises(InvalidDataError, match=r"x\.npz cannot be read"):
        load_npz(text(tmp_path, b"no zip", "x.npz"))


def test_a_fortran_npz_is_loaded_only_inside_the_limit(tmp_path):
    np.savez_compressed(tmp_path / "f.npz", X=np.zeros((2_000_000, 8), order="F"))
    with pytest.raises(BudgetError, match=r"as a whole .*C order"):
        sf.ingest(tmp_path / "f.npz", tmp_path / "a", memory_limit="100MB")


def test_more_rows_than_a_source_says_are_refused(tmp_path):
    wrong = da.map_blocks(lambda block: np.repeat(block, 2, axis=0), da.from_array(X, chunks=(50, 5)), dtype="f4")
    with pytest.raises(InvalidDataError, match=f"more rows than it says it has: row {N_ROWS}"):
        sf.ingest(wrong, tmp_path / "a")


def test_numpys_integers_are_integers(tmp_path):
    assert sf.ingest(X, tmp_path / "a", chunk_rows=np.int16(50)).layout.n_chunks == 5


@pytest.mark.parametrize("path", [None, 3])
def test_a_store_needs_a_path(path):
    with pytest.raises(InvalidParameterError, match=f"path of a folder is needed, got {path}"):
        sf.ingest(X, path)


# -- once ----------------------------------------------------------------------------------------------

KNOWN = {
    "array": lambda _: X,
    "frame": lambda _: frame()[list(NAMES)],
    "npy": lambda path: npy(path, X),
    "npz": lambda path: npz(path, X),
    "parquet": parquet_folder,
    "csv": csv,
}
COMPARED = {
    "dask": lambda _: da.from_array(X, chunks=(100, 5)),
    "dask-frame": lambda _: dd.from_pandas(frame()[list(NAMES)], npartitions=3),
    "zarr": lambda path: path / "x" if (path / "x").exists() else zarr_array(path, 3),
    "batches": lambda _: batches(1),
}


@pytest.mark.parametrize("kind", [*KNOWN, *COMPARED])
def test_again_changes_nothing(tmp_path, kind):
    source = {**KNOWN, **COMPARED}[kind]
    columns = {"columns": NAMES} if kind in ("csv", "parquet") else {}
    first = sf.ingest(source(tmp_path), tmp_path / "a", chunk_rows=50, y=y, **columns)
    files = {file: file.stat().st_ino for file in (tmp_path / "a").glob("*/c/**/*")}
    (tmp_path / "again").mkdir()
    again = sf.ingest(source(tmp_path / "again"), tmp_path / "a", chunk_rows=50, y=y, **columns)
    assert again.manifest.digest == first.manifest.digest
    assert {file: file.stat().st_ino for file in (tmp_path / "a").glob("*/c/**/*")} == files


@pytest.mark.parametrize("kind", KNOWN)
def test_a_known_source_is_not_read_again(tmp_path, kind, monkeypatch):
    columns = {"columns": NAMES} if kind in ("csv", "parquet") else {}
    source = KNOWN[kind](tmp_path)
    sf.ingest(source, tmp_path / "a", **columns)
    monkeypatch.setattr("streamfit.sources.ingest.StoreWriter", None)
    assert sf.ingest(source, tmp_path / "a", **columns).n_rows == N_ROWS


@pytest.mark.parametrize("change", ["value", "label", "rows"])
@pytest.mark.parametrize("kind", ["array", "npy", "dask", "batches"])
def test_a_changed_source_is_noticed(tmp_path, kind, change):
    def give(matrix):
        if kind == "npy":
            return npy(tmp_path, matrix)
        if kind == "dask":
            return da.from_array(matrix, chunks=(100, 5))
        return [matrix[:100], matrix[100:]] if kind == "batches" else matrix

    sf.ingest(give(X), tmp_path / "a", y=y, chunk_rows=50)
    changed, labels = X.copy(), y.copy()
    if change == "value":
        changed[123, 2] += 1
    elif change == "label":
        labels[123] = "ham" if labels[123] == "spam" else "spam"
    else:
        changed, labels = X[:200], y[:200]
    with pytest.raises(StoreExistsError, match="overwrite"):
        sf.ingest(give(changed), tmp_path / "a", y=labels, chunk_rows=50)
    store = sf.ingest(give(changed), tmp_path / "a", y=labels, chunk_rows=50, if_exists="overwrite")
    np.testing.assert_array_equal(store.X.compute(), changed)
    np.testing.assert_array_equal(store.y.compute(), labels)


def test_one_changed_value_in_a_file_is_noticed(tmp_path):
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((50_000, 8)))
    sf.ingest(file, tmp_path / "a")
    np.lib.format.open_memmap(file, mode="r+")[20_011, 3] = 1
    with pytest.raises(StoreExistsError):
        sf.ingest(file, tmp_path / "a")
    assert sf.ingest(file, tmp_path / "a", if_exists="overwrite").X[20_011, 3].compute() == 1


def test_a_larger_file_is_known_by_parts_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "_WHOLE_NBYTES", 1_000_000)
    file = tmp_path / "x"
    file.write_bytes(bytes(3_000_000))
    before = fingerprint.describe_files([file])
    changed_byte(file, 2_999_999)
    assert fingerprint.describe_files([file]) != before
    changed_byte(file, 2_999_999)
    changed_byte(file, 100_000)  # the first part ends before, the second begins after
    assert fingerprint.describe_files([file]) == before


def test_an_ingest_that_failed_is_gone_on_with(tmp_path):
    calls = []

    def source(fail_at):
        for number, batch in enumerate(batches()):
            if number == fail_at:
                raise RuntimeError("the network is gone")
            calls.append(number)
            yield batch

    with pytest.raises(RuntimeError, match="network"):
        sf.ingest(source(2), tmp_path / "a", chunk_rows=50)
    with pytest.raises(StoreIncompleteError, match="100 of an unknown number of rows"):
        sf.open_store(tmp_path / "a")
    written = {file: file.stat().st_ino for file in (tmp_path / "a").glob("X/c/*/*")}
    assert len(written) == 2
    store = sf.ingest(source(None), tmp_path / "a", chunk_rows=50)
    np.testing.assert_array_equal(store.X.compute(), X)
    assert {file: file.stat().st_ino for file in written} == written


@pytest.mark.parametrize("exists", [False, True], ids=["new", "empty-folder"])
def test_an_ingest_refused_before_its_first_chunk_leaves_nothing(tmp_path, exists):
    if exists:
        (tmp_path / "a").mkdir()
    rows = X.copy()
    rows[17, 2] = np.nan
    with pytest.raises(InvalidDataError, match="row 17, column 2"):
        sf.ingest(rows, tmp_path / "a", chunk_rows=50)
    with pytest.raises(StoreNotFoundError):
        sf.open_store(tmp_path / "a")
    assert not (tmp_path / "a").exists() or not any((tmp_path / "a").iterdir())
    assert sf.ingest(X, tmp_path / "a", if_exists="error").n_rows == N_ROWS


# -- source and destination ----------------------------------------------------------------------------


@pytest.mark.parametrize("if_exists", ["resume", "overwrite"])
def test_a_destination_over_its_source_is_refused_before_anything_is_deleted(tmp_path, if_exists):
    folder = parquet_folder(tmp_path)
    store = sf.ingest(folder, tmp_path / "a", **ROLES)
    array = zarr_array(tmp_path, 3)
    cases = [
        (store, tmp_path / "a", {}),
        (tmp_path / "a", tmp_path / "a/../a", {}),
        (store.X + 1, tmp_path / "a", {}),
        (X, tmp_path / "a", {"y": store.y}),
        (store, tmp_path / "a/inside", {}),
        (folder, folder / "deep/part-0.parquet", ROLES),
        (str(folder / "*/*.parquet"), folder, ROLES),
        (array, tmp_path / "x", {}),
        (tmp_path / "x", tmp_path / "x/inside", {}),
    ]
    for source, destination, options in cases:
        with pytest.raises(StoreExistsError, match="over its source"):
            sf.ingest(source, destination, if_exists=if_exists, **options)
    assert sf.open_store(tmp_path / "a").verify().ok
    np.testing.assert_array_equal(array[:], X)
    assert len(list(folder.rglob("*.parquet"))) == 4


def test_a_link_to_the_source_is_the_source(tmp_path):
    store = sf.ingest(X, tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(StoreExistsError, match="over its source"):
        sf.ingest(store, tmp_path / "link", if_exists="overwrite")
    assert store.verify().ok


def test_the_source_of_a_store_tells_no_paths_and_no_times(tmp_path):
    content = sf.ingest(parquet(tmp_path), tmp_path / "a", **ROLES).manifest.to_bytes()
    assert b"x.parquet" in content
    assert str(tmp_path).encode() not in content
    assert b"mtime" not in content
