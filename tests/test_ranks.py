"""One epoch dealt to several processes, and a stream that goes on where another one stopped."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import StoreLayout
from streamfit.plan.ranks import share_of_rank

N_RANKS = [1, 2, 3, 8]


@st.composite
def layouts(draw):
    if draw(st.booleans()):
        return StoreLayout(draw(st.integers(1, 300)), 2, draw(st.integers(1, 40)), 4)
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=30))
    starts = tuple(int(edge) for edge in np.cumsum([0, *sizes[:-1]]))
    return StoreLayout(sum(sizes), 2, 20, 4, starts=starts)


@st.composite
def plans_of_ranks(draw, **options):
    layout, window = draw(layouts()), draw(st.integers(1, 5))
    shuffle = draw(st.sampled_from(["window", "none"]))
    batch_size = draw(st.integers(1, layout.rows_of_chunks(window) if shuffle == "window" else layout.n_rows))
    n_ranks = draw(st.sampled_from(N_RANKS))
    first = EpochPlan(
        layout,
        batch_size=batch_size,
        seed=draw(st.integers(0, 2**40)),
        epoch=draw(st.integers(0, 5)),
        shuffle=shuffle,
        window_chunks=window,
        n_ranks=n_ranks,
        **options,
    )
    return [replace(first, rank=rank) for rank in range(n_ranks)]


def rows_of(plan):
    return np.concatenate([batch.rows for batch in plan] or [np.empty(0, dtype=np.int64)])


# -- ranks -------------------------------------------------------------------------------------------


@settings(max_examples=75, deadline=None)
@given(plans_of_ranks())
def test_ranks_together_take_every_row_exactly_once(plans):
    taken = np.concatenate([rows_of(plan) for plan in plans])
    np.testing.assert_array_equal(np.sort(taken), np.arange(plans[0].layout.n_rows))
    assert [plan.n_rows for plan in plans] == [len(rows_of(plan)) for plan in plans]


@settings(max_examples=50, deadline=None)
@given(plans_of_ranks())
def test_no_chunk_is_read_by_two_ranks_and_shares_differ_by_one_chunk(plans):
    chunks = np.concatenate([plan.chunk_order for plan in plans])
    np.testing.assert_array_equal(np.sort(chunks), np.arange(plans[0].layout.n_chunks))
    rows = [plan.n_rows for plan in plans]
    largest = int(plans[0].layout.chunk_sizes.max())
    if plans[0].shuffle == "window":
        assert max(rows) - min(rows) <= largest
    else:
        assert all(abs(n - plans[0].layout.n_rows / len(plans)) <= largest for n in rows)


@settings(max_examples=50, deadline=None)
@given(plans_of_ranks(), st.integers(0, 5))
def test_every_epoch_has_as_many_steps_for_a_rank(plans, epoch):
    assert [len(replace(plan, epoch=epoch)) for plan in plans] == [len(plan) for plan in plans]


@settings(max_examples=50, deadline=None)
@given(plans_of_ranks())
def test_without_shuffle_each_rank_has_consecutive_rows(plans):
    plans = [replace(plan, shuffle="none") for plan in plans]
    np.testing.assert_array_equal(np.concatenate([rows_of(plan) for plan in plans]), np.arange(plans[0].layout.n_rows))


@settings(max_examples=50, deadline=None)
@given(plans_of_ranks(), st.data())
def test_a_step_of_a_rank_alone_equals_the_iteration(plans, data):
    plan = data.draw(st.sampled_from(plans))
    walked = list(plan)
    assert len(walked) == len(plan)
    sizes = [len(batch.rows) for batch in walked]
    assert all(size == plan.batch_size for size in sizes[:-1])
    for step, batch in enumerate(walked):
        np.testing.assert_array_equal(plan[step].rows, batch.rows)
        found = [plan.window_rows(piece.window, piece.positions) for piece in batch.pieces]
        np.testing.assert_array_equal(np.concatenate(found), batch.rows)


@settings(max_examples=50, deadline=None)
@given(plans_of_ranks())
def test_steps_of_chunk_knows_which_rank_takes_it(plans):
    layout = plans[0].layout
    for plan in plans:
        step_of = np.full(layout.n_rows, -1)
        for batch in plan:
            step_of[batch.rows] = batch.step
        found = [plan.steps_of_chunk(chunk) for chunk in range(layout.n_chunks)]
        np.testing.assert_array_equal(np.concatenate(found), step_of)


def plan_of(n_rows=100, chunk_rows=10, **changes):
    layout = StoreLayout(n_rows=n_rows, n_features=2, chunk_rows=chunk_rows, itemsize=4)
    options = {"batch_size": 8, "seed": 0, "epoch": 0, "shuffle": "window", "window_chunks": 2}
    return EpochPlan(layout, **(options | changes))


def test_chunks_are_dealt_anew_in_each_epoch():
    owned = {tuple(np.sort(plan_of(epoch=epoch, n_ranks=2).chunk_order).tolist()) for epoch in range(8)}
    assert len(owned) > 4


def test_no_two_windows_of_an_epoch_are_shuffled_alike():
    plans = [plan_of(n_ranks=2, rank=rank) for rank in range(2)]
    orders = [plan.window_permutation(window).tolist() for plan in plans for window in range(2)]
    assert len({tuple(order) for order in orders}) == 4


def test_more_ranks_than_chunks():
    plans = [plan_of(n_rows=25, n_ranks=5, rank=rank) for rank in range(5)]
    assert [plan.n_rows for plan in plans] == [10, 10, 5, 0, 0]
    assert [len(plan) for plan in plans] == [2, 2, 1, 0, 0]
    assert [plan.n_windows for plan in plans] == [1, 1, 1, 0, 0]
    assert list(plans[4]) == []
    assert plans[4].steps_of_chunk(0).tolist() == [-1] * 10
    with pytest.raises(IndexError):
        plans[4][0]


def test_drop_last_and_min_batch_hold_for_each_rank():
    assert [len(plan_of(n_ranks=3, rank=rank, drop_last=True)) for rank in range(3)] == [5, 3, 3]
    merged = [[len(b.rows) for b in plan_of(n_ranks=3, rank=rank, min_batch=7)] for rank in range(3)]
    assert merged == [[8] * 5, [8, 8, 14], [8, 8, 14]]


def test_all_ranks_refuse_alike_where_one_cannot_make_a_batch():
    told = set()
    for rank in range(3):
        with pytest.raises(InvalidDataError) as caught:
            plan_of(n_rows=25, n_ranks=3, rank=rank, min_batch=6)
        told.add(str(caught.value))
    assert told == {"There are 5 rows for rank 2 and a batch needs 6. Give more rows or lower min_batch or n_ranks."}
    # One rank of many may drop all that it has, not all ranks.
    assert [len(plan_of(n_rows=25, n_ranks=3, rank=rank, drop_last=True)) for rank in range(3)] == [1, 1, 0]
    with pytest.raises(InvalidDataError, match="No batch is left: 10 rows, batch_size=11"):
        plan_of(n_rows=25, n_ranks=3, batch_size=11, drop_last=True)


@pytest.mark.parametrize(("rank", "n_ranks"), [(1, 1), (3, 3), (-1, 2), (0, 0), (True, 2), (0.0, 2)])
def test_ranks_that_are_none_are_refused(rank, n_ranks):
    with pytest.raises(InvalidParameterError, match="rank"):
        plan_of(rank=rank, n_ranks=n_ranks)


def test_one_rank_is_the_plan_as_it_was():
    assert "n_ranks" not in plan_of().describe()
    prints = {plan_of(n_ranks=2, rank=rank).fingerprint for rank in range(2)} | {plan_of().fingerprint}
    assert len(prints) == 3
    assert plan_of(n_ranks=np.int64(2)).fingerprint == plan_of(n_ranks=2).fingerprint


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=30), st.sampled_from(N_RANKS))
def test_cuts_between_ranks_are_the_nearest_edges(sizes, n_ranks):
    sizes = np.array(sizes, dtype=np.int64)
    shares = [share_of_rank(sizes, rank=rank, n_ranks=n_ranks, contiguous=True) for rank in range(n_ranks)]
    np.testing.assert_array_equal(np.concatenate([places for places, _ in shares]), np.arange(len(sizes)))
    for _, rows in shares:
        np.testing.assert_array_equal(rows, [sizes[others].sum() for others, _ in shares])
    ends = np.cumsum(shares[0][1])
    edges = np.concatenate(([0], np.cumsum(sizes)))
    for rank, end in enumerate(ends.tolist()):
        share = (rank + 1) * edges[-1] / n_ranks
        assert abs(end - share) == pytest.approx(np.abs(edges - share).min())


# -- states ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(203, 3)).astype(np.float32)
    return sf.ingest(X, tmp_path_factory.mktemp("ranks") / "store", y=np.arange(203) % 3, chunk_rows=10)


@pytest.mark.parametrize("n_ranks", N_RANKS)
@pytest.mark.parametrize("view", [False, True])
def test_the_stream_of_each_rank_is_its_plan(store, n_ranks, view):
    rows = store.select(np.arange(203) % 5 != 0) if view else store
    taken = []
    for rank in range(n_ranks):
        plan = rows.plan(batch_size=16, window=2, n_ranks=n_ranks, rank=rank)
        batches = list(rows.stream(plan))
        assert len(batches) == len(plan)
        for batch in batches:
            np.testing.assert_array_equal(batch.rows, plan[batch.step].rows)
            np.testing.assert_array_equal(batch.X, rows.take(batch.rows))
            np.testing.assert_array_equal(batch.y, rows.take_labels(batch.rows))
        taken.extend(batch.rows for batch in batches)
    np.testing.assert_array_equal(np.sort(np.concatenate(taken)), np.arange(rows.n_rows))


def test_a_rank_without_rows_streams_nothing(store):
    plan = store.plan(batch_size=16, window=2, n_ranks=30, rank=29)
    assert len(plan) == 0
    assert list(store.stream(plan)) == []
    state = plan.state(0)
    assert (state.epoch, state.step) == (1, 0)
    assert list(store.stream(plan, state=state)) == []


@pytest.mark.parametrize("options", [{}, {"n_ranks": 3, "rank": 1}, {"shuffle": "none"}])
def test_a_stream_goes_on_at_every_step_of_any_epoch(store, options):
    first = store.plan(batch_size=16, window=2, **options)
    for epoch in (0, 1):
        plan = replace(first, epoch=epoch)
        whole = list(store.stream(plan))
        for step in range(len(plan)):
            text = json.dumps(plan.state(step).to_dict())
            rest = list(store.stream(first, state=sf.StreamState.from_dict(json.loads(text))))
            assert [(batch.epoch, batch.step) for batch in rest] == [(epoch, s) for s in range(step, len(plan))]
            for batch in rest:
                np.testing.assert_array_equal(batch.X, whole[batch.step].X)
        ended = plan.state(len(plan))
        assert (ended.epoch, ended.step) == (epoch + 1, 0)
        assert [batch.epoch for batch in store.stream(first, state=ended)] == [epoch + 1] * len(plan)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"batch_size": 17}, "batch_size was 17 and is 16."),
        ({"seed": 3, "drop_last": True}, "drop_last was True and is False; seed was 3 and is 0."),
        ({"n_ranks": 2, "rank": 1}, "n_ranks was 2 and is None; rank was 1 and is None."),
        ({"shuffle": "none"}, "shuffle was 'none' and is 'window'."),
        ({"window": 3}, "window_chunks was 3 and is 2."),
    ],
)
def test_a_state_of_another_plan_is_refused_by_what_differs(store, changes, told):
    plan = store.plan(batch_size=16, window=2)
    state = store.plan(**({"batch_size": 16, "window": 2} | changes)).state(1)
    with pytest.raises(InvalidParameterError, match=re.escape(f"The state is of another plan: {told}")):
        store.stream(plan, state=state)
    bare = sf.StreamState(state.fingerprint, state.epoch, state.step)
    with pytest.raises(InvalidParameterError, match="its fingerprint is"):
        store.stream(plan, state=bare)


def test_a_state_from_a_numpy_that_draws_other_orders_is_refused(store):
    plan = store.plan(batch_size=16, window=2)
    values = plan.state(1).to_dict()
    values["definition"]["numpy_streams"] = "others"
    with pytest.raises(InvalidParameterError, match="numpy_streams was 'others'"):
        store.stream(plan, state=sf.StreamState.from_dict(values))


def test_states_that_are_none_are_refused(store):
    plan = store.plan(batch_size=16, window=2)
    with pytest.raises(InvalidParameterError, match="Give one of them"):
        store.stream(plan, start_step=1, state=plan.state(2))
    with pytest.raises(InvalidParameterError, match="step must be an integer in"):
        plan.state(len(plan) + 1)
    with pytest.raises(InvalidParameterError, match="step must be an integer in"):
        store.stream(plan, state=replace(plan.state(1), step=len(plan)))
    for wrong in ("text", {"fingerprint": 3, "epoch": 0, "step": 0}, {"fingerprint": "a", "epoch": -1, "step": 0}):
        with pytest.raises(InvalidParameterError, match="This is no state of a stream"):
            sf.StreamState.from_dict(wrong)
    assert pickle.loads(pickle.dumps(plan.state(3))) == plan.state(3)
    assert plan.state(3) == sf.StreamState(plan.fingerprint, 0, 3)
    assert hash(plan.state(3)) == hash(sf.StreamState(plan.fingerprint, 0, 3))
