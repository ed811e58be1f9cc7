"""A small store of several labels a row, written with format 4 and kept: every later version reads it as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import streamfit as sf
from streamfit.feature_store import FeatureStore
from streamfit.store.reader import StoreRef

GOLDEN = Path(__file__).parent / "golden/v4"
CHUNK_ROWS, N_FIRST, N_ROWS = 40, 70, 110
"""70 rows were ingested, so that the second chunk was short, and 40 appended, so that the third is."""


def expected():
    rows, columns = np.arange(N_ROWS)[:, None], np.arange(3)
    X = ((rows * 31 + columns * 17) % 23 - 11.5).astype("f4")
    return X, np.column_stack([np.arange(N_ROWS) % 2, np.arange(N_ROWS) % 5 - 2]).astype("i2")


def write_golden(folder):
    """Write the store. The one that is kept was made by this, with format 4, and is never made again."""
    X, y = expected()
    store = sf.ingest(X[:N_FIRST], folder / "store", y=y[:N_FIRST], chunk_rows=CHUNK_ROWS)
    sf.append(X[N_FIRST:], store, y=y[N_FIRST:])
    (folder / "store/streamfit/lock").write_bytes(b"")  # it names a process and its machine


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    write_golden(folder)
    return folder


@pytest.fixture(params=["kept", "fresh"])
def folder(request, fresh):
    return (GOLDEN if request.param == "kept" else fresh) / "store"


def test_rows_and_labels_are_as_they_were_written(folder):
    X, y = expected()
    store = sf.open_store(folder)
    assert (store.info().format_version, store.n_outputs) == (4, 2)
    assert store.X.compute().tobytes() == X.tobytes()
    assert store.y.compute().tobytes() == y.tobytes()
    assert [known.tolist() for known in store.output_classes] == [[0, 1], [-2, -1, 0, 1, 2]]
    assert store.verify().ok
    before = FeatureStore(StoreRef(store.path, store.manifest.extends))
    assert before.y.compute().tobytes() == y[:N_FIRST].tobytes()
    assert zarr.open_group(str(folder), mode="r")["y"][:].tobytes() == y.tobytes()


def test_a_copy_takes_more_rows(folder, tmp_path):
    X, y = expected()
    shutil.copytree(folder, tmp_path / "copy")
    longer = sf.append(X[:30], tmp_path / "copy", y=y[:30])
    assert longer.y.compute().tobytes() == np.concatenate([y, y[:30]]).tobytes()
    assert longer.info().format_version == 4
    assert longer.verify().ok


def test_it_is_small_and_names_no_machine():
    files = [file for file in GOLDEN.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 20_000
    for file in files:
        if file.suffix == ".json":
            assert b"/tmp" not in file.read_bytes()
            assert b"/home" not in file.read_bytes()
