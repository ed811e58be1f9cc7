"""``streamfit verify``: whether every committed byte is still there."""

import typer

from streamfit.cli.failure import BAD_DATA
from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, StorePath

__all__ = ["verify"]


def verify(store: StorePath, as_json: AsJson = False) -> None:
    """Read every chunk and compare checksums. Exits with 1 if something is bad or rows are missing."""
    from streamfit.reporting.waiting import Done, waiting
    from streamfit.store.format import local_folder
    from streamfit.store.integrity import verify as verify_store
    from streamfit.store.manifest import load_manifest

    folder = local_folder(store)
    manifest = load_manifest(folder, allow_incomplete=True)
    progress: list[Done] = [(0, None)]
    with waiting("verify", done=lambda: progress[-1], unit="chunks"):
        report = verify_store(folder, manifest, on_chunk=lambda *done: progress.__setitem__(0, done))
    print(json_text(report.to_json()) if as_json else report)
    if not report.ok:
        raise typer.Exit(BAD_DATA)
