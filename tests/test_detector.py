"""StreamDetector against PyOD on all rows in memory."""

from __future__ import annotations

import gc
import importlib
import pickle
import signal
import subprocess
import sys
import time
from copy import deepcopy

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from pyod.models.kpca import KPCA
from pyod.models.ocsvm import OCSVM
from pyod.models.pca import PCA
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

import streamfit as sf
from streamfit.detectors import registry


def rows(n: int = 1_000, d: int = 6, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 100, d)
    X[: n // 50] += rng.normal(size=(n // 50, d)) * 5 * np.geomspace(1, 100, d)
    return (X * 10).astype(dtype) if np.dtype(dtype).kind in "iu" else X.astype(dtype)


def make_store(tmp_path, X, chunk_rows=257, name="x.zarr"):
    return sf.ingest(X, tmp_path / name, chunk_rows=chunk_rows)


DATA = [
    pytest.param(rows(), id="float64"),
    pytest.param(rows(dtype="float32"), id="float32"),
    pytest.param(rows(dtype="int16"), id="int16"),
    pytest.param(np.abs(rows(dtype="int16") % 200).astype("uint8"), id="uint8"),
    pytest.param(rows() + 1e6, id="offset of 1e6"),
    pytest.param(np.c_[rows(), np.full(1_000, 7.0)], id="constant column"),
    pytest.param(np.repeat(rows(30), 20, axis=0), id="30 rows x 20 copies"),
]


@pytest.mark.parametrize("X", DATA)
@pytest.mark.parametrize(
    "detector",
    [
        pytest.param(HBOS(contamination=0.05), id="default"),
        pytest.param(HBOS(n_bins=25, alpha=0.3, tol=0.2), id="25 bins"),
        pytest.param(HBOS(n_bins="auto"), id="auto"),
    ],
)
def test_hbos_is_bit_equal_to_pyod(tmp_path, X, detector):
    reference = clone(detector).fit(X)
    store = make_store(tmp_path, X)
    streamed = sf.StreamDetector(detector).fit(store)
    assert streamed.method_.name == "exact"
    np.testing.assert_array_equal(streamed.decision_scores_.compute(), reference.decision_scores_)
    assert streamed.threshold_ == reference.threshold_
    np.testing.assert_array_equal(streamed.labels_.compute(), reference.labels_)
    new = X[::7] + 1 if X.dtype.kind == "f" else X[::7]
    np.testing.assert_array_equal(streamed.decision_function(new), reference.decision_function(new))
    np.testing.assert_array_equal(streamed.predict(new), reference.predict(new))
    for method in ("linear", "unify"):
        np.testing.assert_allclose(
            streamed.predict_proba(new, method), reference.predict_proba(new, method), rtol=1e-9, atol=1e-12
        )
    # The filled-in object works on its own.
    np.testing.assert_array_equal(streamed.detector_.predict(new), reference.predict(new))
    assert not hasattr(detector, "hist_")


@pytest.mark.parametrize("X", DATA)
@pytest.mark.parametrize("method", ["largest", "mean", "median"])
def test_knn_equals_pyod_and_float64(tmp_path, X, method):
    detector = KNN(n_neighbors=5, method=method, contamination=0.05)
    store = make_store(tmp_path, X)
    streamed = sf.StreamDetector(detector).fit(store)
    assert streamed.method_.name == "exact"
    assert streamed.method_.rung == "Equal"
    exact = np.sort(
        np.sqrt(((X[:, None].astype(np.float64) - X[None].astype(np.float64)) ** 2).sum(-1))
        + np.where(np.eye(len(X), dtype=bool), np.inf, 0),
        axis=1,
    )[:, :5]
    truth = {"largest": exact[:, -1], "mean": exact.mean(axis=1), "median": np.median(exact, axis=1)}[method]
    scores = streamed.decision_scores_.compute()
    np.testing.assert_allclose(scores, truth, rtol=1e-6, atol=1e-9 * truth.max())
    assert streamed.threshold_ == np.percentile(scores, 95)
    np.testing.assert_array_equal(streamed.labels_.compute(), (scores > streamed.threshold_).astype(int))
    # PyOD's own distances are off where rows nearly coincide far from the origin; float64 rows are not.
    reference = clone(detector).fit(X.astype(np.float64))
    np.testing.assert_allclose(scores, reference.decision_scores_, rtol=1e-6, atol=1e-9 * truth.max())
    new = X[:40]
    np.testing.assert_allclose(
        streamed.decision_function(new), reference.decision_function(new), rtol=1e-6, atol=1e-9 * truth.max()
    )


def test_a_new_row_s_score_does_not_depend_on_its_batch_mates(tmp_path):
    X = rows()
    for detector in (HBOS(), KNN()):
        streamed = sf.StreamDetector(detector).fit(X)
        new = rows(60, seed=9)
        together = streamed.decision_function(new)
        alone = np.concatenate([streamed.decision_function(new[i : i + 1]) for i in range(len(new))])
        np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("chunk_rows", [1, 64, 1_000, 10_000], ids=lambda n: f"chunks of {n}")
def test_chunking_does_not_change_scores(tmp_path, chunk_rows):
    X = rows(600)
    for detector in (HBOS(), KNN()):
        expected = sf.StreamDetector(detector).fit(X).decision_scores_
        store = make_store(tmp_path, X, chunk_rows, name=f"{type(detector).__name__}.zarr")
        np.testing.assert_array_equal(sf.StreamDetector(detector).fit(store).decision_scores_.compute(), expected)


def test_scores_outlive_the_detector(tmp_path):
    """`StreamDetector(...).fit(store).decision_scores_.compute()` is how people write it."""
    X = rows(300)
    store = make_store(tmp_path, X)
    for detector in (HBOS(), KNN()):
        scores = sf.StreamDetector(detector).fit(store).decision_scores_
        labels = sf.StreamDetector(detector).fit(store).labels_
        new = sf.StreamDetector(detector).fit(X).decision_function(da.from_array(X, chunks=100))
        gc.collect()
        assert len(scores.compute()) == len(labels.compute()) == len(new.compute()) == 300


def test_scratch_is_removed_with_its_last_holder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    detector = sf.StreamDetector(KNN()).fit(rows(300))
    assert len(list(tmp_path.glob("streamfit-*"))) == 1
    copy = deepcopy(detector)
    expected = detector.decision_function(rows(5))
    del detector
    gc.collect()
    np.testing.assert_array_equal(copy.decision_function(rows(5)), expected)
    del copy
    gc.collect()
    assert not list(tmp_path.glob("streamfit-*"))


def test_a_detector_is_pickled_where_its_files_stay(tmp_path):
    X = rows(300)
    store = make_store(tmp_path, X)
    # What the pickle holds is enough: HBOS on numpy data needs no file.
    small = pickle.loads(pickle.dumps(sf.StreamDetector(HBOS()).fit(X)))
    np.testing.assert_array_equal(small.predict(X), HBOS().fit(X).predict(X))
    for detector, source in ((KNN(), X), (HBOS(), store), (IForest(n_estimators=5), store)):
        with pytest.raises(sf.errors.UnsupportedError, match="scratch=folder"):
            pickle.dumps(sf.StreamDetector(detector, method="auto").fit(source))
        kept = sf.StreamDetector(detector, scratch=tmp_path / "kept").fit(source)
        content, expected = pickle.dumps(kept), kept.decision_function(X)
        scores = np.asarray(kept.decision_scores_)
        del kept
        gc.collect()
        again = pickle.loads(content)
        np.testing.assert_array_equal(again.decision_function(X), expected)
        np.testing.assert_array_equal(np.asarray(again.decision_scores_), scores)


def test_a_fit_that_fails_leaves_the_detector_as_it_was():
    detector = sf.StreamDetector(HBOS(n_bins=1))
    with pytest.raises(sf.errors.InvalidParameterError, match="n_bins"):
        detector.fit(rows(100))
    assert not hasattr(detector, "threshold_")


def test_names_are_checked_in_stores_and_behind_paths(tmp_path):
    X = rows(200, 3)
    detector = sf.StreamDetector(HBOS()).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    turned = sf.ingest(pd.DataFrame(X[:, ::-1], columns=["c", "b", "a"]), tmp_path / "turned.zarr")
    other = sf.ingest(pd.DataFrame(X, columns=["a", "c", "d"]), tmp_path / "other.zarr")
    for source in (turned, turned.path):
        np.testing.assert_array_equal(detector.decision_function(source), detector.decision_function(X))
    for source in (other, other.path):
        with pytest.raises(sf.errors.InvalidDataError, match="'b' is missing; 'd' was not there"):
            detector.predict(source)


def test_two_fits_share_a_named_scratch_folder(tmp_path):
    first = sf.StreamDetector(HBOS(), scratch=tmp_path).fit(make_store(tmp_path, rows(300), name="a.zarr"))
    second = sf.StreamDetector(HBOS(), scratch=tmp_path).fit(make_store(tmp_path, rows(300, seed=1), name="b.zarr"))
    assert (first.decision_scores_.compute() != second.decision_scores_.compute()).any()


def test_names_of_an_earlier_fit_are_forgotten():
    X = rows(200, 3)
    detector = sf.StreamDetector(HBOS()).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert detector.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(sf.errors.InvalidDataError, match="'b' is missing; 'd' was not there"):
        detector.predict(pd.DataFrame(X, columns=["a", "c", "d"]))
    assert not hasattr(detector.fit(X), "feature_names_in_")


@pytest.mark.parametrize("detector", [KNN, SGDClassifier(), None, "KNN"], ids=["class", "estimator", "None", "str"])
def test_what_is_no_detector_is_named(detector):
    with pytest.raises(sf.errors.StreamfitError, match=r"PyOD detector|contamination"):
        sf.StreamDetector(detector).fit(rows(100))


@pytest.mark.parametrize("n_neighbors", [0, 2.5, None])
def test_a_wrong_number_of_neighbours_is_named(n_neighbors):
    detector = KNN()
    detector.n_neighbors = n_neighbors
    with pytest.raises(sf.errors.InvalidParameterError, match="n_neighbors"):
        sf.StreamDetector(detector).fit(rows(100))


def test_probabilities_where_scores_hardly_differ():
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    for method in ("linear", "unify"):
        found = sf.StreamDetector(HBOS()).fit(X).predict_proba(X, method)
        np.testing.assert_allclose(found, HBOS().fit(X).predict_proba(X, method), atol=1e-9)


def test_an_interrupt_ends_a_neighbour_search(tmp_path):
    code = """
import numpy as np, streamfit as sf, threading, time
from pyod.models.knn import KNN
sf.StreamDetector(KNN()).fit(np.random.default_rng(0).normal(size=(100, 30)))
X = np.random.default_rng(0).normal(size=(400_000, 30)).astype(np.float32)
print("go", flush=True)
try:
    sf.StreamDetector(KNN()).fit(X)
except KeyboardInterrupt:
    left = [thread.name for thread in threading.enumerate() if "neighbors" in thread.name]
    print("interrupted", left, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "go\n"
    time.sleep(3)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted []\n"
    assert child.returncode == 0


def test_numpy_in_numpy_out_lazy_in_lazy_out(tmp_path):
    X = rows(500)
    in_memory = sf.StreamDetector(HBOS()).fit(X)
    assert isinstance(in_memory.decision_scores_, np.ndarray)
    assert isinstance(in_memory.labels_, np.ndarray)
    lazy = sf.StreamDetector(HBOS()).fit(da.from_array(X, chunks=(100, 2)))
    assert isinstance(lazy.decision_scores_, da.Array)
    assert lazy.decision_scores_.dtype == np.float64
    new = da.from_array(X, chunks=(120, 3))
    scored = lazy.decision_function(new)
    assert isinstance(scored, da.Array)
    np.testing.assert_array_equal(scored.compute(), in_memory.decision_function(X))
    np.testing.assert_array_equal(lazy.predict_proba(new).compute(), in_memory.predict_proba(X))
    unknown = new[new[:, 0] > 0]
    np.testing.assert_array_equal(lazy.predict_proba(unknown).compute(), in_memory.predict_proba(X[X[:, 0] > 0]))
    np.testing.assert_array_equal(
        lazy.decision_function(unknown).compute(), in_memory.decision_function(X[X[:, 0] > 0])
    )


@pytest.mark.parametrize("n", [2, 5], ids=["2 rows", "5 rows"])
def test_knn_needs_more_rows_than_neighbours(n):
    with pytest.raises(sf.errors.InvalidDataError, match="5"):
        sf.StreamDetector(KNN(n_neighbors=5)).fit(rows(n, 3))


def test_one_value_beyond_float32(tmp_path):
    X = rows(400, 3)
    X[7, 1] = 1e39
    streamed = sf.StreamDetector(KNN(n_neighbors=3)).fit(make_store(tmp_path, X))
    scores = streamed.decision_scores_.compute()
    assert np.isfinite(scores).all()
    assert scores.argmax() == 7
    np.testing.assert_allclose(scores, KNN(n_neighbors=3).fit(X).decision_scores_, rtol=1e-6, atol=1e-9 * 1e39)


def test_a_metric_without_an_exact_form_is_named():
    X = rows(300)
    detector = KNN(metric="manhattan")
    with pytest.raises(sf.errors.UnsupportedError, match="manhattan"):
        sf.StreamDetector(detector, method=sf.Exact()).fit(X)
    streamed = sf.StreamDetector(detector).fit(X)
    assert streamed.method_.name == "in_memory"
    np.testing.assert_array_equal(streamed.decision_scores_, clone(detector).fit(X).decision_scores_)


def test_nan_is_refused_by_row_and_column(tmp_path):
    X = rows(300)
    X[41, 2] = np.nan
    with pytest.raises(sf.errors.InvalidDataError, match="41") as caught:
        sf.StreamDetector(HBOS()).fit(X)
    assert caught.value.row == 41
    kept = sf.ingest(X, tmp_path / "kept.zarr", nonfinite="keep")
    with pytest.raises(sf.errors.InvalidDataError, match="not finite"):
        sf.StreamDetector(HBOS()).fit(kept)


def test_auto_fits_in_memory_where_all_rows_fit():
    X = rows()
    streamed = sf.StreamDetector(IForest(random_state=3), memory_limit="200MB").fit(X)
    reference = IForest(random_state=3).fit(X)
    assert streamed.method_.name == "in_memory"
    np.testing.assert_array_equal(streamed.decision_scores_, reference.decision_scores_)
    assert streamed.threshold_ == reference.threshold_


def test_auto_warns_when_it_approximates(tmp_path):
    X = rows(40_000, 40)
    store = make_store(tmp_path, X, 1_000)
    detector = IForest(random_state=0, n_estimators=10)
    with pytest.warns(sf.errors.ApproximationWarning, match="IForest is approximated batch-wise"):
        streamed = sf.StreamDetector(detector, memory_limit="80MB").fit(store)
    assert streamed.method_.name == "batch_wise"
    assert streamed.detector_ is None


@pytest.mark.parametrize("detector", [OCSVM(), KPCA()], ids=["OCSVM", "KPCA"])
def test_auto_refuses_what_needs_all_pairs(tmp_path, detector):
    store = make_store(tmp_path, rows(40_000, 40), 1_000)
    with pytest.raises(sf.errors.UnsupportedError, match="BatchWise"):
        sf.StreamDetector(detector, memory_limit="80MB").fit(store)


def test_limit_too_small_is_refused_with_numbers(tmp_path):
    store = make_store(tmp_path, rows())
    with pytest.raises(sf.errors.BudgetError, match="memory_limit is"):
        sf.StreamDetector(HBOS(), memory_limit="1MB").fit(store)


@pytest.mark.parametrize("contamination", [0, 0.6, "auto"])
def test_contamination_out_of_range_is_named(contamination):
    detector = HBOS()
    detector.contamination = contamination
    with pytest.raises(sf.errors.StreamfitError, match="contamination"):
        sf.StreamDetector(detector).fit(rows(100))


def test_sklearn_manners():
    detector = sf.StreamDetector(KNN(n_neighbors=7), memory_limit="1GB")
    copy = clone(detector)
    assert copy.get_params()["detector__n_neighbors"] == 7
    assert copy.memory_limit == "1GB"
    assert copy.detector is not detector.detector


def test_fitted_scorers_survive_pickling():
    X = rows(500)
    for detector in (HBOS(), KNN()):
        streamed = sf.StreamDetector(detector).fit(X)
        copy = pickle.loads(pickle.dumps(streamed._fitted))
        np.testing.assert_array_equal(copy.score(X), streamed.decision_function(X))


# -- batch-wise ---------------------------------------------------------------------------------------


def test_batch_wise_is_reproducible_and_bounded_to_members(tmp_path):
    X = rows(5_000)
    store = make_store(tmp_path, X, 500)
    options = sf.BatchWise(batch_size=500, epochs=2, max_members=12, members_per_row=4, random_state=5)
    first = sf.StreamDetector(IForest(n_estimators=20), method=options).fit(store)
    again = sf.StreamDetector(IForest(n_estimators=20), method=options).fit(store)
    np.testing.assert_array_equal(first.decision_scores_.compute(), again.decision_scores_.compute())
    assert first.method_.rung == "Approximate"
    assert "12 members" in str(first.method_)
    exact = IForest(n_estimators=100, random_state=0).fit(X).decision_scores_
    assert np.corrcoef(first.decision_scores_.compute(), exact)[0, 1] > 0.9
    new = rows(50, seed=4)
    together = first.decision_function(new)
    alone = np.concatenate([first.decision_function(new[i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_no_row_is_scored_by_a_member_that_trained_on_it():
    from streamfit.detectors.members import draw_members

    rng = np.random.default_rng(0)
    trained = rng.random((1_000, 10)) < 0.3
    drawn = draw_members(trained, sf.BatchWise(members_per_row=3), chunk=0)
    everywhere = trained.all(axis=1)
    assert not (drawn & trained)[~everywhere].any()
    expected = np.minimum(3, (~trained).sum(axis=1))
    np.testing.assert_array_equal(drawn[~everywhere].sum(axis=1), expected[~everywhere])


def test_batch_wise_tail_smaller_than_neighbours_does_not_raise(tmp_path):
    X = rows(3_003, 4)
    store = make_store(tmp_path, X, 400)
    streamed = sf.StreamDetector(KNN(n_neighbors=5), method=sf.BatchWise(batch_size=1_000)).fit(store)
    assert np.isfinite(streamed.decision_scores_.compute()).all()
    assert "3 members" in str(streamed.method_)


def test_one_batch_in_batch_is_pyod_itself():
    X = rows(400)
    method = sf.BatchWise(batch_size=1_000, score="in_batch", calibrate="none")
    streamed = sf.StreamDetector(KNN(), method=method).fit(X)
    # The batch holds the rows in another order, which may move a distance by an ulp.
    np.testing.assert_allclose(streamed.decision_scores_, KNN().fit(X).decision_scores_, rtol=1e-9)


@pytest.mark.parametrize("calibrate", ["zscore", "rank", "none"])
@pytest.mark.parametrize("combine", ["mean", "median", "max"])
def test_all_ways_to_calibrate_and_combine_are_finite(tmp_path, calibrate, combine):
    method = sf.BatchWise(batch_size=300, calibrate=calibrate, combine=combine)
    streamed = sf.StreamDetector(PCA(), method=method).fit(rows(1_500))
    assert np.isfinite(streamed.decision_scores_).all()
    assert np.isfinite(streamed.decision_function(rows(10))).all()


def test_a_batch_that_pyod_refuses_is_named():
    with pytest.raises(sf.errors.InvalidDataError, match="Raise batch_size"):
        sf.StreamDetector(KNN(n_neighbors=50), method=sf.BatchWise(batch_size=20)).fit(rows(200))


def test_detectors_without_a_score_of_a_single_row_are_named(tmp_path):
    X = rows(300)
    streamed = sf.StreamDetector(ECOD()).fit(X)
    np.testing.assert_array_equal(streamed.decision_scores_, ECOD().fit(X).decision_scores_)
    with pytest.raises(sf.errors.UnsupportedError, match="among each other"):
        streamed.predict(X)
    with pytest.raises(sf.errors.UnsupportedError, match="in_batch"):
        sf.StreamDetector(ECOD(), method=sf.BatchWise(batch_size=100)).fit(X)
    method = sf.BatchWise(batch_size=100, score="in_batch")
    assert np.isfinite(sf.StreamDetector(ECOD(), method=method).fit(X).decision_scores_).all()


@pytest.mark.parametrize("name", ["CBLOF", "IForest", "INNE", "KDE", "LODA", "LOF", "OCSVM", "PCA", "Sampling"])
def test_in_memory_scores_are_those_of_single_rows(tmp_path, name):
    module = importlib.import_module(f"pyod.models.{name.lower()}")
    detector, X = getattr(module, name)(), rows(200, 4)
    if "random_state" in detector.get_params():
        detector.set_params(random_state=0)
    streamed = sf.StreamDetector(detector).fit(X)
    # Many chunks on threads, against all rows at once by PyOD.
    store = make_store(tmp_path, X, 7)
    found = streamed.decision_function(store).compute()
    np.testing.assert_allclose(found, streamed.detector_.decision_function(X), rtol=1e-9)


def test_every_registry_entry_loads():
    for entry in registry.entries():
        assert entry.load(sf.Exact()).refusal is not None
