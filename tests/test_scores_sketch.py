"""Sketches of scores: what is exact of them, and the error that they state."""

from __future__ import annotations

import pickle
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from score_cases import N_CHUNKS, irregular

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError

SHARES = np.array([0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0])


def rank_errors(sketch, values):
    """How far the rank of each quantile is from what was asked for, as a share of the rows."""
    ordered = np.sort(values)
    found = sketch.quantile(SHARES)
    lowest, highest = np.searchsorted(ordered, found, "left"), np.searchsorted(ordered, found, "right")
    return np.maximum(0, np.maximum(SHARES - highest / len(values), lowest / len(values) - SHARES))


@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_a_sketch_stays_within_four_times_its_error(n_chunks):
    # Sketches are random: one in a hundred exceeds the error that it states.
    values = np.random.default_rng(0).lognormal(size=30_000)
    sketch = sfs.quantile_sketch(irregular(values, n_chunks)).compute()
    assert (sketch.n_rows, sketch.minimum, sketch.maximum) == (30_000, values.min(), values.max())
    assert sketch.rank_error == pytest.approx(0.0133, abs=1e-4)
    assert rank_errors(sketch, values).max() < 4 * sketch.rank_error
    assert abs(sketch.rank(1.0) - (values <= 1.0).mean()) < 4 * sketch.rank_error
    assert sketch.quantile(0.0) == values.min()
    assert sketch.quantile(1.0) == values.max()
    assert len(sketch.serialized) < 8_192


def test_a_sketch_of_few_scores_is_exact():
    values = np.array([3.0, 1.0, 2.0, np.inf])
    sketch = sfs.quantile_sketch(values)
    assert sketch.rank_error == 0
    assert sketch.quantile([[0.25, 0.5]]).tolist() == [[1.0, 2.0]]
    assert sketch.rank(2.0) == 0.5
    assert sketch.maximum == np.inf


def test_a_larger_sketch_has_a_smaller_error():
    values = np.random.default_rng(1).normal(size=30_000)
    assert sfs.quantile_sketch(values, k=1_600).rank_error < 0.0021


def test_sketches_are_merged_pickled_and_kept_as_bytes():
    parts = [sfs.quantile_sketch(np.arange(start, start + 5_000.0)) for start in (0, 5_000)]
    merged = pickle.loads(pickle.dumps(parts[0])).merge(parts[1])
    assert (merged.n_rows, merged.minimum, merged.maximum) == (10_000, 0.0, 9_999.0)
    assert abs(merged.quantile(0.5) - 5_000) < 4 * merged.rank_error * 10_000
    assert sfs.QuantileSketch(merged.serialized).n_rows == 10_000
    assert parts[0].n_rows == 5_000


def test_building_a_sketch_runs_nothing():
    def refuse(block):
        pytest.fail("a block was read")

    blocks = da.ones(10, chunks=3).map_blocks(refuse, dtype=float, meta=np.empty(0))
    sketch = sfs.quantile_sketch(blocks)
    with pytest.raises(InvalidParameterError, match="sketch is lazy"):
        sketch.quantile(0.5)


def test_a_lazy_sketch_is_computed_with_other_aggregates():
    blocks = irregular(np.arange(100.0), 7)
    sketch, threshold = dask.compute(sfs.quantile_sketch(blocks), sfs.threshold(blocks, 0.1))
    assert sketch.n_rows == 100
    assert threshold == np.percentile(np.arange(100), 90)


def test_what_is_refused():
    for scores in (np.empty(0), da.from_array(np.empty(0), chunks=1)):
        with pytest.raises(InvalidDataError, match="A sketch of no scores"):
            sfs.quantile_sketch(scores)
    with pytest.raises(InvalidDataError, match="score of row 1 is NaN"):
        sfs.quantile_sketch([1.0, np.nan])
    for k in (7, 65_536, 1.5):
        with pytest.raises(InvalidParameterError, match="k must be"):
            sfs.quantile_sketch(np.ones(3), k)
    sketch = sfs.quantile_sketch(np.ones(3))
    for q in (-0.1, 1.1, np.nan, "x", None):
        with pytest.raises(InvalidParameterError, match="q must be"):
            sketch.quantile(q)
    with pytest.raises(InvalidParameterError, match="got NaN"):
        sketch.rank(np.nan)
    with pytest.raises(InvalidParameterError, match="no sketch of scores"):
        _ = sfs.QuantileSketch(b"abc").n_rows


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(UnsupportedError, match=r"streamfit\[sketches\]"):
        sfs.quantile_sketch(np.ones(3))


def test_arrays_that_cannot_be_written_to_or_have_gaps():
    values = np.arange(10.0)
    gaps = np.repeat(values, 2)[::2]
    values.flags.writeable = False
    assert sfs.quantile_sketch(values).quantile(0.5) == sfs.quantile_sketch(gaps).quantile(0.5) == 4.0
