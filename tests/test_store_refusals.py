"""Disks that are full, folders that are read-only, and journals of appends that were stopped."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import InvalidDataError, StoreLockedError, StoreWriteError
from streamfit.store import committing, early_flush
from streamfit.store.manifest import load_manifest
from streamfit.store.versions import load_journal
from streamfit.store.writer import StoreWriter

CHUNK_ROWS = 100
SOURCE = {"kind": "test"}


def table(n_rows, seed=0):
    return np.random.default_rng(seed).standard_normal((n_rows, 20)).astype("f4")


def create(path, **changes):
    settings = {
        "n_features": 20,
        "dtype": np.dtype("f4"),
        "chunk_rows": CHUNK_ROWS,
        "feature_names": None,
        "nonfinite": "error",
        "source": SOURCE,
        "if_exists": "resume",
        "continues": True,
        "n_rows_expected": None,
    }
    return StoreWriter.create(path, **{**settings, **changes})


def write(path, X, **changes):
    with create(path, **changes) as writer:
        writer.append(X[writer.next_row :])
    return sf.open_store(path)


class FullDisk:
    """Stands for a disk with room for so many more chunk files; metadata still fit."""

    def __init__(self, monkeypatch, n_files):
        self.n_files = n_files
        real = committing.write_chunk_file

        def write_chunk_file(*args):
            if self.n_files == 0:
                raise OSError(28, os.strerror(28))
            self.n_files -= 1
            real(*args)

        monkeypatch.setattr(committing, "write_chunk_file", write_chunk_file)


@pytest.mark.parametrize("n_files", [0, 1, 3, 9, 10])
def test_a_full_disk_is_told_and_the_store_goes_on(tmp_path, monkeypatch, n_files):
    X = table(1_050)
    whole = write(tmp_path / "b", X)
    with monkeypatch.context() as patch:
        FullDisk(patch, n_files)
        with pytest.raises(StoreWriteError, match=f"No space left on device.* {n_files * 100} rows are kept"):
            write(tmp_path / "a", X)
    if n_files:
        assert load_manifest(tmp_path / "a", allow_incomplete=True).n_rows == n_files * 100
    else:
        assert not (tmp_path / "a").exists()
    with create(tmp_path / "a") as writer:
        assert writer.next_row == n_files * 100
        writer.append(X[writer.next_row :])
    assert sf.open_store(tmp_path / "a").manifest.digest == whole.manifest.digest
    assert sf.open_store(tmp_path / "a").verify().ok


@pytest.mark.parametrize(
    "failing", ["committing.commit_manifest", "committing.write_array_metadata", "early_flush.flush_names"]
)
def test_a_commit_that_fails_promises_nothing(tmp_path, monkeypatch, failing):
    X = table(350)
    whole = write(tmp_path / "b", X)

    def fails(*_, **__):
        raise OSError(28, os.strerror(28))

    with create(tmp_path / "a") as writer:
        writer.append(X[:210])
        writer.close(complete=False)
    with monkeypatch.context() as patch:
        patch.setattr(f"streamfit.store.{failing}", fails)
        with pytest.raises(StoreWriteError, match="200 rows are kept"):
            write(tmp_path / "a", X)
    assert load_manifest(tmp_path / "a", allow_incomplete=True).n_rows == 200
    assert write(tmp_path / "a", X).manifest.digest == whole.manifest.digest


def test_a_chunk_that_was_lost_on_its_way_to_the_disk_is_never_promised(tmp_path, monkeypatch):
    """The system reports once that a file could not be written: the next flush of it says that all is well."""
    X = table(350)
    whole = write(tmp_path / "b", X)
    flush, failed = early_flush.flush_file, []

    def fails_once(path):
        if path.parent.name == "1" and not failed:
            failed.append(path)
            raise OSError(5, os.strerror(5))
        flush(path)

    with monkeypatch.context() as patch:
        patch.setattr(early_flush, "flush_file", fails_once)
        with pytest.raises(StoreWriteError, match=f"{os.strerror(5)}.* 0 rows are kept"):
            write(tmp_path / "a", X)
    assert len(failed) == 1
    assert load_manifest(tmp_path / "a", allow_incomplete=True).n_rows == 0
    assert write(tmp_path / "a", X).manifest.digest == whole.manifest.digest


def test_no_thread_outlives_a_writer(tmp_path):
    before = threading.active_count()
    writer = create(tmp_path / "a")
    writer.append(table(350))
    writer.close(complete=False)
    assert threading.active_count() == before
    with pytest.raises(InvalidDataError), create(tmp_path / "a") as writer:
        writer.append(np.full((100, 20), np.nan, dtype="f4"))
    assert threading.active_count() == before


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 8 MB in memory, where the process may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    options = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]
    if None in (mount, umount) or subprocess.run(options, check=False, capture_output=True).returncode:
        pytest.skip("this process may not mount a file system")
    try:
        X = table(150_000)
        np.save(tmp_path / "X.npy", X)
        with pytest.raises(StoreWriteError, match="No space left on device") as caught:
            sf.ingest(tmp_path / "X.npy", disk / "a.zarr", chunk_rows=5_000)
        n_rows = load_manifest(disk / "a.zarr", allow_incomplete=True).n_rows
        assert f"{n_rows} rows are kept" in str(caught.value)
        assert n_rows >= 85_000
        subprocess.run([mount, "-o", "remount,size=64m", disk], check=True)
        store = sf.ingest(tmp_path / "X.npy", disk / "a.zarr", chunk_rows=5_000)
        np.testing.assert_array_equal(store.take(np.arange(150_000)), X)
    finally:
        subprocess.run([umount, disk], check=True)


_AS_NOBODY = """
import os, sys
import numpy as np
import streamfit as sf
from streamfit.sources import append, attach, ingest, npy
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
kind, folder = sys.argv[1:]
X = np.load(folder + "/X.npy")
try:
    if kind == "read":
        store = sf.open_store(folder + "/a.zarr")
        assert (store.take(range(len(X))) == X).all() and store.verify().ok
        assert (store[10:20].X.compute() == X[10:20]).all()
        sf.ingest(X, folder + "/a.zarr", chunk_rows=100)
    elif kind == "new":
        sf.ingest(X, folder + "/b.zarr")
    elif kind == "overwrite":
        sf.ingest(X, folder + "/a.zarr", if_exists="overwrite")
    elif kind == "append":
        sf.append(X + 1, folder + "/a.zarr")
    elif kind == "attach":
        sf.attach(folder + "/a.zarr", y=np.zeros(len(X)))
except sf.errors.StoreWriteError as error:
    print(error)
else:
    print("done")
"""


@pytest.fixture
def open_folder():
    """A folder that every user reaches; those of pytest are private."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o755)


@pytest.mark.parametrize("kind", ["read", "new", "overwrite", "append", "attach"])
def test_a_read_only_folder_is_read_and_not_written(open_folder, kind):
    """As a user who may not write, since root may write everywhere."""
    folder = open_folder
    X = table(250)
    np.save(folder / "X.npy", X)
    store = sf.ingest(X, folder / "a.zarr", chunk_rows=100)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    ran = subprocess.run([sys.executable, "-c", _AS_NOBODY, kind, folder], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    if kind == "read":
        assert ran.stdout == "done\n"
    else:
        assert f"{folder}/{'b' if kind == 'new' else 'a'}.zarr cannot be written" in ran.stdout
        assert "make the folder writable" in ran.stdout
    assert sf.open_store(folder / "a.zarr").manifest.digest == store.manifest.digest


# -- appends that were stopped -------------------------------------------------------------------------


class StoppedError(Exception):
    """Stands for whatever ends a writer."""


def append_until(path, X, stop, *, source=SOURCE, continues=False):
    with contextlib.suppress(StoppedError), StoreWriter.append_to(path, source=source, continues=continues) as writer:
        writer.append(X[writer.next_row : stop])
        raise StoppedError


@pytest.mark.parametrize("n_before", [200, 230], ids=["whole-chunks", "tail"])
@pytest.mark.parametrize("stop", [10, 100, 330, 450])
@pytest.mark.parametrize("continues", [True, False])
def test_an_append_goes_on_where_it_stopped(tmp_path, monkeypatch, n_before, stop, continues):
    X, more = table(n_before), table(450, seed=1)
    write(tmp_path / "b", X)
    with StoreWriter.append_to(tmp_path / "b", source=SOURCE, continues=False) as writer:
        writer.append(more)
    expected = sf.open_store(tmp_path / "b")

    before = write(tmp_path / "a", X)
    append_until(tmp_path / "a", more, stop)
    assert sf.open_store(tmp_path / "a").manifest.digest == before.manifest.digest
    assert before.verify().ok
    n_kept = (n_before + stop) // CHUNK_ROWS * CHUNK_ROWS
    written = []
    real = committing.write_chunk_file
    monkeypatch.setattr(committing, "write_chunk_file", lambda *args: (written.append(args[2]), real(*args)))
    with StoreWriter.append_to(tmp_path / "a", source=SOURCE, continues=continues) as writer:
        if continues and n_kept > n_before:
            assert writer.next_row == n_kept - n_before
        else:
            assert writer.next_row == 0
        writer.append(more[writer.next_row :])
    first = n_kept // CHUNK_ROWS if n_kept > n_before else n_before // CHUNK_ROWS
    assert written == list(range(first, -(-(n_before + 450) // CHUNK_ROWS)))
    after = sf.open_store(tmp_path / "a")
    assert after.manifest.digest == expected.manifest.digest
    assert after.manifest.appended == ({"source": SOURCE, "n_rows": 450},)
    np.testing.assert_array_equal(after.take(np.arange(n_before + 450)), np.concatenate([X, more]))
    np.testing.assert_array_equal(before.take(np.arange(n_before)), X)
    assert load_journal(tmp_path / "a") is None


def test_an_append_of_something_else_forgets_the_one_that_stopped(tmp_path):
    X, more, other = table(230), table(400, seed=1), table(120, seed=2)
    write(tmp_path / "a", X)
    append_until(tmp_path / "a", more, 400)
    with StoreWriter.append_to(tmp_path / "a", source={"kind": "other"}, continues=True) as writer:
        assert writer.next_row == 0
        writer.append(other)
    store = sf.open_store(tmp_path / "a")
    np.testing.assert_array_equal(store.take(np.arange(350)), np.concatenate([X, other]))
    assert sorted(int(path.name) for path in (tmp_path / "a/X/c").iterdir()) == [0, 1, 2, 3]


@pytest.mark.parametrize("first_change", [0, 69, 70, 170, 399])
def test_rows_that_changed_since_an_append_stopped_are_the_new_ones(tmp_path, first_change):
    X, more = table(230), table(400, seed=1)
    write(tmp_path / "a", X)
    append_until(tmp_path / "a", more, 400)
    changed = more.copy()
    changed[first_change:] += 1
    with StoreWriter.append_to(tmp_path / "a", source=SOURCE, continues=False) as writer:
        writer.append(changed)
    store = sf.open_store(tmp_path / "a")
    np.testing.assert_array_equal(store.take(np.arange(630)), np.concatenate([X, changed]))
    assert store.verify().ok


def test_a_journal_of_another_version_does_not_count(tmp_path):
    X, more = table(230), table(400, seed=1)
    write(tmp_path / "a", X)
    append_until(tmp_path / "a", more, 400)
    journal = (tmp_path / "a/streamfit/journal.json").read_bytes()
    with StoreWriter.append_to(tmp_path / "a", source={"kind": "other"}, continues=True) as writer:
        writer.append(X)
    (tmp_path / "a/streamfit/journal.json").write_bytes(journal)
    with StoreWriter.append_to(tmp_path / "a", source=SOURCE, continues=True) as writer:
        assert writer.next_row == 0
        writer.append(more)
    assert sf.open_store(tmp_path / "a").n_rows == 860


def test_an_append_without_rows_changes_nothing(tmp_path):
    store = write(tmp_path / "a", table(230))
    with StoreWriter.append_to(tmp_path / "a", source=SOURCE, continues=True) as writer:
        writer.append(table(0))
    assert sf.open_store(tmp_path / "a").manifest.digest == store.manifest.digest


def test_a_complete_store_met_again_is_left_alone(tmp_path):
    X = table(230)
    write(tmp_path / "a", X)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*") if path.name != "lock"}
    with create(tmp_path / "a") as writer:
        assert writer.next_row == 230
    assert {path: path.stat().st_mtime_ns for path in times} == times


def _hold(path, ready, go):
    with StoreWriter.append_to(path, source=SOURCE, continues=False):
        ready.set()
        go.wait(60)


def test_every_second_writer_is_refused_by_name(tmp_path):
    X = table(230)
    store = write(tmp_path / "a", X)
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path / "a", ready, go))
    process.start()
    assert ready.wait(60)
    for attempt in (
        lambda: sf.ingest(X, store.path, if_exists="overwrite"),
        lambda: sf.append(X, store),
        lambda: sf.attach(store, y=np.zeros(230)),
    ):
        with pytest.raises(StoreLockedError, match=f"process {process.pid} on"):
            attempt()
    go.set()
    process.join()
    assert sf.append(X, store).n_rows == 460


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path):
    """A writer that leaves nothing removes the file; who opened it meanwhile must not hold that one."""
    from streamfit.store.lock import StoreLock

    first = StoreLock(tmp_path)
    first.remove()
    second = StoreLock(tmp_path)
    with pytest.raises(StoreLockedError):
        StoreLock(tmp_path)
    first.release()
    with pytest.raises(StoreLockedError):
        StoreLock(tmp_path)
    second.release()
    StoreLock(tmp_path).release()
