"""``streamfit fit`` that is interrupted by signals and goes on, bit for bit as if nothing had been."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import SGDClassifier
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.cli.interruption import SignalPause

N_ROWS, N_STEPS, N_EPOCHS = 520, 11, 4
OWN_MODELS = '''
import os
import time

from sklearn.cluster import Birch
from sklearn.linear_model import SGDClassifier

ON_STEP = []
ON_PREDICT = []


class Own(SGDClassifier):
    """Tells when it is called."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        for call in ON_STEP:
            call()
        return super().partial_fit(X, y, classes=classes, sample_weight=sample_weight)

    def predict(self, X):
        for call in ON_PREDICT:
            call()
        return super().predict(X)


class Nodes(Birch):
    """Cannot be written without pickling."""

    def partial_fit(self, X, y=None):
        for call in ON_STEP:
            call()
        return super().partial_fit(X, y)
'''


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A store, a module with models, and what a fit that nobody disturbs gives."""
    folder = tmp_path_factory.mktemp("resume")
    (folder / "own_models.py").write_text(OWN_MODELS)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    y = np.where(X[:, 0] + rng.normal(size=N_ROWS) > 0, "yes", "no")
    store = sf.ingest(X, folder / "rows.zarr", y=y, chunk_rows=60)
    trainer = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=50, epochs=N_EPOCHS, metrics=["accuracy"])
    trainer.fit(store, validation_data=store)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield SimpleNamespace(folder=folder, store=store, undisturbed=told_by(trainer.estimator_, trainer.history_))
        sys.modules.pop("own_models", None)


@pytest.fixture
def command(here):
    path = str(here.store.path)
    own = ("own_models.Own", "--trust", "own_models", "--param", "loss=log_loss", "--batch-size", "50")
    return ("fit", path, *own, "--epochs", str(N_EPOCHS), "--validation", path, "--metric", "accuracy", "--out")


def told_by(model, history):
    kept = [{name: value for name, value in entry.items() if name != "seconds"} for entry in history]
    return [model.coef_.tobytes(), model.intercept_.tobytes(), kept]


def result_of(out):
    trusted = ["own_models.Own"]
    history = json.loads((out / "history.json").read_text())
    return told_by(skops.io.load(out / "model.skops", trusted=trusted), history)


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


# -- children ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streamfit.trainer", "streamfit.cli.app", "sklearn.linear_model", "skops.io"])
    return context


def hit(signal_number, *, times=1, apart=0.0):
    for _ in range(times):
        os.kill(os.getpid(), signal_number)
        time.sleep(apart)


def after(n_calls, act):
    """Act at the n-th call."""
    left = [n_calls]

    def call(*_arguments):
        left[0] -= 1
        if left[0] == 0:
            act()

    return call


def before_each(function, call):
    def called(*arguments, **options):
        call()
        return function(*arguments, **options)

    return called


def child(folder, arguments, stderr, instant, n_calls, signal_number, times, apart):
    """Be the command line, and get a signal at an instant."""
    sys.path.insert(0, folder)
    import own_models

    import streamfit.trainer
    from streamfit.__main__ import main
    from streamfit.cli.fitted_folder import FittedFolder

    output = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 2)
    os.dup2(output, 1)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w"), line_buffering=True) for fd in (1, 2))
    act = after(n_calls, lambda: hit(signal_number, times=times, apart=apart))
    if instant == "slow":
        own_models.ON_STEP.append(lambda: time.sleep(0.02))
    elif instant == "step":
        own_models.ON_STEP.append(act)
    elif instant == "validation":
        own_models.ON_PREDICT.append(act)
    elif instant == "writing":
        os.fsync = before_each(os.fsync, act)
    elif instant == "results":
        FittedFolder.write_model = before_each(FittedFolder.write_model, act)
    elif instant == "beginning":
        streamfit.trainer.define_fit = before_each(streamfit.trainer.define_fit, act)
    sys.argv = ["streamfit", *arguments]
    main()


@pytest.fixture
def disturbed(here, context, tmp_path):
    """Run a command with a signal at an instant; give its exit code and what it said."""

    def run(arguments, instant, n_calls=1, signal_number=signal.SIGINT, times=1, apart=0.0):
        said = tmp_path / "said"
        words = (str(here.folder), [str(word) for word in arguments], str(said))
        process = context.Process(target=child, args=(*words, instant, n_calls, signal_number, times, apart))
        process.start()
        process.join(60)
        text = said.read_text()
        assert "Traceback" not in text, text
        return process.exitcode, text

    return run


def how_to_go_on(said):
    line = next(line for line in said.splitlines() if "streamfit fit" in line)
    return shlex.split(line[line.index("streamfit fit") :])[1:]


# -- where a signal comes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instant", "n_calls", "signal_number", "epoch", "step"),
    [
        pytest.param("step", 1, signal.SIGTERM, 1, 1, id="in-the-first-step"),
        pytest.param("step", 16, signal.SIGINT, 2, 5, id="in-a-step"),
        pytest.param("step", 2 * N_STEPS, signal.SIGINT, 2, N_STEPS, id="in-the-last-step-of-an-epoch"),
        pytest.param("validation", 1, signal.SIGTERM, 1, N_STEPS, id="in-validation"),
        pytest.param("writing", 3, signal.SIGTERM, 1, 2, id="while-the-first-state-is-written"),
        pytest.param("writing", 6, signal.SIGINT, 2, 1, id="while-the-state-of-an-epoch-is-written"),
    ],
)
def test_a_signal_pauses_and_the_command_that_is_told_goes_on(
    here, command, disturbed, tmp_path, signal_number, instant, n_calls, epoch, step
):
    code, said = disturbed([*command, tmp_path / "a b"], instant, n_calls, signal_number)
    assert code == 128 + signal_number
    assert f"Paused after step {step} of {N_STEPS} in epoch {epoch} of {N_EPOCHS}. Go on: streamfit fit " in said
    assert not (tmp_path / "a b/summary.json").exists()
    code, said = disturbed(how_to_go_on(said), "never")
    assert code == 0, said
    assert result_of(tmp_path / "a b") == here.undisturbed
    assert sorted(path.name for path in (tmp_path / "a b").iterdir()) == ["history.json", "model.skops", "summary.json"]


def test_the_same_command_without_resume_goes_on_too(here, command, disturbed, tmp_path):
    assert disturbed([*command, tmp_path / "out"], "step", 20)[0] == 130
    assert disturbed([*command, tmp_path / "out"], "never")[0] == 0
    assert result_of(tmp_path / "out") == here.undisturbed


def test_a_signal_before_the_first_step_says_that_nothing_is_left(command, disturbed, tmp_path):
    code, said = disturbed([*command, tmp_path / "out"], "beginning")
    assert code == 130
    assert "Interrupted before any state was written, so there is nothing to go on from" in said
    assert list((tmp_path / "out").iterdir()) == []
    # A fit that has come further has something.
    assert disturbed([*command, tmp_path / "out"], "step", 20)[0] == 130
    code, said = disturbed([*command, tmp_path / "out"], "beginning", 1, signal.SIGTERM)
    assert code == 143
    assert "Interrupted. Go on from the state that was written last: streamfit fit" in said
    assert "--resume" in how_to_go_on(said)


def test_a_signal_while_results_are_written_stops_at_once(here, command, disturbed, tmp_path):
    code, said = disturbed([*command, tmp_path / "out"], "results")
    assert code == 130
    assert "Interrupted. Go on from the state that was written last: " in said
    assert disturbed(how_to_go_on(said), "never")[0] == 0
    assert result_of(tmp_path / "out") == here.undisturbed


@pytest.mark.parametrize(
    ("instant", "n_calls"),
    [("step", N_STEPS * N_EPOCHS), ("validation", 9 * N_EPOCHS - 3), ("writing", 2 + 2 * (N_EPOCHS + 1))],
)
def test_a_signal_at_the_very_end_changes_nothing(here, command, disturbed, tmp_path, instant, n_calls):
    code, said = disturbed([*command, tmp_path / "out"], instant, n_calls)
    assert code == 0, said
    assert "Finishing this step" in said
    assert result_of(tmp_path / "out") == here.undisturbed


def test_a_second_ctrl_c_stops_at_once(here, command, disturbed, tmp_path):
    code, said = disturbed([*command, tmp_path / "out"], "step", 15, times=2, apart=0.4)
    assert code == 130
    assert "Interrupted. Go on from the state that was written last: " in said
    assert disturbed(how_to_go_on(said), "never")[0] == 0
    assert result_of(tmp_path / "out") == here.undisturbed


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_is_one(command, disturbed, tmp_path, signal_number):
    code, said = disturbed([*command, tmp_path / "out"], "step", 15, signal_number, times=3, apart=0.01)
    assert code == 128 + signal_number
    assert "Paused after step 4 of 11 in epoch 2" in said


def test_a_long_step_is_finished(here, command, disturbed, tmp_path):
    code, said = disturbed([*command, tmp_path / "out"], "step", 3, apart=1.5)
    assert (code, "Paused after step 3 of 11 in epoch 1" in said) == (130, True)


@pytest.mark.slow
def test_signals_at_random_times(here, context, command, tmp_path):
    """Each child goes on from the one before; most are met in the middle of something else."""
    rng, said, codes = np.random.default_rng(int.from_bytes(os.urandom(4))), tmp_path / "said", []
    out = tmp_path / "out"
    for _ in range(6):
        words = (str(here.folder), [*command, str(out)], str(said), "slow", 0, 0, 0, 0.0)
        process = context.Process(target=child, args=words)
        process.start()
        process.join(rng.uniform(0.2, 1.2))
        if process.exitcode is None:
            os.kill(process.pid, rng.choice([signal.SIGINT, signal.SIGTERM]))
        process.join(60)
        codes.append(process.exitcode)
        if process.exitcode == 0:
            break
    if codes[-1] != 0:
        process = context.Process(target=child, args=words)
        process.start()
        process.join(60)
        assert process.exitcode == 0, said.read_text()
    # Before the command listens, Python and this package's __main__ do: also by these codes, or by the signal itself.
    assert set(codes[:-1]) <= {130, 143, 1, -signal.SIGINT, -signal.SIGTERM}
    assert result_of(out) == here.undisturbed


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_reaches_no_worker(here, command, tmp_path):
    """A terminal sends it to each process of the command; the workers finish their segment."""
    many = [*command, str(tmp_path / "out"), "--scheduler", "processes", "--epochs", "200"]
    environment = os.environ | {"PYTHONPATH": str(here.folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "streamfit", *many],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )
    deadline = time.monotonic() + 60
    while not any((tmp_path / "out").glob("checkpoint/checkpoint-000001-*.zip")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "Nanny" not in said
    place = re.search(r"Paused after step \d+ of 11 in epoch (\d+) of 200", said)
    n_epochs = int(place[1]) + 1
    run(*command, tmp_path / "out", "--epochs", n_epochs, "--resume")
    whole = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=50, epochs=n_epochs, metrics=["accuracy"])
    whole.fit(here.store, validation_data=here.store)
    assert result_of(tmp_path / "out") == told_by(whole.estimator_, whole.history_)


def test_handlers_are_those_of_before_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with SignalPause().listening():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_is_ignored_stays_ignored():
    """A script starts a job in the background with SIGINT ignored: Ctrl-C is meant for others."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SignalPause().listening():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
