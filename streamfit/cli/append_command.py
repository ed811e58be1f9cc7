"""``streamfit append``: files behind the rows of a store."""

import time
import warnings
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, MemoryLimit, StorePath
from streamfit.cli.rows import Columns, Ids, Labels, Rows, Weights, as_array, as_names, store_facts, store_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamfit.reporting.waiting import Done

__all__ = ["append"]


def append(
    source: Rows,
    store: StorePath,
    y: Labels = None,
    ids: Ids = None,
    sample_weight: Weights = None,
    columns: Columns = None,
    if_exists: Annotated[
        Literal["resume", "again", "error"], typer.Option(help="What to do with rows that the store has already.")
    ] = "resume",
    memory_limit: MemoryLimit = None,
    as_json: AsJson = False,
) -> None:
    """Add rows to a store, all or none. A stopped run goes on; rows that were added are not added again."""
    from streamfit.errors import AlreadyStoredWarning
    from streamfit.feature_store import open_store
    from streamfit.reporting.waiting import waiting
    from streamfit.sources.append import append as write
    from streamfit.store.format import local_folder

    before = open_store(store)
    began = time.monotonic()
    with waiting("append", done=_rows_done(local_folder(store))), warnings.catch_warnings():
        warnings.simplefilter("ignore", AlreadyStoredWarning)  # told below
        after = write(
            source,
            before,
            y=as_array(y),
            ids=as_array(ids),
            sample_weight=as_array(sample_weight),
            columns=as_names(columns),
            if_exists=if_exists,
            memory_limit=memory_limit,
        )
    seconds = time.monotonic() - began
    n_rows = after.n_rows - before.n_rows
    if as_json:
        print(json_text({**store_facts(after), "n_appended": n_rows, "seconds": seconds}))
    elif n_rows:
        print(f"{store_line(after)}; {n_rows:,} rows appended in {seconds:.1f} s ({n_rows / seconds:,.0f} rows/s)")
    else:
        print(f"{store_line(after)}; it had the rows of {source} already, and nothing was appended")


def _rows_done(folder: "Path") -> "Callable[[], Done | None]":
    from streamfit.store.versions import load_journal

    # What an earlier append left says nothing of this one, until this one goes on with it.
    left = load_journal(folder)

    def done() -> "Done | None":
        journal = load_journal(folder)
        if journal is None or (left is not None and journal.digest == left.digest):
            return None
        n_rows = int(journal.appended[-1]["n_rows"])
        expected = journal.n_rows_expected
        return n_rows, None if expected is None else expected - journal.n_rows + n_rows

    return done
