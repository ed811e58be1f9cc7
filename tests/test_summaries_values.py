"""Summaries against NumPy on the whole column."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamfit.batch import Chunk
from streamfit.errors import InvalidDataError
from streamfit.maths.summaries.extremes import MinMax
from streamfit.maths.summaries.histogram import HistogramCounts
from streamfit.maths.summaries.moments import Moments


def run(summary, X, cuts=()):
    state = summary.empty()
    for part in np.split(X, sorted(min(cut, len(X)) for cut in cuts)):
        state = summary.merge(state, summary.update(summary.empty(), Chunk(0, 0, part)))
    return summary.finalize(state)


def histogram(X, n_bins, cuts=()):
    extremes = run(MinMax(X.shape[1], dtype=X.dtype), X, cuts)
    return run(HistogramCounts(extremes.minimum, extremes.maximum, n_bins=n_bins), X, cuts)


def assert_numpys(result, X, n_bins):
    for column, (counts, edges) in enumerate(result):
        expected, expected_edges = np.histogram(X[:, column], bins=n_bins)
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(edges, expected_edges)
        assert edges.dtype == expected_edges.dtype


finite = {
    np.float32: st.floats(-(2.0**100), 2.0**100, width=32),
    np.float64: st.floats(-1e300, 1e300),
    np.int16: st.integers(-(2**15), 2**15 - 1),
}
# Few distinct values close to the edges of bins: ties, and roundings that fall on either side.
close = {
    np.float32: st.integers(-50, 50).map(lambda value: float(np.float32(value * 0.1))),
    np.float64: st.integers(-50, 50).map(lambda value: value * 0.1),
    np.int16: st.integers(-50, 50),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("values", [pytest.param(finite, id="any"), pytest.param(close, id="close")])
@given(data=st.data())
def test_histogram_is_numpys_bin_by_bin(dtype, values, data):
    shape = st.tuples(st.integers(1, 40), st.integers(1, 2))
    X = data.draw(hnp.arrays(dtype, shape, elements=values[dtype]))
    n_bins = data.draw(st.integers(1, 50))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=3))
    try:
        expected = [np.histogram(X[:, column], bins=n_bins) for column in range(X.shape[1])]
    except ValueError:  # NumPy refuses: so many bins do not fit between two close floats
        with pytest.raises(InvalidDataError, match="cannot be cut into"):
            histogram(X, n_bins, cuts)
        return
    assert len(expected) == X.shape[1]
    assert_numpys(histogram(X, n_bins, cuts), X, n_bins)


@given(
    values=hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_infinity=True, allow_nan=True)),
    low=st.floats(-1e6, 1e6),
    width=st.floats(0, 1e6),
    n_bins=st.integers(1, 20),
)
def test_values_outside_the_range_and_nan_are_not_counted(values, low, width, n_bins):
    limits = (np.float64(low), np.float64(low + width))
    try:
        expected, _ = np.histogram(values, bins=n_bins, range=limits)
    except ValueError:
        assume(False)
    summary = HistogramCounts(np.array([low]), np.array([low + width]), n_bins=n_bins)
    np.testing.assert_array_equal(run(summary, values[:, None])[0][0], expected)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(np.full(9, 3.0, np.float32), id="constant"),
        pytest.param(np.array([0.0, -0.0]), id="zeros-of-both-signs"),
        pytest.param(np.array([5.0]), id="one-row"),
        pytest.param(np.array([1e6, 1e6 + 1, 1e6 + 0.5], np.float32), id="far-from-zero-float32"),
        pytest.param(np.linspace(0, 1, 11, dtype=np.float32), id="on-the-edges-float32"),
        pytest.param(np.linspace(0, 1, 11), id="on-the-edges-float64"),
        pytest.param(np.array([5e-324, 1e-323, 0.0]) * 1e10, id="denormal"),
        pytest.param(np.array([0, 255, 7], np.uint8), id="uint8"),
        pytest.param(np.array([-128, 127], np.int8), id="int8"),
        pytest.param(np.array([2**40, -(2**40), 1]), id="int64"),
    ],
)
def test_histogram_edges(column):
    assert_numpys(histogram(column[:, None], 10), column[:, None], 10)


def test_histogram_of_many_columns_and_rows_is_numpys():
    X = np.random.default_rng(0).normal(size=(5_003, 37)).astype(np.float32)
    X[:, 5] = np.round(X[:, 5])
    assert_numpys(histogram(X, 10, cuts=(1_000, 4_096)), X, 10)
    assert_numpys(histogram(np.asfortranarray(X), 10), X, 10)


def test_each_column_may_have_its_own_number_of_bins():
    X = np.random.default_rng(0).normal(size=(100, 3))
    for column, (counts, edges) in enumerate(histogram(X, [2, 5, 11])):
        expected, expected_edges = np.histogram(X[:, column], bins=[2, 5, 11][column])
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(edges, expected_edges)


def test_float16_is_binned_as_float32():
    X = np.random.default_rng(0).normal(size=(100, 1)).astype(np.float16)
    assert_numpys(histogram(X, 10), X.astype(np.float32), 10)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        pytest.param(np.nan, np.nan, "Column 1 has no finite range", id="nan"),
        pytest.param(0.0, np.inf, "Column 1 has no finite range", id="infinite"),
        pytest.param(-1.7e308, 1.7e308, "Column 1 has no finite range", id="width-overflows"),
        pytest.param(1.0, np.nextafter(1.0, 2), "Column 1, .* cannot be cut into 10 bins", id="too-narrow"),
        pytest.param(1e17, 1e17, "Column 1, .* cannot be cut into 10 bins", id="constant-and-huge"),
    ],
)
def test_ranges_without_bins_name_the_column(low, high, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidDataError, match=message) as error:
            HistogramCounts(np.array([0.0, low]), np.array([1.0, high]), n_bins=10)
    assert error.value.column == "1"


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
def test_extremes_keep_the_dtype(dtype):
    X = (np.random.default_rng(0).normal(size=(50, 4)) * 50).clip(0).astype(dtype)
    extremes = run(MinMax(4, dtype=dtype), X, cuts=(0, 7))
    np.testing.assert_array_equal(extremes.minimum, X.min(axis=0), strict=True)
    np.testing.assert_array_equal(extremes.maximum, X.max(axis=0), strict=True)


def test_a_nan_reaches_the_extremes_of_its_column_only():
    extremes = run(MinMax(2, dtype=np.float64), np.array([[1.0, np.nan], [2.0, 3.0]]), cuts=(1,))
    np.testing.assert_array_equal(extremes.minimum, [1.0, np.nan])
    np.testing.assert_array_equal(extremes.maximum, [2.0, np.nan])


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_are_numpys(offset, dtype):
    X = (np.random.default_rng(0).normal(size=(20_011, 5)) + offset).astype(dtype)
    moments = run(Moments(5), X, cuts=(0, 1, 3_000))
    assert moments.count == len(X)
    np.testing.assert_allclose(moments.mean, X.mean(axis=0, dtype=np.float64), rtol=1e-12)
    for ddof in (0, 1):
        expected = X.astype(np.float64).var(axis=0, ddof=ddof)
        np.testing.assert_allclose(moments.variance(ddof=ddof), expected, rtol=1e-9)


def test_a_constant_column_has_no_variance():
    moments = run(Moments(1), np.full((1_000, 1), 0.1), cuts=(333,))
    assert moments.variance(ddof=0)[0] == pytest.approx(0, abs=1e-30)


def test_a_nan_or_an_infinity_reaches_the_moments_of_its_column_only():
    moments = run(Moments(3), np.array([[1.0, np.nan, np.inf], [3.0, 3.0, 3.0]]), cuts=(1,))
    np.testing.assert_array_equal(moments.mean, [2.0, np.nan, np.inf])
    np.testing.assert_array_equal(moments.m2, [2.0, np.nan, np.nan])
