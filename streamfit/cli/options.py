"""Options that several commands share, with one wording."""

# No `from __future__ import annotations` in the files of commands: typer reads these at run time.

from typing import Annotated

import typer

__all__ = ["AsJson", "MemoryLimit", "Overwrite", "Scheduler", "StorePath", "Trust"]

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
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results that are there already.")]
