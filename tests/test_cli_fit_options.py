"""What ``streamfit fit`` measures, how it ends and how it goes on, against the trainer."""

from __future__ import annotations

import csv
import errno
import fcntl
import json
import os
import shutil
import stat

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import SGDClassifier, SGDRegressor
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.run import checkpoint

N_ROWS = 900
SGD = ("sklearn.linear_model.SGDClassifier", "--param", "loss=log_loss", "--batch-size", 100, "--seed", 5)


def invoke(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def run(*args, code=0):
    result = invoke(*args)
    assert result.exit_code == code, result.output
    return result


def run_json(*args, code=0):
    return json.loads(run(*args, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    y = np.where(X[:, 0] + rng.normal(size=N_ROWS) > 0, "spam", "ham")
    return sf.ingest(X, tmp_path_factory.mktemp("options") / "rows.zarr", y=y, chunk_rows=100)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory, store):
    X = store.X.compute()
    return sf.ingest(X, tmp_path_factory.mktemp("options") / "numbers.zarr", y=X[:, 0] * 2, chunk_rows=100)


def without_seconds(history):
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in history]


def model_of(out):
    return skops.io.load(out / "model.skops", trusted=[])


# -- what is measured --------------------------------------------------------------------------------


def test_metrics_of_a_share_are_those_of_the_trainer(store, tmp_path):
    metrics = ("--metric", "f1_macro", "--metric", "neg_log_loss", "--validate-every", 3)
    facts = run_json("fit", store.path, *SGD, "--validation-share", 0.2, *metrics, "--out", tmp_path)
    trainer = sf.StreamTrainer(
        SGDClassifier(loss="log_loss"),
        batch_size=100,
        random_state=5,
        metrics=["f1_macro", "neg_log_loss"],
        validate_every_steps=3,
    ).fit(store, validation_data=0.2)
    assert without_seconds(facts["history"]) == without_seconds(trainer.history_)
    assert [entry["step"] for entry in facts["history"]] == [3, 6, 8]
    np.testing.assert_array_equal(model_of(tmp_path).coef_, trainer.estimator_.coef_)


def test_the_history_is_printed(store, tmp_path):
    said = run("fit", store.path, *SGD, "--epochs", 2, "--validation", store.path, "--out", tmp_path).stdout
    heading, *lines = said[said.index("epoch") :].splitlines()
    assert heading.split()[:4] == ["epoch", "step", "n_rows", "seconds"]
    assert {"val_accuracy", "val_log_loss", "val_roc_auc"} <= set(heading.split())
    assert [line.split()[:3] for line in lines] == [["0", "9", "900"], ["1", "9", "900"]]


def test_early_stopping_watches_the_first_metric_and_keeps_the_best(store, tmp_path):
    options = ("--validation-share", 0.3, "--metric", "accuracy", "--metric", "log_loss", "--epochs", 50)
    facts = run_json("fit", store.path, *SGD, *options, "--early-stopping", 2, "--out", tmp_path)
    accuracies = [entry["val_accuracy"] for entry in facts["history"]]
    assert len(accuracies) < 50
    assert accuracies.index(max(accuracies)) == len(accuracies) - 3
    assert facts["stopped_by"] == "EarlyStopping-0"
    trainer = sf.StreamTrainer(
        SGDClassifier(loss="log_loss"),
        batch_size=100,
        epochs=50,
        random_state=5,
        metrics=["accuracy", "log_loss"],
        callbacks=[sf.callbacks.EarlyStopping("val_accuracy", patience=2)],
    ).fit(store, validation_data=0.3)
    np.testing.assert_array_equal(model_of(tmp_path).coef_, trainer.estimator_.coef_)
    assert facts["resume"] is None
    assert not (tmp_path / "checkpoint").exists()


def test_each_batch_is_tested_before_it_is_learnt(numbers, tmp_path):
    sgd = ("sklearn.linear_model.SGDRegressor", "--param", "random_state=5", "--batch-size", 100, "--shuffle", "none")
    facts = run_json("fit", numbers.path, *sgd, "--online", "--validate-every", 3, "--out", tmp_path)
    model, X, errors = SGDRegressor(random_state=5), numbers.X.compute(), []
    for start in range(0, N_ROWS, 100):
        rows = X[start : start + 100]
        if start:
            errors.append(np.mean((model.predict(rows) - 2 * rows[:, 0]) ** 2))
        model.partial_fit(rows, 2 * rows[:, 0])
    expected = [np.mean(errors[:n]) for n in (2, 5, 8)]
    assert [entry["prequential_mean_squared_error"] for entry in facts["history"]] == pytest.approx(expected, rel=1e-9)


def test_what_is_measured_is_logged_too(store, tmp_path):
    logs = ("--csv-log", tmp_path / "log.csv", "--tensorboard", tmp_path / "events")
    options = ("--validation", store.path, "--metric", "accuracy", "--epochs", 3)
    facts = run_json("fit", store.path, *SGD, *options, *logs, "--out", tmp_path / "out")
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["val_accuracy"]) for row in rows] == [entry["val_accuracy"] for entry in facts["history"]]
    assert len(list((tmp_path / "events").glob("events.out.tfevents.*"))) == 1


# -- going on ----------------------------------------------------------------------------------------


def test_a_time_limit_leaves_a_model_and_resume_goes_on(store, tmp_path):
    out = ("--out", tmp_path / "out")
    facts = run_json("fit", store.path, *SGD, "--epochs", 3, "--time-limit", "0.000001s", *out)
    assert facts["stopped_by"] == "TimeLimit-0"
    assert facts["resume"].endswith("--json --resume")
    assert model_of(tmp_path / "out").t_ == 101  # one step
    again = ("fit", store.path, *SGD, "--epochs", 3, *out)
    refused = run_json(*again, code=2)
    assert refused["error"] == "StoreExistsError"
    assert "Add --resume to go on with it" in refused["message"]
    said = run(*again, "--time-limit", "0.000001s", "--resume").stderr
    assert f"Go on: streamfit fit {store.path} " in said
    assert model_of(tmp_path / "out").t_ == 201
    assert run_json(*again, "--resume")["resume"] is None
    whole = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=100, epochs=3, random_state=5).fit(store)
    np.testing.assert_array_equal(model_of(tmp_path / "out").coef_, whole.estimator_.coef_)
    assert not (tmp_path / "out/checkpoint").exists()


def test_a_time_limit_at_the_last_step_is_none(store, tmp_path):
    options = ("--batch-size", N_ROWS, "--time-limit", "0.000001s")
    facts = run_json("fit", store.path, *SGD, *options, "--out", tmp_path)
    assert facts["resume"] is None
    assert not (tmp_path / "checkpoint").exists()


def test_a_named_checkpoint_stays_and_more_epochs_go_on(store, tmp_path):
    fit = ("fit", store.path, *SGD, "--checkpoint", tmp_path / "run", "--out", tmp_path / "out")
    run(*fit, "--checkpoint-every", 4)
    assert sorted(path.name for path in (tmp_path / "run").glob("*.zip")) == [
        "checkpoint-000000-00000008.zip",
        "checkpoint-000001-00000000.zip",
    ]
    run(*fit, "--epochs", 2, "--resume")
    whole = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=100, epochs=2, random_state=5).fit(store)
    np.testing.assert_array_equal(model_of(tmp_path / "out").coef_, whole.estimator_.coef_)
    assert len(json.loads((tmp_path / "out/history.json").read_text())) == 2


def test_resume_insists_on_something_to_go_on_from(store, tmp_path):
    fit = ("fit", store.path, *SGD, "--out", tmp_path)
    refused = run(*fit, "--resume", code=1).stderr
    assert "no checkpoint to go on from" in refused
    assert refused.endswith("or leave --resume out.\n")
    assert list(tmp_path.iterdir()) == []
    run(*fit)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    run(*fit, "--resume", code=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.fixture
def interrupted(store, tmp_path):
    """A folder in which a fit was interrupted."""
    run("fit", store.path, *SGD, "--epochs", 3, "--time-limit", "0.000001s", "--out", tmp_path)
    (tmp_path / "summary.json").unlink()
    return tmp_path


def test_another_fit_does_not_go_on(store, interrupted):
    other = ("fit", store.path, *SGD, "--epochs", 3, "--batch-size", 90, "--out", interrupted)
    refused = run_json(*other, code=2)
    assert refused["error"] == "CheckpointMismatchError"
    assert "--batch-size was 100" in refused["message"].replace("batch_size was", "--batch-size was")
    assert "add --overwrite to start anew" in refused["message"]
    assert "resume" not in refused["message"]
    run(*other, "--overwrite")
    whole = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=90, epochs=3, random_state=5).fit(store)
    np.testing.assert_array_equal(model_of(interrupted).coef_, whole.estimator_.coef_)


def test_another_fit_does_not_go_on_from_a_named_folder(store, interrupted, tmp_path_factory):
    named = tmp_path_factory.mktemp("named") / "run"
    shutil.copytree(interrupted / "checkpoint", named)
    other = ("fit", store.path, *SGD, "--epochs", 3, "--batch-size", 90, "--out", interrupted, "--checkpoint", named)
    assert "or remove that folder to start anew" in run_json(*other, "--overwrite", code=2)["message"]


def test_other_versions_are_refused_unless_they_are_accepted(store, interrupted, monkeypatch):
    monkeypatch.setattr("streamfit.incremental.fit_state.np.__version__", "1.0")
    fit = ("fit", store.path, *SGD, "--epochs", 3, "--out", interrupted)
    assert "or accept these: --other-versions accept." in run_json(*fit, code=2)["message"]
    assert len(run_json(*fit, "--other-versions", "accept")["history"]) == 3


def test_a_damaged_state_says_how_to_begin_anew(store, interrupted):
    for file in (interrupted / "checkpoint").glob("*.zip"):
        file.write_bytes(b"no archive")
    fit = ("fit", store.path, *SGD, "--epochs", 3, "--out", interrupted)
    assert run_json(*fit, code=1)["message"].endswith("Use another folder, or add --overwrite.")
    run(*fit, "--overwrite")


def test_what_cannot_be_written_is_fitted_after_a_warning(store, tmp_path):
    birch = ("fit", store.path, "sklearn.cluster.Birch", "--batch-size", 300)
    done = run(*birch, "--out", tmp_path / "out")
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert "Birch cannot be written without pickling, so that this fit cannot go on" in warnings[0]
    assert "not written: Birch cannot be written without pickling" in done.stdout
    assert not (tmp_path / "out/checkpoint").exists()
    named = invoke(*birch, "--out", tmp_path / "out2", "--checkpoint", tmp_path / "run")
    assert named.exit_code != 0
    assert "Birch cannot be written without pickling" in named.stderr


def test_a_full_disk_is_no_model_that_cannot_be_written(store, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    failed = run_json("fit", store.path, *SGD, "--out", tmp_path, code=1)
    assert (failed["error"], "No space left" in failed["message"]) == ("CheckpointError", True)


def test_two_fits_at_once_are_refused(store, tmp_path):
    from streamfit.cli.fitted_folder import FittedFolder

    with FittedFolder(str(tmp_path), trusted=()).begin(overwrite=False, resume=False):
        refused = run_json("fit", store.path, *SGD, "--out", tmp_path, code=2)
    assert (refused["error"], "choose another --out" in refused["message"]) == ("StoreLockedError", True)
    run("fit", store.path, *SGD, "--out", tmp_path)


def test_a_folder_that_cannot_be_locked_is_used(store, tmp_path, monkeypatch):
    locks = fcntl.flock

    def flock(descriptor, operation):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "a network drive")
        locks(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    run("fit", store.path, *SGD, "--out", tmp_path)


# -- what does not go together -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--metric", "accuracy"],
            "--metric needs rows to measure on. Add --validation STORE or --validation-share 0.2.",
        ),
        (["--validate-every", "3"], "--validate-every needs rows"),
        (["--early-stopping", "3"], "--early-stopping needs rows"),
        (["--online", "--metric", "accuracy"], "--metric needs rows"),
        (["--validation-share", "1.0"], "--validation-share must be between 0 and 1, got 1.0."),
        (["--validation-share", "0.2", "--validation", "x"], "two ways to measure"),
        (["--validation-share", "0.2", "--metric", "acuracy"], "acuracy"),
        (["--time-limit", "soon"], "'soon'"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(store, tmp_path, options, words):
    refused = run("fit", store.path, *SGD, *options, "--out", tmp_path / "out", code=2)
    assert words in refused.stderr
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("option", ["--resume", "--online", "--metric f1", "--time-limit 1h", "--checkpoint-every 3"])
def test_detectors_take_none_of_it(store, tmp_path, option):
    refused = run("fit", store.path, "pyod.models.hbos.HBOS", *option.split(), "--out", tmp_path, code=2)
    assert f"{option.split()[0]} is for an estimator" in refused.stderr
