"""Small stores that were written with format 3 (zstd) and are kept: every later version reads them as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array

import streamfit as sf
from streamfit.feature_store import FeatureStore
from streamfit.store.reader import StoreRef

GOLDEN = Path(__file__).parent / "golden/v3"
CHUNK_ROWS, N_FIRST, N_ROWS, N_COLUMNS = 100, 230, 330, 40
"""230 rows were ingested, so that the third chunk was short, and 100 appended, so that the fourth is."""


def expected(name):
    """Small numbers between zeros, the same as CSR rows; labels; weights that were attached later."""
    rows, columns = np.arange(N_ROWS)[:, None], np.arange(N_COLUMNS)
    X = np.where((rows * 7 + columns * 3) % 5 == 0, (rows * 31 + columns * 17) % 23 - 11.5, 0).astype("f4")
    values = {"y": np.array(["ham", "spam", "häm"])[np.arange(N_ROWS) % 3], "sample_weight": np.arange(N_ROWS) / 8}
    return (csr_array(X) if name == "csr" else X), values


def write_golden(folder):
    """Write both stores. Those that are kept were made by this, with format 3, and are never made again."""
    for name in ("dense", "csr"):
        X, sides = expected(name)
        y = sides["y"]
        store = sf.ingest(X[:N_FIRST], folder / name, y=y[:N_FIRST], chunk_rows=CHUNK_ROWS, compression="zstd")
        store = sf.append(X[N_FIRST:], store, y=y[N_FIRST:])
        sf.attach(store, sample_weight=sides["sample_weight"])
        (folder / name / "streamfit/lock").write_bytes(b"")  # it names a process and its machine


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    write_golden(folder)
    return folder


@pytest.fixture(params=["kept", "fresh"])
def folder(request, fresh):
    return GOLDEN if request.param == "kept" else fresh


def dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@pytest.mark.parametrize("name", ["dense", "csr"])
def test_rows_and_columns_are_as_they_were_written(folder, name):
    X, sides = expected(name)
    store = sf.open_store(folder / name)
    assert store.is_sparse == (name == "csr")
    assert dense(store.X.compute()).tobytes() == dense(X).tobytes()
    assert dense(store.take([329, 0, 230, 7])).tobytes() == dense(X)[[329, 0, 230, 7]].tobytes()
    assert store.y.compute().tolist() == sides["y"].tolist()
    assert store.sample_weight.compute().tolist() == sides["sample_weight"].tolist()
    assert {spec.codec for spec in store.manifest.arrays.values()} == {"zstd"}
    assert (store.manifest.compression, store.info().format_version) == ("zstd", 3)
    report = store.verify()
    assert report.ok, str(report)
    assert report.n_chunks == 12


@pytest.mark.parametrize("name", ["dense", "csr"])
def test_what_was_opened_before_the_append_is_still_read(folder, name):
    store = sf.open_store(folder / name)
    whole = FeatureStore(StoreRef(store.path, store.manifest.extends))
    before = FeatureStore(StoreRef(store.path, whole.manifest.extends))
    assert (whole.n_rows, before.n_rows) == (N_ROWS, N_FIRST)
    assert dense(before.X.compute()).tobytes() == dense(expected(name)[0])[:N_FIRST].tobytes()


def test_zarr_reads_them(folder):
    group = zarr.open_group(str(folder / "dense"), mode="r")
    X, sides = expected("dense")
    assert group["X"][:].tobytes() == X.tobytes()
    assert group["sample_weight"][:].tolist() == sides["sample_weight"].tolist()
    rows = expected("csr")[0]
    part = zarr.open_group(str(folder / "csr"), mode="r")["X/3-30"]
    found = csr_array((part["data"][:], part["indices"][:], part["indptr"][:]), shape=part.attrs["shape"])
    assert dense(found).tobytes() == dense(rows)[300:].tobytes()


@pytest.mark.parametrize("name", ["dense", "csr"])
def test_a_copy_takes_more_rows(folder, name, tmp_path):
    X, sides = expected(name)
    shutil.copytree(folder / name, tmp_path / name)
    longer = sf.append(X[:90], tmp_path / name, **{side: values[:90] for side, values in sides.items()})
    assert dense(longer.X.compute()).tobytes() == np.concatenate([dense(X), dense(X)[:90]]).tobytes()
    assert longer.info().format_version == 3
    assert longer.verify().ok


def test_they_are_small_and_name_no_machine():
    files = [file for file in GOLDEN.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 120_000
    for file in files:
        if file.suffix == ".json":
            assert b"/tmp" not in file.read_bytes()
            assert b"/home" not in file.read_bytes()
