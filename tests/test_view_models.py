"""Models fitted on views are those that memory gives for the same rows."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.errors import CheckpointMismatchError, InvalidDataError
from streamfit.maths.summaries.moments import Moments

DATA = Path(__file__).parents[2] / "shared" / "data"

N = 1_240
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 6)).astype(np.float32)
y = np.where(X[:, 0] + 0.5 * rng.normal(size=N) > 0, "high", "low").astype("U9")
y[[500, 900]] = "seldom"
weight = rng.random(N) + 0.5

VIEWS = {
    "slice": lambda s: s[s.n_rows // 5 : -s.n_rows // 7],
    "steps": lambda s: s[3::3],
    "mask": lambda s: s.select(np.random.default_rng(1).random(s.n_rows) < 0.6),
    "split": lambda s: s.split(0.8, seed=2)[0],
    "stratified": lambda s: s.split(0.3, seed=2, stratify=True)[1],
    "view of a view": lambda s: s[s.n_rows // 9 :].split(0.7, seed=5)[0][5:-5],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "a"
    return sf.ingest(X, folder, y=y, sample_weight=weight, ids=np.arange(N) * 2, chunk_rows=96)


@pytest.fixture(scope="module", params=["threads", "processes"])
def engine(request):
    if request.param == "threads":
        yield None
    else:
        with sf.connect("processes", n_workers=2) as engine:
            yield engine


def same(left, right):
    for name, value in vars(left).items():
        assert pickle.dumps(value) == pickle.dumps(getattr(right, name)), name


def over_the_plan(model, trainer, X, y, weight=None):
    """The reference: ``partial_fit`` in memory over the plan's rows."""
    with threadpool_limits(limits=1):
        for epoch in range(trainer.epochs):
            for batch in replace(trainer.plan_, epoch=epoch):
                options = {} if weight is None else {"sample_weight": weight[batch.rows]}
                model.partial_fit(X[batch.rows], y[batch.rows], classes=np.unique(y), **options)
    return model


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.slow
def test_models_of_a_view_on_every_engine(store, engine, name):
    view = VIEWS[name](store)
    rows = view.row_numbers()
    trainer = sf.StreamTrainer(
        SGDClassifier(loss="log_loss", random_state=3), batch_size=64, epochs=2, random_state=1
    ).fit(view, validation_data=store)
    same(
        trainer.estimator_,
        over_the_plan(SGDClassifier(loss="log_loss", random_state=3), trainer, X[rows], y[rows], weight[rows]),
    )
    np.testing.assert_array_equal(trainer.predict(view).compute(), trainer.estimator_.predict(X[rows]))
    hbos = sf.StreamDetector(HBOS(contamination=0.1)).fit(view)
    truth = HBOS(contamination=0.1).fit(X[rows])
    np.testing.assert_array_equal(hbos.decision_scores_.compute(), truth.decision_scores_)
    np.testing.assert_array_equal(hbos.labels_.compute(), truth.labels_)
    assert hbos.threshold_ == truth.threshold_
    knn = sf.StreamDetector(KNN(n_neighbors=4)).fit(view)
    scores = KNN(n_neighbors=4).fit(X[rows].astype(np.float64)).decision_scores_
    np.testing.assert_allclose(knn.decision_scores_.compute(), scores, rtol=1e-6, atol=1e-9 * scores.max())
    moments = view.reduce(Moments(6))
    np.testing.assert_allclose(moments.mean, X[rows].astype(np.float64).mean(axis=0), rtol=1e-9)
    new = knn.decision_function(view)
    assert new.chunks == (view.layout.partition_rows(),)
    np.testing.assert_array_equal(new.compute(), 0 * rows + knn.decision_function(X[rows]))


@pytest.mark.parametrize("name", VIEWS)
def test_exact_neighbours_of_a_view_in_little_memory(store, name):
    view = VIEWS[name](store)
    whole = sf.StreamDetector(KNN(n_neighbors=4)).fit(view)
    parted = sf.StreamDetector(KNN(n_neighbors=4), memory_limit="64MB").fit(view)
    np.testing.assert_array_equal(whole.decision_scores_.compute(), parted.decision_scores_.compute())


def test_a_detector_in_memory_and_batch_wise(store):
    view = store.split(0.6, seed=1)[0]
    rows = view.row_numbers()
    truth = IForest(random_state=0).fit(X[rows])
    fitted = sf.StreamDetector(IForest(random_state=0)).fit(view)
    np.testing.assert_array_equal(fitted.decision_scores_.compute(), truth.decision_scores_)
    copy = sf.StreamDetector(IForest(random_state=0), method=sf.BatchWise(batch_size=200, epochs=2))
    scores = copy.fit(view).decision_scores_.compute()
    assert scores.shape == rows.shape
    assert np.isfinite(scores).all()
    assert np.corrcoef(scores, truth.decision_scores_)[0, 1] > 0.8


def test_classes_are_those_of_the_view(store):
    view = store[:480]
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=100, epochs=1, random_state=0).fit(view)
    assert trainer.classes_.tolist() == ["high", "low"]
    assert sf.StreamTrainer(GaussianNB(), batch_size=100, epochs=1).fit(store[600:]).classes_.tolist() == [
        "high",
        "low",
        "seldom",
    ]
    with pytest.raises(InvalidDataError, match="at least 2 classes"):
        sf.StreamTrainer(SGDClassifier(), batch_size=1, epochs=1).fit(store[[500, 900]])
    balanced = SGDClassifier(class_weight="balanced", random_state=0)
    fitted = sf.StreamTrainer(balanced, batch_size=100, epochs=1, random_state=0).fit(view).estimator_
    counts = np.unique(y[:480], return_counts=True)[1]
    assert list(fitted.class_weight.values()) == pytest.approx(480 / (2 * counts))


def test_a_target_of_a_view(tmp_path):
    target = X @ np.arange(6.0)
    view = sf.ingest(X, tmp_path / "a", y=target, chunk_rows=96)[::2]
    trainer = sf.StreamTrainer(SGDRegressor(random_state=0), batch_size=50, epochs=1, random_state=0).fit(view)
    reference = SGDRegressor(random_state=0)
    for batch in trainer.plan_:
        reference.partial_fit(X[::2][batch.rows], target[::2][batch.rows])
    same(trainer.estimator_, reference)


def test_a_checkpoint_of_other_rows_is_refused(store, tmp_path):
    def trainer(epochs):
        return sf.StreamTrainer(
            SGDClassifier(random_state=0), batch_size=50, epochs=epochs, random_state=0, checkpoint=tmp_path / "run"
        )

    first, second = store[:960], store[96:1_056]
    assert first.layout == second.layout
    trainer(1).fit(first)
    with pytest.raises(CheckpointMismatchError, match="data"):
        trainer(2).fit(second)
    resumed = trainer(2).fit(store.select(np.arange(N) < 960))
    fresh = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=50, epochs=2, random_state=0).fit(first)
    same(resumed.estimator_, fresh.estimator_)


def test_values_that_are_not_finite_matter_where_they_are_selected(tmp_path):
    holes = X.copy()
    holes[700, 2] = np.nan
    store = sf.ingest(holes, tmp_path / "a", y=y, nonfinite="keep", chunk_rows=96)
    sf.StreamDetector(HBOS()).fit(store[:700])
    trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=50, epochs=1)
    trainer.fit(store[:700])
    with pytest.raises(InvalidDataError, match="1 values are not finite"):
        sf.StreamDetector(HBOS()).fit(store[600:])
    with pytest.raises(InvalidDataError, match="column '2' holds 1 others"):
        trainer.fit(store[600:])


@pytest.mark.parametrize(
    ("detector", "method"),
    [
        pytest.param(HBOS(), "auto", id="HBOS"),
        pytest.param(KNN(), "auto", id="KNN"),
        pytest.param(IForest(n_estimators=5, random_state=0), "auto", id="in memory"),
        pytest.param(IForest(n_estimators=5, random_state=0), sf.BatchWise(batch_size=300), id="batch-wise"),
    ],
)
def test_new_rows_that_are_not_finite_get_no_score(tmp_path, detector, method):
    """PyOD refuses them; a lookup would give NaN the score of some other value."""
    holes = X.copy()
    holes[700, 2] = np.nan
    holes[900, 1] = np.inf
    store = sf.ingest(holes, tmp_path / "a", nonfinite="keep", chunk_rows=96)
    fitted = sf.StreamDetector(detector, method=method).fit(store[np.isfinite(holes).all(axis=1)])
    for score in (fitted.decision_function, fitted.predict, fitted.predict_proba):
        with pytest.raises(InvalidDataError, match="Row 200, column 2 holds nan") as caught:
            score(store[500:750]).compute()
        assert (caught.value.row, caught.value.column) == (200, "2")
    with pytest.raises(InvalidDataError, match="Row 100, column 1 holds inf"):
        fitted.decision_function(store[800:]).compute()
    assert fitted.decision_function(store[:700]).compute().shape == (700,)


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_real_rows(tmp_path, name):
    file = DATA / "adbench" / "23_mammography.npz"
    if not file.exists():
        pytest.skip("needs ADBench's mammography, which is not shipped")
    with np.load(file) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(int)
    view = VIEWS[name](sf.ingest(X, tmp_path / "a", y=y, chunk_rows=700))
    rows = view.row_numbers()
    trainer = sf.StreamTrainer(SGDClassifier(random_state=3), batch_size=256, epochs=3, random_state=1).fit(view)
    same(trainer.estimator_, over_the_plan(SGDClassifier(random_state=3), trainer, X[rows], y[rows]))
    hbos = sf.StreamDetector(HBOS()).fit(view).decision_scores_.compute()
    np.testing.assert_array_equal(hbos, HBOS().fit(X[rows]).decision_scores_)
    knn = sf.StreamDetector(KNN()).fit(view).decision_scores_.compute()
    truth = KNN().fit(X[rows]).decision_scores_
    np.testing.assert_allclose(knn, truth, rtol=1e-6, atol=1e-9 * truth.max())
