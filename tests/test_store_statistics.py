from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamfit.store import statistics as module
from streamfit.store.statistics import Statistics


@pytest.fixture(autouse=True, params=[pytest.param(2**62, id="numpy"), pytest.param(0, id="compiled")], scope="module")
def _kernel(request):
    """All of it by NumPy, and all of it by the kernel for large chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_COMPILED_VALUES", request.param)
        yield


def oracle(X):
    """NumPy over the finite values of each column, in float64."""
    columns = [column[np.isfinite(column)] for column in np.asarray(X, dtype=np.float64).T]
    return {
        "n_finite": np.array([len(column) for column in columns]),
        "n_nonfinite": np.array([len(X) - len(column) for column in columns]),
        "minimum": np.array([column.min() if len(column) else np.nan for column in columns]),
        "maximum": np.array([column.max() if len(column) else np.nan for column in columns]),
        "mean": np.array([column.mean() if len(column) else np.nan for column in columns]),
        "variance": np.array([column.var() if len(column) else np.nan for column in columns]),
    }


def assert_matches(statistics, X, *, rtol=1e-9, atol=1e-12):
    for name, expected in oracle(X).items():
        np.testing.assert_allclose(getattr(statistics, name), expected, rtol=rtol, atol=atol, err_msg=name)


rng = np.random.default_rng(3)
with_gaps = rng.normal(size=(500, 3))
with_gaps[7, 0] = np.nan
with_gaps[9, 1] = -np.inf
with_gaps[:, 2] = np.nan


@pytest.mark.parametrize(
    "X",
    [
        pytest.param(rng.normal(size=(1, 3)), id="one-row"),
        pytest.param(rng.normal(size=(500, 3)).astype("f4"), id="float32"),
        pytest.param(rng.integers(-100, 100, (500, 3)).astype("i2"), id="int16"),
        pytest.param(rng.integers(0, 255, (500, 3)).astype("u1"), id="uint8"),
        pytest.param(np.full((500, 2), 3.25), id="constant"),
        pytest.param(rng.normal(size=(500, 2)) + 1e6, id="offset-1e6"),
        pytest.param(with_gaps, id="nonfinite-and-an-empty-column"),
        pytest.param(rng.normal(size=(30_000, 9)), id="more-than-one-inner-block"),
    ],
)
@pytest.mark.parametrize("chunk_rows", [1, 100, 499, 100_000])
def test_chunks_give_what_numpy_gives_over_all_rows(X, chunk_rows):
    chunk_rows = max(chunk_rows, len(X) // 600)
    total = Statistics.empty(X.shape[1])
    for start in range(0, len(X), chunk_rows):
        total = total.merge(Statistics.of(X[start : start + chunk_rows]))
    assert_matches(total, X)


def test_an_offset_of_a_million_in_float32_keeps_the_variance_of_the_stored_values():
    X = (np.random.default_rng(0).normal(size=(50_000, 2)) + 1e6).astype("f4")
    total = Statistics.empty(2)
    for start in range(0, len(X), 1_000):
        total = total.merge(Statistics.of(X[start : start + 1_000]))
    np.testing.assert_allclose(total.variance, X.astype("f8").var(axis=0), rtol=1e-10)


def test_the_result_does_not_depend_on_memory_order_or_on_who_may_write():
    X = np.random.default_rng(0).normal(size=(3_000, 7)).astype("f4")
    X[17, 3] = np.inf
    fixed = X.copy()
    fixed.flags.writeable = False
    for same in (fixed, np.repeat(X, 2, axis=0)[::2]):
        for name in ("n_finite", "minimum", "maximum", "mean", "squares"):
            np.testing.assert_array_equal(getattr(Statistics.of(same), name), getattr(Statistics.of(X), name))


def test_large_whole_numbers_keep_the_extremes_that_float64_has():
    X = np.array([[2**63 - 1, -(2**63)], [-(2**63), 2**63 - 1], [0, 5]], dtype="i8")
    found = Statistics.of(X)
    np.testing.assert_array_equal(found.minimum, X.min(axis=0).astype("f8"))
    np.testing.assert_array_equal(found.maximum, X.max(axis=0).astype("f8"))


@pytest.mark.parametrize("value", [1e39, 1e200])
def test_large_values_raise_no_warning(value):
    X = np.array([[1.0], [value], [-1.0]])
    both = Statistics.of(X[:2]).merge(Statistics.of(X[2:]))
    assert both.maximum[0] == value
    assert np.isclose(both.mean[0], value / 3)


finite_or_not = st.floats(width=32) | st.sampled_from([np.nan, np.inf, -np.inf])
matrices = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=finite_or_not)


@settings(max_examples=100, deadline=None)
@given(X=matrices, data=st.data())
def test_any_split_equals_the_whole(X, data):
    cut = data.draw(st.integers(0, len(X)))
    parts = [Statistics.of(part) if len(part) else Statistics.empty(X.shape[1]) for part in (X[:cut], X[cut:])]
    scale = np.max(np.abs(X[np.isfinite(X)]), initial=1.0)
    assert_matches(parts[0].merge(parts[1]), X, atol=1e-9 * scale**2)


@settings(max_examples=50, deadline=None)
@given(X=matrices)
def test_empty_is_the_identity_bit_for_bit_and_json_keeps_every_bit(X):
    statistics = Statistics.of(X)
    empty = Statistics.empty(X.shape[1])
    for same in (
        empty.merge(statistics),
        statistics.merge(empty),
        Statistics.from_json(statistics.to_json()),
    ):
        for name in ("n_finite", "n_nonfinite", "minimum", "maximum", "mean", "squares"):
            np.testing.assert_array_equal(getattr(same, name), getattr(statistics, name), err_msg=name)
