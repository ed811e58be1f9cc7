"""Options of ``fit`` alone, in the groups in which its help shows them."""

# No `from __future__ import annotations`: typer reads these at run time.

from typing import Annotated, Literal

import typer

__all__ = [
    "Checkpoint",
    "CheckpointEvery",
    "CsvLog",
    "DetectorMethod",
    "EarlyStoppingPatience",
    "FitSeed",
    "Metric",
    "Model",
    "Online",
    "OtherVersions",
    "Out",
    "Resume",
    "TensorBoardFolder",
    "TimeLimit",
    "ValidateEvery",
    "Validation",
    "ValidationShare",
]

_MEASURED = "Estimators: metrics and when to end"
_GOING_ON = "Estimators: interruptions"
_DETECTORS = "Detectors"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Import path, such as sklearn.linear_model.SGDClassifier or pyod.models.knn.KNN."
    ),
]
Out = Annotated[str, typer.Option(metavar="DIR", help="Folder for the model, scores and a summary.")]
FitSeed = Annotated[int, typer.Option("--seed", help="Seed of the order of rows, and of MODEL where it draws.", min=0)]

Validation = Annotated[
    str | None,
    typer.Option("--validation", metavar="STORE", help="Measure metrics on this store.", rich_help_panel=_MEASURED),
]
ValidationShare = Annotated[
    float | None,
    typer.Option(
        "--validation-share",
        metavar="SHARE",
        help="Split off this share of the rows and measure on it, such as 0.2; it is not trained on.",
        rich_help_panel=_MEASURED,
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Metric to measure, such as log_loss or any scorer of scikit-learn; may be repeated.",
        show_default="by the kind of MODEL",
        rich_help_panel=_MEASURED,
    ),
]
ValidateEvery = Annotated[
    int | None,
    typer.Option(
        "--validate-every",
        metavar="STEPS",
        help="Measure also after each so many steps of an epoch.",
        min=1,
        show_default="at the end of each epoch",
        rich_help_panel=_MEASURED,
    ),
]
Online = Annotated[
    bool,
    typer.Option(
        "--online",
        help="Test each batch before it is learnt, as for rows in the order of time (--shuffle none).",
        rich_help_panel=_MEASURED,
    ),
]
EarlyStoppingPatience = Annotated[
    int | None,
    typer.Option(
        "--early-stopping",
        metavar="EPOCHS",
        help="End after so many epochs in a row without a better value of the first metric; the best model is kept.",
        min=1,
        rich_help_panel=_MEASURED,
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="End after this time, such as 90s, 10m or 1h30m, with the model as it is then; --resume goes on.",
        rich_help_panel=_MEASURED,
    ),
]
TensorBoardFolder = Annotated[
    str | None,
    typer.Option(
        "--tensorboard", metavar="DIR", help="Write what TensorBoard shows to this folder.", rich_help_panel=_MEASURED
    ),
]
CsvLog = Annotated[
    str | None,
    typer.Option(
        "--csv-log", metavar="FILE", help="Write the history to this csv file as it grows.", rich_help_panel=_MEASURED
    ),
]

Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on where an interrupted fit stopped, bit for bit as if it had not; an error where there is none.",
        rich_help_panel=_GOING_ON,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Write the state here, and go on from it if there is one; it stays, so that more --epochs go on too.",
        show_default="a folder in --out, until the fit is done",
        rich_help_panel=_GOING_ON,
    ),
]
CheckpointEvery = Annotated[
    int | None,
    typer.Option(
        "--checkpoint-every",
        metavar="STEPS",
        help="Write the state also after each so many steps of an epoch, against power cuts and kills.",
        min=1,
        show_default="at the end of each epoch, and when interrupted",
        rich_help_panel=_GOING_ON,
    ),
]
OtherVersions = Annotated[
    Literal["refuse", "accept"],
    typer.Option(
        "--other-versions",
        help="Go on with what other versions of streamfit, NumPy or scikit-learn have begun, or another machine.",
        rich_help_panel=_GOING_ON,
    ),
]

DetectorMethod = Annotated[
    Literal["auto", "exact", "batchwise"],
    typer.Option("--method", help="The way to fit; see streamfit detectors.", rich_help_panel=_DETECTORS),
]
