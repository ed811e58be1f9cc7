"""The rows that the parts of ``stream.py`` read: made once a folder, and used again where the sizes are the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

import streamfit as sf

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is read, and how."""

    n_rows: int
    n_features: int
    chunk_rows: int
    labels: bool
    zstd: bool
    """Whether stores compressed by zstd are made as well."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The same rows of noise in each form that something here reads."""

    sizes: Sizes
    folder: Path

    @property
    def flat(self):
        """One file of nothing but values."""
        return self.folder / "X.f32"

    @property
    def nbytes(self):
        return self.sizes.n_rows * self.sizes.n_features * 4

    def plain(self, codec="raw"):
        """Written by plain Zarr."""
        return self.folder / f"plain-{codec}.zarr"

    def store(self, codec="raw"):
        """Written by streamfit."""
        return self.folder / f"streamfit-{codec}.zarr"

    def mapped(self):
        return np.memmap(self.flat, dtype=np.float32, mode="r", shape=(self.sizes.n_rows, self.sizes.n_features))

    def labels(self):
        return np.load(self.folder / "y.npy") if self.sizes.labels else None


def make_rows(folder, sizes):
    """Write the rows, or give those that a call with the same sizes wrote."""
    rows, done = Rows(sizes, folder), folder / "done.json"
    if done.exists() and json.loads(done.read_text()) == asdict(sizes):
        return rows
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_flat(rows)
    for codec in ("raw", "zstd") if sizes.zstd else ("raw",):
        _write_plain(rows, codec)
        sf.ingest(
            rows.mapped(),
            rows.store(codec),
            y=rows.labels(),
            chunk_rows=sizes.chunk_rows,
            compression="none" if codec == "raw" else codec,
        )
    done.write_text(json.dumps(asdict(sizes)))
    return rows


def _write_flat(rows):
    sizes, rng = rows.sizes, np.random.default_rng(0)
    labels = []
    with rows.flat.open("wb") as file:
        for start in range(0, sizes.n_rows, sizes.chunk_rows):
            X = rng.standard_normal((min(sizes.chunk_rows, sizes.n_rows - start), sizes.n_features), dtype=np.float32)
            file.write(X.data)
            labels.append((X[:, :4].sum(axis=1) + rng.standard_normal(len(X)) > 0).astype(np.int8))
    if sizes.labels:
        np.save(rows.folder / "y.npy", np.concatenate(labels))


def _write_plain(rows, codec):
    sizes, group = rows.sizes, zarr.open_group(rows.plain(codec), mode="w")
    compressors = None if codec == "raw" else [ZstdCodec(level=1, checksum=False)]
    whole = {"X": (rows.mapped(), (sizes.chunk_rows, sizes.n_features))}
    if sizes.labels:
        whole["y"] = (rows.labels(), (sizes.chunk_rows,))
    for name, (values, chunks) in whole.items():
        array = group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype, compressors=compressors)
        for start in range(0, sizes.n_rows, sizes.chunk_rows):
            array[start : start + sizes.chunk_rows] = values[start : start + sizes.chunk_rows]
