"""Files of NumPy and arrays of Zarr: several as one, members by name, what is missing, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import streamfit as sf
from streamfit.errors import BudgetError, FilledChunksWarning, InvalidDataError, InvalidParameterError
from streamfit.sources import aligned
from streamfit.sources.registry import open_source
from streamfit.sources.source import Names

N_ROWS = 237
rng = np.random.default_rng(19)
X = rng.normal(size=(N_ROWS, 5)).astype("f4")
y = rng.integers(0, 3, N_ROWS)


# -- several files -------------------------------------------------------------------------------------


def save_parts(path, *matrices):
    files = [path / f"part-{number}.npy" for number in range(len(matrices))]
    for file, matrix in zip(files, matrices, strict=True):
        np.save(file, matrix)
    return files


def test_files_are_read_in_the_order_of_the_list_and_of_their_names(tmp_path):
    files = save_parts(tmp_path, X[:100], X[:0], np.asfortranarray(X[100:]))
    np.testing.assert_array_equal(sf.ingest(files, tmp_path / "a").X.compute(), X)
    np.testing.assert_array_equal(sf.ingest(tmp_path / "*.npy", tmp_path / "b").X.compute(), X)
    turned = sf.ingest(files[::-1], tmp_path / "c")
    np.testing.assert_array_equal(turned.X.compute(), np.concatenate([X[100:], X[:100]]))


@pytest.mark.parametrize("start", [0, 1, 99, 100, 160, N_ROWS - 1, N_ROWS])
def test_files_from_any_row_on(tmp_path, monkeypatch, start):
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 30 * 20)
    source = open_source(save_parts(tmp_path, X[:100], X[100:160], X[160:]), Names(), memory_limit=None)
    assert source.recognisable
    assert source.seekable
    assert source.n_rows == N_ROWS
    blocks = [block.X for block in source.blocks(start)]
    np.testing.assert_array_equal(np.concatenate([X[:0], *blocks]), X[start:])


@pytest.mark.parametrize(
    ("types", "expected"), [(("i4", "f4"), "f8"), (("f4", "f8"), "f8"), (("?", "i2"), "i2"), ((">f4", "f2"), "f4")]
)
def test_files_of_several_types_get_the_one_that_holds_all(tmp_path, types, expected):
    parts = [np.array([[0, 1], [1, 0]]).astype(kind) for kind in types]
    store = sf.ingest(save_parts(tmp_path, *parts), tmp_path / "a")
    assert store.dtype == expected
    np.testing.assert_array_equal(store.X.compute(), np.concatenate([part.astype(expected) for part in parts]))


def test_a_whole_number_that_the_common_type_does_not_hold_is_refused_by_row(tmp_path):
    files = save_parts(tmp_path, np.zeros((3, 2)), np.array([[1, 2], [3, 2**53 + 1]]))
    with pytest.raises(InvalidDataError, match="9007199254740993 in row 4") as caught:
        sf.ingest(files, tmp_path / "a")
    assert caught.value.row == 4


def test_files_of_other_widths_are_named(tmp_path):
    files = save_parts(tmp_path, X, X[:, :4])
    with pytest.raises(InvalidDataError, match=r"part-1\.npy has 4 columns and part-0\.npy has 5"):
        sf.ingest(files, tmp_path / "a")


def test_npz_files_are_one_matrix_with_their_labels(tmp_path):
    for number, part in enumerate([slice(0, 90), slice(90, N_ROWS)]):
        np.savez(tmp_path / f"{number}.npz", Z=X[part], label=y[part])
    store = sf.ingest(tmp_path / "*.npz", tmp_path / "a", y="label", chunk_rows=50)
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)


# -- npy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(X[:, 0], r"x\.npy has 1 dimensions", id="1-D"),
        pytest.param(X[None], r"x\.npy has 3 dimensions", id="3-D"),
        pytest.param(X.astype(object), r"x\.npy holds pickled objects", id="objects"),
        pytest.param(np.zeros(3, [("a", "f4"), ("b", "i2")]), "fields a, b .*structured_to_unstructured", id="fields"),
        pytest.param(X.astype("c8"), r"x\.npy has dtype complex64", id="complex"),
        pytest.param(np.array([["a"]]), r"x\.npy has dtype <U1", id="texts"),
        pytest.param(X[:0], "0 rows and 5 columns", id="no-rows"),
        pytest.param(X[:, :0], "237 rows and 0 columns", id="no-columns"),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_that_are_no_matrix_of_numbers(tmp_path, kind, values, message):
    if kind == "npy":
        np.save(tmp_path / "x.npy", values)
    else:
        np.savez(tmp_path / "x.npz", X=values)
        message = message.replace(r"x\.npy", r"X of x\.npz")
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(tmp_path / f"x.{kind}", tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("header", [b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\x76\x00{'descr'", b"\x93NUM", b""])
def test_headers_that_cannot_be_read(tmp_path, header):
    (tmp_path / "x.npy").write_bytes(header)
    with pytest.raises(InvalidDataError, match=r"x\.npy is not an array as numpy\.save writes it"):
        sf.ingest(tmp_path / "x.npy", tmp_path / "a")


def test_a_short_npy_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content[:-1])
    monkeypatch.setattr("streamfit.sources.ingest.StoreWriter", None)
    with pytest.raises(InvalidDataError, match=r"x\.npy ends before its last row"):
        sf.ingest(tmp_path / "x.npy", tmp_path / "a")


# -- members of npz ------------------------------------------------------------------------------------


def test_the_member_is_named_or_the_only_matrix(tmp_path):
    np.savez(tmp_path / "one.npz", data=X, label=y)
    np.savez(tmp_path / "two.npz", data=X, other=X + 1, label=y)
    for number, source in enumerate(("one.npz", "one.npz::data", "two.npz::data")):
        store = sf.ingest(f"{tmp_path}/{source}", tmp_path / f"a{number}", y="label")
        np.testing.assert_array_equal(store.X.compute(), X)
    store = sf.append(f"{tmp_path}/two.npz::other", sf.ingest(f"{tmp_path}/two.npz::data", tmp_path / "b"))
    np.testing.assert_array_equal(store.X.compute(), np.concatenate([X, X + 1]))
    with pytest.raises(InvalidDataError, match=r"2 matrices: data \(237, 5\), other .*Name one: two\.npz::data"):
        sf.ingest(tmp_path / "two.npz", tmp_path / "c")
    with pytest.raises(InvalidParameterError, match=r"no member 'X' for X\. It has data"):
        sf.ingest(f"{tmp_path}/one.npz::X", tmp_path / "c")
    with pytest.raises(InvalidParameterError, match=r"no member 'lable' for y\. It has data .*label \(237,\)"):
        sf.ingest(tmp_path / "one.npz", tmp_path / "c", y="lable")
    assert sf.ingest(f"{tmp_path}/two.npz::other", tmp_path / "c", y="data").n_outputs == 5


def test_a_name_with_colons_is_a_name(tmp_path):
    np.save(tmp_path / "odd::name.npy", X)
    assert sf.ingest(tmp_path / "odd::name.npy", tmp_path / "a").n_rows == N_ROWS


def test_labels_of_an_npz_are_counted_in_the_limit(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((2_000_000, 1), "i1"), label=np.zeros(2_000_000))
    with pytest.raises(BudgetError, match="y as a whole"):
        sf.ingest(tmp_path / "x.npz", tmp_path / "a", y="label", memory_limit="60MB")


# -- zarr ----------------------------------------------------------------------------------------------


def group_of(path, members, version=3):
    group = zarr.create_group(path / "g", zarr_format=version)
    for name, values in members.items():
        chunks = tuple(min(50, size) for size in values.shape)
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks)[...] = values
    return group


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("give", [lambda g: g, lambda g: g.store.root / g.path], ids=["group", "path"])
def test_a_group_brings_its_labels(tmp_path, version, give):
    members = {"X": X, "other": X + 1, "meta/label": y + 1, "weight": rng.random(N_ROWS) + 1}
    group = group_of(tmp_path, members, version)
    store = sf.ingest(give(group), tmp_path / "a", y="meta/label", sample_weight="weight", chunk_rows=64)
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), members["meta/label"])
    np.testing.assert_array_equal(store.sample_weight.compute(), members["weight"])


def test_groups_without_one_matrix(tmp_path):
    group = group_of(tmp_path, {"a": X, "deep/b": X, "v": y + 1})
    with pytest.raises(InvalidDataError, match=r"g has 2 matrices: .*Name one: g/"):
        sf.ingest(group, tmp_path / "a")
    np.testing.assert_array_equal(sf.ingest(tmp_path / "g/deep", tmp_path / "b").X.compute(), X)
    np.testing.assert_array_equal(sf.ingest(tmp_path / "g/deep/b", tmp_path / "c").X.compute(), X)
    with pytest.raises(InvalidParameterError, match=r"deep has no member 'lable' for y\. It has b"):
        sf.ingest(tmp_path / "g/deep", tmp_path / "d", y="lable")
    with pytest.raises(InvalidDataError, match=r"no matrix .* It has values \(3,\)"):
        sf.ingest(group_of(tmp_path / "other", {"values": np.ones(3)}), tmp_path / "d")


@pytest.mark.parametrize("fill", [0, 7, np.nan], ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_a_lost_chunk_is_told_or_refused(tmp_path, version, fill):
    array = zarr.create_array(
        tmp_path / "x", shape=X.shape, chunks=(50, 5), dtype="f4", fill_value=fill, zarr_format=version
    )
    array[:] = X
    sf.ingest(array, tmp_path / "whole")
    (tmp_path / ("x/2.0" if version == 2 else "x/c/2/0")).unlink()
    if np.isnan(fill):
        with pytest.raises(InvalidDataError, match="NaN in row 100, column 0"):
            sf.ingest(tmp_path / "x", tmp_path / "a")
        return
    with pytest.warns(FilledChunksWarning, match=rf"1 of 5 chunks of x are not stored, and are read as {fill}\.0"):
        store = sf.ingest(tmp_path / "x", tmp_path / "a")
    lost = (np.arange(N_ROWS)[:, None] // 50) == 2
    np.testing.assert_array_equal(store.X.compute(), np.where(lost, np.float32(fill), X))


def test_chunks_that_are_too_tall_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(aligned, "_MOST_NBYTES", 60 * 20)
    array = zarr.create_array(tmp_path / "x", shape=X.shape, chunks=(N_ROWS, 1), dtype="f4")
    array[:] = X
    source = open_source(array, Names(), memory_limit=None)
    blocks = [block.X for block in source.blocks(0)]
    assert max(map(len, blocks)) <= 60
    np.testing.assert_array_equal(np.concatenate(blocks), X)
