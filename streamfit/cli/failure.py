"""How a command ends: one paragraph for people or one JSON object for programs, and an exit code for both."""

from __future__ import annotations

import re
import sys
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from streamfit.cli.json_text import json_text
from streamfit.cli.warning_lines import plain_warnings
from streamfit.errors import (
    BudgetError,
    CheckpointMismatchError,
    InvalidParameterError,
    StoreError,
    StoreExistsError,
    StoreLockedError,
    StoreNotFoundError,
    StreamfitError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BAD_DATA", "INTERRUPTED", "REFUSED", "USAGE", "Command", "Interrupted", "command_line", "exit_code_of"]

BAD_DATA = 1
"""The data, a store or the disk is not as it has to be."""
USAGE = 2
"""The command is not as it has to be: a wrong option, a path where nothing is or something is already."""
REFUSED = 3
"""The work does not fit the memory limit, or has no out-of-core form."""
INTERRUPTED = 130
"""Ctrl-C, by the shell's convention: 128 and the number of the signal."""

_ARGUMENTS = f"{__name__}.arguments"

_WRONG_CALL = (
    InvalidParameterError,
    CheckpointMismatchError,
    StoreExistsError,
    StoreLockedError,
    StoreNotFoundError,
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


class Interrupted(KeyboardInterrupt):
    """A signal has ended the work.

    Parameters
    ----------
    signal_number : int
        The signal.
    message : str or None
        What is left, and how to go on; None: who knows that has not caught it yet.
    """

    def __init__(self, signal_number: int, message: str | None = None) -> None:
        super().__init__(message or "Interrupted.")
        self.signal_number = signal_number
        self.message = message


def exit_code_of(error: BaseException) -> int:
    """Give the exit code that an error ends a command with.

    Examples
    --------
    >>> from streamfit import errors
    >>> exit_code_of(errors.InvalidDataError("NaN")), exit_code_of(errors.InvalidParameterError("epochs"))
    (1, 2)
    >>> exit_code_of(errors.BudgetError("memory")), exit_code_of(KeyboardInterrupt())
    (3, 130)
    >>> exit_code_of(Interrupted(15))
    143
    """
    if isinstance(error, Interrupted):
        return 128 + error.signal_number
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, (BudgetError, UnsupportedError, MemoryError)):
        return REFUSED
    return USAGE if isinstance(error, _WRONG_CALL) else BAD_DATA


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt) and not isinstance(error, Interrupted):
        return "Interrupted. The same command goes on where it stopped; a fit does so where it has a checkpoint."
    if isinstance(error, OSError) and not isinstance(error, (StoreError, StreamfitError)):
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror or error}."
    return str(error) or type(error).__name__


def as_options(message: str, options: Iterable[str]) -> str:
    """Say as options of a command what a message of the library says as keywords of a call.

    Parameters
    ----------
    message : str
        What is wrong, what was got, what to do.
    options : iterable of str
        The options of the command, such as ``"--if-exists"``.

    Examples
    --------
    >>> as_options('say if_exists="overwrite", or leave it out with columns=.', ["--if-exists", "--columns"])
    'say --if-exists overwrite, or leave it out with --columns.'
    >>> as_options("chunk_rows=50, now it is 60; seed=1 stays", ["--chunk-rows"])
    '--chunk-rows 50, now it is 60; seed=1 stays'
    """
    for option in options:
        keyword = option.removeprefix("--").replace("-", "_")
        pattern = rf"""\b{keyword}=(?:"([^"]*)"|'([^']*)'|(\w+))?"""
        message = re.sub(pattern, partial(_as_option, option), message)
    return message


def _as_option(option: str, keyword: re.Match[str]) -> str:
    return " ".join([option, *filter(None, keyword.groups())])


def _with_values(params: Iterable[Any]) -> list[str]:
    """Give the options that take a value: what the library writes as a keyword with one."""
    return [
        text for param in params if not getattr(param, "is_flag", False) for text in param.opts if text.startswith("--")
    ]


def command_line(context: Any) -> list[str]:
    """Give the words of the command that runs, as they were given."""
    return [*context.command_path.split(" "), *context.meta[_ARGUMENTS]]


class Command(TyperCommand):
    """A command that ends without a traceback when the reason lies outside of streamfit."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what was given, for who tells how to go on."""
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command and turn errors and warnings into messages."""
        try:
            with plain_warnings():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise  # whoever read the output has left: typer ends quietly
        except (StreamfitError, OSError, MemoryError, KeyboardInterrupt) as error:
            if ctx.find_root().params.get("debug"):
                traceback.print_exc()
            message = _message(error)
            interrupted = isinstance(error, Interrupted)
            if not interrupted:  # else it holds a command, to be run as it is
                message = as_options(message, _with_values(self.params))
            if any("--json" in option.opts and ctx.params[option.name] for option in self.params):
                typer.echo(json_text({"error": type(error).__name__, "message": message}))
            else:
                print(message if interrupted else f"error: {' '.join(message.split())}", file=sys.stderr)
            raise typer.Exit(exit_code_of(error)) from error
