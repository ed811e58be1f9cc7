"""A row a partition against pandas block by block, and scores that are not finite."""

from __future__ import annotations

import weakref

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pythresh.thresholds.iqr import IQR
from score_cases import N_CHUNKS, irregular, lazy

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.scores import sorting

SOME_NONFINITE = st.one_of(st.floats(-9, 9), st.sampled_from([np.nan, np.inf, -np.inf]))


def expected_summary(blocks, threshold, quantiles):
    records = []
    for start, block in blocks:
        finite = block[np.isfinite(block)]
        record = {"first_row": start, "count": len(block), "n_nonfinite": len(block) - len(finite)}
        record["flagged"] = int((block > threshold).sum())
        series = pd.Series(finite)
        record |= {"mean": series.mean(), "min": series.min()}
        record |= {name: series.quantile(quantile) for name, quantile in quantiles.items()}
        records.append(record | {"max": series.max()})
    return pd.DataFrame(records)


@settings(max_examples=50)
@given(
    values=hnp.arrays(np.float64, st.integers(0, 30), elements=SOME_NONFINITE),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_partition_summary_is_pandas_block_by_block(values, cuts):
    blocks = lazy(values, [min(cut, len(values)) for cut in cuts])
    quantiles = {"5%": 0.05, "50%": 0.5, "99.9%": 0.999}
    starts = np.cumsum([0, *blocks.chunks[0][:-1]])
    pieces = [(start, values[start : start + n]) for start, n in zip(starts, blocks.chunks[0], strict=True)]
    expected = expected_summary(pieces, 1.0, quantiles)
    found = sfs.partition_summary(blocks, 1.0, quantiles=list(quantiles.values())).compute()
    pd.testing.assert_frame_equal(found, expected)
    whole = sfs.partition_summary(values, 1.0, quantiles=list(quantiles.values()))
    pd.testing.assert_frame_equal(whole, expected_summary([(0, values)], 1.0, quantiles))


def test_partition_summary_without_a_threshold_counts_no_flags():
    table = sfs.partition_summary(da.arange(10, chunks=5)).compute()
    assert table.columns.tolist() == ["first_row", "count", "n_nonfinite", "mean", "min", "25%", "50%", "75%", "max"]
    assert table["max"].tolist() == [4.0, 9.0]
    assert table["first_row"].dtype == np.int64


def test_partition_summary_takes_a_lazy_threshold():
    blocks = da.arange(100, chunks=50)
    threshold = sfs.threshold(blocks, 0.1)
    assert sfs.partition_summary(blocks, threshold).compute()["flagged"].tolist() == [0, 10]
    assert sfs.partition_summary(np.arange(100), threshold).compute()["flagged"].tolist() == [10]


@pytest.mark.parametrize("quantiles", [(-0.1,), (1.1,), (np.nan,), (0.5, 0.5), 0.5, None, "x", ["x"], [[0.5]]])
def test_quantiles_that_are_refused(quantiles):
    with pytest.raises(InvalidParameterError, match="quantiles must be"):
        sfs.partition_summary(np.ones(3), quantiles=quantiles)


def test_partition_summary_counts_anomalies_where_they_are_known():
    values, labels = np.arange(6.0), np.array([1, 0, np.nan, 1, 1, np.nan])
    blocks = lazy(values, [0, 2])
    for scores, truth in ((blocks, labels), (blocks, lazy(labels, [5])), (values, lazy(labels, [0, 2]))):
        table = sfs.partition_summary(scores, labels=truth).compute()
        assert table["n_anomalies"].tolist() == [0, 1, 2]
        assert table["n_anomalies"].dtype == np.int64
    assert sfs.partition_summary(values, labels=labels)["n_anomalies"].tolist() == [3]
    with pytest.raises(InvalidDataError, match="label of row 4 is 2"):
        sfs.partition_summary(lazy(values, [3]), labels=[0, 0, 0, 0, 2, 0]).compute()
    with pytest.raises(InvalidDataError, match="2 labels and 6 scores"):
        sfs.partition_summary(values, labels=[0, 1])


@settings(max_examples=30)
@given(
    values=hnp.arrays(np.float64, st.integers(0, 30), elements=st.one_of(st.floats(-9, 9), st.just(np.nan))),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    contamination=st.sampled_from([0.05, 0.3, 0.5]),
)
def test_own_thresholds_are_those_of_partitions_alone(values, cuts, contamination):
    blocks = lazy(values, [min(cut, len(values)) for cut in cuts])
    table = sfs.partition_summary(blocks, contamination=contamination).compute()
    for i, start in enumerate(np.cumsum([0, *blocks.chunks[0][:-1]])):
        alone = values[start : start + blocks.chunks[0][i]]
        ordered = alone[~np.isnan(alone)]
        expected = np.percentile(ordered, 100 * (1 - contamination)) if len(ordered) else np.nan
        np.testing.assert_equal(table["own_threshold"][i] + 0.0, expected + 0.0)
        assert table["own_flagged"][i] == (alone > expected).sum()


def test_own_thresholds_by_a_thresholder():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=300), [40.0], rng.normal(9, 1, 300), [2.0] * 5, [np.nan]])
    blocks = lazy(values, [301, 601])
    table = sfs.partition_summary(blocks, contamination=IQR()).compute()
    for i in (0, 1):
        alone = np.asarray(blocks.blocks[i])
        assert table["own_threshold"][i] == sfs.threshold(alone, IQR())
        assert table["own_flagged"][i] == IQR().fit(alone).labels_.sum()
    # Scores that do not differ have no scale.
    assert np.isnan(table["own_threshold"][2])
    assert table["own_flagged"][2] == 0
    with pytest.raises(InvalidParameterError, match="contamination"):
        sfs.partition_summary(blocks, contamination=0.7)


def test_flagged_rows_of_float32_scores_are_those_of_flags():
    values = np.array([0.1, 0.2], dtype=np.float32)
    # 0.1 rounded to float32 lies above 0.1.
    assert sfs.flags(values, 0.1).sum() == 2
    for scores in (values, da.from_array(values, chunks=1)):
        (table,) = dask.compute(sfs.partition_summary(scores, 0.1))
        assert table["flagged"].sum() == 2


def test_a_summary_and_its_lazy_threshold_read_the_scores_once_also_on_scratch(monkeypatch):
    monkeypatch.setattr(sorting, "HELD_NBYTES", -1)
    reads = []

    def read(block):
        reads.append(len(block))
        return block.astype(np.float64)

    blocks = da.arange(1_000, chunks=100).map_blocks(read, dtype=np.float64, meta=np.empty(0))
    threshold = sfs.threshold(blocks, 0.1)
    table, flags = dask.compute(sfs.partition_summary(blocks, threshold), sfs.flags(blocks, threshold))
    assert reads == [100] * 10
    assert table["flagged"].tolist() == [0] * 9 + [100]
    assert flags.sum() == 100


# -- scores that are not finite ----------------------------------------------------------------------


@settings(max_examples=40)
@given(
    values=hnp.arrays(np.float64, st.integers(0, 40), elements=SOME_NONFINITE),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    n_rows=st.integers(0, 5),
)
def test_scores_that_are_not_finite_are_counted_and_named(values, cuts, n_rows):
    rows = np.flatnonzero(~np.isfinite(values))[:n_rows]
    lazily = sfs.nonfinite(lazy(values, [min(cut, len(values)) for cut in cuts]), n_rows)
    for found in (sfs.nonfinite(values, n_rows), lazily.compute()):
        assert found.n_nan == np.isnan(values).sum()
        assert found.n_positive_infinity == np.isposinf(values).sum()
        assert found.n_negative_infinity == np.isneginf(values).sum()
        np.testing.assert_array_equal(found.rows, rows, strict=True)
        np.testing.assert_array_equal(found.scores, values[rows], strict=True)


@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_named_rows_of_irregular_blocks(n_chunks):
    values = np.zeros(5_000, dtype=np.float32)
    values[::7] = np.nan
    values[3] = -np.inf
    lazily = sfs.nonfinite(irregular(values, n_chunks))
    assert isinstance(lazily.n_nan, da.Array)
    found = lazily.compute()
    assert (found.n_nan, found.n_negative_infinity, found.n_positive_infinity) == (715, 1, 0)
    assert found.rows.tolist() == [0, 3, *range(7, 127, 7)]
    assert found.scores.dtype == np.float64


def test_whole_numbers_are_finite():
    assert len(sfs.nonfinite(np.arange(3)).rows) == 0


@pytest.mark.parametrize("n_rows", [-1, 1.5, None])
def test_rows_to_name_that_are_refused(n_rows):
    with pytest.raises(InvalidParameterError, match="n_rows"):
        sfs.nonfinite(np.ones(3), n_rows)


def test_the_mean_of_very_large_scores_is_no_infinity():
    table = sfs.partition_summary(np.array([1.7e308, 1.7e308, 1.6e308]))
    assert table["mean"].tolist() == [pytest.approx(1.7e308 / 3 * 2 + 1.6e308 / 3, rel=1e-12)]


@pytest.mark.parametrize("fused", [None, True])
def test_no_more_than_a_few_blocks_are_held_for_a_threshold_of_all(monkeypatch, fused):
    monkeypatch.setattr(sorting, "HELD_NBYTES", -1)
    alive, most = set(), [0]

    def make(block_id):
        made = np.arange(500.0) + block_id[0]
        alive.add(block_id[0])
        most[0] = max(most[0], len(alive))
        weakref.finalize(made, alive.discard, block_id[0])
        return made

    n_blocks = 60
    blocks = da.map_blocks(make, chunks=((500,) * n_blocks,), dtype=np.float64, meta=np.empty(0))
    threshold = sfs.threshold(blocks, 0.1)
    several = (sfs.partition_summary(blocks, threshold, contamination=0.1), sfs.flags(blocks, threshold).sum())
    with dask.config.set({"optimization.fuse.active": fused}):
        table, n_flagged = dask.compute(*several, scheduler="threads", num_workers=2)
    assert table["flagged"].sum() == n_flagged > 0
    assert most[0] <= 12
