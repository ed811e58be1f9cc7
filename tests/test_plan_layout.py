"""Chunks of any sizes: what they hold, and the order that follows from them."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfit.errors import InvalidParameterError
from streamfit.maths.neighbors.memory import windows_outside
from streamfit.plan.budget import stream_budget
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import StoreLayout
from streamfit.plan.window import resolve_window


def layout_of(sizes, *, chunk_rows=None, aside_rows=0):
    starts = tuple(np.cumsum([0, *sizes[:-1]]).tolist())
    return StoreLayout(sum(sizes), 2, chunk_rows or max(sizes), 4, starts=starts, aside_rows=aside_rows)


sizes_of_chunks = st.lists(st.integers(1, 20), min_size=1, max_size=30)


@st.composite
def plans(draw):
    layout = layout_of(draw(sizes_of_chunks), chunk_rows=20)
    window = draw(st.integers(1, 9))
    shuffle = draw(st.sampled_from(["window", "none"]))
    most = layout.rows_of_chunks(window) if shuffle == "window" else layout.n_rows
    batch_size = draw(st.integers(1, most))
    return EpochPlan(
        layout,
        batch_size=batch_size,
        seed=draw(st.integers(0, 2**40)),
        epoch=draw(st.integers(0, 5)),
        shuffle=shuffle,
        window_chunks=window,
        min_batch=draw(st.integers(1, batch_size)),
        drop_last=draw(st.booleans()),
    )


@given(sizes_of_chunks)
def test_chunks_and_partitions_cover_the_rows(sizes):
    layout = layout_of(sizes, chunk_rows=20)
    assert layout.n_chunks == len(sizes)
    assert layout.chunk_sizes.tolist() == sizes
    owners = np.repeat(np.arange(len(sizes)), sizes)
    np.testing.assert_array_equal(layout.chunk_at(np.arange(layout.n_rows)), owners)
    for chunk in range(layout.n_chunks):
        start, stop = layout.chunk_bounds(chunk)
        np.testing.assert_array_equal(np.flatnonzero(owners == chunk), np.arange(start, stop))
    assert sum(layout.partition_rows()) == layout.n_rows
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert hash(pickle.loads(pickle.dumps(layout))) == hash(layout)


@given(sizes_of_chunks, st.data())
def test_chunks_between_are_those_that_hold_a_row(sizes, data):
    layout = layout_of(sizes, chunk_rows=20)
    start = data.draw(st.integers(0, layout.n_rows - 1))
    stop = data.draw(st.integers(start + 1, layout.n_rows))
    owners = np.repeat(np.arange(len(sizes)), sizes)
    assert list(layout.chunks_between(start, stop)) == np.unique(owners[start:stop]).tolist()


@given(sizes_of_chunks, st.integers(1, 20), st.integers(1, 500))
def test_chunks_within_rows_are_as_many_as_hold_no_more(sizes, chunk_rows, n_rows):
    regular = StoreLayout(sum(sizes), 2, chunk_rows, 4)
    for layout in (layout_of(sizes, chunk_rows=20), regular):
        largest_first = np.cumsum(np.sort(layout.chunk_sizes)[::-1])
        found = layout.chunks_within_rows(n_rows)
        assert found == 1 or largest_first[found - 1] <= n_rows
        # A short last chunk is one more where there is room for all rows.
        expected = np.count_nonzero(largest_first <= n_rows) if layout is regular else None
        assert expected is None or found == max(1, expected)
        assert n_rows < layout.n_rows or found == layout.n_chunks


@given(plans())
def test_every_row_exactly_once(plan):
    rows = np.concatenate([batch.rows for batch in plan])
    n_rows = plan.layout.n_rows
    if plan.drop_last:
        assert len(rows) == n_rows // plan.batch_size * plan.batch_size
        assert len(np.unique(rows)) == len(rows)
    else:
        np.testing.assert_array_equal(np.sort(rows), np.arange(n_rows))


@given(plans(), st.data())
def test_a_step_alone_equals_the_iteration(plan, data):
    step = data.draw(st.integers(0, len(plan) - 1))
    np.testing.assert_array_equal(plan[step].rows, list(plan)[step].rows)


@given(plans())
def test_pieces_find_the_rows_in_the_windows_buffers(plan):
    for batch in plan:
        found = []
        for piece in batch.pieces:
            bounds = [plan.layout.chunk_bounds(int(chunk)) for chunk in plan.window_chunk_ids(piece.window)]
            buffer = np.concatenate([np.arange(start, stop) for start, stop in bounds])
            assert len(buffer) == np.diff(plan.window_bounds(piece.window))[0]
            found.append(buffer[piece.positions])
        np.testing.assert_array_equal(np.concatenate(found), batch.rows)


@given(plans())
def test_steps_of_a_chunk_are_the_inverse(plan):
    step_of_row = np.full(plan.layout.n_rows, -1)
    for batch in plan:
        step_of_row[batch.rows] = batch.step
    found = [plan.steps_of_chunk(chunk) for chunk in range(plan.layout.n_chunks)]
    np.testing.assert_array_equal(np.concatenate(found), step_of_row)


@pytest.mark.parametrize(
    ("layout", "options", "fingerprint", "order"),
    [
        pytest.param((1003, 3, 64, 4), {"window_chunks": 4}, "b02bb69d854a65f1", "6c170d603f9ff868", id="ragged"),
        pytest.param(
            (37, 2, 1, 8),
            {"batch_size": 5, "seed": 1, "epoch": 0, "window_chunks": 7},
            "6e6c6f950763782b",
            "b88cda2e370aa9ee",
            id="one row a chunk",
        ),
        pytest.param(
            (10, 2, 64, 8),
            {"batch_size": 4, "seed": 0, "epoch": 5, "window_chunks": 1},
            "489e4209266c0bf8",
            "a0bd017f33114c58",
            id="one chunk",
        ),
        pytest.param(
            (640, 5, 64, 4),
            {"batch_size": 64, "seed": 9, "epoch": 1, "window_chunks": 3},
            "2e730fb350396a6f",
            "625134ae9308371e",
            id="whole chunks",
        ),
        pytest.param(
            (1003, 3, 64, 4),
            {"shuffle": "none", "window_chunks": 4},
            "458ad89cd699a383",
            "2d15d7b1c1a2d3d7",
            id="unshuffled",
        ),
        pytest.param(
            (1003, 3, 64, 4),
            {"window_chunks": 5, "min_batch": 10},
            "36766e5788c53a43",
            "d571bf4bb7ce0557",
            id="merged tail",
        ),
        pytest.param(
            (1003, 3, 64, 4),
            {"window_chunks": 5, "drop_last": True},
            "35d298348aad38d9",
            "280cb8f7c0293473",
            id="dropped tail",
        ),
    ],
)
def test_the_order_of_regular_chunks_is_kept_for_good(layout, options, fingerprint, order):
    """Checkpoints of earlier versions go on only where plans stay as they were."""
    defaults = {"batch_size": 50, "seed": 3, "epoch": 2, "shuffle": "window"}
    plan = EpochPlan(StoreLayout(*layout), **{**defaults, **options})
    digest = hashlib.sha256()
    for batch in plan:
        digest.update(batch.rows.astype("<i8").tobytes())
        for piece in batch.pieces:
            digest.update(piece.positions.astype("<i8").tobytes())
    for chunk in range(plan.layout.n_chunks):
        digest.update(plan.steps_of_chunk(chunk).astype("<i8").tobytes())
    assert plan.fingerprint.startswith(fingerprint)
    assert digest.hexdigest().startswith(order)


def test_chunks_that_happen_to_be_regular_are_the_regular_layout():
    assert layout_of([5, 5, 2]) == StoreLayout(12, 2, 5, 4)
    assert layout_of([5, 5, 2]).starts is None
    assert layout_of([3], chunk_rows=100) == StoreLayout(3, 2, 100, 4)


def test_where_chunks_begin_is_part_of_the_fingerprint():
    first, second, regular = (
        EpochPlan(layout, batch_size=2, seed=0, epoch=0, shuffle="window", window_chunks=1)
        for layout in (layout_of([3, 5, 4]), layout_of([4, 5, 3]), layout_of([5, 5, 2]))
    )
    assert len({first.fingerprint, second.fingerprint, regular.fingerprint}) == 3


@pytest.mark.parametrize(
    "starts",
    [
        pytest.param((), id="none"),
        pytest.param((1, 5), id="not from 0"),
        pytest.param((0, 5, 5), id="empty chunk"),
        pytest.param((0, 5, 4), id="descending"),
        pytest.param((0, 10), id="behind the last row"),
        pytest.param((0, 2), id="chunk too large"),
    ],
)
def test_starts_that_are_no_chunks_are_refused(starts):
    with pytest.raises(InvalidParameterError, match="starts"):
        StoreLayout(10, 2, 6, 4, starts=starts)


def test_what_is_decoded_aside_is_in_the_budget():
    def nbytes(aside_rows):
        layout = layout_of([3, 5, 4], aside_rows=aside_rows)
        return stream_budget(
            layout, batch_size=4, window_chunks=2, prefetch=1, label_nbytes=0, n_epochs=1, sampling=None
        ).nbytes

    # Encoded and decoded, of the two chunks that are read at a time.
    assert nbytes(1_000) - nbytes(0) == 2 * 2 * 1_000 * 8


@given(sizes_of_chunks, st.integers(1, 300))
def test_the_default_window_holds_a_batch(sizes, batch_size):
    layout = layout_of(sizes, chunk_rows=20)
    window = resolve_window(
        layout,
        batch_size=batch_size,
        requested=None,
        memory_limit=None,
        prefetch=1,
        label_nbytes=0,
        n_epochs=1,
        correlation=None,
        sampling=None,
    )
    EpochPlan(layout, batch_size=batch_size, seed=0, epoch=0, shuffle="window", window_chunks=window)


@given(sizes_of_chunks, st.integers(1, 60), st.data())
def test_windows_of_a_search_are_whole_chunks_outside_the_block(sizes, window_rows, data):
    layout = layout_of(sizes, chunk_rows=20)
    start = data.draw(st.integers(0, layout.n_rows))
    stop = data.draw(st.integers(start, layout.n_rows))
    windows = list(windows_outside(layout, start, stop, window_rows))
    rows = [row for first, last in windows for row in range(first, last)]
    assert rows == [*range(stop, layout.n_rows), *range(start)]
    assert all(0 < last - first <= max(20, window_rows) for first, last in windows)
    edges = {*layout.chunk_edges.tolist(), start, stop}
    assert all({first, last} <= edges for first, last in windows)


@pytest.mark.parametrize(
    ("sizes", "aside_rows", "row_nbytes", "expected"),
    [
        pytest.param([10] * 20, 1_000, 8, 20, id="all of a few rows"),
        pytest.param([10, 11] * 50, 1_000, 8, 64, id="not hundreds of stored chunks"),
        pytest.param([500, 600] * 50, 1_000, 8, 30, id="rows of sixteen stored chunks"),
        pytest.param([900, 1_000] * 50, 1_000, 8, 17, id="nearly full"),
        pytest.param([10, 11] * 50, 0, 8, 17, id="nearly as large as stored"),
        pytest.param([900, 1_000] * 50, 1_000, 64 * 1024, 4, id="at most 256 MiB"),
        pytest.param([1, 1_000] * 3, 1_000, 64 * 1024, 6, id="all in 256 MiB, though six full chunks are not"),
    ],
)
def test_the_default_window_of_a_view_aims_at_rows(sizes, aside_rows, row_nbytes, expected):
    layout = StoreLayout(
        sum(sizes), row_nbytes // 8, max(sizes), 8, starts=(0, *np.cumsum(sizes)[:-1].tolist()), aside_rows=aside_rows
    )
    options = {"batch_size": 5, "requested": None, "memory_limit": None, "prefetch": 1, "label_nbytes": 0}
    options |= {"n_epochs": 1, "correlation": None, "sampling": None}
    assert resolve_window(layout, **options) == expected
    tight = stream_budget(
        layout, batch_size=5, window_chunks=2, prefetch=1, label_nbytes=0, n_epochs=1, sampling=None
    ).nbytes
    assert resolve_window(layout, **{**options, "memory_limit": tight}) == min(expected, 2)
