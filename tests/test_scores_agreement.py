"""Ranks, their correlation, overlaps and combinations against scipy and PyOD on all rows, for any blocks."""

from __future__ import annotations

import math
import re

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyod.utils.utility import standardizer
from scipy.stats import rankdata, spearmanr
from score_cases import FEW_CHUNKS, irregular, lazy, on_scratch, score_arrays
from sklearn.utils import shuffle

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.scores import rank_agreement


@pytest.fixture(params=["memory", "scratch"])
def kept(request, monkeypatch, tmp_path):
    if request.param == "scratch":
        on_scratch(monkeypatch)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        yield request.param
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    first = np.round(rng.normal(size=1_500), 2)
    return [first, np.round(first + rng.normal(size=1_500), 2), -np.round(rng.exponential(size=1_500), 3)]


# -- ranks -------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(values=score_arrays())
def test_ranks_are_scipys_for_any_chunking(values):
    expected = rankdata(values)
    np.testing.assert_array_equal(sfs.ranks(values), expected, strict=True)
    for n_chunks in FEW_CHUNKS:
        blocks = irregular(values, n_chunks)
        found = sfs.ranks(blocks)
        assert found.chunks == blocks.chunks
        np.testing.assert_array_equal(found.compute(), expected, strict=True)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("n_chunks", "most_values"), [(1, 40), (7, 40), (7, 1 << 20), (100, 1 << 20)])
def test_ranks_of_many_rows_in_pieces(three, n_chunks, most_values, monkeypatch):
    monkeypatch.setitem(rank_agreement.rank_pieces.__kwdefaults__, "most_values", most_values)
    frequent = np.where(np.arange(1_500) % 3 == 0, three[0], 0.5)
    for values in (three[1], frequent):
        np.testing.assert_array_equal(sfs.ranks(irregular(values, n_chunks)).compute(), rankdata(values))
        np.testing.assert_array_equal(sfs.ranks(values), rankdata(values))


def test_ranks_of_no_rows_are_none():
    assert sfs.ranks([]).shape == (0,)
    assert sfs.ranks(da.empty(0)).compute().shape == (0,)


# -- agreement ---------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(data=st.data(), first=score_arrays(least=2))
def test_rank_correlation_is_spearmans(data, first):
    second = np.array(data.draw(st.lists(st.floats(-9, 9), min_size=len(first), max_size=len(first))))
    constant = np.ptp(rankdata(first)) == 0 or np.ptp(rankdata(second)) == 0
    if constant:
        assert math.isnan(sfs.rank_correlation(first, second, undefined=math.nan))
        return
    expected = spearmanr(first, second).statistic
    assert sfs.rank_correlation(first, second) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for n_chunks in FEW_CHUNKS:
        blocks = irregular(first, n_chunks), irregular(second, n_chunks, 1)
        assert sfs.rank_correlation(*blocks).compute() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("n_chunks", FEW_CHUNKS)
def test_agreement_of_three_detectors(three, n_chunks):
    names = ["HBOS", "KNN", "ECOD"]
    blocks = {
        name: irregular(values, n_chunks, seed) for seed, (name, values) in enumerate(zip(names, three, strict=True))
    }
    expected = spearmanr(np.stack(three, axis=1)).statistic
    found = sfs.agreement(blocks).compute()
    assert list(found.columns) == list(found.index) == names
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(sfs.agreement(dict(zip(names, three, strict=True))).to_numpy(), expected, rtol=1e-9)


def test_equal_scores_order_nothing():
    same, other = np.ones(4), np.arange(4.0)
    with pytest.raises(InvalidDataError, match="All scores of 'second' are equal"):
        sfs.rank_correlation(other, same)
    with pytest.raises(InvalidDataError, match="All scores of 'b' are equal"):
        sfs.agreement({"a": other, "b": da.from_array(same, chunks=2)}).compute()
    table = sfs.agreement({"a": other, "b": same}, undefined=0)
    assert table.to_numpy().tolist() == [[1, 0], [0, 0]]


def test_names_of_detectors_are_distinct_texts():
    for names in ((1, "1"), ("", "b")):
        with pytest.raises(InvalidParameterError, match="distinct texts"):
            sfs.agreement({name: np.arange(3.0) for name in names})


def test_a_table_is_its_columns():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0]})
    columns = {name: table[name].to_numpy() for name in table}
    pd.testing.assert_frame_equal(sfs.agreement(table), sfs.agreement(columns))
    for scores in (table, columns, iter(columns.values())):
        np.testing.assert_array_equal(sfs.combine(scores), sfs.combine(list(columns.values())), strict=True)


@pytest.mark.parametrize("n_chunks", FEW_CHUNKS)
@pytest.mark.parametrize("k", [1, 100, 9_999])
def test_overlap_at_k(three, n_chunks, k):
    first, second = three[:2]
    tops = [set(np.lexsort((np.arange(1_500), -values))[:k].tolist()) for values in (first, second)]
    expected = len(tops[0] & tops[1]) / min(k, 1_500)
    assert sfs.overlap_at_k(first, second, k) == expected
    assert sfs.overlap_at_k(irregular(first, n_chunks), irregular(second, 7), k).compute() == expected
    assert sfs.overlap_at_k(first, irregular(second, n_chunks), k).compute() == expected


def test_detectors_of_other_rows_are_refused():
    with pytest.raises(InvalidDataError, match="3 scores of 'second' and 2 of 'first'"):
        sfs.rank_correlation([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InvalidDataError, match="agreement of no scores"):
        sfs.rank_correlation([], [])
    for nothing in ({}, [np.ones(3)]):
        with pytest.raises(InvalidParameterError, match="must be a mapping"):
            sfs.agreement(nothing)


# -- combination -------------------------------------------------------------------------------------


def bucketed(matrix, method, n_buckets, seed):
    """What combo's aom and moa do, row by row; compared with combo 0.1.3 by hand."""
    buckets = np.split(np.array(shuffle(list(range(matrix.shape[1])), random_state=seed)), n_buckets)
    inner, outer = (np.max, np.mean) if method == "aom" else (np.mean, np.max)
    return np.array([outer([inner(row[bucket]) for bucket in buckets]) for row in matrix])


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("n_chunks", FEW_CHUNKS)
def test_combinations_are_pyods_on_the_whole_matrix(three, n_chunks):
    columns = [*three, np.full(1_500, 2.0)]
    matrix = standardizer(np.stack(columns, axis=1))
    blocks = [irregular(values, n_chunks, seed) for seed, values in enumerate(columns)]
    weights = [1, 2, 3, 4]
    cases = [
        ({"method": "average"}, matrix.mean(axis=1)),
        ({"method": "average", "weights": weights}, np.average(matrix, axis=1, weights=weights)),
        ({"method": "maximum"}, matrix.max(axis=1)),
        ({"method": "median"}, np.median(matrix, axis=1)),
        ({"method": "aom", "n_buckets": 2, "random_state": 0}, bucketed(matrix, "aom", 2, 0)),
        ({"method": "moa", "n_buckets": 2, "random_state": 0}, bucketed(matrix, "moa", 2, 0)),
    ]
    found = dask.compute(*[sfs.combine(blocks, **how) for how, _ in cases])
    for (how, expected), combined in zip(cases, found, strict=True):
        np.testing.assert_allclose(combined, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(sfs.combine(columns, **how), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("kept")
def test_other_scales(three):
    blocks = [irregular(values, 7) for values in three]
    by_rank, unified, raw = dask.compute(
        sfs.combine(blocks, standardize="rank"),
        sfs.combine(blocks, standardize="unify", method="maximum"),
        sfs.combine(blocks, standardize=None),
    )
    np.testing.assert_allclose(by_rank, np.mean([rankdata(values) for values in three], axis=0) / 1_500)
    expected = np.max([sfs.calibrate(values, method="unify").transform(values) for values in three], axis=0)
    np.testing.assert_allclose(unified, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(raw, np.mean(three, axis=0), rtol=1e-12, atol=1e-12)


def test_scores_are_computed_once_for_their_scale_and_their_combination():
    read = []
    scores = da.from_array(np.arange(40.0), chunks=10).map_blocks(
        lambda block: read.append(1) or block, meta=np.empty(0)
    )
    combined = sfs.combine([scores, scores[::-1]])
    assert not read
    np.testing.assert_allclose(combined.compute(), np.zeros(40), atol=1e-12)
    assert len(read) == 4


@pytest.mark.parametrize(
    ("how", "message"),
    [
        pytest.param({"method": "sum"}, "method", id="method"),
        pytest.param({"standardize": "minmax"}, "standardize", id="standardize"),
        pytest.param({"weights": [1]}, "weights must be one number", id="weights-length"),
        pytest.param({"weights": [1, -1]}, "weights must be one number of at least 0", id="weights-negative"),
        pytest.param({"weights": [0, 0]}, "not all 0", id="weights-nothing"),
        pytest.param({"weights": [1, 1], "method": "median"}, "weights are for", id="weights-useless"),
        pytest.param({"method": "aom", "random_state": 0}, "2 detectors cannot be dealt to 5", id="buckets"),
        pytest.param({"weights": ["a", "b"]}, "weights must be one number", id="weights-texts"),
        pytest.param({"method": "moa", "n_buckets": 2}, "Give random_state", id="seed"),
        pytest.param({"method": "moa", "n_buckets": 2, "random_state": "x"}, "random_state must be", id="seed-text"),
    ],
)
def test_parameters_that_are_refused(how, message):
    with pytest.raises(InvalidParameterError, match=message):
        sfs.combine([[0.0, 1.0], [1.0, 2.0]], **how)


@pytest.mark.parametrize("matrix", [np.eye(3), da.eye(3), np.arange(3.0), np.eye(3)[:, :2]])
def test_a_matrix_is_refused_since_its_first_axis_would_be_detectors(matrix):
    with pytest.raises(InvalidParameterError, match=r"list\(matrix.T\)"):
        sfs.combine(matrix)
    with pytest.raises(InvalidParameterError, match="got 5"):
        sfs.combine(5)


@pytest.mark.parametrize("method", ["average", "median"])
@pytest.mark.parametrize("pair", [(np.inf, -np.inf), (1e308, 1e308)])
def test_scores_of_a_row_without_a_combination(method, pair):
    first, second = np.array([1.0, pair[0]]), np.array([2.0, pair[1]])
    message = re.escape(f"The scores {list(pair)} of a row")
    with pytest.raises(InvalidDataError, match=message):
        sfs.combine([first, second], standardize=None, method=method)
    with pytest.raises(InvalidDataError, match=message):
        sfs.combine([lazy(first, [1]), second], standardize=None, method=method).compute()
    assert sfs.combine([first, second], standardize=None, method="maximum").tolist() == [2, max(pair)]
    assert sfs.combine([first, np.array([np.inf, 0.0])], standardize=None, method=method)[0] == np.inf


def test_scores_that_cannot_be_combined():
    with pytest.raises(InvalidParameterError, match="at least one vector"):
        sfs.combine([])
    with pytest.raises(InvalidDataError, match="1 scores in vector 1 and 2 in the first"):
        sfs.combine([[0.0, 1.0], [1.0]])
    with pytest.raises(InvalidDataError, match="combination of no scores"):
        sfs.combine([[], []])
    with pytest.raises(InvalidDataError, match="score of row 1 is inf"):
        sfs.combine([[0.0, np.inf]])
    assert sfs.combine([[0.0, np.inf]], standardize="rank").tolist() == [0.5, 1.0]
