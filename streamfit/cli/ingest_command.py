"""``streamfit ingest``: files into a store."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, MemoryLimit
from streamfit.errors import InvalidDataError, StoreError

if TYPE_CHECKING:
    from streamfit.reporting.waiting import Done

__all__ = ["ingest"]


def ingest(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A csv, parquet or npy file, or a pattern such as 'part-*.parquet'.")
    ],
    dest: Annotated[str, typer.Argument(metavar="DEST", help="Folder of the store to write.")],
    y: Annotated[
        str | None, typer.Option(metavar="COLUMN|FILE", help="Labels: a column of SOURCE, or a .npy file.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option(metavar="COLUMN|FILE", help="Ids of the rows: a column of SOURCE, or a .npy file.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Features, comma-separated; may be repeated.")
    ] = None,
    chunk_rows: Annotated[int | None, typer.Option(help="Rows of a chunk.", show_default="about 8 MiB", min=1)] = None,
    nonfinite: Annotated[Literal["error", "keep"], typer.Option(help="What to do with NaN and infinities.")] = "error",
    if_exists: Annotated[
        Literal["resume", "overwrite", "error"], typer.Option(help="What to do with a store that is there already.")
    ] = "resume",
    memory_limit: MemoryLimit = None,
    as_json: AsJson = False,
) -> None:
    """Write a matrix once as a verified store. A stopped run goes on; a finished one is left as it is."""
    from streamfit.reporting.waiting import waiting
    from streamfit.sources.ingest import ingest as write

    names = [name.strip() for text in columns or () for name in text.split(",")] or None
    began = time.monotonic()
    with waiting("ingest", done=lambda: _rows_done(dest)):
        store = write(
            source,
            dest,
            y=_column_or_array(y),
            ids=_column_or_array(ids),
            columns=names,
            chunk_rows=chunk_rows,
            nonfinite=nonfinite,
            if_exists=if_exists,
            memory_limit=memory_limit,
        )
    seconds = time.monotonic() - began
    facts = {
        "path": store.path,
        "n_rows": store.n_rows,
        "n_features": store.n_features,
        "dtype": str(store.dtype),
        "n_chunks": store.layout.n_chunks,
        "decoded_nbytes": store.layout.nbytes,
        "classes": None if store.classes is None else len(store.classes),
        "seconds": seconds,
    }
    if as_json:
        print(json_text(facts))
        return
    from dask.utils import format_bytes

    labels = "" if facts["classes"] is None else f", {facts['classes']:,} classes"
    print(
        f"{store.path}: {store.n_rows:,} rows x {store.n_features:,} features of {store.dtype} "
        f"({format_bytes(store.layout.nbytes)}){labels}, in {seconds:.1f} s ({store.n_rows / seconds:,.0f} rows/s)"
    )


def _column_or_array(text: str | None) -> Any:
    if text is None or not text.endswith(".npy"):
        return text
    import numpy as np

    try:
        return np.load(text, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise InvalidDataError(f"{text} is not an array that can be read without unpickling: {error}") from error


def _rows_done(dest: str) -> "Done | None":
    from streamfit.store.format import local_folder
    from streamfit.store.manifest import load_manifest

    try:
        manifest = load_manifest(Path(local_folder(dest)), allow_incomplete=True)
    except StoreError:  # not begun yet, or what is about to be overwritten
        return None
    return manifest.n_rows, manifest.n_rows_expected
