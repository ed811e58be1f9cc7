"""Quantiles, shares and histograms of scores against NumPy and SciPy in memory, for any chunking."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ecdf as scipys_ecdf
from score_cases import N_CHUNKS, irregular, lazy, score_arrays

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.scores import sorting

CUTS = st.lists(st.integers(0, 60), max_size=5)
SHARES = [0.0, 0.001, 0.25, 0.5, 0.9, 0.999, 1.0]


@pytest.fixture(params=["in memory", "on scratch"])
def held(request, monkeypatch):
    """Keep what waits in memory, or on scratch, whatever its size."""
    if request.param == "on scratch":
        monkeypatch.setattr(sorting, "HELD_NBYTES", -1)


def cut(values, cuts):
    return lazy(values, [min(place, len(values)) for place in cuts])


def whole_weights(values, seed=0):
    """Weights that add up without rounding, some of them 0."""
    weights = np.random.default_rng(seed).integers(0, 5, size=len(values))
    weights[len(values) // 2] = 2
    return weights


# -- quantiles ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(values=score_arrays(), cuts=CUTS, q=st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_quantiles_are_numpys(values, cuts, q):
    expected = np.quantile(values, q) + 0.0
    np.testing.assert_array_equal(sfs.quantile(values, q), expected, strict=True)
    np.testing.assert_array_equal(sfs.quantile(cut(values, cuts), q).compute(), expected, strict=True)
    weights = whole_weights(values)
    expected = np.quantile(values, q, weights=weights, method="inverted_cdf")
    np.testing.assert_array_equal(sfs.quantile(values, q, sample_weight=weights), expected, strict=True)
    found = sfs.quantile(cut(values, cuts), q, sample_weight=weights)
    np.testing.assert_array_equal(found.compute(), expected, strict=True)


@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_quantiles_of_irregular_blocks(n_chunks, held):
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=2_000).round(2), rng.random(2_000)
    blocks = irregular(values, n_chunks)
    found, weighted = dask.compute(sfs.quantile(blocks, SHARES), sfs.quantile(blocks, SHARES, sample_weight=weights))
    np.testing.assert_array_equal(found, np.quantile(values, SHARES) + 0.0)
    expected = np.quantile(values, SHARES, weights=weights, method="inverted_cdf")
    np.testing.assert_allclose(weighted, expected, rtol=1e-6)


def test_one_quantile_is_a_number_and_many_keep_their_shape():
    assert isinstance(sfs.quantile([1.0, 2.0], 0.5), float)
    assert sfs.quantile(da.arange(3, chunks=2), 0.5).shape == ()
    for scores in (np.arange(3.0), da.arange(3, chunks=2)):
        (found,) = dask.compute(sfs.quantile(scores, [[0, 0.5], [1, 0.25]]))
        np.testing.assert_array_equal(found, [[0, 1], [2, 0.5]])
        assert dask.compute(sfs.quantile(scores, []))[0].shape == (0,)


@pytest.mark.parametrize(("q", "expected"), [(0.0, -np.inf), (0.2, -np.inf), (0.25, 1.0), (0.9, np.inf), (1.0, np.inf)])
def test_quantiles_beside_infinities(q, expected):
    values = np.array([-np.inf, 1.0, 2.0, np.inf, np.inf])
    for scores in (values, da.from_array(values, chunks=2)):
        assert float(sfs.quantile(scores, q)) == expected


def test_a_quantile_between_the_infinities_is_refused():
    values = np.array([-np.inf, np.inf])
    for scores in (values, da.from_array(values, chunks=1)):
        with pytest.raises(InvalidDataError, match="between -inf and inf"):
            float(sfs.quantile(scores, 0.3))


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, "x", None, [0.5, 2], ["0.5"], True])
def test_quantiles_that_are_refused(q):
    with pytest.raises(InvalidParameterError, match="q must be"):
        sfs.quantile(np.ones(3), q)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param([1.0, 2.0], "2 weights and 3 scores", id="lengths-differ"),
        pytest.param([1.0, -1.0, 1.0], "sample_weight of row 1 is -1.0", id="negative"),
        pytest.param([1.0, 1.0, np.nan], "sample_weight of row 2 is nan", id="nan"),
        pytest.param([0.0, 0.0, 0.0], "weights add up to 0.0", id="all-zero"),
    ],
)
@pytest.mark.parametrize(
    "use",
    [lambda *a, **k: sfs.quantile(*a, 0.5, **k), lambda *a, **k: sfs.ecdf(*a, 1.0, **k)],
    ids=["quantile", "ecdf"],
)
def test_weights_that_are_refused(use, weights, message):
    for scores in (np.arange(3.0), da.arange(3, chunks=2)):
        with pytest.raises(InvalidDataError, match=message):
            dask.compute(use(scores, sample_weight=weights))


# -- shares ------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(values=score_arrays(), cuts=CUTS, at=st.lists(st.sampled_from([0.0, -1.0, 2.0, 2.5, 1e301]), min_size=1))
def test_shares_are_scipys(values, cuts, at):
    at = np.append(at, values[:3])
    expected = scipys_ecdf(values).cdf.evaluate(at)
    blocks = cut(values, cuts)
    for found in (sfs.ecdf(values, at), sfs.ecdf(blocks, at), sfs.ecdf(blocks, da.from_array(at, chunks=1))):
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_weighted_shares_of_irregular_blocks(n_chunks, held):
    rng = np.random.default_rng(2)
    values, weights = rng.normal(size=2_000).round(2), rng.random(2_000)
    at = np.array([[0.0, -np.inf], [np.inf, 0.53]])
    expected = [[weights[values <= x].sum() / weights.sum() for x in row] for row in at]
    blocks = irregular(values, n_chunks)
    for wanted in (at, da.from_array(at)):
        found = sfs.ecdf(blocks, wanted, sample_weight=weights)
        assert found.shape == (2, 2)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


def test_the_share_below_a_threshold_of_these_scores():
    blocks = irregular(np.arange(100.0), 7)
    assert float(sfs.ecdf(blocks, sfs.threshold(blocks, 0.1))) == 0.9
    assert sfs.ecdf([1.0, 2.0], 1.0) == 0.5


def test_values_of_shares_that_are_refused():
    for at in ("x", None, np.nan, [1.0, np.nan]):
        with pytest.raises(InvalidParameterError, match="at must be numbers"):
            sfs.ecdf(np.ones(3), at)
    with pytest.raises(InvalidParameterError, match="at must be numbers, got NaN"):
        sfs.ecdf(np.ones(3), da.from_array(np.array(np.nan))).compute()
    with pytest.raises(InvalidParameterError, match="at must be numbers or a dask array"):
        sfs.ecdf(np.ones(3), dask.delayed(1.0))


# -- histograms --------------------------------------------------------------------------------------

BINS = st.one_of(
    st.tuples(st.integers(1, 20), st.none()),
    st.tuples(st.integers(1, 20), st.sampled_from([(-1.0, 2.5), (0.0, 0.0), (-3, 1e6)])),
    st.tuples(st.just([-1.0, 0.0, 2.5, 2.5, np.inf]), st.none()),
)


@settings(max_examples=60)
@given(values=score_arrays(least=0), cuts=CUTS, bins=BINS)
def test_histograms_are_numpys(values, cuts, bins):
    try:
        expected = np.histogram(values, *bins)
    except ValueError:  # floats that large have no bins between them
        for scores in (values, cut(values, cuts)):
            with pytest.raises(InvalidDataError, match=r"no \d+ different bins"):
                dask.compute(sfs.histogram(scores, *bins))
        return
    weights = np.ones(len(values))
    for scores in (values, cut(values, cuts)):
        found, weighted = dask.compute(
            sfs.histogram(scores, *bins), sfs.histogram(scores, *bins, sample_weight=weights)
        )
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=theirs.dtype == ours.dtype)
        assert found[0].dtype == np.int64
        np.testing.assert_array_equal(weighted[0], expected[0].astype(float), strict=True)
        np.testing.assert_array_equal(weighted[1], expected[1])


@pytest.mark.parametrize("n_chunks", N_CHUNKS)
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e15])
def test_histograms_of_irregular_blocks(n_chunks, offset, held):
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=3_000) + offset, rng.random(3_000)
    blocks = irregular(values, n_chunks)
    (counts, edges), (sums, _) = dask.compute(
        sfs.histogram(blocks, 37), sfs.histogram(blocks, 37, sample_weight=weights)
    )
    expected = np.histogram(values, 37)
    np.testing.assert_array_equal(counts, expected[0])
    np.testing.assert_array_equal(edges, expected[1])
    np.testing.assert_allclose(sums, np.histogram(values, 37, weights=weights)[0], rtol=1e-9)


def test_histograms_of_infinite_scores_need_edges():
    values = np.array([1.0, 2.0, np.inf, -np.inf])
    for scores in (values, da.from_array(values, chunks=3)):
        with pytest.raises(InvalidDataError, match="reach from -inf to inf"):
            dask.compute(sfs.histogram(scores))
        assert dask.compute(sfs.histogram(scores, 2, (1, 3)))[0][0].tolist() == [1, 1]
        assert dask.compute(sfs.histogram(scores, [-np.inf, 2, np.inf]))[0][0].tolist() == [2, 2]


def test_bins_that_floats_cannot_tell_apart():
    values = np.array([1e300, np.nextafter(1e300, np.inf)])
    for scores in (values, da.from_array(values, chunks=1)):
        with pytest.raises(InvalidDataError, match="no 50 different bins"):
            dask.compute(sfs.histogram(scores, 50))


@pytest.mark.parametrize(
    "bins", [0, -1, 1.5, "auto", None, True, [1.0], [2.0, 1.0], [0.0, np.nan], [[0.0, 1.0]], ["a", "b"]]
)
def test_bins_that_are_refused(bins):
    with pytest.raises(InvalidParameterError, match="bins must be"):
        sfs.histogram(np.ones(3), bins)


@pytest.mark.parametrize("bounds", [(1, 0), (0, np.inf), (np.nan, 1), (1,), 3, "ab", ("a", "b")])
def test_ranges_that_are_refused(bounds):
    with pytest.raises(InvalidParameterError, match="range must be"):
        sfs.histogram(np.ones(3), 3, bounds)


def test_edges_and_a_range_together_are_refused():
    with pytest.raises(InvalidParameterError, match="range is for a number of bins"):
        sfs.histogram(np.ones(3), [0, 1], (0, 1))
