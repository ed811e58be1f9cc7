"""The laws that every summary keeps; a new summary joins by a line in SUMMARIES."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from streamfit.batch import Chunk
from streamfit.incremental.metric_summary import MetricSummary
from streamfit.incremental.metric_ways import Target, ways_of
from streamfit.incremental.scorers import metrics_of
from streamfit.maths.summaries.candidates import CandidateHistograms
from streamfit.maths.summaries.covariance import Covariance
from streamfit.maths.summaries.digits import DigitCounts
from streamfit.maths.summaries.extremes import MinMax
from streamfit.maths.summaries.histogram import HistogramCounts
from streamfit.maths.summaries.moments import Moments
from streamfit.maths.summaries.stored_values import StoredValues
from streamfit.maths.summaries.valid_moments import ValidMoments

N_FEATURES = 3
LOW, HIGH = -8.0, 8.0
RANGE = np.full(N_FEATURES, LOW), np.full(N_FEATURES, HIGH)

CLASSES = np.array([0, 1])


class Signs(ClassifierMixin, BaseEstimator):
    """A fitted classifier."""

    classes_ = CLASSES

    def predict(self, X):
        return (X[:, 1] > 0).astype(int)

    def predict_proba(self, X):
        positive = 1 / (1 + np.exp(-X[:, 1]))
        return np.column_stack([1 - positive, positive])


class Halves(RegressorMixin, BaseEstimator):
    """A fitted regressor."""

    def predict(self, X):
        return X[:, 1] / 2


def metrics(model, classes, *names):
    target = Target(model, classes, classes, label_nbytes=8, n_outputs=1)
    return MetricSummary(model, *ways_of(metrics_of(names), target), n_rows=30)


SUMMARIES = [
    pytest.param(MinMax(N_FEATURES, dtype=np.float64), "identical", id="MinMax"),
    pytest.param(HistogramCounts(*RANGE, n_bins=7), "identical", id="HistogramCounts"),
    pytest.param(HistogramCounts(*RANGE, n_bins=(1, 4, 9)), "identical", id="HistogramCounts-uneven"),
    pytest.param(CandidateHistograms(*RANGE, n_rows=30), "identical", id="CandidateHistograms"),
    pytest.param(Moments(N_FEATURES), "equal", id="Moments"),
    pytest.param(ValidMoments(N_FEATURES, missing=0.0), "equal", id="ValidMoments"),
    pytest.param(Covariance(N_FEATURES), "equal", id="Covariance"),
    pytest.param(StoredValues(N_FEATURES), "identical", id="StoredValues"),
    pytest.param(
        # 2.0 and -2.0 begin with these two bits, and most of the values.
        DigitCounts(1, np.dtype(np.float64), 2, 5, np.tile(np.uint64([1, 3]), (2, 1)), np.array([2, 1])),
        "identical",
        id="DigitCounts",
    ),
    pytest.param(
        metrics(Signs(), CLASSES, "accuracy", "f1_macro", "matthews_corrcoef", "rand_score", "d2_log_loss_score"),
        "equal",
        id="MetricSummary-classes",
    ),
    pytest.param(
        metrics(Halves(), None, "r2", "root_mean_squared_error", "max_error"), "equal", id="MetricSummary-numbers"
    ),
]


def leaves(result):
    """All numbers of a state or of a result, in one vector."""
    if is_dataclass(result):
        return leaves([getattr(result, field.name) for field in fields(result)])
    if isinstance(result, dict):
        return leaves(list(result.values()))
    if isinstance(result, (list, tuple)):
        return np.concatenate([np.empty(0), *(leaves(part) for part in result)])
    return np.ravel(np.asarray(result, dtype=np.float64))


def assert_same(left, right, rung):
    if rung == "identical":
        np.testing.assert_array_equal(leaves(left), leaves(right))
    else:
        np.testing.assert_allclose(leaves(left), leaves(right), rtol=1e-6, atol=1e-9)


def rows(values):
    return np.array(values, dtype=np.float64).reshape(-1, N_FEATURES)


matrices = st.lists(
    st.lists(st.floats(LOW, HIGH, width=32), min_size=N_FEATURES, max_size=N_FEATURES), max_size=12
).map(rows)


def chunk_of(X):
    return Chunk(0, 0, X, y=(X[:, 0] > 0).astype(int))


def state_of(summary, *parts):
    state = summary.empty()
    for part in parts:
        state = summary.update(state, chunk_of(part))
    return state


@pytest.mark.parametrize(("summary", "rung"), SUMMARIES)
@given(X=matrices)
def test_empty_is_the_identity(summary, rung, X):
    empty = summary.empty()
    assert_same(summary.merge(empty, summary.empty()), summary.empty(), rung)
    assert_same(summary.merge(empty, state_of(summary, X)), state_of(summary, X), rung)
    assert_same(summary.merge(state_of(summary, X), empty), state_of(summary, X), rung)
    assert_same(empty, summary.empty(), rung)


@pytest.mark.parametrize(("summary", "rung"), SUMMARIES)
@given(X=matrices, Y=matrices, Z=matrices)
def test_merge_is_associative_and_commutative(summary, rung, X, Y, Z):
    x, y, z = (state_of(summary, part) for part in (X, Y, Z))
    merge = summary.merge
    assert_same(merge(merge(x, y), z), merge(x, merge(y, z)), rung)
    assert_same(merge(x, y), merge(y, x), "identical")


@pytest.mark.parametrize(("summary", "rung"), SUMMARIES)
@given(X=matrices, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_any_split_gives_the_whole(summary, rung, X, cuts):
    parts = np.split(X, sorted(min(cut, len(X)) for cut in cuts))
    merged = summary.empty()
    for part in parts:
        merged = summary.merge(merged, state_of(summary, part))
    whole = state_of(summary, X)
    assert_same(merged, whole, rung)
    assert_same(state_of(summary, *parts), whole, rung)


@pytest.mark.parametrize(("summary", "rung"), SUMMARIES)
@given(X=matrices, Y=matrices)
def test_merge_changes_neither_state(summary, rung, X, Y):
    x, y = state_of(summary, X), state_of(summary, Y)
    summary.merge(x, y)
    assert_same(x, state_of(summary, X), rung)
    assert_same(y, state_of(summary, Y), rung)


@pytest.mark.parametrize(("summary", "rung"), SUMMARIES)
def test_states_and_summaries_survive_pickling(summary, rung):
    X = np.random.default_rng(0).uniform(LOW, HIGH, size=(30, N_FEATURES))
    copy = pickle.loads(pickle.dumps(summary))
    state = pickle.loads(pickle.dumps(state_of(summary, X)))
    whole = state_of(summary, X, X)
    assert_same(copy.update(state, chunk_of(X)), whole, rung)
    assert_same(copy.finalize(whole), summary.finalize(state_of(summary, X, X)), rung)


@pytest.mark.parametrize(("summary", "rung"), SUMMARIES)
def test_the_size_of_a_state_is_bounded(summary, rung):
    few = np.random.default_rng(0).uniform(LOW, HIGH, size=(3, N_FEATURES))
    many = np.random.default_rng(0).uniform(LOW, HIGH, size=(30_000, N_FEATURES))
    names_and_framing = 700
    for X in (few, many):
        assert len(pickle.dumps(state_of(summary, X))) <= summary.state_nbytes + names_and_framing
    assert leaves(state_of(summary, few)).size == leaves(state_of(summary, many)).size
