"""A fit that is killed at any instant and started again gives the bits that it would have given."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.events import StepsDone

N_EPOCHS = 3
ESTIMATORS = {
    "sgd": make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss")),
    "mlp": MLPClassifier((8,)),
}


def fit(name, store, checkpoint, callbacks=()):
    trainer = sf.StreamTrainer(
        ESTIMATORS[name],
        batch_size=50,
        epochs=N_EPOCHS,
        checkpoint=checkpoint and sf.CheckpointOptions(checkpoint, every_steps=3),
        callbacks=[sf.callbacks.EarlyStopping("val_log_loss", patience=9), *callbacks],
    )
    return trainer.fit(store, validation_data=store)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class DieAfterSteps:
    def __init__(self, n_steps):
        self.n_steps = n_steps

    def notify(self, event):
        if isinstance(event, StepsDone):
            self.n_steps -= 1
            if self.n_steps == 0:
                die()


class Slow:
    """Makes a fit long enough to be hit at many instants."""

    def notify(self, event):
        if isinstance(event, StepsDone):
            time.sleep(0.01)


def child_dies_after_steps(name, store, checkpoint, n_steps):
    fit(name, sf.open_store(store), checkpoint, [DieAfterSteps(n_steps)])


def child_dies_at_system_call(name, store, checkpoint, call, n_calls):
    """Die right before the n-th call of a function of `os` that a checkpoint is written with."""
    original = getattr(os, call)
    left = [n_calls]

    def dying(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            die()
        return original(*arguments, **options)

    setattr(os, call, dying)
    fit(name, sf.open_store(store), checkpoint)


def child_runs(name, store, checkpoint):
    fit(name, sf.open_store(store), checkpoint, [Slow()])


@pytest.fixture(scope="module")
def context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streamfit.trainer", "sklearn.linear_model"])
    return context


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(520, 5)).astype(np.float32)
    y = np.where(X[:, 0] + rng.normal(size=520) > 0, "yes", "no")
    return sf.ingest(X, tmp_path_factory.mktemp("kills") / "store", y=y, chunk_rows=60)


@pytest.fixture(scope="module")
def undisturbed(store):
    return {name: weights(fit(name, store, None)) for name in ESTIMATORS}


def weights(trainer):
    last = trainer.estimator_[-1] if hasattr(trainer.estimator_, "steps") else trainer.estimator_
    coefficients = getattr(last, "coefs_", None) or [last.coef_, last.intercept_]
    history = [{key: value for key, value in entry.items() if key != "seconds"} for entry in trainer.history_]
    return [array.tobytes() for array in coefficients], history


def killed(context, target, *arguments):
    process = context.Process(target=target, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "deaths"),
    [
        # The first one dies before any checkpoint; each of the others goes on from where it can.
        pytest.param("sgd", (1, 2, 12, 5), id="sgd"),
        pytest.param("mlp", (2, 12), id="mlp"),
    ],
)
def test_killed_between_steps(tmp_path, context, store, undisturbed, name, deaths):
    run = str(tmp_path / "run")
    for n_steps in deaths:
        killed(context, child_dies_after_steps, name, store.path, run, n_steps)
    assert weights(fit(name, store, run)) == undisturbed[name]


@pytest.mark.parametrize(
    ("call", "n_calls"),
    [
        # Two a write: of the file, and of the folder that it was put into.
        pytest.param("fsync", 1, id="run-file-half-written"),
        pytest.param("fsync", 3, id="first-checkpoint-half-written"),
        pytest.param("fsync", 8, id="checkpoint-in-place-but-not-its-folder"),
        pytest.param("fsync", 9, id="later-checkpoint-half-written"),
        pytest.param("unlink", 1, id="before-the-oldest-is-removed"),
    ],
)
def test_killed_while_a_checkpoint_is_written(tmp_path, context, store, undisturbed, call, n_calls):
    run = tmp_path / "run"
    killed(context, child_dies_at_system_call, "sgd", store.path, str(run), call, n_calls)
    assert weights(fit("sgd", store, str(run))) == undisturbed["sgd"]
    assert not list(run.glob("*.part"))


def killed_at_random(context, store, run, rng, n_kills):
    kills = 0
    while kills < n_kills:
        process = context.Process(target=child_runs, args=("sgd", store.path, run))
        process.start()
        process.join(rng.uniform(0.2, 1.5))
        if process.exitcode == 0:
            return kills
        process.kill()
        process.join()
        kills += 1
    return kills


def test_killed_at_random_instants(tmp_path, context, store, undisturbed):
    killed_at_random(context, store, str(tmp_path / "run"), np.random.default_rng(5), 2)
    assert weights(fit("sgd", store, str(tmp_path / "run"))) == undisturbed["sgd"]


@pytest.mark.slow
def test_killed_at_twenty_random_instants(tmp_path, context, store, undisturbed):
    rng, kills, fits = np.random.default_rng(5), 0, 0
    while kills < 20:
        run = str(tmp_path / f"run-{fits}")
        kills += killed_at_random(context, store, run, rng, 20 - kills)
        fits += 1
        assert weights(fit("sgd", store, run)) == undisturbed["sgd"]
