"""``verify``: what it reads, what it reports, and how the command ends."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.store import integrity
from streamfit.store.manifest import commit_manifest, load_manifest

N_ROWS, CHUNK_ROWS = 450, 100


@pytest.fixture
def store(tmp_path):
    """Raw features, compressed labels and ids; five chunks, the last one short."""
    rng = np.random.default_rng(0)
    return sf.ingest(
        rng.normal(size=(N_ROWS, 3)),
        tmp_path / "a.zarr",
        y=np.where(rng.random(N_ROWS) < 0.5, "ham", "spam"),
        ids=np.arange(N_ROWS),
        chunk_rows=CHUNK_ROWS,
    )


def incomplete_store(path, n_rows=260):
    """What is left when a source of 450 rows breaks in chunk 2."""

    def batches():
        yield np.arange(n_rows * 3, dtype="f4").reshape(n_rows, 3)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="broke"):
        sf.ingest(batches, path, chunk_rows=CHUNK_ROWS)
    return path


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def edit_metadata(store, array, **entries):
    file = Path(store.path, array, "zarr.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


# -- what is read ----------------------------------------------------------------------------------------


def test_every_chunk_of_every_array_is_read_once(store, monkeypatch):
    read, reads = integrity.read_chunk_file, []
    monkeypatch.setattr(integrity, "read_chunk_file", lambda *args: (reads.append(args[1:3]), read(*args)))
    report = store.verify()
    assert report.ok
    assert report.n_chunks == 15
    assert sorted((spec.name, index) for spec, index in reads) == [
        (name, index) for name in ("X", "ids", "y") for index in range(5)
    ]


def test_named_chunks_only(store):
    for array in ("X", "y"):
        for chunk in (1, 3):
            store.manifest.arrays[array].chunk_file(Path(store.path), chunk).unlink()
    report = integrity.verify(Path(store.path), store.manifest, chunks=[0, 3])
    assert report.n_chunks == 6
    assert [(bad.array, bad.chunk) for bad in report.bad_chunks] == [("X", 3), ("y", 3)]


def test_of_a_view_the_chunks_that_it_reads(store):
    """Chunks 0 and 3 are damaged; the view has rows of the chunks 1, 3 and 4."""
    view = store.select([150, 151, 330, 440])
    for chunk in (0, 3):
        (Path(store.path) / f"X/c/{chunk}/0").unlink()
    report = view.verify()
    assert report.n_chunks == 9
    assert [(bad.array, bad.chunk, bad.rows) for bad in report.bad_chunks] == [("X", 3, (300, 400))]
    assert view[:2].verify().ok


def test_progress_is_told_in_the_calling_thread_chunk_by_chunk(store):
    calls = []
    store.verify(on_progress=lambda *done: calls.append((*done, threading.current_thread())))
    assert calls == [(done, 15, threading.main_thread()) for done in range(1, 16)]


def test_an_error_of_the_callback_ends_the_work(tmp_path, monkeypatch):
    store = sf.ingest(np.zeros((1_000, 1)), tmp_path / "a.zarr", chunk_rows=1)
    read, reads = integrity.read_chunk_file, []
    monkeypatch.setattr(integrity, "read_chunk_file", lambda *args: (reads.append(1), read(*args)))
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        store.verify(on_progress=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert len(reads) < 200
    assert threading.active_count() == before


def test_a_thread_has_one_buffer(tmp_path, monkeypatch):
    """However many chunks and arrays: the largest chunk, once a thread."""
    store = sf.ingest(np.zeros((1_000, 4)), tmp_path / "a.zarr", y=np.zeros(1_000), chunk_rows=10)
    made, empty = [], np.empty
    monkeypatch.setattr(
        integrity.np, "empty", lambda *args, **kwargs: (made.append(args[0]), empty(*args, **kwargs))[1]
    )
    monkeypatch.setattr(integrity.os, "cpu_count", lambda: 3)
    assert store.verify().ok
    assert made.count(10 * 4 * 8) == 3
    # Labels are compressed: their few encoded bytes come and go.
    assert max(nbytes for nbytes in made if nbytes != 10 * 4 * 8) < 100


# -- what is reported ------------------------------------------------------------------------------------


def damage_three(store):
    folder = Path(store.path)
    (folder / "X/c/1/0").unlink()
    (folder / "X/c/2/0").write_bytes(b"")
    content = bytearray((folder / "X/c/4/0").read_bytes())
    content[7] ^= 16
    (folder / "X/c/4/0").write_bytes(content)
    (folder / "ids/c/0").unlink()


def test_bad_chunks_by_array_and_rows(store):
    damage_three(store)
    report = store.verify()
    assert not report.ok
    assert [(bad.array, bad.chunk, bad.rows, bad.reason) for bad in report.bad_chunks] == [
        ("X", 1, (100, 200), "its file is missing"),
        ("X", 2, (200, 300), "its file has 0 bytes instead of 2400"),
        ("X", 4, (400, 450), "its bytes are not those that were written"),
        ("ids", 0, (0, 100), "its file is missing"),
    ]
    assert report.bad_rows() == ((100, 300), (400, 450))
    assert report.bad_rows("ids") == ((0, 100),)
    assert report.bad_rows("y") == ()
    said = str(report).splitlines()
    assert said[0] == "X chunk 1, rows 100 to 199: its file is missing"
    assert said[-1] == "4 of 15 chunks are bad: repair them from their source, or write the store again"


def test_a_report_is_json(store):
    damage_three(store)
    values = json.loads(json.dumps(store.verify().to_json()))
    assert list(values) == [
        "ok", "path", "n_rows", "n_rows_expected", "complete", "n_chunks", "bad_chunks", "bad_metadata"
    ]  # fmt: skip
    assert values["bad_chunks"][0] == {"array": "X", "chunk": 1, "rows": [100, 200], "reason": "its file is missing"}
    assert (values["ok"], values["n_chunks"], values["n_rows"]) == (False, 15, N_ROWS)


def test_a_long_report_is_cut(tmp_path):
    store = sf.ingest(np.random.default_rng(0).normal(size=(100, 1)), tmp_path / "a.zarr", chunk_rows=1)
    shutil.rmtree(tmp_path / "a.zarr/X/c")
    said = str(store.verify()).splitlines()
    assert len(said) == 22
    assert said[-2:] == [
        "and 80 more",
        "100 of 100 chunks are bad: repair them from their source, or write the store again",
    ]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_read_is_reported(store, what, monkeypatch):
    """By a refusing open: whoever runs as root may read everything."""
    refused = "X/c/2/0" if what == "file" else "X/c"
    real = Path.open

    def guarded(self, *args, **kwargs):
        if refused in str(self):
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", guarded)
    report = store.verify()
    assert [bad.chunk for bad in report.bad_chunks] == ([2] if what == "file" else [0, 1, 2, 3, 4])
    assert all("Permission denied" in bad.reason for bad in report.bad_chunks)


def test_a_folder_in_place_of_a_chunk_is_reported(store):
    file = Path(store.path) / "X/c/2/0"
    file.unlink()
    file.mkdir()
    (bad,) = store.verify().bad_chunks
    assert (bad.chunk, bad.reason[:22]) == (2, "its file cannot be rea")


def test_a_store_that_was_written_anew_says_so(store):
    sf.ingest(np.zeros((450, 3)), store.path, chunk_rows=CHUNK_ROWS, if_exists="overwrite")
    report = store.verify()
    assert len(report.bad_rows()) == 1
    assert [bad.file for bad in report.bad_metadata] == ["streamfit/manifest.json"]
    assert "written anew" in str(report)
    assert sf.open_store(store.path).verify().ok


def test_a_manifest_that_is_lost_meanwhile_is_reported(store):
    (Path(store.path) / "streamfit/manifest.json").write_bytes(b"{")
    report = store.verify()
    assert not report.ok
    assert report.bad_chunks == ()
    assert "manifest" in report.bad_metadata[0].reason


# -- what Zarr is told -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "entries", "reason"),
    [
        pytest.param("X", {"shape": [400, 3]}, "shape is [400, 3] instead of [450, 3]", id="fewer-rows"),
        pytest.param("X", {"shape": [500, 3]}, "shape is [500, 3] instead of [450, 3]", id="more-rows"),
        pytest.param("X", {"shape": [900, 3]}, "shape", id="rows-that-no-chunk-has"),
        pytest.param("X", {"data_type": "int64"}, 'data_type is "int64" instead of "float64"', id="dtype"),
        pytest.param("y", {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}, "codecs", id="codec"),
        pytest.param(
            "ids",
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [50]}}},
            "chunk_grid",
            id="chunks",
        ),
        pytest.param("X", {"fill_value": 0.0}, 'fill_value is 0.0 instead of "NaN"', id="fill-value"),
        pytest.param("X", {"compressor": None}, "unknown entry 'compressor'", id="unknown-entry"),
    ],
)
def test_metadata_that_zarr_would_follow_are_compared(store, array, entries, reason):
    edit_metadata(store, array, **entries)
    report = store.verify()
    (bad,) = report.bad_metadata
    assert bad.file == f"{array}/zarr.json"
    assert reason in bad.reason
    assert not report.ok
    assert report.bad_chunks == ()
    store.X.compute()  # streamfit does not need them


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000])
@pytest.mark.parametrize("file", ["X/zarr.json", "zarr.json"])
def test_metadata_that_are_gone_or_no_json(store, file, content):
    path = Path(store.path) / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    (bad,) = store.verify().bad_metadata
    assert bad.file == file
    assert "it is" in bad.reason


def test_any_bit_of_the_metadata_that_zarr_heeds_is_noticed(store):
    """Either verify tells of a flipped bit, or Zarr shows the same rows all the same."""
    file = Path(store.path) / "X/zarr.json"
    content, expected = file.read_bytes(), store.X.compute()
    n_told = 0
    for position in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 7)
        file.write_bytes(damaged)
        if store.verify().bad_metadata:
            n_told += 1
        else:
            np.testing.assert_array_equal(zarr.open_array(store.path + "/X", mode="r")[:], expected)
    assert n_told > 50


def test_notes_of_the_user_are_no_finding(store):
    group = zarr.open_group(store.path, mode="r+")
    group.attrs["note"] = "mine"
    group["X"].attrs["unit"] = "m"
    assert store.verify().ok


def test_consolidated_metadata_are_compared(store):
    with pytest.warns(UserWarning, match="Consolidated metadata"):
        zarr.consolidate_metadata(store.path)
    assert store.verify().ok
    file = Path(store.path) / "zarr.json"
    values = json.loads(file.read_text())
    values["consolidated_metadata"]["metadata"]["X"]["shape"][0] = 300
    file.write_text(json.dumps(values))
    (bad,) = store.verify().bad_metadata
    assert bad.file == "zarr.json"
    assert "consolidated copy of X/zarr.json" in bad.reason


def test_whoever_opened_before_an_append_finds_all_well(store):
    from streamfit.store.writer import StoreWriter

    with StoreWriter.append_to(store.path, source={"kind": "more"}, continues=False) as writer:
        writer.append(np.zeros((20, 3)), np.full(20, "ham"), None, np.arange(20))
    assert store.verify().ok
    assert store.verify().n_rows == N_ROWS
    assert sf.open_store(store.path).verify().n_rows == N_ROWS + 20


# -- the command -----------------------------------------------------------------------------------------


def test_the_command_ends_with_1_where_something_is_bad(store):
    assert run("verify", store.path) == "ok: 15 chunks are as they were written\n"
    damage_three(store)
    assert (
        run("verify", store.path, code=1).splitlines()[-1]
        == "4 of 15 chunks are bad: repair them from their source, or write the store again"
    )
    assert json.loads(run("verify", store.path, "--json", code=1)) == store.verify().to_json() | {
        "bad_chunks": [dict(bad, rows=list(bad["rows"])) for bad in store.verify().to_json()["bad_chunks"]],
        "bad_metadata": [],
    }


def test_metadata_alone_end_the_command_with_1(store):
    (Path(store.path) / "y/zarr.json").unlink()
    said = run("verify", store.path, code=1)
    assert "y/zarr.json: it is missing" in said
    assert "15 chunks are as they were written" in said
    assert "ok" not in said


def test_an_incomplete_store_is_verified_as_far_as_it_goes(tmp_path):
    path = incomplete_store(tmp_path / "a.zarr")
    assert load_manifest(path, allow_incomplete=True).n_rows == 200
    said = run("verify", path, code=1)
    assert "2 chunks are as they were written" in said
    assert "incomplete: 200 of an unknown number of rows are written" in said
    (path / "X/c/1/0").unlink()
    report = json.loads(run("verify", path, "--json", code=1))
    assert (report["ok"], report["complete"], report["n_rows"]) == (False, False, 200)
    assert [bad["chunk"] for bad in report["bad_chunks"]] == [1]


def test_a_store_without_rows_yet(store):
    """A writer was killed before its first chunk."""
    path = Path(store.path)
    blank = {"n_rows": 0, "complete": False, "arrays": {}, "checksums": {}, "labels": None}
    commit_manifest(path, dataclasses.replace(store.manifest, **blank))
    report = json.loads(run("verify", path, "--json", code=1))
    assert (report["ok"], report["complete"], report["n_rows"], report["n_chunks"]) == (False, False, 0, 0)
    assert "incomplete: 0 of" in run("verify", path, code=1)


@pytest.mark.parametrize("content", [b"", b"{}", None], ids=["empty", "other", "flipped"])
def test_a_damaged_manifest_ends_the_command_with_1(store, content):
    file = Path(store.path) / "streamfit/manifest.json"
    damaged = bytearray(file.read_bytes())
    damaged[-20] ^= 1
    file.write_bytes(damaged if content is None else content)
    said = json.loads(run("verify", store.path, "--json", code=1))
    assert said["error"] == "StoreCorruptError"
    assert "manifest" in said["message"]


def test_a_lost_manifest_ends_the_command_with_2(store):
    (Path(store.path) / "streamfit/manifest.json").unlink()
    assert json.loads(run("verify", store.path, "--json", code=2))["error"] == "StoreNotFoundError"
