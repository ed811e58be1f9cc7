"""Options that several commands share, with one wording."""

# No `from __future__ import annotations` in the files of commands: typer reads these at run time.

from typing import Annotated

import typer

from streamfit.options import Sampling, Shuffle

__all__ = [
    "AsJson",
    "BatchRows",
    "Epochs",
    "MemoryLimit",
    "ModelParams",
    "Overwrite",
    "RowOrder",
    "RowSampling",
    "Scheduler",
    "StorePath",
    "Trust",
    "WindowChunks",
]

StorePath = Annotated[str, typer.Argument(metavar="STORE", help="Folder of a store.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for errors too.")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="Bound streamfit's own memory, such as 2GB.", show_default="no limit"),
]
Scheduler = Annotated[
    str, typer.Option(metavar="WHERE", help="threads, processes, or the address of a Dask scheduler (tcp://…).")
]
Trust = Annotated[
    list[str] | None,
    typer.Option(metavar="PACKAGE", help="Allow models from this package besides sklearn, pyod and streamfit."),
]
ModelParams = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="A parameter of MODEL; may be repeated.")
]
BatchRows = Annotated[int, typer.Option("--batch-size", help="Rows of a batch.", min=1)]
Epochs = Annotated[int, typer.Option("--epochs", help="Times that each row is trained on.", min=1)]
RowOrder = Annotated[
    Shuffle, typer.Option("--shuffle", help="Shuffle rows in windows of shuffled chunks, or keep their order.")
]
WindowChunks = Annotated[
    int | None, typer.Option("--window", help="Chunks in a window.", min=1, show_default="chosen from the store")
]
RowSampling = Annotated[
    Sampling | None,
    typer.Option(
        "--sampling",
        help="Spread the classes evenly over batches; or take of each class equally many rows; or rows by weight.",
        show_default="each row once, at random",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results that are there already.")]
