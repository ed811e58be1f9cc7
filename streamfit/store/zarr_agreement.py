"""Whether the files that tell Zarr, and streamfit itself, about the chunks say what the manifest says.

The files are read as JSON and not by Zarr: its event loop does not survive a fork, and verifying has to.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamfit.errors import StoreError
from streamfit.store.encodings import codec_metadata
from streamfit.store.format import MANIFEST_FILE, OWN_FOLDER
from streamfit.store.manifest import load_manifest
from streamfit.store.parts import part_arrays, part_attributes, part_name
from streamfit.store.versions import has_journal, load_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamfit.store.format import ArraySpec
    from streamfit.store.manifest import Manifest

__all__ = ["BadMetadata", "disagreements"]

_METADATA = "zarr.json"
_FREE = {"attributes", "dimension_names", "consolidated_metadata"}
"""What a file may say besides: it changes no row. Consolidated metadata are compared by themselves."""


@dataclass(frozen=True, slots=True)
class BadMetadata:
    """A file besides the chunks that does not say what was written."""

    file: str
    """Its path in the store."""
    reason: str
    """What was found."""


def disagreements(folder: Path, manifest: Manifest) -> list[BadMetadata]:
    """Compare the manifest on disk, the group's metadata and those of each array with an open manifest.

    Parameters
    ----------
    folder : Path
        The store.
    manifest : Manifest
        As it was opened; appends may have extended it since.
    """
    while True:
        try:
            present = load_manifest(folder, allow_incomplete=True)
            load_version(folder, manifest.digest)
            found = list(_disagreements(folder, present))
            # A writer that committed meanwhile has changed one file after the other was read.
            if not found or load_manifest(folder, allow_incomplete=True).digest == present.digest:
                return found
        except (StoreError, OSError) as error:
            return [BadMetadata(f"{OWN_FOLDER}/{MANIFEST_FILE}", str(error))]


def _disagreements(folder: Path, present: Manifest) -> Iterator[BadMetadata]:
    # A writer makes room before it commits: while one is at work, or after it died, Zarr may show more rows.
    growing = not present.complete or has_journal(folder)
    group = _read(folder / _METADATA)
    reason = _difference(group, {"zarr_format": 3, "node_type": "group"})
    if reason is not None:
        yield BadMetadata(_METADATA, reason)
    copies = _members(group)
    for spec in present.arrays.values():
        if spec.sparse:
            yield from _sparse_disagreements(folder, present, spec, growing=growing)
            continue
        expected = _array_metadata(spec, n_rows=present.n_rows)
        file = f"{spec.folder}/{_METADATA}"
        reason = _difference(_read(folder / file), expected, growing=growing)
        if reason is not None:
            yield BadMetadata(file, reason)
        if spec.folder in copies:
            reason = _difference(copies[spec.folder], expected, growing=growing)
            if reason is not None:
                yield BadMetadata(_METADATA, f"its consolidated copy of {file} is out of date: {reason}")


def _sparse_disagreements(folder: Path, present: Manifest, spec: ArraySpec, *, growing: bool) -> Iterator[BadMetadata]:
    expected = {"shape": [present.n_rows, spec.n_columns], "part_rows": spec.chunk_rows}
    reason = _group_difference(_read(folder / spec.folder / _METADATA), expected, growing=growing)
    if reason is not None:
        yield BadMetadata(f"{spec.folder}/{_METADATA}", reason)
    for index, nnz in enumerate(present.nnz):
        start, stop = present.layout.chunk_bounds(index)
        n_rows = stop - start
        group = f"{spec.folder}/{part_name(index, n_rows, spec.chunk_rows)}"
        attributes = part_attributes(n_rows, present.n_features)
        found = {group: _group_difference(_read(folder / group / _METADATA), attributes)}
        for name, array in part_arrays(spec, index, n_rows=n_rows, nnz=nnz).items():
            length = nnz if name != "indptr" else n_rows + 1
            found[array.folder] = _difference(
                _read(folder / array.folder / _METADATA), _array_metadata(array, n_rows=length)
            )
        yield from (BadMetadata(f"{file}/{_METADATA}", why) for file, why in found.items() if why is not None)


def _group_difference(found: Any, attributes: dict[str, Any], *, growing: bool = False) -> str | None:
    reason = _difference(found, {"zarr_format": 3, "node_type": "group"})
    return reason if reason is not None else _difference(found.get("attributes"), attributes, growing=growing)


def _array_metadata(spec: ArraySpec, *, n_rows: int) -> dict[str, Any]:
    codecs: list[dict[str, Any]] = [{"name": "bytes"}]
    if spec.dtype.itemsize > 1:
        codecs[0]["configuration"] = {"endian": "little"}
    compression = codec_metadata(spec)
    if compression is not None:
        codecs.append(compression)
    fill_value = spec.fill_value.item()
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(spec.shape(n_rows)),
        "data_type": spec.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(spec.shape(spec.chunk_rows))}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if math.isnan(fill_value) else fill_value,
        "codecs": codecs,
        "storage_transformers": [],
    }


def _read(file: Path) -> Any:
    """Give the content of a JSON file, or the reason why there is none as text."""
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    except (ValueError, RecursionError):
        return "it is not JSON"


def _members(group: Any) -> dict[str, Any]:
    consolidated = group.get("consolidated_metadata") if isinstance(group, dict) else None
    members = consolidated.get("metadata") if isinstance(consolidated, dict) else None
    return members if isinstance(members, dict) else {}


def _difference(found: Any, expected: dict[str, Any], *, growing: bool = False) -> str | None:
    """Name what differs, or give None."""
    if not isinstance(found, dict):
        return found if isinstance(found, str) else "it is not a JSON object"
    for key in sorted((expected.keys() | found.keys()) - _FREE):
        if key not in expected:
            return f"it has an unknown entry {key!r}"
        if key not in found:
            return f"it has no entry {key!r}"
        has, wants = found[key], expected[key]
        if has != wants and not (key == "shape" and growing and _holds(has, wants)):
            return f"its {key} is {json.dumps(has)} instead of {json.dumps(wants)}"
    return None


def _holds(shape: Any, committed: Any) -> bool:
    try:
        return bool(shape[0] >= committed[0] and shape[1:] == committed[1:])
    except (TypeError, IndexError, KeyError):
        return False
