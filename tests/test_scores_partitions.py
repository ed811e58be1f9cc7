"""A row a partition against pandas block by block, and scores that are not finite."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from score_cases import lazy

from streamfit import scores as sfs
from streamfit.errors import InvalidParameterError

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
