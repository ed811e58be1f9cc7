"""All commands, and the options that stand before a command."""

from typing import Annotated

import typer

import streamfit
from streamfit.cli.append_command import append
from streamfit.cli.demo_command import demo
from streamfit.cli.detectors_command import detectors
from streamfit.cli.failure import Command
from streamfit.cli.fit_command import fit
from streamfit.cli.info_command import info
from streamfit.cli.ingest_command import ingest
from streamfit.cli.plan_command import plan
from streamfit.cli.repair_command import repair
from streamfit.cli.score_command import score
from streamfit.cli.shuffle_command import shuffle
from streamfit.cli.verify_command import verify

__all__ = ["app"]

app = typer.Typer(
    name="streamfit",
    help="Train and score on feature matrices larger than memory, and get the answer memory would have given.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"streamfit {streamfit.__version__}")
        raise typer.Exit


@app.callback()
def _before_any_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error too.")] = False,
) -> None:
    """Typer reads the options; `failure.Command` looks at ``debug``."""


for _command in (demo, ingest, append, info, verify, repair, shuffle, plan, fit, score, detectors):
    app.command(cls=Command)(_command)
