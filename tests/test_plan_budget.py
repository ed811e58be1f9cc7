"""Layouts, windows and what they cost."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.plan.budget import parse_memory_limit, stream_budget, tasks_that_fit
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import MAX_PARTITIONS, StoreLayout
from streamfit.plan.window import resolve_prefetch, resolve_window

MiB = 2**20


@given(st.integers(1, 10**7), st.integers(1, 10**4))
def test_partitions_cover_the_rows_once_and_are_few(n_rows, chunk_rows):
    layout = StoreLayout(n_rows=n_rows, n_features=3, chunk_rows=chunk_rows, itemsize=8)
    rows = layout.partition_rows()
    assert sum(rows) == n_rows
    assert 1 <= len(rows) <= MAX_PARTITIONS
    assert layout.chunks_of(layout.n_partitions - 1)[-1] == layout.n_chunks - 1
    assert layout.partition_bounds(layout.n_partitions - 1)[1] == n_rows


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"n_rows": 0}, InvalidDataError, id="no-rows"),
        pytest.param({"n_features": 0}, InvalidDataError, id="no-columns"),
        pytest.param({"chunk_rows": 0}, InvalidParameterError, id="no-chunk-rows"),
        pytest.param({"chunk_rows": 1.5}, InvalidParameterError, id="half-chunk-rows"),
    ],
)
def test_layout_refuses(changes, error):
    with pytest.raises(error):
        StoreLayout(**({"n_rows": 1, "n_features": 1, "chunk_rows": 1, "itemsize": 1} | changes))


@pytest.mark.parametrize("outside", [-1, 4])
def test_layout_has_no_such_chunk(outside):
    with pytest.raises(IndexError):
        StoreLayout(n_rows=4, n_features=1, chunk_rows=1, itemsize=1).chunk_bounds(outside)


def layout_of_mib(chunks, chunk_mib=8):
    return StoreLayout(n_rows=chunks * 1024, n_features=256 * chunk_mib, chunk_rows=1024, itemsize=4)


def window(layout, *, batch_size=1024, requested=None, memory_limit=None, prefetch=1, n_epochs=1):
    return resolve_window(
        layout,
        batch_size=batch_size,
        requested=requested,
        memory_limit=memory_limit,
        prefetch=prefetch,
        label_nbytes=8,
        n_epochs=n_epochs,
        correlation=None,
        sampling=None,
    )


@pytest.mark.parametrize(
    ("layout", "asked", "expected"),
    [
        pytest.param(layout_of_mib(100), {}, 16, id="sixteen-chunks"),
        pytest.param(layout_of_mib(100, chunk_mib=64), {}, 4, id="at-most-256-MiB"),
        pytest.param(layout_of_mib(3), {}, 3, id="no-more-than-there-are"),
        pytest.param(layout_of_mib(100), {"batch_size": 20 * 1024}, 20, id="holds-a-batch"),
        pytest.param(layout_of_mib(100), {"requested": 40}, 40, id="as-asked"),
        pytest.param(layout_of_mib(100), {"requested": 400}, 100, id="asked-for-more-than-there-are"),
    ],
)
def test_window_without_a_limit(layout, asked, expected):
    assert window(layout, **asked) == expected


@given(st.integers(130 * MiB, 600 * MiB))
def test_window_shrinks_to_the_largest_that_fits(limit):
    layout = layout_of_mib(100)
    chosen = window(layout, memory_limit=limit)

    def cost(chunks):
        return stream_budget(
            layout, batch_size=1024, window_chunks=chunks, prefetch=1, label_nbytes=8, n_epochs=1, sampling=None
        ).nbytes

    assert cost(chosen) <= limit
    assert chosen == 16 or cost(chosen + 1) > limit


def test_a_window_by_name_is_refused_with_the_largest_that_fits():
    layout = layout_of_mib(100)
    with pytest.raises(BudgetError, match=r"The largest window that fits is (\d+) chunks") as refusal:
        window(layout, requested=60, memory_limit=400 * MiB)
    largest = int(str(refusal.value).split("fits is ")[1].split(" ")[0])
    assert window(layout, requested=largest, memory_limit=400 * MiB) == largest
    with pytest.raises(BudgetError):
        window(layout, requested=largest + 1, memory_limit=400 * MiB)


def test_nothing_fits():
    with pytest.raises(BudgetError, match="Raise memory_limit, lower batch_size, or write the store"):
        window(layout_of_mib(100), memory_limit=60 * MiB)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True, [2]])
@pytest.mark.parametrize(("argument", "name"), [("requested", "window"), ("batch_size", "batch_size")])
def test_a_window_or_batch_that_is_no_count(argument, name, wrong):
    with pytest.raises(InvalidParameterError, match=f"{name} must be an integer of at least 1, got"):
        window(layout_of_mib(3), **{argument: wrong})


def test_prefetch_costs_a_window():
    layout = layout_of_mib(100)
    costs = [
        stream_budget(
            layout, batch_size=1024, window_chunks=4, prefetch=p, label_nbytes=0, n_epochs=1, sampling=None
        ).nbytes
        for p in (0, 1, 2)
    ]
    assert costs[1] - costs[0] == costs[2] - costs[1] >= 32 * MiB


@pytest.mark.parametrize(
    ("n_chunks", "n_epochs", "prefetch", "expected"),
    [
        pytest.param(4, 1, 2, 1, id="one-window-once"),
        pytest.param(4, 2, 2, 2, id="one-window-twice"),
        pytest.param(4, 9, 2, 3, id="one-window-often"),
        pytest.param(8, 9, 0, 1, id="nothing-read-ahead"),
        pytest.param(40, 1, 2, 3, id="many-windows"),
    ],
)
def test_windows_are_read_ahead_across_epochs(n_chunks, n_epochs, prefetch, expected):
    budget = stream_budget(
        layout_of_mib(n_chunks),
        batch_size=1024,
        window_chunks=4,
        prefetch=prefetch,
        label_nbytes=0,
        n_epochs=n_epochs,
        sampling=None,
    )
    assert budget.parts[0] == (f"{expected} window(s) of 4 chunks", expected * 32 * MiB)


@given(st.integers(130 * MiB, 400 * MiB), st.integers(1, 12))
def test_the_number_of_epochs_does_not_change_the_window(limit, n_chunks):
    layout = layout_of_mib(n_chunks)
    assert window(layout, memory_limit=limit, n_epochs=1) == window(layout, memory_limit=limit, n_epochs=5)


def test_a_window_that_fits_once_is_refused_for_more_epochs():
    layout = layout_of_mib(8)
    limit = 180 * MiB
    assert window(layout, requested=8, memory_limit=limit) == 8
    with pytest.raises(BudgetError, match=r"The largest window that fits is \d chunks"):
        window(layout, requested=8, memory_limit=limit, n_epochs=2)


def prefetch_of(layout, window_chunks, *, requested=None, memory_limit=None, n_epochs=1):
    return resolve_prefetch(
        layout,
        batch_size=1024,
        window_chunks=window_chunks,
        requested=requested,
        memory_limit=memory_limit,
        label_nbytes=8,
        n_epochs=n_epochs,
        sampling=None,
    )


def cost_of(layout, window_chunks, prefetch, n_epochs=1):
    return stream_budget(
        layout,
        batch_size=1024,
        window_chunks=window_chunks,
        prefetch=prefetch,
        label_nbytes=8,
        n_epochs=n_epochs,
        sampling=None,
    ).nbytes


def test_one_window_is_read_ahead_where_it_fits_and_none_where_only_that_does():
    layout = layout_of_mib(100)
    assert prefetch_of(layout, 4) == 1
    assert prefetch_of(layout, 4, memory_limit=cost_of(layout, 4, 1)) == 1
    assert prefetch_of(layout, 4, memory_limit=cost_of(layout, 4, 1) - 1) == 0
    assert prefetch_of(layout, 4, memory_limit=cost_of(layout, 4, 0)) == 0
    with pytest.raises(BudgetError, match="1 window"):
        prefetch_of(layout, 4, memory_limit=cost_of(layout, 4, 0) - 1)


def test_reading_ahead_across_epochs_counts():
    layout = layout_of_mib(4)  # one window holds the store
    limit = cost_of(layout, 4, 1, n_epochs=2) - 1
    assert prefetch_of(layout, 4, memory_limit=limit, n_epochs=1) == 1
    assert prefetch_of(layout, 4, memory_limit=limit, n_epochs=2) == 0


def test_a_prefetch_by_name_is_refused_with_the_largest_that_fits():
    layout = layout_of_mib(100)
    limit = cost_of(layout, 4, 2)
    assert prefetch_of(layout, 4, requested=2, memory_limit=limit) == 2
    with pytest.raises(BudgetError, match="The largest prefetch that fits is 2"):
        prefetch_of(layout, 4, requested=9, memory_limit=limit)
    with pytest.raises(BudgetError, match=r"largest prefetch that fits with a window of 4 is 2\."):
        window(layout, requested=4, prefetch=9, memory_limit=limit)


@given(st.integers(60 * MiB, 400 * MiB))
def test_without_a_prefetch_a_window_is_refused_only_where_none_fits_alone(limit):
    layout = layout_of_mib(20)
    smallest = cost_of(layout, 1, 0)
    if limit < smallest:
        with pytest.raises(BudgetError):
            window(layout, prefetch=None, memory_limit=limit)
        return
    chosen = window(layout, prefetch=None, memory_limit=limit)
    assert cost_of(layout, chosen, prefetch_of(layout, chosen, memory_limit=limit)) <= limit
    if limit >= cost_of(layout, 1, 1, n_epochs=2):  # as it was: room for reading ahead goes before a larger window
        assert chosen == window(layout, prefetch=1, memory_limit=limit)
    else:
        assert chosen == window(layout, prefetch=0, memory_limit=limit)


@given(st.integers(2, 40), st.integers(0, 5), st.integers(1, 3), st.integers(1, 40), st.integers(50 * MiB, 900 * MiB))
def test_the_largest_window_that_is_named_is_the_largest(n_chunks, prefetch, n_epochs, requested, limit):
    layout = layout_of_mib(n_chunks)
    fitting = [w for w in range(1, min(requested, n_chunks) + 1) if cost_of(layout, w, prefetch, n_epochs) <= limit]
    options = {"requested": requested, "prefetch": prefetch, "memory_limit": limit, "n_epochs": n_epochs}
    if min(requested, n_chunks) in fitting:
        assert window(layout, **options) == min(requested, n_chunks)
        return
    remedy = f"The largest window that fits is {fitting[-1]} chunks" if fitting else "Raise memory_limit"
    with pytest.raises(BudgetError, match=remedy):
        window(layout, **options)


def test_millions_of_chunks_are_planned_in_a_bounded_number_of_tries(monkeypatch):
    layout = StoreLayout(n_rows=200_000_000, n_features=4, chunk_rows=100, itemsize=4)
    tried = []

    def counted(*args, **options):
        tried.append(options["window_chunks"])
        return stream_budget(*args, **options)

    monkeypatch.setattr("streamfit.plan.window.stream_budget", counted)
    with pytest.raises(BudgetError, match=r"The largest window that fits is (\d+) chunks") as refusal:
        window(layout, requested=layout.n_chunks, memory_limit=400 * MiB)
    assert len(tried) < 100
    largest = int(str(refusal.value).split("fits is ")[1].split(" ")[0])
    assert largest > 1_000
    assert window(layout, requested=largest, memory_limit=400 * MiB) == largest
    with pytest.raises(BudgetError):
        window(layout, requested=largest + 1, memory_limit=400 * MiB)


def test_the_order_of_very_many_chunks_is_in_the_budget():
    layout = StoreLayout(n_rows=200_000_000, n_features=4, chunk_rows=100, itemsize=4)
    budget = stream_budget(
        layout, batch_size=100, window_chunks=16, prefetch=1, label_nbytes=0, n_epochs=2, sampling=None
    )
    planned = dict(budget.parts)["chunk order"]
    tracemalloc.start()
    try:
        plans = [EpochPlan(layout, 100, seed=0, epoch=e, shuffle="window", window_chunks=16) for e in range(3)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(plans) == 3
    assert 0.5 * planned < peak <= planned
    small = stream_budget(
        layout_of_mib(100), batch_size=1024, window_chunks=4, prefetch=1, label_nbytes=0, n_epochs=1, sampling=None
    )
    assert "chunk order" not in dict(small.parts)


def test_tasks_that_fit():
    def fit(limit):
        return tasks_that_fit(task_nbytes=10 * MiB, shared_nbytes=0, n_workers=8, memory_limit=limit, remedy="Do this.")

    assert fit(None) == 8
    assert fit(48 * MiB + 35 * MiB) == 3
    with pytest.raises(BudgetError, match=r"Do this\."):
        fit(48 * MiB + 9 * MiB)


@pytest.mark.parametrize(
    "limit",
    ["0", -5, "2 bananas", "inf", float("inf"), float("nan"), "", "MB", True, [1], ["1"], {"1": 1}, b"1", object()],
)
def test_a_limit_that_is_none(limit):
    with pytest.raises(InvalidParameterError, match="memory_limit must be"):
        parse_memory_limit(limit)
