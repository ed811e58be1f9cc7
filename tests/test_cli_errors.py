"""What a user gets wrong ends in one paragraph, an exit code, and no traceback."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from streamfit import errors
from streamfit.cli.app import app
from streamfit.cli.failure import exit_code_of
from streamfit.run.checkpoint import Checkpoint
from streamfit.run.sealed import sealed_archive

HBOS = "pyod.models.hbos.HBOS"
SGD = "sklearn.linear_model.SGDClassifier"


def invoke(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Stores: good, without labels, narrow, incomplete; and a finished fit."""
    folder = tmp_path_factory.mktemp("errors")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", np.arange(900) % 2)
    np.save(folder / "narrow.npy", X[:, :2])
    with (folder / "nan.csv").open("w") as file:
        file.write("speed,load\n")
        file.writelines(f"{row},{'nan' if row == 517 else row / 2}\n" for row in range(900))
    made = [
        invoke("ingest", folder / "X.npy", folder / "good.zarr", "--y", folder / "y.npy", "--chunk-rows", 100),
        invoke("ingest", folder / "X.npy", folder / "unlabelled.zarr"),
        invoke("ingest", folder / "narrow.npy", folder / "narrow.zarr"),
        invoke("fit", folder / "good.zarr", HBOS, "--out", folder / "fitted"),
    ]
    assert [result.exit_code for result in made] == [0] * len(made)
    broken = invoke("ingest", folder / "nan.csv", folder / "incomplete.zarr", "--chunk-rows", 100)
    assert broken.exit_code == 1
    (folder / "text.npy").write_text("no array")
    return folder


CASES = [
    pytest.param(["info", "{}/none.zarr"], 2, "StoreNotFoundError", "no store at", id="info-no-store"),
    pytest.param(["verify", "{}/none.zarr"], 2, "StoreNotFoundError", "no store at", id="verify-no-store"),
    pytest.param(
        ["fit", "{}/incomplete.zarr", HBOS, "--out", "{}/o"],
        1,
        "StoreIncompleteError",
        "incomplete",
        id="fit-incomplete",
    ),
    pytest.param(
        ["ingest", "{}/nan.csv", "{}/new.zarr"], 1, "InvalidDataError", "row 517, column load", id="nan-named"
    ),
    pytest.param(
        ["ingest", "{}/nan.csv", "{}/new.zarr"], 1, "InvalidDataError", "written with --nonfinite keep", id="options"
    ),
    pytest.param(
        ["ingest", "{}/narrow.npy", "{}/good.zarr"],
        2,
        "StoreExistsError",
        "or say --if-exists overwrite",
        id="ingest-over-another",
    ),
    pytest.param(["append", "{}/X.npy", "{}/none.zarr"], 2, "StoreNotFoundError", "no store at", id="append-no-store"),
    pytest.param(
        ["append", "{}/none.npy", "{}/unlabelled.zarr"], 2, "SourceNotFoundError", "none.npy", id="append-no-source"
    ),
    pytest.param(
        ["append", "{}/X.npy", "{}/unlabelled.zarr", "--if-exists", "error"],
        2,
        "StoreExistsError",
        "Say --if-exists again to add",
        id="append-twice",
    ),
    pytest.param(
        ["append", "{}/narrow.npy", "{}/good.zarr"],
        1,
        "InvalidDataError",
        "has 2 columns of features and the store",
        id="append-narrow",
    ),
    pytest.param(
        ["append", "{}/narrow.npy", "{}/incomplete.zarr"],
        1,
        "StoreIncompleteError",
        "incomplete",
        id="append-incomplete",
    ),
    pytest.param(["ingest", "{}/none.csv", "{}/new.zarr"], 2, "SourceNotFoundError", "none.csv", id="ingest-no-source"),
    pytest.param(
        ["ingest", "{}/nan.csv", "{}/new.zarr", "--y", "label"],
        2,
        "InvalidParameterError",
        "label",
        id="no-such-column",
    ),
    pytest.param(
        ["ingest", "{}/X.npy", "{}/new.zarr", "--y", "{}/text.npy"],
        1,
        "InvalidDataError",
        "text.npy is not an array",
        id="labels-no-array",
    ),
    pytest.param(
        ["ingest", "{}/X.npy", "{}/new.zarr", "--y", "{}/none.npy"],
        2,
        "FileNotFoundError",
        "none.npy",
        id="labels-no-file",
    ),
    pytest.param(
        ["ingest", "{}/X.npy", "{}/new.zarr", "--memory-limit", "1kB"],
        3,
        "BudgetError",
        "memory_limit",
        id="ingest-budget",
    ),
    pytest.param(
        ["ingest", "{}/X.npy", "{}/new.zarr", "--memory-limit", "much"],
        2,
        "InvalidParameterError",
        "'much'",
        id="memory-limit-no-number",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "SGDClassifier", "--out", "{}/o"],
        2,
        "InvalidParameterError",
        "import path",
        id="no-path",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "subprocess.Popen", "--out", "{}/o"],
        2,
        "InvalidParameterError",
        "--trust subprocess",
        id="model-not-allowed",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "sklearn.pipeline.Path", "--out", "{}/o"],
        2,
        "InvalidParameterError",
        "cannot be imported",
        id="model-not-there",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "sklearn.linear_mode.SGDClassifier", "--out", "{}/o"],
        2,
        "InvalidParameterError",
        "No module named",
        id="module-not-there",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "sklearn.base.clone", "--out", "{}/o"],
        2,
        "InvalidParameterError",
        "no class with a fit method",
        id="model-a-function",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", SGD, "--out", "{}/o", "--param", "los=hinge"],
        2,
        "InvalidParameterError",
        "SGDClassifier has no parameter los. It has alpha",
        id="no-such-parameter",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", SGD, "--out", "{}/o", "--param", "hinge"],
        2,
        "InvalidParameterError",
        "name=value",
        id="parameter-without-value",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", SGD, "--out", "{}/o", "--param", "loss=hing"], 1, None, "hing", id="bad-parameter-value"
    ),
    pytest.param(
        ["fit", "{}/unlabelled.zarr", SGD, "--out", "{}/o"],
        1,
        "InvalidDataError",
        "no y",
        id="classifier-without-labels",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "sklearn.svm.SVC", "--out", "{}/o"],
        2,
        "InvalidParameterError",
        "partial_fit",
        id="no-partial-fit",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", HBOS, "--out", "{}/o", "--checkpoint", "{}/run"],
        2,
        "InvalidParameterError",
        "--checkpoint is for an estimator",
        id="checkpoint-of-detector",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", SGD, "--out", "{}/o", "--method", "exact"],
        2,
        "InvalidParameterError",
        "--method is for a detector",
        id="method-of-estimator",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", "pyod.models.mcd.MCD", "--out", "{}/o", "--method", "exact"],
        3,
        "UnsupportedError",
        "cannot be fitted exactly",
        id="no-exact-way",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", HBOS, "--out", "{}/o", "--memory-limit", "1kB"],
        3,
        "BudgetError",
        "limit",
        id="fit-budget",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", HBOS, "--out", "{}/o", "--scheduler", "nowhere"],
        2,
        "InvalidParameterError",
        "'nowhere'",
        id="no-scheduler",
    ),
    pytest.param(
        ["fit", "{}/good.zarr", HBOS, "--out", "{}/fitted"], 2, "StoreExistsError", "finished fit", id="fit-exists"
    ),
    pytest.param(["fit", "{}/good.zarr", HBOS, "--out", "{}/X.npy"], 2, "FileExistsError", "X.npy", id="out-is-a-file"),
    pytest.param(
        ["score", "{}/good.zarr", "{}/none", "--out", "{}/s.npy"],
        2,
        "StoreNotFoundError",
        "no finished fit",
        id="no-fit",
    ),
    pytest.param(
        ["score", "{}/narrow.zarr", "{}/fitted", "--out", "{}/s.npy"],
        1,
        "InvalidDataError",
        "has 2 features and the model was fitted on 3",
        id="other-width",
    ),
    pytest.param(
        ["score", "{}/good.zarr", "{}/fitted", "--out", "{}/X.npy"],
        2,
        "StoreExistsError",
        "--overwrite",
        id="out-exists",
    ),
    pytest.param(
        ["score", "{}/good.zarr", "{}/fitted", "--out", "{}/s.npy", "--top-out", "{}/t.csv"],
        2,
        "InvalidParameterError",
        "--top",
        id="top-out-without-top",
    ),
    pytest.param(
        ["score", "{}/good.zarr", "{}/fitted", "--out", "{}/s.npy", "--top", "3", "--top-out", "{}/t.xlsx"],
        2,
        "InvalidParameterError",
        ".csv or .json",
        id="top-out-of-another-kind",
    ),
    pytest.param(
        ["score", "{}/good.zarr", "{}/fitted", "--out", "{}/s.hdf"],
        2,
        "InvalidParameterError",
        ".npy, .zarr or .parquet",
        id="out-of-another-kind",
    ),
    pytest.param(
        ["score", "{}/good.zarr", "{}/fitted", "--out", "{}/good.zarr", "--overwrite"],
        2,
        "StoreExistsError",
        "something else than scores",
        id="out-is-a-store-of-rows",
    ),
    pytest.param(
        ["score", "{}/good.zarr", "{}/fitted", "--out", "{}/s.npy", "--function", "predict_proba", "--top", "3"],
        2,
        "InvalidParameterError",
        "one number a row",
        id="top-of-probabilities",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "error", "words"), CASES)
def test_error_is_one_paragraph_or_one_object(folder, arguments, code, error, words):
    arguments = [argument.replace("{}", str(folder)) for argument in arguments]
    plain = invoke(*arguments)
    assert plain.exit_code == code, plain.output
    assert plain.stdout == ""
    assert plain.stderr.startswith("error: ")
    assert plain.stderr.count("\n") == 1
    assert words in plain.stderr
    as_json = invoke(*arguments, "--json")
    assert as_json.exit_code == code
    assert as_json.stderr == ""
    reported = json.loads(as_json.stdout)
    assert words in reported["message"]
    assert error is None or reported["error"] == error


def test_a_refused_fit_leaves_a_finished_one_as_it_was(folder):
    before = {path.name: path.read_bytes() for path in (folder / "fitted").iterdir()}
    assert invoke("fit", folder / "good.zarr", HBOS, "--out", folder / "fitted").exit_code == 2
    assert {path.name: path.read_bytes() for path in (folder / "fitted").iterdir()} == before


def test_info_of_an_incomplete_store_says_so(folder):
    result = invoke("info", folder / "incomplete.zarr")
    assert result.exit_code == 0
    assert "INCOMPLETE" in result.stdout
    assert json.loads(invoke("info", folder / "incomplete.zarr", "--json").stdout)["complete"] is False


def test_debug_adds_the_traceback(folder):
    result = invoke("--debug", "info", folder / "none.zarr")
    assert result.exit_code == 2
    assert "Traceback (most recent call last)" in result.stderr
    assert "error: There is no store" in result.stderr


@pytest.mark.parametrize("where", ["model", "checkpoint"])
@pytest.mark.parametrize(
    ("module", "name"), [("subprocess", "run"), ("sklearn.datasets._base", "clear_data_home"), ("pyod.utils", "os")]
)
def test_nothing_is_called_that_a_model_names(folder, tmp_path, where, module, name):
    fitted, victim = tmp_path / "fit", tmp_path / "victim"
    victim.mkdir()
    options = ("--checkpoint", tmp_path / "run", "--overwrite")
    assert invoke("fit", folder / "good.zarr", SGD, "--out", fitted, *options).exit_code == 0
    parts = calling(module, name, str(victim))
    if where == "model":
        about = {"format": 1, "kind": "model", "versions": {}, "facts": {}}
        (fitted / "model.skops").write_bytes(sealed_archive({"streamfit.json": json.dumps(about), **parts}))
        result = invoke("score", folder / "good.zarr", fitted, "--out", tmp_path / "s.npy")
    else:
        (written,) = (tmp_path / "run").glob("checkpoint-*.zip")
        checkpoint = Checkpoint.from_bytes(written.read_bytes())
        written.write_bytes(replace(checkpoint, model=sealed_archive(parts)).to_bytes())
        result = invoke("fit", folder / "good.zarr", SGD, "--out", fitted, *options, "--epochs", 2)
    assert result.exit_code == 1
    assert f"{module}.{name}" in result.stderr
    assert f"add --trust {module.partition('.')[0]}." in result.stderr
    assert victim.exists()


def calling(module, name, *arguments):
    """Give a model that asks for something to be called while it is read, as skops writes types with a constructor."""
    import skops.io

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(arguments))) as archive:
        content = json.loads(archive.read("schema.json"))
    known = {key: content.pop(key) for key in ("protocol", "_skops_version")}
    node = {"__class__": name, "__module__": module, "__loader__": "ConstructorFromReduceNode", "content": content}
    return {"schema.json": json.dumps(node | known)}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        pytest.param("model.skops", b"PK", "model.skops is damaged", id="model"),
        pytest.param("summary.json", b"{", "summary.json cannot be read", id="summary"),
        pytest.param("summary.json", b"{}", "not written by this version", id="other-format"),
    ],
)
def test_damaged_fit_is_named(folder, tmp_path, name, content, words):
    fitted = tmp_path / "fit"
    assert invoke("fit", folder / "good.zarr", SGD, "--out", fitted).exit_code == 0
    (fitted / name).write_bytes(content)
    result = invoke("score", folder / "good.zarr", fitted, "--out", tmp_path / "s.npy")
    assert result.exit_code == 1
    assert words in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["fly"], "No such command", id="command"),
        pytest.param(["info"], "Missing argument", id="missing"),
        pytest.param(["info", "a", "--fast"], "No such option", id="option"),
        pytest.param(["fit", "a", "b", "--out", "c", "--epochs", "0"], "--epochs", id="range"),
        pytest.param(["fit", "a", "b", "--out", "c", "--method", "best"], "--method", id="choice"),
    ],
)
def test_wrong_usage_ends_with_2(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(errors.InvalidDataError("a"), 1, id="data"),
        pytest.param(errors.StoreCorruptError("a"), 1, id="corrupt"),
        pytest.param(errors.StoreIncompleteError("a"), 1, id="incomplete"),
        pytest.param(errors.CheckpointError("a"), 1, id="checkpoint"),
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), 1, id="disk-full"),
        pytest.param(errors.InvalidParameterError("a"), 2, id="parameter"),
        pytest.param(errors.CheckpointMismatchError("a"), 2, id="mismatch"),
        pytest.param(errors.StoreLockedError("a"), 2, id="locked"),
        pytest.param(PermissionError(errno.EACCES, "Permission denied"), 2, id="permission"),
        pytest.param(errors.BudgetError("a"), 3, id="budget"),
        pytest.param(errors.UnsupportedError("a"), 3, id="unsupported"),
        pytest.param(MemoryError(), 3, id="memory"),
        pytest.param(KeyboardInterrupt(), 130, id="ctrl-c"),
    ],
)
def test_exit_codes(error, code):
    assert exit_code_of(error) == code


def test_a_process_of_its_own_says_the_same(folder):
    done = subprocess.run(
        [sys.executable, "-m", "streamfit", "ingest", folder / "nan.csv", folder / "new.zarr"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: X has NaN in row 517, column load.")
    assert done.stderr.count("\n") == 1


def test_output_that_nobody_reads_any_more_is_no_error(folder):
    """As in ``streamfit info store | head -0``."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "streamfit", "info", folder / "good.zarr"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr
