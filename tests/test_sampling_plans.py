"""Which rows a sampled epoch takes, how often, and in which order: from values alone, without a store."""

from __future__ import annotations

import hashlib
import pickle
import tracemalloc
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.plan.balanced_rows import BalancedRows
from streamfit.plan.budget import stream_budget
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.even_order import even_order
from streamfit.plan.layout import StoreLayout
from streamfit.plan.sampling import StratifiedRows
from streamfit.plan.seeds import EpochSeed
from streamfit.plan.weighted_rows import WeightedRows, sum_in_order

_MOST_OFF = 3.36
"""Sum of the reciprocals of Fibonacci's numbers."""


@dataclass(frozen=True)
class Held:
    """Values in memory."""

    digest: str
    values: np.ndarray = field(compare=False)
    edges: np.ndarray = field(compare=False)

    def of(self, chunks):
        return np.concatenate([self.values[self.edges[chunk] : self.edges[chunk + 1]] for chunk in chunks.tolist()])


def held(layout, values):
    return Held(hashlib.sha256(values.tobytes()).hexdigest(), values, layout.chunk_edges)


def balanced(layout, classes):
    counts = [np.bincount(part, minlength=classes.max() + 1) for part in np.split(classes, layout.chunk_edges[1:-1])]
    before = np.cumsum([np.zeros_like(counts[0]), *counts], axis=0)
    return BalancedRows(held(layout, classes), before)


def weighted(layout, weights):
    sums = [sum_in_order(part) for part in np.split(weights, layout.chunk_edges[1:-1])]
    return WeightedRows(held(layout, weights), np.cumsum([0.0, *sums]), layout.n_rows)


def stratified(layout, classes):
    return StratifiedRows(held(layout, classes))


@st.composite
def layouts(draw):
    if draw(st.booleans()):
        return StoreLayout(draw(st.integers(1, 300)), 2, draw(st.integers(1, 40)), 4)
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=30))
    starts = tuple(int(edge) for edge in np.cumsum([0, *sizes[:-1]]))
    return StoreLayout(sum(sizes), 2, 20, 4, starts=starts)


@st.composite
def classes_of(draw, n_rows):
    n_classes = draw(st.integers(1, min(5, n_rows)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shares = rng.dirichlet(np.full(n_classes, draw(st.sampled_from([0.2, 1.0, 50.0]))))
    classes = rng.choice(n_classes, size=n_rows, p=shares)
    classes[rng.permutation(n_rows)[:n_classes]] = np.arange(n_classes)
    return (np.sort(classes) if draw(st.booleans()) else classes).astype(np.uint8)


@st.composite
def weights_of(draw, n_rows):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = ["equal", "whole", "exponential", "wide", "one"]
    weights = {
        "equal": lambda: np.full(n_rows, 0.1),
        "whole": lambda: rng.integers(0, 4, size=n_rows).astype(float),
        "exponential": lambda: rng.exponential(size=n_rows) * (rng.random(n_rows) < 0.7),
        "wide": lambda: 10.0 ** rng.uniform(-150, 150, size=n_rows),
        "one": lambda: np.zeros(n_rows),
    }[draw(st.sampled_from(kinds))]()
    if not weights.any():
        weights[rng.integers(n_rows)] = 3.0
    return weights


@st.composite
def plans(draw, kinds=("stratified", "balanced", "weighted"), n_ranks=1):
    layout, window = draw(layouts()), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(kinds))
    if kind == "weighted":
        sampling = weighted(layout, draw(weights_of(layout.n_rows)))
    else:
        sampling = {"stratified": stratified, "balanced": balanced}[kind](layout, draw(classes_of(layout.n_rows)))
    return EpochPlan(
        layout,
        batch_size=draw(st.integers(1, layout.rows_of_chunks(window))),
        seed=draw(st.integers(0, 2**40)),
        epoch=draw(st.integers(0, 5)),
        shuffle="window",
        window_chunks=window,
        n_ranks=n_ranks,
        sampling=sampling,
    )


def rows_of(plan):
    # Each window once: plan[step] makes its order anew for each step, and a test holds the two to each other.
    windows = [plan.window_rows(window, plan.window_permutation(window)) for window in range(plan.n_windows)]
    return np.concatenate(windows or [np.empty(0, dtype=np.int64)])


def copies_of(plan):
    return np.bincount(rows_of(plan), minlength=plan.layout.n_rows)


# -- even order --------------------------------------------------------------------------------------


def most_off(classes):
    """How far the count of a class in any run of rows is from its proportion."""
    worst = 0.0
    for number in np.unique(classes):
        share = np.mean(classes == number)
        before = np.concatenate(([0.0], np.cumsum((classes == number) - share)))
        worst = max(worst, before.max() - before.min())
    return worst


@settings(max_examples=120)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 2**32))
def test_every_run_of_rows_is_made_up_as_the_whole(counts, seed):
    classes = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    order = even_order(classes, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(order), np.arange(len(classes)))
    off = most_off(classes[order])
    assert off < (1 if len(counts) <= 2 else _MOST_OFF)


def test_many_classes_are_no_further_off():
    rng = np.random.default_rng(0)
    for counts in ([900] + [1] * 100, rng.integers(1, 40, size=300).tolist(), (1.5 ** np.arange(18)).astype(int) + 1):
        classes = np.repeat(np.arange(len(counts), dtype=np.uint16), counts)
        assert most_off(classes[even_order(classes, rng)]) < 2


def test_each_row_is_equally_likely_at_each_place():
    classes = np.array([0, 0, 0, 1, 1, 2], dtype=np.uint8)
    n_draws = 6_000
    found = np.zeros((6, 6))
    rng = np.random.default_rng(1)
    for _ in range(n_draws):
        found[even_order(classes, rng), np.arange(6)] += 1
    # Five standard deviations of a binomial share.
    assert np.abs(found / n_draws - 1 / 6).max() < 5 * np.sqrt(1 / 6 * 5 / 6 / n_draws)


# -- what an epoch takes -----------------------------------------------------------------------------


@settings(max_examples=40)
@given(plans())
def test_an_epoch_has_as_many_rows_as_the_store_and_random_access(plan):
    walked = list(plan)
    np.testing.assert_array_equal(rows_of(plan), np.concatenate([batch.rows for batch in walked]))
    assert sum(len(batch.rows) for batch in walked) == plan.n_rows == plan.layout.n_rows
    assert all(len(batch.rows) == plan.batch_size for batch in walked[:-1])
    for batch in walked:
        found = [plan.window_rows(piece.window, piece.positions) for piece in batch.pieces]
        np.testing.assert_array_equal(np.concatenate(found), batch.rows)
        np.testing.assert_array_equal(plan[batch.step].rows, batch.rows)
        for piece in batch.pieces:
            starts, stops = np.array([plan.layout.chunk_bounds(c) for c in plan.window_chunk_ids(piece.window)]).T
            buffer = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
            np.testing.assert_array_equal(buffer[piece.positions], plan.window_rows(piece.window, piece.positions))
    assert len(replace(plan, epoch=plan.epoch + 1)) == len(plan)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    np.testing.assert_array_equal(rows_of(again), rows_of(plan))


@settings(max_examples=50)
@given(plans())
def test_chunks_are_read_that_give_rows_and_no_others(plan):
    given_ = np.unique(plan.layout.chunk_at(rows_of(plan)))
    np.testing.assert_array_equal(np.sort(plan.chunk_order), given_)
    assert (np.diff(plan.window_edges) > 0).all()


@settings(max_examples=50)
@given(plans(), st.integers(1, 6))
def test_the_bound_of_draws_holds(plan, n_chunks):
    sizes = plan.layout.chunk_sizes
    draws = plan.sampling.draws_of_chunks(sizes, EpochSeed(plan.seed, plan.epoch))
    assert np.sort(draws)[::-1][:n_chunks].sum() <= plan.sampling.most_draws(sizes, n_chunks)


@settings(max_examples=50)
@given(plans(), st.sampled_from([2, 3, 8]))
def test_ranks_together_take_what_one_takes(plan, n_ranks):
    ranks = [replace(plan, n_ranks=n_ranks, rank=rank) for rank in range(n_ranks)]
    np.testing.assert_array_equal(sum(copies_of(rank) for rank in ranks), copies_of(plan))
    chunks = np.concatenate([rank.chunk_order for rank in ranks])
    assert len(np.unique(chunks)) == len(chunks)


@settings(max_examples=50)
@given(plans(kinds=("stratified",)))
def test_stratified_takes_each_row_once_and_spreads_the_classes_of_a_window(plan):
    np.testing.assert_array_equal(np.sort(rows_of(plan)), np.arange(plan.layout.n_rows))
    classes = plan.sampling.values.values
    for window in range(plan.n_windows):
        of_window = classes[plan.window_rows(window, plan.window_permutation(window))]
        assert most_off(of_window) < (1 if len(np.unique(of_window)) <= 2 else _MOST_OFF)
    step_of = np.empty(plan.layout.n_rows, dtype=np.int64)
    for batch in plan:
        step_of[batch.rows] = batch.step
    found = [plan.steps_of_chunk(chunk) for chunk in range(plan.layout.n_chunks)]
    np.testing.assert_array_equal(np.concatenate(found), step_of)


@settings(max_examples=50)
@given(plans(kinds=("balanced",)))
def test_balanced_gives_each_class_as_often_and_rows_of_it_within_one(plan):
    classes = plan.sampling.values.values
    counts = np.bincount(classes)
    copies = copies_of(plan)
    draws = np.bincount(classes, weights=copies).astype(int)
    whole, more = divmod(plan.layout.n_rows, len(counts))
    np.testing.assert_array_equal(draws, whole + (np.arange(len(counts)) < more))
    for number, (n_drawn, n_held) in enumerate(zip(draws, counts, strict=True)):
        assert set(copies[classes == number]) <= {n_drawn // n_held, -(-n_drawn // n_held)}
    for window in range(plan.n_windows):
        of_window = classes[plan.window_rows(window, plan.window_permutation(window))]
        assert most_off(of_window) < (1 if len(np.unique(of_window)) <= 2 else _MOST_OFF)


@settings(max_examples=60)
@given(plans(kinds=("weighted",)))
def test_weighted_gives_each_row_as_often_as_its_weight_says_within_one(plan):
    weights = plan.sampling.values.values
    expected = weights / weights.max()  # sums of what is far apart stay exact enough
    expected = plan.layout.n_rows * expected / expected.sum()
    copies = copies_of(plan)
    assert (copies >= np.floor(expected - 1e-6)).all()
    assert (copies <= np.ceil(expected + 1e-6)).all()
    assert not copies[weights == 0].any()


def test_equal_weights_and_one_class_take_each_row_once():
    layout = StoreLayout(1_000, 2, 33, 4)
    for sampling in (weighted(layout, np.full(1_000, 0.1)), balanced(layout, np.zeros(1_000, dtype=np.uint8))):
        for epoch in range(5):
            plan = EpochPlan(layout, 64, seed=0, epoch=epoch, shuffle="window", window_chunks=3, sampling=sampling)
            assert set(copies_of(plan)) == {1}


@pytest.mark.parametrize("kind", ["balanced", "weighted"])
def test_over_epochs_every_row_comes_as_often_as_is_expected(kind):
    # In chunks of which one epoch takes less than a row, none may be left out for good.
    layout = StoreLayout(400, 2, 8, 4)
    rng = np.random.default_rng(3)
    classes = (rng.random(400) < 0.01).astype(np.uint8)
    classes[:3] = 1
    if kind == "balanced":
        sampling, expected = balanced(layout, classes), 200 / np.bincount(classes)[classes]
    else:
        weights = np.where(classes, 60.0, 0.05) * rng.uniform(0.5, 1.5, size=400)
        sampling, expected = weighted(layout, weights), 400 * weights / weights.sum()
    n_epochs = 300
    first = EpochPlan(layout, 40, seed=5, epoch=0, shuffle="window", window_chunks=25, sampling=sampling)
    mean = sum(copies_of(replace(first, epoch=epoch)) for epoch in range(n_epochs)) / n_epochs
    deviation = np.sqrt(np.maximum((expected % 1) * (1 - expected % 1), 1e-12) / n_epochs)
    assert (np.abs(mean - expected) < 6 * deviation + 1e-6).all()
    assert mean.min() > 0


def test_rows_of_a_chunk_do_not_exclude_each_other():
    # Systematic sampling in the order of the rows would take every tenth, and never two neighbours.
    layout = StoreLayout(1_000, 2, 500, 4)
    weights = np.where(np.arange(1_000) < 500, 0.1, 1.9)
    first = EpochPlan(
        layout, 100, seed=0, epoch=0, shuffle="window", window_chunks=1, sampling=weighted(layout, weights)
    )
    taken = [np.flatnonzero(copies_of(replace(first, epoch=epoch))[:500]) for epoch in range(20)]
    assert any((np.diff(rows) == 1).any() for rows in taken)
    assert len({tuple(rows) for rows in taken}) == 20


def test_sums_that_are_rounded_still_add_up():
    rng = np.random.default_rng(0)
    layout = StoreLayout(20_000, 2, 700, 4)
    for weights in (rng.pareto(0.6, size=20_000), 10.0 ** rng.uniform(-300, 0, size=20_000), np.arange(20_000.0)):
        sampling = weighted(layout, weights)
        for epoch in range(10):
            plan = EpochPlan(layout, 700, seed=1, epoch=epoch, shuffle="window", window_chunks=1, sampling=sampling)
            assert copies_of(plan).sum() == 20_000


# -- identity and refusals ---------------------------------------------------------------------------


def plan_of(sampling_of, values, **changes):
    layout = StoreLayout(len(values), 2, 10, 4)
    options = {"batch_size": 8, "seed": 3, "epoch": 1, "shuffle": "window", "window_chunks": 2}
    return EpochPlan(layout, sampling=sampling_of(layout, values), **(options | changes))


CLASSES = np.tile(np.array([0, 0, 1, 0, 2], dtype=np.uint8), 12)
WEIGHTS = np.tile([0.5, 2.0, 0.0], 20)


@pytest.mark.parametrize(
    ("sampling_of", "values", "first"),
    [
        (stratified, CLASSES, [19, 10, 17, 26, 21, 24, 11, 22]),
        (balanced, CLASSES, [19, 11, 27, 24, 18, 29, 12, 21]),
        (weighted, WEIGHTS, [19, 10, 24, 25, 16, 21, 10, 22]),
    ],
)
def test_the_orders_are_pinned(sampling_of, values, first):
    # Checkpoints of earlier releases rely on it: a change needs another plan version.
    assert plan_of(sampling_of, values)[0].rows.tolist() == first


def test_the_fingerprint_knows_the_sampling_and_its_values():
    other = CLASSES[::-1].copy()
    plans_ = [plan_of(stratified, CLASSES), plan_of(stratified, other), plan_of(balanced, CLASSES)]
    plans_ += [plan_of(weighted, WEIGHTS), replace(plan_of(stratified, CLASSES), sampling=None)]
    assert len({plan.fingerprint for plan in plans_}) == 5
    assert plan_of(balanced, CLASSES).fingerprint == plan_of(balanced, CLASSES, epoch=7).fingerprint
    assert plan_of(balanced, CLASSES) == plan_of(balanced, CLASSES)
    with pytest.raises(InvalidParameterError, match="sampling was 'balanced' and is 'stratified'"):
        plans_[0].at(plans_[2].state(1))


def test_refusals():
    with pytest.raises(
        InvalidParameterError, match="'balanced' orders rows anew, and shuffle='none' keeps their order"
    ):
        plan_of(balanced, CLASSES, shuffle="none")
    with pytest.raises(InvalidParameterError, match="a row may be in several steps"):
        plan_of(weighted, WEIGHTS).steps_of_chunk(0)
    with pytest.raises(InvalidParameterError, match=r"made of 6 chunks, and the store has 3"):
        replace(plan_of(balanced, CLASSES), layout=StoreLayout(60, 2, 20, 4))
    with pytest.raises(InvalidParameterError, match=r"store\.plan"):
        replace(plan_of(balanced, CLASSES), sampling="balanced")
    with pytest.raises(InvalidDataError, match="add up to 0"):
        plan_of(weighted, np.zeros(60))
    with pytest.raises(InvalidDataError, match="add up to inf"), np.errstate(over="ignore"):
        plan_of(weighted, np.full(60, 1e308))
    with pytest.raises(InvalidDataError, match="A class has no rows"):
        plan_of(balanced, np.where(CLASSES == 1, 0, CLASSES).astype(np.uint8))


@pytest.mark.parametrize(
    ("sampling_of", "values", "changed"),
    [
        (stratified, CLASSES, CLASSES[:-1]),
        (balanced, CLASSES, np.ones(60, dtype=np.uint8)),
        (balanced, CLASSES, CLASSES[:-1]),
        (weighted, WEIGHTS, np.zeros(60)),
        (weighted, WEIGHTS, WEIGHTS[:-1]),
    ],
)
def test_values_that_are_not_those_that_were_counted(sampling_of, values, changed):
    plan = plan_of(sampling_of, values)
    altered = replace(plan.sampling, values=replace(plan.sampling.values, values=changed))
    with pytest.raises(InvalidDataError, match="are not those that were counted"):
        list(replace(plan, sampling=altered))


def test_a_class_too_large_for_whole_numbers_of_64_bits():
    before = np.array([[0, 0], [4_000_000_000, 4_000_000_000]])
    with pytest.raises(InvalidDataError, match="A class of 4000000000 rows is too large"):
        BalancedRows(Held("", np.empty(0), np.empty(0)), before)
    BalancedRows(Held("", np.empty(0), np.empty(0)), before // 2)


@pytest.mark.parametrize(
    ("sampling_of", "values"),
    [
        (stratified, lambda rng, n: rng.integers(0, 3, size=n).astype(np.uint8)),
        (balanced, lambda rng, n: rng.integers(0, 300, size=n).astype(np.uint16)),
        # Of the first of 16 windows comes half of all rows.
        (balanced, lambda rng, n: (np.arange(n) < n // 100).astype(np.uint8)),  # noqa: ARG005
        (weighted, lambda rng, n: rng.exponential(size=n)),
        (weighted, lambda rng, n: np.where(np.arange(n) < 9, 1.0, 0.0)),  # noqa: ARG005
    ],
)
def test_the_order_of_a_window_is_in_the_budget(sampling_of, values):
    n_rows = 1 << 17
    layout = StoreLayout(n_rows, 4, n_rows // 64, 4)
    sampling = sampling_of(layout, values(np.random.default_rng(0), n_rows))
    plan = EpochPlan(layout, 100, seed=0, epoch=0, shuffle="window", window_chunks=4, sampling=sampling)
    options = {"batch_size": 100, "window_chunks": 4, "prefetch": 0, "label_nbytes": 0, "n_epochs": 1}
    projected = (
        stream_budget(layout, sampling=sampling, **options).nbytes
        - stream_budget(layout, sampling=None, **options).nbytes
    )
    window = int(np.argmax(np.diff(plan.window_edges)))
    tracemalloc.start()
    try:
        order = plan.window_permutation(window)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Orders are made by two threads at the most.
    assert 2 * peak - order.nbytes <= projected + 16 * 4 * layout.chunk_rows
