"""``streamfit info``: what a store holds, from its manifest alone."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamfit.cli.json_text import json_text
from streamfit.cli.options import AsJson, StorePath

if TYPE_CHECKING:
    from streamfit.store.manifest import Manifest

__all__ = ["info"]

_SHOWN_COLUMNS = 10
_SHOWN_CLASSES = 20


def info(store: StorePath, as_json: AsJson = False) -> None:
    """Tell what a store holds: rows, types, chunks, classes, ranges. Reads no rows."""
    from streamfit.store.format import local_folder
    from streamfit.store.manifest import load_manifest

    folder = local_folder(store)
    facts = _facts(folder, load_manifest(folder, allow_incomplete=True))
    if as_json:
        print(json_text(facts))
    else:
        _show(facts)


def _facts(folder: Path, manifest: "Manifest") -> dict[str, Any]:
    labels = manifest.labels
    statistics = manifest.statistics
    chunk_files = [
        spec.chunk_file(folder, index)
        for name, spec in manifest.arrays.items()
        for index in range(len(manifest.checksums[name]))
    ]
    facts: dict[str, Any] = {
        "path": str(folder),
        "complete": manifest.complete,
        "n_rows": manifest.n_rows,
        "n_rows_expected": manifest.n_rows_expected,
        "n_features": manifest.n_features,
        "dtype": str(manifest.dtype),
        "chunk_rows": manifest.chunk_rows,
        "n_chunks": len(manifest.checksums.get("X", ())),
        "arrays": {name: {"dtype": str(spec.dtype), "codec": spec.codec} for name, spec in manifest.arrays.items()},
        "decoded_nbytes": sum(spec.row_nbytes for spec in manifest.arrays.values()) * manifest.n_rows,
        # A lost chunk counts as nothing: `verify` is what tells of it.
        "disk_nbytes": sum(file.stat().st_size for file in chunk_files if file.exists()),
        "n_nonfinite": int(statistics.n_nonfinite.sum()),
        "labels": None,
        "columns": [
            {
                "name": manifest.column_name(column),
                "minimum": _number(statistics.minimum[column]),
                "maximum": _number(statistics.maximum[column]),
                "mean": _number(statistics.mean[column]),
                "n_nonfinite": int(statistics.n_nonfinite[column]),
            }
            for column in range(manifest.n_features)
        ],
        "source": dict(manifest.source),
        "digest": manifest.digest,
    }
    if labels is not None:
        classes = [str(c) if isinstance(c, bytes) else c for c in labels.classes.tolist()]
        facts["labels"] = {
            "kind": labels.kind,
            "dtype": str(labels.dtype),
            "classes": classes,
            "counts": labels.counts.tolist(),
        }
    return facts


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _show(facts: dict[str, Any]) -> None:
    from dask.utils import format_bytes

    from streamfit.reporting.tables import print_facts, print_table

    expected = facts["n_rows_expected"]
    of_expected = "" if facts["complete"] or expected is None else f" of {expected:,}"
    codecs = ", ".join(f"{name} {array['dtype']} {array['codec']}" for name, array in facts["arrays"].items())
    lines = {
        "rows": f"{facts['n_rows']:,}{of_expected}{'' if facts['complete'] else '  INCOMPLETE: run ingest again'}",
        "features": f"{facts['n_features']:,} {facts['dtype']}",
        "chunks": f"{facts['n_chunks']:,} of {facts['chunk_rows']:,} rows",
        "arrays": codecs or "none yet",
        "on disk": f"{format_bytes(facts['disk_nbytes'])}, decoded {format_bytes(facts['decoded_nbytes'])}",
        "not finite": f"{facts['n_nonfinite']:,} values",
    }
    labels = facts["labels"]
    if labels is not None and labels["kind"] == "target":
        lines["labels"] = f"a target of {labels['dtype']}"
    elif labels is not None:
        shown = list(zip(labels["classes"], labels["counts"], strict=True))
        text = ", ".join(f"{name}: {count:,}" for name, count in shown[:_SHOWN_CLASSES])
        more = f", and {len(shown) - _SHOWN_CLASSES:,} more" if len(shown) > _SHOWN_CLASSES else ""
        lines["classes"] = text + more
    print_facts(lines, title=facts["path"])
    print()
    print_table(
        ("column", "minimum", "mean", "maximum", "not finite"),
        [
            (
                column["name"],
                *("-" if column[key] is None else f"{column[key]:.6g}" for key in ("minimum", "mean", "maximum")),
                f"{column['n_nonfinite']:,}",
            )
            for column in facts["columns"][:_SHOWN_COLUMNS]
        ],
        numbers=("minimum", "mean", "maximum", "not finite"),
    )
    hidden = facts["n_features"] - _SHOWN_COLUMNS
    if hidden > 0:
        print(f"and {hidden:,} more columns: see --json")
