"""How many chunks a window holds where nobody says so, and why not more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfit.plan.cluster_sampling import ClusteredRows
from streamfit.plan.default_window import MOST_VARIANCE, bound_of_window, default_window
from streamfit.plan.layout import StoreLayout
from streamfit.plan.shuffle_quality import ChunkCorrelation
from streamfit.plan.window import resolve_window


def of_rho(rho):
    return ChunkCorrelation(rho=rho, of="labels", n_sampled=32, chunk_rows=1024.0)


def wide_layout(chunks, chunk_mib=8):
    return StoreLayout(n_rows=chunks * 1024, n_features=256 * chunk_mib, chunk_rows=1024, itemsize=4)


@pytest.mark.parametrize(
    ("layout", "rho", "limited", "expected", "bound"),
    [
        pytest.param(wide_layout(100), None, False, 16, "the usual", id="no labels"),
        pytest.param(wide_layout(100), 0.0, False, 4, "the least", id="scattered"),
        pytest.param(wide_layout(100), -0.0005, False, 4, "the least", id="more even than chance"),
        pytest.param(wide_layout(3), 0.0, False, 3, "all chunks", id="three chunks"),
        pytest.param(wide_layout(100, 64), 0.0, False, 4, "the least", id="large chunks"),
        pytest.param(wide_layout(100, 128), 0.0, False, 2, "as many as 256 MiB hold", id="huge chunks"),
        pytest.param(wide_layout(100), 1.0, False, 32, "as many as 256 MiB hold", id="sorted"),
        pytest.param(wide_layout(100), 1.0, True, 99, "batches vary at most 1.1", id="sorted and a limit"),
        pytest.param(wide_layout(100, 0.25), 0.0, False, 16, "the least", id="small chunks"),
    ],
)
def test_the_default_window(layout, rho, limited, expected, bound):
    correlation = None if rho is None else of_rho(rho)
    options = {"batch_size": 512, "limited": limited, "correlation": correlation}
    assert default_window(layout, **options) == expected
    assert bound in bound_of_window(layout, window_chunks=expected, requested=None, **options)


@given(st.floats(0.00001, 1), st.integers(1, 4_000), st.integers(5, 400))
def test_the_default_window_is_the_smallest_that_is_nearly_a_full_shuffle(rho, batch_size, n_chunks):
    layout = wide_layout(n_chunks)
    window = default_window(layout, batch_size=batch_size, limited=True, correlation=of_rho(rho))
    rows = ClusteredRows(n_chunks, 1024, rho)
    least = max(4, layout.chunks_for_rows(batch_size))
    assert window >= least
    assert rows.variance_ratio(window, batch_size=batch_size) <= MOST_VARIANCE
    assert window == least or rows.variance_ratio(window - 1, batch_size=batch_size) > MOST_VARIANCE


def test_what_bounds_a_window():
    layout = wide_layout(100)
    options = {"batch_size": 512, "limited": True, "correlation": of_rho(1.0)}
    assert bound_of_window(layout, window_chunks=7, requested=7, **options) == "as asked for"
    assert bound_of_window(layout, window_chunks=7, requested=None, **options) == "as many as fit memory_limit"
    options["batch_size"], options["correlation"] = 30 * 1024, of_rho(0.0)
    assert bound_of_window(layout, window_chunks=30, requested=None, **options) == "one batch"


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_a_window_is_as_large_as_labels_ask_for_and_a_limit_allows(rho):
    layout = wide_layout(100)
    options = {
        "batch_size": 512,
        "requested": None,
        "prefetch": 1,
        "label_nbytes": 8,
        "correlation": of_rho(rho),
        "n_epochs": 1,
        "sampling": None,
    }
    wanted = default_window(layout, batch_size=512, limited=True, correlation=of_rho(rho))
    windows = [resolve_window(layout, memory_limit=limit * 2**20, **options) for limit in (200, 400, 800, 4_000)]
    assert windows == sorted(windows)
    assert windows[-1] == wanted
    assert (windows[0] < wanted) == (rho > 0)


def test_the_window_of_a_store_of_very_many_chunks_takes_few_tries():
    layout = StoreLayout(n_rows=2 * 10**9, n_features=10, chunk_rows=1_000, itemsize=4)
    window = resolve_window(
        layout,
        batch_size=4_096,
        requested=None,
        memory_limit=10**10,
        prefetch=1,
        label_nbytes=8,
        correlation=of_rho(1.0),
        n_epochs=1,
        sampling=None,
    )
    assert 10**10 / 8 < window * layout.chunk_nbytes < 10**10 / 2
