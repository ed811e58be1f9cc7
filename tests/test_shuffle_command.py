"""``streamfit shuffle`` says and does what the method does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.cli.shuffle_command import _rows_moved


@pytest.fixture
def store(tmp_path):
    X = np.arange(600.0).reshape(300, 2)
    return sf.ingest(X, tmp_path / "store", y=np.arange(300) // 100, chunk_rows=30)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["shuffle", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize(
    ("options", "same_as"),
    [
        pytest.param([], {}, id="defaults"),
        pytest.param(["--seed", 5], {"seed": 5}, id="seed"),
        pytest.param(["--passes", 2, "--memory-limit", "80MB"], {"passes": 2, "memory_limit": "80MB"}, id="passes"),
        pytest.param(["--passes", "full"], {}, id="full"),
    ],
)
def test_the_rows_are_those_of_the_method(tmp_path, store, options, same_as):
    said = run(store.path, tmp_path / "a", *options).stdout
    assert "300 rows x 2 features of float64" in said
    assert sf.open_store(tmp_path / "a").digest == store.shuffle(tmp_path / "b", **same_as).digest
    assert run(store.path, tmp_path / "a", *options).exit_code == 0  # again changes nothing


def test_json(tmp_path, store):
    facts = json.loads(run(store.path, tmp_path / "a", "--json").stdout)
    assert (facts["n_rows"], facts["classes"]) == (300, 3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        pytest.param(["--passes", "twice"], 2, "must be", id="passes"),
        pytest.param(["--passes", "0"], 2, "must be", id="no-pass"),
        pytest.param(["--memory-limit", "1MB"], 3, "are needed", id="limit"),
    ],
)
def test_refused(tmp_path, store, options, code, message):
    done = run(store.path, tmp_path / "a", *options, code=code)
    assert message in done.stderr
    assert not (tmp_path / "a").exists()


def test_onto_itself(store):
    assert "would lie over" in run(store.path, store.path, code=2).stderr


def test_progress_of_nothing_and_of_damage(tmp_path, store):
    assert _rows_moved(str(tmp_path / "nothing")) is None
    store.shuffle(tmp_path / "a")
    assert _rows_moved(str(tmp_path / "a")) == (300, 300)
    (tmp_path / "a" / "streamfit" / "manifest.json").write_bytes(b"damaged")
    assert _rows_moved(str(tmp_path / "a")) is None
