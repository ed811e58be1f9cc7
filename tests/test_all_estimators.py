"""Each estimator of scikit-learn that learns batch by batch: bits, interruptions, weights, methods, odd batches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from estimator_kinds import INNER, N_ROWS, NOT_OF_NUMBERS, kinds
from estimator_kinds import differing as differing_bits
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import all_estimators

import streamfit as sf
from streamfit.callbacks import Verdict
from streamfit.errors import CheckpointError, InvalidDataError, InvalidParameterError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Class PassiveAggressive.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*Liblinear.*"),
]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    KINDS = kinds()
each = pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS])
TOGETHER = {
    ("BernoulliRBM", "score_samples"): "it draws which bit of a row it flips, anew for each array it is given",
    ("MiniBatchNMF", "transform"): "it iterates until all rows that it is given have converged together",
}
"""Methods of which a row's value depends on the rows beside it: over a store, on those of its chunk."""
METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")


def trainer_of(kind, **options):
    return sf.StreamTrainer(kind.estimator, **({"batch_size": 30, "epochs": 2} | options))


def test_all_that_scikit_learn_lists_are_here():
    listed = {name for name, kind in all_estimators() if hasattr(kind, "partial_fit")}
    assert {kind.name for kind in KINDS} | NOT_OF_NUMBERS == listed
    assert len(listed) >= 27


@each
def test_bit_equal_to_a_loop_in_memory(tmp_path, kind):
    store = sf.ingest(kind.X, tmp_path / "store", y=kind.y, chunk_rows=40)
    trainer = trainer_of(kind).fit(store)
    assert trainer.n_steps_ == 7  # 6 batches of 30 rows, one of 23
    assert differing_bits(trainer.estimator_, kind.loop(trainer)) == []
    assert differing_bits(kind.estimator, clone(kind.estimator)) == []


class PauseAt:
    """Ends a call after a number of steps."""

    every_steps = 1

    def __init__(self, step):
        self.step = step

    def judge(self, point):
        return Verdict(pause=point.total_steps == self.step)

    def state(self):
        return {}

    def restore(self, _state):
        return False


@each
def test_interrupted_and_gone_on_with(tmp_path, kind):
    options = {"checkpoint": sf.CheckpointOptions(tmp_path / "run")}
    if kind.name == "Birch":
        with pytest.raises(CheckpointError, match="Birch cannot be written without pickling"):
            trainer_of(kind, **options).fit(kind.X)
        return
    store = sf.ingest(kind.X, tmp_path / "store", y=kind.y, chunk_rows=40)
    whole = trainer_of(kind).fit(store)
    for step in (1, 6, 7, 11):
        trainer_of(kind, callbacks=[PauseAt(step)], **options).fit(store)
    resumed = trainer_of(kind, **options).fit(store, resume="always")
    assert differing_bits(resumed.estimator_, whole.estimator_) == []


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS if kind.takes_weights])
def test_weights_reach_it(tmp_path, kind):
    weights = np.linspace(0.1, 2, N_ROWS)
    store = sf.ingest(kind.X, tmp_path / "store", y=kind.y, sample_weight=weights, chunk_rows=40)
    trainer = trainer_of(kind).fit(store)
    assert differing_bits(trainer.estimator_, kind.loop(trainer, weights)) == []
    assert differing_bits(trainer.estimator_, trainer_of(kind).fit(kind.X, kind.y).estimator_) != []


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS if not kind.takes_weights])
def test_weights_that_it_does_not_take_are_refused(kind):
    with pytest.raises(InvalidParameterError, match="takes no sample_weight"):
        trainer_of(kind).fit(kind.X, kind.y, sample_weight=np.ones(N_ROWS))


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=kind.name) for kind in KINDS if "class_weight" in kind.estimator.get_params(deep=False)],
)
def test_class_weights_are_balanced_over_all_rows(kind):
    if "Classifier" not in kind.name and kind.name != "Perceptron":
        pytest.fail(f"{kind.name} has class_weight now: say what it means")
    classes, counts = np.unique(kind.y, return_counts=True)
    weights = dict(zip(classes.tolist(), (N_ROWS / (len(classes) * counts)).tolist(), strict=True))
    balanced = sf.StreamTrainer(clone(kind.estimator).set_params(class_weight="balanced"), batch_size=30)
    by_hand = sf.StreamTrainer(clone(kind.estimator).set_params(class_weight=weights), batch_size=30)
    left, right = balanced.fit(kind.X, kind.y).estimator_, by_hand.fit(kind.X, kind.y).estimator_
    np.testing.assert_array_equal(left.coef_, right.coef_)
    assert (left.coef_ != trainer_of(kind, epochs=1).fit(kind.X, kind.y).estimator_.coef_).any()


@each
def test_methods_over_a_store_are_those_in_memory(tmp_path, kind):
    store = sf.ingest(kind.X, tmp_path / "store", y=kind.y, chunk_rows=40)
    trainer = trainer_of(kind).fit(store)
    tried = 0
    for method in METHODS:
        assert hasattr(trainer, method) == hasattr(trainer.estimator_, method), method
        if not hasattr(trainer, method):
            continue
        expected = whole = getattr(trainer.estimator_, method)(kind.X)
        if (kind.name, method) in TOGETHER:
            parts = [kind.X[start : start + 40] for start in range(0, N_ROWS, 40)]
            expected = np.concatenate([getattr(trainer.estimator_, method)(part) for part in parts])
            assert not np.allclose(expected, whole, rtol=1e-6, atol=1e-9)
        lazy, given = getattr(trainer, method)(store), getattr(trainer, method)(kind.X)
        if isinstance(expected, list):  # one array an output
            lazy, given, expected, whole = ([*arrays] for arrays in (lazy, given, expected, whole))
        else:
            lazy, given, expected, whole = [lazy], [given], [expected], [whole]
        for one, other, right, right_given in zip(lazy, given, expected, whole, strict=True):
            np.testing.assert_allclose(one.compute(), right, rtol=1e-6, atol=1e-9)
            np.testing.assert_array_equal(other, right_given)
        tried += 1
    assert tried >= 1


# -- batches that are too small ----------------------------------------------------------------------

NEED_ROWS = {
    "IncrementalPCA": (InvalidParameterError, r"IncrementalPCA\(n_components=3\) needs as many rows in each batch"),
    "MiniBatchKMeans": (
        InvalidParameterError,
        r"MiniBatchKMeans.* needs as many rows in the first batch",
    ),
}


@each
@pytest.mark.parametrize(
    ("batch_size", "n_rows"),
    [
        pytest.param(1, 40, id="a-row-a-batch", marks=pytest.mark.slow),
        pytest.param(2, 41, id="fewer-than-components", marks=pytest.mark.slow),
        pytest.param(50, 201, id="a-tail-of-a-row"),
        pytest.param(1_000, N_ROWS, id="more-than-all-rows", marks=pytest.mark.slow),
    ],
)
def test_odd_batches_are_as_in_the_loop_or_refused(kind, batch_size, n_rows):
    part = type(kind)(kind.name, kind.estimator, kind.X[:n_rows], None if kind.y is None else kind.y[:n_rows])
    trainer = trainer_of(part, batch_size=batch_size)
    if kind.name in NEED_ROWS and batch_size < 3:
        error, message = NEED_ROWS[kind.name]
        with pytest.raises(error, match=message):
            trainer.fit(part.X, part.y)
        return
    trainer.fit(part.X, part.y)
    # A tail with too few rows for it is merged into the batch before.
    merged = kind.name == "IncrementalPCA" and batch_size == 50
    assert trainer.n_steps_ == (4 if merged else -(-n_rows // batch_size))
    assert differing_bits(trainer.estimator_, part.loop(trainer)) == []


TWO_CLASSES = ("SGDClassifier", "Perceptron", "PassiveAggressiveClassifier", "OneVsOneClassifier")


@each
def test_a_single_row(kind):
    X, y = kind.X[:1], None if kind.y is None else kind.y[:1]
    trainer = trainer_of(kind)
    if kind.name in {*TWO_CLASSES, "SelectFromModel", "MultiOutputClassifier"}:
        with pytest.raises(InvalidDataError, match=r"needs at least 2 classes|has to be greater than one"):
            trainer.fit(X, y)
    elif kind.name in NEED_ROWS:
        with pytest.raises((InvalidDataError, InvalidParameterError), match="needs"):
            trainer.fit(X, y)
    else:
        trainer.fit(X, y)
        assert differing_bits(trainer.estimator_, type(kind)(kind.name, kind.estimator, X, y).loop(trainer)) == []


def test_estimators_of_texts_say_what_to_do():
    with pytest.raises(InvalidParameterError, match="HashingVectorizer takes texts, and a store holds numbers"):
        sf.StreamTrainer(HashingVectorizer()).fit(np.ones((4, 2)))


@pytest.mark.parametrize("name", sorted(INNER))
def test_estimators_inside_others_get_seeds(name):
    kind = next(kind for kind in KINDS if kind.name == name)
    estimator = clone(kind.estimator).set_params(estimator__random_state=None)
    fits = [sf.StreamTrainer(estimator, batch_size=30, random_state=seed).fit(kind.X, kind.y) for seed in (1, 1, 2)]
    seeds = [fit.estimator_.estimator.random_state for fit in fits]
    assert seeds[0] == seeds[1] != seeds[2]
    assert differing_bits(fits[0].estimator_, fits[1].estimator_) == []
    assert estimator.estimator.random_state is None
