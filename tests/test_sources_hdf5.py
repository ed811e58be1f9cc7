"""HDF5 as users' programs write it: layouts, filters, types, groups, tables, and what is damaged."""

from __future__ import annotations

import builtins
import importlib
import sys

import h5py
import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import (
    FilledChunksWarning,
    InvalidDataError,
    InvalidParameterError,
    StoreExistsError,
    UnsupportedError,
)
from streamfit.sources import aligned
from streamfit.sources.registry import open_source
from streamfit.sources.source import Names

N_ROWS = 237
rng = np.random.default_rng(3)
X = rng.normal(size=(N_ROWS, 5)).astype("f4")
SIDES = {"label": rng.integers(0, 3, N_ROWS), "weight": rng.random(N_ROWS), "number": np.arange(N_ROWS) - 7}
ROLES = {"y": "label", "sample_weight": "weight", "ids": "number"}


def hdf5(path, matrix=X, *, name="X", sides=SIDES, file="x.h5", side_options=None, **options):
    with h5py.File(path / file, "w") as root:
        root.create_dataset(name, data=matrix, **options)
        for side, values in sides.items():
            root.create_dataset(side, data=values, **(side_options or {}))
    return path / file


def assert_rows(store, matrix=X):
    np.testing.assert_array_equal(store.X.compute(), matrix)
    np.testing.assert_array_equal(store.y.compute(), SIDES["label"])
    np.testing.assert_array_equal(store.sample_weight.compute(), SIDES["weight"])
    np.testing.assert_array_equal(store.ids.compute(), SIDES["number"])


LAYOUTS = {
    "contiguous": {},
    "chunked": {"chunks": (50, 5)},
    "one-row-chunks": {"chunks": (1, 5)},
    "column-chunks": {"chunks": (N_ROWS, 1)},
    "odd-chunks": {"chunks": (33, 2)},
    "gzip": {"chunks": (50, 5), "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (50, 3), "compression": "lzf"},
    "checksums": {"chunks": (50, 3), "fletcher32": True},
    "growing": {"chunks": (64, 5), "maxshape": (None, 5)},
}


@pytest.mark.parametrize("start", [0, 1, 33, 100, N_ROWS - 1, N_ROWS])
@pytest.mark.parametrize("side_chunk", [None, 7, 200])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_from_any_row_on(tmp_path, monkeypatch, layout, side_chunk, start):
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 40 * 20)
    side_options = None if side_chunk is None else {"chunks": (side_chunk,), "compression": "gzip"}
    file = hdf5(tmp_path, side_options=side_options, **LAYOUTS[layout])
    source = open_source(file, Names(**ROLES), memory_limit=None)
    assert source.recognisable
    assert source.seekable
    blocks = list(source.blocks(start))
    for name, whole in (("X", X), *((role, SIDES[side]) for role, side in ROLES.items())):
        rows = np.concatenate([whole[:0], *(getattr(block, name) for block in blocks)])
        np.testing.assert_array_equal(rows, whole[start:], err_msg=name)


def test_blocks_end_where_chunks_end(tmp_path, monkeypatch):
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 120 * 20)
    source = open_source(hdf5(tmp_path, chunks=(50, 5)), Names(), memory_limit=None)
    assert [block.n_rows for block in source.blocks(20)] == [80, 100, 37]


def test_chunks_that_are_too_tall_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(aligned, "_MOST_NBYTES", 60 * 20)
    source = open_source(hdf5(tmp_path, chunks=(N_ROWS, 1)), Names(), memory_limit=None)
    sizes = [block.n_rows for block in source.blocks(0)]
    assert max(sizes) <= 60
    assert sum(sizes) == N_ROWS
    assert source.block_nbytes <= 2 * 60 * 20


@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", "i1", ">i4", "u8", "?"])
def test_types(tmp_path, dtype):
    matrix = rng.integers(0, 2, (N_ROWS, 5)).astype(dtype)
    if dtype == "u8":
        matrix += np.uint64(2**63)
    store = sf.ingest(hdf5(tmp_path, matrix, chunks=(50, 5)), tmp_path / "a", chunk_rows=64, **ROLES)
    assert_rows(store, matrix)
    assert store.dtype == {"f2": "f4", "?": "u1"}.get(dtype, np.dtype(dtype).newbyteorder("<"))


@pytest.mark.parametrize("kind", ["S", "vlen", "fixed-utf-8"])
def test_labels_that_are_texts(tmp_path, kind):
    texts = np.array(["häm" if kind != "S" else "ham", "spam"])[rng.integers(0, 2, N_ROWS)]
    dtype = {"S": "S4", "vlen": h5py.string_dtype(), "fixed-utf-8": h5py.string_dtype("utf-8", 6)}[kind]
    values = texts.astype("S4") if kind == "S" else np.array([t.encode() for t in texts]).astype(dtype)
    store = sf.ingest(hdf5(tmp_path, sides={"label": values}), tmp_path / "a", y="label")
    assert store.y.compute().tolist() == texts.tolist()


# -- naming --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        pytest.param("X", "", id="X"),
        pytest.param("anything", "", id="the-only-matrix"),
        pytest.param("anything", "::anything", id="dataset"),
        pytest.param("deep/inside/X", "::/deep/inside/X", id="nested-dataset"),
        pytest.param("deep/inside/Z", "::deep", id="group"),
        pytest.param("deep/inside/Z", "", id="the-only-matrix-anywhere"),
    ],
)
@pytest.mark.parametrize("ending", ["h5", "hdf5", "hdf", "he5", "H5"])
def test_the_matrix_is_found(tmp_path, name, suffix, ending):
    file = hdf5(tmp_path, name=name, file=f"x.{ending}")
    roles = {role: f"/{side}" for role, side in ROLES.items()}
    assert_rows(sf.ingest(f"{file}{suffix}", tmp_path / "a", **roles))


def test_labels_are_named_from_the_group_of_the_matrix(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        for group, shift in (("train", 0), ("test", 1)):
            root[f"{group}/X"] = X + shift
            root[f"{group}/y"] = np.full(N_ROWS, shift)
    for suffix in ("::test", "::test/X", "::/test/"):
        store = sf.ingest(f"{tmp_path}/x.h5{suffix}", tmp_path / f"a{len(suffix)}", y="y")
        np.testing.assert_array_equal(store.X.compute(), X + 1)
        assert store.classes.tolist() == [1]


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("give", [lambda root: root, lambda root: root["g"], lambda root: root["g/X"]])
def test_open_objects(tmp_path, mode, give):
    file = hdf5(tmp_path, name="g/X", sides={f"g/{side}": values for side, values in SIDES.items()}, chunks=(50, 5))
    with h5py.File(file, mode) as root:
        roles = {role: f"/g/{side}" for role, side in ROLES.items()}
        source = open_source(give(root), Names(**roles), memory_limit=None)
        assert source.recognisable == (mode == "r")
        assert_rows(sf.ingest(give(root), tmp_path / "a", chunk_rows=50, **roles))


@pytest.mark.parametrize("give", [lambda root: root, lambda root: root["g"], lambda root: root["g/X"]])
def test_closed_objects_are_refused(tmp_path, give):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root["g/X"] = X
        node = give(root)
    with pytest.raises(InvalidDataError, match="is closed"):
        sf.ingest(node, tmp_path / "a")


def test_a_file_in_memory(tmp_path):
    with h5py.File("nothing.h5", "w", driver="core", backing_store=False) as root:
        root["X"] = X
        root["label"] = SIDES["label"]
        store = sf.ingest(root, tmp_path / "a", y="label", chunk_rows=50)
        np.testing.assert_array_equal(store.X.compute(), X)
        assert sf.ingest(root, tmp_path / "a", y="label", chunk_rows=50).digest == store.digest


def test_several_files_are_one_matrix(tmp_path):
    for number, (start, stop) in enumerate([(0, 100), (100, 100), (100, N_ROWS)]):
        sides = {side: values[start:stop] for side, values in SIDES.items()}
        hdf5(tmp_path, X[start:stop], sides=sides, file=f"part-{number}.h5", name="g/Z")
    roles = {role: f"/{side}" for role, side in ROLES.items()}
    assert_rows(sf.ingest(tmp_path / "part-*.h5", tmp_path / "a", **roles))
    files = [f"{tmp_path}/part-{number}.h5::g/Z" for number in range(3)]
    assert_rows(sf.ingest(files, tmp_path / "b", **roles))
    with pytest.raises(InvalidDataError, match="different members"):
        sf.ingest([files[0], files[1].replace("::g/Z", "::g")], tmp_path / "c")


def test_another_dataset_of_the_same_file_is_another_source(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root["a"], root["b"] = X, X + 1
    store = sf.ingest(f"{tmp_path}/x.h5::a", tmp_path / "s")
    store = sf.append(f"{tmp_path}/x.h5::b", store)
    np.testing.assert_array_equal(store.X.compute(), np.concatenate([X, X + 1]))
    with pytest.raises(StoreExistsError):
        sf.ingest(f"{tmp_path}/x.h5::b", tmp_path / "s")


# -- tables --------------------------------------------------------------------------------------------

RECORDS = np.zeros(N_ROWS, dtype=[("a", "f4"), ("b", "i2"), ("label", "S4"), ("date", "S10")])
RECORDS["a"], RECORDS["b"], RECORDS["label"] = X[:, 0], SIDES["label"], b"ham"
RECORDS["label"][::3] = b"spam"


def test_records_are_a_table(tmp_path):
    file = hdf5(tmp_path, RECORDS, name="table", sides={"other": np.arange(3)}, chunks=(50,), compression="gzip")
    store = sf.ingest(file, tmp_path / "a", y="label", columns=["b", "a"], chunk_rows=64)
    assert store.feature_names == ("b", "a")
    assert store.dtype == "f4"
    np.testing.assert_array_equal(store.X.compute(), np.column_stack([RECORDS["b"], RECORDS["a"]]))
    assert store.y.compute().tolist() == RECORDS["label"].astype("U").tolist()
    with pytest.raises(InvalidDataError, match=r"field 'date' of /table .*columns=") as caught:
        sf.ingest(f"{file}::table", tmp_path / "b", y="label")
    assert caught.value.column == "date"
    with pytest.raises(InvalidParameterError, match=r"no column 'lable' for y\. Did you mean 'label'"):
        sf.ingest(file, tmp_path / "b", y="lable")


# -- refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "suffix", "options", "error", "message"),
    [
        pytest.param({}, "", {}, InvalidDataError, "no matrix .* It has nothing", id="empty-file"),
        pytest.param({"v": X[:, 0]}, "", {}, InvalidDataError, r"no matrix .* It has v \(237,\)", id="no-matrix"),
        pytest.param({"a": X, "g/b": X}, "", {}, InvalidDataError, r"2 matrices: a .*Name one: x\.h5::a", id="two"),
        pytest.param({"g/a": X, "g/b": X}, "::g", {}, InvalidDataError, r"Name one: x\.h5::g/a", id="two-in-group"),
        pytest.param({"X": X}, "::Z", {}, InvalidParameterError, "no member 'Z'. It has X", id="no-such-member"),
        pytest.param({"X": X}, "::", {}, InvalidParameterError, "no member ''", id="no-name"),
        pytest.param({"X": X}, "", {"y": "z"}, InvalidParameterError, r"no member 'z' for y. It has X", id="no-y"),
        pytest.param(
            {"X": X, "z": X[:, :, None]},
            "",
            {"y": "z"},
            InvalidDataError,
            "y is z of shape",
            id="y-of-three-dimensions",
        ),
        pytest.param(
            {"X": X, "z": X[:9, 0]}, "", {"y": "z"}, InvalidDataError, "y has 9 rows and X has 237", id="short"
        ),
        pytest.param({"X": X}, "", {"columns": ["a"]}, InvalidParameterError, "no named columns", id="columns"),
        pytest.param({"X": X[:, 0]}, "", {}, InvalidDataError, "1 dimensions", id="1-D"),
        pytest.param({"X": X[None]}, "", {}, InvalidDataError, "3 dimensions", id="3-D"),
        pytest.param({"X": h5py.Empty("f4")}, "", {}, InvalidDataError, "0 dimensions", id="null-dataspace"),
        pytest.param({"X": X.astype("c8")}, "", {}, InvalidDataError, "complex64", id="complex"),
        pytest.param({"X": [["a", "b"]]}, "", {}, InvalidDataError, "dtype object", id="texts"),
        pytest.param({"X": X[:0]}, "", {}, InvalidDataError, "0 rows", id="no-rows"),
    ],
)
def test_what_is_refused(tmp_path, content, suffix, options, error, message):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        for name, values in content.items():
            root[name] = values
    with pytest.raises(error, match=message):
        sf.ingest(f"{tmp_path}/x.h5{suffix}", tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_tables_of_pandas_are_refused_with_the_way_out(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root["frame/block0_values"] = X.astype("f8")
        root["frame/axis0"] = np.array([b"a"] * 5)
        root["frame"].attrs["pandas_type"] = "frame"
    with pytest.raises(InvalidDataError, match=r"pandas \(frame\).*read_hdf\(path, 'frame'\).to_parquet"):
        sf.ingest(tmp_path / "x.h5", tmp_path / "a")
    store = sf.ingest(f"{tmp_path}/x.h5::frame/block0_values", tmp_path / "a")
    np.testing.assert_array_equal(store.X.compute(), X)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.2, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_a_cut_file_is_named(tmp_path, layout, part):
    file = hdf5(tmp_path, **LAYOUTS[layout])
    content = file.read_bytes()
    file.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InvalidDataError, match=r"x\.h5 cannot be read: Unable to synchronously open"):
        sf.ingest(file, tmp_path / "a", **ROLES)
    assert not (tmp_path / "a").exists()


def test_a_damaged_chunk_is_named_with_its_rows(tmp_path):
    file = hdf5(tmp_path, chunks=(50, 5), compression="gzip")
    with h5py.File(file) as root:
        chunk = root["X"].id.get_chunk_info(2)
    content = bytearray(file.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    file.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"/X of x\.h5, rows 0 to 236 cannot be read"):
        sf.ingest(file, tmp_path / "a")


@pytest.mark.parametrize("fill", [None, 7, np.nan], ids=str)
def test_rows_that_were_never_written_are_told(tmp_path, fill):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root.create_dataset("X", shape=X.shape, dtype="f4", chunks=(50, 5), fillvalue=fill)[:100] = X[:100]
    if fill is not None and np.isnan(fill):
        with pytest.raises(InvalidDataError, match="NaN in row 100"):
            sf.ingest(tmp_path / "x.h5", tmp_path / "a")
        return
    with pytest.warns(FilledChunksWarning, match=r"3 of 5 chunks of /X of x\.h5 .* read as [07]\.0"):
        store = sf.ingest(tmp_path / "x.h5", tmp_path / "a")
    np.testing.assert_array_equal(store.X.compute(), np.where(np.arange(N_ROWS)[:, None] < 100, X, fill or 0))


def test_a_contiguous_dataset_without_any_value_is_told(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root.create_dataset("X", shape=X.shape, dtype="f4")
    with pytest.warns(FilledChunksWarning, match="1 of 1 chunks"):
        sf.ingest(tmp_path / "x.h5", tmp_path / "a")


def virtual(path):
    layout = h5py.VirtualLayout(shape=(2 * N_ROWS, 5), dtype="f4")
    for number in range(2):
        hdf5(path, X + number, file=f"{number}.h5", sides={})
        layout[number * N_ROWS : (number + 1) * N_ROWS] = h5py.VirtualSource(f"{number}.h5", "X", shape=X.shape)
    with h5py.File(path / "x.h5", "w") as root:
        root.create_virtual_dataset("X", layout)
    return path / "x.h5"


def test_a_dataset_made_of_others_is_read_and_not_known_by_its_file(tmp_path):
    file = virtual(tmp_path)
    assert not open_source(file, Names(), memory_limit=None).recognisable
    store = sf.ingest(file, tmp_path / "a", chunk_rows=50)
    np.testing.assert_array_equal(store.X.compute(), np.concatenate([X, X + 1]))
    hdf5(tmp_path, X + 2, file="1.h5", sides={})
    with pytest.raises(StoreExistsError):
        sf.ingest(file, tmp_path / "a", chunk_rows=50)
    (tmp_path / "1.h5").unlink()
    with pytest.raises(InvalidDataError, match=r"1\.h5 is not there"):
        sf.ingest(file, tmp_path / "b")


def test_values_in_raw_files_are_refused(tmp_path):
    (tmp_path / "raw").write_bytes(X.tobytes())
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root.create_dataset("X", shape=X.shape, dtype="f4", external=[(str(tmp_path / "raw"), 0, X.nbytes)])
    with pytest.raises(UnsupportedError, match="h5repack"):
        sf.ingest(tmp_path / "x.h5", tmp_path / "a")


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    file = hdf5(tmp_path)
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.partition(".")[0] == "h5py":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "streamfit.sources.hdf5", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UnsupportedError, match=r"pip install 'streamfit\[hdf5\]'"):
        sf.ingest(file, tmp_path / "a")
    monkeypatch.undo()
    importlib.import_module("streamfit.sources.hdf5")
    assert sf.ingest(file, tmp_path / "a").n_rows == N_ROWS
