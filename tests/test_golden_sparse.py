"""A small sparse store that was written with format 2 and is kept: every later version reads it as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array, vstack

import streamfit as sf
from streamfit.feature_store import FeatureStore
from streamfit.store.reader import StoreRef

GOLDEN = Path(__file__).parent / "golden/v2"
CHUNK_ROWS, N_FIRST, N_ROWS, N_COLUMNS = 100, 230, 330, 5_000
"""230 rows were ingested, so that the third part was short, and 100 appended, so that the fourth is."""


def expected():
    """Three values in a row, none in every seventh, a stored zero in every fifth; and labels."""
    rows = np.arange(N_ROWS)
    counts = np.where(rows % 7, 3, 0)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    owners, place = np.repeat(rows, counts), np.arange(indptr[-1]) % 3
    indices = owners * 37 % 1_600 + 1_700 * place
    data = np.where((owners % 5 == 0) & (place == 1), 0, owners * 3 + place + 0.25).astype("f4")
    return csr_array((data, indices, indptr), shape=(N_ROWS, N_COLUMNS)), np.array(["ham", "spam"])[rows % 3 // 2]


def write_golden(folder):
    """Write the store. The one that is kept was made by this, with format 2, and is never made again."""
    X, y = expected()
    store = sf.ingest(X[:N_FIRST], folder / "csr", y=y[:N_FIRST], chunk_rows=CHUNK_ROWS)
    sf.append(X[N_FIRST:], store, y=y[N_FIRST:])
    (folder / "csr/streamfit/lock").write_bytes(b"")  # it names a process and its machine


@pytest.fixture(params=["kept", "fresh"])
def folder(request, tmp_path):
    if request.param == "kept":
        return GOLDEN
    write_golden(tmp_path)
    return tmp_path


def same(found, wanted):
    return all(np.array_equal(getattr(found, name), getattr(wanted, name)) for name in ("data", "indices", "indptr"))


def test_rows_labels_and_metadata_are_as_they_were_written(folder):
    X, y = expected()
    store = sf.open_store(folder / "csr")
    assert store.is_sparse
    assert store.dtype == np.float32
    assert same(store.X.compute(), X)
    assert same(store.take([329, 0, 230, 7]), X[[329, 0, 230, 7]])
    assert store.y.compute().tolist() == y.tolist()
    assert store.info().format_version == 2
    report = store.verify()
    assert report.ok, str(report)
    assert report.n_chunks == 8


def test_what_was_opened_before_the_append_is_still_read(folder):
    store = sf.open_store(folder / "csr")
    before = FeatureStore(StoreRef(store.path, store.manifest.extends))
    assert before.n_rows == N_FIRST
    assert same(before.X.compute(), expected()[0][:N_FIRST])


def test_zarr_reads_its_parts(folder):
    group = zarr.open_group(str(folder / "csr"), mode="r")["X"]
    assert dict(group.attrs) == {"shape": [N_ROWS, N_COLUMNS], "part_rows": CHUNK_ROWS}
    parts = [group[name] for name in ("0", "1", "2", "3-30")]
    rows = [
        csr_array((part["data"][:], part["indices"][:], part["indptr"][:]), shape=part.attrs["shape"]) for part in parts
    ]
    assert same(vstack(rows, format="csr"), expected()[0])


def test_a_copy_takes_more_rows(folder, tmp_path):
    X, y = expected()
    shutil.copytree(folder / "csr", tmp_path / "copy")
    longer = sf.append(X[:90], sf.open_store(tmp_path / "copy"), y=y[:90])
    assert same(longer.X.compute(), vstack([X, X[:90]], format="csr"))
    assert longer.verify().ok


def test_it_is_small_and_names_no_machine():
    files = [file for file in GOLDEN.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 60_000
    for file in files:
        if file.suffix == ".json":
            assert b"/tmp" not in file.read_bytes()
