"""A fit that is killed at any instant and started again gives the bits that it would have given."""

from __future__ import annotations

import io
import itertools
import multiprocessing
import os
import signal
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf
from streamfit.callbacks import Control, EarlyStopping, ModelCheckpoint, PrequentialMetrics, ReduceLROnPlateau
from streamfit.errors import CheckpointError
from streamfit.events import StepsDone
from streamfit.run.checkpoint import Checkpoint, RunFolder

N_EPOCHS = 3
KINDS = ("sgd", "mlp", "kmeans")
TRUST = (
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
)


def trainer_of(kind, folder, *, n_epochs=N_EPOCHS, observers=(), saves_models=True):
    """A fit of which everything that can be lost is looked at: model, history, controls, written models."""
    saving = [ModelCheckpoint(folder / "models", every_steps=6, keep_last=3)] if saves_models else []
    if kind == "sgd":
        estimator = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.5))
        controls = [
            EarlyStopping("val_log_loss", patience=9),
            ReduceLROnPlateau("val_log_loss", factor=0.5, patience=1),
            PrequentialMetrics(every_steps=5, window=3),
        ]
    elif kind == "mlp":
        estimator = MLPClassifier((8,), solver="sgd", learning_rate_init=0.5)
        controls = [EarlyStopping("val_log_loss", patience=2), ReduceLROnPlateau("val_accuracy", patience=1)]
    else:
        estimator, controls = MiniBatchKMeans(4), []
    return sf.StreamTrainer(
        estimator,
        batch_size=50,
        epochs=n_epochs,
        checkpoint=sf.CheckpointOptions(folder / "run", every_steps=4),
        callbacks=[*controls, *saving, *observers],
    )


def fit(kind, store, folder, **options):
    return trainer_of(kind, folder, **options).fit(store, validation_data=None if kind == "kmeans" else store)


def frozen(value):
    """All that a model or a state holds, comparable bit for bit."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.random.RandomState):
        return frozen(value.get_state())
    if isinstance(value, dict):
        return sorted((str(name), frozen(item)) for name, item in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return [frozen(item) for item in value]
    if hasattr(value, "__dict__"):
        return type(value).__name__, frozen(vars(value))
    return repr(value) if isinstance(value, str | int | float | np.generic | None) else type(value).__name__


def told(trainer, folder):
    history = [{name: value for name, value in entry.items() if name != "seconds"} for entry in trainer.history_]
    states = [callback.state() for callback in trainer.callbacks_ if isinstance(callback, Control)]
    models = {path.name: frozen(skops.io.load(path, trusted=TRUST)) for path in (folder / "models").glob("*")}
    return frozen([trainer.estimator_, history, states, trainer.stopped_by_, trainer.n_epochs_, models])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(520, 5)).astype(np.float32)
    y = np.where(X[:, 0] + rng.normal(size=520) > 0, "yes", "no")
    return sf.ingest(X, tmp_path_factory.mktemp("kills") / "store", y=y, chunk_rows=60)


@pytest.fixture(scope="module")
def undisturbed(store, tmp_path_factory):
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    return {kind: told(fit(kind, store, folder), folder) for kind, folder in folders.items()}


def test_what_is_compared_is_not_the_same_for_all(store, undisturbed, tmp_path):
    """What this file compares has to hold everything: the models, the best one, what controls decided."""
    trainer = fit("sgd", store, tmp_path)
    stopping, reduced, tested, saved = trainer.callbacks_
    assert stopping.best_ is not None
    assert len(reduced.reductions_) > 0
    assert tested.n_rows_ == N_EPOCHS * 520 - 50
    assert [path.name for path in saved.paths_] == [
        f"model-e00000{e}-s0000000{s}.skops" for e, s in ((2, 0), (2, 6), (3, 0))
    ]
    assert saved.best_path_.exists()
    before = told(trainer, tmp_path)
    trainer.estimator_[-1].coef_[0, 0] = np.nextafter(trainer.estimator_[-1].coef_[0, 0], 9)
    assert told(trainer, tmp_path) != before
    assert before == undisturbed["sgd"]


# -- children ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def context():
    context = multiprocessing.get_context("forkserver")
    # What children import, so that they need not.
    context.set_forkserver_preload(
        [
            "pytest",
            "skops.io",
            "sklearn.cluster",
            "sklearn.linear_model",
            "sklearn.neural_network",
            "sklearn.pipeline",
            "streamfit.callbacks",
            "streamfit.preprocessing.scalers",
            "streamfit.trainer",
        ]
    )
    return context


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


def child_dies_after_steps(kind, store, folder, n_steps):
    fit(kind, sf.open_store(store), folder, observers=[DieAfterSteps(n_steps)])


def child_dies_before_call(kind, store, folder, n_calls, options):
    """Die right before the n-th call by which a file of the run is opened, flushed, put in place or removed."""
    left = [n_calls]

    def concerns(what):
        path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else what
        return str(path).startswith(str(folder))

    def dying(function):
        def called(what, *arguments, **named):
            if concerns(what):
                left[0] -= 1
                if left[0] == 0:
                    die()
            return function(what, *arguments, **named)

        return called

    for module, name in ((os, "replace"), (os, "fsync"), (os, "unlink"), (os, "open"), (os, "mkdir"), (io, "open")):
        setattr(module, name, dying(getattr(module, name)))
    fit(kind, sf.open_store(store), folder, **options)


def child_runs(kind, store, folder, begins):
    begins.send(None)
    fit(kind, sf.open_store(store), folder, observers=[Slow()])


def killed(context, target, *arguments):
    process = context.Process(target=target, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


# -- kills -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "deaths"),
    [
        # The first one dies before any checkpoint; each of the others goes on from where it can.
        pytest.param("sgd", (1, 13), id="sgd"),
        pytest.param("mlp", (14,), id="mlp"),
        pytest.param("kmeans", (11,), id="kmeans"),
    ],
)
def test_killed_between_steps(tmp_path, context, store, undisturbed, kind, deaths):
    for n_steps in deaths:
        assert killed(context, child_dies_after_steps, kind, store.path, tmp_path, n_steps)
    assert told(fit(kind, store, tmp_path), tmp_path) == undisturbed[kind]


ONE_EPOCH = {"n_epochs": 1, "saves_models": False}


@pytest.mark.parametrize(
    "n_calls",
    [
        # Three calls make the folder and one the lock; five write a file: it is opened, flushed and put in place, and
        # its folder is opened and flushed.
        pytest.param(6, id="run-file-half-written"),
        pytest.param(10, id="run-file-in-place-and-no-checkpoint"),
        pytest.param(11, id="first-checkpoint-half-written"),
        pytest.param(22, id="third-checkpoint-not-in-place"),
        pytest.param(24, id="third-checkpoint-in-place-but-not-its-folder"),
        pytest.param(25, id="before-the-oldest-is-removed"),
    ],
)
def test_killed_before_a_call_that_writes(tmp_path, context, store, n_calls):
    assert killed(context, child_dies_before_call, "sgd", store.path, tmp_path / "a", n_calls, ONE_EPOCH)
    again = told(fit("sgd", store, tmp_path / "a", **ONE_EPOCH), tmp_path / "a")
    assert again == told(fit("sgd", store, tmp_path / "b", **ONE_EPOCH), tmp_path / "b")
    assert not list((tmp_path / "a").rglob("*.part*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_before_each_call_that_writes(tmp_path, context, store, kind):
    options = {"n_epochs": 2}
    expected = told(fit(kind, store, tmp_path / "whole", **options), tmp_path / "whole")
    for n_calls in itertools.count(1):
        folder = tmp_path / str(n_calls)
        if not killed(context, child_dies_before_call, kind, store.path, folder, n_calls, options):
            break
        assert told(fit(kind, store, folder, **options), folder) == expected, f"killed before call {n_calls}"
        assert not list(folder.rglob("*.part*"))
    assert n_calls > 60
    print(f"{kind}: killed before each of {n_calls - 1} calls")


def killed_at_random(context, kind, store, folder, rng, n_kills):
    """Kill a fit until it is done, or so many times; give how often it was."""
    for kills in range(n_kills):
        begun, begins = context.Pipe(duplex=False)
        process = context.Process(target=child_runs, args=(kind, store.path, folder, begins))
        process.start()
        begun.recv()
        process.join(rng.uniform(0, 1))
        process.kill()
        process.join()
        if process.exitcode == 0:
            return kills
        assert process.exitcode == -signal.SIGKILL
    return n_kills


@pytest.mark.parametrize(("kind", "n_kills"), [("sgd", 2), ("mlp", 1), ("kmeans", 1)])
def test_killed_at_random_instants(tmp_path, context, store, undisturbed, kind, n_kills):
    killed_at_random(context, kind, store, tmp_path, np.random.default_rng(int.from_bytes(os.urandom(4))), n_kills)
    assert told(fit(kind, store, tmp_path), tmp_path) == undisturbed[kind]


@pytest.mark.slow
def test_killed_at_two_hundred_random_instants(tmp_path, context, store, undisturbed):
    rng, kills, n_fits = np.random.default_rng(5), dict.fromkeys(KINDS, 0), 0
    while sum(kills.values()) < 200:
        kind = min(kills, key=kills.get)
        folder = tmp_path / f"fit-{n_fits}"
        kills[kind] += killed_at_random(context, kind, store, folder, rng, int(rng.integers(1, 7)))
        n_fits += 1
        assert told(fit(kind, store, folder), folder) == undisturbed[kind], (kind, n_fits, kills)
    print(f"{sum(kills.values())} kills in {n_fits} fits: {kills}")


# -- damage ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half_done(tmp_path_factory, store):
    """The folder of a fit that ended before its last step, of which a better model was kept."""

    class EndsError(Exception):
        pass

    class EndsInEpoch:
        def notify(self, event):
            if isinstance(event, StepsDone) and (event.epoch, event.step) == (2, 9):
                raise EndsError

    folder = tmp_path_factory.mktemp("half_done")
    with pytest.raises(EndsError):
        fit("sgd", store, folder, observers=[EndsInEpoch()], saves_models=False)
    newest = Checkpoint.from_bytes(max((folder / "run").glob("checkpoint-*")).read_bytes())
    assert newest.kept is not None
    return folder / "run"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, store):
    folder = tmp_path_factory.mktemp("whole")
    return told(fit("sgd", store, folder, saves_models=False), folder)


DAMAGE = {
    "empty": lambda content: content[:0],
    "one-byte": lambda content: content[:1],
    "half": lambda content: content[: len(content) // 2],
    "last-byte-missing": lambda content: content[:-1],
    "one-byte-more": lambda content: content + b"\0",
    "first-byte-flipped": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "last-byte-flipped": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "zeros": lambda content: bytes(len(content)),
    # The name of an entry of the archive's directory, which none of its own checksums covers.
    "kept-model-renamed": lambda content: b"kepu".join(content.rsplit(b"kept", 1)),
}


def damaged(half_done, folder, change, *, n_files):
    """Copy a run and change its newest files."""
    (folder / "run").mkdir()
    for path in half_done.iterdir():
        (folder / "run" / path.name).write_bytes(path.read_bytes())
    files = sorted((folder / "run").glob("checkpoint-*"))
    assert [file.name for file in files] == ["checkpoint-000002-00000004.zip", "checkpoint-000002-00000008.zip"]
    for file in files[-n_files:]:
        content = file.read_bytes()
        assert change(content) != content
        file.write_bytes(change(content))


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in DAMAGE.items()])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, store, half_done, whole, caplog, change):
    damaged(half_done, tmp_path, change, n_files=1)
    resumed = fit("sgd", store, tmp_path, saves_models=False)
    assert caplog.text.count("the checkpoint before it is used") == 1
    assert "checkpoint-000002-00000008.zip" in caplog.text
    assert told(resumed, tmp_path) == whole


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in DAMAGE.items()])
def test_when_both_are_damaged_the_fit_is_refused(tmp_path, store, half_done, change):
    damaged(half_done, tmp_path, change, n_files=2)
    for resume in ("auto", "always"):
        with pytest.raises(CheckpointError, match=r"No checkpoint in .* can be read\. Use another folder, or pass"):
            trainer_of("sgd", tmp_path, saves_models=False).fit(store, validation_data=store, resume=resume)


def test_each_byte_counts(tmp_path, half_done, caplog):
    """Whatever byte is another one, and wherever the file is cut, it is noticed."""
    content = max(half_done.glob("checkpoint-*")).read_bytes()
    rng = np.random.default_rng(int.from_bytes(os.urandom(4)))
    for place, bit in enumerate(rng.integers(8, size=len(content))):
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        assert not is_read(bytes(flipped)), (place, bit)
    for n_bytes in range(len(content)):
        assert not is_read(content[:n_bytes]), n_bytes
    assert is_read(content)
    # What is no error of its own at any of these places is none of the folder's either.
    with RunFolder(tmp_path) as folder:
        assert folder.latest() is None


def is_read(content):
    try:
        Checkpoint.from_bytes(content)
    except zipfile.BadZipFile:
        return False
    return True
