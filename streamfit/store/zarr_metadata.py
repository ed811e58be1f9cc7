"""The Zarr side of a store: the metadata by which any Zarr reads the chunk files.

Zarr makes the metadata in memory, and they are put in place as whole files: Zarr itself may leave half of one behind
when its process is killed.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import zarr
from zarr.storage import MemoryStore

from streamfit.store.atomic import write_atomically
from streamfit.store.encodings import codec_metadata
from streamfit.store.format import OWN_FOLDER
from streamfit.store.parts import part_arrays, part_attributes, part_name

if TYPE_CHECKING:
    from pathlib import Path

    from streamfit.store.format import ArraySpec

__all__ = ["remove_chunks_behind", "write_array_metadata", "write_group_metadata", "write_part_metadata"]

_METADATA = "zarr.json"


def write_group_metadata(folder: Path) -> None:
    """Write the metadata of the group and of the array whose folder holds the manifest, where they are missing.

    An array's folder is never searched for members, so no Zarr warns about files that it does not know.
    """
    files: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(files), zarr_format=3)
    group.create_array(
        OWN_FOLDER,
        shape=(0,),
        chunks=(1,),
        dtype="uint8",
        compressors=None,
        attributes={"about": "An empty array; its folder holds streamfit's manifest of the other arrays."},
    )
    for name, content in files.items():
        if not (folder / name).exists():
            write_atomically(folder / name, content.to_bytes())


def _array_metadata(spec: ArraySpec, *, n_rows: int) -> bytes:
    """Give the content of an array's ``zarr.json``."""
    files: dict[str, Any] = {}
    zarr.create_array(
        MemoryStore(files),
        shape=spec.shape(n_rows),
        chunks=spec.shape(spec.chunk_rows),
        dtype=spec.dtype,
        fill_value=spec.fill_value,
        compressors=codec_metadata(spec),
        zarr_format=3,
    )
    content: bytes = files[_METADATA].to_bytes()
    return content


def write_array_metadata(folder: Path, spec: ArraySpec, *, n_rows: int) -> None:
    """Make an array have `n_rows` rows for those who read it with Zarr."""
    if spec.sparse:
        content = _group_metadata({"shape": [n_rows, spec.n_columns], "part_rows": spec.chunk_rows})
    else:
        content = _array_metadata(spec, n_rows=n_rows)
    write_atomically(folder / spec.folder / _METADATA, content)


def write_part_metadata(folder: Path, spec: ArraySpec, index: int, *, n_rows: int, nnz: int) -> None:
    """Write the metadata of one part of a sparse array, a group of three arrays."""
    group = folder / spec.folder / part_name(index, n_rows, spec.chunk_rows)
    for name, array in part_arrays(spec, index, n_rows=n_rows, nnz=nnz).items():
        length = nnz if name != "indptr" else n_rows + 1
        write_atomically(group / name / _METADATA, _array_metadata(array, n_rows=length))
    write_atomically(group / _METADATA, _group_metadata(part_attributes(n_rows, spec.n_columns or 0)))


def _group_metadata(attributes: dict[str, Any]) -> bytes:
    files: dict[str, Any] = {}
    zarr.create_group(MemoryStore(files), zarr_format=3, attributes=attributes)
    content: bytes = files[_METADATA].to_bytes()
    return content


def remove_chunks_behind(folder: Path, spec: ArraySpec, *, n_chunks: int) -> None:
    """Remove the chunks from number `n_chunks` on, and what writers that died left unfinished."""
    for path in (folder / spec.folder / "c").iterdir():
        if path.name.isdigit() and int(path.name) < n_chunks:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
