"""Every source gives the rows from any row on, and the seekable ones decode none before it."""

from __future__ import annotations

import itertools

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr

import streamfit as sf
from streamfit.sources import frames, npy
from streamfit.sources.registry import open_source
from streamfit.sources.side_columns import join_side_columns
from streamfit.sources.source import Names
from streamfit.store.reader import Reader

N_ROWS = 237
BLOCK = 50
GROUP = 30
FILES = (0, 100, 160, 237)
NAMES = ("a", "b", "c", "d", "e")
ROLES = {"y": "label", "sample_weight": "weight", "ids": "number"}
rng = np.random.default_rng(7)
X = rng.normal(size=(N_ROWS, len(NAMES))).astype("f4")
SIDES = {"y": rng.choice(["ham", "spam"], N_ROWS), "sample_weight": rng.random(N_ROWS), "ids": np.arange(N_ROWS)}
STARTS = {
    "first": 0,
    "second": 1,
    "inside-a-block": BLOCK + 7,
    "edge-of-a-block": 2 * BLOCK,
    "edge-of-a-row-group": FILES[0] + GROUP,
    "edge-of-a-file": FILES[2],
    "inside-the-last-file": FILES[2] + GROUP + 1,
    "last": N_ROWS - 1,
    "none": N_ROWS,
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", BLOCK * X.itemsize * len(NAMES))


# -- kinds ---------------------------------------------------------------------------------------------


def frame():
    return pd.DataFrame(X, columns=list(NAMES)).assign(
        label=SIDES["y"], weight=SIDES["sample_weight"], number=SIDES["ids"]
    )


def npy_file(path, matrix):
    np.save(path / "x.npy", matrix)
    return path / "x.npy"


def npz_file(path, matrix, save):
    save(path / "x.npz", X=matrix, label=SIDES["y"], weight=SIDES["sample_weight"], number=SIDES["ids"])
    return path / "x.npz"


def parquet_files(path):
    (path / "tables").mkdir()
    for number, (start, stop) in enumerate(itertools.pairwise(FILES)):
        frame()[start:stop].to_parquet(path / "tables" / f"{number}.parquet", row_group_size=GROUP)
    frame()[:0].to_parquet(path / "tables" / "1a.parquet")  # an empty one between the others
    return path / "tables"


def csv_file(path, name):
    frame().to_csv(path / name, index=False)
    return path / name


def zarr_array(path):
    array = zarr.create_array(path / "x", shape=X.shape, chunks=(20, 2), dtype="f4")
    array[:] = X
    return array


def store(path):
    return sf.ingest(frame(), path / "s", chunk_rows=BLOCK, **ROLES)


def view(path):
    table = pd.concat([frame()[:13], frame(), frame()[:40]])
    return sf.ingest(table, path / "v", chunk_rows=BLOCK, **ROLES)[13 : 13 + N_ROWS]


def with_sides(source):
    return join_side_columns(open_source(source, Names(), memory_limit=None), SIDES)


def with_roles(source):
    return open_source(source, Names(**ROLES), memory_limit=None)


SEEKABLE = {
    "array": lambda _: with_sides(X),
    "fortran-array": lambda _: with_sides(np.asfortranarray(X)),
    "npy": lambda path: with_sides(npy_file(path, X)),
    "fortran-npy": lambda path: with_sides(npy_file(path, np.asfortranarray(X))),
    "npz": lambda path: with_roles(npz_file(path, X, np.savez)),
    "compressed-npz": lambda path: with_roles(npz_file(path, X, np.savez_compressed)),
    "fortran-npz": lambda path: with_roles(npz_file(path, np.asfortranarray(X), np.savez_compressed)),
    "frame": lambda _: with_roles(frame()),
    "parquet": lambda path: with_roles(parquet_files(path)),
    "store": lambda path: open_source(store(path), Names(), memory_limit=None),
    "view": lambda path: open_source(view(path), Names(), memory_limit=None),
}
OTHERS = {
    "csv": lambda path: with_roles(csv_file(path, "x.csv")),
    "csv-gz": lambda path: with_roles(csv_file(path, "x.csv.gz")),
    "zarr": lambda path: with_sides(zarr_array(path)),
    "dask": lambda _: with_sides(da.from_array(X, chunks=(70, 2))),
    "dask-frame": lambda _: with_roles(dd.from_pandas(frame(), npartitions=4)),
    "batches": lambda _: with_sides(X[row : row + 70] for row in range(0, N_ROWS, 70)),
    "dask-labels": lambda _: join_side_columns(
        open_source(X, Names(), memory_limit=None),
        {name: da.from_array(values, chunks=33) for name, values in SIDES.items()},
    ),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("kind", [*SEEKABLE, *OTHERS])
def test_rows_from_any_row_on(tmp_path, kind, start):
    source = {**SEEKABLE, **OTHERS}[kind](tmp_path)
    blocks = list(source.blocks(start))
    assert all(len(block.X) for block in blocks)
    given = {
        "X": [block.X for block in blocks],
        "y": [block.y for block in blocks],
        "sample_weight": [block.sample_weight for block in blocks],
        "ids": [block.ids for block in blocks],
    }
    for name, whole in {"X": X, **SIDES}.items():
        rows = np.concatenate([whole[:0], *given[name]])
        np.testing.assert_array_equal(rows.astype(whole.dtype), whole[start:], err_msg=name)


@pytest.mark.parametrize("kind", [*SEEKABLE, *OTHERS])
def test_who_is_seekable(tmp_path, kind):
    source = {**SEEKABLE, **OTHERS}[kind](tmp_path)
    assert source.seekable == (kind in SEEKABLE)
    assert source.recognisable or not source.seekable


# -- nothing is decoded that is not needed -------------------------------------------------------------


class Spied(np.ndarray):
    """An array that notes the first row of each slice."""

    def __getitem__(self, key):
        if isinstance(key, slice):
            self.seen.append(key.start)
        return np.asarray(self)[key]


def spy_on_array(path, monkeypatch):
    rows = X.view(Spied)
    rows.seen = []
    source = open_source(rows, Names(), memory_limit=None)
    rows.seen.clear()
    return source, rows.seen


def spy_on_npy(path, monkeypatch, matrix=X):
    source = open_source(npy_file(path, matrix), Names(), memory_limit=None)
    with (path / "x.npy").open("rb") as stream:
        offset = npy.read_header(stream, "x.npy").offset
    seen, read = [], npy._read_exactly

    def spy(stream, position, out, name):
        value = (position - offset) // X.itemsize
        seen.append(value // len(NAMES) if matrix.flags.c_contiguous else value % N_ROWS)
        read(stream, position, out, name)

    monkeypatch.setattr(npy, "_read_exactly", spy)
    return source, seen


def spy_on_frame(path, monkeypatch):
    seen, read = [], frames.frame_block

    def spy(rows, columns, dtype, *, start):
        seen.append(start)
        return read(rows, columns, dtype, start=start)

    monkeypatch.setattr(frames, "frame_block", spy)
    return with_roles(frame()), seen


def spy_on_parquet(path, monkeypatch):
    seen, firsts = [], {"0": FILES[0], "1": FILES[1], "1a": FILES[2], "2": FILES[2]}

    class Spy(pq.ParquetFile):
        def __init__(self, file, **options):
            super().__init__(file, **options)
            self.first = firsts[file.stem]

        def iter_batches(self, *, row_groups, **options):
            seen.extend(self.first + group * GROUP for group in row_groups)
            return super().iter_batches(row_groups=row_groups, **options)

    monkeypatch.setattr(pq, "ParquetFile", Spy)
    return with_roles(parquet_files(path)), seen


def spy_on_store(path, monkeypatch):
    seen, read = [], Reader.read_array

    def spy(self, name, index, out=None):
        seen.append(index * BLOCK)
        return read(self, name, index, out=out)

    source = SEEKABLE["store"](path)
    monkeypatch.setattr(Reader, "read_array", spy)
    return source, seen


def by_block(start):
    return start


def by_chunk(start):
    return start // BLOCK * BLOCK


def by_row_group(start):
    first = max((first for first in FILES if first <= start), default=0)
    return first + (start - first) // GROUP * GROUP


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize(
    ("spy", "unit"),
    [
        pytest.param(spy_on_array, by_block, id="array"),
        pytest.param(spy_on_npy, by_block, id="npy"),
        pytest.param(lambda path, patch: spy_on_npy(path, patch, np.asfortranarray(X)), by_block, id="fortran-npy"),
        pytest.param(spy_on_frame, by_block, id="frame"),
        pytest.param(spy_on_parquet, by_row_group, id="parquet"),
        pytest.param(spy_on_store, by_chunk, id="store"),
    ],
)
def test_nothing_before_the_first_row_is_decoded(tmp_path, monkeypatch, spy, unit, start):
    source, seen = spy(tmp_path, monkeypatch)
    assert seen == []
    n_rows = sum(len(block.X) for block in source.blocks(start))
    assert n_rows == N_ROWS - start
    assert (min(seen) == unit(start)) if n_rows else (seen == [])
