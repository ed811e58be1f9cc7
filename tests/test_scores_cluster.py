"""Aggregates of scores on a cluster of processes: the same bits, and scratch that goes."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from streamfit import scores as sfs
from streamfit.scores import sorting


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_measures_on_scratch_are_the_same_bits(client, monkeypatch, tmp_path):
    monkeypatch.setattr(sorting, "HELD_NBYTES", 0)
    rng = np.random.default_rng(0)
    values, truth = np.round(rng.normal(size=5_000), 3), (rng.random(5_000) < 0.2).astype(int)
    scores = da.from_array(values, chunks=613)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        lazy = [
            sfs.roc_auc(truth, scores),
            sfs.average_precision(truth, scores),
            sfs.precision_at_k(truth, scores, 100),
            sfs.threshold(scores, 0.1),
            sfs.confusion_matrix(truth, scores, sfs.threshold(scores, 0.1)),
            sfs.calibrate(scores, truth, method="isotonic").transform(scores),
        ]
        found = client.gather(client.compute(lazy))
        here = dask.compute(*lazy, scheduler="threads")
        for there, expected in zip(found, here, strict=True):
            np.testing.assert_array_equal(there, expected)
        assert found[0] == sfs.roc_auc(truth, values)
        del lazy
    assert not list(tmp_path.iterdir())
