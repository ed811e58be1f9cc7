"""What every kind of source must do: the same rows, the same errors, and the same store after an interruption.

A new kind joins the list in `source_kinds`.
"""

from __future__ import annotations

import numpy as np
import pytest
from source_kinds import KINDS

import streamfit as sf
from streamfit.errors import (
    InvalidDataError,
    InvalidParameterError,
    SourceNotFoundError,
    StoreIncompleteError,
    StoreNotFoundError,
    StreamfitError,
)
from streamfit.store.committing import ChunkCommitter
from streamfit.store.format import stored_dtype

CHUNK_ROWS = 733
N_ROWS = 10_001
rng = np.random.default_rng(23)
X = rng.normal(size=(N_ROWS, 4)).astype("f4")
X[rng.random(X.shape) < 0.3] = 0  # as sparse kinds have them
X[0] = X[-1] = [1, 2, 3, 4]
y = rng.integers(0, 3, N_ROWS)


def make(kind, path, X, y):
    if KINDS[kind].missing:
        pytest.skip(f"{KINDS[kind].needs} is not installed")
    path.mkdir(exist_ok=True)
    return KINDS[kind].make(path, X, y)


def ingest(made, path, **options):
    return sf.ingest(made.source, path, y=made.y, columns=made.columns, chunk_rows=CHUNK_ROWS, **options)


def rows_of(store):
    chunks = [store.reader.read_chunk(index).X for index in range(store.layout.n_chunks)]
    return np.concatenate([rows.toarray() if store.is_sparse else rows.copy() for rows in chunks])


def assert_rows(store, X, y, dtype=None):
    assert store.dtype == np.dtype(dtype or stored_dtype(X.dtype, what="X"))
    assert store.is_sparse or store.n_features == X.shape[1]
    rows = rows_of(store)
    np.testing.assert_array_equal(rows, X)
    if not store.is_sparse:  # which holds no zero, and so none with a sign
        np.testing.assert_array_equal(np.signbit(rows.astype("f8")), np.signbit(X.astype("f8")))
    np.testing.assert_array_equal(store.y.compute(), y)


# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 7, N_ROWS])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_labels(tmp_path, kind, n_rows):
    made = make(kind, tmp_path / "source", X[:n_rows], y[:n_rows])
    assert_rows(ingest(made, tmp_path / "a"), X[:n_rows], y[:n_rows], KINDS[kind].dtype)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.texts])
def test_labels_that_are_texts(tmp_path, kind):
    texts = np.array(["ham", "spam", "eggs"])[y[:7]]
    store = ingest(make(kind, tmp_path / "source", X[:7], texts), tmp_path / "a")
    assert store.y.compute().tolist() == texts.tolist()
    assert store.classes.tolist() == sorted(set(texts.tolist()))


SEVERAL = np.column_stack([y, y[::-1] % 2, np.arange(N_ROWS) % 7 - 3])
"""Labels of a row, of one type."""


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.several])
def test_several_labels_a_row(tmp_path, kind):
    labels = SEVERAL[:2000]
    store = ingest(make(kind, tmp_path / "source", X[:2000], labels), tmp_path / "a")
    assert_rows(store, X[:2000], labels, KINDS[kind].dtype)
    assert (store.n_outputs, store.label_dtype) == (3, labels.dtype)
    for known, column in zip(store.output_classes, labels.T, strict=True):
        np.testing.assert_array_equal(known, np.unique(column))


DTYPES = ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u4", "u8", "?", ">f4", ">i8")


def matrix(dtype):
    """Rows with the extremes of the type, and zeros."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return X[:50] > 0
    if dtype.kind == "f":
        rows = X[:50].astype(dtype)
        rows[3] = [np.finfo(dtype).max, np.finfo(dtype).tiny, -np.finfo(dtype).max, 0.1]
        rows[4] = [-0.0, np.finfo(dtype).smallest_subnormal, 1 + np.finfo(dtype).eps, -1 / 3]
        return rows
    info = np.iinfo(dtype)
    rows = rng.integers(info.min, info.max, (50, 4), dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)
    rows[3] = [info.min, info.max, 0, 1]
    return rows


@pytest.mark.parametrize(("dtype", "order"), [*((dtype, "C") for dtype in DTYPES), ("f4", "F"), (">i8", "F")])
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_keeps_its_values(tmp_path, kind, dtype, order):
    if dtype in KINDS[kind].lacks:
        pytest.skip(f"it has no {dtype}")
    rows = np.asarray(matrix(dtype), order=order)
    made = make(kind, tmp_path / "source", rows, y[:50])
    if KINDS[kind].dtype == "f8" and rows.dtype.kind in "iu" and rows.dtype.itemsize == 8:
        if KINDS[kind].rounds:
            rows = rows.astype("f8")
        else:
            with pytest.raises(InvalidDataError, match="float64"):
                ingest(made, tmp_path / "a")
            return
    assert_rows(ingest(made, tmp_path / "a"), rows, y[:50], KINDS[kind].dtype)


# -- errors --------------------------------------------------------------------------------------------


def assert_nothing_complete(path):
    with pytest.raises((StoreNotFoundError, StoreIncompleteError)):
        sf.open_store(path)


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "store"])
def test_no_rows(tmp_path, kind):
    with pytest.raises(InvalidDataError, match=r"0 rows|no matrix|no rows|empty"):
        ingest(make(kind, tmp_path / "source", X[:0], y[:0]), tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_that_is_not_there(tmp_path, kind):
    made = make(kind, tmp_path / "source", X[:7], y[:7])
    with pytest.raises(InvalidParameterError) as caught:
        sf.ingest(made.source, tmp_path / "a", y="lable")
    assert "'lable'" in str(caught.value)
    assert "label" in str(caught.value) if isinstance(made.y, str) else "no named columns" in str(caught.value)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "path",
    [
        *("none.npy", "none.npz", "none.h5", "none.h5::X", "none.zarr", "none.parquet", "none.csv", "none.csv.gz"),
        *("none.svmlight", "none-*.npy", "none*/*.h5::X", "none/part=*/x.parquet", ["none.npy"], ["none.h5::X"]),
    ],
    ids=str,
)
def test_nothing_at_a_path(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceNotFoundError, match="none"):
        sf.ingest(path, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


FILES = ("npy", "npy-list", "npz", "npz-plain", "hdf5", "hdf5-chunks", "zarr-2", "zarr-3", "zarr-shards", "zarr-group")
FILES += ("store", "parquet", "parquet-folder", "parquet-keys", "csv-gz", "csv-zst", "sparse-npz")


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("kind", FILES)
def test_a_cut_file_is_noticed(tmp_path, kind, part):
    made = make(kind, tmp_path / "source", X[:2000], y[:2000])
    assert made.damaged
    file = made.damaged[len(made.damaged) // 2]
    content = file.read_bytes()
    file.write_bytes(content[: min(int(part * len(content)), len(content) - 1)])
    with pytest.raises(StreamfitError):
        ingest(made, tmp_path / "a")
    assert_nothing_complete(tmp_path / "a")
    # The whole file is the way out, also where rows were written before the cut was seen.
    file.write_bytes(content)
    options = {"if_exists": "overwrite"}
    assert_rows(ingest(made, tmp_path / "a", **options), X[:2000], y[:2000], KINDS[kind].dtype)


@pytest.mark.parametrize("kind", ["csv", "tsv", "svmlight"])
def test_a_text_that_ends_inside_a_row_is_noticed(tmp_path, kind):
    made = make(kind, tmp_path / "source", X[:2000], y[:2000])
    content = made.text.read_bytes()
    made.text.write_bytes(content[: content.rindex(b":" if kind == "svmlight" else b"\t" if kind == "tsv" else b",")])
    with pytest.raises(InvalidDataError, match=r"2000|2001"):
        ingest(made, tmp_path / "a")
    assert_nothing_complete(tmp_path / "a")


# -- interrupted ---------------------------------------------------------------------------------------


def content_of(path):
    chunks = {
        file.relative_to(path).as_posix(): file.read_bytes() for file in path.glob("[Xy]*/**/*") if file.is_file()
    }
    assert chunks
    return chunks


@pytest.mark.parametrize(
    ("kind", "y"),
    [
        *(pytest.param(name, y, id=f"{name}-one") for name in KINDS),
        *(pytest.param(name, SEVERAL, id=f"{name}-several") for name, kind in KINDS.items() if kind.several),
    ],
)
def test_the_same_call_goes_on_to_the_same_store(tmp_path, monkeypatch, kind, y):
    n_rows = 3001
    once = make(kind, tmp_path / "once", X[:n_rows], y[:n_rows])
    undisturbed = ingest(once, tmp_path / "a")
    first = make(kind, tmp_path / "first", X[:n_rows], y[:n_rows])
    again = make(kind, tmp_path / "again", X[:n_rows], y[:n_rows])
    write, chunks = ChunkCommitter.write, []

    def fail_at_the_third(self, chunk):
        if len(chunks) == 2:
            raise RuntimeError("pulled the plug")
        chunks.append(chunk)
        return write(self, chunk)

    with monkeypatch.context() as patch:
        patch.setattr(ChunkCommitter, "write", fail_at_the_third)
        with pytest.raises(RuntimeError, match="plug"):
            ingest(first, tmp_path / "b")
    with pytest.raises(StoreIncompleteError):
        sf.open_store(tmp_path / "b")
    kept = {file: file.stat().st_ino for file in (tmp_path / "b").glob("X/**/c/**/*") if file.is_file()}
    assert len(kept) >= 2
    resumed = ingest(again, tmp_path / "b")
    assert {file: file.stat().st_ino for file in kept} == kept
    assert_rows(resumed, X[:n_rows], y[:n_rows], KINDS[kind].dtype)
    assert content_of(tmp_path / "b") == content_of(tmp_path / "a")
    assert resumed.digest == undisturbed.digest
    assert resumed.verify().ok
