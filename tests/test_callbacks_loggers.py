"""Observers that write: each entry of the history once, as the trainer has it, also after kills and resumes."""

from __future__ import annotations

import ast
import copy
import csv
import logging
import multiprocessing
import os
import pickle
import signal
from importlib.util import find_spec
from pathlib import Path

import distributed
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

import streamfit as sf
from streamfit.callbacks import CSVLogger, History, Lambda, MLflow, Observer, Progress, TensorBoard
from streamfit.callbacks import event_files as files
from streamfit.errors import InvalidParameterError, UnsupportedError
from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone, StepsMeasured

N_ROWS, N_STEPS = 520, 11


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    y = np.where(X[:, 0] + rng.normal(size=N_ROWS) > 0, "yes", "no")
    return sf.ingest(X, tmp_path_factory.mktemp("loggers") / "store", y=y, chunk_rows=60)


def trainer(callbacks, *, epochs=2, checkpoint=None, **options):
    return sf.StreamTrainer(
        SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01),
        batch_size=50,
        epochs=epochs,
        validate_every_steps=4,
        checkpoint=checkpoint and sf.CheckpointOptions(checkpoint, every_steps=3),
        callbacks=callbacks,
        **options,
    )


def loggers(folder):
    return [CSVLogger(folder / "log.csv"), TensorBoard(folder / "tb", every_steps=2)]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


# -- what is written, read back by others ------------------------------------------------------------


def rows_of(path, separator=","):
    """Entries in a file, by the csv module; what is empty is left out."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [dict(line) for line in csv.DictReader(file, delimiter=separator)]
    whole = ("epoch", "step", "n_rows")
    return [{n: int(v) if n in whole else float(v) for n, v in line.items() if v} for line in lines]


def shown(folder):
    """Points of each curve that TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    curves = {tag: [(p.step, p.value) for p in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    # A curve all of whose points are void is known, and empty.
    return {tag: curve for tag, curve in curves.items() if curve}


def expected_curves(history, n_steps=N_STEPS):
    curves = {}
    for entry in history:
        named = {name: value for name, value in entry.items() if name not in ("epoch", "step", "n_rows", "seconds")}
        named["rows_per_second"] = entry["n_rows"] / entry["seconds"]
        if entry["step"] == n_steps:
            named["epoch_seconds"] = entry["seconds"]
        for name, value in named.items():
            step = entry["epoch"] * n_steps + entry["step"]
            curves.setdefault(name, []).append((step, float(np.float32(value))))
    return curves


def check_written(folder, fitted):
    assert rows_of(folder / "log.csv") == fitted.history_
    pd.testing.assert_frame_equal(
        pd.read_csv(folder / "log.csv"), pd.DataFrame(fitted.history_), check_exact=False, rtol=1e-14
    )
    curves = shown(folder / "tb")
    speeds = [step for step, _ in curves.pop("steps/rows_per_second")]
    assert speeds == sorted(set(speeds))
    assert curves == expected_curves(fitted.history_)
    return speeds


# -- in fits -----------------------------------------------------------------------------------------


def test_what_is_written_is_the_history(tmp_path, store):
    history = History()
    fitted = trainer([*loggers(tmp_path), history]).fit(store, validation_data=store)
    assert [(entry["epoch"], entry["step"]) for entry in fitted.history_] == [
        (epoch, step) for epoch in (0, 1) for step in (4, 8, 11)
    ]
    assert history.entries == fitted.history_
    assert [epoch["epoch"] for epoch in history.epochs] == [0, 1]
    assert history.epochs[0] == {k: v for k, v in fitted.history_[2].items() if k not in ("step", "n_rows")}
    assert check_written(tmp_path, fitted) == list(range(2, 23, 2))


def test_parameters_are_a_text(tmp_path, store):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    trainer([TensorBoard(tmp_path)]).fit(store)
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert accumulator.SummaryMetadata("parameters").plugin_data.plugin_name == "text"
    (text,) = accumulator.Tensors("parameters")
    table = make_ndarray(text.tensor_proto).item().decode().split("\n")
    assert table[:3] == ["| parameter | value |", "|---|---|", "| estimator | SGDClassifier |"]
    assert "| estimator.eta0 | 0.01 |" in table


def test_a_fit_that_begins_anew_replaces_what_was_there(tmp_path, store):
    callbacks = loggers(tmp_path)
    trainer(callbacks, epochs=3).fit(store, validation_data=store)
    # With the same objects, with fresh ones, and with other metrics.
    check_written(tmp_path, trainer(callbacks).fit(store, validation_data=store))
    check_written(tmp_path, trainer(loggers(tmp_path), epochs=1).fit(store))
    check_written(tmp_path, trainer(loggers(tmp_path)).fit(store, validation_data=store))


def test_more_epochs_by_a_checkpoint_and_by_partial_fit(tmp_path, store):
    run = str(tmp_path / "run")
    trainer(loggers(tmp_path), epochs=1, checkpoint=run).fit(store, validation_data=store)
    fitted = trainer(loggers(tmp_path), epochs=3, checkpoint=run).fit(store, validation_data=store)
    check_written(tmp_path, fitted)
    fitted.partial_fit(store)
    fitted.partial_fit(store)
    assert len(fitted.history_) == 11
    check_written(tmp_path, fitted)


def test_partial_fit_on_fewer_rows_goes_on_where_the_steps_ended(tmp_path, store):
    fitted = trainer(loggers(tmp_path), epochs=2).fit(store)
    fitted.partial_fit(store[:100])
    fitted.partial_fit(store[:100])
    assert rows_of(tmp_path / "log.csv") == fitted.history_
    assert [step for step, _ in shown(tmp_path / "tb")["learning_rate"]] == [11, 22, 24, 26]


def test_a_logger_that_comes_later_writes_what_the_checkpoint_knows(tmp_path, store):
    run = str(tmp_path / "run")
    trainer([], checkpoint=run).fit(store, validation_data=store)
    fitted = trainer(loggers(tmp_path), epochs=3, checkpoint=run).fit(store, validation_data=store)
    assert check_written(tmp_path, fitted) == list(range(24, 34, 2))


@pytest.mark.parametrize("broken_at", [2, 3, 9])
def test_a_fit_that_fails_and_goes_on(tmp_path, store, broken_at):
    def breaks(event):
        if event.step == broken_at and event.epoch == 1:
            raise OSError("broken")

    run = str(tmp_path / "run")
    ends = []
    broken = [*loggers(tmp_path), Lambda(steps_done=breaks, fit_ended=ends.append)]
    with pytest.raises(OSError, match="broken"):
        trainer(broken, checkpoint=run).fit(store, validation_data=store)
    assert [end.error for end in ends] == ["OSError"]
    check_written(tmp_path, trainer(loggers(tmp_path), checkpoint=run).fit(store, validation_data=store))


# -- kills -------------------------------------------------------------------------------------------


def child_dies(store, folder, event, n_events, position):
    """Die at the n-th event of a kind, before or after the loggers are told of it."""
    left = [n_events]

    def count(_):
        left[0] -= 1
        if left[0] == 0:
            die()

    callbacks = loggers(folder)
    callbacks.insert(position, Lambda(**{event: count}))
    opened = sf.open_store(store)
    trainer(callbacks, checkpoint=str(folder / "run")).fit(opened, validation_data=opened)


@pytest.fixture(scope="module")
def context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streamfit.trainer", "sklearn.linear_model"])
    return context


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param([("steps_done", 1, 0)], id="before-anything"),
        pytest.param([("steps_done", 7, 2), ("steps_done", 4, 2), ("steps_done", 9, 2)], id="between-steps"),
        pytest.param([("steps_measured", 2, 2)], id="measured-and-told-beyond-the-checkpoint"),
        pytest.param([("steps_measured", 1, 0)], id="measured-and-told-nobody"),
        pytest.param([("epoch_ended", 1, 0)], id="between-checkpoint-and-event"),
        pytest.param([("epoch_ended", 1, 1), ("steps_measured", 2, 1)], id="between-two-loggers"),
    ],
)
def test_killed_and_resumed(tmp_path, context, store, deaths):
    for death in deaths:
        process = context.Process(target=child_dies, args=(store.path, tmp_path, *death))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    fitted = trainer(loggers(tmp_path), checkpoint=str(tmp_path / "run")).fit(store, validation_data=store)
    assert len(fitted.history_) == 6
    check_written(tmp_path, fitted)
    assert not list(tmp_path.glob("*.partial"))


def test_what_a_finished_run_did_not_tell_is_written_when_it_is_asked_for_again(tmp_path):
    ends = [{"epoch": e, "step": 4, "n_rows": 100, "seconds": 2.0, "val_r2": 0.5} for e in (0, 1)]
    begun = FitStarted(n_epochs=2, n_steps=4, n_rows=100, row_nbytes=8)
    for logger in loggers(tmp_path):
        told(logger, begun, StepsDone(0, 4, 100), EpochEnded(0, 2.0, {"val_r2": 0.5}), StepsDone(1, 4, 100))
    for logger in loggers(tmp_path):
        told(logger, FitStarted(2, 4, 100, 8, epoch=2, history=tuple(ends)), FitEnded(0.0))
    assert rows_of(tmp_path / "log.csv") == ends
    curves = shown(tmp_path / "tb")
    assert [step for step, _ in curves.pop("steps/rows_per_second")] == [4, 8]
    assert curves == expected_curves(ends, n_steps=4)


# -- csv ---------------------------------------------------------------------------------------------

STARTED = FitStarted(n_epochs=3, n_steps=4, n_rows=100, row_nbytes=8)


def told(observer, *events):
    for event in events:
        observer.notify(event)


def test_csv_columns_that_come_later_and_values_of_all_kinds(tmp_path):
    path = tmp_path / "new" / "folder" / "log.csv"
    logger = CSVLogger(path, separator=";")
    told(logger, STARTED)
    assert path.read_text() == "epoch;step;n_rows;seconds\n"
    told(logger, StepsDone(0, 2, 50), StepsMeasured(0, 2, 0.1, {"val_a;b": np.nan}))
    told(logger, StepsDone(0, 4, 100), EpochEnded(0, 0.1 + 0.2, {"val_r2": -np.inf}, 1e-300))
    told(logger, StepsDone(1, 4, 100), EpochEnded(1, 7.0))
    assert path.read_text() == (
        'epoch;step;n_rows;seconds;"val_a;b";learning_rate;val_r2\n'
        "0;2;50;0.1;nan;;\n"
        "0;4;100;0.30000000000000004;;1e-300;-inf\n"
        "1;4;100;7.0;;;\n"
    )
    frame = pd.read_csv(path, sep=";")
    assert list(frame["learning_rate"].fillna(0)) == [0, 1e-300, 0]
    path.unlink()
    told(logger, StepsDone(2, 4, 100), EpochEnded(2, 7.0), FitEnded(9.0))
    assert [row["epoch"] for row in rows_of(path, ";")] == [0, 0, 1, 2]


def test_csv_rows_are_there_as_soon_as_they_are_known(tmp_path):
    logger = CSVLogger(tmp_path / "log.csv")
    told(logger, STARTED)
    for epoch in range(3):
        told(logger, StepsDone(epoch, 4, 100), EpochEnded(epoch, 1.0))
        assert len(rows_of(tmp_path / "log.csv")) == epoch + 1


# -- event files -------------------------------------------------------------------------------------


def test_event_files_of_one_instant_and_of_a_clock_that_was_put_back_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    (tmp_path / "events.out.tfevents.1800000000.other.1").touch()
    made = [files.new_event_file(tmp_path) for _ in range(3)]
    assert files.event_files(tmp_path)[1:] == made


def test_an_event_that_was_written_in_part_ends_its_file_alone(tmp_path):
    path = files.new_event_file(tmp_path)
    files.append_events(path, [files.values_event(step, 1.0, {"a": step / 3}) for step in range(3)])
    whole = path.read_bytes()
    for cut in range(1, 40):
        path.write_bytes(whole[:-cut])
        assert [stored.step for stored in files.read_events([path]) if stored.tags] == [0, 1]
    second = files.new_event_file(tmp_path)
    files.append_events(second, [files.begin_event(2, 2.0), files.values_event(2, 2.0, {"a": 9.0})])
    assert shown(tmp_path) == {"a": [(0, 0.0), (1, float(np.float32(1 / 3))), (2, 9.0)]}


@pytest.mark.parametrize("value", [0.0, -1e-50, 1e300, -np.inf, np.nan, 1 / 3])
@pytest.mark.parametrize("step", [0, 127, 128, 2**40])
def test_scalars_are_read_as_float32(tmp_path, value, step):
    path = files.new_event_file(tmp_path)
    files.append_events(path, [files.values_event(step, 1.0, {"ü" * 70: value})])
    with np.errstate(over="ignore"):
        np.testing.assert_equal(shown(tmp_path), {"ü" * 70: [(step, float(np.float32(value)))]})


def test_what_other_writers_put_beside_stays(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step in (3, 9):
        value = Summary.Value(tag="other", histo=HistogramProto(num=step, bucket_limit=[1.0], bucket=[float(step)]))
        writer.add_event(Event(step=step, wall_time=5.0, summary=Summary(value=[value])))
    writer.close()
    # It goes on after 4 steps: what is beyond is void, and step 2 is missing, so what follows it is written anew.
    measured = {"epoch": 0, "step": 2, "n_rows": 50, "seconds": 1.0, "val_r2": 0.5}
    history = (measured, {"epoch": 0, "step": 4, "n_rows": 100, "seconds": 2.0, "val_r2": 0.25})
    told(TensorBoard(tmp_path), FitStarted(2, 4, 100, 8, epoch=1, history=history), FitEnded(1.0))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [(h.step, h.wall_time, h.histogram_value.num) for h in accumulator.Histograms("other")] == [(3, 5.0, 3)]
    assert [(s.step, s.value) for s in accumulator.Scalars("val_r2")] == [(2, 0.5), (4, 0.25)]


def test_steps_that_come_in_jumps_are_marked_once(tmp_path):
    logger = TensorBoard(tmp_path, every_steps=3)
    told(logger, FitStarted(2, 10, 100, 8), StepsDone(0, 2, 20), StepsDone(0, 8, 80), StepsDone(0, 10, 100))
    told(logger, EpochEnded(0, 2.0), StepsDone(1, 10, 100), EpochEnded(1, 4.0), FitEnded(6.0))
    curves = shown(tmp_path)
    assert [step for step, _ in curves["steps/rows_per_second"]] == [8, 10, 20]
    assert curves["rows_per_second"] == [(10, 50.0), (20, 25.0)]
    assert curves["epoch_seconds"] == [(10, 2.0), (20, 4.0)]


# -- MLflow ------------------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("mlflow") is not None, reason="MLflow is installed")
def test_mlflow_that_is_not_installed_is_named(store):
    with pytest.raises(UnsupportedError, match=r"pip install 'streamfit\[mlflow\]'"):
        trainer([MLflow()]).fit(store)


@pytest.fixture
def client(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'streamfit[mlflow]'")
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    return MlflowClient(tracking_uri=uri(tmp_path))


def uri(folder):
    return f"sqlite:///{folder / 'mlflow.db'}"


def points(client, run_id):
    return {
        name: sorted((point.step, point.value) for point in client.get_metric_history(run_id, name))
        for name in client.get_run(run_id).data.metrics
    }


def curves64(history):
    curves = expected_curves(history)
    return {name: [(step, pytest.approx(value, rel=1e-6)) for step, value in curve] for name, curve in curves.items()}


@pytest.mark.filterwarnings("default")  # MLflow's own
def test_mlflow_run(tmp_path, client, store):
    logger = MLflow(experiment="fits", run_name="first", tracking_uri=uri(tmp_path), tags={"team": "rows"})
    fitted = trainer([logger]).fit(store, validation_data=store)
    run = client.get_run(logger.run_id_)
    assert (run.info.status, run.info.run_name, run.data.tags["team"]) == ("FINISHED", "first", "rows")
    assert client.get_experiment(run.info.experiment_id).name == "fits"
    expected = {"estimator": "SGDClassifier", "estimator.eta0": "0.01", "epochs": "2", "memory_limit": "None"}
    assert expected.items() <= run.data.params.items()
    assert points(client, logger.run_id_) == curves64(fitted.history_)
    # A second fit is a second run, and a failed one is told as such.
    first = logger.run_id_

    def breaks(event):
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        trainer([logger, Lambda(epoch_ended=breaks)]).fit(store)
    assert logger.run_id_ != first
    assert client.get_run(logger.run_id_).info.status == "FAILED"


@pytest.mark.filterwarnings("default")
def test_mlflow_goes_on_with_the_run_of_a_killed_fit(tmp_path, client, context, store):
    process = context.Process(target=child_dies_with_mlflow, args=(store.path, tmp_path))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    (run,) = client.search_runs(["0"])
    assert run.info.status == "RUNNING"
    logger = MLflow(tracking_uri=uri(tmp_path), run_file=tmp_path / "run" / "mlflow.json")
    fitted = trainer([logger], epochs=3, checkpoint=str(tmp_path / "run")).fit(store, validation_data=store)
    assert logger.run_id_ == run.info.run_id
    assert len(client.search_runs(["0"])) == 1
    assert client.get_run(logger.run_id_).info.status == "FINISHED"
    got, expected = points(client, logger.run_id_), expected_curves(fitted.history_)
    assert {name: [step for step, _ in curve] for name, curve in got.items()} == {
        name: [step for step, _ in curve] for name, curve in expected.items()
    }
    assert got["val_accuracy"] == [(step, pytest.approx(value)) for step, value in expected["val_accuracy"]]
    (tmp_path / "run" / "mlflow.json").write_text("{}")
    with pytest.raises(InvalidParameterError, match="holds no run of MLflow"):
        trainer([logger], epochs=4, checkpoint=str(tmp_path / "run")).fit(store, validation_data=store)


def child_dies_with_mlflow(store, folder):
    logger = MLflow(tracking_uri=uri(folder), run_file=folder / "run" / "mlflow.json")
    # Between the checkpoint of step 6 and that of step 9: step 8 was measured and logged, and is measured again.
    dies = Lambda(steps_measured=lambda event: die() if event.step == 8 else None)
    opened = sf.open_store(store)
    trainer([logger, dies], checkpoint=str(folder / "run")).fit(opened, validation_data=opened)


@pytest.mark.filterwarnings("default")
def test_mlflow_logs_to_the_active_run_and_leaves_it_open(tmp_path, client, store):
    import mlflow

    mlflow.set_tracking_uri(uri(tmp_path))
    logger = MLflow()
    with mlflow.start_run() as run:
        mlflow.log_param("epochs", "mine")
        fitted = trainer([logger]).fit(store, validation_data=store)
        assert logger.run_id_ == run.info.run_id
        assert client.get_run(logger.run_id_).info.status == "RUNNING"
    params = client.get_run(logger.run_id_).data.params
    assert (params["epochs"], params["batch_size"]) == ("mine", "50")
    assert points(client, logger.run_id_) == curves64(fitted.history_)


@pytest.mark.filterwarnings("default")
def test_mlflow_that_does_not_answer_costs_no_fit(tmp_path, client, store, monkeypatch, caplog):
    from mlflow.exceptions import MlflowException

    original, calls = type(client).log_batch, []

    def at_times(self, run_id, metrics=(), params=(), **options):
        calls.append(len(metrics))
        if metrics and len(calls) in (3, 4):
            raise MlflowException("no answer")
        return original(self, run_id, metrics=metrics, params=params, **options)

    monkeypatch.setattr(type(client), "log_batch", at_times)
    logger = MLflow(tracking_uri=uri(tmp_path))
    fitted = trainer([logger]).fit(store, validation_data=store)
    assert caplog.text.count("did not take") == 2
    assert points(client, logger.run_id_) == curves64(fitted.history_)


@pytest.mark.filterwarnings("default")
def test_mlflow_values_that_are_long_and_names_that_are_odd(tmp_path, client):
    logger = MLflow(tracking_uri=uri(tmp_path))
    parameters = {"estimator.long": "x" * 10_000, **{f"p{i}": i for i in range(250)}}
    told(logger, FitStarted(1, 4, 100, 8, parameters=parameters), StepsDone(0, 4, 100))
    told(logger, EpochEnded(0, 1.0, {"val_f1 (macro)": 0.5, "val_nan": np.nan}), FitEnded(1.0))
    run = client.get_run(logger.run_id_)
    assert len(run.data.params) == 251
    assert run.data.params["estimator.long"] == "x" * 5_997 + "..."
    assert run.data.metrics["val_f1 _macro_"] == 0.5
    assert np.isnan(run.data.metrics["val_nan"])


# -- all ---------------------------------------------------------------------------------------------


def test_functions_are_told_of_their_events(store):
    told_of = {}
    kinds = {
        "fit_started": FitStarted,
        "steps_done": StepsDone,
        "steps_measured": StepsMeasured,
        "epoch_ended": EpochEnded,
        "fit_ended": FitEnded,
    }
    functions = {name: told_of.setdefault(name, []).append for name in kinds}
    trainer([Lambda(**functions)], epochs=1).fit(store, validation_data=store)
    assert {name: len(events) for name, events in told_of.items()} == {
        "fit_started": 1,
        "steps_done": 11,
        "steps_measured": 2,
        "epoch_ended": 1,
        "fit_ended": 1,
    }
    assert all(isinstance(event, kinds[name]) for name, events in told_of.items() for event in events)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: CSVLogger(3), "path must be a path, got 3", id="csv-path"),
        pytest.param(lambda: CSVLogger(""), "path must be a path", id="csv-empty-path"),
        pytest.param(lambda: CSVLogger("a", separator="\n"), "separator must be one character", id="csv-break"),
        pytest.param(lambda: CSVLogger("a", separator=";;"), "separator must be one character", id="csv-two"),
        pytest.param(lambda: CSVLogger("a", separator=None), "separator must be one character", id="csv-none"),
        pytest.param(lambda: TensorBoard(None), "log_dir must be a path, got None", id="tensorboard-path"),
        pytest.param(lambda: TensorBoard("a", every_steps=0), "every_steps must be an integer", id="tensorboard-steps"),
        pytest.param(lambda: MLflow(experiment=3), "experiment must be a text", id="mlflow-experiment"),
        pytest.param(lambda: MLflow(run_id=""), "run_id must be a text", id="mlflow-run"),
        pytest.param(lambda: MLflow(tags=["a"]), "tags must be a mapping", id="mlflow-tags"),
        pytest.param(lambda: MLflow(tags={"a": 1}), "Write values as texts", id="mlflow-tag"),
        pytest.param(lambda: MLflow(run_file=1), "run_file must be a path", id="mlflow-file"),
        pytest.param(lambda: MLflow(run_id="a", run_file="b"), "cannot be given with it", id="mlflow-both"),
        pytest.param(Lambda, "no function to call", id="lambda-none"),
        pytest.param(lambda: Lambda(fit_ended=3), "fit_ended must be a function", id="lambda-no-function"),
    ],
)
def test_arguments_that_are_refused(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


@pytest.fixture
def all_loggers(tmp_path):
    made = [
        CSVLogger(tmp_path / "log.csv"),
        TensorBoard(tmp_path / "tb", every_steps=1),
        History(),
        Progress(),
        Lambda(fit_ended=print),
    ]
    return [*made, MLflow(tracking_uri=uri(tmp_path))]


def test_loggers_are_observers_that_can_be_copied_before_and_after_a_fit(tmp_path, all_loggers):
    for logger in all_loggers[:-1]:
        assert isinstance(logger, Observer)
        told(logger, EpochEnded(0, 1.0), FitEnded(1.0))  # of no fit
        copy.deepcopy(logger)
        told(logger, STARTED, StepsDone(0, 4, 100), EpochEnded(0, 1.0, {"val_r2": 1.0}), FitEnded(1.0))
        pickle.loads(pickle.dumps(copy.deepcopy(logger)))
    pickle.loads(pickle.dumps(copy.deepcopy(all_loggers[-1])))
    clone(sf.StreamTrainer(SGDClassifier(), callbacks=all_loggers))


@pytest.mark.parametrize("name", ["displays", "event_files", "fit_record", "mlflow", "standing", "tensorboard"])
def test_what_only_some_need_is_imported_where_it_is_used(name):
    tree = ast.parse(Path(sf.callbacks.__path__[0], f"{name}.py").read_text(encoding="utf-8"))
    outermost = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    packages = {alias.name for node in outermost for alias in node.names if isinstance(node, ast.Import)}
    packages |= {node.module.partition(".")[0] for node in outermost if isinstance(node, ast.ImportFrom)}
    assert not packages & {"mlflow", "tensorboard", "google_crc32c", "IPython", "sklearn", "pandas"}
    assert "typing" in packages


def test_a_cluster_writes_the_same(tmp_path, store, caplog):
    caplog.set_level(logging.INFO, logger="streamfit")
    here = trainer(loggers(tmp_path / "here")).fit(store, validation_data=store)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        there = trainer([*loggers(tmp_path / "there"), Progress(log_seconds=0)]).fit(store, validation_data=store)
    check_written(tmp_path / "there", there)
    keys = [{k: v for k, v in entry.items() if k != "seconds"} for entry in here.history_]
    assert [{k: v for k, v in entry.items() if k != "seconds"} for entry in there.history_] == keys
    assert "Epoch 2 of 2 done" in caplog.text
