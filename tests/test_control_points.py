"""Control points within epochs: who is asked where, what is measured there, and that the steps stay the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import distributed
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler
from threadpoolctl import threadpool_limits

import streamfit as sf
from streamfit.callbacks import Verdict
from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.events import EpochEnded, FitEnded, StepsDone, StepsMeasured

N_ROWS, N_FEATURES, BATCH = 430, 4, 50
N_STEPS = 9  # the last of 30 rows


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32) * [1, 5, 0.2, 1] + 3
    X = X.astype(np.float64)  # of float32 rows IncrementalPCA gives float64 from its second batch on, which SGD refuses
    return X, (X[:, 0] + X[:, 2] > 6).astype(int)


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    return sf.ingest(data[0], tmp_path_factory.mktemp("points") / "store", y=data[1], chunk_rows=60)


def trainer_of(estimator=None, **options):
    return sf.StreamTrainer(
        estimator or SGDClassifier(loss="log_loss"), **({"batch_size": BATCH, "epochs": 2} | options)
    )


def loop(model, trainer, X, y, epochs=None):
    with threadpool_limits(limits=1):
        for epoch in range(trainer.epochs if epochs is None else epochs):
            for batch in replace(trainer.plan_, epoch=epoch):
                model.partial_fit(X[batch.rows], y[batch.rows], classes=np.unique(y))
    return model


def seeded(trainer):
    """The unfitted estimator with the seed that the fit gave it."""
    return clone(trainer.estimator_)


@dataclass
class Watcher:
    """A control that remembers where it was asked, and answers what it is told to."""

    every_steps: int | None = None
    answers: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def judge(self, point):
        self.asked.append((point.epoch, point.step, sorted(point.metrics)))
        return self.answers.get((point.epoch, point.step), Verdict())

    def state(self):
        return {"asked": [list(place) for place in self.asked]}

    def restore(self, state):
        self.asked = [tuple(place) for place in state["asked"]]
        return True


def places(watcher):
    return [place[:2] for place in watcher.asked]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        pytest.param(None, [(0, 9), (1, 9)], id="ends"),
        pytest.param(4, [(0, 4), (0, 8), (0, 9), (1, 4), (1, 8), (1, 9)], id="every-4"),
        pytest.param(9, [(0, 9), (1, 9)], id="an-epoch"),
        pytest.param(100, [(0, 9), (1, 9)], id="more-than-an-epoch"),
        pytest.param(1, [(epoch, step) for epoch in (0, 1) for step in range(1, 10)], id="each"),
    ],
)
def test_a_control_is_asked_where_it_wants_to_be(store, data, every, expected):
    trainer = trainer_of(callbacks=[Watcher(every), Watcher(), Watcher(3)]).fit(store)
    assert places(trainer.callbacks_[0]) == expected
    assert places(trainer.callbacks_[1]) == [(0, 9), (1, 9)]
    assert places(trainer.callbacks_[2]) == [(epoch, step) for epoch in (0, 1) for step in (3, 6, 9)]
    assert trainer.callbacks[0].asked == []
    expected = loop(seeded(trainer), trainer, *data)
    np.testing.assert_array_equal(trainer.estimator_.coef_, expected.coef_)


def test_points_are_the_same_on_a_cluster(store):
    def fit():
        watchers = [Watcher(4), Watcher(6, {(1, 6): Verdict(stop=True)})]
        return trainer_of(callbacks=watchers, validate_every_steps=3).fit(store, validation_data=store)

    here = fit()
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        there = fit()
    assert there.callbacks_ == here.callbacks_
    assert (there.stopped_by_, there.n_epochs_) == (here.stopped_by_, here.n_epochs_) == ("Watcher-1", 1)
    drop = ("seconds",)
    assert [{k: v for k, v in e.items() if k not in drop} for e in there.history_] == [
        {k: v for k, v in e.items() if k not in drop} for e in here.history_
    ]
    np.testing.assert_array_equal(there.estimator_.coef_, here.estimator_.coef_)


def test_metrics_are_measured_within_epochs(store, data):
    X, y = data

    class Recorder:
        events = ()

        def notify(self, event):
            self.events = (*self.events, event)

    recorder = Recorder()
    trainer = trainer_of(GaussianNB(), validate_every_steps=4, metrics=["accuracy"], callbacks=[recorder, Watcher(2)])
    trainer.fit(store, validation_data=(X, y))
    assert [(e["epoch"], e["step"], e["n_rows"]) for e in trainer.history_] == [
        (epoch, step, rows) for epoch in (0, 1) for step, rows in ((4, 200), (8, 400), (9, 430))
    ]
    # Each value is that of a model that has done so many steps.
    model, values = GaussianNB(), []
    for epoch in (0, 1):
        for batch in replace(trainer.plan_, epoch=epoch):
            model.partial_fit(X[batch.rows], y[batch.rows], classes=[0, 1])
            if batch.step + 1 in (4, 8, 9):
                values.append(model.score(X, y))
    assert [entry["val_accuracy"] for entry in trainer.history_] == values
    assert len(set(values)) > 1
    measured = [e for e in recorder.events if isinstance(e, StepsMeasured | EpochEnded)]
    assert [e.metrics["val_accuracy"] for e in measured] == values
    assert [e.step for e in measured if isinstance(e, StepsMeasured)] == [4, 8, 4, 8]
    # Metrics are shown where they are measured, and nowhere else.
    assert [place[1:] for place in trainer.callbacks_[1].asked[:5]] == [
        (2, []),
        (4, ["val_accuracy"]),
        (6, []),
        (8, ["val_accuracy"]),
        (9, ["val_accuracy"]),
    ]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "all"])
def test_validate_every_steps_is_a_count(store, wrong):
    with pytest.raises(InvalidParameterError, match="validate_every_steps must be an integer of at least 1"):
        trainer_of(validate_every_steps=wrong).fit(store)


def test_every_steps_of_a_control_is_a_count(store):
    with pytest.raises(InvalidParameterError, match="every_steps of Watcher must be an integer of at least 1, got 0"):
        trainer_of(callbacks=[Watcher(0)]).fit(store)


@pytest.mark.parametrize("at", [(0, 3), (0, 9), (1, 6)])
def test_a_control_ends_a_fit_within_an_epoch(tmp_path, store, data, at):
    def fit(callbacks, **options):
        return trainer_of(callbacks=callbacks, checkpoint=tmp_path / "run", **options).fit(store)

    stopped = fit([Watcher(3, {at: Verdict(stop=True)})])
    n_steps = at[0] * N_STEPS + at[1]
    expected = seeded(stopped)
    done = 0
    for epoch in (0, 1):
        for batch in replace(stopped.plan_, epoch=epoch):
            if done < n_steps:
                expected.partial_fit(data[0][batch.rows], data[1][batch.rows], classes=[0, 1])
                done += 1
    np.testing.assert_array_equal(stopped.estimator_.coef_, expected.coef_)
    assert stopped.stopped_by_ == "Watcher-0"
    # It stays ended, and without the control it goes on to what it would have been.
    again = fit([Watcher(3)], epochs=5)
    np.testing.assert_array_equal(again.estimator_.coef_, expected.coef_)
    free = fit([])
    np.testing.assert_array_equal(free.estimator_.coef_, trainer_of().fit(store).estimator_.coef_)
    assert free.stopped_by_ is None


class Pauser(Watcher):
    """Wants to be asked after a number of steps of its process."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    def __deepcopy__(self, memo):
        return self

    def notify(self, event):
        self.left -= isinstance(event, StepsDone)

    def wants_pause(self):
        return self.left < 0

    def judge(self, point):
        super().judge(point)
        return Verdict(pause=True) if self.left < 0 else Verdict()

    def restore(self, state):  # noqa: ARG002
        return True


@pytest.mark.parametrize("after", [0, 4, 7, 8, 9, 16])
def test_a_fit_pauses_anywhere_and_goes_on(tmp_path, store, after):
    whole = trainer_of(callbacks=[Watcher(2)]).fit(store)
    pauser = Pauser(after)
    options = {"checkpoint": tmp_path / "run"}
    first = trainer_of(callbacks=[Watcher(2), pauser], **options).fit(store)
    assert first.stopped_by_ == "Pauser-0"
    assert first.estimator_.t_ - 1 == sum((BATCH, 30)[step % N_STEPS == 8] for step in range(after + 1))
    assert pauser.asked[-1][:2] == (after // N_STEPS, after % N_STEPS + 1)
    resumed = trainer_of(callbacks=[Watcher(2), Pauser(99)], **options).fit(store, resume="always")
    assert resumed.stopped_by_ is None
    assert resumed.callbacks_[0] == whole.callbacks_[0]
    np.testing.assert_array_equal(resumed.estimator_.coef_, whole.estimator_.coef_)
    assert [e["epoch"] for e in resumed.history_] == [0, 1]


def test_a_pause_without_checkpoints_gives_the_model_so_far(store):
    trainer = trainer_of(callbacks=[Pauser(3)]).fit(store)
    assert (trainer.stopped_by_, trainer.n_epochs_, trainer.estimator_.t_) == ("Pauser-0", 0, 201)


def test_observers_are_told_of_a_failure(store):
    events = []

    class Failing:
        def notify(self, event):
            events.append(event)
            if isinstance(event, StepsDone) and event.step == 3:
                raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        trainer_of(callbacks=[Failing()]).fit(store)
    assert isinstance(events[-1], FitEnded)
    assert events[-1].error == "OSError"
    trainer_of(callbacks=[type("Told", (), {"notify": lambda _, event: events.append(event)})()]).fit(store)
    assert events[-1].error is None


# -- a share of the rows for validation --------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_share_of_the_rows_is_split_off(tmp_path, store, data, share):
    X, y = data
    trainer = trainer_of(GaussianNB(), metrics=["accuracy"], checkpoint=tmp_path / "run").fit(
        store, validation_data=share
    )
    train, validation = store.split(1 - share, seed=0, stratify=True)
    assert trainer.plan_.layout.n_rows == len(train) == N_ROWS - round(share * N_ROWS)
    rows = train.row_numbers(np.arange(len(train)))
    expected = loop(GaussianNB(), trainer, X[rows], y[rows])
    np.testing.assert_array_equal(trainer.estimator_.theta_, expected.theta_)
    held = validation.row_numbers(np.arange(len(validation)))
    assert trainer.history_[-1]["val_accuracy"] == expected.score(X[held], y[held])
    assert not set(rows) & set(held)


def test_a_drawn_seed_splits_alike_after_an_interruption(tmp_path, store):
    options = {"random_state": None, "checkpoint": tmp_path / "run"}
    first = trainer_of(callbacks=[Pauser(11)], **options).fit(store, validation_data=0.2)
    resumed = trainer_of(**options).fit(store, validation_data=0.2)
    assert resumed.seed_ == first.seed_
    whole = trainer_of(random_state=first.seed_).fit(store, validation_data=0.2)
    np.testing.assert_array_equal(resumed.estimator_.coef_, whole.estimator_.coef_)


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1, float("nan")])
def test_a_share_is_between_none_and_all(store, share):
    with pytest.raises(InvalidParameterError, match="share of rows as validation_data must be between 0 and 1"):
        trainer_of().fit(store, validation_data=share)


@pytest.mark.parametrize("share", [0.001, 0.9999])
def test_a_share_has_a_row_and_leaves_one(store, share):
    with pytest.raises(InvalidParameterError, match=rf"validation_data={share} leaves {N_ROWS} rows no row to"):
        trainer_of().fit(store, validation_data=share)


# -- partial_fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(SGDClassifier(), id="sgd"),
        pytest.param(make_pipeline(StandardScaler(), IncrementalPCA(2), SGDClassifier()), id="pipeline"),
    ],
)
@pytest.mark.parametrize("when", ["before", "online"])
def test_partial_fit_is_one_more_epoch(store, estimator, when):
    options = {"transformers": when} if when == "online" else {}
    three = trainer_of(estimator, epochs=3, **options).fit(store)
    grown = trainer_of(estimator, epochs=2, **options).fit(store).partial_fit(store)
    alone = trainer_of(estimator, **options)
    for _ in range(3):
        assert alone.partial_fit(store) is alone
    for trainer in (grown, alone):
        last, expected = (sf_last(t.estimator_) for t in (trainer, three))
        np.testing.assert_array_equal(last.coef_, expected.coef_)
        assert last.t_ == expected.t_
        assert trainer.n_epochs_ == 3
        assert [e["epoch"] for e in trainer.history_] == [0, 1, 2]


def sf_last(model):
    return model[-1] if hasattr(model, "steps") else model


def test_partial_fit_takes_rows_that_lack_classes(data):
    X, y = data
    trainer = trainer_of(GaussianNB(), shuffle=False)
    expected = GaussianNB()
    order = np.argsort(y, kind="stable")
    for rows in np.array_split(order, [BATCH, 2 * BATCH]):  # the first ones have one class
        trainer.partial_fit(X[rows], y[rows], classes=[0, 1])
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            expected.partial_fit(X[part], y[part], classes=[0, 1])
    np.testing.assert_array_equal(trainer.estimator_.theta_, expected.theta_)
    np.testing.assert_array_equal(trainer.classes_, [0, 1])


def test_partial_fit_refuses_what_it_cannot_learn(data):
    X, y = data
    trainer = trainer_of().partial_fit(X, y)
    before = trainer.estimator_.coef_.copy()
    with pytest.raises(InvalidDataError, match=r"y holds 7, which is none of the 2 classes of SGDClassifier \(0, 1\)"):
        trainer.partial_fit(X, np.full(N_ROWS, 7))
    with pytest.raises(InvalidDataError, match="X has 3 features, but StreamTrainer is expecting 4 features as input"):
        trainer.partial_fit(X[:, :3], y)
    np.testing.assert_array_equal(trainer.estimator_.coef_, before)
    with pytest.raises(InvalidDataError, match="y holds 1, which is none of the 1 classes"):
        trainer_of().partial_fit(X, y, classes=[0])


def test_fit_begins_anew_after_partial_fit(store):
    trainer = trainer_of().partial_fit(store).fit(store)
    np.testing.assert_array_equal(trainer.estimator_.coef_, trainer_of().fit(store).estimator_.coef_)
    assert trainer.n_epochs_ == 2


# -- transformers that learn with the model ----------------------------------------------------------


def test_transformers_learn_online(store, data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), IncrementalPCA(3), SGDClassifier(loss="log_loss"))
    trainer = trainer_of(pipeline, transformers="online", shuffle=False).fit(store)
    scaler, pca, sgd = clone(trainer.estimator_)
    with threadpool_limits(limits=1):
        for epoch in (0, 1):
            for batch in replace(trainer.plan_, epoch=epoch):
                Z = scaler.partial_fit(X[batch.rows]).transform(X[batch.rows])
                Z = pca.partial_fit(Z).transform(Z)
                sgd.partial_fit(Z, y[batch.rows], classes=[0, 1])
    np.testing.assert_array_equal(trainer.estimator_[0].var_, scaler.var_)
    np.testing.assert_array_equal(trainer.estimator_[1].components_, pca.components_)
    np.testing.assert_array_equal(trainer.estimator_[2].coef_, sgd.coef_)
    assert [method.method for method in trainer.transformer_methods_] == ["online", "online"]


def test_online_transformers_go_on_after_an_interruption(tmp_path, store):
    def trainer(**options):
        pipeline = make_pipeline(StandardScaler(), SGDClassifier())
        return trainer_of(pipeline, transformers="online", **options)

    trainer(checkpoint=tmp_path, callbacks=[Pauser(6)]).fit(store)
    with pytest.raises(sf.errors.CheckpointMismatchError, match="transformers"):
        trainer(checkpoint=tmp_path).set_params(transformers="before").fit(store)
    resumed, whole = trainer(checkpoint=tmp_path).fit(store), trainer().fit(store)
    np.testing.assert_array_equal(resumed.estimator_[0].mean_, whole.estimator_[0].mean_)
    np.testing.assert_array_equal(resumed.estimator_[1].coef_, whole.estimator_[1].coef_)


def test_what_cannot_learn_online_is_refused(store):
    with pytest.raises(UnsupportedError, match="RobustScaler has no partial_fit"):
        trainer_of(make_pipeline(RobustScaler(), SGDClassifier()), transformers="online").fit(store)
    with pytest.raises(InvalidParameterError, match="transformers that are fitted before, and StandardScaler"):
        trainer_of(make_pipeline(StandardScaler(), SGDClassifier()), transformers="online", cache=True).fit(store)
    with pytest.raises(InvalidParameterError, match="transformers must be 'before' or 'online'"):
        trainer_of(transformers="later").fit(store)


def test_a_fit_online_is_planned(store):
    trainer = trainer_of(make_pipeline(StandardScaler(), SGDClassifier()), transformers="online")
    assert trainer.plan(store).n_steps == N_STEPS
