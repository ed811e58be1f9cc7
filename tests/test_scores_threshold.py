"""Thresholds and flags against NumPy, PyThresh and PyOD in memory, for any chunking."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pythresh.thresholds.filter import FILTER
from pythresh.thresholds.iqr import IQR
from pythresh.thresholds.karch import KARCH
from pythresh.thresholds.mad import MAD
from pythresh.thresholds.mtt import MTT
from pythresh.thresholds.zscore import ZSCORE
from score_cases import N_CHUNKS, irregular, lazy, score_arrays

from streamfit import scores as sfs
from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.scores import sorting


@pytest.fixture(params=["in memory", "on scratch"])
def held(request, monkeypatch):
    """Keep what waits in memory, or on scratch, whatever its size."""
    if request.param == "on scratch":
        monkeypatch.setattr(sorting, "HELD_NBYTES", -1)


# -- a share of the rows -----------------------------------------------------------------------------


@settings(max_examples=50)
@given(values=score_arrays(), cuts=st.lists(st.integers(0, 60), max_size=5), contamination=st.floats(0.001, 0.5))
def test_threshold_is_numpys_percentile_for_any_chunking(values, cuts, contamination):
    expected = np.percentile(values, 100 * (1 - contamination))
    assert sfs.threshold(values, contamination) == expected
    blocks = lazy(values, [min(cut, len(values)) for cut in cuts])
    assert sfs.threshold(blocks, contamination).compute() == expected


@pytest.mark.parametrize("n_chunks", N_CHUNKS)
def test_threshold_and_flags_of_irregular_blocks(n_chunks, held):
    values = np.random.default_rng(0).normal(size=3_001).round(2)
    blocks = irregular(values, n_chunks)
    for contamination in (0.001, 0.1, 0.5):
        expected = np.percentile(values, 100 * (1 - contamination))
        threshold = sfs.threshold(blocks, contamination)
        found, flags = dask.compute(threshold, sfs.flags(blocks, threshold))
        assert found == expected
        np.testing.assert_array_equal(flags, (values > expected).astype(np.int64), strict=True)


@settings(max_examples=30)
@given(
    values=score_arrays(),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    threshold=st.sampled_from([0.0, 1.0, 2.5, 3.3]),
)
def test_flags_are_strictly_above(values, cuts, threshold):
    blocks = lazy(values, [min(cut, len(values)) for cut in cuts])
    expected = (values > threshold).astype(np.int64)
    np.testing.assert_array_equal(sfs.flags(values, threshold), expected, strict=True)
    found = sfs.flags(blocks, threshold)
    assert found.chunks == blocks.chunks
    np.testing.assert_array_equal(found.compute(), expected, strict=True)


def test_infinite_scores_are_ordered_like_numbers():
    values = np.array([-np.inf, 1.0, 2.0, 3.0, np.inf])
    for scores in (values, da.from_array(values, chunks=2)):
        assert float(sfs.threshold(scores, 0.5)) == 2.0
        assert np.asarray(sfs.flags(scores, 2.0)).tolist() == [0, 0, 0, 1, 1]


def test_a_threshold_beside_an_infinity_is_the_finite_score():
    # NumPy gives NaN: 0 times the way to infinity.
    values = np.array([0.0, 1.0, np.inf])
    for scores in (values, da.from_array(values, chunks=2)):
        assert float(sfs.threshold(scores, 0.5)) == 1.0


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.array([np.inf] * 5), id="all-infinite"),
        pytest.param(np.array([1.0, 2.0, 3.0, np.inf]), id="beside-an-infinity"),
    ],
)
def test_an_infinite_threshold_is_refused(values):
    for scores in (values, da.from_array(values, chunks=2)):
        with pytest.raises(InvalidDataError, match="too many scores are infinite"):
            float(sfs.threshold(scores, 0.1))


@pytest.mark.parametrize("contamination", [0, -0.1, 0.51, np.nan, "x", None, [0.1], IQR])
def test_contamination_outside_its_range(contamination):
    with pytest.raises(InvalidParameterError, match="contamination"):
        sfs.threshold(np.ones(3), contamination)


@pytest.mark.parametrize("use", [sfs.flags, sfs.partition_summary])
@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        pytest.param(np.nan, "got NaN", id="nan"),
        pytest.param(np.array(np.nan), "got NaN", id="nan-array"),
        pytest.param("x", "one number for all rows, got 'x'", id="text"),
        pytest.param(np.ones(3), "one number for all rows", id="one-a-row"),
        pytest.param(da.ones(3), "one number for all rows", id="lazy-one-a-row"),
    ],
)
def test_thresholds_that_are_refused(use, threshold, message):
    for scores in (np.ones(3), da.ones(3, chunks=2)):
        with pytest.raises(InvalidParameterError, match=message):
            use(scores, threshold)


def test_flags_need_a_threshold():
    with pytest.raises(InvalidParameterError, match="got None"):
        sfs.flags(np.ones(3), None)


@pytest.mark.parametrize("use", [sfs.flags, sfs.partition_summary])
def test_a_lazy_nan_threshold_is_refused_when_it_is_computed(use):
    for scores in (np.ones(3), da.ones(3, chunks=2)):
        lazily = use(scores, da.from_array(np.array(np.nan)))
        with pytest.raises(InvalidParameterError, match="got NaN"):
            lazily.compute()


@pytest.mark.parametrize("threshold", [1, np.float32(1), np.array(1.0), da.ones(3).sum() / 3], ids=repr)
def test_any_number_is_a_threshold(threshold):
    (flags,) = dask.compute(sfs.flags(np.array([0.5, 1, 1.5]), threshold))
    np.testing.assert_array_equal(flags, [0, 0, 1])


# -- thresholders ------------------------------------------------------------------------------------


def skewed(n=2_000):
    return np.random.default_rng(3).lognormal(size=n) * 7 - 3


@pytest.mark.parametrize(
    "thresholder", [IQR(), MAD(), ZSCORE(), KARCH(), FILTER(), MTT()], ids=lambda one: type(one).__name__
)
def test_flags_are_the_labels_of_a_thresholder(thresholder):
    values = skewed()
    expected = type(thresholder)().fit(values).labels_
    assert 0 < expected.sum() < len(values)
    whole = sfs.threshold(values, thresholder)
    np.testing.assert_array_equal(sfs.flags(values, whole), expected)
    for n_chunks in N_CHUNKS:
        blocks = irregular(values, n_chunks)
        threshold = sfs.threshold(blocks, thresholder)
        assert threshold.compute() == whole
        np.testing.assert_array_equal(sfs.flags(blocks, threshold).compute(), expected)
    assert thresholder.labels_ is None


def test_a_threshold_lies_where_the_thresholder_put_it():
    values = skewed()
    found = sfs.threshold(values, IQR())
    limit = IQR().fit(values).thresh_
    assert found == pytest.approx(values.min() + limit * np.ptp(values), rel=1e-12)


def test_a_score_that_a_threshold_meets_is_flagged_as_pythresh_flags_it():
    class Half(IQR):
        def eval(self, decision):
            self.thresh_ = 0.5
            return (self._data_setup(decision) >= 0.5).astype(int)

    assert sfs.flags([0.0, 1.0, 2.0], sfs.threshold([0.0, 1.0, 2.0], Half())).tolist() == [0, 1, 1]


@pytest.mark.parametrize("flagged", [0, 1])
def test_a_thresholder_that_flags_none_or_all(flagged):
    class Same(IQR):
        def eval(self, decision):
            self.thresh_ = None
            return np.full(len(decision), flagged)

    values = np.array([1.0, 2.0, 3.0])
    assert sfs.flags(values, sfs.threshold(values, Same())).tolist() == [flagged] * 3


def test_labels_that_are_no_threshold_are_refused():
    class Lowest(IQR):
        def eval(self, decision):
            return (np.asarray(decision) < 2).astype(int)

    for scores in (np.arange(4.0), da.arange(4.0, chunks=3)):
        with pytest.raises(UnsupportedError, match=r"Lowest flags a score of 0.0 and not one of 3.0"):
            float(sfs.threshold(scores, Lowest()))


def test_thresholders_leave_the_global_random_numbers_alone():
    thresholder = IQR()
    np.random.seed(5)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    sfs.threshold(skewed(), thresholder)
    assert np.random.random() == expected  # noqa: NPY002


def test_a_sample_follows_from_seed_and_rows_alone(monkeypatch):
    values = skewed()
    found = {
        float(sfs.threshold(scores, IQR(), n_sampled=300, seed=7))
        for scores in (values, *(irregular(values, n) for n in N_CHUNKS))
    }
    assert len(found) == 1
    assert found != {sfs.threshold(values, IQR(), n_sampled=300, seed=8)}
    assert sfs.threshold(values, IQR(), n_sampled=5_000) == sfs.threshold(values, IQR())


def test_a_thresholder_sees_the_sample_and_the_extremes():
    seen = []

    class Seeing(IQR):
        def __deepcopy__(self, memo):
            return self

        def eval(self, decision):
            seen.append(np.array(decision))
            return super().eval(decision)

    values = np.random.default_rng(0).permutation(1_000.0 * np.arange(1_000))
    sfs.threshold(values, Seeing(), n_sampled=50)
    (sample,) = seen
    assert 50 <= len(sample) == len(np.unique(sample)) <= 52
    assert (sample.min(), sample.max()) == (0.0, 999_000.0)
    assert np.isin(sample, values).all()


def test_a_thresholder_needs_finite_scores_that_differ():
    for scores in (np.array([1.0, 2.0, np.inf]), da.from_array(np.array([1.0, 2.0, np.inf]), chunks=2)):
        for n_sampled in (None, 2):
            with pytest.raises(InvalidDataError, match="score of row 2 is inf") as error:
                float(sfs.threshold(scores, IQR(), n_sampled=n_sampled))
            assert error.value.row == 2
    with pytest.raises(InvalidDataError, match=r"All 3 scores are 1\.0"):
        sfs.threshold(np.ones(3), IQR())


def test_a_sample_is_for_thresholders():
    with pytest.raises(InvalidParameterError, match="n_sampled is for thresholders"):
        sfs.threshold(np.ones(3), 0.1, n_sampled=2)
    for wrong in ({"n_sampled": 0}, {"seed": -1}):
        with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
            sfs.threshold(np.ones(3), IQR(), **wrong)
