"""What machines and people do to a store besides reading and writing it: power cuts, clocks, forks, stray files."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pickle
import shutil
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import streamfit as sf
from streamfit.errors import (
    InvalidParameterError,
    StoreCorruptError,
    StoreExistsError,
    StoreLockedError,
    StoreNotFoundError,
    StoreWriteError,
    UnsupportedError,
)
from streamfit.sources import append as append_module
from streamfit.store import committing, versions
from streamfit.store.atomic import flush_files, make_folder
from streamfit.store.format import local_folder
from streamfit.store.lock import StoreLock
from streamfit.store.reader import open_reader
from streamfit.store.writer import StoreWriter

CHUNK_ROWS = 10


def table(n_rows, seed=0):
    return np.random.default_rng(seed).standard_normal((n_rows, 3))


def ingest(path, X, **changes):
    return sf.ingest(X, path, **{"chunk_rows": CHUNK_ROWS, **changes})


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Stopped(BaseException):
    """Stands for a kill: nothing but the lock is let go."""


def stop_append(monkeypatch, store, X, *, after, committed):
    """Append until so many chunks are written, with or without a journal of them."""
    real, left = committing.write_chunk_file, [after]

    def write_chunk_file(*args):
        if not left[0]:
            raise Stopped
        left[0] -= 1
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(committing, "write_chunk_file", write_chunk_file)
        patch.setattr(committing, "_COMMIT_SECONDS", -1.0 if committed else 1e9)
        patch.setattr(StoreWriter, "close", lambda writer, **_: writer._lock.release())
        with pytest.raises(Stopped):
            sf.append(X, store)


def test_an_append_that_stopped_does_not_trust_chunks_that_another_one_wrote_over(tmp_path, monkeypatch):
    X, first, second = table(25), table(40, 1), table(50, 2)
    store = ingest(tmp_path / "a", X)
    stop_append(monkeypatch, store, first, after=3, committed=True)
    stop_append(monkeypatch, store, second, after=2, committed=False)
    grown = sf.append(first, store)
    assert grown.verify().ok
    np.testing.assert_array_equal(grown.X.compute(), np.vstack([X, first]))


# -- power cuts ---------------------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch):
    """What a power cut would leave: the order in which files and folders are flushed and renamed."""
    events = []
    fsync, replace = os.fsync, Path.replace

    def spy_fsync(descriptor):
        events.append(("flush", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        fsync(descriptor)

    def spy_replace(self, target):
        events.append(("rename", str(self), str(target), Path(target).exists()))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    return events


def test_no_committed_chunk_is_replaced_by_one_that_a_power_cut_would_take(tmp_path, disk):
    ingest(tmp_path / "a", table(25), y=np.arange(25) % 2)
    disk.clear()
    sf.append(table(25, 1), tmp_path / "a", y=np.arange(25) % 2)
    replaced = [(number, event[1]) for number, event in enumerate(disk) if event[0] == "rename" and event[3]]
    assert {Path(file).parent.parent.name for _, file in replaced} >= {"c"}, "the last chunk is written anew"
    for number, file in replaced:
        assert ("flush", file) in disk[:number], file


@pytest.mark.parametrize("grow", [False, True], ids=["ingest", "append"])
def test_a_manifest_is_replaced_once_all_that_it_promises_is_on_the_disk(tmp_path, disk, grow):
    folder = tmp_path / "new" / "a"
    ingest(folder, table(25), y=np.arange(25) % 2)
    if grow:
        disk.clear()
        sf.append(table(25, 1), folder, y=np.arange(25) % 2)
    target = str(folder / "streamfit" / "manifest.json")
    commit = max(number for number, event in enumerate(disk) if event[0] == "rename" and event[2] == target)
    flushed = {event[1] for event in disk[:commit] if event[0] == "flush"}
    chunks = range(2, 5) if grow else range(3)
    files = {folder / "X" / "c" / str(chunk) / "0" for chunk in chunks} | {folder / "y" / "c" / str(c) for c in chunks}
    folders = {path for file in files for path in file.parents if tmp_path / "new" in path.parents}
    assert {str(path) for path in files | folders | ({folder} if grow else {tmp_path, tmp_path / "new"})} <= flushed
    assert ("flush", str(folder / "streamfit")) in disk[commit:]


def test_every_folder_down_to_a_file_is_flushed(tmp_path, disk):
    make_folder(tmp_path / "a" / "b" / "c")
    assert [event[1] for event in disk] == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    disk.clear()
    file = tmp_path / "a" / "b" / "c" / "file"
    file.touch()
    flush_files(tmp_path / "a", [file])
    assert {event[1] for event in disk} == {str(path) for path in [file, *file.parents[:3]]}


# -- locks ----------------------------------------------------------------------------------------------------


def test_a_lock_that_cannot_be_written_is_not_held(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreWriteError, match="No space left on device"):
            ingest(tmp_path / "a", table(25))
    assert ingest(tmp_path / "a", table(25)).n_rows == 25


def test_a_process_that_was_forked_meanwhile_does_not_hold_the_lock(tmp_path):
    lock = StoreLock(tmp_path)
    ended = multiprocessing.get_context("fork").Event()
    process = multiprocessing.get_context("fork").Process(target=ended.wait)
    process.start()
    try:
        lock.release()
        StoreLock(tmp_path).release()
    finally:
        ended.set()
        process.join()


@pytest.mark.parametrize("grow", [False, True], ids=["ingest", "append"])
@pytest.mark.parametrize("hazard", ["removed", "moved", "written by another one"])
def test_a_folder_that_is_taken_away_from_its_writer_is_not_written_any_more(tmp_path, grow, hazard):
    X = table(60)
    if grow:
        ingest(tmp_path / "a", table(10, 1))

    def batches():
        yield X[:30]
        if hazard == "moved":
            (tmp_path / "a").rename(tmp_path / "b")
        else:
            shutil.rmtree(tmp_path / "a")
        if hazard == "written by another one":
            ingest(tmp_path / "a", table(25, 2))
        yield X[30:]

    with pytest.raises(StoreWriteError, match="was removed or moved while it was written"):
        sf.append(batches, tmp_path / "a") if grow else ingest(tmp_path / "a", batches)
    if hazard == "written by another one":
        store = sf.open_store(tmp_path / "a")
        assert store.verify().ok
        np.testing.assert_array_equal(store.X.compute(), table(25, 2))
    else:
        assert not (tmp_path / "a").exists()
    if hazard == "moved" and grow:
        assert sf.open_store(tmp_path / "b").verify().ok


def test_columns_are_attached_to_no_folder_but_the_one_that_was_locked(tmp_path):
    ingest(tmp_path / "a", table(25))

    def moved():
        (tmp_path / "a").rename(tmp_path / "b")
        return np.arange(25)

    labels = da.from_delayed(_delayed(moved), shape=(25,), dtype=np.int64)
    with pytest.raises(StoreWriteError, match="was removed or moved while it was written"):
        sf.attach(tmp_path / "a", y=labels)
    assert not sf.open_store(tmp_path / "b").manifest.labels
    with pytest.raises(StoreNotFoundError):
        sf.open_store(tmp_path / "a")


def _delayed(function):
    import dask

    return dask.delayed(function, pure=False)()


# -- what lies around -------------------------------------------------------------------------------------------


def test_a_writer_that_was_killed_before_it_had_a_lock_stands_in_nobodys_way(tmp_path):
    (tmp_path / "a" / "streamfit").mkdir(parents=True)
    assert ingest(tmp_path / "a", table(25)).n_rows == 25
    (tmp_path / "b" / "streamfit").mkdir(parents=True)
    (tmp_path / "b" / "notes.txt").touch()
    with pytest.raises(StoreExistsError, match="is not a streamfit store"):
        ingest(tmp_path / "b", table(25))


def test_writing_over_leaves_what_is_not_the_stores(tmp_path):
    store = ingest(tmp_path / "a", table(25), y=np.zeros(25))
    sf.attach(store, y=np.ones(25), if_exists="overwrite")
    (tmp_path / "a" / "y.npy").write_bytes(b"mine")
    (tmp_path / "a" / "X.backup").mkdir()
    (tmp_path / "a" / "X.backup" / "rows").write_bytes(b"mine")
    ingest(tmp_path / "a", table(5), if_exists="overwrite")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "X",
        "X.backup",
        "streamfit",
        "y.npy",
        "zarr.json",
    ]
    assert (tmp_path / "a" / "X.backup" / "rows").read_bytes() == b"mine"


def test_a_damaged_manifest_is_written_over_where_that_is_said(tmp_path):
    ingest(tmp_path / "a", table(25))
    file = tmp_path / "a" / "streamfit" / "manifest.json"
    file.write_bytes(file.read_bytes().replace(b'"n_rows":25', b'"n_rows":24'))
    for if_exists in ("resume", "error"):
        with pytest.raises(StoreCorruptError, match=r'is damaged.*if_exists="overwrite"'):
            ingest(tmp_path / "a", table(25), if_exists=if_exists)
    assert ingest(tmp_path / "a", table(25), if_exists="overwrite").verify().ok


def test_a_later_format_is_refused_whatever_its_manifest_holds(tmp_path):
    ingest(tmp_path / "a", table(5))
    body = json.dumps({"format_version": 99, "chunks": []}).encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    (tmp_path / "a" / "streamfit" / "manifest.json").write_bytes(b'{"digest":"%s","manifest":%s}\n' % (digest, body))
    with pytest.raises(UnsupportedError, match="has format 99; this streamfit reads formats up to 4"):
        sf.open_store(tmp_path / "a")


@pytest.mark.parametrize("path", [pytest.param("", id="empty"), pytest.param("a\0b", id="null")])
def test_what_can_be_no_path_is_refused(path):
    with pytest.raises(InvalidParameterError, match="The path of a folder is needed"):
        local_folder(path)


def test_there_is_no_store_at_a_path_that_cannot_exist(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("a" * 300, "loop"):
        with pytest.raises(StoreNotFoundError):
            sf.open_store(tmp_path / name)


# -- versions -----------------------------------------------------------------------------------------------------


def read_anew(store):
    open_reader.cache_clear()
    return pickle.loads(pickle.dumps(store)).X.compute()


def test_the_latest_versions_are_kept_whatever_the_clock_says(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "_HISTORY_LENGTH", 3)
    X = table(5)
    stores = [ingest(tmp_path / "a", X)]
    for seed in range(1, 7):
        stores.append(sf.append(table(5, seed), stores[-1]))
        for file in (tmp_path / "a" / "streamfit" / "history").iterdir():
            earlier = file.stat().st_mtime_ns + 3_600 * 10**9  # what is written next seems to be older
            os.utime(file, ns=(earlier, earlier))
    for place, store in enumerate(stores):
        if place < len(stores) - 4:
            with pytest.raises(StoreCorruptError, match=r"added to more than 3 times since it was opened\. Open it"):
                read_anew(store)
        else:
            np.testing.assert_array_equal(read_anew(store), np.vstack([table(5, seed) for seed in range(place + 1)]))


def test_a_damaged_version_is_no_reason_to_write_the_store_again(tmp_path):
    first = ingest(tmp_path / "a", table(5))
    second = sf.append(table(5, 1), first)
    (tmp_path / "a" / "streamfit" / "history" / f"{first.digest}.json").write_bytes(b"{}")
    with pytest.raises(StoreCorruptError, match=r"since it was opened\. Open it again"):
        read_anew(first)
    assert read_anew(second).shape == (10, 3)


# -- what others do meanwhile ---------------------------------------------------------------------------------------


def test_columns_are_matched_with_the_store_that_is_locked(tmp_path, monkeypatch):
    first, second = pd.DataFrame({"p": [1.0], "q": [2.0]}), pd.DataFrame({"q": [20.0], "p": [10.0]})
    sf.ingest(first, tmp_path / "a")
    real = append_module.check_budget

    def check_budget(*args, **keywords):
        sf.ingest(second, tmp_path / "a", if_exists="overwrite")
        real(*args, **keywords)

    monkeypatch.setattr(append_module, "check_budget", check_budget)
    store = sf.append(pd.DataFrame({"p": [3.0], "q": [4.0]}), tmp_path / "a")
    assert store.feature_names == ("q", "p")
    assert store.X.compute().tolist() == [[20.0, 10.0], [4.0, 3.0]]


def test_rows_given_again_are_not_compared_with_a_store_that_has_more_columns(tmp_path):
    X = da.from_array(table(25), chunks=10)
    store = sf.attach(ingest(tmp_path / "a", X), y=np.arange(25) % 2)
    before = content(tmp_path / "a")
    with pytest.raises(StoreExistsError, match="Rows or columns were added to the store"):
        ingest(tmp_path / "a", X)
    assert content(tmp_path / "a").keys() == before.keys()
    assert sf.open_store(tmp_path / "a").digest == store.digest


def test_labels_that_cannot_be_read_are_not_taken_for_a_disk_that_cannot_be_written(tmp_path):
    store = ingest(tmp_path / "a", table(25))
    before = content(tmp_path / "a")

    def lost():
        raise FileNotFoundError(2, "No such file or directory", "labels.parquet")

    with pytest.raises(FileNotFoundError, match=r"labels\.parquet") as caught:
        sf.attach(store, ids=np.arange(25), y=da.from_delayed(_delayed(lost), shape=(25,), dtype=np.int64))
    assert not isinstance(caught.value, StoreWriteError)
    after = content(tmp_path / "a")
    assert after.keys() == before.keys(), "what failed holds no room on the disk"
    with pytest.raises(StoreLockedError), StoreWriter.append_to(tmp_path / "a", source={}, continues=False):
        sf.attach(store, y=np.arange(25))


@pytest.mark.parametrize("next_writer", ["attach", "append"])
def test_zarr_shows_the_committed_rows_once_a_stopped_append_is_given_up(tmp_path, monkeypatch, next_writer):
    store = ingest(tmp_path / "a", table(25))

    def stopped(*_):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(committing, "commit_manifest", stopped)
        patch.setattr(StoreWriter, "close", _finish_alone)
        with pytest.raises(Stopped):
            sf.append(table(20, 1), store)
    assert zarr.open(tmp_path / "a", mode="r")["X"].shape == (45, 3), "the append was stopped at its very end"
    if next_writer == "attach":
        sf.attach(store, y=np.arange(25))
    else:
        stop_append(monkeypatch, store, table(40, 2), after=0, committed=False)
    assert zarr.open(tmp_path / "a", mode="r")["X"].shape == (25, 3)
    report = sf.open_store(tmp_path / "a").verify()
    assert report.ok, str(report)


def _finish_alone(writer, *, complete=True):
    try:
        if complete:
            writer._finish()
    finally:
        writer._lock.release()


@pytest.mark.parametrize("failing", ["commit_manifest", "drop_journal"])
def test_rows_that_are_committed_are_not_asked_for_again(tmp_path, monkeypatch, failing):
    store = ingest(tmp_path / "a", table(25))
    rows = da.from_array(table(20, 1), chunks=10)  # not known again: the same call would add them twice
    real = getattr(committing, failing)

    def fails_at_its_end(*args):
        real(*args)
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(committing, failing, fails_at_its_end)
    grown = sf.append(rows, store)
    np.testing.assert_array_equal(grown.X.compute(), np.vstack([table(25), table(20, 1)]))
    assert grown.verify().ok
