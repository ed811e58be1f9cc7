"""``streamfit plan``: what a fit will take, before it begins."""

from typing import Annotated

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.model_path import import_model, is_detector, parse_params
from streamfit.cli.options import (
    AsJson,
    BatchRows,
    Epochs,
    MemoryLimit,
    ModelParams,
    RowOrder,
    RowSampling,
    StorePath,
    Trust,
    WindowChunks,
)
from streamfit.errors import InvalidParameterError

__all__ = ["plan"]


def plan(
    store: StorePath,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Import path of an estimator, such as sklearn.linear_model.SGDClassifier. Without it only reading is "
            "planned.",
            show_default=False,
        ),
    ] = None,
    param: ModelParams = None,
    batch_size: BatchRows = 10_000,
    epochs: Epochs = 1,
    shuffle: RowOrder = "window",
    window: WindowChunks = None,
    sampling: RowSampling = None,
    memory_limit: MemoryLimit = None,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a fit will take: memory, steps, time, and how well rows are mixed. Reads a few chunks, fits nothing."""
    import streamfit

    rows = streamfit.open_store(store)
    if model is None:
        if param:
            raise InvalidParameterError("--param is for MODEL, and there is none. Name a MODEL, or leave it out.")
        found = rows.project(
            batch_size=batch_size,
            epochs=epochs,
            shuffle=shuffle,
            window=window,
            sampling=sampling,
            memory_limit=memory_limit,
        )
    else:
        unfitted = import_model(model, parse_params(param or ()), trusted=trust or ())
        if is_detector(unfitted):
            raise InvalidParameterError(
                f"{model} is a detector, and plan is for estimators with partial_fit. Their fit refuses what does "
                "not fit its memory limit before it reads; streamfit detectors tells how each is fitted."
            )
        trainer = streamfit.StreamTrainer(
            unfitted,
            batch_size=batch_size,
            epochs=epochs,
            shuffle=shuffle,
            memory_limit=memory_limit,
            stream=streamfit.StreamOptions(window=window, sampling=sampling),
        )
        found = trainer.plan(rows)
    print(json_text(found.to_dict()) if as_json else found)
