"""Calibrated probabilities against PyOD and scikit-learn on all rows, for any blocks."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyod.models.hbos import HBOS
from score_cases import FEW_CHUNKS, N_CHUNKS, irregular, score_arrays
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import SGDClassifier

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.scores import sorting


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=2_000), 2)
    truth = (values + rng.normal(size=2_000) > 1.5).astype(np.int64)
    return values, truth, rng.random(2_000) * (rng.random(2_000) > 0.1)


@pytest.mark.parametrize("method", ["linear", "unify"])
@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_methods_without_labels_are_pyods(method, n_chunks):
    X = np.random.default_rng(0).normal(size=(500, 3))
    detector = HBOS().fit(X)
    scores = irregular(detector.decision_scores_, n_chunks)
    curve = sfs.calibrate(scores, method=method)
    new = np.random.default_rng(1).normal(size=(50, 3)) * 2
    expected = detector.predict_proba(new, method=method)[:, 1]
    found = curve.transform(irregular(detector.decision_function(new), 7))
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(curve.compute().transform(detector.decision_function(new)), expected, rtol=1e-9)


@settings(max_examples=25)
@given(data=st.data(), values=score_arrays(least=2))
def test_isotonic_is_scikit_learns_for_any_chunking(data, values):
    truth = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(values), max_size=len(values))))
    assume(0 < truth.sum() < len(truth))
    # scikit-learn takes scores for one that differ by less than 1e-15.
    values = np.where(np.abs(values) < 1e-9, 0.0, values)
    expected = IsotonicRegression(out_of_bounds="clip").fit(values, truth)
    asked = np.concatenate([values, values + 0.5, [-1e9, 1e9]])
    for n_chunks in FEW_CHUNKS:
        curve = (
            sfs.calibrate(irregular(values, n_chunks), irregular(truth, n_chunks), method="isotonic").compute().curve
        )
        np.testing.assert_allclose(curve(asked), expected.predict(asked), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("where", ["memory", "scratch"])
@pytest.mark.parametrize("most_values", [50, 1 << 20])
def test_isotonic_with_weights_in_many_pieces(rows, where, most_values, monkeypatch):
    values, truth, weights = rows
    if where == "scratch":
        monkeypatch.setattr(sorting, "HELD_NBYTES", 0)
    monkeypatch.setitem(sfs.calibration.distinct_values.__kwdefaults__, "most_values", most_values)
    expected = IsotonicRegression(out_of_bounds="clip").fit(values, truth, weights)
    found = sfs.calibrate(irregular(values, 7), truth, method="isotonic", sample_weight=irregular(weights, 100))
    curve = found.compute().curve
    np.testing.assert_allclose(curve.thresholds, expected.X_thresholds_)
    np.testing.assert_allclose(curve.probabilities, expected.y_thresholds_, rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_sigmoid_is_the_optimum_that_scikit_learn_approaches(n_chunks, offset):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2_000, 2))
    truth = (X[:, 0] + rng.normal(size=2_000) > 1).astype(int)
    model = SGDClassifier(random_state=0).fit(X, truth)
    values = model.decision_function(X)
    expected = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid", ensemble=False).fit(X, truth)
    # A shift of all scores shifts the curve.
    curve = sfs.calibrate(irregular(values + offset, n_chunks), truth, method="sigmoid")
    np.testing.assert_allclose(
        curve.transform(values + offset).compute(), expected.predict_proba(X)[:, 1], rtol=1e-5 if offset else 1e-6
    )


def test_equal_scores_have_the_share_of_anomalies():
    scores, truth = np.full(10, 3.0), np.arange(10) < 2
    assert sfs.calibrate(scores, truth, method="isotonic").transform([3.0]).tolist() == [0.2]
    # Platt's targets lie a little within 0 and 1.
    expected = (2 * 3 / 4 + 8 * 1 / 10) / 10
    assert sfs.calibrate(scores, truth, method="sigmoid").transform([3.0])[0] == pytest.approx(expected, rel=1e-6)
    assert sfs.calibrate(scores, method="linear").transform([3.0]).tolist() == [0.0]


def test_building_runs_nothing_and_a_curve_is_computed_with_other_aggregates(rows):
    values, truth, _ = rows
    read = []
    scores = da.from_array(values, chunks=500).map_blocks(lambda block: read.append(1) or block, meta=np.empty(0))
    curve = sfs.calibrate(scores, truth, method="isotonic")
    probabilities = curve.transform(scores)
    assert not read
    assert probabilities.chunks == scores.chunks
    fitted, auc, found = dask.compute(curve, sfs.roc_auc(truth, scores), probabilities)
    assert len(read) == 4
    np.testing.assert_array_equal(found, fitted.transform(values))
    assert auc == sfs.roc_auc(truth, values)


def test_rows_without_a_label_are_left_out(rows):
    values, truth, _ = rows
    partly = np.where(np.arange(2_000) % 3 == 0, truth, np.nan)
    found = sfs.calibrate(values, partly, method="isotonic", missing="drop").curve
    expected = sfs.calibrate(values[::3], truth[::3], method="isotonic").curve
    np.testing.assert_array_equal(found.thresholds, expected.thresholds)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        pytest.param({"method": "platt"}, "method", id="unknown"),
        pytest.param({"method": "isotonic"}, "needs labels", id="no-labels"),
        pytest.param({"method": "unify", "labels": [0, 1, 1]}, "uses neither labels nor weights", id="useless-labels"),
        pytest.param({"method": "linear", "sample_weight": [1, 1, 1]}, "uses neither", id="useless-weights"),
        pytest.param({"method": "linear", "missing": "x"}, "missing", id="missing"),
    ],
)
def test_parameters_that_are_refused(how, message):
    with pytest.raises(InvalidParameterError, match=message):
        sfs.calibrate([0.0, 1.0, 2.0], **how)


@pytest.mark.parametrize("method", ["linear", "unify", "sigmoid", "isotonic"])
def test_infinite_scores_are_refused_where_they_have_no_place(method):
    labels = {"labels": [0, 1, 1]} if method in ("sigmoid", "isotonic") else {}
    with pytest.raises(InvalidDataError, match="score of row 1 is inf"):
        sfs.calibrate([0.0, np.inf, 1.0], method=method, **labels)
    with pytest.raises(InvalidDataError, match="score of row 1 is inf"):
        sfs.calibrate(da.from_array(np.array([0.0, np.inf, 1.0]), chunks=2), method=method, **labels).compute()


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_one_class_is_refused(method):
    with pytest.raises(InvalidDataError, match=r"one class only \(0 anomalies, 2 other rows\)"):
        sfs.calibrate([0.0, 1.0], [0, 0], method=method)


@pytest.mark.parametrize("method", ["linear", "unify"])
def test_no_scores_are_refused(method):
    with pytest.raises(InvalidDataError, match="calibration of no scores"):
        sfs.calibrate([], method=method)


@pytest.mark.parametrize("method", ["linear", "unify", "sigmoid", "isotonic"])
@pytest.mark.parametrize(
    "values",
    [pytest.param([-1.7e308, 0.0, 1.7e308], id="too-wide"), pytest.param([0.0, 5e-324, 1e-323], id="too-narrow")],
)
def test_scores_that_float64_holds_no_curve_over(method, values):
    supervised = method in ("sigmoid", "isotonic")
    labels = {"labels": [0, 1, 1]} if supervised else {}
    for scores in (np.array(values), da.from_array(np.array(values), chunks=1)):
        if supervised or values[0] < 0:
            with pytest.raises(InvalidDataError, match="scores reach from"):
                sfs.calibrate(scores, method=method, **labels).compute()
        else:
            found = sfs.calibrate(scores, method=method).transform(scores)
            assert np.isfinite(np.asarray(found)).all()


@pytest.mark.parametrize("method", ["linear", "unify", "sigmoid", "isotonic"])
def test_new_scores_may_be_infinite(method, rows):
    values, truth, _ = rows
    labels = {"labels": truth} if method in ("sigmoid", "isotonic") else {}
    low, high = sfs.calibrate(values, method=method, **labels).transform([-np.inf, np.inf])
    assert 0 <= low < high <= 1
