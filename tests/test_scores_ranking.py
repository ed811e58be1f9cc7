"""Ranking measures against scikit-learn on all rows, in memory and on scratch, for any blocks."""

from __future__ import annotations

import math
from itertools import permutations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from score_cases import FEW_CHUNKS, N_CHUNKS, irregular, on_scratch, score_arrays
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.scores import sorting


@pytest.fixture(params=["memory", "scratch"])
def kept(request, monkeypatch, tmp_path):
    """Runs in memory, or on scratch as those of many rows."""
    if request.param == "scratch":
        on_scratch(monkeypatch)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        yield request.param
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=3_000), 2)
    truth = (values + rng.normal(size=3_000) > 1.5).astype(np.int64)
    weights = rng.random(3_000) * (rng.random(3_000) > 0.1)
    return truth, values, weights


# -- equal to scikit-learn, for any chunking ---------------------------------------------------------


@settings(max_examples=15)
@given(data=st.data(), values=score_arrays(least=2))
def test_auc_and_average_precision_are_scikit_learns_and_the_same_bits_for_any_chunking(data, values):
    truth = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(values), max_size=len(values))))
    assume(0 < truth.sum() < len(truth))
    for ours, theirs in ((sfs.roc_auc, roc_auc_score), (sfs.average_precision, average_precision_score)):
        found = ours(truth, values)
        assert isinstance(found, float)
        assert found == pytest.approx(theirs(truth, values), rel=1e-12, abs=1e-15)
        for n_chunks in FEW_CHUNKS:
            assert ours(irregular(truth, n_chunks, 1), irregular(values, n_chunks)).compute() == found
        assert ours(truth, irregular(values, 7)).compute() == found
        assert ours(irregular(truth, 7), values).compute() == found
        assert ours(truth.astype(bool), values) == found


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_measures_of_many_rows(rows, n_chunks):
    truth, values, weights = rows
    labels, scores, sample_weight = (irregular(array, n_chunks, 3) for array in rows)
    found = dask.compute(
        sfs.roc_auc(labels, scores),
        sfs.average_precision(labels, scores),
        sfs.roc_auc(labels, scores, sample_weight=sample_weight),
        sfs.average_precision(labels, scores, sample_weight=sample_weight),
    )
    expected = [
        roc_auc_score(truth, values),
        average_precision_score(truth, values),
        roc_auc_score(truth, values, sample_weight=weights),
        average_precision_score(truth, values, sample_weight=weights),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found[0] == sfs.roc_auc(truth, values)
    assert found[1] == sfs.average_precision(truth, values)


@pytest.mark.usefixtures("kept")
def test_one_score_for_most_rows(monkeypatch):
    # More of them than are read at a time: they are counted where they lie.
    for module in ("streamfit.maths.ranked_values.distinct_values", "streamfit.maths.sorted_runs.key_ranges"):
        place, name = module.rsplit(".", 1)
        function = getattr(__import__(place, fromlist=[name]), name)
        monkeypatch.setitem(function.__kwdefaults__, "most_values", 40)
    rng = np.random.default_rng(1)
    values = np.where(rng.random(2_000) < 0.9, 0.5, rng.normal(size=2_000))
    truth, weights = (rng.random(2_000) < 0.2).astype(int), rng.random(2_000)
    for sample_weight in (None, weights):
        found = dask.compute(
            sfs.roc_auc(truth, irregular(values, 7), sample_weight=sample_weight),
            sfs.average_precision(truth, irregular(values, 7), sample_weight=sample_weight),
        )
        expected = [
            measure(truth, values, sample_weight=sample_weight) for measure in (roc_auc_score, average_precision_score)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_infinite_scores_are_ordered_like_numbers():
    truth, values = np.array([1, 0, 1, 0]), np.array([np.inf, np.inf, 1.0, -np.inf])
    assert sfs.roc_auc(truth, values) == (0.5 + 1 + 0 + 1) / 4
    assert sfs.roc_auc(truth, irregular(values, 7)).compute() == (0.5 + 1 + 0 + 1) / 4


# -- at k --------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=6),
    k=st.integers(1, 8),
)
def test_precision_at_k_is_the_mean_over_all_orders_of_tied_rows(pairs, k):
    truth, values = (np.array(column) for column in zip(*pairs, strict=True))
    first = [
        [truth[row] for row in sorted(order, key=lambda row: -values[row])][:k]
        for order in permutations(range(len(values)))
    ]
    expected = np.mean([np.mean(labels) for labels in first])
    for n_chunks in FEW_CHUNKS:
        found = sfs.precision_at_k(irregular(truth, n_chunks), irregular(values, n_chunks), k).compute()
        assert found == pytest.approx(expected, rel=1e-12)
    if truth.sum():
        assert sfs.recall_at_k(truth, values, k) == pytest.approx(expected * min(k, len(values)) / truth.sum())
        assert sfs.lift(truth, values, k) == pytest.approx(expected / truth.mean())


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("k", [1, 17, 3_000, 9_999])
def test_measures_at_k_of_distinct_scores(k):
    rng = np.random.default_rng(5)
    values, truth = rng.permutation(3_000).astype(float), rng.integers(0, 2, 3_000)
    hits = truth[np.argsort(-values)[:k]]
    scores = irregular(values, 20)
    precision, recall, lift = dask.compute(
        sfs.precision_at_k(truth, scores, k), sfs.recall_at_k(truth, scores, k), sfs.lift(truth, scores, k)
    )
    assert precision == hits.mean()
    assert recall == pytest.approx(hits.sum() / truth.sum(), rel=1e-15)
    assert lift == pytest.approx(hits.mean() / truth.mean(), rel=1e-15)


@pytest.mark.parametrize("k", [0, -1, 1.5, "x", None, True])
@pytest.mark.parametrize("measure", [sfs.precision_at_k, sfs.recall_at_k, sfs.lift])
def test_k_that_is_refused(measure, k):
    with pytest.raises(InvalidParameterError, match="k must be an integer of at least 1"):
        measure([0, 1], [0.0, 1.0], k)


# -- confusion ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("n_chunks", "threshold"), [(1, 0.5), (7, -9.0), (20, 0.5)])
def test_confusion_matrix_is_scikit_learns(rows, n_chunks, threshold):
    truth, values, weights = rows
    labels, scores, sample_weight = (irregular(array, n_chunks) for array in rows)
    later = da.from_array(np.array(threshold))
    counted = confusion_matrix(truth, values > threshold, labels=[0, 1])
    weighed = confusion_matrix(truth, values > threshold, labels=[0, 1], sample_weight=weights)
    for cut in (threshold, later):
        found = sfs.confusion_matrix(labels, scores, cut).compute()
        np.testing.assert_array_equal(found, counted)
        assert found.dtype == np.int64
        found = sfs.confusion_matrix(labels, scores, cut, sample_weight=sample_weight).compute()
        np.testing.assert_allclose(found, weighed, rtol=1e-12)
    np.testing.assert_array_equal(sfs.confusion_matrix(truth, values, threshold), counted)


def test_confusion_of_one_class_has_a_row_of_zeros():
    assert sfs.confusion_matrix([0, 0], [1.0, 3.0], 2.0).tolist() == [[1, 1], [0, 0]]


# -- missing labels, one class, weights --------------------------------------------------------------


@pytest.mark.usefixtures("kept")
def test_rows_without_a_label_are_left_out_where_that_is_asked_for(rows):
    truth, values, weights = rows
    known = np.random.default_rng(2).random(len(truth)) < 0.3
    partly = np.where(known, truth, np.nan)
    labels, scores = irregular(partly, 7), irregular(values, 7)
    found = dask.compute(
        sfs.roc_auc(labels, scores, missing="drop"),
        sfs.average_precision(labels, scores, missing="drop", sample_weight=weights),
        sfs.precision_at_k(labels, scores, 50, missing="drop"),
    )
    assert found[0] == pytest.approx(roc_auc_score(truth[known], values[known]), rel=1e-12)
    expected = average_precision_score(truth[known], values[known], sample_weight=weights[known])
    assert found[1] == pytest.approx(expected, rel=1e-12)
    assert found[2] == sfs.precision_at_k(truth[known], values[known], 50)
    counted = sfs.confusion_matrix(labels, scores, 0.5, missing="drop").compute()
    np.testing.assert_array_equal(counted, confusion_matrix(truth[known], values[known] > 0.5))
    with pytest.raises(InvalidDataError, match=r'is nan.*missing="drop"'):
        sfs.roc_auc(labels, scores).compute()


ONE_CLASS = [sfs.roc_auc, sfs.average_precision, lambda *pair, **how: sfs.recall_at_k(*pair, 1, **how)]


@pytest.mark.parametrize("measure", [*ONE_CLASS, lambda *pair, **how: sfs.lift(*pair, 1, **how)])
def test_no_anomalies_are_an_error_or_the_number_that_was_asked_for(measure):
    values, truth = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    for labels, scores in ((truth, values), (truth, da.from_array(values, chunks=2))):
        with pytest.raises(InvalidDataError, match=r"one class only \(0 anomalies, 3 other rows\).*undefined=math.nan"):
            float(measure(labels, scores))
        assert math.isnan(measure(labels, scores, undefined=math.nan))
        assert measure(labels, scores, undefined=-1) == -1


@pytest.mark.parametrize("measure", ONE_CLASS[:2])
def test_anomalies_only(measure):
    with pytest.raises(InvalidDataError, match=r"one class only \(2 anomalies, 0 other rows\)"):
        measure([1, 1], [1.0, 2.0])
    assert measure([1, 1], [1.0, 2.0], undefined=0) == 0


def test_no_row_at_all_has_a_label():
    labels, values = np.full(3, np.nan), np.arange(3.0)
    assert math.isnan(sfs.roc_auc(labels, values, missing="drop", undefined=math.nan))
    with pytest.raises(InvalidDataError, match="No row has a label"):
        sfs.precision_at_k(labels, values, 1, missing="drop")
    assert sfs.confusion_matrix(labels, values, 1.0, missing="drop").sum() == 0


def test_a_class_without_weight_is_named():
    with pytest.raises(InvalidDataError, match="weights of one class add up to 0"):
        sfs.roc_auc([0, 1], [0.0, 1.0], sample_weight=[1.0, 0.0])


@pytest.mark.parametrize("how", [{"missing": "ignore"}, {"undefined": "nan"}, {"undefined": None}, {"undefined": True}])
def test_policies_that_are_refused(how):
    with pytest.raises(InvalidParameterError, match=next(iter(how))):
        sfs.roc_auc([0, 1], [0.0, 1.0], **how)


MEASURES = [sfs.roc_auc, sfs.average_precision, lambda *pair, **how: sfs.confusion_matrix(*pair, 0.5, **how)]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("truth", "message"),
    [
        pytest.param([0, 1, 2], "label of row 2 is 2", id="third-class"),
        pytest.param([0.0, np.nan, 1.0], "label of row 1 is nan", id="nan"),
        pytest.param([-1, 1, 1], "label of row 0 is -1", id="scikit-learns-outlier-labels"),
        pytest.param([0, 1], "2 labels and 3 scores", id="lengths-differ"),
        pytest.param(["a", "b", "a"], "labels must be real numbers", id="strings"),
        pytest.param([[0], [1], [1]], "labels must have one dimension", id="two-dimensional"),
    ],
)
def test_labels_that_are_refused(measure, truth, message):
    values = np.array([1.0, 2.0, 3.0])
    with pytest.raises(InvalidDataError, match=message):
        measure(truth, values)
    with pytest.raises(InvalidDataError, match=message):
        measure(truth, da.from_array(values, chunks=2)).compute()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param([1.0, 1.0, -1.0], r"sample_weight of row 2 is -1\.0", id="negative"),
        pytest.param([1.0, np.nan, 1.0], "sample_weight of row 1 is nan", id="nan"),
        pytest.param([1.0, 1.0, np.inf], "sample_weight of row 2 is inf", id="infinite"),
        pytest.param([1.0, 1.0], "2 weights and 3 scores", id="lengths-differ"),
        pytest.param(["a", "b", "c"], "sample_weight must be real numbers", id="strings"),
    ],
)
def test_weights_that_are_refused(measure, weights, message):
    with pytest.raises(InvalidDataError, match=message):
        measure([0, 1, 1], [1.0, 2.0, 3.0], sample_weight=weights)
    with pytest.raises(InvalidDataError, match=message):
        measure([0, 1, 1], da.from_array(np.arange(3.0), chunks=2), sample_weight=weights).compute()


# -- lazy --------------------------------------------------------------------------------------------


def test_building_runs_nothing_and_rows_are_sorted_once_for_all_measures(monkeypatch, tmp_path):
    monkeypatch.setattr(sorting, "HELD_NBYTES", 0)
    read, sorts = [], []
    values, truth = np.random.default_rng(0).normal(size=100), np.arange(100) % 2
    scores = da.from_array(values, chunks=10).map_blocks(lambda block: read.append(1) or block, meta=np.empty(0))
    sort = sorting._run
    monkeypatch.setattr(sorting, "_run", lambda *given: sorts.append(1) or sort(*given))
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        lazy = [
            sfs.roc_auc(truth, scores),
            sfs.average_precision(truth, scores),
            sfs.precision_at_k(truth, scores, 5),
            sfs.recall_at_k(truth, scores, 5),
            sfs.lift(truth, scores, 5),
        ]
        assert not read
        assert not list(tmp_path.iterdir())
        dask.compute(*lazy)
        assert len(read) == 10
        assert len(sorts) == 20  # two classes a block
        assert not [file for folder in tmp_path.iterdir() for file in folder.iterdir()]
        del lazy
    assert not list(tmp_path.iterdir())


def test_scratch_goes_when_a_measure_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(sorting, "HELD_NBYTES", 0)
    scores = da.from_array(np.append(np.arange(50.0), np.nan), chunks=10)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        measure = sfs.roc_auc(np.arange(51) % 2, scores)
        with pytest.raises(InvalidDataError, match="row 50"):
            measure.compute(scheduler="synchronous")
        del measure
    assert not [file for folder in tmp_path.iterdir() for file in folder.iterdir()]
