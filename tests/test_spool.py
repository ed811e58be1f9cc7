from __future__ import annotations

import errno
import gc
import os
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import dask
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamfit.errors import (
    InvalidDataError,
    InvalidParameterError,
    StoreCorruptError,
    StoreError,
    StoreExistsError,
    StoreIncompleteError,
    StoreNotFoundError,
)
from streamfit.maths.selection import percentile
from streamfit.plan.layout import StoreLayout
from streamfit.run.spool import ScoreSpool

SCORES = np.random.default_rng(0).normal(size=1_003)


def finished(path, scores=SCORES):
    spool = ScoreSpool.create(path, n_rows=len(scores))
    spool.write(0, scores)
    return spool.finish()


def layout(n_rows, chunk_rows):
    return StoreLayout(n_rows=n_rows, n_features=2, chunk_rows=chunk_rows, itemsize=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n_rows=st.integers(1, 50), pieces=st.randoms(use_true_random=False), max_rows=st.integers(1, 60))
def test_pieces_in_any_order_give_the_whole(tmp_path, n_rows, pieces, max_rows):
    path = tmp_path / "scores.npy"
    path.unlink(missing_ok=True)
    cuts = sorted({0, n_rows, *(pieces.randrange(n_rows) for _ in range(4))})
    bounds = list(pairwise(cuts))
    pieces.shuffle(bounds)
    spool = ScoreSpool.create(path, n_rows=n_rows)
    for start, stop in bounds:
        spool.write(start, SCORES[start:stop])
    spool = spool.finish()
    np.testing.assert_array_equal(spool.read(0, n_rows), SCORES[:n_rows], strict=True)
    np.testing.assert_array_equal(np.load(path), SCORES[:n_rows], strict=True)
    blocks = list(spool.blocks(max_rows))
    assert max(map(len, blocks)) <= max_rows
    np.testing.assert_array_equal(np.concatenate(blocks), SCORES[:n_rows])


def test_threads_write_at_once(tmp_path):
    spool = ScoreSpool.create(tmp_path / "scores.npy", n_rows=len(SCORES))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda start: spool.write(start, SCORES[start : start + 10]), range(0, len(SCORES), 10)))
    np.testing.assert_array_equal(spool.finish().read(0, len(SCORES)), SCORES)


def test_other_processes_write_by_path(tmp_path):
    spool = ScoreSpool.create(tmp_path / "scores.npy", n_rows=4)
    script = "import sys, pickle, numpy as np; pickle.load(sys.stdin.buffer).write(2, np.full(2, 7.0))"
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps(spool), check=True)
    spool.write(0, np.full(2, 6.0))
    assert spool.finish().read(0, 4).tolist() == [6.0, 6.0, 7.0, 7.0]


def test_blocks_own_their_memory_and_keep_every_value(tmp_path):
    scores = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    spool = finished(tmp_path / "scores.npy", scores)
    block = spool.read(0, 5)
    assert block.tobytes() == scores.tobytes()
    block[:] = 0
    assert spool.read(0, 5).tobytes() == scores.tobytes()


def test_strided_and_empty_pieces_are_written(tmp_path):
    spool = ScoreSpool.create(tmp_path / "scores.npy", n_rows=3)
    spool.write(0, np.arange(6.0)[::2])
    spool.write(3, np.empty(0))
    assert spool.finish().read(0, 3).tolist() == [0.0, 2.0, 4.0]
    assert ScoreSpool.open(tmp_path / "scores.npy").read(2, 2).shape == (0,)


@pytest.mark.parametrize("chunk_rows", [1, 100, 1_003, 5_000])
def test_dask_array_has_a_block_a_partition(tmp_path, chunk_rows):
    spool = finished(tmp_path / "scores.npy")
    store = layout(len(SCORES), chunk_rows)
    lazy = spool.as_dask(store)
    assert lazy.chunks == (store.partition_rows(),)
    assert lazy.dtype == np.float64
    np.testing.assert_array_equal(lazy.compute(), SCORES, strict=True)
    np.testing.assert_array_equal(lazy[10:20].compute(), SCORES[10:20])


def test_building_a_dask_array_reads_nothing(tmp_path, monkeypatch):
    spool = finished(tmp_path / "scores.npy")
    reads = []
    read = ScoreSpool.read
    monkeypatch.setattr(ScoreSpool, "read", lambda self, *rows: reads.append(rows) or read(self, *rows))
    lazy = spool.as_dask(layout(len(SCORES), 100))
    labels, total = (lazy > 0.5).astype(np.int64), lazy.sum()
    assert reads == []
    dask.compute(labels, total)
    assert len(reads) == lazy.numblocks[0]


def test_arrays_keep_what_their_file_lies_in(tmp_path):
    class Folder:
        pass

    folder = Folder()
    alive = weakref.ref(folder)
    derived = finished(tmp_path / "scores.npy").as_dask(layout(len(SCORES), 100), keep=folder) + 1
    del folder
    gc.collect()
    assert alive() is not None
    assert derived.compute()[0] == SCORES[0] + 1
    del derived
    gc.collect()
    assert alive() is None


def test_names_follow_the_content(tmp_path):
    spool = finished(tmp_path / "scores.npy")
    store = layout(len(SCORES), 100)
    assert spool.as_dask(store).name == ScoreSpool.open(spool.path).as_dask(store).name
    assert spool.as_dask(store).name != spool.as_dask(layout(len(SCORES), 101)).name
    spool.path.unlink()
    assert spool.as_dask(store).name != finished(spool.path, SCORES + 1).as_dask(store).name


def test_percentile_over_a_spool(tmp_path):
    spool = finished(tmp_path / "scores.npy")
    found = percentile(lambda: spool.blocks(100), spool.n_rows, 95, max_nbytes=1_000)
    assert found == np.percentile(SCORES, 95)


def test_an_unfinished_spool_is_known_as_such(tmp_path):
    path = tmp_path / "scores.npy"
    spool = ScoreSpool.create(path, n_rows=3)
    spool.write(0, np.zeros(3))
    assert not path.exists()
    with pytest.raises(StoreIncompleteError, match="being written"):
        spool.read(0, 3)
    with pytest.raises(StoreIncompleteError, match="never finished"):
        ScoreSpool.open(path)
    again = ScoreSpool.create(path, n_rows=2)
    again.write(0, np.ones(2))
    assert again.finish().read(0, 2).tolist() == [1.0, 1.0]


def test_a_finished_spool_is_not_written(tmp_path):
    writing = ScoreSpool.create(tmp_path / "scores.npy", n_rows=1)
    writing.write(0, np.ones(1))
    reading = writing.finish()
    assert reading.finish() is reading
    for spool in (writing, reading):
        with pytest.raises(StoreError, match="finished or was removed"):
            spool.write(0, np.zeros(1))
    with pytest.raises(StoreExistsError, match="exists already"):
        ScoreSpool.create(reading.path, n_rows=1)


@pytest.mark.parametrize(
    ("start", "scores", "message"),
    [
        pytest.param(2, np.zeros(2), "do not lie within the 3 rows", id="beyond-the-end"),
        pytest.param(-1, np.zeros(2), "do not lie within the 3 rows", id="before-the-start"),
        pytest.param(0, np.zeros((3, 1)), "one-dimensional", id="two-dimensional"),
        pytest.param(0, np.zeros(3, np.float32), "must be float64", id="float32"),
    ],
)
def test_writes_that_are_refused(tmp_path, start, scores, message):
    spool = ScoreSpool.create(tmp_path / "scores.npy", n_rows=3)
    with pytest.raises(InvalidParameterError, match=message):
        spool.write(start, scores)


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 1_004)])
def test_reads_that_are_refused(tmp_path, start, stop):
    with pytest.raises(InvalidParameterError, match="do not lie within"):
        finished(tmp_path / "scores.npy").read(start, stop)


def test_another_layout_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match="layout has 7 rows"):
        finished(tmp_path / "scores.npy").as_dask(layout(7, 2))


def test_no_rows_are_refused(tmp_path):
    with pytest.raises(InvalidDataError, match="at least 1 row"):
        ScoreSpool.create(tmp_path / "scores.npy", n_rows=0)


def test_missing_file(tmp_path):
    with pytest.raises(StoreNotFoundError, match="no scores at"):
        ScoreSpool.open(tmp_path / "scores.npy")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-8]), id="cut"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes() + b"x"), id="longer"),
        pytest.param(lambda path: path.write_bytes(b"nothing"), id="not-npy"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: np.save(path, np.zeros(3, np.float32)), id="float32"),
        pytest.param(lambda path: np.save(path, np.zeros((3, 1))), id="two-dimensional"),
    ],
)
def test_other_files_are_refused(tmp_path, damage):
    spool = finished(tmp_path / "scores.npy")
    damage(spool.path)
    with pytest.raises(StoreCorruptError):
        ScoreSpool.open(spool.path)
    with pytest.raises(StoreCorruptError, match="was changed"):
        spool.read(0, 1)


def test_scores_that_are_gone_are_named(tmp_path):
    spool = finished(tmp_path / "scores.npy")
    spool.path.unlink()
    with pytest.raises(StoreCorruptError, match="is gone"):
        spool.as_dask(layout(len(SCORES), 100)).compute()


def test_a_full_disk_is_named_before_anything_is_computed(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("streamfit.run.spool._allocate", full)
    with pytest.raises(StoreError, match=r"no room for 8\.00 GiB .*No space left on device"):
        ScoreSpool.create(tmp_path / "scores.npy", n_rows=2**30)
