from __future__ import annotations

import numpy as np
import pytest
import zarr

import streamfit as sf
from streamfit.errors import InvalidDataError, StoreExistsError, StoreIncompleteError, StoreNotFoundError
from streamfit.store.attach import attach_columns
from streamfit.store.writer import StoreWriter

N_ROWS = 250


@pytest.fixture
def bare(tmp_path):
    X = np.arange(N_ROWS * 2.0).reshape(N_ROWS, 2)
    return sf.ingest(X, tmp_path / "a.zarr", chunk_rows=100)


def pieces(values, size):
    return (values[start : start + size] for start in range(0, len(values), size))


COLUMNS = {
    "y": np.array(["b", "a", "cc"])[np.arange(N_ROWS) % 3],
    "sample_weight": np.linspace(0, 1, N_ROWS),
    "ids": np.arange(N_ROWS) * 7 - 3,
}


@pytest.mark.parametrize("size", [1, 70, 100, 250, 1_000])
def test_columns_attached_are_those_of_an_ingest(bare, tmp_path, size):
    attach_columns(bare.path, {name: pieces(values, size) for name, values in COLUMNS.items()}, if_exists="resume")
    store = sf.open_store(bare.path)
    other = sf.ingest(bare.X.compute(), tmp_path / "b.zarr", chunk_rows=100, **COLUMNS)
    for name, values in COLUMNS.items():
        np.testing.assert_array_equal(getattr(store, name).compute(), values)
        np.testing.assert_array_equal(zarr.open_group(store.path)[name][:], zarr.open_group(other.path)[name][:])
    assert store.manifest.checksums == other.manifest.checksums
    assert store.manifest.labels.to_json() == other.manifest.labels.to_json()
    assert store.manifest.whole_labels.to_json() == other.manifest.whole_labels.to_json()
    assert store.verify().ok
    assert bare.y is None  # who opened it before knows nothing of labels
    assert bare.verify().ok


def test_labels_replaced_leave_those_that_others_read(bare):
    for round_ in range(3):
        attach_columns(bare.path, {"y": [np.full(N_ROWS, round_)]}, if_exists="overwrite")
        before = sf.open_store(bare.path)
        attach_columns(bare.path, {"y": [np.full(N_ROWS, -round_)]}, if_exists="overwrite")
        after = sf.open_store(bare.path)
        assert set(before.y.compute()) == {round_}
        assert set(after.y.compute()) == {-round_}
        assert after.classes.tolist() == [-round_]
        assert before.verify().ok
        assert after.verify().ok


def test_rows_are_appended_behind_attached_labels(bare):
    y = np.r_[np.zeros(240, dtype=int), np.arange(10)]
    attach_columns(bare.path, {"y": [y]}, if_exists="resume")
    with StoreWriter.append_to(bare.path, source={"kind": "more"}, continues=False) as writer:
        writer.append(np.ones((60, 2)), np.full(60, 5))
    store = sf.open_store(bare.path)
    expected = np.r_[y, np.full(60, 5)]
    np.testing.assert_array_equal(store.y.compute(), expected)
    classes, first, counts = np.unique(expected, return_index=True, return_counts=True)
    np.testing.assert_array_equal(store.classes, classes)
    np.testing.assert_array_equal(store.class_counts, counts)
    np.testing.assert_array_equal(store.manifest.labels.first_rows, first)


def test_a_store_of_one_short_chunk(tmp_path):
    store = sf.ingest(np.ones((3, 1)), tmp_path / "a.zarr", chunk_rows=100)
    attach_columns(store.path, {"y": [["x"], ["y", "x"]]}, if_exists="resume")
    with StoreWriter.append_to(store.path, source={"kind": "more"}, continues=False) as writer:
        writer.append(np.ones((1, 1)), ["z"])
    assert sf.open_store(store.path).y.compute().tolist() == ["x", "y", "x", "z"]


def test_a_column_that_is_there_is_kept(bare):
    attach_columns(bare.path, {"y": [np.zeros(N_ROWS)]}, if_exists="resume")
    with pytest.raises(StoreExistsError, match="has y already"):
        attach_columns(bare.path, {"y": [np.ones(N_ROWS)], "ids": [np.arange(N_ROWS)]}, if_exists="resume")
    assert sf.open_store(bare.path).ids is None


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        pytest.param("y", np.zeros(N_ROWS - 1), "y has 249 values and the store has 250", id="too-few"),
        pytest.param("y", np.zeros(N_ROWS + 1), "y has 251 values or more and the store has 250", id="too-many"),
        pytest.param("y", np.zeros(0), "y has 0 values", id="none"),
        pytest.param("y", [None] * N_ROWS, "label of row 0 is missing", id="missing"),
        pytest.param("sample_weight", np.r_[np.ones(N_ROWS - 1), np.nan], "weight of row 249 is nan", id="nan"),
        pytest.param("ids", ["a"] * N_ROWS, "ids is <U1", id="text-ids"),
    ],
)
def test_values_that_do_not_fit_change_nothing(bare, name, values, message):
    with pytest.raises(InvalidDataError, match=message):
        attach_columns(bare.path, {name: pieces(values, 100)}, if_exists="resume")
    assert sf.open_store(bare.path).manifest.digest == bare.manifest.digest
    attach_columns(bare.path, {name: [COLUMNS[name]]}, if_exists="resume")
    np.testing.assert_array_equal(getattr(sf.open_store(bare.path), name).compute(), COLUMNS[name])


def test_only_complete_stores(tmp_path):
    with pytest.raises(StoreNotFoundError):
        attach_columns(tmp_path / "none", {"y": [[1]]}, if_exists="resume")

    def broken():
        yield np.ones((200, 1))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        sf.ingest(broken(), tmp_path / "a.zarr", chunk_rows=100)
    with pytest.raises(StoreIncompleteError):
        attach_columns(tmp_path / "a.zarr", {"y": [np.ones(200)]}, if_exists="resume")
