"""``streamfit detectors``: how each PyOD detector is fitted beyond memory."""

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson

__all__ = ["detectors"]


def detectors(as_json: AsJson = False) -> None:
    """List the detectors that are fitted exactly, how, and what happens to all others."""
    from streamfit.detectors.registry import entries

    if as_json:
        rows = [{"detector": e.detector, "method": "exact", "rung": e.rung, "how": e.how} for e in entries()]
        print(json_text({"detectors": rows}))
        return
    from streamfit.reporting.tables import print_table

    print_table(
        ("detector", "method", "rung", "how"),
        [(entry.detector, "exact", entry.rung, entry.how) for entry in entries()],
    )
    print()
    print(
        "Every other PyOD detector: one fit in memory where all rows fit the memory limit, else an ensemble over\n"
        "batches (approximate, with a warning); --method batchwise names the latter."
    )
