"""``streamfit ingest``: files into a store."""

import time
from typing import Annotated, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, MemoryLimit
from streamfit.cli.rows import (
    Categories,
    Columns,
    Dtype,
    Ids,
    Labels,
    Rows,
    Unknown,
    Weights,
    as_array,
    as_encodings,
    as_labels,
    as_names,
    store_facts,
    store_line,
)
from streamfit.errors import StoreError

__all__ = ["ingest"]


def ingest(
    source: Rows,
    dest: Annotated[str, typer.Argument(metavar="DEST", help="Folder of the store to write.")],
    y: Labels = None,
    ids: Ids = None,
    sample_weight: Weights = None,
    columns: Columns = None,
    categorical: Categories = None,
    unknown: Unknown = "error",
    dtype: Dtype = None,
    chunk_rows: Annotated[int | None, typer.Option(help="Rows of a chunk.", show_default="about 8 MiB", min=1)] = None,
    compression: Annotated[
        Literal["auto", "none", "lz4", "zstd"],
        typer.Option(help="What chunks are compressed by; auto: lz4 where it saves a fifth."),
    ] = "auto",
    nonfinite: Annotated[Literal["error", "keep"], typer.Option(help="What to do with NaN and infinities.")] = "error",
    if_exists: Annotated[
        Literal["resume", "overwrite", "error"], typer.Option(help="What to do with a store that is there already.")
    ] = "resume",
    memory_limit: MemoryLimit = None,
    as_json: AsJson = False,
) -> None:
    """Write a matrix once as a verified store. A stopped run goes on; a finished one is left as it is."""
    from streamfit.reporting.waiting import Counter, waiting
    from streamfit.sources.ingest import ingest as write

    began, before = time.monotonic(), _digest(dest)
    rows = Counter()
    with waiting("ingest", done=lambda: rows.last, unit_nbytes=lambda: _row_nbytes(dest)):
        store = write(
            source,
            dest,
            y=as_labels(y),
            ids=as_array(ids),
            sample_weight=as_array(sample_weight),
            columns=as_names(columns),
            categorical=as_encodings(categorical, unknown),
            dtype=dtype,
            chunk_rows=chunk_rows,
            compression=compression,
            nonfinite=nonfinite,
            if_exists=if_exists,
            memory_limit=memory_limit,
            on_progress=rows,
        )
    seconds = time.monotonic() - began
    written = store.digest != before
    if as_json:
        print(json_text({**store_facts(store), "written": written, "seconds": seconds}))
    elif not written:
        print(f"{store_line(store)}; it has the rows of {source} already, and nothing was written")
    else:
        print(f"{store_line(store)}, in {seconds:.1f} s ({store.n_rows / seconds:,.0f} rows/s)")


def _digest(dest: str) -> str | None:
    """Identity of the complete store that is there already."""
    from streamfit.store.format import local_folder
    from streamfit.store.manifest import load_manifest

    try:
        return load_manifest(local_folder(dest)).digest
    except StoreError:
        return None


def _row_nbytes(dest: str) -> float | None:
    from streamfit.store.format import local_folder
    from streamfit.store.manifest import load_manifest

    try:
        manifest = load_manifest(local_folder(dest), allow_incomplete=True)
    except StoreError:  # not begun yet, or what is about to be overwritten
        return None
    return None if manifest.sparse else float(manifest.n_features * manifest.dtype.itemsize)
