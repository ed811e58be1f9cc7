"""``streamfit shuffle``: the rows of a store in another order."""

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, StorePath
from streamfit.cli.rows import store_facts, store_line
from streamfit.errors import StoreError

if TYPE_CHECKING:
    from streamfit.reporting.waiting import Done

__all__ = ["shuffle"]


def shuffle(
    store: StorePath,
    dest: Annotated[str, typer.Argument(metavar="DEST", help="Folder of the store to write.")],
    seed: Annotated[int, typer.Option(help="Seed of the order.", min=0)] = 0,
    passes: Annotated[
        str,
        typer.Option(metavar="full|K", help="A permutation of all rows, or K times the order of a shuffled epoch."),
    ] = "full",
    memory_limit: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Bound streamfit's own memory.", show_default="512MiB")
    ] = None,
    compression: Annotated[
        Literal["auto", "none", "lz4", "zstd"] | None,
        typer.Option(help="What chunks are compressed by.", show_default="as STORE"),
    ] = None,
    if_exists: Annotated[
        Literal["resume", "overwrite", "error"], typer.Option(help="What to do with a store that is there already.")
    ] = "resume",
    as_json: AsJson = False,
) -> None:
    """Write the rows of a store in another order. A stopped run goes on; a finished one is left as it is."""
    from streamfit.feature_store import open_store
    from streamfit.reporting.waiting import waiting

    source = open_store(store)
    began = time.monotonic()
    with waiting("shuffle", done=lambda: _rows_moved(dest), unit="rows moved"):
        shuffled = source.shuffle(
            dest,
            seed=seed,
            passes=int(passes) if passes.isdecimal() else passes,  # type: ignore[arg-type]  # refused with a message
            memory_limit=memory_limit,
            if_exists=if_exists,
            compression=compression,
        )
    seconds = time.monotonic() - began
    if as_json:
        print(json_text({**store_facts(shuffled), "seconds": seconds}))
    else:
        print(f"{store_line(shuffled)}, in {seconds:.1f} s ({shuffled.n_rows / seconds:,.0f} rows/s)")


def _rows_moved(dest: str) -> "Done | None":
    from streamfit.run.shuffle import rows_moved
    from streamfit.store.format import local_folder

    try:
        return rows_moved(local_folder(dest))
    except StoreError:  # what is about to be overwritten
        return None
