"""Labels, weights and ids for rows that are stored already."""

from __future__ import annotations

from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import SGDClassifier

import streamfit as sf
from streamfit.errors import (
    InvalidDataError,
    InvalidParameterError,
    StoreExistsError,
    StoreIncompleteError,
    StoreLockedError,
    StoreNotFoundError,
)
from streamfit.store.writer import StoreWriter

N_ROWS, CHUNK = 237, 50
rng = np.random.default_rng(3)
X = rng.normal(size=(N_ROWS, 4)).astype("f4")
SIDES = {"y": rng.choice(["ham", "spam"], N_ROWS), "sample_weight": rng.random(N_ROWS), "ids": np.arange(N_ROWS) * 7}
KINDS = {
    "numpy": lambda values: values,
    "list": lambda values: values.tolist(),
    "pandas": pd.Series,
    "dask": lambda values: da.from_array(values, chunks=33),
    "dask-unknown-chunks": lambda values: da.from_array(values, chunks=33)[da.ones(N_ROWS, chunks=33, dtype=bool)],
    "dask-series": lambda values: dd.from_pandas(pd.Series(values), npartitions=3),
}


@pytest.fixture
def store(tmp_path):
    return sf.ingest(X, tmp_path / "s", chunk_rows=CHUNK)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_attached_equals_what_is_written_at_once(tmp_path, store, kind):
    attached = sf.attach(store, **{name: KINDS[kind](values) for name, values in SIDES.items()})
    whole = sf.ingest(X, tmp_path / "whole", chunk_rows=CHUNK, **SIDES)
    for name, values in SIDES.items():
        np.testing.assert_array_equal(getattr(attached, name).compute(), values)
    assert attached.manifest.checksums == whole.manifest.checksums
    assert attached.classes.tolist() == whole.classes.tolist() == ["ham", "spam"]
    np.testing.assert_array_equal(attached.class_counts, whole.class_counts)
    np.testing.assert_array_equal(attached.X.compute(), X)
    assert attached.verify().ok


@pytest.mark.parametrize("give", [str, lambda path: path, sf.open_store], ids=["text", "path", "store"])
def test_a_store_is_given_as_it_suits(store, give):
    np.testing.assert_array_equal(sf.attach(give(store.path), y=SIDES["y"]).y.compute(), SIDES["y"])


def test_one_after_the_other(store):
    for name, values in SIDES.items():
        store = sf.attach(store, **{name: values})
    for name, values in SIDES.items():
        np.testing.assert_array_equal(getattr(store, name).compute(), values)
    batch = next(iter(store.stream(store.plan(batch_size=64, seed=1))))
    np.testing.assert_array_equal(batch.y, SIDES["y"][batch.rows])
    np.testing.assert_array_equal(batch.sample_weight, SIDES["sample_weight"][batch.rows])


def test_readers_keep_what_they_opened(store):
    first = sf.attach(store, y=SIDES["y"])
    second = sf.attach(first, y=np.arange(N_ROWS) % 3, if_exists="overwrite")
    third = sf.attach(second, y=np.zeros(N_ROWS), if_exists="overwrite")
    assert store.y is None
    assert store.classes is None
    np.testing.assert_array_equal(first.y.compute(), SIDES["y"])
    np.testing.assert_array_equal(second.y.compute(), np.arange(N_ROWS) % 3)
    np.testing.assert_array_equal(third.y.compute(), np.zeros(N_ROWS))
    np.testing.assert_array_equal(sf.open_store(store.path).y.compute(), np.zeros(N_ROWS))
    assert second.class_counts.tolist() == [79, 79, 79]


def test_labels_computed_from_the_store_itself(store):
    lazy = (store.X[:, 0] > 0).astype("i8")
    attached = sf.attach(store, y=lazy)
    np.testing.assert_array_equal(attached.y.compute(), X[:, 0] > 0)
    flipped = sf.attach(attached, y=1 - attached.y, if_exists="overwrite")
    np.testing.assert_array_equal(flipped.y.compute(), X[:, 0] <= 0)


def test_a_classifier_learns_from_labels_that_came_later(store):
    labelled = sf.attach(store, y=np.where(X[:, 0] > 0, "up", "down"))
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=32, epochs=3, random_state=0).fit(labelled)
    assert trainer.estimator_.classes_.tolist() == ["down", "up"]


def test_rows_that_follow_bring_what_was_attached(store):
    labelled = sf.attach(store, y=SIDES["y"])
    with pytest.raises(InvalidDataError, match="has y, and the source gives none"):
        sf.append(X[:10], labelled)
    longer = sf.append(X[:10], labelled, y=["eggs"] * 10)
    assert longer.classes.tolist() == ["eggs", "ham", "spam"]
    np.testing.assert_array_equal(longer.y.compute(), [*SIDES["y"], *["eggs"] * 10])
    assert longer.verify().ok


@pytest.mark.parametrize("n_values", [0, N_ROWS - 1, N_ROWS + 1])
@pytest.mark.parametrize("kind", ["numpy", "dask", "dask-unknown-chunks"])
@pytest.mark.parametrize("name", SIDES)
def test_there_is_one_value_for_each_row(store, name, kind, n_values):
    values = np.arange(N_ROWS + 1)
    if kind == "numpy":
        values = values[:n_values]
    else:
        values = da.from_array(values, chunks=50)
        values = values[:n_values] if kind == "dask" else values[values < n_values]
    with pytest.raises(InvalidDataError, match=rf"{name} has {n_values} values.* and the store has {N_ROWS} rows"):
        sf.attach(store, **{name: values})
    assert sf.open_store(store.path).manifest.digest == store.manifest.digest


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({}, InvalidParameterError, "Nothing is given", id="nothing"),
        pytest.param({"y": "label"}, InvalidParameterError, "y='label' is no array", id="name"),
        pytest.param({"y": SIDES["y"], "if_exists": "keep"}, InvalidParameterError, "if_exists", id="if_exists"),
        pytest.param({"y": np.zeros((N_ROWS, 2, 2))}, InvalidDataError, "y has shape", id="three-dimensions"),
        pytest.param({"y": [None] * N_ROWS}, InvalidDataError, "label of row 0 is missing", id="missing-labels"),
        pytest.param({"ids": np.zeros(N_ROWS)}, InvalidDataError, "signed integer", id="ids-no-integers"),
        pytest.param(
            {"sample_weight": np.where(np.arange(N_ROWS) == 123, np.nan, 1.0)},
            InvalidDataError,
            "sample_weight of row 123 is nan",
            id="weight-nan",
        ),
        pytest.param(
            {"y": SIDES["y"], "ids": np.ma.array(SIDES["ids"], mask=np.arange(N_ROWS) == 123)},
            InvalidDataError,
            "ids is masked in row 123",
            id="masked",
        ),
    ],
)
def test_what_cannot_be_attached(store, options, error, message):
    with pytest.raises(error, match=message):
        sf.attach(store, **options)
    assert sf.open_store(store.path).manifest.digest == store.manifest.digest
    assert sf.attach(store, y=SIDES["y"]).verify().ok


@pytest.mark.parametrize(
    ("y", "options"),
    [
        pytest.param(np.roll(SIDES["y"], 1), {}, id="other-values"),
        pytest.param(SIDES["y"] == "ham", {}, id="other-type"),
        pytest.param(SIDES["y"], {"if_exists": "error"}, id="error"),
    ],
)
def test_nothing_is_replaced_by_accident(store, y, options):
    labelled = sf.attach(store, y=SIDES["y"])
    with pytest.raises(StoreExistsError, match=r'/s has y already\. Say if_exists="overwrite"'):
        sf.attach(store, y=y, ids=SIDES["ids"], **options)
    now = sf.open_store(store.path)
    assert now.manifest.digest == labelled.manifest.digest
    assert now.ids is None


def test_the_same_values_are_attached_once(store):
    """A script may be run again."""
    first = sf.attach(store, y=SIDES["y"], ids=SIDES["ids"])
    assert sf.attach(store, y=list(SIDES["y"])).manifest.digest == first.manifest.digest
    assert sf.attach(store, **{name: SIDES[name] for name in ("y", "ids")}).manifest.digest == first.manifest.digest
    assert not list(Path(store.path).glob("y.*"))
    more = sf.attach(store, **{name: SIDES[name] for name in ("y", "ids", "sample_weight")})
    np.testing.assert_array_equal(more.sample_weight.compute(), SIDES["sample_weight"])
    np.testing.assert_array_equal(more.y.compute(), SIDES["y"])


def test_a_series_that_is_keyed_otherwise_is_not_matched_by_position(store):
    store = sf.attach(store, ids=SIDES["ids"])
    order = rng.permutation(N_ROWS)
    keyed = pd.Series(SIDES["y"][order], index=SIDES["ids"][order])
    with pytest.raises(InvalidDataError, match=r"index of y is not 0, 1, 2.*y\.reindex\(store\.ids\.compute"):
        sf.attach(store, y=keyed)
    labelled = sf.attach(store, y=keyed.reindex(store.ids.compute()).to_numpy())
    np.testing.assert_array_equal(labelled.y.compute(), SIDES["y"])


def test_lazy_values_that_fail_leave_the_store_as_it_was(store):
    def fail(block):
        raise RuntimeError("the cluster is gone")

    lazy = da.from_array(np.arange(N_ROWS), chunks=50).map_blocks(fail, dtype="i8", meta=np.empty(0, "i8"))
    with pytest.raises(RuntimeError, match="cluster"):
        sf.attach(store, ids=SIDES["ids"], y=lazy)
    assert sf.open_store(store.path).manifest.digest == store.manifest.digest
    assert sf.open_store(store.path).verify().ok


def test_one_writer_at_a_time(store):
    with StoreWriter.append_to(store.path, source={}, continues=False), pytest.raises(StoreLockedError):
        sf.attach(store, y=SIDES["y"])


def test_a_store_is_there_and_complete(tmp_path):
    with pytest.raises(StoreNotFoundError):
        sf.attach(tmp_path / "none", y=[1])

    def failing():
        yield X
        raise RuntimeError("the network is gone")

    with pytest.raises(RuntimeError, match="network"):
        sf.ingest(failing(), tmp_path / "s", chunk_rows=CHUNK)
    with pytest.raises(StoreIncompleteError):
        sf.attach(tmp_path / "s", y=[1])
