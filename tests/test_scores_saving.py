"""Scores that outlive the process: the same values from a store and from a Parquet file, whatever happens."""

from __future__ import annotations

import weakref

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from score_cases import same_bits

import streamfit as sf
import streamfit.scores as sfs
from streamfit.errors import (
    InvalidDataError,
    InvalidParameterError,
    SourceNotFoundError,
    StoreCorruptError,
    StoreExistsError,
    StreamfitError,
    UnsupportedError,
)
from streamfit.run.ordered_blocks import blocks_in_order
from streamfit.scores import saved_zarr

SUFFIXES = [".zarr", ".parquet"]
rng = np.random.default_rng(0)
SCORES = rng.normal(size=1_003)
SCORES[[3, 500, 1_002]] = [np.nan, np.inf, -np.inf]
IDS = rng.permutation(1_003) * 3 - 40


def blocks(values, n_blocks, seed=0):
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(values) + 1, n_blocks - 1))
    lengths = tuple(np.diff([0, *cuts, len(values)]).tolist())
    return da.from_array(values, chunks=len(values)).rechunk((lengths,))


# -- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_blocks", [1, 7, 40])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_values_and_blocks_come_back(tmp_path, suffix, n_blocks):
    scores = blocks(SCORES, n_blocks)
    sfs.save(scores, tmp_path / f"s{suffix}", ids=IDS)
    found = sfs.open(tmp_path / f"s{suffix}")
    assert found.chunks == (tuple(length for length in scores.chunks[0] if length),)
    same_bits(found.compute(), SCORES)
    summary = sfs.partition_summary(found).compute()
    filled = sfs.partition_summary(scores).compute().query("count > 0").reset_index(drop=True)
    pd.testing.assert_frame_equal(summary, filled)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dtype=st.sampled_from(["f8", "f4", "f2", "i8", "i4", "u1", "?"]),
    n_blocks=st.sampled_from([1, 7, 20]),
    data=st.data(),
    suffix=st.sampled_from(SUFFIXES),
)
def test_every_type_comes_back(tmp_path_factory, dtype, n_blocks, data, suffix):
    values = data.draw(hnp.arrays(np.dtype(dtype), st.integers(1, 60)))
    path = tmp_path_factory.mktemp("types") / f"s{suffix}"
    sfs.save(blocks(values, n_blocks), path)
    found = sfs.open(path).compute()
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_several_scores_by_name_with_flags(tmp_path, suffix):
    finite = np.nan_to_num(SCORES, posinf=9.0, neginf=-9.0)
    scores = blocks(finite, 7)
    flagged = scores > 1.5
    wanted = {"knn": scores, "flag": flagged, "n": np.arange(1_003)}
    sfs.save(wanted, tmp_path / f"s{suffix}", ids=blocks(IDS, 5))
    found = sfs.open(tmp_path / f"s{suffix}")
    assert list(found) == ["knn", "flag", "n"]
    same_bits(found["knn"].compute(), finite)
    same_bits(found["flag"].compute(), finite > 1.5)
    same_bits(found["n"].compute(), np.arange(1_003))


def test_one_name_stays_a_mapping(tmp_path):
    sfs.save({"only": SCORES}, tmp_path / "s.zarr")
    assert list(sfs.open(tmp_path / "s.zarr")) == ["only"]


@pytest.mark.parametrize("values", [SCORES, SCORES.tolist()], ids=["array", "list"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_scores_in_memory(tmp_path, suffix, values, monkeypatch):
    monkeypatch.setattr("streamfit.scores.score_columns.rows_of_a_chunk", lambda _: 100)
    sfs.save(values, tmp_path / f"s{suffix}", ids=IDS.tolist())
    found = sfs.open(tmp_path / f"s{suffix}")
    same_bits(found.compute(), SCORES)
    assert found.numblocks == (11,)


def test_other_readers_know_the_files(tmp_path):
    store = sf.ingest(rng.normal(size=(1_003, 2)), tmp_path / "x.zarr", ids=IDS, chunk_rows=100)
    scores = blocks(SCORES, 7)
    for suffix in SUFFIXES:
        sfs.save(SCORES, tmp_path / f"memory{suffix}", store=store.path)
        same_bits(sfs.open(tmp_path / f"memory{suffix}").compute(), SCORES)
        with pytest.raises(InvalidDataError, match="1003 rows and there are 5 scores"):
            sfs.save(SCORES[:5], tmp_path / f"short{suffix}", store=store)
        sfs.save(scores, tmp_path / f"s{suffix}", store=store)
    same_bits(sf.open_store(tmp_path / "memory.zarr").ids.compute(), IDS)
    saved = sf.open_store(tmp_path / "s.zarr")
    assert saved.feature_names == ("score",)
    assert saved.verify().ok
    same_bits(saved.ids.compute(), IDS)
    group = zarr.open_group(tmp_path / "s.zarr", mode="r")
    same_bits(group["X"][:, 0], SCORES)
    for frame in (pd.read_parquet(tmp_path / "s.parquet"), pl.read_parquet(tmp_path / "s.parquet").to_pandas()):
        assert list(frame) == ["row", "id", "score"]
        same_bits(frame["row"].to_numpy(), np.arange(1_003))
        same_bits(frame["id"].to_numpy(), IDS)
        same_bits(frame["score"].to_numpy(), SCORES)
    file = pq.ParquetFile(tmp_path / "s.parquet")
    groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert tuple(groups) == tuple(length for length in scores.chunks[0] if length)


def test_chunks_hold_whole_partitions(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_zarr, "rows_of_a_chunk", lambda row_nbytes: 4_000 // row_nbytes)
    for chunks, chunk_rows in ((120, 480), (500, 500), (1_000, 500), (503, 500)):
        sfs.save(da.from_array(SCORES, chunks=chunks), tmp_path / "s.zarr", overwrite=True)
        assert sf.open_store(tmp_path / "s.zarr").layout.chunk_rows == chunk_rows
        found = sfs.open(tmp_path / "s.zarr")
        assert found.chunks == da.from_array(SCORES, chunks=chunks).chunks
        same_bits(found.compute(), SCORES)


def test_texts_as_ids_go_into_parquet_only(tmp_path):
    names = np.array([f"row {row}" for row in range(1_003)])
    sfs.save(blocks(SCORES, 7), tmp_path / "s.parquet", ids=names)
    assert pd.read_parquet(tmp_path / "s.parquet")["id"].tolist() == names.tolist()
    with pytest.raises(InvalidDataError, match=r"Save to [.]parquet"):
        sfs.save(blocks(SCORES, 7), tmp_path / "s.zarr", ids=names)


def test_what_is_computed_of_saved_scores(tmp_path):
    X = rng.normal(size=(600, 3))
    store = sf.ingest(X, tmp_path / "x.zarr", ids=np.arange(600) * 2, chunk_rows=50)
    sfs.save(store.map(first_feature, model=None, dtype=np.float64), tmp_path / "s.zarr", store=store)
    found = sfs.open(tmp_path / "s.zarr")
    same_bits(found.compute(), X[:, 0])
    assert sfs.threshold(found, 0.1).compute() == np.percentile(X[:, 0], 90)
    top = sfs.top_k(found, 3, store=store).compute()
    np.testing.assert_array_equal(top.features, X[np.argsort(-X[:, 0])[:3]])


def first_feature(_model, chunk):
    return chunk.X[:, 0]


# -- how it is computed --------------------------------------------------------------------------------


def test_each_block_is_computed_once_and_a_shared_task_too(tmp_path):
    calls = []

    def block_of(block, block_id=None):
        calls.append(block_id)
        return block

    finite = rng.normal(size=2_000)
    counted = da.map_blocks(block_of, da.from_array(finite, chunks=50), dtype=float, meta=np.empty(0))
    before = len(calls)
    sfs.save(counted, tmp_path / "a.parquet")
    assert len(calls) - before == 40
    before = len(calls)
    # Flags wait for the mean of all: in groups of blocks each group would compute all of them.
    sfs.save({"score": counted, "flag": counted > counted.mean()}, tmp_path / "b.parquet")
    assert len(calls) - before == 40
    same_bits(sfs.open(tmp_path / "b.parquet")["flag"].compute(), finite > finite.mean())


def test_a_graph_of_tuples_is_computed_once(tmp_path):
    calls = []

    def made(block):
        calls.append(block)
        return np.full(10, float(block))

    graph = {("by-hand", block): (made, block) for block in range(40)}
    scores = da.Array(graph, "by-hand", ((10,) * 40,), dtype=np.float64)
    sfs.save({"score": scores, "flag": scores > scores.mean()}, tmp_path / "s.parquet")
    assert sorted(calls) == list(range(40))
    same_bits(sfs.open(tmp_path / "s.parquet")["score"].compute(), np.repeat(np.arange(40.0), 10))


def test_flags_beside_scores_do_not_hold_the_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("streamfit.scores.sorting.HELD_NBYTES", 0)
    alive, most = set(), [0]

    def block_of(block, block_id=None):
        made = np.random.default_rng(block_id[0]).normal(size=len(block))
        alive.add(block_id[0])
        most[0] = max(most[0], len(alive))
        weakref.finalize(made, alive.discard, block_id[0])
        return made

    scores = da.map_blocks(block_of, da.zeros(6_000, chunks=50), dtype=float, meta=np.empty(0))
    sfs.save({"score": scores, "flag": sfs.flags(scores, sfs.threshold(scores, 0.1))}, tmp_path / "s.parquet")
    assert most[0] < 12
    frame = pd.read_parquet(tmp_path / "s.parquet")
    expected = np.concatenate([np.random.default_rng(block).normal(size=50) for block in range(120)])
    same_bits(frame["score"].to_numpy(), expected)
    np.testing.assert_array_equal(frame["flag"], expected > np.percentile(expected, 90))


def test_blocks_of_matrices_and_vectors_in_order():
    X = rng.normal(size=(300, 3))
    matrix = da.from_array(X, chunks=(10, 2)).rechunk((10, 3))
    vector = da.from_array(X[:, 0], chunks=10)
    for arrays in ([matrix, vector], [matrix - vector.sum(), vector]):
        expected = [X if arrays[0] is matrix else (X - X[:, 0].sum()), X[:, 0]]
        found = list(blocks_in_order(arrays, first=4))
        assert len(found) == 26
        for place, values in enumerate(expected):
            np.testing.assert_allclose(np.concatenate([block[place] for block in found]), values[40:])
            assert found[0][place].shape == values[:10].shape


def test_blocks_that_are_shorter_than_announced_are_refused(tmp_path):
    short = da.map_blocks(lambda block: block[1:], blocks(SCORES, 7), dtype=float, meta=np.empty(0))
    for suffix in SUFFIXES:
        with pytest.raises(InvalidDataError, match="was announced with"):
            sfs.save(short, tmp_path / f"s{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_on_a_cluster(tmp_path):
    with sf.connect("processes") as _:
        for suffix in SUFFIXES:
            sfs.save(blocks(SCORES, 7), tmp_path / f"s{suffix}")
            same_bits(np.asarray(sfs.open(tmp_path / f"s{suffix}").compute()), SCORES)


# -- refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        pytest.param([], {}, "no scores", id="nothing"),
        pytest.param({}, {}, "no scores", id="no-arrays"),
        pytest.param([[1.0], [2.0]], {}, "one dimension", id="matrix"),
        pytest.param(["a", "b"], {}, "real numbers", id="texts"),
        pytest.param({"a": [1.0, 2.0], "b": [1.0]}, {}, "1 scores called 'b' and 2 called 'a'", id="lengths"),
        pytest.param([1.0, 2.0], {"ids": [1]}, "1 ids and 2 scores", id="ids"),
        pytest.param([1.0, 2.0], {"ids": [0.5, 1.5]}, "integers or texts", id="ids-of-floats"),
    ],
)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_scores_that_are_refused(tmp_path, suffix, scores, options, message):
    with pytest.raises(InvalidDataError, match=message):
        sfs.save(scores, tmp_path / f"s{suffix}", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["row", "id", "", 3])
def test_names_that_are_taken(tmp_path, name):
    with pytest.raises(InvalidParameterError, match="row and id"):
        sfs.save({name: [1.0]}, tmp_path / "s.parquet")


def test_paths_that_are_refused(tmp_path):
    for path in ("s.npy", "s", "s.ZARR"):
        with pytest.raises(InvalidParameterError, match=r"[.]zarr or [.]parquet"):
            sfs.save(SCORES, tmp_path / path)
        with pytest.raises(InvalidParameterError, match=r"[.]zarr or [.]parquet"):
            sfs.open(tmp_path / path)
    with pytest.raises(UnsupportedError):
        sfs.save(SCORES, "s3://bucket/s.zarr")
    with pytest.raises(SourceNotFoundError, match="Check the path"):
        sfs.open(tmp_path / "s.zarr")


def test_a_whole_number_that_the_matrix_does_not_hold_is_refused(tmp_path):
    with pytest.raises(InvalidDataError, match=r"9007199254740993"):
        sfs.save({"score": [0.5, 1.5], "n": [1, 2**53 + 1]}, tmp_path / "s.zarr")
    sfs.save({"score": [0.5, 1.5], "n": [1, 2**53 + 1]}, tmp_path / "s.parquet")
    assert sfs.open(tmp_path / "s.parquet")["n"].compute().tolist() == [1, 2**53 + 1]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_there_is_replaced_only_where_that_is_said(tmp_path, suffix):
    path = tmp_path / f"s{suffix}"
    sfs.save(SCORES, path)
    with pytest.raises(StoreExistsError, match="overwrite=True"):
        sfs.save(SCORES[:5], path)
    same_bits(sfs.open(path).compute(), SCORES)
    opened = sfs.open(path)
    sfs.save(blocks(SCORES[::-1].copy(), 7), path, overwrite=True)
    same_bits(sfs.open(path).compute(), SCORES[::-1])
    with pytest.raises(StreamfitError):
        opened.compute()


def test_a_store_of_rows_is_never_written_over(tmp_path):
    X = rng.normal(size=(60, 2))
    store = sf.ingest(X, tmp_path / "x.zarr", chunk_rows=20)
    for scores in (store.X[:, 0], np.ones(60)):
        for overwrite in (False, True):
            with pytest.raises(StoreExistsError):
                sfs.save(scores, tmp_path / "x.zarr", overwrite=overwrite)
    saved = tmp_path / "s.zarr"
    sfs.save(store.X[:, 0], saved)
    with pytest.raises(StoreExistsError, match="lie over its source"):
        sfs.save(sfs.open(saved) * 2, saved, overwrite=True)
    (tmp_path / "other.zarr").mkdir()
    (tmp_path / "other.zarr" / "file").touch()
    with pytest.raises(StoreExistsError):
        sfs.save(np.ones(60), tmp_path / "other.zarr", overwrite=True)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(StoreExistsError, match="folder"):
        sfs.save(np.ones(60), tmp_path / "folder.parquet", overwrite=True)
    assert store.verify().ok


def test_a_parquet_file_that_its_own_scores_are_read_from_can_be_replaced(tmp_path):
    sfs.save(SCORES, tmp_path / "s.parquet")
    sfs.save(sfs.open(tmp_path / "s.parquet") * 2, tmp_path / "s.parquet", overwrite=True)
    same_bits(sfs.open(tmp_path / "s.parquet").compute(), SCORES * 2)


def test_files_of_others_are_refused(tmp_path):
    pd.DataFrame({"score": SCORES}).to_parquet(tmp_path / "s.parquet")
    with pytest.raises(InvalidDataError, match="was not written by"):
        sfs.open(tmp_path / "s.parquet")
    sf.ingest(rng.normal(size=(60, 2)), tmp_path / "x.zarr")
    with pytest.raises(InvalidDataError, match="was not written by"):
        sfs.open(tmp_path / "x.zarr")
    (tmp_path / "t.parquet").write_bytes(b"nothing")
    with pytest.raises(StoreCorruptError):
        sfs.open(tmp_path / "t.parquet")
