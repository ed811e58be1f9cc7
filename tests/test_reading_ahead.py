"""Files that are read a block ahead of what is written, and callers who are told how far it is."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pandas as pd
import pytest

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, StoreIncompleteError
from streamfit.sources import opening
from streamfit.sources.reading_ahead import read_ahead
from streamfit.sources.source import RowBlock
from streamfit.store.manifest import load_manifest

N_ROWS, N_FEATURES = 1_000, 8


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of 100 rows."""
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 100 * N_FEATURES * 4)


@pytest.fixture(name="X")
def matrix():
    return np.random.default_rng(0).standard_normal((N_ROWS, N_FEATURES)).astype("f4")


@pytest.fixture
def file(tmp_path, X):
    np.save(tmp_path / "X.npy", X)
    return tmp_path / "X.npy"


def blocks_of(X, read, *, fail_at=None):
    for number in range(len(X)):
        if number == fail_at:
            raise InvalidDataError("block 5")
        read.append(threading.current_thread().name)
        yield RowBlock(X[number : number + 1])


def test_one_block_is_read_ahead_and_never_two(X):
    read = []
    with contextlib.closing(read_ahead(blocks_of(X[:50], read))) as blocks:
        for number, block in enumerate(blocks):
            assert len(read) <= number + 2
            np.testing.assert_array_equal(block.X, X[number : number + 1])
    assert len(read) == 50
    assert {name.split("_")[0] for name in read} == {"streamfit-source"}


def test_an_error_of_the_source_comes_after_the_blocks_before_it(X):
    seen = []
    with (
        pytest.raises(InvalidDataError, match="block 5"),
        contextlib.closing(read_ahead(blocks_of(X, [], fail_at=5))) as blocks,
    ):
        seen.extend(block.X[0, 0] for block in blocks)
    assert seen == X[:5, 0].tolist()


def test_the_thread_ends_where_the_blocks_are_not_used_up(X):
    before = threading.active_count()
    read = []
    with contextlib.closing(read_ahead(blocks_of(X, read))) as blocks:
        next(blocks)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    assert len(read) <= 2


@pytest.fixture
def threads_of_blocks(monkeypatch):
    """Names of the threads that read the blocks of an ingest."""
    names = []
    real = opening.open_rows

    def open_rows(*args, **settings):
        rows = real(*args, **settings)
        blocks = rows.blocks

        def spied(start):
            for block in blocks(start):
                names.append(threading.current_thread().name.split("_")[0])
                yield block

        object.__setattr__(rows, "blocks", spied)
        return rows

    monkeypatch.setattr("streamfit.sources.ingest.open_rows", open_rows)
    return names


@pytest.mark.parametrize("kind", ["npy", "parquet", "store"])
def test_files_are_read_in_a_thread_to_the_same_bytes(tmp_path, X, file, threads_of_blocks, kind):
    names = [f"c{place}" for place in range(N_FEATURES)]
    pd.DataFrame(X, columns=names).to_parquet(tmp_path / "X.parquet", row_group_size=333)
    sf.ingest(X, tmp_path / "store", chunk_rows=100)
    assert set(threads_of_blocks) == {"MainThread"}
    source = {"npy": file, "parquet": tmp_path / "X.parquet", "store": tmp_path / "store"}[kind]
    threads_of_blocks.clear()
    store = sf.ingest(source, tmp_path / "a", chunk_rows=100)
    assert set(threads_of_blocks) == {"streamfit-source"}
    assert store.manifest.checksums == sf.open_store(tmp_path / "store").manifest.checksums


@pytest.mark.parametrize("source", ["batches", "callable", "array", "csv"])
def test_what_may_be_code_of_the_user_is_read_by_the_caller(tmp_path, X, threads_of_blocks, source):
    pd.DataFrame(X).to_csv(tmp_path / "X.csv", index=False)
    batches = [X[:300], X[300:]]
    given = {"batches": iter(batches), "callable": lambda: iter(batches), "array": X, "csv": tmp_path / "X.csv"}
    sf.ingest(given[source], tmp_path / "a")
    assert set(threads_of_blocks) == {"MainThread"}


def test_a_limit_without_room_for_a_block_more_reads_none_ahead(tmp_path, file, threads_of_blocks):
    def ingest(nbytes):
        threads_of_blocks.clear()
        sf.ingest(file, tmp_path / "a", chunk_rows=10, memory_limit=nbytes, if_exists="overwrite")
        return set(threads_of_blocks)

    least = 10**6
    with pytest.raises(BudgetError):
        ingest(least)
    while True:
        with contextlib.suppress(BudgetError):
            assert ingest(least) == {"MainThread"}
            break
        least += 10**6
    assert ingest(least + 10 * 2**20) == {"streamfit-source"}


def test_rows_are_told_from_the_first_to_the_last(tmp_path, file, X):
    told = []
    store = sf.ingest(file, tmp_path / "a", chunk_rows=150, on_progress=lambda *rows: told.append(rows))
    assert told == [(done, N_ROWS) for done in range(0, N_ROWS + 1, 100)]
    told.clear()
    sf.append([X[:300], X[300:350]], store, on_progress=lambda *rows: told.append(rows))
    assert told == [(0, None), (300, None), (350, None)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_caller_who_stops_it_keeps_the_rows_and_goes_on(tmp_path, file, X, error):
    before = threading.active_count()

    def stop(done, _):
        if done == 500:
            raise error

    with pytest.raises(error):
        sf.ingest(file, tmp_path / "a", chunk_rows=150, on_progress=stop)
    assert threading.active_count() == before
    with pytest.raises(StoreIncompleteError, match="450 of 1000"):
        sf.open_store(tmp_path / "a")
    told = []
    store = sf.ingest(file, tmp_path / "a", chunk_rows=150, on_progress=lambda *rows: told.append(rows))
    assert told[0] == (450, N_ROWS)
    np.testing.assert_array_equal(store.take(np.arange(N_ROWS)), X)


def test_a_file_that_is_cut_keeps_the_blocks_before(tmp_path, file):
    before = threading.active_count()

    def cut(done, _):
        if done == 100:
            with file.open("r+b") as stream:
                stream.truncate(128 + 550 * N_FEATURES * 4)

    with pytest.raises(InvalidDataError, match=r"X\.npy ends before its last row"):
        sf.ingest(file, tmp_path / "a", chunk_rows=50, on_progress=cut)
    assert load_manifest(tmp_path / "a", allow_incomplete=True).n_rows == 500
    assert threading.active_count() == before
