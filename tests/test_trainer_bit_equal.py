"""The result is bit-equal to ``partial_fit`` in memory with the same batches."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from dataclasses import replace

import distributed
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.plan.epoch import EpochPlan

N_ROWS, N_FEATURES = 1_037, 6


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    codes = (X[:, 0] + 0.5 * rng.normal(size=N_ROWS) > 0).astype(int) + (X[:, 1] > 1)
    return X, codes


def same(left, right):
    """Compare all fitted attributes bit by bit."""
    assert vars(left).keys() == vars(right).keys()
    for name, value in vars(left).items():
        assert pickle.dumps(value) == pickle.dumps(getattr(right, name)), name


def in_memory(model, trainer, X, y=None, **options):
    """The reference: a loop over the plan's rows."""
    with threadpool_limits(limits=1):
        for epoch in range(trainer.epochs):
            for batch in replace(trainer.plan_, epoch=epoch):
                arguments = (X[batch.rows],) if y is None else (X[batch.rows], y[batch.rows])
                model.partial_fit(*arguments, **options)
    return model


@pytest.mark.parametrize(
    ("estimator", "target"),
    [
        pytest.param(SGDClassifier(loss="log_loss", random_state=3), "classes", id="SGDClassifier"),
        pytest.param(SGDClassifier(average=True, random_state=3), "classes", id="SGDClassifier-averaged"),
        pytest.param(Perceptron(random_state=3), "classes", id="Perceptron"),
        pytest.param(GaussianNB(), "classes", id="GaussianNB"),
        pytest.param(MLPClassifier((8,), random_state=3), "classes", id="MLPClassifier"),
        pytest.param(SGDRegressor(random_state=3), "numbers", id="SGDRegressor"),
        pytest.param(MiniBatchKMeans(3, random_state=3), None, id="MiniBatchKMeans"),
        pytest.param(SGDOneClassSVM(random_state=3), None, id="SGDOneClassSVM"),
        pytest.param(IncrementalPCA(5), None, id="IncrementalPCA"),
        pytest.param(StandardScaler(), None, id="StandardScaler"),
    ],
)
@pytest.mark.parametrize("chunk_rows", [pytest.param(97, id="odd-chunks"), pytest.param(5_000, id="one-chunk")])
def test_bit_equal_to_a_loop_in_memory(tmp_path, data, estimator, target, chunk_rows):
    X, codes = data
    y = {"classes": codes, "numbers": X[:, 2] * 3.0 + codes, None: None}[target]
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=chunk_rows)
    # 1,037 rows leave a tail of 2, too few for IncrementalPCA(5): it is merged into the batch before.
    trainer = sf.StreamTrainer(estimator, batch_size=45, epochs=2, random_state=11).fit(store)
    options = {"classes": np.arange(3)} if target == "classes" else {}
    same(trainer.estimator_, in_memory(clone(estimator), trainer, X, y, **options))
    assert trainer.n_steps_ == (23 if isinstance(estimator, IncrementalPCA) else 24)
    assert vars(estimator) == vars(clone(estimator))


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(["anomalous", "fine", "odd"], id="text"),
        pytest.param([b"anomalous", b"fine", b"odd"], id="bytes"),
        pytest.param([-5, 0, 7], id="integers"),
        pytest.param([0.0, 1.0, 2.0], id="whole-floats"),
    ],
)
def test_labels_of_each_kind(tmp_path, data, labels):
    X, codes = data
    y = np.array(labels)[codes]
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=100)
    trainer = sf.StreamTrainer(GaussianNB(), batch_size=64).fit(store)
    text = np.char.decode(y) if y.dtype.kind == "S" else y
    expected = in_memory(GaussianNB(), trainer, X, text, classes=np.unique(text))
    same(trainer.estimator_, expected)
    np.testing.assert_array_equal(trainer.classes_, np.unique(text))
    np.testing.assert_array_equal(trainer.predict(store).compute(), expected.predict(X))
    np.testing.assert_array_equal(trainer.predict(X), expected.predict(X))
    assert trainer.score(store) == expected.score(X, text)


@pytest.mark.parametrize("shuffle", ["window", "none", True, False])
def test_sorted_labels_need_no_classes(tmp_path, data, shuffle):
    # The last class comes in the last of many batches, and most batches have one class.
    X, _ = data
    y = np.repeat([0, 1, 2], [1_000, 30, 7])
    store = sf.ingest(X, tmp_path / "store", y=y, chunk_rows=50)
    stream = sf.StreamOptions(window=2)
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=20, epochs=2, shuffle=shuffle, stream=stream)
    shuffled = shuffle in ("window", True)
    with pytest.warns(sf.ShuffleWarning) if shuffled else nullcontext():
        trainer.fit(store)
    same(
        trainer.estimator_,
        in_memory(SGDClassifier(random_state=0), trainer, X, y, classes=np.arange(3)),
    )
    assert trainer.plan_.shuffle == ("window" if shuffled else "none")


def test_sample_weights(tmp_path, data):
    X, codes = data
    weight = np.linspace(0.0, 2.0, N_ROWS)
    store = sf.ingest(X, tmp_path / "store", y=codes, sample_weight=weight, chunk_rows=100)
    trainer = sf.StreamTrainer(GaussianNB(), batch_size=64).fit(store)
    expected = GaussianNB()
    for batch in trainer.plan_:
        expected.partial_fit(X[batch.rows], codes[batch.rows], classes=np.arange(3), sample_weight=weight[batch.rows])
    same(trainer.estimator_, expected)


@pytest.mark.parametrize("labels", [pytest.param([0, 1, 2], id="integers"), pytest.param(["a", "b", "c"], id="text")])
def test_balanced_class_weights_come_from_all_rows(tmp_path, data, labels):
    X, codes = data
    y = np.array(labels)[codes]
    estimator = SGDClassifier(class_weight="balanced", random_state=0)
    trainer = sf.StreamTrainer(estimator, batch_size=64).fit(X, y)
    weights = {label: N_ROWS / (3 * int(np.sum(y == label))) for label in labels}
    expected = SGDClassifier(class_weight=weights, random_state=0)
    same(trainer.estimator_, in_memory(expected, trainer, X, y, classes=np.array(labels)))
    assert estimator.class_weight == "balanced"


def test_pipeline_with_transformers_of_each_kind(tmp_path, data):
    X, codes = data
    fitted = PolynomialFeatures(2, include_bias=False).fit(X)
    estimator = make_pipeline(
        StandardScaler(),
        make_pipeline(Normalizer(), "passthrough", MinMaxScaler()),
        fitted,
        FunctionTransformer(np.square),
        IncrementalPCA(4),
        SGDClassifier(random_state=5),
    )
    store = sf.ingest(X, tmp_path / "store", y=codes, chunk_rows=100)
    trainer = sf.StreamTrainer(estimator, batch_size=45, epochs=2).fit(store)

    # What is fitted exactly is as scikit-learn fits it; what follows takes these very transformers.
    expected, ours = clone(estimator), trainer.estimator_
    scaled = Normalizer().transform(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(ours[0].scale_, StandardScaler().fit(X).scale_, rtol=1e-6)
    np.testing.assert_allclose(ours[1][2].scale_, MinMaxScaler().fit(scaled).scale_, rtol=1e-6)
    methods = [method.method for method in trainer.transformer_methods_]
    assert methods == ["exact", "stateless", "exact", "kept", "stateless", "ordered"]
    links = [ours[0], expected[1][0], ours[1][2], fitted, expected[3], expected[4], expected[5]]
    passes = replace(trainer.plan_, shuffle="none")
    with threadpool_limits(limits=1):
        for batch in passes:
            Z = X[batch.rows]
            for link in links[:5]:
                Z = link.transform(Z)
            links[5].partial_fit(Z)
        for epoch in range(2):
            for batch in replace(trainer.plan_, epoch=epoch):
                Z = X[batch.rows]
                for link in links[:-1]:
                    Z = link.transform(Z)
                links[-1].partial_fit(Z, codes[batch.rows], classes=np.arange(3))
    same(trainer.estimator_[4], links[5])
    same(trainer.estimator_[5], links[6])
    assert not hasattr(estimator[0], "mean_")
    np.testing.assert_array_equal(trainer.predict(X), trainer.predict(store).compute())


def test_seeds_that_are_none_are_drawn_and_recorded(data):
    X, codes = data
    estimator = make_pipeline(StandardScaler(), SGDClassifier())

    def fit(seed):
        return sf.StreamTrainer(estimator, batch_size=100, random_state=seed).fit(X, codes)

    first, again, other = fit(1), fit(1), fit(2)
    assert first.estimator_[-1].random_state is not None
    same(first.estimator_[-1], again.estimator_[-1])
    assert first.estimator_[-1].random_state != other.estimator_[-1].random_state
    assert estimator[-1].random_state is None
    drawn = fit(None)
    same(drawn.estimator_[-1], fit(drawn.seed_).estimator_[-1])


def test_a_random_state_object_is_not_advanced(data):
    X, codes = data
    state = np.random.RandomState(4)
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=100, random_state=state)
    first = trainer.fit(X, codes).estimator_
    same(first, trainer.fit(X, codes).estimator_)
    assert state.randint(2**31) == np.random.RandomState(4).randint(2**31)


def test_prefetch_verify_and_chunk_layout_of_reads_do_not_matter(tmp_path, data):
    X, codes = data
    store = sf.ingest(X, tmp_path / "store", y=codes, chunk_rows=50)

    def fit(**options):
        stream = sf.StreamOptions(window=3, **options)
        return sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=64, epochs=2, stream=stream).fit(store)

    base = fit().estimator_
    for options in ({"prefetch": 0}, {"prefetch": 3}, {"verify": "never"}, {"verify": "first"}):
        same(base, fit(**options).estimator_)


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss")), id="pipeline"),
        pytest.param(MLPClassifier((8,)), id="MLPClassifier"),
    ],
)
@pytest.mark.parametrize("every_steps", [pytest.param(7, id="checkpoints"), pytest.param(None, id="no-checkpoints")])
def test_segments_on_workers_are_bit_equal(tmp_path, data, cluster, estimator, every_steps):
    X, codes = data
    store = sf.ingest(X, tmp_path / "store", y=codes, chunk_rows=100)

    def fit(folder):
        checkpoint = every_steps and sf.CheckpointOptions(tmp_path / folder, every_steps=every_steps)
        trainer = sf.StreamTrainer(estimator, batch_size=64, epochs=2, checkpoint=checkpoint)
        return trainer.fit(store, validation_data=store)

    local = fit("threads")
    with cluster.as_current():
        remote = fit("cluster")
    same(local.estimator_[-1], remote.estimator_[-1]) if hasattr(estimator, "steps") else same(
        local.estimator_, remote.estimator_
    )
    without_seconds = [
        [{k: v for k, v in entry.items() if k != "seconds"} for entry in trainer.history_]
        for trainer in (local, remote)
    ]
    assert without_seconds[0] == without_seconds[1]


def test_the_plan_is_the_stores(tmp_path, data):
    X, codes = data
    store = sf.ingest(X, tmp_path / "store", y=codes, chunk_rows=50)
    trainer = sf.StreamTrainer(GaussianNB(), batch_size=64, random_state=9).fit(store)
    assert isinstance(trainer.plan_, EpochPlan)
    assert trainer.plan_.fingerprint == store.plan(batch_size=64, seed=9).fingerprint
