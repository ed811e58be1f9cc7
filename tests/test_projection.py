"""What is told before a fit or a stream is what it then takes."""

from __future__ import annotations

import json
import threading
import tracemalloc
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.incremental import trial
from streamfit.plan.batch_costs import EstimatorCost, StreamRequest
from streamfit.plan.budget import stream_budget
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import StoreLayout
from streamfit.run import segments
from streamfit.run.sampled_rows import sample_rows

MiB = 2**20
N_ROWS, CHUNK_ROWS = 6_100, 100


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 8), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
    return sf.ingest(X, tmp_path_factory.mktemp("projection") / "store", y=y, chunk_rows=CHUNK_ROWS)


@pytest.fixture
def streamed(monkeypatch):
    """Plan, prefetch, limit of each stream that a fit begins."""
    found = []
    original = segments.stream_epochs

    def noted(reader, plans, **options):
        plans = list(plans)
        found.append((reader.layout, plans, options))
        return original(reader, iter(plans), **options)

    monkeypatch.setattr(segments, "stream_epochs", noted)
    return found


def budget_of(layout, plan, prefetch, n_epochs, label_nbytes=8):
    return stream_budget(
        layout,
        batch_size=plan.batch_size,
        window_chunks=plan.window_chunks,
        prefetch=prefetch,
        label_nbytes=label_nbytes,
        n_epochs=n_epochs,
        sampling=None,
    )


def wide_limit(store, prefetch):
    """Memory that one window takes, or two."""
    plan = store.plan(batch_size=64, window=1)
    return budget_of(store.layout, plan, prefetch, 2).nbytes


# -- it is what a fit does ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        pytest.param(SGDClassifier(), {}, id="defaults"),
        pytest.param(SGDClassifier(), {"shuffle": "none", "batch_size": 700}, id="in-order"),
        pytest.param(SGDClassifier(), {"stream": sf.StreamOptions(window=7, prefetch=3)}, id="window"),
        pytest.param(SGDClassifier(), {"stream": sf.StreamOptions(min_batch=50)}, id="merged-tail"),
        pytest.param(SGDClassifier(), {"stream": sf.StreamOptions(drop_last=True)}, id="dropped-tail"),
        pytest.param(SGDClassifier(), {"limit_for": 0}, id="tight"),
        pytest.param(SGDClassifier(), {"limit_for": 1}, id="roomy"),
        pytest.param(make_pipeline(StandardScaler(), IncrementalPCA(3), SGDClassifier()), {}, id="pipeline"),
        pytest.param(make_pipeline(PolynomialFeatures(2), GaussianNB()), {"cache": True}, id="cached-wider"),
    ],
)
def test_window_steps_prefetch_and_memory_are_those_of_the_fit(store, streamed, estimator, options):
    options = {"batch_size": 64, "epochs": 2} | options
    if "limit_for" in options:
        options["memory_limit"] = wide_limit(store, options.pop("limit_for"))
    trainer = sf.StreamTrainer(estimator, **options)
    found = trainer.plan(store)
    assert not streamed
    trainer.fit(store)
    layout, plans, used = streamed[-1]
    assert len(plans) == found.n_epochs == 2
    assert found.prefetch == used["prefetch"]
    assert (found.n_steps, found.n_windows) == (trainer.n_steps_, plans[0].n_windows)
    assert (found.window_chunks, found.shuffle) == (plans[0].window_chunks, plans[0].shuffle)
    assert found.window_rows == max(np.diff(plans[0].window_edges))
    assert found.n_rows == trainer.history_[0]["n_rows"]
    assert found.memory == budget_of(layout, plans[0], used["prefetch"], 2).parts
    assert found.memory_limit == used["memory_limit"]


def test_a_limit_decides_what_is_read_ahead(store):
    tight, roomy = (
        sf.StreamTrainer(SGDClassifier(), batch_size=64, epochs=2, memory_limit=wide_limit(store, prefetch)).plan(store)
        for prefetch in (0, 1)
    )
    assert (tight.prefetch, roomy.prefetch) == (0, 1)
    assert "0 windows read ahead" in str(tight)
    assert "1 window read ahead" in str(roomy)


@pytest.mark.parametrize("shuffle", ["window", "none"])
@pytest.mark.parametrize("limit", [None, 0, 1])
def test_a_stream_is_projected_as_it_is_planned(store, shuffle, limit):
    memory_limit = None if limit is None else wide_limit(store, limit)
    found = store.project(batch_size=64, shuffle=shuffle, memory_limit=memory_limit)
    plan = store.plan(batch_size=64, shuffle=shuffle, memory_limit=memory_limit)
    assert (found.window_chunks, found.n_steps, found.n_windows) == (plan.window_chunks, len(plan), plan.n_windows)
    assert found.memory == budget_of(store.layout, plan, found.prefetch, 1).parts
    assert found.estimator is None
    assert found.compute_seconds is None
    assert found.seconds == found.epoch_seconds == found.read_seconds > 0


def test_a_run_that_would_be_gone_on_with_keeps_its_window(store, tmp_path):
    options = {"batch_size": 64, "checkpoint": tmp_path / "run"}
    first = sf.StreamTrainer(SGDClassifier(), epochs=1, stream=sf.StreamOptions(window=9), **options)
    assert first.plan(store).window_chunks == 9
    assert not (tmp_path / "run").exists()  # nothing is made by asking
    first.fit(store)
    later = sf.StreamTrainer(SGDClassifier(), epochs=2, **options)
    files = sorted((tmp_path / "run").iterdir())
    assert later.plan(store).window_chunks == 9
    assert sorted((tmp_path / "run").iterdir()) == files
    assert later.fit(store).plan_.window_chunks == 9
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(sf.errors.CheckpointError, match="damaged"):
        later.plan(store)


def test_rows_that_are_in_no_store(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    X, y = np.ones((300, 2)), np.arange(300) % 2
    found = sf.StreamTrainer(SGDClassifier(), batch_size=64, epochs=4).plan(X, y, sample_weight=np.ones(300))
    assert (found.n_rows, found.n_steps, found.n_epochs) == (300, 5, 4)
    assert not Path(found.store).exists()


# -- it leaves things as they are --------------------------------------------------------------------


def test_nothing_is_changed(store):
    estimator = make_pipeline(StandardScaler(), IncrementalPCA(3), SGDClassifier(random_state=np.random.RandomState(1)))
    trainer = sf.StreamTrainer(estimator, batch_size=64, random_state=None)
    before, state = repr(vars(trainer)), deepcopy(estimator[-1].random_state.get_state())
    threads, files = set(threading.enumerate()), sorted(Path(store.path).rglob("*"))
    trainer.plan(store)
    assert repr(vars(trainer)) == before
    assert [vars(link).keys() for link in estimator] == [vars(link).keys() for link in deepcopy(estimator)]
    assert not any(name.endswith("_") for link in estimator for name in vars(link))
    np.testing.assert_equal(estimator[-1].random_state.get_state(), state)
    assert set(threading.enumerate()) == threads
    assert sorted(Path(store.path).rglob("*")) == files
    assert not tracemalloc.is_tracing()


def test_who_traces_allocations_goes_on(store):
    tracemalloc.start()
    try:
        held = bytearray(MiB)
        sf.StreamTrainer(SGDClassifier(), batch_size=64).plan(store)
        assert tracemalloc.is_tracing()
        assert tracemalloc.get_traced_memory()[0] >= len(held)
    finally:
        tracemalloc.stop()


# -- what is measured --------------------------------------------------------------------------------


class Allocating(ClassifierMixin, BaseEstimator):
    """Keeps 1 MiB, and takes 1,000 bytes a row in a step."""

    def partial_fit(self, X, y, classes=None):  # noqa: ARG002
        self.classes_ = classes if classes is not None else self.classes_
        scratch = np.zeros(1_000 * len(X), dtype=np.uint8)
        self.state_ = np.full(MiB, scratch[0])
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_memory_of_an_estimator_at_other_sizes_follows_from_two(store):
    found = sf.StreamTrainer(Allocating(), batch_size=2_000).plan(store)
    assert found.estimator.row_nbytes == pytest.approx(1_000, rel=0.02)
    # The second step holds the state of the first one while it makes its own.
    assert found.estimator.fixed_nbytes == pytest.approx(2 * MiB, rel=0.02)
    assert found.estimator_nbytes == found.estimator.nbytes(2_000)
    by_size = {size.batch_size: size for size in found.batch_sizes}
    assert set(by_size) == {1_000, 2_000}
    for size in by_size.values():
        assert size.estimator_nbytes == found.estimator.nbytes(size.batch_size)
        assert size.nbytes == size.own_nbytes + size.estimator_nbytes
    assert by_size[2_000].own_nbytes == found.own_nbytes


def test_time_is_that_of_the_steps_and_of_the_chunks(store, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(trial.time, "perf_counter", lambda: clock[0])

    class Slow(Allocating):
        def partial_fit(self, X, y, classes=None):
            clock[0] += len(X) / 1_000
            return super().partial_fit(X, y, classes)

    found = sf.StreamTrainer(Slow(), batch_size=100, epochs=3).plan(store)
    assert found.estimator.seconds_a_row == pytest.approx(1e-3)
    assert found.compute_seconds == pytest.approx(6.1)
    assert found.epoch_seconds == max(found.read_seconds, found.compute_seconds)
    assert found.seconds == pytest.approx(3 * found.epoch_seconds)
    alone = sf.StreamTrainer(Slow(), batch_size=100, stream=sf.StreamOptions(prefetch=0)).plan(store)
    assert alone.epoch_seconds == pytest.approx(alone.read_seconds + alone.compute_seconds)


class SlowTransformer(TransformerMixin, BaseEstimator):
    """Takes a second for each row that it is asked for, by a clock that a test gives."""

    clock = None

    def fit(self, X, y=None):  # noqa: ARG002
        return self

    def transform(self, X):
        type(self).clock[0] += len(X)
        return X

    def __sklearn_is_fitted__(self):
        return True


def test_transformers_count_in_each_step_or_once_where_they_are_cached(store, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(SlowTransformer, "clock", clock)
    monkeypatch.setattr(trial.time, "perf_counter", lambda: clock[0])
    model = make_pipeline(SlowTransformer(), SGDClassifier())
    found = sf.StreamTrainer(model, batch_size=100).plan(store)
    assert found.estimator.seconds_a_row == pytest.approx(1)
    assert (found.passes_before, found.before_seconds) == (0, 0)
    cached = sf.StreamTrainer(model, batch_size=100, cache=True).plan(store)
    assert cached.estimator.seconds_a_row == pytest.approx(0)
    assert cached.passes_before == 1
    assert cached.before_seconds >= N_ROWS
    fitted = make_pipeline(SlowTransformer(), StandardScaler(), SGDClassifier())
    assert sf.StreamTrainer(fitted, batch_size=100).plan(store).before_seconds >= N_ROWS


@pytest.mark.parametrize(
    ("rows", "estimator"),
    [
        pytest.param(lambda s: s[::3], SGDClassifier(), id="view"),
        pytest.param(
            lambda s: s.transformed(StandardScaler().fit(s.take(range(99)))), SGDClassifier(), id="transformed"
        ),
        pytest.param(lambda s: s, make_pipeline(VarianceThreshold(), SGDClassifier()), id="selection"),
        pytest.param(lambda s: s, IncrementalPCA(3), id="no-labels"),
    ],
)
def test_kinds_of_rows_and_models(store, rows, estimator):
    rows = rows(store)
    trainer = sf.StreamTrainer(estimator, batch_size=64)
    found = trainer.plan(rows)
    trainer.fit(rows)
    assert (found.n_steps, found.window_chunks) == (trainer.n_steps_, trainer.plan_.window_chunks)
    assert found.compute_seconds > 0


def test_sparse_rows(tmp_path):
    X = scipy.sparse.random_array((3_000, 5_000), density=0.002, rng=np.random.default_rng(0), format="csr")
    rows = sf.ingest(X, tmp_path / "sparse", y=np.arange(3_000) % 3, chunk_rows=100)
    trainer = sf.StreamTrainer(MultinomialNB(), batch_size=64, memory_limit="64MB")
    found = trainer.plan(rows)
    trainer.fit(rows)
    assert (found.n_steps, found.window_chunks) == (trainer.n_steps_, trainer.plan_.window_chunks)
    assert found.estimator.fixed_nbytes > 3 * 5_000 * 8  # its counts


def test_a_trial_is_bounded(store, monkeypatch):
    monkeypatch.setattr("streamfit.run.sampled_rows._MOST_NBYTES", 40 * 8 * 4)
    assert sf.StreamTrainer(GaussianNB(), batch_size=5_000).plan(store).estimator.measured_rows == 40
    # Not below what each batch has to hold.
    stream = sf.StreamOptions(min_batch=70)
    assert sf.StreamTrainer(GaussianNB(), batch_size=5_000, stream=stream).plan(store).estimator.measured_rows == 70


def test_trial_rows_come_from_all_over_the_store(store):
    sampled = sample_rows(store.reader, n_rows=500, few_chunks=True)
    rows = sampled.batch.rows
    assert sampled.batch.n_rows == len(set(rows.tolist())) == 500
    np.testing.assert_array_equal(sampled.batch.X, store.take(rows))
    np.testing.assert_array_equal(sampled.batch.y, store.take_labels(rows))
    assert rows.min() < N_ROWS / 10 < N_ROWS * 9 / 10 < rows.max()
    assert not (np.diff(rows) > 0).all()
    few = sample_rows(store[:30].reader, n_rows=500, few_chunks=True)
    assert sorted(few.batch.rows.tolist()) == list(range(30))


# -- refused -----------------------------------------------------------------------------------------


def test_refused_early_with_numbers(store):
    with pytest.raises(BudgetError, match=r"are needed and memory_limit is 1.00 MiB \(1 window"):
        sf.StreamTrainer(SGDClassifier(), batch_size=64, memory_limit=MiB).plan(store)
    with pytest.raises(BudgetError, match="are needed"):
        store.project(batch_size=64, memory_limit=MiB)
    limit = wide_limit(store, 0)
    with pytest.raises(BudgetError, match="The largest prefetch that fits"):
        store.project(batch_size=64, memory_limit=limit, window=1, prefetch=3)


def test_what_a_fit_refuses(store):
    with pytest.raises(InvalidDataError, match="MultinomialNB refuses"):
        sf.StreamTrainer(MultinomialNB(), batch_size=64).plan(store)
    with pytest.raises(InvalidParameterError, match="has no partial_fit"):
        sf.StreamTrainer(PolynomialFeatures(), batch_size=64).plan(store)
    with pytest.raises(InvalidParameterError, match="exceeds the window"):
        store.project(batch_size=1_000, window=1)
    with pytest.raises(InvalidParameterError, match="epochs"):
        store.project(batch_size=10, epochs=0)


def test_cached_rows_that_do_not_fit(store):
    limit = wide_limit(store, 1) + 10_000
    trainer = sf.StreamTrainer(
        make_pipeline(PolynomialFeatures(6), SGDClassifier()), batch_size=64, memory_limit=limit, cache=True
    )
    with pytest.raises(BudgetError, match="The transformers make 3003 columns of 8"):
        trainer.plan(store)


# -- the largest batch -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"stream": sf.StreamOptions(prefetch=1)}, {"shuffle": "none"}])
def test_the_largest_batch_is_accepted_and_a_larger_one_is_not(store, options):
    limit = 48 * MiB + 200_000
    found = sf.StreamTrainer(SGDClassifier(), batch_size=64, memory_limit=limit, **options).plan(store)
    largest = found.largest_batch_size
    assert CHUNK_ROWS < largest < N_ROWS
    at_most = sf.StreamTrainer(SGDClassifier(), batch_size=largest, memory_limit=limit, **options)
    at_most.fit(store)
    with pytest.raises(BudgetError):
        sf.StreamTrainer(SGDClassifier(), batch_size=largest + 1, memory_limit=limit, **options).fit(store)
    in_all = found.largest_batch_size_in_all
    left = limit - found.estimator.nbytes(in_all)
    assert 0 < in_all < largest
    assert store.project(batch_size=in_all, memory_limit=left, shuffle=found.shuffle).own_nbytes <= left
    assert f"memory_limit={left}" in str(found)


def test_without_a_limit_no_batch_is_the_largest(store):
    found = store.project(batch_size=64)
    assert found.largest_batch_size is None
    assert "largest" not in str(found)
    assert all(size.fits for size in found.batch_sizes)


def request(layout, **options):
    defaults = {"shuffle": "window", "window": None, "prefetch": None, "memory_limit": None, "sampling": None}
    return StreamRequest(
        layout=layout, **(defaults | options), label_nbytes=8, n_epochs=options.pop("n_epochs", 2), correlation=None
    )


@given(
    st.integers(1, 400_000),
    st.integers(1, 5_000),
    st.integers(1, 40) | st.none(),
    st.integers(0, 2) | st.none(),
    st.integers(40 * MiB, 200 * MiB),
    st.integers(0, 3_000),
)
def test_no_batch_beyond_the_largest_fits(n_rows, chunk_rows, window, prefetch, limit, row_nbytes):
    layout = StoreLayout(n_rows=n_rows, n_features=20, chunk_rows=chunk_rows, itemsize=8)
    asked = request(layout, window=window, prefetch=prefetch, memory_limit=limit)

    def beside(size):
        return MiB + row_nbytes * size

    largest = asked.largest_batch_size(beside_nbytes=beside)
    assert 0 <= largest <= asked.most_rows <= n_rows
    if largest:
        assert asked.fits(largest, beside_nbytes=beside(largest))
        cost = replace(asked, memory_limit=limit - beside(largest)).cost(largest)
        assert cost.budget.nbytes + beside(largest) <= limit
        # An order of such batches can be planned.
        EpochPlan(layout, largest, seed=0, epoch=0, shuffle="window", window_chunks=cost.window_chunks)
    if largest < asked.most_rows:
        assert not asked.fits(largest + 1, beside_nbytes=beside(largest + 1))


def test_a_larger_batch_that_needs_a_window_less_is_found():
    # One chunk of 57 rows: four windows are held, of two epochs. All 58 rows: one window an epoch, and two are held.
    layout = StoreLayout(n_rows=58, n_features=1_548, chunk_rows=57, itemsize=8)
    asked = request(layout, prefetch=3, memory_limit=56_930_870)
    fitting = [size for size in range(1, 59) if asked.fits(size, beside_nbytes=0)]
    assert fitting == [*range(1, 39), 58]
    assert asked.largest_batch_size(beside_nbytes=lambda _: 0) == 58


@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from(["window", "none"]),
    st.integers(1, 8) | st.none(),
    st.integers(0, 7) | st.none(),
    st.floats(0.5, 1.1),
)
def test_the_largest_batch_is_that_of_all_that_fit(n_rows, chunk_rows, shuffle, window, prefetch, share):
    layout = StoreLayout(n_rows=n_rows, n_features=50_000, chunk_rows=chunk_rows, itemsize=8)
    asked = request(layout, shuffle=shuffle, window=window, prefetch=prefetch)
    asked = replace(asked, memory_limit=round(share * asked.cost(asked.most_rows).budget.nbytes))
    fitting = [size for size in range(1, asked.most_rows + 1) if asked.fits(size, beside_nbytes=0)]
    assert asked.largest_batch_size(beside_nbytes=lambda _: 0) == max(fitting, default=0)


@pytest.mark.parametrize(
    ("estimator", "batch_size"),
    [
        pytest.param(IncrementalPCA(36), 40, id="estimator"),
        pytest.param(make_pipeline(PCA(36), SGDClassifier(random_state=0)), 10, id="transformer"),
    ],
)
def test_an_estimator_that_needs_more_rows_than_32_small_chunks_hold(tmp_path, estimator, batch_size):
    rng = np.random.default_rng(0)
    store = sf.ingest(rng.normal(size=(60, 40)), tmp_path / "store", y=np.arange(60) % 2, chunk_rows=1)
    trainer = sf.StreamTrainer(estimator, batch_size=batch_size)
    found = trainer.plan(store)
    assert found.n_steps == trainer.fit(store).n_steps_
    assert found.estimator.measured_rows == batch_size
    # More than a batch has is refused, as in a fit.
    refused = sf.StreamTrainer(IncrementalPCA(36), batch_size=35)
    for call in (refused.plan, refused.fit):
        with pytest.raises(InvalidParameterError, match="batch_size is 35"):
            call(store)


def test_as_many_chunks_are_sampled_as_hold_the_rows(tmp_path):
    store = sf.ingest(np.arange(1_000.0).reshape(500, 2), tmp_path / "store", chunk_rows=5)
    for rows, n_rows in ((store, 333), (store, 500), (store[np.arange(500) % 7 < 3], 200)):
        taken = sample_rows(rows.reader, n_rows=n_rows, few_chunks=False).batch
        assert taken.n_rows == len(np.unique(taken.rows)) == n_rows
        np.testing.assert_array_equal(taken.X, rows.take(taken.rows))
    assert sample_rows(store.reader, n_rows=333, few_chunks=True).batch.n_rows == 32 * 5


def test_costs_of_millions_of_chunks_take_few_tries(monkeypatch):
    layout = StoreLayout(n_rows=200_000_000, n_features=4, chunk_rows=100, itemsize=4)
    tried = []

    def counted(*args, **options):
        tried.append(options["window_chunks"])
        return stream_budget(*args, **options)

    monkeypatch.setattr("streamfit.plan.window.stream_budget", counted)
    asked = request(layout, memory_limit=2**30)
    assert asked.largest_batch_size(beside_nbytes=EstimatorCost("A", 0.0, 5, 9.0, 10).nbytes) > 1_000_000
    assert len(tried) < 5_000


# -- how it is shown ---------------------------------------------------------------------------------


def test_texts_and_plain_values(store):
    found = sf.StreamTrainer(SGDClassifier(), batch_size=64, epochs=2, memory_limit="1GB").plan(store)
    assert isinstance(found, sf.FitProjection)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["memory"] == dict(found.memory)
    assert values["own_nbytes"] == sum(values["memory"].values()) == found.own_nbytes
    assert values["seconds"] == found.seconds
    assert values["quality"]["batch_variance"] == found.quality.batch_variance
    assert values["batch_sizes"][0]["nbytes"] == found.batch_sizes[0].nbytes
    text, html = str(found), found._repr_html_()
    for said in ("96 an epoch, of 64 rows; 2 epochs", "SGDClassifier, measured", "largest batch", "row order"):
        assert said in text
        assert said in html
    assert max(map(len, text.splitlines())) < 300


def test_sorted_rows_are_told_with_the_remedy(tmp_path):
    y = np.repeat(np.arange(4), 5_000)
    rows = sf.ingest(y[:, None] * np.ones((1, 3)), tmp_path / "sorted", y=y, chunk_rows=100)
    found = rows.project(batch_size=64, window=4)
    assert found.correlation == pytest.approx(1, abs=0.01)
    assert found.quality.passes > 0
    assert "store.shuffle(path" in str(found)
    in_order = rows.project(batch_size=64, shuffle="none")
    assert in_order.quality.problem is None
    assert "warning" not in str(in_order)


def test_without_labels_nothing_is_said_of_the_order(tmp_path):
    rows = sf.ingest(np.ones((300, 2)), tmp_path / "bare", chunk_rows=100)
    found = rows.project(batch_size=64)
    assert found.quality is None
    assert found.correlation is None
    assert "without labels" in str(found)


@pytest.mark.parametrize("batch_size", [1, 2, 7])
@pytest.mark.parametrize("cache", [None, True])
def test_transformers_are_tried_on_more_rows_than_a_small_batch_has(batch_size, cache):
    X = np.random.default_rng(0).standard_normal((300, 6))
    model = make_pipeline(StandardScaler(), PCA(3), SGDClassifier())
    trainer = sf.StreamTrainer(model, batch_size=batch_size, cache=cache)
    projection = trainer.plan(X, (X[:, 0] > 0).astype(int))
    assert projection.n_steps == trainer.fit(X, (X[:, 0] > 0).astype(int)).n_steps_
