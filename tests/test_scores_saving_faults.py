"""Saved scores that are damaged, stopped or killed: the same values, or an error that says so."""

from __future__ import annotations

import multiprocessing
import time

import dask.array as da
import numpy as np
import pytest
from score_cases import irregular, same_bits

import streamfit.scores as sfs
from streamfit.errors import (
    InvalidDataError,
    SourceNotFoundError,
    StoreExistsError,
    StoreIncompleteError,
    StoreLockedError,
    StreamfitError,
)
from streamfit.scores import saved_zarr
from streamfit.store.integrity import verify
from streamfit.store.manifest import load_manifest

SUFFIXES = [".zarr", ".parquet"]
rng = np.random.default_rng(0)
SCORES = rng.normal(size=1_003)
SCORES[[3, 500, 1_002]] = [np.nan, np.inf, -np.inf]
IDS = rng.permutation(1_003) * 3 - 40


# -- damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_flipped_bit_gives_an_error_or_the_same_values(tmp_path, suffix):
    values = SCORES[:200]
    path = tmp_path / f"s{suffix}"
    sfs.save(irregular(values, 3), path, ids=IDS[:200])
    file = path if path.is_file() else max((path / "X").rglob("0"), key=lambda found: found.is_file())
    clean = file.read_bytes()
    n_errors = 0
    picked = np.random.default_rng(1).permutation(8 * len(clean))[:120].tolist()
    for bit in picked:
        damaged = bytearray(clean)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        try:
            found = sfs.open(path).compute()
        except StreamfitError:
            n_errors += 1
        else:
            same_bits(found, values)
    assert n_errors > 30


# -- killed and gone on with ----------------------------------------------------------------------------


class StoppedError(Exception):
    pass


def stopping(values, chunks, stop_at, name):
    """Give scores that fail from a block on, under a name that dask knows again."""

    def block_of(block, block_id=None):
        CALLS.append(block_id[0])
        if block_id[0] >= stop_at:
            raise StoppedError
        return block

    source = da.from_array(values, chunks=chunks)
    return da.map_blocks(block_of, source, dtype=values.dtype, meta=values[:0], name=name)


CALLS: list[int] = []


@pytest.fixture
def committed_often(monkeypatch):
    monkeypatch.setattr("streamfit.store.committing._COMMIT_SECONDS", 0)
    monkeypatch.setattr(saved_zarr, "rows_of_a_chunk", lambda _: 20)


@pytest.mark.usefixtures("committed_often")
def test_a_save_that_was_stopped_goes_on_at_the_last_block_that_is_stored(tmp_path):
    path = tmp_path / "s.zarr"
    with pytest.raises(StoppedError):
        sfs.save(stopping(SCORES, 20, 40, "known"), path, ids=IDS)
    with pytest.raises(StoreIncompleteError, match="Save the same scores again"):
        sfs.open(path)
    n_stored = load_manifest(path, allow_incomplete=True).n_rows
    assert 0 < n_stored < 1_003
    CALLS.clear()
    sfs.save(stopping(SCORES, 20, 99, "known"), path, ids=IDS)
    assert min(CALLS) == n_stored // 20 - 1
    same_bits(sfs.open(path).compute(), SCORES)
    assert verify(path, load_manifest(path)).ok


@pytest.mark.usefixtures("committed_often")
def test_under_another_name_all_is_computed_again_and_compared(tmp_path):
    path = tmp_path / "s.zarr"
    with pytest.raises(StoppedError):
        sfs.save(stopping(SCORES, 20, 40, "one"), path)
    CALLS.clear()
    sfs.save(stopping(SCORES, 20, 99, "two"), path)
    assert min(CALLS) == 0
    same_bits(sfs.open(path).compute(), SCORES)


@pytest.mark.usefixtures("committed_often")
@pytest.mark.parametrize("name", ["one", "two"])
def test_other_scores_do_not_go_on(tmp_path, name):
    path = tmp_path / "s.zarr"
    with pytest.raises(StoppedError):
        sfs.save(stopping(SCORES, 20, 40, "one"), path)
    for other in (SCORES + 1, SCORES[:900]):
        with pytest.raises(StoreExistsError, match="overwrite=True"):
            sfs.save(stopping(other, 20, 99, name), path)
    with pytest.raises(StoreExistsError, match="overwrite=True"):
        sfs.save({"score": stopping(SCORES, 20, 99, name)}, path)
    sfs.save(stopping(SCORES + 1, 20, 99, name), path, overwrite=True)
    same_bits(sfs.open(path).compute(), SCORES + 1)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_writers_at_once(tmp_path, suffix):
    path = tmp_path / f"s{suffix}"

    def second(block):
        with pytest.raises(StoreLockedError):
            sfs.save(SCORES, path, overwrite=True)
        return block

    sfs.save(da.map_blocks(second, irregular(SCORES, 1), dtype=float, meta=np.empty(0)), path)
    same_bits(sfs.open(path).compute(), SCORES)


def slow_scores(made):
    """Give scores whose blocks are counted in `made`, and take a while."""

    def block_of(block):
        time.sleep(0.004)
        made.value += 1
        return block

    values = np.random.default_rng(5).normal(size=20_000)
    return values, da.map_blocks(block_of, da.from_array(values, chunks=500), dtype=float, name="slow")


def child(path, made):
    from streamfit.store import committing

    committing._COMMIT_SECONDS = 0
    saved_zarr.rows_of_a_chunk = lambda _: 500
    sfs.save(slow_scores(made)[1], path, ids=np.arange(20_000), overwrite=path.suffix == ".parquet")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_killed_at_any_instant(tmp_path, suffix, monkeypatch):
    """A Parquet file is the old one or the new one, a store says that it is unfinished and goes on."""
    monkeypatch.setattr(saved_zarr, "rows_of_a_chunk", lambda _: 500)
    # Processes of their own: a fork would wait for ever for the threads that this one computes by. And no lock, which a
    # killed one would keep.
    context = multiprocessing.get_context("spawn")
    made = context.Value("i", 0, lock=False)
    values, scores = slow_scores(made)
    path = tmp_path / f"s{suffix}"
    if suffix == ".parquet":
        sfs.save(SCORES, path)
    chance = np.random.default_rng(2)
    n_unfinished, n_stored = 0, 0
    for _ in range(4):
        made.value, n_blocks = 0, chance.integers(1, 16)
        process = context.Process(target=child, args=(path, made))
        process.start()
        while made.value < n_blocks and process.is_alive():
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.02))
        process.kill()
        process.join()
        try:
            found = sfs.open(path).compute()
        except (StoreIncompleteError, SourceNotFoundError, InvalidDataError):
            assert suffix == ".zarr"
            if path.exists():
                present = load_manifest(path, allow_incomplete=True)
                assert not verify(path, present).bad_chunks
                assert present.n_rows >= n_stored
                n_stored = present.n_rows
                n_unfinished += 1
        else:
            complete = len(found) == len(values)
            same_bits(found, values if complete else SCORES)
            assert complete or suffix == ".parquet"
            n_unfinished += not complete
            if complete:
                break
    assert n_unfinished
    if suffix == ".parquet" or n_stored < len(values):
        sfs.save(scores, path, ids=np.arange(20_000), overwrite=suffix == ".parquet")
    same_bits(sfs.open(path).compute(), values)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
