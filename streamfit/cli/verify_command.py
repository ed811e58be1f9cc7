"""``streamfit verify``: whether every committed byte is still there."""

import typer

from streamfit.cli.failure import BAD_DATA
from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, StorePath

__all__ = ["verify"]


def verify(store: StorePath, as_json: AsJson = False) -> None:
    """Read every chunk and compare checksums. Exits with 1 and lists them if chunks are bad."""
    from streamfit.feature_store import open_store

    report = open_store(store).verify()
    if as_json:
        bad = [
            {"array": bad.array, "chunk": bad.chunk, "rows": list(bad.rows), "reason": bad.reason}
            for bad in report.bad_chunks
        ]
        print(json_text({"ok": report.ok, "n_chunks": report.n_chunks, "bad_chunks": bad}))
    elif report.ok:
        print(f"ok: {report.n_chunks:,} chunks are as they were written")
    else:
        from streamfit.reporting.tables import print_table

        rows = [(b.array, str(b.chunk), f"{b.rows[0]} to {b.rows[1] - 1}", b.reason) for b in report.bad_chunks]
        print_table(("array", "chunk", "rows", "reason"), rows, numbers=("chunk",))
        print(f"{len(report.bad_chunks):,} of {report.n_chunks:,} chunks are bad")
    if not report.ok:
        raise typer.Exit(BAD_DATA)
