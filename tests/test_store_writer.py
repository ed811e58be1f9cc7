from __future__ import annotations

import itertools
import json
import multiprocessing
import warnings

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.errors import (
    InvalidDataError,
    InvalidParameterError,
    StoreExistsError,
    StoreIncompleteError,
    StoreLockedError,
    StoreNotFoundError,
    UnsupportedError,
)
from streamfit.feature_store import open_store
from streamfit.store.manifest import load_manifest
from streamfit.store.writer import StoreWriter


def create(path, X, *, if_exists="resume", **changes):
    settings = {
        "n_features": X.shape[1],
        "dtype": X.dtype,
        "chunk_rows": 100,
        "feature_names": None,
        "nonfinite": "error",
        "source": {"kind": "test"},
        "if_exists": if_exists,
        "continues": False,
    }
    return StoreWriter.create(path, **{**settings, **changes})


def append_to(path, *, source="more", continues=False, **changes):
    return StoreWriter.append_to(path, source={"kind": source}, continues=continues, **changes)


def write(path, X, y=None, sample_weight=None, ids=None, *, piece=70, **changes):
    with create(path, X, **changes) as writer:
        for start in range(0, len(X), piece):
            cut = slice(start, start + piece)
            writer.append(X[cut], *(None if values is None else values[cut] for values in (y, sample_weight, ids)))
    return open_store(path)


def table(n_rows, n_features=3, dtype="f4", seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=50, size=(n_rows, n_features)).astype(dtype)


# -- what lies on disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 70, 100, 1_000])
@pytest.mark.parametrize("n_rows", [1, 99, 100, 101, 250])
def test_rows_come_back_through_plain_zarr_and_without_a_warning(tmp_path, n_rows, piece):
    X, w = table(n_rows), np.linspace(0, 1, n_rows)
    y = np.where(X[:, 0] > 0, "high", "low")
    store = write(tmp_path / "a", X, y, w, np.arange(n_rows), piece=piece)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = zarr.open_group(tmp_path / "a", mode="r")
        assert {name for name, _ in group.members()} == {"X", "y", "sample_weight", "ids", "streamfit"}
    np.testing.assert_array_equal(group["X"][:], X)
    np.testing.assert_array_equal(group["sample_weight"][:], w)
    np.testing.assert_array_equal(group["ids"][:], np.arange(n_rows))
    assert group["X"].chunks == (100, 3)
    assert group["X"].dtype == X.dtype
    assert np.isnan(group["X"].fill_value)
    assert group["y"].fill_value < 0
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    np.testing.assert_array_equal(store.sample_weight.compute(), w)
    np.testing.assert_array_equal(store.ids.compute(), np.arange(n_rows))


def test_a_store_is_a_function_of_its_rows(tmp_path):
    X = table(250)
    write(tmp_path / "a", X, piece=70)
    write(tmp_path / "b", X, piece=33)

    def content(folder):
        files = (file for file in folder.rglob("*") if file.is_file() and file.name != "lock")
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    assert content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize(
    ("X", "codec"),
    [
        pytest.param(np.random.default_rng(0).normal(size=(250, 3)), "raw", id="noise"),
        pytest.param(np.arange(750).reshape(250, 3), "blosc-lz4", id="small-integers"),
        pytest.param(np.zeros((250, 3), dtype="f4"), "blosc-lz4", id="zeros"),
        pytest.param(np.random.default_rng(0).integers(0, 2, (250, 40), dtype="u1"), "blosc-lz4-bits", id="flags"),
    ],
)
def test_chunks_are_compressed_where_it_pays_and_are_those_that_zarr_would_write(tmp_path, X, codec):
    store = write(tmp_path / "a", X)
    assert store.manifest.arrays["X"].codec == codec
    ours = {file.name: file.read_bytes() for file in (tmp_path / "a/X/c/1").iterdir()}
    array = zarr.open_group(tmp_path / "a", mode="r+")["X"]
    np.testing.assert_array_equal(array[:], X)
    array[100:200] = X[100:200]
    if codec == "raw":  # blosc may cut its blocks otherwise in another number of threads
        assert ours == {file.name: file.read_bytes() for file in (tmp_path / "a/X/c/1").iterdir()}
    np.testing.assert_array_equal(store.X.compute(), X)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param("f4", "f4", id="float32"),
        pytest.param("f8", "f8", id="float64"),
        pytest.param("f2", "f4", id="float16-widened"),
        pytest.param(">f8", "f8", id="big-endian-float"),
        pytest.param(">i2", "i2", id="big-endian-int"),
        pytest.param("i2", "i2", id="int16"),
        pytest.param("u1", "u1", id="uint8"),
        pytest.param("i8", "i8", id="int64"),
        pytest.param("u8", "u8", id="uint64"),
        pytest.param("?", "u1", id="bool"),
    ],
)
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_values_keep_their_type_whatever_their_layout(tmp_path, given, stored, order):
    X = np.random.default_rng(0).integers(0, 2 if given == "?" else 100, (120, 4)).astype(given)
    laid = {"C": X, "F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}[order]
    store = write(tmp_path / "a", laid)
    assert store.dtype == np.dtype(stored)
    np.testing.assert_array_equal(store.X.compute(), X.astype(stored))


def test_a_large_float64_stays_as_it_is(tmp_path):
    X = np.ones((150, 2))
    X[120, 1] = 1e39
    store = write(tmp_path / "a", X)
    assert store.take([120])[0, 1] == 1e39
    assert store.statistics.maximum[1] == 1e39


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        pytest.param(complex, "complex128", id="complex"),
        pytest.param(object, "object", id="object"),
        pytest.param([("a", "f4")], "dtype", id="structured"),
        pytest.param("M8[s]", "datetime64", id="datetime"),
        pytest.param("g", "longdouble|float128", id="longdouble"),
    ],
)
def test_what_is_no_number_is_refused_before_a_folder_is_made(tmp_path, dtype, message):
    with pytest.raises(InvalidDataError, match=message):
        create(tmp_path / "a", np.empty((1, 1), dtype=dtype))
    assert not (tmp_path / "a").exists()


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_nonfinite_value_is_named_by_row_and_column(tmp_path, value):
    X = table(250)
    X[170, 1] = value
    X[171, 0] = value
    with pytest.raises(InvalidDataError, match="row 170, column width") as caught:
        write(tmp_path / "a", X, feature_names=["length", "width", "height"])
    assert (caught.value.row, caught.value.column) == (170, "width")
    kept = write(tmp_path / "b", X, nonfinite="keep")
    np.testing.assert_array_equal(kept.X.compute(), X)
    assert kept.statistics.n_nonfinite.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        pytest.param({"X": np.zeros((5, 2), "f4")}, "Give 3 columns", id="columns"),
        pytest.param({"X": np.zeros((5, 3, 1), "f4")}, r"shape \(5, 3, 1\)", id="three-dimensions"),
        pytest.param({"X": np.zeros((5, 3), "f8")}, "float64 from row 4 on", id="wider-type"),
        pytest.param({"X": np.zeros((5, 3), "i8")}, "int64 from row 4 on", id="int64-into-float32"),
        pytest.param({"X": np.zeros((5, 3), "f4"), "y": [1] * 4}, "y has 4 rows and X has 5", id="length"),
        pytest.param({"X": np.zeros((5, 3), "f4"), "y": None}, "Some rows have y", id="no-labels"),
        pytest.param({"X": np.zeros((5, 3), "f4"), "sample_weight": [1, 1, 1, 1, np.nan]}, "row 8 is nan", id="weight"),
        pytest.param({"X": np.zeros((5, 3), "f4"), "ids": ["a"] * 5}, "signed integer", id="text-ids"),
    ],
)
def test_rows_that_do_not_fit_those_before_are_refused(tmp_path, second, message):
    first = {"X": np.zeros((4, 3), "f4"), "y": [0] * 4, "sample_weight": [1.0] * 4, "ids": range(4)}
    X = second["X"]
    full = {"y": [0] * len(X), "sample_weight": [1.0] * len(X), "ids": range(len(X)), **second}
    with create(tmp_path / "a", first["X"]) as writer:
        writer.append(**first)
        with pytest.raises(InvalidDataError, match=message):
            writer.append(**full)


def test_smaller_types_are_taken(tmp_path):
    with create(tmp_path / "a", np.empty((0, 1), "f8")) as writer:
        writer.append(np.full((2, 1), 0.5, "f4"))
        writer.append(np.full((2, 1), 7, "i4"))
    assert open_store(tmp_path / "a").X.compute().ravel().tolist() == [0.5, 0.5, 7.0, 7.0]


def test_no_rows_are_refused(tmp_path):
    with pytest.raises(InvalidDataError, match="0 rows"), create(tmp_path / "a", table(1)) as writer:
        writer.append(table(0))


def test_fewer_rows_than_expected_leave_the_store_incomplete(tmp_path):
    with pytest.raises(InvalidDataError, match="gave 250 rows instead of the 300"):
        write(tmp_path / "a", table(250), n_rows_expected=300)
    with pytest.raises(StoreIncompleteError):
        open_store(tmp_path / "a")


@pytest.mark.parametrize(
    "changes",
    [{"chunk_rows": 0}, {"chunk_rows": 10**12}, {"n_features": 0}, {"n_features": 1.5}, {"feature_names": ["a"]}],
)
def test_parameters_are_checked(tmp_path, changes):
    with pytest.raises(InvalidParameterError, match=str(next(iter(changes))).split("_")[-1]):
        create(tmp_path / "a", table(1), **changes)
    assert not (tmp_path / "a").exists()


def test_a_url_is_refused():
    with pytest.raises(UnsupportedError, match="s3://bucket"):
        create("s3://bucket/a.zarr", table(1))


# -- resuming ------------------------------------------------------------------------------------------


class StoppedError(Exception):
    """Stands for whatever ends a writer."""


def append_and_stop(writer, *rows):
    with writer:
        writer.append(*rows)
        raise StoppedError


def write_until(path, X, y, stop):
    with pytest.raises(StoppedError):
        append_and_stop(create(path, X, n_rows_expected=len(X)), X[:stop], y[:stop])


@pytest.mark.parametrize("stop", [0, 1, 99, 100, 250, 399])
def test_a_writer_that_stopped_is_gone_on_with(tmp_path, stop):
    X, y = table(400), np.where(np.arange(400) % 3, "a", "b")
    write_until(tmp_path / "a", X, y, stop)
    if stop < 100:
        assert not (tmp_path / "a").exists()  # nothing is left of what holds nothing
    else:
        with pytest.raises(StoreIncompleteError, match=f"{stop // 100 * 100} of 400 rows"):
            open_store(tmp_path / "a")
    before = {file: file.stat().st_ino for file in (tmp_path / "a").glob("X/c/*/*")}
    assert len(before) == stop // 100
    store = write(tmp_path / "a", X, y, n_rows_expected=400)
    # A file that is replaced gets another inode.
    assert {file: file.stat().st_ino for file in before} == before
    assert store.manifest.digest == write(tmp_path / "b", X, y, n_rows_expected=400).manifest.digest
    assert store.verify().ok


def test_a_damaged_chunk_is_written_again_by_a_resume(tmp_path):
    X, y = table(400), np.zeros(400, dtype=int)
    write_until(tmp_path / "a", X, y, 300)
    file = tmp_path / "a/X/c/1/0"
    file.write_bytes(file.read_bytes()[:-1])
    (tmp_path / "a/y/c/0").unlink()
    assert write(tmp_path / "a", X, y).verify().ok


@pytest.mark.parametrize("stop", [200, 400], ids=["incomplete", "complete"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda X: X + np.float32(1), "rows 0 to 99 of X", id="other-rows"),
        pytest.param(lambda X: np.r_[X[:150], X[149:]], "rows 100 to 199 of X", id="inserted-row"),
        pytest.param(lambda X: X[:100], "100 rows", id="whole-chunks-gone"),
        pytest.param(lambda X: X[:150], "rows 100 to 149|150 rows", id="end-within-a-chunk"),
    ],
)
def test_a_source_that_changed_is_named_and_the_store_stays(tmp_path, stop, change, message):
    X = table(400)
    if stop < len(X):
        write_until(tmp_path / "a", X, np.zeros(400), stop)
    else:
        write(tmp_path / "a", X, np.zeros(400))
    manifest = (tmp_path / "a/streamfit/manifest.json").read_bytes()
    changed = change(X)
    with pytest.raises(StoreExistsError, match="The source changed") as caught:
        write(tmp_path / "a", changed, np.zeros(len(changed)))
    assert caught.match(message)
    assert (tmp_path / "a/streamfit/manifest.json").read_bytes() == manifest
    assert write(tmp_path / "a", X, np.zeros(400)).verify().ok


@pytest.mark.parametrize("commit_seconds", [-1.0, 5.0])
def test_more_rows_than_a_complete_store_has_are_a_changed_source(tmp_path, monkeypatch, commit_seconds):
    monkeypatch.setattr("streamfit.store.committing._COMMIT_SECONDS", commit_seconds)
    X = table(300)
    write(tmp_path / "a", X[:200])
    with pytest.raises(StoreExistsError, match="rows beyond the 200 that"):
        write(tmp_path / "a", X)
    assert open_store(tmp_path / "a").verify().ok


@pytest.mark.parametrize(
    "changes", [{"source": {"kind": "other"}}, {"chunk_rows": 50}, {"nonfinite": "keep"}, {"feature_names": "abc"}]
)
def test_a_store_of_something_else_is_kept_unless_told(tmp_path, changes):
    write(tmp_path / "a", table(250))
    with pytest.raises(StoreExistsError, match=next(iter(changes))):
        write(tmp_path / "a", table(250), **changes)
    with pytest.raises(StoreExistsError, match="overwrite"):
        write(tmp_path / "a", table(250), if_exists="error")


def test_overwriting_leaves_no_old_rows_and_what_is_not_ours(tmp_path):
    write(tmp_path / "a", table(250), np.zeros(250), if_exists="error")
    (tmp_path / "a/notes.txt").write_text("mine")
    store = write(tmp_path / "a", table(50, 2, seed=1), if_exists="overwrite")
    assert store.shape == (50, 2)
    assert store.y is None
    assert not (tmp_path / "a/y").exists()
    assert [file.name for file in (tmp_path / "a/X/c").iterdir()] == ["0"]
    assert (tmp_path / "a/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("if_exists", ["resume", "overwrite"])
@pytest.mark.parametrize("kind", ["folder", "file", "zarr"])
def test_what_is_no_store_is_never_overwritten(tmp_path, kind, if_exists):
    path = tmp_path / "a"
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
        (path / "mine.txt").write_text("mine")
    else:
        zarr.create_group(path)
    with pytest.raises(StoreExistsError, match="not a streamfit store"):
        write(path, table(10), if_exists=if_exists)
    assert kind != "folder" or (path / "mine.txt").read_text() == "mine"


def test_an_empty_folder_is_taken(tmp_path):
    assert write(tmp_path, table(10)).n_rows == 10


def test_progress_is_committed_now_and_then_and_never_taken_back(tmp_path, monkeypatch):
    monkeypatch.setattr("streamfit.store.committing._COMMIT_SECONDS", -1.0)
    X = table(450)

    def committed():
        manifest = load_manifest(tmp_path / "a", allow_incomplete=True)
        return manifest.n_rows, manifest.complete

    with create(tmp_path / "a", X) as writer:
        for stop in (90, 180, 270, 360, 450):
            writer.append(X[stop - 90 : stop])
            assert committed() == (stop // 100 * 100, False)
    assert committed() == (450, True)
    with create(tmp_path / "a", X) as writer:
        for start in range(0, 450, 50):
            writer.append(X[start : start + 50])
            assert committed() == (450, True)
    with append_to(tmp_path / "a") as writer:
        writer.append(X)
        assert committed() == (450, True)
    assert committed() == (900, True)


# -- one writer ----------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_by_name_until_the_first_ends(tmp_path):
    X = table(10)
    with create(tmp_path / "a", X) as writer:
        writer.append(X)
        with pytest.raises(StoreLockedError, match=r"process [0-9]+ on"):
            create(tmp_path / "a", X, if_exists="overwrite")
    with append_to(tmp_path / "a"), pytest.raises(StoreLockedError):
        append_to(tmp_path / "a")


def _hold_and_die(path, ready):
    writer = create(path, table(10))
    writer.append(table(150))
    ready.set()
    multiprocessing.Event().wait()


def test_the_lock_dies_with_its_process(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold_and_die, args=(tmp_path / "a", ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(StoreLockedError, match=f"process {process.pid} "):
        write(tmp_path / "a", table(150))
    process.kill()
    process.join()
    assert write(tmp_path / "a", table(150)).n_rows == 150


# -- appending -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def single_run(tmp_path_factory):
    """Features, labels, weights and ids, and the store that one writer makes of them."""
    X = table(350)
    X[::7, 1] = np.nan
    y = np.array(["b", "a", "c", "dd"])[np.arange(350) % 3 + (np.arange(350) > 330)]
    w, ids = np.linspace(0, 1, 350), np.arange(350) * 3
    return (X, y, w, ids), write(tmp_path_factory.mktemp("single") / "a", X, y, w, ids, nonfinite="keep")


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(1, 349), max_size=3, unique=True))
def test_appends_give_the_store_of_a_single_run(tmp_path_factory, single_run, cuts):
    folder = tmp_path_factory.mktemp("appends")
    (X, y, w, ids), single = single_run
    bounds = [0, *sorted(cuts), 350]
    first, *rest = [slice(*pair) for pair in itertools.pairwise(bounds)]
    write(folder / "a", X[first], y[first], w[first], ids[first], nonfinite="keep")
    for cut in rest:
        with append_to(folder / "a") as writer:
            writer.append(X[cut], y[cut], w[cut], ids[cut])
    store = open_store(folder / "a")
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    # Compressed or not is decided by the first chunk, which may have been a short one; nothing else differs.
    body, expected = (json.loads(each.manifest.to_bytes()) for each in (store, single))
    for key in ("arrays", "appended", "extends"):
        del body[key], expected[key]
    assert body == expected


def test_a_target_within_the_last_chunk_only_is_found_again(tmp_path):
    X, y = table(150), np.r_[np.zeros(120), np.full(30, 0.5)]
    write(tmp_path / "a", X[:130], y[:130])
    with append_to(tmp_path / "a") as writer:
        writer.append(X[130:], y[130:])
    labels, expected = (open_store(tmp_path / "a").manifest.labels, write(tmp_path / "b", X, y).manifest.labels)
    assert labels.to_json() == expected.to_json()


def test_an_append_that_fails_leaves_the_store_as_it_was(tmp_path):
    X = table(250)
    before = write(tmp_path / "a", X[:150])
    with pytest.raises(StoppedError):
        append_and_stop(append_to(tmp_path / "a"), X[150:])
    after = open_store(tmp_path / "a")
    assert after.manifest.digest == before.manifest.digest
    assert after.verify().ok
    np.testing.assert_array_equal(after.X.compute(), X[:150])
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "a")["X"][:], X[:150])


def test_only_complete_stores_are_appended_to(tmp_path):
    with pytest.raises(StoreNotFoundError):
        append_to(tmp_path / "none")
    write_until(tmp_path / "a", table(400), np.zeros(400), 200)
    with pytest.raises(StoreIncompleteError):
        append_to(tmp_path / "a")


def test_an_append_needs_the_same_arrays(tmp_path):
    write(tmp_path / "a", table(250), np.zeros(250))
    with pytest.raises(InvalidDataError, match="y"), append_to(tmp_path / "a") as writer:
        writer.append(table(10))
    assert open_store(tmp_path / "a").n_rows == 250
