"""Callbacks: observers are told, controls act at the ends of epochs and survive interruptions."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from rich.console import Console
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import SGDClassifier

import streamfit as sf
from streamfit.callbacks import Control, ControlPoint, EarlyStopping, History, Observer, Progress, Verdict
from streamfit.errors import InvalidParameterError
from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone, StepsMeasured


def at(epoch, metrics):
    return ControlPoint(epoch, 4, 4, metrics, None, None)


def verdicts(stopping, name, values):
    return [stopping.judge(at(epoch, {name: value})) for epoch, value in enumerate(values)]


STOP, KEEP, GO = Verdict(stop=True), Verdict(keep=True), Verdict()


@pytest.mark.parametrize(
    ("options", "name", "values", "expected"),
    [
        pytest.param({}, "val_log_loss", [3, 2, 1], [KEEP] * 3, id="always-better"),
        pytest.param({"patience": 2}, "val_log_loss", [1, 2, 3], [KEEP, GO, STOP], id="never-better"),
        pytest.param({"patience": 2}, "val_log_loss", [2, 3, 1, 3, 3], [KEEP, GO, KEEP, GO, STOP], id="waits-anew"),
        pytest.param({"patience": 1}, "val_accuracy", [0.1, 0.2, 0.2], [KEEP, KEEP, STOP], id="more-is-better"),
        pytest.param({"patience": 1, "min_delta": 0.2}, "val_r2", [0.1, 0.2], [KEEP, STOP], id="too-little-better"),
        pytest.param({"patience": 1}, "val_log_loss", [math.nan], [STOP], id="nan-at-once"),
        pytest.param({"patience": 2}, "val_log_loss", [math.nan, 5], [GO, KEEP], id="nan-and-then-a-value"),
        pytest.param({"restore_best": False, "patience": 1}, "val_r2", [1, 0], [GO, STOP], id="keeps-nothing"),
        pytest.param({"mode": "max", "patience": 1}, "val_odd", [1, 2, 2], [KEEP, KEEP, STOP], id="mode-by-name"),
    ],
)
def test_early_stopping(options, name, values, expected):
    assert verdicts(EarlyStopping(**options), name, values) == expected


def test_early_stopping_goes_on_from_its_state():
    values = [0.5, 0.4, 0.45, 0.39, 0.5, 0.6, 0.7]
    whole = EarlyStopping("val_log_loss", patience=3)
    expected = verdicts(whole, "val_log_loss", values)
    for cut in range(len(values)):
        first, second = (EarlyStopping("val_log_loss", patience=3) for _ in range(2))
        got = verdicts(first, "val_log_loss", values[:cut])
        second.restore(json.loads(json.dumps(first.state())))
        got += [second.judge(at(epoch, {"val_log_loss": values[epoch]})) for epoch in range(cut, len(values))]
        assert got == expected
        assert (second.best_, second.best_epoch_, second.stopped_epoch_) == (0.39, 3, 6)


def test_the_state_of_another_metric_is_left_aside():
    old = EarlyStopping("val_accuracy")
    old.judge(at(0, {"val_accuracy": 0.9}))
    new = EarlyStopping("val_log_loss")
    new.restore(old.state())
    assert new.best_ is None


@pytest.mark.parametrize(
    ("metrics", "monitored"),
    [
        ({"val_accuracy": 1.0, "val_log_loss": 2.0}, 2.0),
        ({"val_accuracy": 1.0, "val_roc_auc": 2.0}, 1.0),
        ({"val_f1_macro": 3.0}, 3.0),
    ],
)
def test_what_is_monitored_by_default(metrics, monitored):
    stopping = EarlyStopping()
    stopping.judge(at(0, metrics))
    assert stopping.best_ == monitored


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: EarlyStopping(patience=0), "patience", id="patience"),
        pytest.param(lambda: EarlyStopping(min_delta=-1), "min_delta", id="min_delta"),
        pytest.param(lambda: EarlyStopping(mode="up"), "mode", id="mode"),
        pytest.param(lambda: EarlyStopping(3), "monitor must be", id="monitor"),
        pytest.param(lambda: EarlyStopping(patience=1.5), "patience must be an integer", id="half-patience"),
        pytest.param(lambda: EarlyStopping(patience="2"), "patience must be an integer", id="text-patience"),
        pytest.param(lambda: EarlyStopping(min_delta=math.nan), "min_delta must be a number", id="nan-min_delta"),
        pytest.param(lambda: EarlyStopping(min_delta="a"), "min_delta must be a number", id="text-min_delta"),
        pytest.param(lambda: Progress(log_seconds="a"), "log_seconds must be a number", id="log_seconds"),
        pytest.param(lambda: EarlyStopping("val_f1").judge(at(0, {"val_r2": 1.0})), "val_r2", id="no-such"),
        pytest.param(lambda: EarlyStopping().judge(at(0, {})), "Pass validation_data", id="no-metrics"),
        pytest.param(lambda: EarlyStopping().judge(at(0, {"val_odd": 1.0})), "mode='min'", id="unknown-mode"),
    ],
)
def test_early_stopping_refuses(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


def test_protocols():
    assert isinstance(EarlyStopping(), Control)
    assert not isinstance(EarlyStopping(), Observer)
    assert isinstance(History(), Observer)
    assert isinstance(Progress(), Observer)


# -- in a fit ----------------------------------------------------------------------------------------


class Drifting(ClassifierMixin, BaseEstimator):
    """Its accuracy is best after the second epoch of four batches."""

    def partial_fit(self, X, y, classes=None):  # noqa: ARG002
        self.classes_ = np.asarray(classes)
        self.n_steps_ = getattr(self, "n_steps_", 0) + 1
        return self

    def predict(self, X):
        wrong = abs(self.n_steps_ - 8)
        predicted = (X[:, 0] > 0).astype(int)
        predicted[:wrong] = 1 - predicted[:wrong]
        return predicted


TRUST = (f"{__name__}.Drifting",)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X = np.random.default_rng(2).normal(size=(200, 3)).astype(np.float32)
    return sf.ingest(X, tmp_path_factory.mktemp("callbacks") / "store", y=(X[:, 0] > 0).astype(int), chunk_rows=200)


def drifting(epochs=9, checkpoint=None, **options):
    return sf.StreamTrainer(
        Drifting(),
        batch_size=50,
        epochs=epochs,
        callbacks=[EarlyStopping("val_accuracy", patience=2, **options)],
        checkpoint=checkpoint and sf.CheckpointOptions(checkpoint, trust=TRUST),
    )


def test_the_best_model_is_given(store):
    trainer = drifting().fit(store, validation_data=store)
    assert trainer.estimator_.n_steps_ == 8
    assert [entry["epoch"] for entry in trainer.history_] == [0, 1, 2, 3]
    (stopping,) = trainer.callbacks_
    assert (stopping.best_epoch_, stopping.stopped_epoch_, stopping.best_) == (1, 3, 1.0)
    assert trainer.callbacks[0].best_ is None
    # A second fit begins with a fresh copy.
    assert drifting().fit(store, validation_data=store).callbacks_[0].stopped_epoch_ == 3


def test_the_last_model_is_given_where_the_best_is_not_asked_for(store):
    assert drifting(restore_best=False).fit(store, validation_data=store).estimator_.n_steps_ == 16


def test_a_stopped_run_stays_stopped_as_with_more_epochs_from_the_start(tmp_path, store):
    first = drifting(checkpoint=tmp_path).fit(store, validation_data=store)
    for epochs in (9, 30, 4):
        again = drifting(checkpoint=tmp_path, epochs=epochs).fit(store, validation_data=store)
        assert again.estimator_.n_steps_ == first.estimator_.n_steps_ == 8
        assert again.history_ == first.history_
        assert again.callbacks_[0].stopped_epoch_ == 3
    whole = drifting(epochs=30).fit(store, validation_data=store)
    assert (whole.estimator_.n_steps_, len(whole.history_)) == (8, 4)
    # Without the callback that ended it, it is another fit, and goes on.
    free = drifting(checkpoint=tmp_path, epochs=6).set_params(callbacks=[]).fit(store, validation_data=store)
    assert (free.estimator_.n_steps_, len(free.history_)) == (24, 6)


def test_a_run_that_is_interrupted_and_stopped_is_as_the_undisturbed_one(tmp_path, store):
    drifting(checkpoint=tmp_path, epochs=2).fit(store, validation_data=store)
    grown = drifting(checkpoint=tmp_path, epochs=30).fit(store, validation_data=store)
    assert (grown.estimator_.n_steps_, [entry["epoch"] for entry in grown.history_]) == (8, [0, 1, 2, 3])


class Odd(EarlyStopping):
    """A control that gives what it was made with."""

    def __init__(self, verdict=GO, state=None):
        self.verdict, self.content = verdict, state or {}

    def judge(self, point):  # noqa: ARG002
        return self.verdict

    def state(self):
        return self.content


@pytest.mark.parametrize("verdict", [None, True, "stop"])
def test_what_is_no_verdict_is_refused(store, verdict):
    with pytest.raises(InvalidParameterError, match=f"callback Odd-0 must give a .*Verdict, got {verdict!r}"):
        sf.StreamTrainer(SGDClassifier(), batch_size=50, callbacks=[Odd(verdict)]).fit(store)


def test_a_state_that_is_not_json_is_refused_by_the_name_of_its_callback(tmp_path, store):
    trainer = sf.StreamTrainer(
        SGDClassifier(), batch_size=50, callbacks=[Odd(state={"best": np.float32(1)})], checkpoint=tmp_path
    )
    with pytest.raises(InvalidParameterError, match=r"The state of the callback Odd-0 .*float32"):
        trainer.fit(store)


@pytest.mark.parametrize("at", [FitStarted, StepsDone, EpochEnded, FitEnded])
def test_an_observer_that_raises_does_not_keep_the_others_from_being_told(store, at):
    class Raises:
        def notify(self, event):
            if isinstance(event, at):
                raise OSError("broken observer")

    before, after = Recorder(), Recorder()
    with pytest.raises(OSError, match="broken observer"):
        sf.StreamTrainer(SGDClassifier(), batch_size=50, callbacks=[before, Raises(), after]).fit(store)
    assert before.events == after.events
    assert isinstance(after.events[-1], FitEnded)
    assert any(isinstance(event, at) for event in after.events)


class Broken(EarlyStopping):
    def judge(self, point):
        if point.epoch == 2:
            raise RuntimeError("broken callback")
        return super().judge(point)


def test_a_callback_that_raises_stops_the_fit_and_keeps_the_checkpoint(tmp_path, store):
    trainer = sf.StreamTrainer(
        SGDClassifier(), batch_size=50, epochs=4, callbacks=[Broken("val_accuracy", patience=9)], checkpoint=tmp_path
    )
    with pytest.raises(RuntimeError, match="broken callback"):
        trainer.fit(store, validation_data=store)
    history = History()
    resumed = sf.StreamTrainer(SGDClassifier(), batch_size=50, epochs=4, callbacks=[history], checkpoint=tmp_path)
    resumed.fit(store)
    assert [epoch["epoch"] for epoch in history.epochs] == [2, 3]
    expected = sf.StreamTrainer(SGDClassifier(), batch_size=50, epochs=4).fit(store)
    np.testing.assert_array_equal(resumed.estimator_.coef_, expected.estimator_.coef_)


def test_a_kept_model_goes_with_the_callback_that_kept_it(tmp_path, store):
    drifting(checkpoint=tmp_path, epochs=3).fit(store, validation_data=store)
    assert drifting(checkpoint=tmp_path, epochs=3).fit(store, validation_data=store).estimator_.n_steps_ == 8
    for callbacks in ([], [EarlyStopping("val_accuracy", restore_best=False)], [EarlyStopping("val_f1")]):
        changed = drifting(checkpoint=tmp_path, epochs=3).set_params(callbacks=callbacks)
        assert changed.fit(store, validation_data=store).estimator_.n_steps_ == 12


def test_what_is_no_callback_is_refused(store):
    with pytest.raises(InvalidParameterError, match="str is no callback"):
        sf.StreamTrainer(SGDClassifier(), callbacks=["early"]).fit(store)


class Recorder:
    def __init__(self):
        self.events = []

    def notify(self, event):
        self.events.append(event)


def test_events_of_a_fit(store):
    recorder = Recorder()
    sf.StreamTrainer(SGDClassifier(), batch_size=80, epochs=2, callbacks=[recorder]).fit(store)
    started, *steps, ended = recorder.events
    told = {"estimator": "SGDClassifier", "epochs": 2, "batch_size": 80, "seed": 0, "estimator.loss": "hinge"}
    assert told.items() <= started.parameters.items()
    assert replace(started, parameters={}) == FitStarted(
        n_epochs=2, n_steps=3, n_rows=200, row_nbytes=12, estimator="SGDClassifier"
    )
    done = [(e.epoch, e.step, e.n_rows) for e in steps if isinstance(e, StepsDone)]
    assert done == [(epoch, step, rows) for epoch in (0, 1) for step, rows in ((1, 80), (2, 160), (3, 200))]
    assert [e.epoch for e in steps if isinstance(e, EpochEnded)] == [0, 1]
    assert isinstance(ended, FitEnded)


def test_a_run_that_is_complete_tells_what_was_measured(tmp_path, store):
    def fit(epochs, callbacks):
        return sf.StreamTrainer(
            SGDClassifier(), batch_size=80, epochs=epochs, checkpoint=tmp_path, callbacks=callbacks
        ).fit(store)

    first, recorder = fit(2, []), Recorder()
    fit(2, [recorder])
    started, ended = recorder.events
    assert list(started.history) == first.history_
    assert (started.epoch, ended) == (2, FitEnded(0.0))


def test_partial_fit_tells_what_was_measured_before(store):
    recorder = Recorder()
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=80, epochs=2, callbacks=[recorder]).fit(store)
    trainer.partial_fit(store)
    last = [event for event in recorder.events if isinstance(event, FitStarted)][-1]
    assert (last.epoch, list(last.history)) == (2, trainer.history_[:2])


# -- progress ----------------------------------------------------------------------------------------

EVENTS = [
    FitStarted(n_epochs=2, n_steps=2, n_rows=100, row_nbytes=8),
    StepsDone(0, 1, 50),
    StepsDone(0, 2, 100),
    EpochEnded(0, 1.25, {"val_accuracy": 0.98765}),
    StepsDone(1, 1, 50),
    FitEnded(2.5),
]


def test_progress_writes_lines_to_the_log(caplog, capsys):
    caplog.set_level("INFO", logger="streamfit")
    progress = Progress(log_seconds=0.0, console=Console(file=io.StringIO(), force_terminal=False))
    for event in EVENTS:
        progress.notify(event)
    text = caplog.text
    assert "Epoch 1 of 2: 50 of 100 rows, " in text
    assert "rows/s" in text
    assert "Epoch 1 of 2 done in 1.2 s: val_accuracy 0.9877" in text
    assert "Fit ended after 2.5 s" in text
    assert capsys.readouterr().err == ""


def terminal(screen, **options):
    return Console(file=screen, force_terminal=True, width=120, **options)


def plain(text):
    """A text without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def last_drawn(screen):
    """Lines of the last drawing."""
    text = plain(screen.getvalue()).rstrip("\n")
    return text[text.rfind("\r") + 1 :].split("\n")


def test_progress_draws_on_a_terminal(caplog):
    caplog.set_level("INFO", logger="streamfit")
    screen = io.StringIO()
    progress = Progress(console=terminal(screen))
    for event in EVENTS:
        progress.notify(event)
    bar, facts = last_drawn(screen)[-2:]
    assert re.fullmatch(r"epoch 2/2 step 1/2 .* 0:00:02 elapsed, stopped *", bar)
    assert re.fullmatch(r"  60 rows/s, 0\.0 MB/s, memory \+[0-9.]+ MB, val_accuracy 0\.9877 *", facts)
    assert "\x1b[?25h" in screen.getvalue()  # the cursor is given back
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("events", "end"),
    [
        pytest.param([FitEnded(0.0)], "0:00:00 elapsed, stopped", id="no-step"),
        pytest.param([FitEnded(3.0, error="MemoryError")], "0:00:03 elapsed, MemoryError", id="failed"),
        pytest.param([StepsDone(1, 2, 100), EpochEnded(1, 1.0), FitEnded(7_261.0)], "2:01:01 elapsed, done", id="jump"),
    ],
)
def test_progress_says_how_a_fit_ended(events, end):
    screen = io.StringIO()
    progress = Progress(console=terminal(screen))
    for event in [EVENTS[0], *events]:
        progress.notify(event)
    assert last_drawn(screen)[-2].rstrip().endswith(end)
    # The next fit has a drawing of its own.
    for event in EVENTS:
        progress.notify(event)
    assert last_drawn(screen)[-2].startswith("epoch 2/2 step 1/2")


@pytest.mark.parametrize("same", [True, False])
def test_progress_of_a_fit_within_a_fit_shares_the_terminal(same):
    screen = io.StringIO()
    outer = Progress(console=terminal(screen))
    inner = outer if same else Progress(console=terminal(screen))
    for event in EVENTS[:3]:
        outer.notify(event)
    for event in (replace(EVENTS[0], n_steps=50), StepsDone(0, 7, 20), FitEnded(1.0, error="ValueError")):
        inner.notify(event)
    for event in EVENTS[3:]:
        outer.notify(event)
    lines = last_drawn(screen)
    assert re.search(r"epoch 1/2 step 7/50 .*elapsed, ValueError", plain(screen.getvalue()))
    assert re.fullmatch(r"epoch 2/2 step 1/2 .* 0:00:02 elapsed, stopped *", lines[-2])
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1


def test_progress_counts_what_this_call_has_done(caplog, monkeypatch):
    caplog.set_level("INFO", logger="streamfit")
    clock = [1_000.0]
    monkeypatch.setattr("streamfit.callbacks.standing.time.monotonic", lambda: clock[0])
    progress = Progress(log_seconds=0, console=Console(file=io.StringIO(), force_terminal=False))
    begun = FitStarted(
        n_epochs=4, n_steps=10, n_rows=1_000, row_nbytes=100_000, epoch=2, step=5, memory_limit=3 * 10**9
    )

    def told(event, at):
        clock[0] = 1_000.0 + at
        progress.notify(event)
        return caplog.messages[-1]

    progress.notify(begun)
    # Which rows the checkpoint had is not told, so those of the first step are not counted.
    assert "Epoch 3 of 4: 600 of 1,000 rows, step 6/10, 0 rows/s" in told(StepsDone(2, 6, 600), 1.0)
    line = told(StepsDone(2, 10, 1_000), 4.0)
    assert re.search(
        r"step 10/10, 100 rows/s, 10 MB/s, memory \+[0-9.,]+ MB of 3,000 MB, 0:00:04 elapsed, 0:00:10 left", line
    )
    line = told(EpochEnded(2, 8.0, {"val_r2": 0.5}), 8.0)
    assert line.startswith("Epoch 3 of 4 done in 8.0 s: val_r2 0.5; 50 rows/s, 5.0 MB/s, memory ")
    assert "val_r2 0.75, 50 rows/s" in (
        progress.notify(StepsMeasured(3, 2, 1.0, {"val_r2": 0.75})) or told(StepsDone(3, 2, 200), 12.0)
    )
    assert told(FitEnded(12.0, error="KeyboardInterrupt"), 12.0) == "Fit failed after 12.0 s: KeyboardInterrupt."


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(FitStarted(n_epochs=3, n_steps=2, n_rows=100, row_nbytes=8, epoch=3), id="nothing-left"),
        pytest.param(FitStarted(n_epochs=0, n_steps=0, n_rows=0, row_nbytes=0), id="nothing-at-all"),
    ],
)
def test_progress_of_nothing(begun):
    screen = io.StringIO()
    for console in (terminal(screen), Console(file=io.StringIO())):
        progress = Progress(console=console)
        progress.notify(begun)
        progress.notify(FitEnded(0.0))
    assert last_drawn(screen)[-2].rstrip().endswith("0:00:00 elapsed, done")


def test_progress_on_a_terminal_that_cannot_redraw_is_logged(caplog, monkeypatch):
    caplog.set_level("INFO", logger="streamfit")
    screen = io.StringIO()
    progress = Progress(console=terminal(screen, _environ={"TERM": "dumb"}))
    for event in EVENTS:
        progress.notify(event)
    assert screen.getvalue() == ""
    assert "Epoch 1 of 2 done" in caplog.text


NOTEBOOK = """
import time
from streamfit.callbacks import Progress
from streamfit.events import EpochEnded, FitEnded, FitStarted, StepsDone
progress = Progress()
progress.notify(FitStarted(n_epochs=1, n_steps=3, n_rows=30, row_nbytes=8))
for step in (1, 2, 3):
    time.sleep(.6)
    progress.notify(StepsDone(0, step, 10 * step))
progress.notify(EpochEnded(0, 1.5, {"val_r2": 0.25}))
progress.notify(FitEnded(2.5))
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's own
def test_progress_in_a_notebook_is_one_output_that_is_drawn_anew(tmp_path):
    messages = []
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    take = client.process_message
    client.process_message = lambda message, *rest: messages.append(message["msg_type"]) or take(message, *rest)
    client.execute()
    (output,) = notebook.cells[0].outputs
    assert output.output_type == "display_data"
    assert re.match(r"epoch 1/1 step 3/3 ━+ 0:00:02 elapsed, done *\n", plain(output.data["text/plain"]))
    assert "val_r2 0.25" in output.data["text/html"]
    assert messages.count("display_data") == 1
    assert messages.count("update_display_data") >= 3


def test_progress_takes_events_of_passes_and_of_no_fit():
    progress = Progress(console=Console(file=io.StringIO()))
    for event in EVENTS[1:]:
        progress.notify(event)
