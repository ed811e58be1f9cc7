"""``streamfit append``: files behind the rows of a store."""

import time
import warnings
from typing import Annotated, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, MemoryLimit, StorePath
from streamfit.cli.rows import (
    Columns,
    Dtype,
    Ids,
    Labels,
    Rows,
    Weights,
    as_array,
    as_labels,
    as_names,
    store_facts,
    store_line,
)

__all__ = ["append"]


def append(
    source: Rows,
    store: StorePath,
    y: Labels = None,
    ids: Ids = None,
    sample_weight: Weights = None,
    columns: Columns = None,
    dtype: Dtype = None,
    if_exists: Annotated[
        Literal["resume", "again", "error"], typer.Option(help="What to do with rows that the store has already.")
    ] = "resume",
    memory_limit: MemoryLimit = None,
    as_json: AsJson = False,
) -> None:
    """Add rows to a store, all or none. A stopped run goes on; rows that were added are not added again."""
    from streamfit.errors import AlreadyStoredWarning
    from streamfit.feature_store import open_store
    from streamfit.reporting.waiting import Counter, waiting
    from streamfit.sources.append import append as write

    before = open_store(store)
    began, rows = time.monotonic(), Counter()
    row_nbytes = None if before.is_sparse else float(before.n_features * before.dtype.itemsize)
    with waiting("append", done=lambda: rows.last, unit_nbytes=lambda: row_nbytes), warnings.catch_warnings():
        warnings.simplefilter("ignore", AlreadyStoredWarning)  # told below
        after = write(
            source,
            before,
            y=as_labels(y),
            ids=as_array(ids),
            sample_weight=as_array(sample_weight),
            columns=as_names(columns),
            dtype=dtype,
            if_exists=if_exists,
            memory_limit=memory_limit,
            on_progress=rows,
        )
    seconds = time.monotonic() - began
    n_rows = after.n_rows - before.n_rows
    if as_json:
        print(json_text({**store_facts(after), "n_appended": n_rows, "seconds": seconds}))
    elif n_rows:
        print(f"{store_line(after)}; {n_rows:,} rows appended in {seconds:.1f} s ({n_rows / seconds:,.0f} rows/s)")
    else:
        print(f"{store_line(after)}; it had the rows of {source} already, and nothing was appended")
