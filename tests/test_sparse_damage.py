"""Damage to the files of a sparse store: met on every way to the rows, named, and repaired."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import random_array

import streamfit as sf
from streamfit.errors import StoreCorruptError
from streamfit.maths.summaries.extremes import MinMax


def random_rows(n_rows, n_columns=40, *, density=0.1):
    rows = random_array((n_rows, n_columns), density=density, format="csr", rng=np.random.default_rng(0))
    rows.data = np.round(rows.data, 1)
    return rows


def same(found, expected):
    return (found != expected).nnz == 0


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def extend(file):
    file.write_bytes(file.read_bytes() + b"\0")


def remove(file):
    file.unlink()


def empty(file):
    file.write_bytes(b"")


WAYS = {
    "X": lambda store: store.X.compute(),
    "take": lambda store: store.take(np.arange(store.n_rows)),
    "stream": lambda store: list(store.stream(store.plan(batch_size=100))),
    "map": lambda store: store.map(lambda _, chunk: chunk.X.sum(axis=1), model=None, dtype="f8").compute(),
    "view": lambda store: store[1:].X.compute(),
    "statistics": lambda store: store.statistics,
    "shuffle": lambda store: store.shuffle(Path(store.path).parent / "s.zarr", if_exists="overwrite"),
}


@pytest.mark.parametrize("damage", [flip, cut, extend, remove, empty])
@pytest.mark.parametrize("array", ["data", "indices", "indptr"])
@pytest.mark.parametrize("codec", ["raw", "blosc-lz4", "blosc-lz4-bits", "zstd"])
def test_every_damage_is_met_on_every_way_and_repaired(tmp_path, monkeypatch, codec, array, damage):
    monkeypatch.setattr("streamfit.store.committing.choose_codec", lambda *_: codec)
    X = random_rows(250, density=0.3)
    if codec == "raw":
        X = random_array((250, 2**20), density=1e-5, format="csr", rng=np.random.default_rng(0))
        X.data[:] = np.random.default_rng(0).normal(size=X.nnz)
    store = sf.ingest(X, tmp_path / "a.zarr", chunk_rows=100)
    assert store.manifest.arrays["X"].codec == codec
    file = Path(store.path, "X", "1", array, "c", "0")
    damage(file)
    for read in WAYS.values():
        with pytest.raises(StoreCorruptError, match=r"Chunk 1 of X \(rows 100 to 199\)") as error:
            read(sf.open_store(store.path))
        assert (error.value.array, error.value.chunk, error.value.rows) == ("X", 1, (100, 200))
    report = store.verify()
    assert [(bad.array, bad.chunk, bad.rows) for bad in report.bad_chunks] == [("X", 1, (100, 200))]
    assert sf.repair(X, store).ok
    assert same(store.X.compute(), X)


@pytest.mark.parametrize("verify", ["first", "never"])
def test_columns_that_do_not_exist_are_refused_without_checksums(tmp_path, monkeypatch, verify):
    monkeypatch.setattr("streamfit.store.committing.choose_codec", lambda *_: "raw")
    X = random_array((250, 2**20), density=1e-4, format="csr", rng=np.random.default_rng(0))
    X.data[:] = np.random.default_rng(0).normal(size=X.nnz)
    store = sf.ingest(X, tmp_path / "a.zarr", chunk_rows=100)
    opened = sf.open_store(store.path, verify=verify)
    opened.take([100])
    file = Path(store.path, "X", "1", "indices", "c", "0")
    content = np.frombuffer(file.read_bytes(), dtype="<i4").copy()
    content[3] = 2**30
    file.write_bytes(content.tobytes())
    with pytest.raises(StoreCorruptError, match="not those of a matrix"):
        opened.take([100])


@pytest.mark.parametrize("name", ["X/zarr.json", "X/1/zarr.json", "X/1/data/zarr.json", "X/2-50/indptr/zarr.json"])
def test_metadata_that_zarr_would_misread_are_told_and_repaired(tmp_path, name):
    X = random_rows(250)
    store = sf.ingest(X, tmp_path / "a.zarr", chunk_rows=100)
    file = Path(store.path, name)
    content = json.loads(file.read_text())
    if "shape" in content:
        content["shape"] = [3]
    else:
        content["attributes"]["shape"] = [3, 40]
    file.write_text(json.dumps(content))
    report = store.verify()
    assert [bad.file for bad in report.bad_metadata] == [name]
    assert same(store.X.compute(), X)
    assert sf.repair(X, store).ok


def test_summaries_that_need_dense_rows_do_not_see_half_of_them(tmp_path):
    store = sf.ingest(random_rows(250), tmp_path / "a.zarr")
    with pytest.raises((TypeError, ValueError)):
        store.reduce(MinMax(store.n_features, dtype=store.dtype))
