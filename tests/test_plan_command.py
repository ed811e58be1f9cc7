"""``streamfit plan`` says what the methods say, and what ``streamfit fit`` then takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app

SGD = "sklearn.linear_model.SGDClassifier"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 4))
    path = tmp_path_factory.mktemp("plan") / "store"
    return sf.ingest(X, path, y=(X[:, 0] > 0).astype(np.int64), chunk_rows=100)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["plan", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def without_times(values):
    """All but what a clock or an allocator tells, and what follows from that."""
    measured = {"estimator", "estimator_nbytes", "largest_batch_size_in_all", "batch_sizes"}
    return {name: value for name, value in values.items() if name not in measured and "seconds" not in name}


@pytest.mark.parametrize(
    ("options", "same_as"),
    [
        pytest.param([], {}, id="defaults"),
        pytest.param(["--batch-size", 64, "--epochs", 3], {"batch_size": 64, "epochs": 3}, id="batches"),
        pytest.param(["--shuffle", "none"], {"shuffle": "none"}, id="in-order"),
        pytest.param(
            ["--batch-size", 64, "--window", 5],
            {"batch_size": 64, "window": 5},
            id="window",
        ),
        pytest.param(
            ["--batch-size", 64, "--memory-limit", "60MB"], {"batch_size": 64, "memory_limit": "60MB"}, id="limit"
        ),
    ],
)
def test_it_says_what_the_methods_say(store, options, same_as):
    asked = {"batch_size": 10_000} | same_as
    plain = json.loads(run(store.path, *options, "--json").stdout)
    assert without_times(plain) == without_times(json.loads(json.dumps(store.project(**asked).to_dict())))
    stream = sf.StreamOptions(window=asked.pop("window", None))
    trainer = sf.StreamTrainer(SGDClassifier(), stream=stream, **asked)
    found = json.loads(run(store.path, SGD, *options, "--json").stdout)
    assert without_times(found) == without_times(json.loads(json.dumps(trainer.plan(store).to_dict())))
    assert found["estimator"]["name"] == "SGDClassifier"


def test_a_text_for_people(store):
    said = run(store.path, SGD, "--param", "loss=log_loss", "--batch-size", 64, "--memory-limit", "60MB").stdout
    for part in ("SGDClassifier on", "47 an epoch, of 64 rows", "row order", "largest batch", "together"):
        assert part in said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param([SGD, "--batch-size", 64, "--memory-limit", "1MB"], 3, "are needed", id="limit"),
        pytest.param(["--batch-size", 64, "--memory-limit", "1MB"], 3, "are needed", id="limit-without-a-model"),
        pytest.param(["--param", "alpha=1"], 2, "--param is for MODEL", id="param-without-a-model"),
        pytest.param(["pyod.models.hbos.HBOS"], 2, "is a detector", id="detector"),
        pytest.param([SGD, "--param", "beta=1"], 2, "has no parameter beta", id="parameter"),
        pytest.param(["--batch-size", 700, "--window", 1], 2, "exceeds the window", id="window"),
    ],
)
def test_refused(store, arguments, code, message):
    assert message in run(store.path, *arguments, code=code).stderr


def test_there_is_no_store(tmp_path):
    assert "no store" in run(tmp_path / "nothing", code=2).stderr
