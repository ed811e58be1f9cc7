from __future__ import annotations

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.inputs import as_store
from streamfit.store.scratch import Scratch

X = np.random.default_rng(0).normal(size=(120, 3))
y = np.arange(120) % 4


@pytest.fixture
def scratch(tmp_path):
    return Scratch.create(tmp_path / "scratch")


@pytest.mark.parametrize("give", [lambda store: store, lambda store: store.path], ids=["store", "path"])
def test_a_store_passes_through(tmp_path, scratch, give):
    store = sf.ingest(X, tmp_path / "a", y=y)
    passed = as_store(give(store), scratch=scratch)
    assert passed.ref == store.ref
    assert list(scratch.path.iterdir()) == []


@pytest.mark.parametrize(
    "give",
    [
        pytest.param(lambda _: X, id="numpy"),
        pytest.param(lambda _: da.from_array(X, chunks=(50, 2)), id="dask"),
        pytest.param(lambda path: np.save(path, X) or path, id="npy"),
        pytest.param(lambda _: X.tolist(), id="list"),
    ],
)
def test_everything_else_is_written_to_scratch(tmp_path, scratch, give):
    store = as_store(give(tmp_path / "x.npy"), y, sample_weight=y + 1.0, scratch=scratch)
    assert Path(store.path).parent == scratch.path
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    np.testing.assert_array_equal(store.sample_weight.compute(), y + 1)
    assert as_store(X, scratch=scratch).path != store.path


@pytest.mark.parametrize("extra", [{"y": y}, {"sample_weight": y}])
def test_labels_beside_a_store_are_refused(tmp_path, scratch, extra):
    store = sf.ingest(X, tmp_path / "a")
    with pytest.raises(InvalidParameterError, match="beside a store"):
        as_store(store, **extra, scratch=scratch)


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "coo_array"])
def test_sparse_rows_become_a_sparse_store_on_scratch(scratch, kind):
    store = as_store(getattr(scipy.sparse, kind)(X), scratch=scratch)
    assert store.is_sparse
    np.testing.assert_array_equal(store.X.compute().toarray(), X)


def test_policies_are_passed_on(scratch):
    gaps = X.copy()
    gaps[7, 1] = np.nan
    with pytest.raises(InvalidDataError, match="row 7, column 1"):
        as_store(gaps, scratch=scratch)
    assert as_store(gaps, scratch=scratch, nonfinite="keep").statistics.n_nonfinite.tolist() == [0, 1, 0]
    with pytest.raises(BudgetError):
        as_store(X, scratch=scratch, memory_limit=1_000)
