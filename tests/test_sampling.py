"""Rows drawn at random: exact counts, the right probabilities, bounded memory."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamfit.maths import sampling
from streamfit.maths.sampling import BLOCK_ROWS, draw_rows, recut, rows_of_classes


def drawn(codes, wanted, *, seed=0, block_rows=BLOCK_ROWS):
    counts = np.bincount(codes, minlength=len(wanted))
    masks = draw_rows(recut([codes], block_rows), counts=counts, wanted=np.array(wanted), seed=seed)
    return np.concatenate(list(masks))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.floats(0.01, 0.99), st.integers(1, 30))
def test_exactly_as_many_of_each_class_as_wanted(counts, fraction, block_rows):
    counts = np.array(counts)
    wanted = rows_of_classes(counts, fraction, seed=3)
    assert wanted.sum() == round(fraction * int(counts.sum()))
    assert (np.abs(wanted - fraction * counts) < 1).all()
    assert (wanted <= counts).all()
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    mask = drawn(codes, wanted, block_rows=block_rows)
    np.testing.assert_array_equal(np.bincount(codes[mask], minlength=len(counts)), wanted)


def test_which_of_equal_classes_gets_a_row_more_is_drawn():
    draws = np.array([rows_of_classes(np.ones(6, dtype=int), 0.5, seed=seed) for seed in range(2_000)])
    assert (draws.sum(axis=1) == 3).all()
    sets = np.bincount(draws @ (1 << np.arange(6)))
    # All 20 sets of 3 classes are equally likely.
    assert stats.chisquare(sets[sets > 0], [100] * 20).pvalue > 1e-4
    # A larger remainder comes first, whatever the seed.
    assert {int(rows_of_classes(np.array([4, 3, 4]), 0.9, seed=seed)[1]) for seed in range(20)} == {3}


def test_each_row_and_each_pair_is_drawn_as_often_as_chance_says():
    """3 of 8 rows, in blocks of 3: each row in 3/8 of the draws, each pair in 3·2/(8·7)."""
    n_draws = 8_000
    masks = np.array([drawn(np.zeros(8, dtype=int), [3], seed=seed, block_rows=3) for seed in range(n_draws)])
    sets = np.bincount(masks @ (1 << np.arange(8)))
    found = sets[[mask for mask in range(256) if mask.bit_count() == 3]]
    assert found.sum() == n_draws
    # All 56 sets of 3 rows are equally likely.
    assert stats.chisquare(found).pvalue > 1e-4


def test_rows_of_many_are_drawn_without_numpys_limit(monkeypatch):
    generator = np.random.Generator(np.random.PCG64(0))
    draws = [sampling._of_many(generator, 2_000_000_000, 3_000_000_000, 900) for _ in range(2_000)]
    assert abs(np.mean(draws) - 600) < 5 * np.sqrt(200 / 2_000)
    assert abs(np.var(draws) / 200 - 1) < 0.25
    # A small number is met by both ways: they follow the same distribution.
    few = [sampling._of_many(generator, 4, 10, 6) for _ in range(4_000)]
    expected = stats.hypergeom(10, 4, 6).pmf(np.arange(5)) * 4_000
    observed = np.bincount(few, minlength=5)
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-4
    # Above the limit the first block takes that way, and the counts stay exact.
    monkeypatch.setattr(sampling, "_HYPERGEOMETRIC_LIMIT", 30)
    assert drawn(np.zeros(100, dtype=int), [40], block_rows=7).sum() == 40


def test_large_counts_are_drawn_at_all():
    first = next(
        draw_rows(
            [np.zeros(BLOCK_ROWS, dtype=np.int64)], counts=np.array([5 * 10**9]), wanted=np.array([4 * 10**9]), seed=0
        )
    )
    assert abs(first.mean() - 0.8) < 0.01


def test_what_a_seed_means_is_kept_for_good():
    mask = drawn(np.arange(200_000) % 3, [100, 60_000, 7], seed=11)
    assert hashlib.sha256(np.packbits(mask).tobytes()).hexdigest()[:16] == "c77fb869b1bad6a0"


@pytest.mark.parametrize("n_rows", [1, 3, 100])
def test_recut_keeps_all_in_order(n_rows):
    parts = [np.arange(3), np.arange(3, 3), np.arange(3, 11), np.arange(11, 12)]
    blocks = list(recut(parts, n_rows))
    np.testing.assert_array_equal(np.concatenate(blocks), np.arange(12))
    assert all(len(block) == n_rows for block in blocks[:-1])
