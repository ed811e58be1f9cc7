"""Drift of scores against scipy and NumPy on all rows, for any blocks."""

from __future__ import annotations

from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import ks_2samp
from score_cases import FEW_CHUNKS, N_CHUNKS, irregular, lazy, on_scratch, score_arrays

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.ranked_values import RankedValues
from streamfit.maths.two_samples import ks_statistic


@pytest.fixture(params=["memory", "scratch"])
def kept(request, monkeypatch):
    if request.param == "scratch":
        on_scratch(monkeypatch)


def expected_psi(reference, current, n_bins=10, floor=1e-4):
    inner = np.unique(np.quantile(reference, np.arange(1, n_bins) / n_bins))
    shares = [
        np.maximum(
            np.bincount(np.searchsorted(inner, values, side="left"), minlength=len(inner) + 1) / len(values), floor
        )
        for values in (reference, current)
    ]
    return ((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum()


def expected_ks(first, second):
    values = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (first, second)]
    return np.abs(shares[0] - shares[1]).max()


@settings(max_examples=8)
@given(reference=score_arrays(least=3), current=score_arrays(least=3))
def test_ks_and_psi_of_two_samples_for_any_chunking(reference, current):
    expected = ks_2samp(reference, current, method="asymp")
    here = sfs.ks(reference, current)
    assert here.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert here.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
    index = sfs.psi(reference, current, n_bins=4)
    assert index == pytest.approx(expected_psi(reference, current, 4), rel=1e-9, abs=1e-12)
    for n_chunks in FEW_CHUNKS:
        blocks = irregular(reference, n_chunks), irregular(current, n_chunks, 1)
        found, lazy_index = dask.compute(sfs.ks(*blocks), sfs.psi(*blocks, n_bins=4))
        assert (found.statistic, found.pvalue, lazy_index) == (here.statistic, here.pvalue, index)
    assert sfs.ks(reference, irregular(current, 7)).compute().statistic == here.statistic
    assert sfs.psi(irregular(reference, 7), current, n_bins=4).compute() == index


def test_the_statistic_of_more_rows_than_int64_holds_pairs_of():
    n = 4_000_000_000
    apart = RankedValues(np.array([1.0, 2.0]), (np.array([n, 0]), np.array([0, n])))
    assert ks_statistic([apart], n, n) == 1
    half = RankedValues(np.array([1.0, 2.0]), (np.array([n, 0]), np.array([n // 2, n // 2])))
    assert ks_statistic([half], n, n) == 0.5


def test_one_row_against_one_says_nothing():
    assert (sfs.ks([1.0], [2.0]).statistic, sfs.ks([1.0], [2.0]).pvalue) == (1, 1)
    found = sfs.ks(da.ones(1), [2.0]).compute()
    assert (found.statistic, found.pvalue) == (1, 1)
    assert sfs.ks([1.0], [2.0, 3.0]).pvalue == ks_2samp([1.0], [2.0, 3.0], method="asymp").pvalue


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_drift_of_many_rows(n_chunks):
    rng = np.random.default_rng(0)
    reference, current = np.round(rng.normal(size=4_000), 2), np.round(rng.normal(0.3, 1.2, size=3_000), 2)
    blocks = irregular(reference, n_chunks), irregular(current, n_chunks, 1)
    found, index = dask.compute(sfs.ks(*blocks), sfs.psi(*blocks))
    expected = ks_2samp(reference, current, method="asymp")
    np.testing.assert_allclose([found.statistic, found.pvalue], [expected.statistic, expected.pvalue], rtol=1e-9)
    assert index == pytest.approx(expected_psi(reference, current), rel=1e-12)


@settings(max_examples=8)
@given(values=score_arrays(), reference=score_arrays())
def test_each_partition_against_all_rows_and_against_a_reference(values, reference):
    for n_chunks in FEW_CHUNKS:
        blocks = irregular(values, n_chunks)
        starts = np.cumsum([0, *blocks.chunks[0]])
        parts = [values[start:stop] for start, stop in pairwise(starts)]
        for table, others in (
            (sfs.partition_drift(blocks, n_bins=4), values),
            (sfs.partition_drift(blocks, irregular(reference, 7), n_bins=4), reference),
            (sfs.partition_drift(blocks, reference, n_bins=4), reference),
        ):
            found = table.compute()
            assert found["first_row"].tolist() == starts[:-1].tolist()
            assert found["count"].tolist() == [len(part) for part in parts]
            expected = [
                (expected_psi(others, part, 4), expected_ks(others, part)) if len(part) else (np.nan, np.nan)
                for part in parts
            ]
            np.testing.assert_allclose(found[["psi", "ks"]].to_numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("kept")
def test_a_partition_that_drifts_stands_out():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=500) + (3 if part == 4 else 0) for part in range(6)]
    found = sfs.partition_drift(lazy(np.concatenate(parts), [500 * part for part in range(1, 6)])).compute()
    assert found["psi"].idxmax() == found["ks"].idxmax() == 4
    others = np.concatenate(parts[:4])
    against_others = sfs.partition_drift(lazy(np.concatenate(parts), [500 * part for part in range(1, 6)]), others)
    found = against_others.compute()["psi"]
    assert (found.drop(4) < 0.1).all()
    assert found[4] > 1


def test_one_frequent_score_in_all_partitions(monkeypatch):
    monkeypatch.setitem(sfs.drift.ks_statistics.__globals__["key_ranges"].__kwdefaults__, "most_values", 30)
    rng = np.random.default_rng(1)
    values = np.where(rng.random(900) < 0.8, 0.5, rng.normal(size=900))
    blocks = irregular(values, 7)
    starts = np.cumsum([0, *blocks.chunks[0]])
    found = sfs.partition_drift(blocks).compute()["ks"]
    expected = [expected_ks(values, values[start:stop]) if start < stop else np.nan for start, stop in pairwise(starts)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_of_an_array_in_memory_the_table_is_a_dataframe():
    table = sfs.partition_drift(np.arange(10.0), np.arange(10.0))
    assert table[["psi", "ks"]].to_numpy().tolist() == [[0.0, 0.0]]


def test_scores_in_memory_against_a_lazy_reference():
    values = np.array([0.0, 5.0, 6.0, 7.0])
    found = sfs.partition_drift(values, da.arange(4.0, chunks=3), n_bins=2).compute()
    assert found["ks"].tolist() == [expected_ks(np.arange(4.0), values)]
    np.testing.assert_allclose(found["psi"], expected_psi(np.arange(4.0), values, 2), rtol=1e-12)


def test_infinite_scores_have_their_place():
    reference, current = np.array([-np.inf, 0.0, 1.0, np.inf]), np.array([np.inf, np.inf, np.inf])
    assert sfs.ks(reference, current).statistic == 0.75
    assert sfs.psi(reference, current, n_bins=2) == pytest.approx(expected_psi(reference, current, 2))


def test_building_runs_nothing_and_reads_once():
    read = []
    scores = da.from_array(np.arange(100.0), chunks=10).map_blocks(
        lambda block: read.append(1) or block, meta=np.empty(0)
    )
    results = sfs.ks(scores, np.arange(50.0)), sfs.psi(scores, np.arange(50.0)), sfs.partition_drift(scores)
    assert not read
    dask.compute(*results)
    assert len(read) == 10


@pytest.mark.parametrize("use", [sfs.ks, sfs.psi, sfs.partition_drift])
def test_scores_that_are_refused(use):
    with pytest.raises(InvalidDataError, match="of no scores"):
        use(np.arange(3.0), [])
    with pytest.raises(InvalidDataError, match="of no scores"):
        use([], np.arange(3.0))
    with pytest.raises(InvalidDataError, match="score of row 1 is NaN"):
        use([0.0, np.nan], [1.0])


def test_a_floor_is_at_most_the_share_of_a_bin():
    assert sfs.psi([1.0, 2.0], [1.0, 2.0], n_bins=2, floor=0.5) == 0


@pytest.mark.parametrize(
    "how", [{"n_bins": 1}, {"n_bins": 2.5}, {"floor": 0}, {"floor": -1}, {"floor": "x"}, {"floor": 0.6, "n_bins": 2}]
)
def test_parameters_that_are_refused(how):
    for use in (sfs.psi, sfs.partition_drift):
        with pytest.raises(InvalidParameterError, match=next(iter(how))):
            use([0.0], [1.0], **how)
