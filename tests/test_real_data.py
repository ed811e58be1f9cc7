"""The two data sets that the package was written for, against truth computed another way."""

from __future__ import annotations

import time
from pathlib import Path

import numba
import numpy as np
import pytest
from pyod.models.hbos import HBOS
from pyod.models.knn import KNN
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

import streamfit as sf
from streamfit.demo.data import load_npz, load_triples

DATA = Path(__file__).parents[2] / "shared" / "data"

pytestmark = pytest.mark.slow


def data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {name}, which is not shipped: see its source in the documentation of ADBench or WN18RR")
    return path


@numba.njit(parallel=True, fastmath={"reassoc", "contract"})  # sums may be reordered, so that they are vectorised
def kth_distance(X, k):
    """Brute force: float64 sums of squared differences of all pairs, and the k-th smallest of each row."""
    n, d = X.shape
    out = np.empty(n)
    for i in numba.prange(n):
        best = np.full(k, np.inf)
        for j in range(n):
            if i != j:
                total = 0.0
                for f in range(d):
                    delta = X[i, f] - X[j, f]
                    total += delta * delta
                if total < best[k - 1]:
                    p = k - 1
                    while p > 0 and best[p - 1] > total:
                        best[p] = best[p - 1]
                        p -= 1
                    best[p] = total
        out[i] = np.sqrt(best[k - 1])
    return out


def timed(function):
    cpu, wall = time.process_time(), time.perf_counter()
    result = function()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def test_wn18rr_knn_equals_float64_truth_and_pyod(tmp_path):
    rows = load_triples(data("wn18rr"))
    assert rows.X.shape == (93_003, 100)
    store = sf.ingest(rows.X, tmp_path / "wn18rr.zarr", y=rows.y)
    detector = KNN(n_neighbors=5, contamination=0.05)
    sf.StreamDetector(detector).fit(rows.X[:200])  # imports and compilation
    streamed, cpu, wall = timed(lambda: sf.StreamDetector(detector, memory_limit="256MB").fit(store))
    scores, labels = streamed.decision_scores_.compute(), streamed.labels_.compute()
    pyod, pyod_cpu, pyod_wall = timed(lambda: KNN(n_neighbors=5, contamination=0.05).fit(rows.X))
    truth = kth_distance(rows.X.astype(np.float64), 5)

    tolerance = 1e-6 * truth + 1e-9 * truth.max()
    off = np.abs(pyod.decision_scores_ - truth) > tolerance
    near = np.abs(truth - streamed.threshold_) <= tolerance
    differ = labels != pyod.labels_
    print(f"\nWN18RR {rows.X.shape}, KNN(n_neighbors=5, contamination=0.05), {streamed.method_}")
    print(f"  streamfit - truth: {np.abs(scores - truth).max():.2e} at most, relative {relative(scores, truth):.2e}")
    print(f"  PyOD - truth: {np.abs(pyod.decision_scores_ - truth).max():.2e} at most, {off.sum()} rows off tolerance")
    for row in np.flatnonzero(off)[:5]:
        print(f"    row {row}: truth {truth[row]!r}, streamfit {scores[row]!r}, PyOD {pyod.decision_scores_[row]!r}")
    print(f"  labels: {differ.sum()} differ from PyOD, {near.sum()} rows within tolerance of the threshold")
    print(f"  AUC {roc_auc_score(rows.y, scores):.4f}, AP {average_precision_score(rows.y, scores):.4f}")
    print(f"  CPU s {cpu:.1f} (wall {wall:.1f}) against PyOD {pyod_cpu:.1f} (wall {pyod_wall:.1f})")

    assert (np.abs(scores - truth) <= tolerance).all()
    assert (np.abs(scores - pyod.decision_scores_)[~off] <= 2 * tolerance[~off]).all()
    assert not (differ & ~near & ~off).any()
    assert round(roc_auc_score(rows.y, scores), 4) == 0.9979
    assert round(average_precision_score(rows.y, scores), 3) == 0.977


def relative(a, b):
    return np.max(np.abs(a - b) / np.where(b == 0, 1, b))


def test_http_hbos_equals_pyod_where_a_fit_a_batch_does_not(tmp_path):
    rows = load_npz(data("adbench/16_http.npz"))
    assert rows.X.shape == (567_498, 3)
    store = sf.ingest(data("adbench/16_http.npz"), tmp_path / "http.zarr", chunk_rows=10_000)
    streamed = sf.StreamDetector(HBOS(), memory_limit="200MB").fit(store)
    scores = streamed.decision_scores_.compute()
    pyod = HBOS().fit(rows.X)
    batches = [HBOS().fit(rows.X[i : i + 10_000]).decision_scores_ for i in range(0, len(rows.X), 10_000)]
    auc, auc_batches = roc_auc_score(rows.y, scores), roc_auc_score(rows.y, np.concatenate(batches))
    print(f"\nhttp {rows.X.shape}, HBOS: relative difference to PyOD {relative(scores, pyod.decision_scores_):.2e},")
    print(f"  AUC {auc:.4f}, a fit per 10,000 rows pooled {auc_batches:.4f}")
    np.testing.assert_allclose(scores, pyod.decision_scores_, rtol=1e-9)
    np.testing.assert_array_equal(streamed.labels_.compute(), pyod.labels_)
    assert streamed.threshold_ == pyod.threshold_
    assert round(auc, 4) == 0.9938
    assert round(auc_batches, 4) == 0.9549


def test_http_trains_in_row_order_without_naming_classes(tmp_path):
    rows = load_npz(data("adbench/16_http.npz"))
    first_anomaly = int(np.flatnonzero(rows.y)[0])
    assert first_anomaly == 201_669
    store = sf.ingest(rows.X, tmp_path / "http.zarr", y=rows.y, chunk_rows=10_000)
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=10_000, shuffle=False).fit(store)
    by_hand = SGDClassifier(random_state=0)
    for start in range(0, len(rows.X), 10_000):
        stop = start + 10_000
        by_hand.partial_fit(rows.X[start:stop], rows.y[start:stop], classes=[0, 1])
    np.testing.assert_array_equal(trainer.classes_, [0, 1])
    np.testing.assert_array_equal(trainer.estimator_.coef_, by_hand.coef_)
    np.testing.assert_array_equal(trainer.estimator_.intercept_, by_hand.intercept_)
    print(f"\nhttp in row order: first anomaly at row {first_anomaly}, coef_ {trainer.estimator_.coef_.ravel()}")
