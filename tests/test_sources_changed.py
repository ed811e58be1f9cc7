"""A source that changed while its ingest was interrupted is refused, and the message names store and change."""

from __future__ import annotations

import gzip

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr

import streamfit as sf
from streamfit.errors import StoreExistsError, StoreIncompleteError
from streamfit.store.manifest import load_manifest
from streamfit.store.writer import StoreWriter

N_ROWS, CHUNK, N_COMMITTED = 237, 50, 100
NAMES = ("a", "b", "c")
rng = np.random.default_rng(13)
X = rng.normal(size=(N_ROWS, len(NAMES)))
CHANGED = X.copy()
CHANGED[70, 1] += 1


class StoppedError(Exception):
    """What ends an ingest half-way."""


@pytest.fixture
def interrupt(monkeypatch):
    """Ingest into a folder until 100 rows are committed."""
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 10 * X.itemsize * len(NAMES))

    def run(source, folder, **options):
        write = StoreWriter.append

        def stop(self, *rows):
            if self.n_rows >= N_COMMITTED + 20:
                raise StoppedError
            write(self, *rows)

        with monkeypatch.context() as patch:
            patch.setattr(StoreWriter, "append", stop)
            with pytest.raises(StoppedError):
                sf.ingest(source, folder, chunk_rows=CHUNK, **options)
        with pytest.raises(StoreIncompleteError, match="100 of"):
            sf.open_store(folder)

    return run


def frame(matrix, names=NAMES):
    return pd.DataFrame(matrix, columns=list(names))


# -- known again by names, sizes and hashes ------------------------------------------------------------


def npy(path, matrix):
    np.save(path / "x.npy", matrix)
    return path / "x.npy"


def npz(path, matrix):
    np.savez_compressed(path / "x.npz", X=matrix)
    return path / "x.npz"


def parquet(path, matrix, names=NAMES):
    (path / "parts").mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(matrix, 3)):
        frame(part, names).to_parquet(path / "parts" / f"{number}.parquet", row_group_size=30)
    return path / "parts"


def csv_gz(path, matrix, names=NAMES):
    frame(matrix, names).to_csv(path / "x.csv.gz", index=False, compression={"method": "gzip", "mtime": 1})
    return path / "x.csv.gz"


def store(path, matrix):
    return sf.ingest(matrix, path / "source", chunk_rows=17, if_exists="overwrite")


def zarr_array(path, matrix):
    array = zarr.create_array(path / "z", shape=matrix.shape, chunks=(10, 3), dtype="f8", overwrite=True)
    array[:] = matrix
    return array


KNOWN = {
    "array": lambda _, matrix: matrix,
    "npy": npy,
    "npz": npz,
    "parquet": parquet,
    "frame": lambda _, matrix: frame(matrix),
    "store": store,
    "csv-gz": csv_gz,
}
COMPARED = {
    "dask": lambda _, matrix: da.from_array(matrix, chunks=(20, 3)),
    "dask-frame": lambda _, matrix: dd.from_pandas(frame(matrix), npartitions=9),
    "zarr": zarr_array,
    "generator": lambda _, matrix: (matrix[row : row + 10] for row in range(0, len(matrix), 10)),
}


@pytest.mark.parametrize("kind", [*KNOWN, *COMPARED])
def test_the_same_source_goes_on(tmp_path, interrupt, kind):
    make = {**KNOWN, **COMPARED}[kind]
    interrupt(make(tmp_path, X), tmp_path / "s")
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "s/X/c").rglob("*") if file.is_file()}
    assert len(written) == 2
    resumed = sf.ingest(make(tmp_path, X), tmp_path / "s", chunk_rows=CHUNK)
    np.testing.assert_allclose(resumed.X.compute(), X, rtol=1e-14)
    assert resumed.verify().ok
    assert {file: file.stat().st_mtime_ns for file in written} == written


OTHER, CONTENT = r"/s was written from ", r", which has other content by now\."
VALUE = r"/s was written with {}='?\w+'?, now it is '?\w+'?\."


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        pytest.param("array", VALUE.format(r"source\.hash"), id="array"),
        pytest.param("npy", OTHER + r"x\.npy" + CONTENT, id="npy"),
        pytest.param("npz", OTHER + r"x\.npz" + CONTENT, id="npz"),
        pytest.param("parquet", OTHER + r"0\.parquet" + CONTENT, id="parquet"),
        pytest.param("frame", VALUE.format(r"source\.hashes\[1\]"), id="frame"),
        pytest.param("store", VALUE.format(r"source\.digest"), id="store"),
        pytest.param("csv-gz", OTHER + r"x\.csv\.gz" + CONTENT, id="csv-gz"),
    ],
)
def test_one_value_of_a_known_source(tmp_path, interrupt, kind, what):
    interrupt(KNOWN[kind](tmp_path, X), tmp_path / "s")
    refused(KNOWN[kind](tmp_path, CHANGED), tmp_path / "s", what)


@pytest.mark.parametrize("kind", COMPARED)
def test_one_value_of_a_source_that_is_compared(tmp_path, interrupt, kind):
    interrupt(COMPARED[kind](tmp_path, X), tmp_path / "s")
    refused(
        COMPARED[kind](tmp_path, CHANGED), tmp_path / "s", r"The source changed: rows 50 to 99 of X .* /\S+/s holds"
    )


@pytest.mark.parametrize(
    ("give", "what"),
    [
        pytest.param(lambda labels: labels, r"/s was written with source\.y=", id="array"),
        pytest.param(
            lambda labels: da.from_array(labels, chunks=33),
            r"The source changed: rows 50 to 99 of y .* /\S+/s holds",
            id="dask",
        ),
    ],
)
def test_one_label_that_lies_beside(tmp_path, interrupt, give, what):
    labels = np.arange(N_ROWS) % 2
    interrupt(X, tmp_path / "s", y=give(labels))
    labels[70] = 1 - labels[70]
    refused(X, tmp_path / "s", what, y=give(labels))


def test_one_file_more(tmp_path, interrupt):
    interrupt(parquet(tmp_path, X), tmp_path / "s")
    frame(X).to_parquet(tmp_path / "parts" / "3.parquet")
    refused(tmp_path / "parts", tmp_path / "s", r"/s was written without 3\.parquet\. To add its rows append it")


def test_one_file_less(tmp_path, interrupt):
    interrupt(parquet(tmp_path, X), tmp_path / "s")
    (tmp_path / "parts" / "2.parquet").unlink()
    refused(tmp_path / "parts", tmp_path / "s", r"/s was written with 2\.parquet, which the source has no more")


@pytest.mark.parametrize("make", [parquet, csv_gz], ids=["parquet", "csv-gz"])
def test_other_columns_of_the_same_files(tmp_path, interrupt, make):
    interrupt(make(tmp_path, X), tmp_path / "s")
    refused(
        tmp_path / make(tmp_path, X).name, tmp_path / "s", r"/s was written with source\.columns", columns=["a", "c"]
    )


@pytest.mark.parametrize("kind", [*KNOWN, *COMPARED])
def test_fewer_columns(tmp_path, interrupt, kind):
    make = {**KNOWN, **COMPARED}[kind]
    interrupt(make(tmp_path, X), tmp_path / "s")
    source = {
        "parquet": lambda: parquet(tmp_path, X[:, :2], NAMES[:2]),
        "csv-gz": lambda: csv_gz(tmp_path, X[:, :2], NAMES[:2]),
        "frame": lambda: frame(X[:, :2], NAMES[:2]),
        "dask-frame": lambda: dd.from_pandas(frame(X[:, :2], NAMES[:2]), npartitions=9),
        "dask": lambda: da.from_array(X[:, :2], chunks=20),
        "zarr": lambda: narrow_zarr(tmp_path),
    }.get(kind, lambda: make(tmp_path, np.ascontiguousarray(X[:, :2])))()
    refused(
        source, tmp_path / "s", r"/s was written (with source\.[\w.\[\]]+=.*, now it is|from .* other content by now)"
    )


def narrow_zarr(path):
    array = zarr.create_array(path / "z", shape=(N_ROWS, 2), chunks=(10, 2), dtype="f8", overwrite=True)
    array[:] = X[:, :2]
    return array


@pytest.mark.parametrize("kind", ["dask", "generator", "csv-gz"])
def test_fewer_rows_than_are_committed(tmp_path, interrupt, kind):
    make = {**KNOWN, **COMPARED}[kind]
    interrupt(make(tmp_path, X), tmp_path / "s")
    refused(make(tmp_path, X[:60]), tmp_path / "s", r"(was written (with|from)|The source changed: )")


def test_another_kind_of_source(tmp_path, interrupt):
    interrupt(npy(tmp_path, X), tmp_path / "s")
    refused(X, tmp_path / "s", r"/s was written with source\.kind='npy', now it is 'array'")


def refused(source, folder, message, **options):
    """Refused by name; what is committed stays, and only asking for it makes room."""
    before = load_manifest(folder, allow_incomplete=True).digest
    with pytest.raises(StoreExistsError, match=rf'{message}.*if_exists="overwrite"'):
        sf.ingest(source, folder, chunk_rows=CHUNK, **options)
    assert load_manifest(folder, allow_incomplete=True).digest == before


def test_a_compressed_text_is_read_again_and_compared(tmp_path, interrupt):
    """It is known by its hash, but has no way to a later row."""
    interrupt(csv_gz(tmp_path, X), tmp_path / "s")
    text = gzip.decompress((tmp_path / "x.csv.gz").read_bytes())
    assert text.startswith(b"a,b,c\n")
    given = []
    write = StoreWriter.append

    def count(self, X, *sides):
        given.append(len(X))
        write(self, X, *sides)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreWriter, "append", count)
        resumed = sf.ingest(tmp_path / "x.csv.gz", tmp_path / "s", chunk_rows=CHUNK)
    assert sum(given) == N_ROWS
    np.testing.assert_allclose(resumed.X.compute(), X, rtol=1e-14)


@pytest.mark.parametrize("kind", [kind for kind in KNOWN if kind != "csv-gz"])
def test_rows_that_are_stored_are_not_given_again(tmp_path, interrupt, kind):
    interrupt(KNOWN[kind](tmp_path, X), tmp_path / "s")
    given = []
    write = StoreWriter.append

    def count(self, X, *sides):
        given.append(len(X))
        write(self, X, *sides)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreWriter, "append", count)
        source = KNOWN[kind](tmp_path, X) if kind != "store" else sf.open_store(tmp_path / "source")
        resumed = sf.ingest(source, tmp_path / "s", chunk_rows=CHUNK)
    assert sum(given) == N_ROWS - N_COMMITTED
    np.testing.assert_array_equal(resumed.X.compute(), X)
