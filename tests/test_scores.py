"""Score aggregates against NumPy and scikit-learn in memory, for any chunking."""

from __future__ import annotations

from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score, roc_auc_score

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError

# Few distinct values, so that ties are common.
scores_with_ties = hnp.arrays(
    np.float64, st.integers(1, 40), elements=st.one_of(st.sampled_from([0.0, 1.0, 2.5, -1.0]), st.floats(-9, 9))
)


@st.composite
def chunked(draw, arrays=scores_with_ties):
    """An array, and the same as a dask array in odd blocks, empty ones among them."""
    values = draw(arrays)
    return values, lazy(values, draw(st.lists(st.integers(0, len(values)), max_size=5)))


def lazy(values, cuts=()):
    bounds = [0, *sorted(cuts), len(values)]
    blocks = [values[start:stop] for start, stop in pairwise(bounds)]
    parts = [da.from_delayed(dask.delayed(block), block.shape, block.dtype) for block in blocks]
    return da.concatenate(parts, allow_unknown_chunksizes=False)


def expected_top(values, k):
    order = np.lexsort((np.arange(len(values)), -values))[:k]
    return order, values[order]


# -- top k -------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(pair=chunked(), k=st.integers(1, 45))
def test_top_k_breaks_ties_by_row_number(pair, k):
    values, blocks = pair
    rows, best = expected_top(values, k)
    for found in (sfs.top_k(values, k), sfs.top_k(blocks, k).compute()):
        np.testing.assert_array_equal(found.rows, rows, strict=True)
        np.testing.assert_array_equal(found.scores, best, strict=True)


def test_top_k_of_many_blocks_in_a_tree():
    values = np.random.default_rng(0).integers(0, 50, size=10_007).astype(np.float64)
    blocks = da.from_array(values, chunks=13)
    lazy_top = sfs.top_k(blocks, 300)
    assert lazy_top.rows.shape == lazy_top.scores.shape == (300,)
    found = lazy_top.compute()
    np.testing.assert_array_equal(found.rows, expected_top(values, 300)[0])
    assert found.scores.dtype == np.float64


def test_top_k_with_infinities():
    top = sfs.top_k(np.array([1.0, np.inf, -np.inf, np.inf]), 4)
    assert top.rows.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("k", [0, -1, 1.5, "x", None, True])
def test_k_below_one(k):
    with pytest.raises(InvalidParameterError, match="k must be an integer of at least 1"):
        sfs.top_k(np.ones(3), k)


# -- ranking -----------------------------------------------------------------------------------------

labelled = scores_with_ties.flatmap(
    lambda values: st.tuples(st.just(values), hnp.arrays(np.int64, len(values), elements=st.integers(0, 1)))
).filter(lambda pair: 0 < pair[1].sum() < len(pair[1]))


@settings(max_examples=30)
@given(
    pair=labelled, cuts=st.lists(st.integers(0, 40), max_size=4), label_cuts=st.lists(st.integers(0, 40), max_size=4)
)
def test_ranking_is_scikit_learns_and_the_same_bits_for_any_chunking(pair, cuts, label_cuts):
    values, truth = pair
    blocks = lazy(values, [min(cut, len(values)) for cut in cuts])
    truth_blocks = lazy(truth, [min(cut, len(values)) for cut in label_cuts])
    for ours, theirs in (
        (sfs.roc_auc, roc_auc_score),
        (sfs.average_precision, average_precision_score),
    ):
        found = ours(truth, values)
        assert isinstance(found, float)
        assert found == pytest.approx(theirs(truth, values), rel=1e-12, abs=1e-15)
        assert ours(truth_blocks, blocks).compute() == found
        assert ours(truth, blocks).compute() == found
        assert ours(truth_blocks, values).compute() == found
        assert ours(truth.astype(bool), values) == found


def test_ranking_of_many_rows():
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=50_000), 2)
    truth = (rng.random(50_000) < 0.3).astype(np.int64)
    blocks = da.from_array(values, chunks=777)
    auc, precision = dask.compute(sfs.roc_auc(truth, blocks), sfs.average_precision(truth, blocks))
    assert auc == pytest.approx(roc_auc_score(truth, values), rel=1e-12)
    assert precision == pytest.approx(average_precision_score(truth, values), rel=1e-12)


def test_ranking_with_infinities():
    truth, values = np.array([1, 0, 1, 0]), np.array([np.inf, np.inf, 1.0, -np.inf])
    assert sfs.roc_auc(truth, values) == (0.5 + 1 + 0 + 1) / 4


@pytest.mark.parametrize("measure", [sfs.roc_auc, sfs.average_precision])
@pytest.mark.parametrize(
    ("truth", "message"),
    [
        pytest.param([0, 0, 0], "one class only \\(0 anomalies, 3 other rows\\)", id="no-anomaly"),
        pytest.param([1, 1, 1], "one class only \\(3 anomalies, 0 other rows\\)", id="anomalies-only"),
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


# -- all together ------------------------------------------------------------------------------------


class Counted:
    """A lazy array that counts how often its blocks are computed."""

    def __init__(self, values, chunk_rows):
        self.reads = 0
        self.array = da.from_array(values, chunks=chunk_rows).map_blocks(self._read, dtype=np.float64, meta=np.empty(0))

    def _read(self, block):
        self.reads += 1
        return block.astype(np.float64)

    def __dask_tokenize__(self):
        return id(self)


def every_aggregate(scores, truth):
    threshold = sfs.threshold(scores, 0.1)
    return {
        "threshold": threshold,
        "flags": sfs.flags(scores, threshold).sum(),
        "top": sfs.top_k(scores, 5),
        "summary": sfs.partition_summary(scores, 1.0),
        "auc": sfs.roc_auc(truth, scores),
        "precision": sfs.average_precision(truth, scores),
    }


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_aggregates_computed_together_read_the_scores_once(scheduler):
    rng = np.random.default_rng(0)
    values, truth = rng.normal(size=400), rng.integers(0, 2, size=400)
    counted = Counted(values, chunk_rows=10)
    aggregates = every_aggregate(counted.array, truth)
    assert counted.reads == 0
    (found,) = dask.compute(aggregates, scheduler=scheduler)
    assert counted.reads == 40
    assert found["threshold"] == np.percentile(values, 90)
    assert found["flags"] == 40
    np.testing.assert_array_equal(found["top"].rows, expected_top(values, 5)[0])
    assert isinstance(found["summary"], pd.DataFrame)
    assert len(found["summary"]) == 40
    assert found["auc"] == sfs.roc_auc(truth, values)
    assert found["precision"] == sfs.average_precision(truth, values)


def test_a_table_persists():
    table = sfs.partition_summary(da.arange(10, chunks=5))
    assert repr(table).startswith("LazyTable(2 rows: first_row, count")
    (kept,) = dask.persist(table)
    pd.testing.assert_frame_equal(kept.compute(), table.compute())


NAN_IN_ROW_5 = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan, np.nan])
AGGREGATES = [
    pytest.param(lambda scores: sfs.threshold(scores, 0.1), id="threshold"),
    pytest.param(lambda scores: sfs.flags(scores, 2.0), id="flags"),
    pytest.param(lambda scores: sfs.top_k(scores, 2), id="top_k"),
    pytest.param(lambda scores: sfs.roc_auc(np.arange(len(scores)) % 2, scores), id="roc_auc"),
    pytest.param(lambda scores: sfs.average_precision(np.arange(len(scores)) % 2, scores), id="average_precision"),
]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_nan_is_named_by_its_row(aggregate):
    with pytest.raises(InvalidDataError, match="score of row 5 is NaN") as error:
        aggregate(NAN_IN_ROW_5)
    assert error.value.row == 5
    lazily = aggregate(da.from_array(NAN_IN_ROW_5, chunks=4))
    with pytest.raises(InvalidDataError, match="score of row 5 is NaN"):
        dask.compute(lazily)


@pytest.mark.parametrize("aggregate", [AGGREGATES[0], *AGGREGATES[2:]])
def test_no_scores_are_refused(aggregate):
    for scores in (np.empty(0), da.from_array(np.empty(0), chunks=1)):
        with pytest.raises(InvalidDataError, match=r"of no scores|one class only \(0 anomalies, 0 other"):
            dask.compute(aggregate(scores))


def test_flags_of_no_scores_are_none():
    assert sfs.flags(np.empty(0), 1.0).shape == (0,)
    assert sfs.flags(da.from_array(np.empty(0), chunks=1), 1.0).compute().shape == (0,)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        pytest.param(np.ones((3, 1)), "must have one dimension", id="two-dimensional"),
        pytest.param(np.float64(1), "must have one dimension", id="scalar"),
        pytest.param(np.array(["a"]), "must be real numbers", id="strings"),
        pytest.param(np.array([1j]), "must be real numbers", id="complex"),
        pytest.param(np.ma.array([1.0, 2.0], mask=[0, 1]), "scores is masked in row 1", id="masked"),
        pytest.param(da.arange(6, chunks=2)[da.arange(6, chunks=2) > 2], "compute_chunk_sizes", id="unknown-chunks"),
    ],
)
@pytest.mark.parametrize("aggregate", [*AGGREGATES[:3], pytest.param(sfs.partition_summary, id="partition_summary")])
def test_scores_that_are_refused(aggregate, scores, message):
    with pytest.raises(InvalidDataError, match=message):
        aggregate(scores)


def test_other_number_types_are_widened():
    for dtype in (np.float32, np.int8, np.uint16, bool):
        values = np.array([0, 1, 1, 0]).astype(dtype)
        assert sfs.threshold(values, 0.5) == 0.5
        assert sfs.top_k(da.from_array(values, chunks=3), 1).compute().scores.tolist() == [1.0]
