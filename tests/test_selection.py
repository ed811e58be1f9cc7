"""Exact selection against numpy.sort and numpy.percentile."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.selection import order_statistics, percentile

ANY_FLOAT = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1.0, np.nextafter(1.0, 2), np.inf, -np.inf, 5e-324, -5e-324, -np.nan]),
)
budgets = st.sampled_from([0, 100, 2_000, 2**30])


def blocks_of(values, cuts):
    return np.split(values, sorted(min(cut, len(values)) for cut in cuts))


def bits(value):
    """The bits of a float, with one zero and one NaN."""
    value = np.float64(value) + 0.0
    return np.float64("nan").tobytes() if np.isnan(value) else value.tobytes()


@given(
    values=hnp.arrays(np.float64, st.integers(1, 60), elements=ANY_FLOAT),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    max_nbytes=budgets,
    data=st.data(),
)
def test_order_statistics_are_those_of_a_sort(values, cuts, max_nbytes, data):
    n = len(values)
    ranks = data.draw(st.lists(st.integers(0, n - 1), max_size=8))
    blocks = blocks_of(values, cuts)
    found = order_statistics(lambda: blocks, ranks, n=n, max_nbytes=max_nbytes)
    np.testing.assert_array_equal(found, np.sort(values)[ranks])


@given(
    values=hnp.arrays(np.float64, st.integers(1, 60), elements=ANY_FLOAT),
    q=st.one_of(st.floats(0, 100), st.sampled_from([0, 100, 50, 90.0, 95.0, 99.9])),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    max_nbytes=budgets,
)
def test_percentile_is_numpys_bit_for_bit(values, q, cuts, max_nbytes):
    blocks = blocks_of(values, cuts)
    with np.errstate(all="ignore"):
        expected = np.percentile(values, q)
    assert bits(percentile(lambda: blocks, len(values), q, max_nbytes=max_nbytes)) == bits(expected)


@pytest.mark.parametrize("max_nbytes", [100_000, 2_000_000, 2**30])
@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng, n: rng.normal(size=n), id="normal"),
        pytest.param(lambda rng, n: rng.lognormal(sigma=40, size=n), id="all-exponents"),
        pytest.param(lambda rng, n: 1 + rng.integers(0, 5, n) * np.spacing(1.0), id="last-bits"),
        pytest.param(lambda rng, n: np.full(n, -3.25) + 0 * rng.normal(), id="constant"),
        pytest.param(lambda rng, n: np.sort(rng.normal(size=n)), id="sorted"),
        pytest.param(lambda rng, n: rng.integers(-3, 3, n).astype(np.float64), id="tied"),
    ],
)
def test_percentile_of_many_values_is_numpys_bit_for_bit(draw, max_nbytes):
    values = draw(np.random.default_rng(0), 300_001)
    for q in (0, 37.5, 90.0, 99.999, 100):
        blocks = np.array_split(values, 7)
        assert percentile(lambda: blocks, len(values), q, max_nbytes=max_nbytes) == np.percentile(values, q)  # noqa: B023


def test_float32_blocks_are_widened():
    values = np.random.default_rng(0).normal(size=1_001).astype(np.float32)
    expected = np.percentile(values.astype(np.float64), 90)
    assert percentile(lambda: [values], 1_001, 90, max_nbytes=0) == expected


def test_memory_is_bounded():
    n_blocks, block_rows, limit = 64, 65_536, 4 * 2**20

    def blocks():
        return (np.random.default_rng(seed).normal(size=block_rows) for seed in range(n_blocks))

    n = n_blocks * block_rows
    tracemalloc.start()
    percentile(blocks, n, 90, max_nbytes=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    slice_in_hand = 8 * 2**20
    assert 8 * n > 2 * (limit + slice_in_hand)
    assert peak < limit + slice_in_hand


def test_passes_are_few():
    values = np.random.default_rng(0).normal(size=500_000)
    passes = []

    def blocks():
        passes.append(None)
        return [values]

    percentile(blocks, len(values), 90, max_nbytes=2 * 2**20)
    assert len(passes) == 2


@pytest.mark.parametrize(
    ("n", "q", "error", "message"),
    [
        pytest.param(0, 50, InvalidDataError, "no values", id="empty"),
        pytest.param(3, -1, InvalidParameterError, "q must be", id="q-below"),
        pytest.param(3, 100.1, InvalidParameterError, "q must be", id="q-above"),
        pytest.param(3, np.nan, InvalidParameterError, "q must be", id="q-nan"),
        pytest.param(2, 50, InvalidDataError, "2 values were announced", id="more-than-announced"),
        pytest.param(4, 50, InvalidDataError, "4 values were announced", id="fewer-than-announced"),
    ],
)
def test_refusals(n, q, error, message):
    for max_nbytes in (0, 2**20):
        with pytest.raises(error, match=message):
            percentile(lambda: [np.array([1.0, 2.0, 3.0])], n, q, max_nbytes=max_nbytes)


@pytest.mark.parametrize("rank", [-1, 3])
def test_ranks_outside_are_refused(rank):
    with pytest.raises(InvalidParameterError, match="ranks must be between 0 and 2"):
        order_statistics(lambda: [np.zeros(3)], [0, rank], n=3, max_nbytes=0)


def test_no_ranks_give_no_values():
    assert order_statistics(lambda: [np.zeros(3)], [], n=3, max_nbytes=0).shape == (0,)
