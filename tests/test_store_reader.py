from __future__ import annotations

import copy
import dataclasses
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from streamfit.errors import (
    InvalidParameterError,
    StoreCorruptError,
    StoreError,
    StoreNotFoundError,
    UnsupportedError,
)
from streamfit.feature_store import FeatureStore, open_store
from streamfit.sources.ingest import ingest
from streamfit.store.reader import StoreRef, open_reader
from streamfit.store.scratch import Scratch
from streamfit.store.writer import StoreWriter

N_ROWS, CHUNK_ROWS = 350, 100


def compressible(rng):
    return rng.integers(0, 9, (N_ROWS, 4))


def noise(rng):
    return rng.normal(size=(N_ROWS, 4)).astype("f4")


@pytest.fixture(params=[noise, compressible], ids=["raw", "blosc"])
def store(request, tmp_path):
    """Four chunks, the last one short, with labels and weights."""
    X = request.param(np.random.default_rng(0))
    y = np.array(["a", "b", "c"])[np.arange(N_ROWS) % 3]
    return ingest(X, tmp_path / "a", y=y, sample_weight=np.linspace(1, 2, N_ROWS), chunk_rows=CHUNK_ROWS)


# -- damage, by every way to read ----------------------------------------------------------------------

READ_PATHS = {
    "read_chunk": lambda store, chunk: store.reader.read_chunk(chunk),
    "read_chunk_into_a_buffer": lambda store, chunk: store.reader.read_chunk(
        chunk, out=np.empty((CHUNK_ROWS, 4), store.dtype)
    ),
    "take": lambda store, chunk: store.take([chunk * CHUNK_ROWS + 1]),
    "X": lambda store, _: store.X.compute(scheduler="sync"),
    "X_of_a_pickled_store": lambda store, _: pickle.loads(pickle.dumps(store)).X.sum().compute(),
    "stream": lambda store, _: list(store.stream(store.plan(batch_size=50))),
    "map": lambda store, _: store.map(_row_sums, model=None, dtype="f8").compute(),
}


def _row_sums(_, chunk):
    return chunk.X.sum(axis=1, dtype="f8")


def flip_a_bit(files, chunk):
    content = bytearray(files[chunk].read_bytes())
    content[len(content) // 3] ^= 0x10
    files[chunk].write_bytes(content)


def flip_the_last_committed_bit(files, chunk):
    content = bytearray(files[chunk].read_bytes())
    content[-1 if chunk < 3 else len(content) // 2 - 1] ^= 0x01
    files[chunk].write_bytes(content)


def truncate(files, chunk):
    content = files[chunk].read_bytes()
    files[chunk].write_bytes(content[: len(content) - 1])


def empty(files, chunk):
    files[chunk].write_bytes(b"")


def lengthen(files, chunk):
    files[chunk].write_bytes(files[chunk].read_bytes() + b"\0")


def zero(files, chunk):
    files[chunk].write_bytes(bytes(files[chunk].stat().st_size))


def delete(files, chunk):
    files[chunk].unlink()


def delete_all(files, chunk):
    shutil.rmtree(files[chunk].parent.parent)


def replace_by_a_folder(files, chunk):
    files[chunk].unlink()
    files[chunk].mkdir()


def swap(files, chunk):
    other = files[(chunk + 1) % 3]
    mine, theirs = files[chunk].read_bytes(), other.read_bytes()
    files[chunk].write_bytes(theirs)
    other.write_bytes(mine)


DAMAGES = [flip_a_bit, flip_the_last_committed_bit, truncate, empty, lengthen, zero, delete, delete_all]
DAMAGES += [replace_by_a_folder, swap]


def files_of(store, array):
    key = "{}/0" if array == "X" else "{}"
    return [store.reader._folder / array / "c" / key.format(chunk) for chunk in range(4)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_by_every_way_to_read(store, damage):
    damage(files_of(store, "X"), 1)
    for name, read in READ_PATHS.items():
        with pytest.raises(StoreCorruptError, match="of X") as caught:
            read(store, 1)
        error = caught.value
        assert error.array == "X", name
        first = 0 if damage is delete_all and name not in ("take", "read_chunk", "read_chunk_into_a_buffer") else 1
        # Several tasks may meet several damaged chunks; the first to fail is the one that is named.
        assert error.chunk == first or (damage in (swap, delete_all) and error.chunk in range(4)), name
        assert error.rows == (error.chunk * 100, min(error.chunk * 100 + 100, N_ROWS)), name


@pytest.mark.parametrize("chunk", [0, 3], ids=["first", "short-last"])
@pytest.mark.parametrize("damage", [flip_the_last_committed_bit, truncate, delete])
def test_the_ends_are_watched_too(store, damage, chunk):
    damage(files_of(store, "X"), chunk)
    with pytest.raises(StoreCorruptError, match=f"Chunk {chunk} of X"):
        store.reader.read_chunk(chunk)


@pytest.mark.parametrize("array", ["y", "sample_weight"])
@pytest.mark.parametrize("damage", [flip_a_bit, truncate, delete, swap])
def test_damaged_labels_and_weights_are_named(store, damage, array):
    damage(files_of(store, array), 1)
    lazy = getattr(store, array)
    for read in (lambda: store.reader.read_chunk(1), lambda: store.reader.take(array, [150]), lazy.compute):
        with pytest.raises(StoreCorruptError, match=f"of {array} "):
            read()
    if array == "y":
        with pytest.raises(StoreCorruptError, match="Chunk 1 of y"):
            store.take_labels([150])


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_reports_every_bad_chunk(store, damage):
    assert store.verify().ok
    assert store.verify().n_chunks == 12
    damage(files_of(store, "X"), 1)
    files_of(store, "sample_weight")[3].unlink()
    report = store.verify()
    expected = {swap: [1, 2], delete_all: [0, 1, 2, 3]}.get(damage, [1])
    assert not report.ok
    assert [(bad.array, bad.chunk) for bad in report.bad_chunks] == [
        *(("X", chunk) for chunk in expected),
        ("sample_weight", 3),
    ]
    assert report.bad_chunks[-1].rows == (300, 350)
    assert "missing" in report.bad_chunks[-1].reason


@pytest.mark.parametrize("codec", ["blosc-lz4", "blosc-lz4-bits", "zstd"])
def test_any_bit_of_a_compressed_header_may_flip(tmp_path, monkeypatch, codec):
    monkeypatch.setattr("streamfit.store.committing.choose_codec", lambda *_: codec)
    store = ingest(compressible(np.random.default_rng(0)), tmp_path / "a", chunk_rows=CHUNK_ROWS)
    file = files_of(store, "X")[0]
    content = file.read_bytes()
    assert store.manifest.arrays["X"].codec == codec
    for position in [*range(32), *range(32, len(content), 97)]:
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            file.write_bytes(damaged)
            try:
                chunk = store.reader.read_chunk(0)
            except StoreCorruptError:
                continue
            # Some bits, such as those for other programs, do not matter to the rows.
            np.testing.assert_array_equal(chunk.X, compressible(np.random.default_rng(0))[:CHUNK_ROWS])


def test_a_chunk_of_fill_values_passes_and_is_missed_when_it_is_gone(tmp_path):
    X = np.full((200, 3), np.nan)
    store = ingest(X, tmp_path / "a", chunk_rows=100, nonfinite="keep")
    np.testing.assert_array_equal(store.X.compute(), X)
    shutil.rmtree(tmp_path / "a/X/c/1")
    with pytest.raises(StoreCorruptError, match=r"Chunk 1 of X .rows 100 to 199.*missing"):
        store.reader.read_chunk(1)


def test_a_damaged_manifest_is_noticed(store):
    file = store.reader._folder / "streamfit/manifest.json"
    content = bytearray(file.read_bytes())
    content[content.index(b'"n_rows":') + 9] ^= 0x01
    file.write_bytes(content)
    with pytest.raises(StoreCorruptError, match="manifest"):
        open_store(store.path)


@pytest.mark.parametrize("verify", ["Always", "", True, False, None, 1, ["always"]])
def test_checksums_are_not_turned_off_by_a_wrong_word(store, verify):
    with pytest.raises(InvalidParameterError, match="verify must be 'always', 'first' or 'never', got"):
        open_store(store.path, verify=verify)
    if verify is not None:  # as the store was opened
        with pytest.raises(InvalidParameterError, match="verify must be"):
            store.stream(store.plan(batch_size=50), verify=verify)


@pytest.mark.parametrize("path", [None, 3, b"a", "~nobody-of-this-name/a"])
def test_what_is_no_path_is_named(path):
    with pytest.raises(InvalidParameterError, match="path of a folder is needed"):
        open_store(path)


def test_no_store(tmp_path):
    with pytest.raises(StoreNotFoundError, match="no store at"):
        open_store(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        open_store(tmp_path)


# -- when checksums are compared -----------------------------------------------------------------------


def test_first_compares_once_in_a_process_and_never_not_at_all(tmp_path):
    store = ingest(noise(np.random.default_rng(0)), tmp_path / "a", chunk_rows=CHUNK_ROWS)
    once, never = (open_store(store.path, verify=mode).reader for mode in ("first", "never"))
    once.read_chunk(0)
    for chunk in (0, 1):
        flip_a_bit(files_of(store, "X"), chunk)
    assert once.read_chunk(0).n_rows == never.read_chunk(1).n_rows == 100
    for reader, chunk in ((once, 1), (store.reader, 0)):
        with pytest.raises(StoreCorruptError):
            reader.read_chunk(chunk)


@pytest.mark.parametrize("mode", ["first", "never"])
def test_a_missing_file_is_an_error_in_every_mode(store, mode):
    reader = open_store(store.path, verify=mode).reader
    reader.read_chunk(1)
    delete(files_of(store, "X"), 1)
    with pytest.raises(StoreCorruptError, match="missing"):
        reader.read_chunk(1)


# -- buffers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("extra", [0, 17])
def test_a_chunk_is_a_view_of_the_buffer(store, index, extra):
    out = np.zeros((CHUNK_ROWS + extra, 4), dtype=store.dtype)
    chunk = store.reader.read_chunk(index, out=out)
    assert np.shares_memory(chunk.X, out)
    assert (chunk.index, chunk.start, chunk.stop) == (index, index * 100, min(index * 100 + 100, N_ROWS))
    np.testing.assert_array_equal(chunk.X, store.reader.read_chunk(index).X)
    assert chunk.X.shape == (chunk.n_rows, 4)
    assert not out[CHUNK_ROWS:].any()


@pytest.mark.parametrize(
    "out",
    [
        pytest.param(np.empty((99, 4), "f4"), id="too-short"),
        pytest.param(np.empty((100, 5), "f4"), id="too-wide"),
        pytest.param(np.empty((100, 4), "f8"), id="dtype"),
        pytest.param(np.empty((100, 4), ">f4"), id="byte-order"),
        pytest.param(np.empty((100, 4), "f4", order="F"), id="fortran"),
    ],
)
def test_buffers_that_do_not_fit_are_refused(tmp_path, out):
    store = ingest(noise(np.random.default_rng(0)), tmp_path / "a", chunk_rows=CHUNK_ROWS)
    with pytest.raises(InvalidParameterError, match="out must be"):
        store.reader.read_chunk(0, out=out)


def test_labels_alone(store):
    """What is damaged besides does not matter to them."""
    delete_all(files_of(store, "X"), 0)
    delete_all(files_of(store, "sample_weight"), 0)
    expected = [["a", "b", "c"][row % 3] for row in range(300, 350)]
    assert store.reader.read_labels(3).tolist() == expected
    assert store.take_labels(np.arange(300, 350)).tolist() == expected
    assert store[290:].take_labels(np.arange(10, 60)).tolist() == expected


def test_features_alone(store):
    X = store.take(np.arange(350))
    delete_all(files_of(store, "y"), 0)
    delete_all(files_of(store, "sample_weight"), 0)
    np.testing.assert_array_equal(store.take([349, 7, 7]), X[[349, 7, 7]])
    np.testing.assert_array_equal(store[5:].take([344, 2, 2]), X[[349, 7, 7]])


@pytest.mark.parametrize("index", [-1, 4])
def test_chunks_that_do_not_exist(store, index):
    with pytest.raises(IndexError):
        store.reader.read_chunk(index)


def test_threads_share_a_reader(store):
    X = store.X.compute()

    def read(index):
        return store.reader.read_chunk(index % 4).X

    with ThreadPoolExecutor(4) as pool:
        for index, rows in enumerate(pool.map(read, range(80))):
            np.testing.assert_array_equal(rows, X[index % 4 * 100 : index % 4 * 100 + 100])


# -- versions ------------------------------------------------------------------------------------------


def appended(store, n_rows):
    with StoreWriter.append_to(store.path, source={"kind": "more"}, continues=False) as writer:
        X = np.arange(n_rows * 4).reshape(n_rows, 4) % 9
        writer.append(X.astype(store.dtype), ["zz"] * n_rows, np.ones(n_rows))


@pytest.mark.parametrize("n_rows", [1, 50, 51, 500])
def test_an_append_disturbs_nobody(store, n_rows):
    X, y = store.X.compute(), store.y.compute()
    lazy = store.X
    sent = pickle.dumps(store)
    appended(store, n_rows)
    appended(store, n_rows)
    open_reader.cache_clear()  # as in a new process
    for old in (store, pickle.loads(sent)):
        assert old.shape == (N_ROWS, 4)
        np.testing.assert_array_equal(old.X.compute(), X)
        np.testing.assert_array_equal(old.y.compute(), y)
        assert old.classes.tolist() == ["a", "b", "c"]
        assert old.verify().ok
    np.testing.assert_array_equal(lazy.compute(), X)
    new = open_store(store.path)
    assert new.n_rows == N_ROWS + 2 * n_rows
    assert new.classes.tolist() == ["a", "b", "c", "zz"]
    np.testing.assert_array_equal(new.take(np.arange(N_ROWS)), X)


def test_a_store_that_is_written_anew_is_not_taken_for_the_old_one(store):
    sent, lazy = pickle.dumps(store), store.X
    ingest(store.X.compute() + 1, store.path, if_exists="overwrite", chunk_rows=CHUNK_ROWS)
    with pytest.raises(StoreCorruptError, match=r"written anew since it was opened\. Open it again"):
        lazy.compute()
    open_reader.cache_clear()
    with pytest.raises(StoreError, match="written anew"):
        pickle.loads(sent)


def test_readers_are_cached_and_pickle_as_their_ref(store):
    assert open_reader(store.ref) is open_reader(StoreRef(store.path, store.manifest.digest))
    assert pickle.loads(pickle.dumps(store.reader)) is store.reader
    assert len(pickle.dumps(store.reader)) < 1_000
    other = dataclasses.replace(store.ref, verify="never")
    assert open_reader(other) is not store.reader
    assert isinstance(pickle.loads(pickle.dumps(store)), FeatureStore)


# -- scratch -------------------------------------------------------------------------------------------


def test_scratch_goes_with_its_object_and_not_with_its_copies(tmp_path):
    scratch = Scratch.create(tmp_path / "below")
    path = scratch.path
    (scratch.new("store")).mkdir()
    pickled = pickle.loads(pickle.dumps(scratch))
    assert pickled.path == path
    assert pickled.new("store").name == "store-1"
    del pickled
    assert path.exists()
    del scratch
    assert not path.exists()
    assert (tmp_path / "below").exists()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_in_this_process_holds_the_same_scratch(tmp_path, duplicate):
    scratch = Scratch.create(tmp_path)
    path = scratch.path
    (held,) = duplicate([scratch])
    del scratch
    assert path.exists()
    assert held.new("store") != held.new("store")
    del held
    assert not path.exists()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/below", 3, "s3://bucket"])
def test_a_scratch_that_cannot_be_made_is_named(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises((InvalidParameterError, UnsupportedError), match=str(place)):
        Scratch.create(place)
