"""``streamfit repair``: damaged chunks of a store, written again from the files they came from."""

import typer

from streamfit.cli.failure import BAD_DATA
from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, MemoryLimit, StorePath
from streamfit.cli.rows import Columns, Ids, Labels, Rows, Weights, as_array, as_labels, as_names

__all__ = ["repair"]


def repair(
    source: Rows,
    store: StorePath,
    y: Labels = None,
    ids: Ids = None,
    sample_weight: Weights = None,
    columns: Columns = None,
    memory_limit: MemoryLimit = None,
    as_json: AsJson = False,
) -> None:
    """Write damaged chunks again, and no others, from their source. Exits with 1 if something is still bad."""
    from streamfit.reporting.waiting import waiting
    from streamfit.sources.repair import repair as repair_store

    with waiting("repair"):
        report = repair_store(
            source,
            store,
            y=as_labels(y),
            ids=as_array(ids),
            sample_weight=as_array(sample_weight),
            columns=as_names(columns),
            memory_limit=memory_limit,
        )
    print(json_text(report.to_json()) if as_json else report)
    if not report.ok:
        raise typer.Exit(BAD_DATA)
