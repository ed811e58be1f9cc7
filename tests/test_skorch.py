"""Nets of skorch through the trainer; skipped where skorch or torch is not installed (the extra ``skorch``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.callbacks import Verdict

torch = pytest.importorskip("torch", reason="torch is not installed")
skorch = pytest.importorskip("skorch", reason="skorch is not installed")


class Layers(torch.nn.Module):
    """Two layers with dropout, which draws."""

    def __init__(self, n_features=5, n_outputs=3, dropout=0.5):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, 8), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(8, n_outputs)
        )

    def forward(self, X):
        return self.layers(X)


def classifier(**options):
    defaults = {
        "criterion": torch.nn.CrossEntropyLoss,
        "optimizer": torch.optim.Adam,
        "train_split": None,
        "verbose": 0,
    }
    return skorch.NeuralNetClassifier(Layers, **(defaults | {"max_epochs": 1, "batch_size": -1} | options))


def regressor(**options):
    return skorch.NeuralNetRegressor(Layers, module__n_outputs=1, train_split=None, verbose=0, max_epochs=1, **options)


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(3).normal(size=(410, 5)).astype(np.float32)
    return X, np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    return sf.ingest(data[0], tmp_path_factory.mktemp("skorch") / "store", y=data[1], chunk_rows=100)


def weights(net):
    return {name: value.detach().numpy().tobytes() for name, value in net.module_.state_dict().items()}


def last(model):
    return model[-1] if hasattr(model, "steps") else model


class PauseAt:
    every_steps = 1

    def __init__(self, step):
        self.step = step

    def judge(self, point):
        return Verdict(pause=point.total_steps == self.step)

    def state(self):
        return {}

    def restore(self, _state):
        return False


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_bit_equal_to_a_loop(store, data, dropout):
    X, y = data
    net = classifier(module__dropout=dropout)
    torch.manual_seed(8)
    before = torch.get_rng_state()
    trainer = sf.StreamTrainer(net, batch_size=50, epochs=2).fit(store)
    assert torch.equal(torch.get_rng_state(), before)  # the caller's draws go on as if there had been no fit
    assert not hasattr(net, "module_")  # the user's object is as it was
    expected = clone(net)
    torch.manual_seed(int(np.random.SeedSequence(0, spawn_key=(3, 1)).generate_state(1)[0]))
    with threadpool_limits(limits=1):
        for epoch in (0, 1):
            for batch in replace(trainer.plan_, epoch=epoch):
                expected.partial_fit(X[batch.rows], y[batch.rows])
    assert weights(trainer.estimator_) == weights(expected)
    np.testing.assert_array_equal(trainer.predict_proba(X), expected.predict_proba(X))
    assert trainer.predict_proba(store).shape == (410, 3)
    assert trainer.score(store) > 0.4


def test_what_is_held_back_is_told(store, caplog):
    net = classifier(train_split=skorch.dataset.ValidSplit(5))
    sf.StreamTrainer(net, batch_size=100).fit(store)
    assert caplog.text.count("holds back a part of each batch") == 1


@pytest.mark.parametrize("estimator", [classifier(), make_pipeline(StandardScaler(), classifier())])
def test_it_goes_on_bit_for_bit_with_dropout(tmp_path, store, estimator):
    def fit(**options):
        return sf.StreamTrainer(estimator, batch_size=50, epochs=3, **options).fit(store)

    torch.manual_seed(1)
    whole = fit()
    for step in (1, 9, 10, 20):
        torch.manual_seed(step)  # another process has drawn other numbers
        fit(checkpoint=tmp_path, callbacks=[PauseAt(step)])
    resumed = fit(checkpoint=tmp_path)
    assert weights(last(resumed.estimator_)) == weights(last(whole.estimator_))
    changed = {"neuralnetclassifier__lr" if hasattr(estimator, "steps") else "lr": 0.3}
    with pytest.raises(sf.errors.CheckpointMismatchError, match="lr"):
        sf.StreamTrainer(clone(estimator).set_params(**changed), batch_size=50, epochs=3, checkpoint=tmp_path).fit(
            store
        )


def test_regression(tmp_path, data):
    X = data[0]
    y = (X[:, 0] * 2 - X[:, 1]).astype(np.float32)
    store = sf.ingest(X, tmp_path / "store", y=y[:, None].repeat(2, axis=1), chunk_rows=100)
    net = regressor().set_params(module__n_outputs=2, module__dropout=0.0)
    trainer = sf.StreamTrainer(net, batch_size=41, epochs=20).fit(store, validation_data=store)
    assert trainer.history_[-1]["val_r2"] > trainer.history_[0]["val_r2"]


def halve(_epoch, rate):
    return rate / 2


def test_the_learning_rate_of_its_optimizer_is_reduced(tmp_path, store):
    def fit(**options):
        return sf.StreamTrainer(
            classifier(lr=0.05),
            batch_size=50,
            epochs=4,
            callbacks=[sf.callbacks.LearningRateScheduler(halve), *options.pop("callbacks", ())],
            **options,
        ).fit(store)

    whole = fit()
    assert [entry["learning_rate"] for entry in whole.history_] == [0.05, 0.025, 0.0125, 0.00625]
    fit(checkpoint=tmp_path, callbacks=[PauseAt(15)])
    assert weights(fit(checkpoint=tmp_path).estimator_) == weights(whole.estimator_)


def test_it_is_saved_and_loaded(tmp_path, store, data):
    trainer = sf.StreamTrainer(classifier(), batch_size=50).fit(store)
    trust = [__name__, "torch", "skorch"]
    sf.save(trainer, tmp_path / "net", trust=trust)
    with pytest.raises(sf.errors.CheckpointError, match=__name__):
        sf.load(tmp_path / "net")
    loaded = sf.load(tmp_path / "net", trust=trust)
    np.testing.assert_array_equal(loaded.predict_proba(data[0]), trainer.predict_proba(data[0]))


def test_rows_of_another_type_say_what_to_do(data):
    X, y = data
    with pytest.raises(sf.errors.InvalidDataError, match=r"NeuralNetClassifier refuses step 0 of epoch 0: .*dtype"):
        sf.StreamTrainer(classifier(), batch_size=50).fit(X.astype(np.float64), y)
