"""The order of a shuffle: a permutation, uniform, and a function of row number and seed alone."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamfit.errors import InvalidParameterError
from streamfit.plan.shuffle_order import ShuffleOrder, order_of_keys, passes_seed

BLOCK = 65_536
GOLDEN_KEYS = [10493102531821965109, 12850974132107320369, 17362557923963617855, 11000396733203510888]
GOLDEN_SEED = 1058462416362651303


@given(n_rows=st.integers(1, 3_000), seed=st.integers(0, 2**70))
def test_the_order_is_a_permutation(n_rows, seed):
    order = order_of_keys(ShuffleOrder(n_rows, seed).keys(0, n_rows))
    assert sorted(order.tolist()) == list(range(n_rows))


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 2 * BLOCK + 99), min_size=2, max_size=6))
def test_a_key_follows_from_row_and_seed_however_the_rows_are_cut(seed, cuts):
    order = ShuffleOrder(2 * BLOCK + 99, seed)
    cuts = sorted(cuts)
    parts = [order.keys(start, stop) for start, stop in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), order.keys(cuts[0], cuts[-1]))


@given(n_rows=st.integers(1, 2_000), n_buckets=st.integers(1, 3_000), seed=st.integers(0, 99))
def test_sorted_buckets_one_after_the_other_are_the_whole_order(n_rows, n_buckets, seed):
    order = ShuffleOrder(n_rows, seed)
    keys = order.keys(0, n_rows)
    buckets = order.buckets(keys, n_buckets=n_buckets)
    assert buckets.max() < n_buckets
    np.testing.assert_array_equal(np.bincount(buckets, minlength=n_buckets), order.bucket_rows(n_buckets=n_buckets))
    rows = [np.flatnonzero(buckets == bucket) for bucket in np.unique(buckets)]
    joined = np.concatenate([places[order_of_keys(keys[places])] for places in rows])
    np.testing.assert_array_equal(joined, np.lexsort((np.arange(n_rows), keys)))


@pytest.mark.parametrize(
    "n_buckets", [pytest.param(2**16, id="the-most-of-16-bits"), pytest.param(2**16 + 1, id="more")]
)
def test_many_buckets(n_buckets):
    order = ShuffleOrder(1, 0)
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert order.buckets(ends, n_buckets=n_buckets).tolist() == [0, n_buckets - 1]


@given(
    n_rows=st.integers(1, 300_000),
    most_rows=st.sampled_from([5, 64, 1_000, 100_000]),
    seed=st.integers(0, 5),
)
def test_no_bucket_holds_more_rows_than_it_may(n_rows, most_rows, seed):
    rows = ShuffleOrder(n_rows, seed).buckets_within(most_rows)
    assert rows.sum() == n_rows
    assert rows.max() <= most_rows
    if n_rows <= most_rows:
        assert len(rows) == 1
    elif most_rows >= 1_000:
        assert len(rows) <= 1.3 * n_rows / most_rows + 1  # few, and so large


def test_buckets_of_one_row_each_are_not_looked_for_forever():
    with pytest.raises(InvalidParameterError, match="most_rows=1 is too few to part 20000 rows"):
        ShuffleOrder(20_000, 0).buckets_within(1)


def test_equal_keys_keep_the_order_of_their_rows():
    keys = np.repeat(np.array([7, 3, 5], dtype=np.uint64), 40)
    np.testing.assert_array_equal(order_of_keys(keys), np.lexsort((np.arange(120), keys)))


def test_all_orders_of_five_rows_are_equally_likely():
    n_seeds = 12_000
    counts = Counter(tuple(order_of_keys(ShuffleOrder(5, seed).keys(0, 5)).tolist()) for seed in range(n_seeds))
    assert len(counts) == 120
    assert stats.chisquare(list(counts.values())).pvalue > 0.001


def test_rows_of_any_block_are_equally_likely_in_any_place():
    """A row's place must not depend on the block of rows that its key is drawn with."""
    n_rows = 3 * BLOCK
    order = order_of_keys(ShuffleOrder(n_rows, 11).keys(0, n_rows))
    table = np.zeros((3, 16))
    np.add.at(table, (order // BLOCK, np.arange(n_rows) * 16 // n_rows), 1)
    assert stats.chi2_contingency(table).pvalue > 0.001


def test_keys_are_those_of_every_version():
    """A shuffle that was begun by another version of streamfit or NumPy is gone on with."""
    keys = ShuffleOrder(BLOCK + 2, 3).keys(BLOCK - 2, BLOCK + 2)
    assert keys.tolist() == GOLDEN_KEYS
    assert passes_seed(3) == GOLDEN_SEED


def test_seeds_differ():
    assert passes_seed(0) != passes_seed(1)
    assert (ShuffleOrder(9, 0).keys(0, 9) != ShuffleOrder(9, 1).keys(0, 9)).all()


@pytest.mark.parametrize(
    ("n_rows", "seed"),
    [pytest.param(0, 0, id="no-rows"), pytest.param(1, -1, id="seed"), pytest.param(1, 0.5, id="half")],
)
def test_refused(n_rows, seed):
    with pytest.raises(InvalidParameterError):
        ShuffleOrder(n_rows, seed)
