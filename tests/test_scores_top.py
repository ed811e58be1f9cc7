"""The top rows with what a store knows of them, and their files."""

from __future__ import annotations

import csv
import io
import json

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, StoreLockedError, StoreWriteError
from streamfit.scores import TopK, top_k
from streamfit.store.part_file import part_file

N_ROWS = 307
rng = np.random.default_rng(3)
SCORES = rng.integers(0, 60, N_ROWS).astype(np.float64)
X = rng.normal(size=(N_ROWS, 3)).astype(np.float32)
IDS = rng.permutation(N_ROWS) * 7
LABELS = np.array(["ham", "spam"])[rng.integers(0, 2, N_ROWS)]
NAMES = ["a", "b", "c"]


def blocks(values, n_blocks):
    cuts = np.sort(np.random.default_rng(n_blocks).integers(0, len(values) + 1, n_blocks - 1))
    lengths = tuple(np.diff([0, *cuts, len(values)]).tolist())
    return da.from_array(values, chunks=len(values)).rechunk((lengths,))


def best(k, scores=SCORES):
    return np.lexsort((np.arange(len(scores)), -scores))[:k]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    table = pd.DataFrame(X, columns=NAMES)
    folder = tmp_path_factory.mktemp("top")
    return sf.ingest(table, folder / "x.zarr", y=LABELS, ids=IDS, chunk_rows=40)


def check(top, k):
    rows = best(k)
    np.testing.assert_array_equal(top.rows, rows, strict=True)
    np.testing.assert_array_equal(top.scores, SCORES[rows], strict=True)
    np.testing.assert_array_equal(top.ids, IDS[rows], strict=True)
    np.testing.assert_array_equal(top.labels, LABELS[rows])
    np.testing.assert_array_equal(top.features, X[rows], strict=True)
    assert top.feature_names == tuple(NAMES)


@pytest.mark.parametrize("n_blocks", [1, 7, 100])
@pytest.mark.parametrize("k", [1, 20, N_ROWS + 5])
def test_rows_of_a_store_come_with_all_that_it_knows(store, n_blocks, k):
    lazy = top_k(blocks(SCORES, n_blocks), k, store=store)
    k = min(k, N_ROWS)
    assert lazy.features.shape == (k, 3)
    assert (lazy.rows.shape, lazy.ids.shape, lazy.labels.shape) == ((k,), (k,), (k,))
    assert lazy.labels.dtype == LABELS.dtype
    check(lazy.compute(), k)
    check(top_k(SCORES, k, store=store.path), k)


@settings(max_examples=15, deadline=None)
@given(
    values=hnp.arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf])),
    n_blocks=st.sampled_from([1, 7, 30]),
    id_blocks=st.integers(1, 9),
    k=st.integers(1, 45),
    text=st.booleans(),
)
def test_ids_of_any_blocks_go_with_their_rows(values, n_blocks, id_blocks, k, text):
    ids = np.arange(len(values))[::-1] * 3
    ids = ids.astype("U5") if text else ids
    rows = best(k, values)
    for given_scores in (values, blocks(values, n_blocks)):
        for given_ids in (ids, ids.tolist(), blocks(ids, id_blocks)):
            found = top_k(given_scores, k, ids=given_ids).compute()
            np.testing.assert_array_equal(found.rows, rows, strict=True)
            np.testing.assert_array_equal(found.ids, ids[rows])


def test_many_blocks_are_joined_in_a_tree():
    values = np.random.default_rng(0).integers(0, 50, size=5_003).astype(np.float64)
    lazy = top_k(da.from_array(values, chunks=13), 300)
    assert lazy.rows.shape == lazy.scores.shape == (300,)
    found = lazy.compute()
    np.testing.assert_array_equal(found.rows, best(300, values), strict=True)
    np.testing.assert_array_equal(found.scores, values[best(300, values)], strict=True)


@pytest.mark.parametrize("k", [0, -1, 1.5, "x", None, True])
def test_k_that_is_refused(k):
    with pytest.raises(InvalidParameterError, match="k must be an integer of at least 1"):
        top_k(np.ones(3), k)


def test_ids_go_before_those_of_the_store(store):
    names = np.array([f"row {row}" for row in range(N_ROWS)])
    top = top_k(blocks(SCORES, 7), 4, store=store, ids=names).compute()
    assert top.ids.tolist() == [f"row {row}" for row in best(4)]
    np.testing.assert_array_equal(top.features, X[best(4)])


def test_building_reads_nothing_and_scores_are_read_once(store):
    calls = []

    def block_of(block, block_id):
        calls.append(block_id)
        return block

    counted = da.map_blocks(block_of, blocks(SCORES, 7), dtype=float, meta=np.empty(0))
    before = len(calls)
    top = top_k(counted, 5, store=store)
    again = top_k(counted, 5, store=store)
    assert len(calls) == before
    assert [top.features.name, top.ids.name] == [again.features.name, again.ids.name]
    first, total = dask.compute(top, counted.sum())
    assert len(calls) == before + counted.numblocks[0]
    assert total == SCORES.sum()
    check(first, 5)


def test_only_chunks_with_top_rows_are_read(store, monkeypatch):
    from streamfit.store.stored_chunks import StoredChunks

    read = set()
    original = StoredChunks.read

    def read_chunk(self, name, index, out):
        read.add(index)
        return original(self, name, index, out)

    monkeypatch.setattr(StoredChunks, "read", read_chunk)
    scores = np.zeros(N_ROWS)
    scores[[41, 79]] = 1
    top = top_k(da.from_array(scores, chunks=100), 2, store=store).compute()
    assert top.rows.tolist() == [41, 79]
    assert read == {1}


def test_views_and_transformed_stores_count_their_own_rows(store):
    from sklearn.preprocessing import StandardScaler

    chosen = np.arange(5, N_ROWS, 3)
    scaler = StandardScaler().fit(X)
    view = store[chosen].transformed(scaler)
    top = top_k(da.from_array(SCORES[chosen], chunks=31), 6, store=view).compute()
    rows = best(6, SCORES[chosen])
    np.testing.assert_array_equal(top.rows, rows)
    np.testing.assert_array_equal(top.ids, IDS[chosen][rows])
    np.testing.assert_allclose(top.features, scaler.transform(X[chosen][rows]), rtol=1e-6)


def test_sparse_stores_and_several_labels(tmp_path):
    matrix = sp.random_array((50, 9), density=0.2, format="csr", rng=1)
    labels = rng.integers(0, 2, (50, 2))
    store = sf.ingest(matrix, tmp_path / "s.zarr", y=labels, chunk_rows=8)
    top = top_k(blocks(SCORES[:50], 7), 4, store=store).compute()
    rows = best(4, SCORES[:50])
    assert (top.features != matrix[rows]).nnz == 0
    np.testing.assert_array_equal(top.labels, labels[rows])
    frame = top.to_frame()
    assert list(frame)[:5] == ["row", "score", "label_0", "label_1", "x0"]
    np.testing.assert_array_equal(frame.iloc[:, 4:].to_numpy(), matrix[rows].toarray())
    top.to_json(tmp_path / "top.json")
    records = json.loads((tmp_path / "top.json").read_text())
    first = matrix[[rows[0]]]
    assert records[0]["features"] == {
        f"x{column}": value for column, value in zip(first.indices, first.data, strict=True)
    }


# -- files -------------------------------------------------------------------------------------------


def test_csv_reads_back_to_the_same_values(store, tmp_path):
    top_k(blocks(SCORES, 7), 9, store=store).to_csv(tmp_path / "new" / "top.csv")
    frame = pd.read_csv(tmp_path / "new" / "top.csv")
    rows = best(9)
    assert list(frame) == ["row", "id", "score", "label", *NAMES]
    assert frame["row"].tolist() == rows.tolist()
    assert frame["id"].tolist() == IDS[rows].tolist()
    assert frame["label"].tolist() == LABELS[rows].tolist()
    np.testing.assert_array_equal(frame[NAMES].to_numpy().astype(np.float32), X[rows])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["top.csv"]


def test_json_is_one_object_a_row(store, tmp_path):
    top = top_k(SCORES, 3, store=store)
    top.to_json(tmp_path / "top.json")
    rows = best(3)
    assert json.loads((tmp_path / "top.json").read_text()) == [
        {
            "row": int(row),
            "id": int(IDS[row]),
            "score": SCORES[row],
            "label": LABELS[row],
            "features": {name: float(value) for name, value in zip(NAMES, X[row], strict=True)},
        }
        for row in rows
    ]
    top.to_json(tmp_path / "top.json", features=False)
    assert "features" not in json.loads((tmp_path / "top.json").read_text())[0]
    top.to_csv(tmp_path / "top.csv", features=False)
    assert (tmp_path / "top.csv").read_text().splitlines()[0] == "row,id,score,label"


def test_values_that_are_not_finite(tmp_path):
    top = TopK(
        rows=np.array([4, 2]),
        scores=np.array([np.inf, 1.5]),
        features=np.array([[np.nan, -np.inf], [1.0, 2.0]]),
        labels=np.array([b"a", b"\xff"]),
    )
    top.to_csv(tmp_path / "top.csv", features=True)
    lines = list(csv.reader(io.StringIO((tmp_path / "top.csv").read_text())))
    assert lines[1][:2] == ["4", "inf"]
    assert lines[1][3:] == ["nan", "-inf"]
    top.to_json(tmp_path / "top.json")
    records = json.loads((tmp_path / "top.json").read_text())
    assert records[0] == {"row": 4, "score": None, "label": "a", "features": {"x0": None, "x1": None}}
    assert records[1]["label"] == "\\xff"


def test_features_that_are_called_like_other_columns():
    top = TopK(
        rows=np.array([0]),
        scores=np.array([2.0]),
        features=np.array([[7.0, 8.0, 9.0]]),
        feature_names=("row", "feature_row", "id"),
    )
    assert list(top.to_frame()) == ["row", "score", "feature_feature_row", "feature_row", "id"]
    assert top.to_frame().iloc[0].tolist() == [0, 2.0, 7.0, 8.0, 9.0]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "top.csv"
    top = top_k([1.0, 2.0], 1)
    top.to_csv(file)
    old = file.read_bytes()
    with part_file(file) as other:
        with pytest.raises(StoreLockedError, match="another process"):
            top.to_csv(file)
        other.write(old)

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreWriteError, match="No space left"):
        top_k([5.0, 7.0], 2).to_csv(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["top.csv"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        pytest.param([1, 2], "2 ids and 3 scores", id="too-few"),
        pytest.param([1.0, 2.0, 3.0], "integers or texts", id="floats"),
        pytest.param([[1], [2], [3]], "one dimension", id="matrix"),
        pytest.param(np.array([None, "a", "b"], dtype=object), "integers or texts", id="objects"),
    ],
)
def test_ids_that_are_refused(ids, message):
    with pytest.raises(InvalidDataError, match=message):
        top_k([1.0, 2.0, 3.0], 1, ids=ids)


def test_a_store_of_other_rows_is_refused(store):
    with pytest.raises(InvalidDataError, match="307 rows and there are 3 scores"):
        top_k([1.0, 2.0, 3.0], 1, store=store)
