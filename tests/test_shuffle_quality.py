"""How close a windowed shuffle comes to a full one: theory against enumeration and against the plans themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfit.errors import InvalidParameterError
from streamfit.plan.class_places import ClassPlaces
from streamfit.plan.cluster_sampling import ClusteredRows, chance_of_none
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import StoreLayout
from streamfit.plan.shuffle_quality import ChunkCorrelation, rewritten_chunks, shuffle_quality

N_CHUNKS, CHUNK_ROWS = 24, 20
LAYOUT = StoreLayout(n_rows=N_CHUNKS * CHUNK_ROWS, n_features=1, chunk_rows=CHUNK_ROWS, itemsize=8)


def mean_squares(values, chunk_rows):
    """Between and within chunks, as the textbook has them."""
    chunks = values.reshape(-1, chunk_rows)
    n_chunks = len(chunks)
    between = chunk_rows * chunks.mean(axis=1).var(ddof=1)
    within = ((chunks - chunks.mean(axis=1, keepdims=True)) ** 2).sum() / (n_chunks * (chunk_rows - 1))
    return between, within


def clustered(values, chunk_rows):
    between, within = mean_squares(values, chunk_rows)
    rho = (between - within) / (between + (chunk_rows - 1) * within)
    return ClusteredRows(len(values) // chunk_rows, chunk_rows, rho)


def of_rho(rho, *, classes=None, counts=None, shares=None, n_sampled=32):
    return ChunkCorrelation(
        rho=rho,
        of="labels",
        n_sampled=n_sampled,
        chunk_rows=1.0,
        classes=classes,
        class_counts=counts,
        class_shares=shares,
    )


def values_of(kind):
    rng = np.random.default_rng(7)
    rows = np.arange(N_CHUNKS * CHUNK_ROWS)
    if kind == "sorted":
        return (rows >= len(rows) // 3).astype(float)
    if kind == "random":
        return rng.normal(size=len(rows))
    if kind == "interleaved":  # each chunk has the same mean: a negative correlation
        return np.tile(np.linspace(-1, 1, CHUNK_ROWS), N_CHUNKS)
    return np.repeat(rng.normal(size=N_CHUNKS), CHUNK_ROWS) + rng.normal(size=len(rows)) * 1.5


KINDS = ("sorted", "partly", "random", "interleaved")


# -- variances ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "batch"), [(1, 1), (1, 2), (2, 1), (2, 3), (2, 4), (3, 5), (4, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_the_variance_of_a_batch_is_that_of_all_possible_ones(window, batch, seed):
    chunk_rows, n_chunks = 2, 4
    values = np.random.default_rng(seed).normal(size=n_chunks * chunk_rows).round(2)
    chunks = values.reshape(n_chunks, chunk_rows)
    means = [
        np.mean(rows)
        for held in itertools.combinations(range(n_chunks), window)
        for rows in itertools.combinations(chunks[list(held)].ravel().tolist(), batch)
    ]
    full = [np.mean(rows) for rows in itertools.combinations(values.tolist(), batch)]
    rows = clustered(values, chunk_rows)
    np.testing.assert_allclose(rows.variance_ratio(window, batch_size=batch), np.var(means) / np.var(full), rtol=1e-9)
    windows = [chunks[list(held)].mean() for held in itertools.combinations(range(n_chunks), window)]
    if window < n_chunks:
        shuffled = [np.mean(rows) for rows in itertools.combinations(values.tolist(), window * chunk_rows)]
        np.testing.assert_allclose(rows.drift, np.var(windows) / np.var(shuffled), rtol=1e-9)


def epochs(values, *, window, batch, n_epochs):
    """Squared deviations of the means of batches inside full windows, and of full windows, averaged by epoch."""
    of_batches, of_windows = [], []
    for seed in range(n_epochs):
        plan = EpochPlan(LAYOUT, batch_size=batch, seed=seed, epoch=0, shuffle="window", window_chunks=window)
        n_full = N_CHUNKS // window
        steps = [step for step in plan if len(step.pieces) == 1 and step.pieces[0].window < n_full]
        of_batches.append(
            np.mean([(values[s.rows].mean() - values.mean()) ** 2 for s in steps if len(s.rows) == batch])
        )
        order = np.concatenate([step.rows for step in plan])
        edges = [plan.window_bounds(number) for number in range(n_full)]
        of_windows.append(np.mean([(values[order[a:b]].mean() - values.mean()) ** 2 for a, b in edges]))
    return np.array(of_batches), np.array(of_windows)


def agree(seen, projected, *, sigmas=4.5):
    """Whether independent draws have a mean that their own spread lets one expect."""
    error = seen.std(ddof=1) / len(seen) ** 0.5
    assert abs(seen.mean() - projected) <= sigmas * error + 1e-12, (seen.mean(), projected, error)
    assert error < 0.15 * projected + 1e-9  # else nothing was tested


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("window", "batch"), [(1, 7), (5, 33)])
def test_plans_vary_as_projected(kind, window, batch):
    values = values_of(kind)
    quality = shuffle_quality(
        LAYOUT,
        batch_size=batch,
        window_chunks=window,
        correlation=of_rho(clustered(values, CHUNK_ROWS).rho),
        shuffle="window",
    )
    of_batches, of_windows = epochs(values, window=window, batch=batch, n_epochs=80 if window == 1 else 250)
    full = (1 / batch - 1 / len(values)) * values.var(ddof=1)
    n_held = window * CHUNK_ROWS
    agree(of_batches, quality.batch_variance * full)
    agree(of_windows, quality.drift * (1 / n_held - 1 / len(values)) * values.var(ddof=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [2, 9])
def test_a_rewrite_leaves_the_correlation_that_was_projected(kind, window):
    values = values_of(kind)
    seen = []
    for seed in range(300):
        plan = EpochPlan(LAYOUT, batch_size=CHUNK_ROWS, seed=seed, epoch=1, shuffle="window", window_chunks=window)
        order = np.concatenate([step.rows for step in plan])
        seen.append(mean_squares(values[order], CHUNK_ROWS)[0] / values.var(ddof=1))
    agree(np.array(seen), clustered(values, CHUNK_ROWS).rewritten(window).drift)


def test_rewriting_thins_by_the_number_of_chunks():
    rows = ClusteredRows(n_chunks=10_000, chunk_rows=20_000, rho=0.99)
    once = rows.rewritten(16)
    assert once.rho == pytest.approx(0.99 / 16, rel=0.01)
    assert once.rewritten(16).rho == pytest.approx(0.99 / 256, rel=0.02)


@pytest.mark.parametrize("batch", [1, 4, 10, 20, 40, 120])
def test_in_the_order_of_the_rows_batches_are_consecutive_rows(batch):
    quality = shuffle_quality(
        LAYOUT,
        batch_size=batch,
        window_chunks=3,
        correlation=of_rho(clustered(values_of("partly"), CHUNK_ROWS).rho),
        shuffle="none",
    )
    seen, rng = [], np.random.default_rng(1)
    chunks = values_of("partly").reshape(N_CHUNKS, CHUNK_ROWS)
    for _ in range(400):  # chunks that lie in no order, and rows that do not either
        values = rng.permuted(chunks[rng.permutation(N_CHUNKS)], axis=1).ravel()
        plan = EpochPlan(LAYOUT, batch_size=batch, seed=0, epoch=0, shuffle="none", window_chunks=3)
        means = [values[step.rows].mean() for step in (plan if batch > 4 else (plan[0], plan[7]))]
        seen.append(np.mean((np.array(means) - values.mean()) ** 2))
    full = (1 / batch - 1 / LAYOUT.n_rows) * chunks.var(ddof=1)
    agree(np.array(seen), quality.batch_variance * full)
    assert (quality.alpha, quality.passes, quality.problem, quality.remedy) == (0.0, 0, None, None)
    assert quality.lacking_probability is None


shapes = st.tuples(st.integers(1, 300), st.integers(1, 500), st.floats(0, 1)).flatmap(
    lambda shape: st.tuples(st.just(shape), st.integers(1, shape[0]))
)


@given(shapes, st.integers(1, 10_000))
def test_larger_windows_never_vary_more_and_all_chunks_are_a_full_shuffle(drawn, batch_size):
    (n_chunks, chunk_rows, rho), window = drawn
    rows = ClusteredRows(n_chunks, chunk_rows, rho)
    least = -(-min(batch_size, n_chunks * chunk_rows) // chunk_rows)
    ratios = [
        rows.variance_ratio(n, batch_size=min(batch_size, n_chunks * chunk_rows))
        for n in range(max(least, window), n_chunks + 1)
    ]
    assert all(np.isfinite(ratios))
    assert all(one >= next_one - 1e-9 * one for one, next_one in itertools.pairwise(ratios))
    assert ratios[-1] == 1.0


def test_an_estimate_below_what_is_possible_gives_no_negative_variance():
    quality = shuffle_quality(LAYOUT, batch_size=9, window_chunks=3, correlation=of_rho(-0.2), shuffle="window")
    assert quality.drift == pytest.approx(0, abs=1e-12)
    assert 0 < quality.batch_variance < 1


def test_a_batch_that_no_window_holds_is_refused():
    with pytest.raises(InvalidParameterError, match="A batch has 41 rows and a window 40"):
        shuffle_quality(LAYOUT, batch_size=41, window_chunks=2, correlation=of_rho(0.1), shuffle="window")


# -- classes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_all", "n_marked", "n_drawn"), [(6, 2, 3), (5, 5, 1), (5, 0, 3), (7, 3, 7), (8, 1, 8)])
def test_the_chance_of_none_is_that_of_all_possible_draws(n_all, n_marked, n_drawn):
    draws = list(itertools.combinations(range(n_all), n_drawn))
    none = sum(all(one >= n_marked for one in draw) for draw in draws)
    assert chance_of_none(n_all, n_marked, n_drawn) == pytest.approx(none / len(draws))


@pytest.mark.parametrize("case", [(10_000, 65, 66), (100_000, 900, 800), (1_000_000, 70, 100_000)])
def test_the_chance_of_none_is_scipys(case):
    from scipy.stats import hypergeom

    assert chance_of_none(*case) == pytest.approx(hypergeom(*case).pmf(0), rel=1e-6)


@pytest.mark.parametrize("window", [2, 6, 12])
def test_windows_of_plans_lack_classes_as_projected(window):
    labels = np.repeat(np.arange(6), LAYOUT.n_rows // 6)  # each class fills four chunks
    places = ClassPlaces.of_sample(
        n_rows=len(labels),
        n_chunks=N_CHUNKS,
        counts=np.full(6, 80),
        n_sampled=N_CHUNKS,
        n_found=np.full(6, 4),
    )
    lacked, of_one = [], []
    for seed in range(400):
        plan = EpochPlan(LAYOUT, batch_size=1, seed=seed, epoch=0, shuffle="window", window_chunks=window)
        held = [set(plan.window_chunk_ids(number) // 4) for number in range(N_CHUNKS // window)]
        lacked.append(np.mean([len(classes) < 6 for classes in held]))
        of_one.append(np.mean([0 not in classes for classes in held]))
    chance, _ = places.lacking(window)
    if 80 * window / N_CHUNKS < 20:  # too few rows to be expected
        assert chance == 0
        return
    # Classes that exclude each other are not quite independent; a single one is exact.
    assert abs(np.mean(lacked) - chance) < 0.12
    assert abs(np.mean(of_one) - chance_of_none(N_CHUNKS, 4, window)) < 4.5 * np.std(of_one) / 20


def test_a_scattered_class_is_no_gathered_one_however_the_sample_falls():
    rng = np.random.default_rng(3)
    n_chunks, chunk_rows, n_sampled = 5_000, 200, 32
    counts = np.array([980_000, 14_000, 6_000])  # 45 and 19 rows in a window of 16
    for _ in range(200):
        in_chunk = rng.poisson(counts[1:] / n_chunks, size=(n_sampled, 2)) > 0
        n_found = np.array([n_sampled, *in_chunk.sum(axis=0)])
        places = ClassPlaces.of_sample(
            n_rows=n_chunks * chunk_rows, n_chunks=n_chunks, counts=counts, n_sampled=n_sampled, n_found=n_found
        )
        assert places.lacking(16)[0] < 1e-6


def test_a_class_that_is_gathered_is_named_and_passes_scatter_it():
    layout = StoreLayout(n_rows=1_000_000, n_features=10, chunk_rows=1_000, itemsize=4)
    rare = of_rho(0.001, classes=("ham", "spam"), counts=(990_000, 10_000), shares=(1.0, 0.03125))
    quality = shuffle_quality(layout, batch_size=500, window_chunks=16, correlation=rare, shuffle="window")
    assert quality.lacking_class == "spam"
    assert quality.lacking_probability == pytest.approx(chance_of_none(1_000, 31, 16))
    assert "'spam'" in quality.problem
    assert quality.passes == 1
    # Where nothing is missed there is nothing to say.
    even = of_rho(0.0, classes=("ham", "spam"), counts=(990_000, 10_000), shares=(1.0, 1.0))
    quality = shuffle_quality(layout, batch_size=500, window_chunks=16, correlation=even, shuffle="window")
    assert (quality.problem, quality.remedy, quality.passes) == (None, None, 0)


# -- advice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk_rows", "rho", "passes", "call"),
    [
        pytest.param(20_000, 0.001, 0, None, id="a drift of 21"),
        pytest.param(20_000, 0.0016, 1, "store.shuffle(path, passes=1)", id="a drift of 33"),
        pytest.param(20_000, 0.02, 1, "store.shuffle(path, passes=1)", id="a drift of 401"),
        pytest.param(20_000, 0.2, 2, "store.shuffle(path, passes=2)", id="a drift of 4001"),
        pytest.param(20_000, 1.0, 3, 'store.shuffle(path, passes="full")', id="sorted"),
    ],
)
def test_passes_that_are_needed(chunk_rows, rho, passes, call):
    layout = StoreLayout(n_rows=5_000 * chunk_rows, n_features=100, chunk_rows=chunk_rows, itemsize=4)
    quality = shuffle_quality(layout, batch_size=1_000, window_chunks=16, correlation=of_rho(rho), shuffle="window")
    assert quality.passes == passes
    if call is None:
        assert (quality.problem, quality.remedy) == (None, None)
        return
    assert quality.remaining_drift > 30
    assert call in quality.remedy
    # The number of the facts about CorgiPile, with as many chunks as are rewritten together.
    n = rewritten_chunks(layout)
    assert passes == np.ceil(np.log(quality.drift / 20) / np.log(n))


def test_one_window_that_holds_everything_needs_nothing():
    quality = shuffle_quality(LAYOUT, batch_size=5, window_chunks=99, correlation=of_rho(1.0), shuffle="window")
    assert (quality.alpha, quality.batch_variance, quality.problem) == (1.0, 1.0, None)
