"""``streamfit fit``: a scikit-learn estimator by ``partial_fit``, or a PyOD detector on all rows."""

import time
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.model_path import import_model, is_detector, parse_params, trusted_packages
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
from streamfit.errors import InvalidDataError, InvalidParameterError, StreamfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.cli.fitted_folder import FittedFolder
    from streamfit.detector import StreamDetector
    from streamfit.feature_store import FeatureStore
    from streamfit.trainer import StreamTrainer

__all__ = ["fit"]

_N_TOP = 20
_COUNTED_ROWS = 1 << 20


def fit(
    store: StorePath,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Import path, such as sklearn.linear_model.SGDClassifier or pyod.models.knn.KNN."
        ),
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the model, scores and a summary.")],
    param: ModelParams = None,
    batch_size: BatchRows = 10_000,
    epochs: Epochs = 1,
    shuffle: RowOrder = "window",
    window: WindowChunks = None,
    sampling: RowSampling = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of rows, and of MODEL where it draws.", min=0)] = 0,
    validation: Annotated[
        str | None, typer.Option(metavar="STORE", help="Estimators: measure each epoch on this store.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Estimators: write the state here, and go on from it.")
    ] = None,
    method: Annotated[
        Literal["auto", "exact", "batchwise"], typer.Option(help="Detectors: the way to fit; see streamfit detectors.")
    ] = "auto",
    memory_limit: MemoryLimit = None,
    scheduler: Scheduler = "threads",
    trust: Trust = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model on a store. Estimators are trained batch by batch; detectors give every row a score."""
    import streamfit
    from streamfit.cli.fitted_folder import FittedFolder

    unfitted = import_model(model, parse_params(param or ()), trusted=trust or ())
    detects = is_detector(unfitted)
    if detects:
        ordering = {"--shuffle": None if shuffle == "window" else shuffle, "--window": window, "--sampling": sampling}
        _refuse("an estimator", {"--validation": validation, "--checkpoint": checkpoint, **ordering})
        if unfitted.get_params().get("random_state", 0) is None:
            unfitted.set_params(random_state=seed)
    else:
        _refuse("a detector", {"--method": None if method == "auto" else method})
    rows = streamfit.open_store(store)
    folder = FittedFolder(out)
    folder.begin(overwrite=overwrite)
    began = time.monotonic()
    with streamfit.connect(scheduler), folder.scratch() as scratch:
        if detects:
            ways: dict[str, Any] = {
                "auto": "auto",
                "exact": streamfit.Exact(),
                "batchwise": streamfit.BatchWise(batch_size=batch_size, epochs=epochs, random_state=seed),
            }
            detector = streamfit.StreamDetector(
                unfitted, method=ways[method], memory_limit=memory_limit, scratch=scratch
            )
            facts = _detect(detector, rows, folder)
        else:
            trainer = streamfit.StreamTrainer(
                unfitted,
                batch_size=batch_size,
                epochs=epochs,
                shuffle=shuffle,
                random_state=seed,
                stream=streamfit.StreamOptions(window=window, sampling=sampling),
                memory_limit=memory_limit,
                checkpoint=None
                if checkpoint is None
                else streamfit.CheckpointOptions(checkpoint, trust=trusted_packages(trust or ())),
                callbacks=[streamfit.callbacks.Progress()],
            )
            facts = _train(trainer, rows, folder, validation)
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
    if as_json:
        print(json_text(summary | {"out": str(folder.path)}))
    else:
        _show(summary, folder)


def _refuse(of_what: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise InvalidParameterError(f"{name} is for {of_what}, which MODEL is not. Leave it out.")


@contextmanager
def _refusals_of(model: Any) -> "Iterator[None]":
    """Give the model's own words about its parameters or the rows; --debug shows where they come from."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, StreamfitError):
            raise
        raise InvalidDataError(f"{type(model).__name__} refuses these rows or parameters: {error}") from error


def _train(trainer: "StreamTrainer", store: "FeatureStore", folder: "FittedFolder", validation: str | None) -> Any:
    from streamfit.feature_store import open_store

    validation_data = None if validation is None else open_store(validation)
    with _refusals_of(trainer.estimator):
        trainer.fit(store, validation_data=validation_data)
    not_saved = folder.write_model(trainer.estimator_)
    folder.write_json("history.json", trainer.history_)
    return {"not_saved": not_saved, "history": trainer.history_}


def _detect(detector: "StreamDetector", store: "FeatureStore", folder: "FittedFolder") -> Any:
    import numpy as np

    from streamfit.cli.row_output import top_rows, write_csv, write_npy
    from streamfit.reporting.waiting import waiting

    name = type(detector.detector).__name__
    with waiting(f"fit {name}"):
        with _refusals_of(detector.detector):
            detector.fit(store)
        lazy_scores: Any = detector.decision_scores_  # of a store they are a dask array
        write_npy(folder.scores_file, lazy_scores)
    scores = np.load(folder.scores_file, mmap_mode="r")
    starts = range(0, len(scores), _COUNTED_ROWS)
    n_flagged = sum(int((scores[start : start + _COUNTED_ROWS] > detector.threshold_).sum()) for start in starts)
    top = top_rows(store, scores, _N_TOP)
    write_csv(folder.path / "top.csv", top)
    method = detector.method_
    if detector.detector_ is None:
        not_saved: str | None = (
            f"{name} fitted by method {method.name} is no single PyOD object, and such models are not written yet."
        )
    else:
        not_saved = folder.write_model(detector.detector_)
    return {
        "not_saved": not_saved,
        "method": {"name": method.name, "rung": method.rung, "note": method.note},
        "threshold": detector.threshold_,
        "n_flagged": n_flagged,
        "flagged_share": n_flagged / store.n_rows,
        "top": [asdict(row) for row in top],
    }


def _show(summary: dict[str, Any], folder: "FittedFolder") -> None:
    from streamfit.reporting.tables import print_facts, print_records

    facts = {"rows": f"{summary['n_rows']:,} x {summary['n_features']:,}", "time": f"{summary['seconds']:.1f} s"}
    if "method" in summary:
        method = summary["method"]
        facts["method"] = f"{method['name']} ({method['rung']}): {method['note']}"
        facts["threshold"] = f"{summary['threshold']:.6g}"
        facts["flagged"] = f"{summary['n_flagged']:,} rows, {summary['flagged_share']:.2%}"
        facts["scores"] = str(folder.scores_file)
    facts["model"] = str(folder.model_file) if summary["not_saved"] is None else f"not written: {summary['not_saved']}"
    print_facts(facts, title=f"{summary['model']} on {summary['store']}")
    print()
    print_records(summary["top"] if "top" in summary else summary["history"])
