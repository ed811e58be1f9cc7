"""What every aggregate of scores holds to: lazy, read once, the same answer as in memory, and NaN by name."""

from __future__ import annotations

import dataclasses
import math

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from score_cases import irregular

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError

AGGREGATES = {
    "agreement": lambda scores, _truth: sfs.agreement({"a": scores, "b": -scores}),
    "average_precision": lambda scores, truth: sfs.average_precision(truth, scores),
    "calibrate": lambda scores, truth: sfs.calibrate(scores, truth, method="isotonic").transform(scores),
    "combine": lambda scores, _truth: sfs.combine([scores, -scores], method="maximum"),
    "confusion_matrix": lambda scores, truth: sfs.confusion_matrix(truth, scores, 0.5),
    "ecdf": lambda scores, _truth: sfs.ecdf(scores, [0.0, 1.0]),
    "flags": lambda scores, _truth: sfs.flags(scores, 0.5),
    "histogram": lambda scores, _truth: sfs.histogram(scores, 5),
    "ks": lambda scores, _truth: sfs.ks(scores, -scores),
    "lift": lambda scores, truth: sfs.lift(truth, scores, 5),
    "nonfinite": lambda scores, _truth: sfs.nonfinite(scores),
    "overlap_at_k": lambda scores, _truth: sfs.overlap_at_k(scores, -scores, 300),
    "partition_drift": lambda scores, _truth: sfs.partition_drift(scores, n_bins=3),
    "partition_summary": lambda scores, truth: sfs.partition_summary(scores, 0.5, labels=truth),
    "precision_at_k": lambda scores, truth: sfs.precision_at_k(truth, scores, 5),
    "psi": lambda scores, _truth: sfs.psi(scores, -scores),
    "quantile": lambda scores, _truth: sfs.quantile(scores, [0.1, 0.9]),
    "quantile_sketch": lambda scores, _truth: sfs.quantile_sketch(scores, k=1_000),
    "rank_correlation": lambda scores, _truth: sfs.rank_correlation(scores, -scores),
    "ranks": lambda scores, _truth: sfs.ranks(scores),
    "recall_at_k": lambda scores, truth: sfs.recall_at_k(truth, scores, 5),
    "roc_auc": lambda scores, truth: sfs.roc_auc(truth, scores),
    "threshold": lambda scores, _truth: sfs.threshold(scores, 0.1),
    "top_k": lambda scores, _truth: sfs.top_k(scores, 5),
}
BY_PARTITION = ("partition_drift", "partition_summary")
"""They tell of blocks, which memory has one of."""
TAKE_NAN = ("nonfinite", "partition_summary")
OF_NO_ROWS = ("combine", "confusion_matrix", "flags", "histogram", "nonfinite", "partition_summary", "ranks")
"""These have an answer, or a test of their own."""


class Counted:
    """A lazy array that counts how often its blocks are computed."""

    def __init__(self, values, chunk_rows):
        self.reads = 0
        self.array = da.from_array(values, chunks=chunk_rows).map_blocks(self._read, dtype=np.float64, meta=np.empty(0))

    def _read(self, block):
        self.reads += 1
        return block.astype(np.float64)

    def __dask_tokenize__(self):
        return id(self)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=400), 2), rng.integers(0, 2, size=400)


def leaves(result):
    """Give what is in a result: numbers, arrays, tables, texts."""
    if isinstance(result, sfs.QuantileSketch):
        return [result.n_rows, result.quantile(0.5)]
    if dataclasses.is_dataclass(result):
        return [getattr(result, field.name) for field in dataclasses.fields(result)]
    return list(result) if isinstance(result, tuple) else [result]


def kind(value):
    """Tell what a user sees: a number of either library is the same to them, an array of another type is not."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.dtype, value.shape
    return np.result_type(value) if isinstance(value, (int, float, np.generic)) else type(value)


def test_every_aggregate_is_held_to_this():
    functions = {name for name in sfs.__all__ if not isinstance(getattr(sfs, name), type)}
    assert functions - {"open", "save"} == set(AGGREGATES)


@pytest.mark.parametrize("name", AGGREGATES)
def test_lazy_results_are_those_of_memory_in_value_and_type(rows, name):
    values, truth = rows
    here = AGGREGATES[name](values, truth)
    (there,) = dask.compute(AGGREGATES[name](irregular(values, 7), irregular(truth, 3)))
    for found, expected in zip(leaves(there), leaves(here), strict=True):
        if name in BY_PARTITION:
            assert list(found.dtypes) == list(expected.dtypes)
            assert list(found.columns) == list(expected.columns)
        elif isinstance(expected, pd.DataFrame):
            pd.testing.assert_frame_equal(found, expected)
        else:
            assert kind(found) == kind(expected)
            if expected is not None:
                np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_aggregates_computed_together_read_the_scores_once(rows, scheduler):
    values, truth = rows
    counted = Counted(values, chunk_rows=10)
    aggregates = {name: aggregate(counted.array, truth) for name, aggregate in AGGREGATES.items()}
    threshold = sfs.threshold(counted.array, 0.1)
    aggregates["flags of a threshold"] = sfs.flags(counted.array, threshold)
    assert counted.reads == 0
    (found,) = dask.compute(aggregates, scheduler=scheduler)
    assert counted.reads == 40
    np.testing.assert_array_equal(found["flags of a threshold"], values > np.percentile(values, 90))
    assert len(found["partition_summary"]) == len(found["partition_drift"]) == 40
    assert found["roc_auc"] == sfs.roc_auc(truth, values)


NAN_IN_ROW_5 = np.array([1.0, 2.0, 3.0, 4.0, 5.0, math.nan, math.nan])


@pytest.mark.parametrize("name", [name for name in AGGREGATES if name not in TAKE_NAN])
def test_a_nan_is_named_by_its_row(name):
    truth = np.arange(7) % 2
    with pytest.raises(InvalidDataError, match="score of row 5 is NaN") as error:
        AGGREGATES[name](NAN_IN_ROW_5, truth)
    assert error.value.row == 5
    lazily = AGGREGATES[name](da.from_array(NAN_IN_ROW_5, chunks=4), truth)
    with pytest.raises(InvalidDataError, match="score of row 5 is NaN"):
        dask.compute(lazily)


@pytest.mark.parametrize("name", [name for name in AGGREGATES if name not in OF_NO_ROWS])
def test_no_scores_are_refused(name):
    for scores in (np.empty(0), da.from_array(np.empty(0), chunks=1)):
        with pytest.raises(InvalidDataError, match=r"of no scores|one class only \(0 anomalies, 0 other|No row has"):
            dask.compute(AGGREGATES[name](scores, np.empty(0, dtype=int)))


def test_flags_of_no_scores_are_none():
    assert sfs.flags(np.empty(0), 1.0).shape == (0,)
    assert sfs.flags(da.from_array(np.empty(0), chunks=1), 1.0).compute().shape == (0,)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        pytest.param(np.ones((3, 1)), "must have one dimension", id="two-dimensional"),
        pytest.param(np.float64(1), "must have one dimension", id="scalar"),
        pytest.param(np.array(["a"]), "must be real numbers", id="strings"),
        pytest.param(np.array([1j]), "must be real numbers", id="complex"),
        pytest.param(np.ma.array([1.0, 2.0], mask=[0, 1]), "scores is masked in row 1", id="masked"),
        pytest.param(da.arange(6, chunks=2)[da.arange(6, chunks=2) > 2], "compute_chunk_sizes", id="unknown-chunks"),
    ],
)
@pytest.mark.parametrize("aggregate", [sfs.nonfinite, sfs.ranks, sfs.partition_summary])
def test_scores_that_are_refused(aggregate, scores, message):
    with pytest.raises(InvalidDataError, match=message):
        aggregate(scores)


def test_other_number_types_are_widened():
    for dtype in (np.float32, np.int8, np.uint16, bool):
        values = np.array([0, 1, 1, 0]).astype(dtype)
        assert sfs.threshold(values, 0.5) == 0.5
        assert sfs.top_k(da.from_array(values, chunks=3), 1).compute().scores.tolist() == [1.0]


def test_a_table_persists():
    table = sfs.partition_summary(da.arange(10, chunks=5))
    assert repr(table).startswith("LazyTable(2 rows: first_row, count")
    (kept,) = dask.persist(table)
    pd.testing.assert_frame_equal(kept.compute(), table.compute())
