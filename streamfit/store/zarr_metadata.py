"""The Zarr side of a store: the metadata by which any Zarr reads the chunk files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zarr
from zarr.codecs import BloscCodec

from streamfit.store.chunk_files import BLOSC_LEVEL
from streamfit.store.format import OWN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from streamfit.store.format import ArraySpec

__all__ = ["create_array", "create_group", "resize_arrays"]


def create_group(folder: Path) -> None:
    """Write the metadata of the group and of the array whose folder holds the manifest.

    An array's folder is never searched for members, so no Zarr warns about files that it does not know.
    """
    group = zarr.create_group(folder, zarr_format=3, overwrite=False)
    group.create_array(
        OWN_FOLDER,
        shape=(0,),
        chunks=(1,),
        dtype="uint8",
        compressors=None,
        attributes={"about": "An empty array; its folder holds streamfit's manifest of the other arrays."},
    )


def create_array(folder: Path, spec: ArraySpec, *, n_rows: int) -> None:
    """Write the metadata of an array that has no chunks yet."""
    compressor: Any = None
    if spec.codec == "blosc-lz4":
        compressor = BloscCodec(
            typesize=spec.dtype.itemsize, cname="lz4", clevel=BLOSC_LEVEL, shuffle="shuffle", blocksize=0
        )
    zarr.open_group(folder, mode="r+").create_array(
        spec.name,
        shape=spec.shape(n_rows),
        chunks=spec.shape(spec.chunk_rows),
        dtype=spec.dtype,
        fill_value=spec.fill_value,
        compressors=compressor,
        config={"write_empty_chunks": True},
    )


def resize_arrays(folder: Path, specs: Iterable[ArraySpec], *, n_rows: int) -> None:
    """Set the number of rows; the chunks behind the last row are removed."""
    for spec in specs:
        zarr.open_array(folder / spec.name, mode="r+").resize(spec.shape(n_rows))
