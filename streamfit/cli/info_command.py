"""``streamfit info``: what a store holds, from its manifest alone."""

from typing import Annotated

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, StorePath

__all__ = ["info"]


def info(
    store: StorePath,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Tell how many rows fit in so much memory, such as 2GB.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a store holds: rows, types, chunks, classes, ranges. Reads no rows."""
    from streamfit.store.describe import store_info
    from streamfit.store.format import local_folder
    from streamfit.store.manifest import load_manifest

    folder = local_folder(store)
    found = store_info(folder, load_manifest(folder, allow_incomplete=True), memory_limit=memory_limit)
    print(json_text(found.to_json()) if as_json else found)
