"""The order of the rows: each row once, at any step, whatever the shape."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import StoreLayout
from streamfit.plan.seeds import streams_canary


@st.composite
def plans(draw, drop_last=(False, True)):
    layout = StoreLayout(
        n_rows=draw(st.integers(1, 300)), n_features=2, chunk_rows=draw(st.integers(1, 40)), itemsize=4
    )
    window = draw(st.integers(1, 9))
    shuffle = draw(st.sampled_from(["window", "none"]))
    window_rows = min(window * layout.chunk_rows, layout.n_rows)
    batch_size = draw(st.integers(1, window_rows if shuffle == "window" else 350))
    drop = draw(st.sampled_from(drop_last)) and batch_size <= layout.n_rows
    return EpochPlan(
        layout,
        batch_size=batch_size,
        seed=draw(st.integers(0, 2**40)),
        epoch=draw(st.integers(0, 5)),
        shuffle=shuffle,
        window_chunks=window,
        min_batch=draw(st.integers(1, min(batch_size, layout.n_rows))),
        drop_last=drop,
    )


@settings(max_examples=200, deadline=None)
@given(plans(drop_last=(False,)))
def test_every_row_exactly_once(plan):
    rows = np.concatenate([batch.rows for batch in plan])
    np.testing.assert_array_equal(np.sort(rows), np.arange(plan.layout.n_rows))


@settings(max_examples=100, deadline=None)
@given(plans(drop_last=(True,)))
def test_drop_last_leaves_only_full_batches_and_never_repeats(plan):
    rows = np.concatenate([batch.rows for batch in plan])
    assert len(np.unique(rows)) == len(rows)
    if plan.drop_last:
        assert len(rows) == plan.layout.n_rows // plan.batch_size * plan.batch_size
        assert {len(batch.rows) for batch in plan} == {plan.batch_size}


@settings(max_examples=100, deadline=None)
@given(plans(), st.data())
def test_a_step_alone_equals_the_iteration(plan, data):
    step = data.draw(st.integers(0, len(plan) - 1))
    walked = list(plan)
    np.testing.assert_array_equal(plan[step].rows, walked[step].rows)
    np.testing.assert_array_equal(plan[step - len(plan)].rows, walked[step].rows)
    assert [batch.step for batch in walked] == list(range(len(plan)))
    for outside in (len(plan), -len(plan) - 1):
        with pytest.raises(IndexError):
            plan[outside]


@settings(max_examples=100, deadline=None)
@given(plans())
def test_sizes_of_batches(plan):
    sizes = [len(batch.rows) for batch in plan]
    assert all(size == plan.batch_size for size in sizes[:-1])
    assert plan.min_batch <= sizes[-1] < plan.batch_size + plan.min_batch


@settings(max_examples=100, deadline=None)
@given(plans())
def test_pieces_find_the_rows_in_the_windows_buffers(plan):
    for batch in plan:
        found = [plan.window_rows(piece.window, piece.positions) for piece in batch.pieces]
        np.testing.assert_array_equal(np.concatenate(found), batch.rows)
        for piece in batch.pieces:
            starts = plan.window_chunk_ids(piece.window) * plan.layout.chunk_rows
            stops = np.minimum(starts + plan.layout.chunk_rows, plan.layout.n_rows)
            buffer = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
            np.testing.assert_array_equal(buffer[piece.positions], plan.window_rows(piece.window, piece.positions))


@settings(max_examples=100, deadline=None)
@given(plans())
def test_steps_of_chunk_is_the_inverse(plan):
    step_of = np.full(plan.layout.n_rows, -1)
    for batch in plan:
        step_of[batch.rows] = batch.step
    for chunk in range(plan.layout.n_chunks):
        start, stop = plan.layout.chunk_bounds(chunk)
        np.testing.assert_array_equal(plan.steps_of_chunk(chunk), step_of[start:stop])


@settings(max_examples=100, deadline=None)
@given(plans())
def test_windows_are_whole_chunks_and_the_shuffle_never_crosses_them(plan):
    order = np.concatenate([plan.window_rows(w, plan.window_permutation(w)) for w in range(plan.n_windows)])
    chunks = [plan.window_chunk_ids(w) for w in range(plan.n_windows)]
    np.testing.assert_array_equal(np.sort(np.concatenate(chunks)), np.arange(plan.layout.n_chunks))
    for window, ids in enumerate(chunks):
        start, stop = plan.window_bounds(window)
        assert set((order[start:stop] // plan.layout.chunk_rows).tolist()) == set(ids.tolist())
        assert all(plan.window_of_position(p) == window for p in range(start, stop))


def plan_of(n_rows=35, chunk_rows=8, **changes):
    layout = StoreLayout(n_rows=n_rows, n_features=2, chunk_rows=chunk_rows, itemsize=4)
    given_ = {"batch_size": 10, "seed": 0, "epoch": 0, "shuffle": "window", "window_chunks": 2}
    return EpochPlan(layout, **(given_ | changes))


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        pytest.param({}, [10, 10, 10, 5], id="short-tail-kept"),
        pytest.param({"drop_last": True}, [10, 10, 10], id="short-tail-dropped"),
        pytest.param({"min_batch": 5}, [10, 10, 10, 5], id="tail-of-min-batch-kept"),
        pytest.param({"min_batch": 6}, [10, 10, 15], id="tail-below-min-batch-merged"),
        pytest.param({"min_batch": 6, "drop_last": True}, [10, 10, 10], id="drop-last-wins-over-min-batch"),
        pytest.param({"batch_size": 7, "drop_last": True}, [7] * 5, id="no-tail"),
        pytest.param({"shuffle": "none", "batch_size": 100}, [35], id="batch-larger-than-all"),
        pytest.param({"window_chunks": 99}, [10, 10, 10, 5], id="window-larger-than-all"),
    ],
)
def test_thirty_five_rows(changes, sizes):
    assert [len(batch.rows) for batch in plan_of(**changes)] == sizes


def test_one_row():
    assert plan_of(n_rows=1)[0].rows.tolist() == [0]


def test_without_shuffle_rows_keep_their_order():
    rows = np.concatenate([batch.rows for batch in plan_of(shuffle="none", epoch=3)])
    np.testing.assert_array_equal(rows, np.arange(35))


def test_seeds_and_epochs_give_other_orders():
    def order(**changes):
        plan = plan_of(n_rows=350, **changes)
        return tuple(np.concatenate([batch.rows for batch in plan]).tolist())

    orders = {order(seed=seed, epoch=epoch) for seed in range(4) for epoch in range(4)}
    # In particular (seed 0, epoch 1) is not (seed 1, epoch 0), as it is where the two are added.
    assert len(orders) == 16
    assert order(seed=3, epoch=2) == order(seed=3, epoch=2)


def test_the_order_is_pinned():
    # Checkpoints of earlier releases rely on it: a change needs another plan version.
    plan = plan_of()
    assert plan[0].rows.tolist() == [11, 25, 29, 26, 12, 13, 15, 28, 24, 10]
    assert streams_canary() == "2a3b0c8581907feac9d68190ebe74877c98af30b098f516183da8e862cdcc368"


def test_fingerprint_knows_what_defines_the_order_and_nothing_else():
    base = plan_of().fingerprint
    changed = [
        {"n_rows": 36},
        {"chunk_rows": 9},
        {"batch_size": 9},
        {"seed": 1},
        {"shuffle": "none"},
        {"window_chunks": 3},
        {"min_batch": 2},
        {"drop_last": True},
    ]
    prints = {plan_of(**change).fingerprint for change in changed}
    assert len(prints) == len(changed)
    assert base not in prints
    assert plan_of(epoch=4).fingerprint == base
    assert plan_of(batch_size=np.int64(10), seed=np.uint8(0)).fingerprint == base
    assert pickle.loads(pickle.dumps(plan_of())).fingerprint == base


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param({"batch_size": 0}, InvalidParameterError, "batch_size must be an int", id="batch-zero"),
        pytest.param({"batch_size": 2.5}, InvalidParameterError, r"got 2\.5", id="batch-fraction"),
        pytest.param({"seed": -1}, InvalidParameterError, "seed must be an integer of at least 0", id="seed"),
        pytest.param({"epoch": True}, InvalidParameterError, "epoch must be an int", id="boolean"),
        pytest.param({"drop_last": "no"}, InvalidParameterError, "drop_last must be True or False", id="drop_last"),
        pytest.param({"shuffle": "full"}, InvalidParameterError, "'window' or 'none'", id="shuffle"),
        pytest.param(
            {"batch_size": 17},
            InvalidParameterError,
            r"batch_size \(17\) exceeds the window \(16 rows\)",
            id="window",
        ),
        pytest.param({"min_batch": 11}, InvalidParameterError, "exceeds batch_size", id="min-batch"),
        pytest.param({"n_rows": 3, "min_batch": 4}, InvalidDataError, "a batch needs 4", id="too-few-rows"),
        pytest.param({"n_rows": 3, "drop_last": True}, InvalidDataError, "No batch is left", id="nothing-left"),
    ],
)
def test_refusals(changes, error, message):
    with pytest.raises(error, match=message):
        plan_of(**changes)
