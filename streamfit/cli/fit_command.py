"""``streamfit fit``: a scikit-learn estimator by ``partial_fit``, or a PyOD detector on all rows."""

import shlex
import sys
import time
from contextlib import ExitStack, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from streamfit.cli import fit_options
from streamfit.cli.failure import command_line
from streamfit.cli.json_text import json_text
from streamfit.cli.model_path import import_model, is_detector, parse_params
from streamfit.cli.options import (
    AsJson,
    BatchRows,
    Epochs,
    MemoryLimit,
    ModelParams,
    Overwrite,
    RowOrder,
    RowSampling,
    Scheduler,
    StorePath,
    Trust,
    WindowChunks,
)
from streamfit.errors import InvalidParameterError

if TYPE_CHECKING:
    from streamfit.cli.fitted_folder import FittedFolder

__all__ = ["fit"]


def fit(
    context: typer.Context,
    store: StorePath,
    model: fit_options.Model,
    out: fit_options.Out,
    param: ModelParams = None,
    batch_size: BatchRows = 10_000,
    epochs: Epochs = 1,
    shuffle: RowOrder = "window",
    window: WindowChunks = None,
    sampling: RowSampling = None,
    seed: fit_options.FitSeed = 0,
    validation: fit_options.Validation = None,
    validation_share: fit_options.ValidationShare = None,
    metric: fit_options.Metric = None,
    validate_every: fit_options.ValidateEvery = None,
    online: fit_options.Online = False,
    early_stopping: fit_options.EarlyStoppingPatience = None,
    time_limit: fit_options.TimeLimit = None,
    tensorboard: fit_options.TensorBoardFolder = None,
    csv_log: fit_options.CsvLog = None,
    resume: fit_options.Resume = False,
    checkpoint: fit_options.Checkpoint = None,
    checkpoint_every: fit_options.CheckpointEvery = None,
    other_versions: fit_options.OtherVersions = "refuse",
    method: fit_options.DetectorMethod = "auto",
    memory_limit: MemoryLimit = None,
    scheduler: Scheduler = "threads",
    trust: Trust = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model on a store. Estimators are trained batch by batch; detectors give every row a score.

    Ctrl-C and SIGTERM finish the step of an estimator that is under way and keep its state: --resume goes on with it.
    """
    import streamfit
    from streamfit.cli.detector_fit import fit_detector
    from streamfit.cli.estimator_fit import EstimatorFit, Measured, Resuming
    from streamfit.cli.fitted_folder import FittedFolder
    from streamfit.cli.interruption import SignalPause, spared_from_ctrl_c

    unfitted = import_model(model, parse_params(param or ()), trusted=trust or ())
    detects = is_detector(unfitted)
    folder = FittedFolder(out, trusted=trust or ())
    if detects:
        for_estimators: dict[str, object] = {
            "--shuffle": None if shuffle == "window" else shuffle,
            "--window": window,
            "--sampling": sampling,
            "--validation": validation,
            "--validation-share": validation_share,
            "--metric": metric,
            "--validate-every": validate_every,
            "--online": online or None,
            "--early-stopping": early_stopping,
            "--time-limit": time_limit,
            "--tensorboard": tensorboard,
            "--csv-log": csv_log,
            "--resume": resume or None,
            "--checkpoint": checkpoint,
            "--checkpoint-every": checkpoint_every,
            "--other-versions": None if other_versions == "refuse" else other_versions,
        }
        _refuse("an estimator", for_estimators)
        if unfitted.get_params().get("random_state", 0) is None:
            unfitted.set_params(random_state=seed)
    else:
        _refuse("a detector", {"--method": None if method == "auto" else method})
    measured = Measured(validation, validation_share, metric or None, validate_every, early_stopping, online)
    command = command_line(context)
    resuming = Resuming(
        folder=folder.checkpoint_folder if checkpoint is None else Path(checkpoint).expanduser(),
        named=checkpoint is not None,
        insists=resume,
        anew=overwrite and checkpoint is None,
        command=shlex.join(command if resume else [*command, "--resume"]),
    )
    callbacks = [streamfit.callbacks.Progress(), *measured.callbacks]
    if time_limit is not None:
        callbacks.append(streamfit.callbacks.TimeLimit(time_limit))
    if tensorboard is not None:
        callbacks.append(streamfit.callbacks.TensorBoard(tensorboard))
    if csv_log is not None:
        callbacks.append(streamfit.callbacks.CSVLogger(csv_log))
    rows = streamfit.open_store(store)
    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(resuming.told())
        stack.enter_context(folder.begin(overwrite=overwrite, resume=resume))
        pause = SignalPause()
        if not detects:
            stack.enter_context(pause.listening())
        with spared_from_ctrl_c() if scheduler == "processes" else nullcontext():
            stack.enter_context(streamfit.connect(scheduler))
        if detects:
            ways: dict[str, Any] = {
                "auto": "auto",
                "exact": streamfit.Exact(),
                "batchwise": streamfit.BatchWise(batch_size=batch_size, epochs=epochs, random_state=seed),
            }
            detector = streamfit.StreamDetector(
                unfitted,
                method=ways[method],
                memory_limit=memory_limit,
                scratch=stack.enter_context(folder.scratch()),
            )
            facts = fit_detector(detector, rows, folder)
        else:
            trainer = streamfit.StreamTrainer(
                unfitted,
                batch_size=batch_size,
                epochs=epochs,
                shuffle=shuffle,
                random_state=seed,
                metrics=measured.metrics,
                validate_every_steps=validate_every,
                stream=streamfit.StreamOptions(window=window, sampling=sampling),
                memory_limit=memory_limit,
                checkpoint=streamfit.CheckpointOptions(
                    resuming.folder,
                    every_steps=checkpoint_every,
                    trust=tuple(trust or ()),
                    other_versions=other_versions,
                ),
                callbacks=[*callbacks, pause],
                transformers="online" if online else "before",
            )
            facts = EstimatorFit(trainer, rows, measured, resuming, pause).run(folder)
        summary = {
            "model": model,
            "params": {name: repr(value) for name, value in sorted(unfitted.get_params(deep=False).items())},
            "store": rows.path,
            "store_digest": rows.ref.digest,
            "n_rows": rows.n_rows,
            "n_features": rows.n_features,
            "feature_names": rows.feature_names,
            "seed": seed,
            **facts,
            "seconds": time.monotonic() - began,
            "versions": {name: version(name) for name in ("numpy", "scikit-learn", "pyod")}
            | {"streamfit": streamfit.__version__},
        }
        folder.finish(summary)
        if not detects and checkpoint is None and summary["resume"] is None:
            folder.remove_checkpoint()
    if as_json:
        print(json_text(summary | {"out": str(folder.path)}))
    else:
        _show(summary, folder)


def _refuse(of_what: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise InvalidParameterError(f"{name} is for {of_what}, which MODEL is not. Leave it out.")


def _show(summary: dict[str, Any], folder: "FittedFolder") -> None:
    from streamfit.reporting.tables import print_facts, print_records

    facts = {"rows": f"{summary['n_rows']:,} x {summary['n_features']:,}", "time": f"{summary['seconds']:.1f} s"}
    if "method" in summary:
        method = summary["method"]
        facts["method"] = f"{method['name']} ({method['rung']}): {method['note']}"
        facts["threshold"] = f"{summary['threshold']:.6g}"
        facts["flagged"] = f"{summary['n_flagged']:,} rows, {summary['flagged_share']:.2%}"
        facts["scores"] = str(folder.scores_file)
    elif summary["stopped_by"] is not None:
        facts["ended by"] = summary["stopped_by"].rpartition("-")[0]
    facts["model"] = str(folder.model_file) if summary["not_saved"] is None else f"not written: {summary['not_saved']}"
    print_facts(facts, title=f"{summary['model']} on {summary['store']}")
    print()
    print_records(summary["top"] if "top" in summary else summary["history"])
    if summary.get("resume") is not None:
        print(f"The time limit was reached before the last epoch. Go on: {summary['resume']}", file=sys.stderr)
