"""Every command on a small table, against the library, scikit-learn and PyOD in memory."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import skops.io
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from typer.testing import CliRunner

import streamfit
from streamfit.cli.app import app

N_ROWS, N_FEATURES, CHUNK_ROWS = 2_500, 4, 600


def run(*args, code=0):
    """Run a command in this process; give its standard output."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def run_json(*args, code=0):
    return json.loads(run(*args, "--json", code=code))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A csv file with labels and ids, and the store that `ingest` makes of it."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(N_ROWS, N_FEATURES)), 6)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=N_ROWS) > 0, "spam", "ham")
    ids = np.arange(N_ROWS) * 7 + 1_000
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["f0", "f1", "f2", "f3", "label", "number"])
        writer.writerows([*map(repr, row.tolist()), label, n] for row, label, n in zip(X, y, ids, strict=True))
    facts = run_json(
        "ingest",
        folder / "rows.csv",
        folder / "rows.zarr",
        "--y",
        "label",
        "--ids",
        "number",
        "--chunk-rows",
        CHUNK_ROWS,
    )
    assert (facts["n_rows"], facts["n_features"], facts["classes"]) == (N_ROWS, N_FEATURES, 2)
    return SimpleNamespace(csv=folder / "rows.csv", store=folder / "rows.zarr", X=X, y=y, ids=ids)


# -- ingest, info, verify ----------------------------------------------------------------------------


def test_ingest_stores_the_rows_of_the_file(table):
    store = streamfit.open_store(table.store)
    np.testing.assert_array_equal(store.X.compute(), table.X)
    np.testing.assert_array_equal(store.y.compute(), table.y)
    assert store.feature_names == ("f0", "f1", "f2", "f3")


def test_append_adds_rows_once(table, tmp_path):
    lines = table.csv.read_text().splitlines(keepends=True)
    for name, part in {"old.csv": lines[1:1_001], "new.csv": lines[1_001:]}.items():
        (tmp_path / name).write_text("".join([lines[0], *part]))
    np.save(tmp_path / "weights.npy", np.arange(N_ROWS, dtype=float)[1_000:])
    np.save(tmp_path / "first.npy", np.arange(1_000, dtype=float))
    names = ("--y", "label", "--ids", "number", "--sample-weight")
    run("ingest", tmp_path / "old.csv", tmp_path / "s", *names, tmp_path / "first.npy", "--chunk-rows", CHUNK_ROWS)
    command = ("append", tmp_path / "new.csv", tmp_path / "s", *names, tmp_path / "weights.npy")
    assert "2,500 rows x 4 features of float64" in (said := run(*command))
    assert "1,500 rows appended in" in said
    store = streamfit.open_store(tmp_path / "s")
    np.testing.assert_array_equal(store.X.compute(), table.X)
    np.testing.assert_array_equal(store.y.compute(), table.y)
    np.testing.assert_array_equal(store.ids.compute(), table.ids)
    np.testing.assert_array_equal(store.sample_weight.compute(), np.arange(N_ROWS))
    facts = run_json(*command)
    assert (facts["n_rows"], facts["n_appended"]) == (N_ROWS, 0)
    assert "nothing was appended" in run(*command)
    assert run_json(*command, "--if-exists", "again")["n_appended"] == 1_500


def test_ingest_again_changes_nothing(table):
    before = streamfit.open_store(table.store).ref.digest
    said = run("ingest", table.csv, table.store, "--y", "label", "--ids", "number", "--chunk-rows", CHUNK_ROWS)
    assert "2,500 rows x 4 features of float64" in said
    assert said.endswith("has the rows of " + str(table.csv) + " already, and nothing was written\n")
    assert streamfit.open_store(table.store).ref.digest == before


def test_ingest_takes_columns_and_labels_from_a_file(table, tmp_path):
    np.save(tmp_path / "y.npy", np.arange(N_ROWS) % 3)
    run("ingest", table.csv, tmp_path / "a.zarr", "--columns", "f2, f0", "--columns", "f1", "--y", tmp_path / "y.npy")
    store = streamfit.open_store(tmp_path / "a.zarr")
    assert store.feature_names == ("f2", "f0", "f1")
    np.testing.assert_array_equal(store.X.compute(), table.X[:, [2, 0, 1]])
    assert store.class_counts.tolist() == [834, 833, 833]


def test_ingest_follows_the_policy_for_a_store_that_is_there(table, tmp_path):
    arguments = ("ingest", table.csv, tmp_path / "a.zarr", "--columns", "f0")
    run(*arguments)
    assert run_json(*arguments, "--if-exists", "error", code=2)["error"] == "StoreExistsError"
    run("ingest", table.csv, tmp_path / "a.zarr", "--columns", "f1", "--if-exists", "overwrite")
    np.testing.assert_array_equal(streamfit.open_store(tmp_path / "a.zarr").X.compute()[:, 0], table.X[:, 1])


def test_info_tells_what_numpy_tells(table):
    facts = run_json("info", table.store)
    assert facts["complete"] is True
    assert (facts["n_rows"], facts["n_features"], facts["dtype"]) == (N_ROWS, N_FEATURES, "float64")
    assert (facts["chunk_rows"], facts["n_chunks"]) == (CHUNK_ROWS, 5)
    classes, counts = np.unique(table.y, return_counts=True)
    assert facts["labels"]["classes"] == classes.tolist()
    assert facts["labels"]["counts"] == counts.tolist()
    for name, function in (("minimum", np.min), ("maximum", np.max), ("mean", np.mean)):
        got = [column[name] for column in facts["columns"]]
        np.testing.assert_allclose(got, function(table.X, axis=0), rtol=1e-12, atol=1e-15)
    chunk_files = [path for path in table.store.glob("*/c/**/*") if path.is_file()]
    assert facts["disk_nbytes"] == sum(path.stat().st_size for path in chunk_files)
    # Features, int64 ids and int32 codes of the labels.
    assert facts["decoded_nbytes"] == N_ROWS * (8 * N_FEATURES + 8 + 4)


def test_info_for_people(table):
    said = run("info", table.store)
    assert "2,500" in said
    assert "5 of 600 rows" in said
    assert re.search(r"ham: [\d,]+, spam: [\d,]+", said)


def test_info_counts_values_that_are_not_finite(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[1.0, np.nan], [np.inf, np.nan]]))
    run("ingest", tmp_path / "X.npy", tmp_path / "a.zarr", "--nonfinite", "keep")
    facts = run_json("info", tmp_path / "a.zarr")
    assert facts["n_nonfinite"] == 3
    nothing = dict.fromkeys(("minimum", "mean", "maximum", "std"))
    assert facts["columns"][1] == {"name": "1", **nothing, "n_nonfinite": 2}
    assert "3 values" in run("info", tmp_path / "a.zarr")


def test_verify_of_a_good_store(table):
    report = run_json("verify", table.store)
    assert (report["ok"], report["complete"], report["n_chunks"]) == (True, True, 15)
    assert report["bad_chunks"] == report["bad_metadata"] == []
    assert run("verify", table.store).startswith("ok: 15 chunks")


@pytest.mark.parametrize("damage", [pytest.param("flip", id="flipped-bit"), pytest.param("remove", id="lost-chunk")])
def test_verify_lists_bad_chunks(table, tmp_path, damage):
    store = tmp_path / "bad.zarr"
    shutil.copytree(table.store, store)
    file = store / "X/c/4/0"
    if damage == "flip":
        content = bytearray(file.read_bytes())
        content[40] ^= 1
        file.write_bytes(content)
    else:
        file.unlink()
    report = run_json("verify", store, code=1)
    assert report["ok"] is False
    (bad,) = report["bad_chunks"]
    assert (bad["array"], bad["chunk"], bad["rows"]) == ("X", 4, [2_400, 2_500])
    said = run("verify", store, code=1)
    assert "2400 to 2499" in said
    assert "1 of 15 chunks are bad" in said


# -- fit and score: detectors ------------------------------------------------------------------------


def test_fit_of_an_exact_detector_equals_pyod(table, tmp_path):
    facts = run_json("fit", table.store, "pyod.models.hbos.HBOS", "--out", tmp_path, "--param", "contamination=0.02")
    expected = HBOS(contamination=0.02).fit(table.X)
    scores = np.load(tmp_path / "scores.npy")
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, expected.decision_scores_)
    assert facts["threshold"] == expected.threshold_
    assert facts["n_flagged"] == expected.labels_.sum()
    assert facts["method"]["name"] == "exact"
    highest = np.argsort(-expected.decision_scores_, kind="stable")[:20]
    with (tmp_path / "top.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == highest.tolist()
    assert [int(row["id"]) for row in rows] == table.ids[highest].tolist()
    assert [float(row["score"]) for row in rows] == expected.decision_scores_[highest].tolist()
    assert [row["label"] for row in rows] == table.y[highest].tolist()
    assert [[float(row[f"f{i}"]) for i in range(N_FEATURES)] for row in rows] == table.X[highest].tolist()
    assert json.loads((tmp_path / "summary.json").read_text())["threshold"] == expected.threshold_
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.skops", "scores.npy", "summary.json", "top.csv"]


@pytest.mark.parametrize(
    ("path", "detector"),
    [
        pytest.param("pyod.models.hbos.HBOS", HBOS(), id="exact"),
        pytest.param("pyod.models.iforest.IForest", IForest(random_state=3), id="in-memory"),
    ],
)
def test_score_by_a_written_detector_equals_pyod(table, tmp_path, path, detector):
    run("fit", table.store, path, "--out", tmp_path / "fit", "--seed", 3)
    np.save(tmp_path / "new.npy", table.X[::-3] * 1.25)
    run("ingest", tmp_path / "new.npy", tmp_path / "new.zarr", "--chunk-rows", 100)
    score = ("score", tmp_path / "new.zarr", tmp_path / "fit")
    facts = run_json(*score, "--out", tmp_path / "s.npy", "--top", 5, "--top-out", tmp_path / "top.csv")
    detector.fit(table.X)
    expected = detector.decision_function(table.X[::-3] * 1.25)
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), expected)
    highest = np.argsort(-expected, kind="stable")[:5]
    assert facts["top"] == [{"row": int(row), "id": None, "score": expected[row]} for row in highest]
    with (tmp_path / "top.csv").open() as file:
        (first, *_) = list(csv.DictReader(file))
    assert (int(first["row"]), float(first["score"])) == (highest[0], expected[highest[0]])
    assert "id" not in first
    assert [float(first[f"x{i}"]) for i in range(N_FEATURES)] == (table.X[::-3] * 1.25)[highest[0]].tolist()
    run(*score, "--out", tmp_path / "p.npy", "--function", "predict")
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), detector.predict(table.X[::-3] * 1.25))
    run(*score, "--out", tmp_path / "q.npy", "--function", "predict_proba")
    np.testing.assert_array_equal(np.load(tmp_path / "q.npy"), detector.predict_proba(table.X[::-3] * 1.25))


def test_scores_go_to_a_store_or_a_parquet_file_with_their_ids(table, tmp_path):
    run("fit", table.store, "pyod.models.hbos.HBOS", "--out", tmp_path / "fit")
    detector = HBOS().fit(table.X)
    expected = detector.decision_function(table.X)
    score = ("score", table.store, tmp_path / "fit")
    run_json(*score, "--out", tmp_path / "s.zarr", "--top", 4, "--top-out", tmp_path / "top.json")
    np.testing.assert_array_equal(streamfit.scores.open(tmp_path / "s.zarr").compute(), expected)
    np.testing.assert_array_equal(streamfit.open_store(tmp_path / "s.zarr").ids.compute(), table.ids)
    highest = np.argsort(-expected, kind="stable")[:4]
    records = json.loads((tmp_path / "top.json").read_text())
    assert [(record["row"], record["id"], record["score"]) for record in records] == [
        (row, table.ids[row], expected[row]) for row in highest
    ]
    assert [list(record["features"].values()) for record in records] == table.X[highest].tolist()
    failure = run_json(*score, "--out", tmp_path / "s.zarr", code=2)
    assert "add --overwrite" in failure["message"]
    run(*score, "--out", tmp_path / "s.zarr", "--function", "predict", "--overwrite")
    flags = streamfit.scores.open(tmp_path / "s.zarr")
    np.testing.assert_array_equal(flags["predict"].compute(), detector.predict(table.X), strict=True)
    run(*score, "--out", tmp_path / "p.parquet", "--function", "predict_proba")
    frame = pd.read_parquet(tmp_path / "p.parquet")
    assert list(frame) == ["row", "id", "predict_proba_0", "predict_proba_1"]
    assert frame["id"].tolist() == table.ids.tolist()
    np.testing.assert_array_equal(frame.iloc[:, 2:].to_numpy(), detector.predict_proba(table.X))


def test_batchwise_is_named_and_its_members_cannot_be_written_yet(table, tmp_path):
    facts = run_json(
        "fit", table.store, "pyod.models.hbos.HBOS", "--out", tmp_path, "--method", "batchwise", "--batch-size", 500
    )
    assert facts["method"]["name"] == "batch_wise"
    expected = streamfit.StreamDetector(HBOS(), method=streamfit.BatchWise(batch_size=500)).fit(str(table.store))
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), expected.decision_scores_.compute())
    assert not (tmp_path / "model.skops").exists()
    failure = run_json("score", table.store, tmp_path, "--out", tmp_path / "s.npy", code=3)
    assert failure["error"] == "UnsupportedError"
    assert "batch_wise" in failure["message"]


def test_detectors_lists_the_registry():
    from streamfit.detectors.registry import entries

    listed = run_json("detectors")["detectors"]
    assert [row["detector"] for row in listed] == [entry.detector for entry in entries()]
    said = run("detectors")
    assert all(entry.detector in said for entry in entries())


# -- fit and score: estimators -----------------------------------------------------------------------

SGD = ("sklearn.linear_model.SGDClassifier", "--param", "loss=log_loss", "--batch-size", 300, "--seed", 5)


def test_fit_of_an_estimator_equals_the_trainer(table, tmp_path):
    from sklearn.linear_model import SGDClassifier

    facts = run_json("fit", table.store, *SGD, "--epochs", 2, "--validation", table.store, "--out", tmp_path)
    expected = streamfit.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=300, epochs=2, random_state=5)
    expected.fit(str(table.store))
    model = skops.io.load(tmp_path / "model.skops", trusted=[])
    np.testing.assert_array_equal(model.coef_, expected.estimator_.coef_)
    np.testing.assert_array_equal(model.intercept_, expected.estimator_.intercept_)
    history = json.loads((tmp_path / "history.json").read_text())
    assert history == facts["history"]
    assert len(history) == 2
    assert history[-1]["val_accuracy"] == pytest.approx(np.mean(model.predict(table.X) == table.y))


def test_a_metric_without_a_value_is_null_and_the_fit_is_kept(table, tmp_path):
    """The area under the curve is not defined where validation has one class."""
    of_one_class = table.y == "spam"
    np.save(tmp_path / "X.npy", table.X[of_one_class])
    np.save(tmp_path / "y.npy", table.y[of_one_class])
    run("ingest", tmp_path / "X.npy", tmp_path / "one.zarr", "--y", tmp_path / "y.npy")
    facts = run_json("fit", table.store, *SGD, "--validation", tmp_path / "one.zarr", "--out", tmp_path / "fit")
    assert facts["history"][0]["val_roc_auc"] is None
    assert json.loads((tmp_path / "fit/history.json").read_text()) == facts["history"]
    run("score", table.store, tmp_path / "fit", "--out", tmp_path / "s.npy")


def test_scores_that_are_not_finite_are_null_in_json(table, tmp_path):
    run("fit", table.store, "sklearn.linear_model.SGDOneClassSVM", "--out", tmp_path / "fit")
    model = skops.io.load(tmp_path / "fit/model.skops", trusted=[])
    model.offset_[:] = np.inf
    streamfit.save(model, tmp_path / "fit/model.skops")
    score = ("score", table.store, tmp_path / "fit", "--out", tmp_path / "s.npy")
    facts = run_json(*score, "--function", "decision_function", "--top", 2)
    assert [row["score"] for row in facts["top"]] == [None, None]


@pytest.mark.parametrize("function", ["predict", "decision_function", "predict_proba"])
def test_score_by_a_written_estimator_equals_scikit_learn(table, tmp_path, function):
    run("fit", table.store, *SGD, "--out", tmp_path / "fit")
    run("score", table.store, tmp_path / "fit", "--out", tmp_path / "s.npy", "--function", function)
    model = skops.io.load(tmp_path / "fit/model.skops", trusted=[])
    got, expected = np.load(tmp_path / "s.npy"), getattr(model, function)(table.X)
    assert got.dtype == expected.dtype
    if expected.dtype.kind == "U":
        np.testing.assert_array_equal(got, expected)
    else:  # BLAS sums chunks of rows in another order
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_a_model_of_a_trusted_package_is_resumed_and_scored(table, tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(
        "from sklearn.linear_model import SGDClassifier\nclass Own(SGDClassifier):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = ("own_models.Own", *SGD[1:], "--trust", "own_models")
    for epochs in (1, 2):
        folders = ("--checkpoint", tmp_path / "run", "--out", tmp_path / "out", "--overwrite")
        facts = run_json("fit", table.store, *own, *folders, "--epochs", epochs)
    run("fit", table.store, *SGD, "--epochs", 2, "--out", tmp_path / "whole")
    for name in ("out", "whole"):
        score = ("score", table.store, tmp_path / name, "--out", tmp_path / f"{name}.npy", "--trust", "own_models")
        run(*score, "--function", "decision_function")
    assert len(facts["history"]) == 2
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), np.load(tmp_path / "whole.npy"))


def test_scores_of_scikit_learns_outlier_detectors_are_turned(table, tmp_path):
    run("fit", table.store, "sklearn.linear_model.SGDOneClassSVM", "--out", tmp_path / "fit")
    score = ("score", table.store, tmp_path / "fit", "--out", tmp_path / "s.npy")
    run(*score, "--function", "decision_function")
    model = skops.io.load(tmp_path / "fit/model.skops", trusted=[])
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), -model.decision_function(table.X), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_processes_give_the_same_bits_as_threads(table, tmp_path):
    for scheduler in ("threads", "processes"):
        run("fit", table.store, "pyod.models.hbos.HBOS", "--out", tmp_path / scheduler, "--scheduler", scheduler)
    np.testing.assert_array_equal(np.load(tmp_path / "threads/scores.npy"), np.load(tmp_path / "processes/scores.npy"))


# -- signals, in processes of their own --------------------------------------------------------------


def start(*args):
    # A group of its own, as a shell gives a job, so that a signal meets the command and nothing else.
    return subprocess.Popen(
        [sys.executable, "-m", "streamfit", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened in two minutes"
        time.sleep(0.02)


def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(table, tmp_path):
    from sklearn.linear_model import SGDClassifier

    many = 100_000
    arguments = ("fit", table.store, *SGD, "--checkpoint", tmp_path / "run", "--out", tmp_path / "out")
    process = start(*arguments, "--epochs", many)
    wait_for(lambda: any((tmp_path / "run").glob("checkpoint-*.zip")), process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert stdout == ""
    assert "Paused after step" in stderr
    assert "Traceback" not in stderr
    done = max(int(path.name.split("-")[1]) for path in (tmp_path / "run").glob("checkpoint-*.zip"))
    run(*arguments, "--epochs", done + 2)
    model = skops.io.load(tmp_path / "out/model.skops", trusted=[])
    whole = streamfit.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=300, epochs=done + 2, random_state=5)
    np.testing.assert_array_equal(model.coef_, whole.fit(str(table.store)).estimator_.coef_)


def test_sigterm_leaves_no_scratch_behind(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(60_000, 16)))
    run("ingest", tmp_path / "X.npy", tmp_path / "X.zarr")
    process = start("fit", tmp_path / "X.zarr", "pyod.models.knn.KNN", "--out", tmp_path / "out")
    wait_for(lambda: any((tmp_path / "out").glob("scratch/*")), process)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert list((tmp_path / "out").iterdir()) == []


def test_score_finds_the_columns_of_a_store_by_name(table, tmp_path):
    turned = ("--columns", "f3,f1,f0,f2", "--y", "label", "--ids", "number")
    run("ingest", table.csv, tmp_path / "turned.zarr", *turned)
    run("fit", table.store, "sklearn.linear_model.SGDClassifier", "--out", tmp_path / "fit")
    for store, out in ((table.store, "a.npy"), (tmp_path / "turned.zarr", "b.npy")):
        run("score", store, tmp_path / "fit", "--out", tmp_path / out, "--function", "decision_function")
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"), rtol=1e-12)


def test_labels_of_several_columns(table, tmp_path):
    names = ("--columns", "f0,f1", "--chunk-rows", CHUNK_ROWS)
    facts = run_json("ingest", table.csv, tmp_path / "a.zarr", "--y", "f3", "--y", "f2", *names)
    assert (facts["classes"], facts["n_outputs"]) == (None, 2)
    store = streamfit.open_store(tmp_path / "a.zarr")
    np.testing.assert_array_equal(store.y.compute(), table.X[:, [3, 2]])
    np.save(tmp_path / "y.npy", table.X[:, [3, 2]])
    assert "2 labels a row" in run("ingest", table.csv, tmp_path / "b.zarr", "--y", tmp_path / "y.npy", *names)
    assert "2 a row, of float64" in run("info", tmp_path / "b.zarr")
    appended = ("append", table.csv, tmp_path / "a.zarr", "--y", "f3", "--y", "f2", "--columns", "f0,f1")
    assert run_json(*appended, "--if-exists", "again")["n_appended"] == N_ROWS
    damaged = next((tmp_path / "a.zarr/y/c/7").glob("*"))
    damaged.write_bytes(b"")
    run("verify", tmp_path / "a.zarr", code=1)
    run("repair", table.csv, tmp_path / "a.zarr", "--y", "f3", "--y", "f2", "--columns", "f0,f1")
    assert run_json("verify", tmp_path / "a.zarr")["ok"]
    fit = ("fit", tmp_path / "b.zarr", "sklearn.neural_network.MLPRegressor", "--out", tmp_path / "m")
    assert "r2" in run(*fit, "--validation-share", "0.2", "--batch-size", 100)
    run("score", tmp_path / "b.zarr", tmp_path / "m", "--out", tmp_path / "predicted.npy")
    assert np.load(tmp_path / "predicted.npy").shape == (N_ROWS, 2)


@pytest.mark.parametrize("given", [("f3", "f3"), ("f3", "y.npy")])
def test_labels_that_are_named_twice_are_refused(table, tmp_path, given):
    named = [part for name in given for part in ("--y", name)]
    said = run_json("ingest", table.csv, tmp_path / "a.zarr", *named, code=2)
    assert "--y is given 2 times" in said["message"]
