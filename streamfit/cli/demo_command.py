"""``streamfit demo``: the whole story in two minutes."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamfit.cli.json_text import json_text

if TYPE_CHECKING:
    from rich.table import Table

    from streamfit.demo.runs import Outcome

__all__ = ["demo"]

_WHY = {
    "snapshots": (
        "Why the loop is wrong: each fit forgets the days before, so an entity that returns every day looks as lonely "
        "as one that never comes back, and nine thresholds are nine different rulers."
    ),
    "batches": (
        "Why the loop is wrong: each fit forgets the batches before, so a score says how odd a row is among its batch "
        "mates, not among all rows, and every batch flags the same share whether it holds anomalies or not. Where all "
        "batches are alike that does no harm, which is why people trust it."
    ),
}


def demo(
    *,
    memory_limit: Annotated[str, typer.Option(help="Limit for each job, beyond the start.")] = "256MB",
    scheduler: Annotated[str, typer.Option(help="threads, processes, or the address of a scheduler.")] = "threads",
    store_rows: Annotated[int, typer.Option(min=1_000, help="Rows of the large store, 400 bytes each.")] = 2_800_000,
    rows: Annotated[int, typer.Option(min=900, help="Rows of the daily snapshots.")] = 45_000,
    triples: Annotated[Path | None, typer.Option(help="Folder of a knowledge graph: train, valid, test.txt.")] = None,
    npz: Annotated[Path | None, typer.Option(help="A labelled set with X and y, such as ADBench's.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where stores are written and kept.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Compare the classic batch loop with the exact answer, on data made here or on your own."""
    from rich.console import Console

    console = Console(stderr=json)
    console.print("[bold]streamfit demo[/bold]: features larger than memory, the answer memory would have given")
    with tempfile.TemporaryDirectory(prefix="streamfit-demo-") as temporary:
        where = folder or Path(temporary)
        where.mkdir(parents=True, exist_ok=True)
        outcomes, why = _run(
            console,
            where,
            memory_limit=memory_limit,
            scheduler=scheduler,
            store_rows=store_rows,
            rows=rows,
            triples=triples,
            npz=npz,
        )
    if json:
        typer.echo(json_text([asdict(outcome) for outcome in outcomes], indent=2))
    console.print(_table(outcomes, memory_limit))
    console.print(why)
    console.print(
        "Next: [bold]streamfit ingest[/bold] your.parquet features.zarr --y label, then [bold]streamfit fit[/bold] "
        "features.zarr pyod.models.knn.KNN. In Python: sf.ingest, sf.StreamDetector, sf.StreamTrainer."
    )


def _run(
    console: Any,
    folder: Path,
    *,
    memory_limit: str,
    scheduler: str,
    store_rows: int,
    rows: int,
    triples: Path | None,
    npz: Path | None,
) -> tuple[list[Outcome], str]:
    from streamfit.cli.allocator import return_freed_memory
    from streamfit.demo.data import load_npz, load_triples, snapshots
    from streamfit.demo.runs import Session, default_detector, run_labelled, run_wide, warm_up
    from streamfit.reporting.memory import resident_nbytes
    from streamfit.run.connect import connect

    with connect(scheduler) as engine:
        console.print(f"Engine: {engine.name}, {engine.n_workers} workers. Limit for each job: {memory_limit}.")
        engine.everywhere(return_freed_memory)
        engine.everywhere(warm_up)
        warm_up()
        session = Session(
            folder, memory_limit, resident_nbytes(), lambda text: console.print(f"  … {text}", style="dim")
        )
        why = _WHY["batches"]
        if npz is not None:
            labelled = load_npz(npz)
        elif triples is not None:
            labelled = load_triples(triples)
        else:
            run_wide(session, n_rows=store_rows)
            labelled, why = snapshots(rows), _WHY["snapshots"]
        run_labelled(session, labelled, detector=default_detector(labelled))
        return session.outcomes, why


def _table(outcomes: list[Outcome], memory_limit: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), caption_justify="left")
    table.add_column("")
    for name in ("rows", "AUC", "AP", "sec", "MB", "threshold", "flagged"):
        table.add_column(name, justify="right", no_wrap=True)
    table.caption = (
        "AUC: area under the ROC curve. AP: average precision. MB: peak memory over the start, "
        f"limit {memory_limit}. SGD: SGDClassifier, on validation rows."
    )
    section = None
    for outcome in outcomes:
        if outcome.data != section:
            section = outcome.data
            table.add_row(f"[bold]{section}[/bold]")
        lowest, highest, n = min(outcome.thresholds), max(outcome.thresholds), len(outcome.thresholds)
        table.add_row(
            f"  {outcome.how}",
            f"{outcome.n_rows:,}",
            f"{outcome.roc_auc:.3f}",
            f"{outcome.average_precision:.3f}",
            f"{outcome.seconds:.1f}",
            f"{outcome.peak_nbytes / 1e6:.0f}",
            f"{lowest:.4g}" if n == 1 else f"{n}: {lowest:.3g}…{highest:.3g}",
            f"{outcome.flagged_share:.2%}",
        )
    return table
