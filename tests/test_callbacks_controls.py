"""Controls that set the learning rate, write models and watch the clock: verdicts, and real fits against loops."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import distributed
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.callbacks import (
    Control,
    ControlPoint,
    EarlyStopping,
    LearningRateScheduler,
    ModelCheckpoint,
    PrequentialMetrics,
    ReduceLROnPlateau,
    TimeLimit,
    Verdict,
)
from streamfit.callbacks import control as protocols
from streamfit.callbacks import time_limit as time_limit_module
from streamfit.durations import parse_seconds
from streamfit.errors import CheckpointError, InvalidParameterError
from streamfit.run.codecs import decode_estimator

N_ROWS, BATCH, N_STEPS, EPOCHS = 430, 50, 9, 6
GO = Verdict()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(N_ROWS, 4)) * [1, 3, 0.5, 1]
    return X, (X[:, 0] - X[:, 2] + rng.normal(size=N_ROWS) > 0).astype(int)


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    return sf.ingest(data[0], tmp_path_factory.mktemp("controls") / "store", y=data[1], chunk_rows=60)


def constant(eta0=0.5):
    return SGDClassifier(loss="log_loss", learning_rate="constant", eta0=eta0, random_state=0)


def at(epoch, metrics=None, *, rate=None, step=4, n_steps=4, model=None):
    return ControlPoint(epoch, step, n_steps, metrics or {}, rate, model)


def through_json(state):
    return json.loads(json.dumps(state))


class Killed(BaseException):
    """Ends a fit as a kill would: nothing tidies up after it."""


class KillAt:
    """A control that ends the process, as it were, the n-th time that it is asked."""

    def __init__(self, n_times, every_steps=None):
        self.left, self.every_steps = n_times, every_steps

    def judge(self, point):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise Killed
        return GO

    def state(self):
        return {}

    def restore(self, state):  # noqa: ARG002
        return False


def interrupted(make, store, folder, *, every_steps=None, validation=None, n_times=2):
    """Fit with a kill at every control point, each time from the last checkpoint, until the fit is through."""
    for n_kills in range(200):
        trainer = make([KillAt(n_times, every_steps)], sf.CheckpointOptions(folder, every_steps=every_steps))
        try:
            return trainer.fit(store, validation_data=validation), n_kills
        except Killed:
            continue
    raise AssertionError("the fit never ends")


def without_seconds(history):
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in history]


def same_fit(got, expected):
    for name in ("coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(got.estimator_, name), getattr(expected.estimator_, name))
    assert without_seconds(got.history_) == without_seconds(expected.history_)


def test_protocols():
    stepwise = [EarlyStopping(), ReduceLROnPlateau(), LearningRateScheduler(max), ModelCheckpoint("x")]
    assert all(isinstance(control, protocols.Stepwise) for control in [*stepwise, PrequentialMetrics()])
    assert isinstance(TimeLimit(1), Control)
    assert isinstance(TimeLimit(1), protocols.Pausing)
    assert not isinstance(TimeLimit(1), protocols.Stepwise)
    assert isinstance(PrequentialMetrics(), protocols.Testing)
    assert not any(isinstance(control, (protocols.Pausing, protocols.Testing)) for control in stepwise)


# -- ReduceLROnPlateau -------------------------------------------------------------------------------

# Reductions that keras.callbacks.ReduceLROnPlateau (3.15) made for these values, from a learning rate of 1.
NAN = math.nan
OF_KERAS = [
    pytest.param(
        [0.65, 0.9, NAN, 0.8, 1, NAN, 0.6, 0.65, 0.6999, 0.6, 0.65, 0.8, 1, NAN, 0.9],
        {"factor": 0.5, "patience": 3, "min_delta": 0.0, "cooldown": 2},
        [(3, 0.5), (9, 0.25), (13, 0.125)],
        id="cooldown",
    ),
    pytest.param(
        [1, 0.9, 0.9, 0.6, 0.7, 0.65, 0.6, NAN, 0.6, 0.7, 1, 1, 0.8, 0.65, 0.65, 0.6999, 0.9],
        {"factor": 0.5, "patience": 2, "cooldown": 3, "min_lr": 0.05},
        [(5, 0.5), (9, 0.25), (13, 0.125)],
        id="long-cooldown",
    ),
    pytest.param(
        [0.7, 0.7, 0.65, 0.65, 0.65, 0.6, 0.65, NAN, 0.6999, 0.7, 1, 0.65, 0.9, 1, NAN, NAN],
        {"factor": 0.5, "patience": 1, "cooldown": 3, "min_lr": 0.05},
        [(1, 0.5), (4, 0.25), (7, 0.125), (10, 0.0625), (13, 0.05)],
        id="down-to-the-least",
    ),
    pytest.param(
        [1.0] * 8, {"factor": 0.5, "patience": 1, "min_lr": 0.3}, [(1, 0.5), (2, 0.3)], id="nothing-below-the-least"
    ),
    pytest.param(
        [0.8, 0.8, 0.9, 0.8, 0.7, NAN, 0.7, 0.7, 0.8, 0.7, 0.6, 0.6999, 0.8, NAN, 0.9, 1, 0.6999],
        {"factor": 0.5, "patience": 2},
        [(2, 0.5), (6, 0.25), (8, 0.125), (12, 0.0625), (14, 0.03125), (16, 0.015625)],
        id="no-cooldown",
    ),
    pytest.param(
        [1, 0.6, 0.7, 1, 0.6999, 0.8, 0.7, 0.6999, NAN, 1, 0.7, 0.7],
        {"factor": 0.1, "patience": 1, "min_delta": 0.0, "cooldown": 3},
        [(2, 0.1), (5, 0.1 * 0.1), (8, 0.1 * 0.1 * 0.1), (11, 0.1 * 0.1 * 0.1 * 0.1)],
        id="by-ten",
    ),
]


@pytest.mark.parametrize(("values", "options", "expected"), OF_KERAS)
@pytest.mark.parametrize("sign", [1, -1])
def test_reductions_are_those_of_keras_wherever_it_was_interrupted(values, options, expected, sign):
    name = "val_log_loss" if sign == 1 else "val_accuracy"
    for cut in range(len(values) + 1):
        reduce, rate = ReduceLROnPlateau(name, **options), 1.0
        for epoch, value in enumerate(values):
            if epoch == cut:
                state = through_json(reduce.state())
                reduce = ReduceLROnPlateau(name, **options)
                assert reduce.restore(state) is False
            verdict = reduce.judge(at(epoch, {name: sign * value}, rate=rate))
            assert (verdict.learning_rate is not None) == (epoch in dict(expected))
            rate = verdict.learning_rate or rate
        assert reduce.reductions_ == expected
        assert reduce.best_ == sign * min(value for value in values if not math.isnan(value))


def test_the_state_of_another_metric_is_left_aside():
    old = ReduceLROnPlateau("val_accuracy", patience=1)
    for epoch in (0, 1):
        old.judge(at(epoch, {"val_accuracy": 0.9}, rate=1.0))
    assert old.reductions_ == [(1, 0.1)]
    new = ReduceLROnPlateau("val_log_loss")
    new.restore(through_json(old.state()))
    assert (new.best_, new.reductions_) == (None, [])


def test_the_metric_that_was_found_at_first_stays():
    for cut in (False, True):
        reduce = ReduceLROnPlateau(patience=1)
        reduce.judge(at(0, {"prequential_accuracy": 0.5}, rate=1.0, step=2))
        if cut:
            state = through_json(reduce.state())
            reduce = ReduceLROnPlateau(patience=1)
            reduce.restore(state)
        metrics = {"val_log_loss": 0.1, "prequential_accuracy": 0.6}
        assert reduce.judge(at(0, metrics, rate=1.0)) == GO
        assert reduce.best_ == 0.6
        with pytest.raises(InvalidParameterError, match=r"monitors 'prequential_accuracy', and here is \['val_r2'\]"):
            reduce.judge(at(0, {"val_r2": 1.0}, rate=1.0))


def by_loop(model, plan, X, y, *, after_epoch, epochs=EPOCHS):
    """Train in memory; `after_epoch` gives the learning rate of the next epoch."""
    with threadpool_limits(limits=1):
        for epoch in range(epochs):
            for batch in replace(plan, epoch=epoch):
                model.partial_fit(X[batch.rows], y[batch.rows], classes=[0, 1])
            model.set_params(eta0=after_epoch(epoch, model))
    return model


def reducing(callbacks=(), checkpoint=None, every_steps=None, epochs=EPOCHS):
    control = ReduceLROnPlateau("val_log_loss", factor=0.3, patience=1, min_delta=0.0, every_steps=every_steps)
    return sf.StreamTrainer(
        constant(2.0),
        batch_size=BATCH,
        epochs=epochs,
        callbacks=[control, *callbacks],
        checkpoint=checkpoint,
        validate_every_steps=every_steps,
    )


def test_a_fit_on_a_plateau_is_the_loop_that_reduces(store, data, tmp_path):
    X, y = data
    trainer = reducing().fit(store, validation_data=store)
    losses, rates = [], [2.0]

    def after_epoch(epoch, model):
        losses.append(log_loss(y, model.predict_proba(X)))
        rates.append(rates[-1] * 0.3 if epoch and losses[-1] >= min(losses[:-1]) else rates[-1])
        return rates[-1]

    expected = by_loop(clone(trainer.estimator_).set_params(eta0=2.0), trainer.plan_, X, y, after_epoch=after_epoch)
    np.testing.assert_array_equal(trainer.estimator_.coef_, expected.coef_)
    reduced = [(epoch, rate) for epoch, rate in enumerate(rates[1:]) if rate != rates[epoch]]
    assert trainer.callbacks_[0].reductions_ == reduced
    assert len(reduced) >= 2
    assert trainer.estimator_.eta0 == rates[-1]
    assert [entry["learning_rate"] for entry in trainer.history_] == rates[:-1]
    as_it_was = sf.StreamTrainer(constant(2.0), batch_size=BATCH, epochs=EPOCHS).fit(store).estimator_
    assert not np.array_equal(trainer.estimator_.coef_, as_it_was.coef_)
    got, n_kills = interrupted(reducing, store, tmp_path, validation=store)
    assert n_kills == EPOCHS - 1
    same_fit(got, trainer)
    assert got.callbacks_[0].state() == trainer.callbacks_[0].state()


def test_a_plateau_within_epochs_is_the_same_after_a_kill_at_each_point(store, tmp_path):
    def make(callbacks=(), checkpoint=None):
        return reducing(callbacks, checkpoint, every_steps=4, epochs=3)

    trainer = make().fit(store, validation_data=store)
    got, n_kills = interrupted(make, store, tmp_path, every_steps=4, validation=store)
    assert n_kills == 8
    same_fit(got, trainer)
    reductions = trainer.callbacks_[0].reductions_
    assert got.callbacks_[0].reductions_ == reductions
    assert len(reductions) == 3
    rates = {(entry["epoch"], entry["learning_rate"]) for entry in trainer.history_}
    assert len(rates) > 3  # it was reduced within an epoch, too


def test_early_stopping_within_epochs_gives_the_best_model_of_any_step(store, data):
    X, y = data
    stopping = EarlyStopping("val_log_loss", patience=4, every_steps=2)
    trainer = sf.StreamTrainer(
        constant(2.0), batch_size=BATCH, epochs=EPOCHS, callbacks=[stopping], validate_every_steps=2
    ).fit(store, validation_data=store)
    model = clone(trainer.estimator_)
    best, waited, seen = (math.inf, None, None), 0, 0
    with threadpool_limits(limits=1):
        for epoch in range(EPOCHS):
            for batch in replace(trainer.plan_, epoch=epoch):
                model.partial_fit(X[batch.rows], y[batch.rows], classes=[0, 1])
                if (batch.step + 1) % 2 and batch.step + 1 < N_STEPS:
                    continue
                loss, seen = log_loss(y, model.predict_proba(X)), seen + 1
                waited = 0 if loss < best[0] else waited + 1
                best = min(best, (loss, epoch * N_STEPS + batch.step + 1, model.coef_.copy()), key=lambda one: one[0])
                if waited == 4:
                    break
            if waited == 4:
                break
    found = trainer.callbacks_[0]
    np.testing.assert_array_equal(trainer.estimator_.coef_, best[2])
    assert (found.best_step_, found.stopped_epoch_) == (best[1], epoch)
    assert found.best_ == pytest.approx(best[0])
    assert len(trainer.history_) == seen
    assert best[1] % N_STEPS  # the test means something


def test_the_best_step_is_counted_from_the_beginning_of_the_fit():
    stopping = EarlyStopping("val_r2", every_steps=2)
    for epoch, step, value in ((0, 4, 0.1), (1, 2, 0.9), (1, 4, 0.2)):
        stopping.judge(at(epoch, {"val_r2": value}, step=step))
    again = EarlyStopping("val_r2", every_steps=2)
    assert again.restore(through_json(stopping.state()))
    for one in (stopping, again):
        assert (one.best_epoch_, one.best_step_, one.stopped_epoch_) == (1, 6, None)


def test_state_of_early_stopping_from_before_steps_were_counted():
    stopping = EarlyStopping("val_r2")
    old = {"monitor": "val_r2", "best": 0.5, "best_epoch": 1, "stopped_epoch": None, "waited": 1}
    assert stopping.restore(old)
    assert (stopping.best_, stopping.best_epoch_, stopping.best_step_) == (0.5, 1, None)
    assert stopping.judge(at(2, {"val_r2": 0.4})) == GO
    assert stopping.judge(at(3, {"val_r2": 0.4})) == Verdict(stop=True)


# -- LearningRateScheduler ---------------------------------------------------------------------------


def scheduled(callbacks=(), checkpoint=None, epochs=EPOCHS):
    scheduler = LearningRateScheduler(lambda epoch, rate: rate * 0.8 / epoch)
    return sf.StreamTrainer(
        constant(), batch_size=BATCH, epochs=epochs, callbacks=[scheduler, *callbacks], checkpoint=checkpoint
    )


def test_a_scheduled_fit_is_the_loop_that_sets_the_rate(store, data, tmp_path):
    trainer = scheduled().fit(store)
    rates = [0.5]
    for epoch in range(1, EPOCHS + 1):
        rates.append(rates[-1] * 0.8 / epoch)
    expected = by_loop(
        clone(trainer.estimator_).set_params(eta0=0.5),
        trainer.plan_,
        *data,
        after_epoch=lambda epoch, _: rates[epoch + 1],
    )
    np.testing.assert_array_equal(trainer.estimator_.coef_, expected.coef_)
    assert [entry["learning_rate"] for entry in trainer.history_] == rates[:-1]
    assert trainer.estimator_.eta0 == rates[-1]
    got, n_kills = interrupted(scheduled, store, tmp_path / "killed")
    assert n_kills == EPOCHS - 1
    same_fit(got, trainer)
    # A run that is given more epochs goes on as one that had them from the start.
    scheduled(checkpoint=tmp_path / "grown", epochs=2).fit(store)
    same_fit(scheduled(checkpoint=tmp_path / "grown").fit(store), trainer)


def test_a_rate_for_each_so_many_steps(store, data, tmp_path):
    X, y = data

    def make(callbacks=(), checkpoint=None):
        scheduler = LearningRateScheduler(lambda step, rate: rate / (1 + step / 10), every_steps=4)
        model = MLPClassifier((6,), solver="sgd", momentum=0.5, learning_rate_init=0.5, random_state=0)
        return sf.StreamTrainer(
            model, batch_size=BATCH, epochs=3, callbacks=[scheduler, *callbacks], checkpoint=checkpoint
        )

    trainer = make().fit(store)
    model, rate = MLPClassifier((6,), solver="sgd", momentum=0.5, learning_rate_init=0.5, random_state=0), 0.5
    with threadpool_limits(limits=1):
        for epoch in range(3):
            for batch in replace(trainer.plan_, epoch=epoch):
                model.partial_fit(X[batch.rows], y[batch.rows], classes=[0, 1])
                if batch.step + 1 in (4, 8, 9):
                    rate /= 1 + (epoch * N_STEPS + batch.step + 1) / 10
                    model._optimizer.learning_rate = rate
    got, n_kills = interrupted(make, store, tmp_path, every_steps=4)
    assert n_kills == 8
    for one in (trainer, got):
        for coef, expected in zip(one.estimator_.coefs_, model.coefs_, strict=True):
            np.testing.assert_array_equal(coef, expected)


@pytest.mark.parametrize("given", [None, "0.1", math.nan, math.inf, -0.1, True])
def test_what_a_schedule_must_give(given):
    with pytest.raises(InvalidParameterError, match=r"must give a finite number of at least 0, got .* for epoch 3"):
        LearningRateScheduler(lambda *_: given).judge(at(2, rate=0.5))


@pytest.mark.parametrize("control", [LearningRateScheduler(lambda *_: 0.1), ReduceLROnPlateau()])
@pytest.mark.parametrize("estimator", [SGDClassifier(), make_pipeline(StandardScaler(), GaussianNB())])
def test_an_estimator_without_a_rate_is_refused_by_name(store, control, estimator):
    name = "GaussianNB" if hasattr(estimator, "steps") else "SGDClassifier"
    with pytest.raises(InvalidParameterError, match=f"this {name} has none that could be changed"):
        sf.StreamTrainer(estimator, batch_size=100, callbacks=[control]).fit(store, validation_data=store)


def test_rates_and_models_are_the_same_on_a_cluster(store, tmp_path):
    def fit(folder):
        callbacks = [LearningRateScheduler(lambda step, rate: rate / step, every_steps=4), ModelCheckpoint(folder)]
        return sf.StreamTrainer(constant(), batch_size=BATCH, epochs=2, callbacks=callbacks).fit(store)

    here = fit(tmp_path / "here")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        there = fit(tmp_path / "there")
    same_fit(there, here)
    assert here.estimator_.eta0 != 0.5
    assert files(tmp_path / "there") == files(tmp_path / "here")
    for name in files(tmp_path / "here"):
        np.testing.assert_array_equal(read(tmp_path / "there" / name).coef_, read(tmp_path / "here" / name).coef_)


# -- ModelCheckpoint ---------------------------------------------------------------------------------


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def read(path):
    return decode_estimator(path.read_bytes(), trust=(), like=None)


def saving(folder, callbacks=(), checkpoint=None, *, epochs=EPOCHS, eta0=2.0, **options):
    every = options.get("every_steps")
    return sf.StreamTrainer(
        constant(eta0),
        batch_size=BATCH,
        epochs=epochs,
        callbacks=[ModelCheckpoint(folder, **options), *callbacks],
        checkpoint=checkpoint,
        validate_every_steps=every,
    )


def models_of_loop(trainer, data, epochs):
    """The model after each step, by epochs and steps that are done."""
    X, y = data
    model, models = clone(trainer.estimator_), {}
    with threadpool_limits(limits=1):
        for epoch in range(epochs):
            for batch in replace(trainer.plan_, epoch=epoch):
                model.partial_fit(X[batch.rows], y[batch.rows], classes=[0, 1])
                place = (epoch + 1, 0) if batch.step + 1 == N_STEPS else (epoch, batch.step + 1)
                models[place] = model.coef_.copy()
    return models


def test_each_file_is_the_model_of_its_name_and_the_best_is_the_best(store, data, tmp_path):
    X, y = data
    trainer = saving(tmp_path, every_steps=4, epochs=2).fit(store, validation_data=store)
    models = models_of_loop(trainer, data, 2)
    places = [(0, 4), (0, 8), (1, 0), (1, 4), (1, 8), (2, 0)]
    names = [f"model-e{epoch:06d}-s{step:08d}.skops" for epoch, step in places]
    control = trainer.callbacks_[0]
    assert [path.name for path in control.paths_] == names
    assert files(tmp_path) == ["best.skops", *names]
    for place, path in zip(places, control.paths_, strict=True):
        np.testing.assert_array_equal(read(path).coef_, models[place])
    assert read(control.paths_[-1]).get_params() == trainer.estimator_.get_params()
    losses = [log_loss(y, read(path).predict_proba(X)) for path in control.paths_]
    best = int(np.argmin(losses))
    assert best != len(losses) - 1  # the test means something
    assert control.best_path_ == tmp_path / "best.skops"
    np.testing.assert_array_equal(sf.load(control.best_path_).coef_, models[places[best]])
    assert control.best_ == pytest.approx(losses[best])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {"keep_last": 2}, ["best.skops", "model-e000005-s00000000.skops", "model-e000006-s00000000.skops"]
        ),
        pytest.param({"save_best_only": True}, ["best.skops"]),
        pytest.param({"save_best_only": True, "keep_last": 1, "every_steps": 3}, ["best.skops"]),
    ],
)
def test_what_is_kept(store, data, tmp_path, options, expected):
    X, y = data
    trainer = saving(tmp_path, monitor="val_log_loss", **options).fit(store, validation_data=store)
    assert files(tmp_path) == expected
    control = trainer.callbacks_[0]
    assert [path.name for path in control.paths_] == expected[1:]
    assert control.best_ == min(entry["val_log_loss"] for entry in trainer.history_)
    assert control.best_ == pytest.approx(log_loss(y, read(control.best_path_).predict_proba(X)))
    assert control.best_ < trainer.history_[-1]["val_log_loss"]


def test_a_fit_that_measures_nothing_has_models_and_no_best(store, tmp_path):
    control = saving(tmp_path, epochs=2).fit(store).callbacks_[0]
    assert files(tmp_path) == ["model-e000001-s00000000.skops", "model-e000002-s00000000.skops"]
    assert (control.best_, control.best_path_) == (None, None)


def test_within_epochs_a_metric_may_be_missing_but_not_at_their_ends(store, tmp_path):
    def points(**options):
        model = sf.StreamTrainer(constant(), batch_size=BATCH).fit(store).estimator_
        control = ModelCheckpoint(tmp_path, monitor="val_accuracy", every_steps=2, **options)
        control.judge(at(0, step=2, model=model))
        assert control.best_path_ is None
        with pytest.raises(InvalidParameterError, match="ModelCheckpoint monitors 'val_accuracy'"):
            control.judge(at(0, model=model))

    points()
    assert files(tmp_path) == ["model-e000000-s00000002.skops"]
    points(save_best_only=True)


def test_writing_models_changes_no_bit_of_the_fit(store, tmp_path):
    plain = sf.StreamTrainer(constant(2.0), batch_size=BATCH, epochs=EPOCHS).fit(store)
    np.testing.assert_array_equal(saving(tmp_path, every_steps=2).fit(store).estimator_.coef_, plain.estimator_.coef_)


def test_models_are_the_same_after_a_kill_at_each_point(store, tmp_path):
    options = {"every_steps": 4, "keep_last": 3, "epochs": 2}
    whole = saving(tmp_path / "whole", **options).fit(store, validation_data=store)

    def make(callbacks, checkpoint):
        return saving(tmp_path / "killed", callbacks, checkpoint, **options)

    got, n_kills = interrupted(make, store, tmp_path / "run", every_steps=4, validation=store)
    assert n_kills == 5
    same_fit(got, whole)
    assert got.callbacks_[0].state() == whole.callbacks_[0].state()
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    for name in files(tmp_path / "whole"):
        a, b = (read(tmp_path / folder / name).coef_ for folder in ("killed", "whole"))
        np.testing.assert_array_equal(a, b)


def test_no_file_is_torn_and_no_stray_stays_whenever_a_write_ends(store, tmp_path, monkeypatch):
    models, runs = tmp_path / "models", tmp_path / "run"
    options = {"keep_last": 1, "epochs": 2}
    whole = saving(tmp_path / "whole", **options).fit(store, validation_data=store)
    real, left, seen_strays = os.fsync, [0], 0

    def fsync(descriptor):
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for n_syncs in range(1, 200):
        left[0] = n_syncs
        try:
            got = saving(models, (), runs, **options).fit(store, validation_data=store, resume="auto")
        except Killed:
            if models.exists():
                seen_strays += any(path.suffix == ".partial" for path in models.iterdir())
                for path in models.glob("*.skops"):
                    read(path)  # whole, or an error
            if n_syncs % 3:  # some are gone on with, others begin anew
                continue
            for path in runs.iterdir():
                path.unlink()
        else:
            break
    assert seen_strays > 1
    assert files(models) == files(tmp_path / "whole")
    np.testing.assert_array_equal(read(models / "best.skops").coef_, read(tmp_path / "whole" / "best.skops").coef_)
    same_fit(got, whole)


def test_a_disk_that_is_full_is_told_and_keeps_what_was_there(store, tmp_path, monkeypatch):
    saving(tmp_path, epochs=1).fit(store, validation_data=store)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}

    def fsync(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CheckpointError, match=r"cannot be written: .*No space left"):
        saving(tmp_path, epochs=1, eta0=1.0).fit(store, validation_data=store)
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


def test_models_of_another_fit_are_told_of_and_stay(store, tmp_path, caplog):
    saving(tmp_path, epochs=2).fit(store)
    assert caplog.text == ""
    saving(tmp_path, epochs=1, eta0=1.0).fit(store)
    assert "has 2 models already, such as model-e000001-s00000000.skops" in caplog.text
    assert [read(tmp_path / name).eta0 for name in files(tmp_path)] == [1.0, 2.0]


def test_files_that_are_gone_are_forgotten(tmp_path):
    model = GaussianNB()
    first = ModelCheckpoint(tmp_path)
    for epoch in range(2):
        first.judge(at(epoch, {"val_accuracy": 0.9}, model=model))
    (tmp_path / "model-e000001-s00000000.skops").unlink()
    (tmp_path / "best.skops").unlink()
    second = ModelCheckpoint(tmp_path)
    second.restore(through_json(first.state()))
    assert [path.name for path in second.paths_] == ["model-e000002-s00000000.skops"]
    assert (second.best_, second.best_path_) == (None, None)
    second.judge(at(2, {"val_accuracy": 0.8}, model=model))
    assert (second.best_, second.best_path_) == (0.8, tmp_path / "best.skops")


class Mine(GaussianNB):
    """A type that is not trusted by itself."""


def test_types_are_trusted_by_name(tmp_path):
    with pytest.raises(CheckpointError, match=r"ModelCheckpoint cannot write the model.*Mine.*its own trust="):
        ModelCheckpoint(tmp_path).judge(at(0, model=Mine()))
    ModelCheckpoint(tmp_path, trust=[f"{__name__}.Mine"]).judge(at(0, model=Mine()))
    assert files(tmp_path) == ["model-e000001-s00000000.skops"]


# -- TimeLimit ---------------------------------------------------------------------------------------


class Clock:
    """Each look at it takes a second."""

    now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time_limit_module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.mark.parametrize("seconds", [2, 7])
def test_a_fit_in_many_calls_is_the_fit_in_one(store, tmp_path, clock, seconds):
    def make(checkpoint=None, callbacks=()):
        stopping = EarlyStopping("val_log_loss", patience=9)
        return sf.StreamTrainer(
            constant(), batch_size=BATCH, epochs=2, callbacks=[stopping, *callbacks], checkpoint=checkpoint
        )

    expected = make().fit(store, validation_data=store)
    calls = []
    while not calls or calls[-1].stopped_by_ is not None:
        trainer = make(tmp_path, [TimeLimit(seconds)]).fit(store, validation_data=store)
        assert trainer.stopped_by_ in (None, "TimeLimit-0")
        calls.append(trainer)
    assert 2 < len(calls) < 2 * N_STEPS
    same_fit(calls[-1], expected)


def test_the_clock_of_a_fit_starts_with_the_fit(store, clock):
    limit = TimeLimit(1000)
    clock.now += 5000
    trainer = sf.StreamTrainer(GaussianNB(), batch_size=BATCH, callbacks=[limit]).fit(store)
    assert (trainer.stopped_by_, trainer.n_epochs_) == (None, 1)
    assert limit.wants_pause()


def test_without_a_checkpoint_the_model_is_what_was_learnt_so_far(store, data, clock):
    trainer = sf.StreamTrainer(GaussianNB(), batch_size=BATCH, shuffle=False, callbacks=[TimeLimit(3)]).fit(store)
    expected = GaussianNB()
    done = int(trainer.estimator_.class_count_.sum())
    for start in range(0, done, BATCH):
        expected.partial_fit(data[0][start : start + BATCH], data[1][start : start + BATCH], classes=[0, 1])
    assert 0 < done < N_ROWS
    np.testing.assert_array_equal(trainer.estimator_.theta_, expected.theta_)
    assert trainer.stopped_by_ == "TimeLimit-0"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (90, 90.0),
        (0.5, 0.5),
        (np.float32(2), 2.0),
        ("90s", 90.0),
        ("10m", 600.0),
        ("10 min", 600.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        (" 1D 2h 3M 4.5s ", 86400 + 7200 + 180 + 4.5),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_spans_of_time(given, seconds):
    assert parse_seconds("seconds", given) == seconds


@pytest.mark.parametrize(
    "given", [0, -1, "0s", "90", "", "h", "1h1h", "1x", "1h 5", "-1h", "1e3s", math.nan, math.inf, True, None, [1]]
)
def test_what_is_no_span_of_time(given):
    with pytest.raises(InvalidParameterError, match="seconds must be a time above 0"):
        TimeLimit(given)


# -- parameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: ReduceLROnPlateau(factor=1), "factor must be above 0 and below 1", id="factor-1"),
        pytest.param(lambda: ReduceLROnPlateau(factor=0), "factor must be above 0 and below 1", id="factor-0"),
        pytest.param(lambda: ReduceLROnPlateau(factor="a"), "factor must be a number", id="factor-text"),
        pytest.param(lambda: ReduceLROnPlateau(patience=0), "patience must be", id="patience"),
        pytest.param(lambda: ReduceLROnPlateau(cooldown=-1), "cooldown must be", id="cooldown"),
        pytest.param(lambda: ReduceLROnPlateau(min_lr=-1), "min_lr must be", id="min_lr"),
        pytest.param(lambda: ReduceLROnPlateau(min_delta=-1), "min_delta must be", id="min_delta"),
        pytest.param(lambda: ReduceLROnPlateau(mode="up"), "mode must be", id="mode"),
        pytest.param(lambda: ReduceLROnPlateau(3), "monitor must be", id="monitor"),
        pytest.param(lambda: ReduceLROnPlateau(every_steps=0), "every_steps must be", id="reduce-every"),
        pytest.param(lambda: ReduceLROnPlateau().judge(at(0, rate=1.0)), "needs a metric", id="no-metrics"),
        pytest.param(lambda: EarlyStopping(every_steps=1.5), "every_steps must be", id="stopping-every"),
        pytest.param(lambda: LearningRateScheduler(0.1), "schedule must be a function", id="schedule"),
        pytest.param(lambda: LearningRateScheduler(max, every_steps=0), "every_steps must be", id="schedule-every"),
        pytest.param(lambda: ModelCheckpoint(3), "path must be that of a folder", id="path"),
        pytest.param(lambda: ModelCheckpoint("x", keep_last=0), "keep_last must be", id="keep_last"),
        pytest.param(lambda: ModelCheckpoint("x", save_best_only=1), "save_best_only must be", id="save_best_only"),
        pytest.param(lambda: ModelCheckpoint("x", every_steps=0), "every_steps must be", id="model-every"),
        pytest.param(lambda: ModelCheckpoint("x", trust="mine"), "trust must be a sequence", id="trust"),
        pytest.param(lambda: ModelCheckpoint("x", monitor=1), "monitor must be", id="model-monitor"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


def test_regressors_reduce_on_their_error_by_default(data):
    X = data[0]
    y = X @ [1.0, 2.0, 0.0, 1.0]
    trainer = sf.StreamTrainer(
        SGDRegressor(learning_rate="constant", eta0=0.02),
        batch_size=BATCH,
        epochs=8,
        callbacks=[ReduceLROnPlateau(patience=1, min_delta=1e-3)],
    ).fit(X, y, validation_data=(X, y))
    control = trainer.callbacks_[0]
    errors = [entry["val_mean_squared_error"] for entry in trainer.history_]
    assert control.reductions_
    assert trainer.estimator_.eta0 == control.reductions_[-1][1]
    assert control.best_ in errors
    assert errors[-1] == pytest.approx(mean_squared_error(y, trainer.predict(X)))
