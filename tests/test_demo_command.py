"""The demonstration on small data: what it prints, and that the loop loses."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from typer.testing import CliRunner

from streamfit.cli.app import app


def demo(*arguments):
    done = CliRunner().invoke(app, ["demo", "--json", *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("streamfit").setLevel(logging.WARNING)


def test_the_loop_loses_on_snapshots_and_every_job_keeps_its_limit(tmp_path):
    lines = demo("--store-rows", "60000", "--rows", "4500", "--folder", str(tmp_path))
    sgd, hbos, loop, exact, labels = lines
    assert sgd["roc_auc"] > 0.98
    assert hbos["n_rows"] == 54_000
    assert loop["roc_auc"] < 0.6
    assert len(loop["thresholds"]) == 9
    assert exact["roc_auc"] > 0.999
    assert exact["flagged_share"] == pytest.approx(0.02, abs=1e-3)
    assert labels["n_rows"] == 500
    assert all(line["peak_nbytes"] <= 256e6 for line in lines)
    assert (tmp_path / "train.zarr").is_dir()


def test_a_labelled_set_of_the_user(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 5))
    y = rng.random(3_000) < 0.05
    X[y] *= 4
    np.savez(tmp_path / "set.npz", X=X, y=y.astype(int))
    loop, exact, _ = demo("--npz", str(tmp_path / "set.npz"))
    assert loop["how"].startswith("(a) KNN")
    assert exact["roc_auc"] > 0.9
    np.savez(tmp_path / "bad.npz", X=X)
    done = CliRunner().invoke(app, ["demo", "--npz", str(tmp_path / "bad.npz")])
    assert done.exit_code in (1, 2)
    assert "keys X and y" in done.output
