"""What a run's folder holds, who may go on from it, and who is refused."""

from __future__ import annotations

import copy
import json
import pickle
import re
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import Birch
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler

import streamfit as sf
from streamfit.errors import BudgetError, CheckpointError, CheckpointMismatchError, InvalidParameterError
from streamfit.events import EpochEnded, FitStarted, StepsDone
from streamfit.run.checkpoint import Checkpoint, Position, RunFolder
from streamfit.run.codecs import decode_estimator, encode_estimator
from streamfit.run.described import describe_estimator

N_ROWS = 230


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 4)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    X, y = data
    return sf.ingest(X, tmp_path_factory.mktemp("resume") / "store", y=y, chunk_rows=20)


class Interrupted(Exception):  # noqa: N818  # not an error of the library
    pass


class InterruptAfter:
    """Raises after some steps; remembers where the fit began."""

    def __init__(self, n_steps=None):
        self.n_steps = n_steps
        self.done = []
        self.began = None

    def notify(self, event):
        if isinstance(event, FitStarted):
            self.began = (event.epoch, event.step)
        if isinstance(event, StepsDone):
            self.done.append((event.epoch, event.step))
            if len(self.done) == self.n_steps:
                raise Interrupted


def trainer_of(run=None, **changes):
    options = {
        "estimator": SGDClassifier(loss="log_loss"),
        "batch_size": 50,
        "epochs": 3,
        "stream": sf.StreamOptions(window=4),
        "checkpoint": run and sf.CheckpointOptions(run, every_steps=1),
    }
    return sf.StreamTrainer(**(options | changes))


def bits(trainer):
    return pickle.dumps(vars(trainer.estimator_)), trainer.estimator_.coef_.tobytes()


def begun(run, store, n_steps=7, **changes):
    with pytest.raises(Interrupted):
        trainer_of(run, callbacks=[InterruptAfter(n_steps)], **changes).fit(store)


@pytest.mark.parametrize(
    ("estimator", "interruptions"),
    [
        pytest.param(SGDClassifier(), range(1, 11), id="sgd-every-step"),
        # Five steps an epoch: the first, and those around the ends of both epochs.
        pytest.param(MLPClassifier((3,)), [1, 5, 6, 10], id="mlp-edges"),
    ],
)
def test_interrupted_at_any_step(tmp_path, store, estimator, interruptions):
    def result(trainer):
        fitted = trainer.estimator_
        return [a.tobytes() for a in getattr(fitted, "coefs_", None) or [fitted.coef_, fitted.intercept_]]

    expected = result(trainer_of(estimator=estimator, epochs=2).fit(store))
    for n_steps in interruptions:
        run = tmp_path / f"run-{n_steps}"
        begun(run, store, n_steps, estimator=estimator, epochs=2)
        observer = InterruptAfter()
        resumed = trainer_of(run, estimator=estimator, epochs=2, callbacks=[observer]).fit(store)
        assert result(resumed) == expected
        # The interrupted step was done but not yet written, so exactly it is done again.
        assert len(observer.done) == 10 - n_steps + 1


def test_interrupted_in_every_step_of_one_run(tmp_path, store):
    run = tmp_path / "run"
    expected = bits(trainer_of(epochs=2).fit(store))
    for _ in range(9):
        begun(run, store, 2, epochs=2)  # one step is written, the other is lost
    assert bits(trainer_of(run, epochs=2).fit(store)) == expected


def test_without_every_steps_a_fit_goes_on_from_the_last_epoch(tmp_path, store):
    expected = bits(trainer_of().fit(store))
    begun(tmp_path / "run", store, 8, checkpoint=tmp_path / "run")
    observer = InterruptAfter()
    resumed = trainer_of(checkpoint=str(tmp_path / "run"), callbacks=[observer]).fit(store)
    assert observer.began == (1, 0)
    assert bits(resumed) == expected


def test_a_complete_run_is_read_and_not_trained(tmp_path, store):
    first = trainer_of(tmp_path).fit(store, validation_data=store)
    observer = InterruptAfter(1)
    again = trainer_of(tmp_path, callbacks=[observer]).fit(store, validation_data=store)
    assert observer.began == (3, 0)  # who records it is told, and no step is done
    assert bits(again) == bits(first)
    assert again.history_ == first.history_
    np.testing.assert_array_equal(again.classes_, first.classes_)


def test_epochs_may_grow(tmp_path, store):
    trainer_of(tmp_path, epochs=2).fit(store)
    observer = InterruptAfter()
    grown = trainer_of(tmp_path, epochs=4, callbacks=[observer]).fit(store)
    assert observer.began == (2, 0)
    assert bits(grown) == bits(trainer_of(epochs=4).fit(store))
    assert [entry["epoch"] for entry in grown.history_] == [0, 1, 2, 3]
    with pytest.raises(CheckpointMismatchError, match="epochs=3"):
        trainer_of(tmp_path, epochs=3).fit(store)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"batch_size": 40}, "batch_size was 50 and is 40", id="batch_size"),
        pytest.param({"random_state": 1}, "seed was 0 and is 1", id="seed"),
        pytest.param({"shuffle": "none"}, "shuffle was 'window' and is 'none'", id="shuffle"),
        pytest.param({"stream": sf.StreamOptions(window=5)}, "window_chunks was 4 and is 5", id="window"),
        pytest.param({"stream": sf.StreamOptions(window=4, min_batch=31)}, "min_batch was 1 and is 31", id="min_batch"),
        pytest.param({"stream": sf.StreamOptions(window=4, drop_last=True)}, "drop_last", id="drop_last"),
        pytest.param(
            {"estimator": SGDClassifier(loss="log_loss", alpha=0.1)},
            r"estimator\.alpha was 0\.0001 and is 0\.1",
            id="parameter",
        ),
        pytest.param(
            {"estimator": make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss"))},
            "estimator was .*SGDClassifier.*Pipeline",
            id="pipeline",
        ),
        pytest.param({"estimator": GaussianNB()}, "estimator was .*SGDClassifier.*GaussianNB", id="class"),
    ],
)
def test_what_defines_the_order_is_refused_by_name(tmp_path, store, changes, named):
    begun(tmp_path, store)
    before = sorted(file.name for file in tmp_path.iterdir())
    with pytest.raises(CheckpointMismatchError, match=named):
        trainer_of(tmp_path, **changes).fit(store)
    assert sorted(file.name for file in tmp_path.iterdir()) == before
    # The run is as it was: the right call goes on.
    assert bits(trainer_of(tmp_path).fit(store)) == bits(trainer_of().fit(store))


def test_another_link_of_a_pipeline_is_refused(tmp_path, store):
    begun(tmp_path, store, estimator=make_pipeline(StandardScaler(), SGDClassifier()))
    for links in ([SGDClassifier()], [MinMaxScaler(), SGDClassifier()]):
        with pytest.raises(CheckpointMismatchError, match=r"estimator\.steps was .*StandardScaler"):
            trainer_of(tmp_path, estimator=make_pipeline(*links)).fit(store)


def forest_of(seed):
    return RandomTreesEmbedding(2, max_depth=2, random_state=seed).fit(np.random.default_rng(0).normal(size=(50, 4)))


def encoder_of(*categories):
    return OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(np.array([categories] * 4, dtype=object).T)


def pca_of(seed):
    return PCA(2).fit(np.random.default_rng(seed).normal(size=(50, 4)))


@pytest.mark.parametrize(
    ("link", "other"),
    [
        pytest.param(pca_of(0), pca_of(1), id="fitted-beforehand"),
        pytest.param(FrozenEstimator(pca_of(0)), FrozenEstimator(pca_of(1)), id="frozen"),
        pytest.param(make_pipeline(pca_of(0)), make_pipeline(pca_of(1)), id="nested"),
        pytest.param(encoder_of("a", "b"), encoder_of("a", "c"), id="objects-in-an-array"),
        pytest.param(forest_of(0), forest_of(1), id="forest"),
        pytest.param(
            FunctionTransformer(partial(np.multiply, 2.0)), FunctionTransformer(partial(np.multiply, 5.0)), id="partial"
        ),
        pytest.param(FunctionTransformer(np.square), FunctionTransformer(np.abs), id="function"),
        pytest.param(
            FunctionTransformer(kw_args={"by": [pca_of(0)]}),
            FunctionTransformer(kw_args={"by": [pca_of(1)]}),
            id="inside",
        ),
        pytest.param(
            FunctionTransformer(kw_args={"by": [PCA(2)]}), FunctionTransformer(kw_args={"by": [PCA(3)]}), id="unfitted"
        ),
    ],
)
def test_what_is_kept_of_a_link_is_part_of_the_definition(link, other):
    def described(link):
        return json.loads(json.dumps(describe_estimator(make_pipeline(link, SGDClassifier()))))

    assert described(link) == described(copy.deepcopy(link)) == described(pickle.loads(pickle.dumps(link)))
    assert described(link) != described(other)


def test_a_link_that_was_fitted_otherwise_is_refused(tmp_path, store):
    def estimator(seed):
        return make_pipeline(pca_of(seed), SGDClassifier())

    begun(tmp_path, store, estimator=estimator(0))
    with pytest.raises(CheckpointMismatchError, match=r"estimator\.pca was '.*PCA \w+' and is '.*PCA \w+'"):
        trainer_of(tmp_path, estimator=estimator(1)).fit(store)
    resumed = trainer_of(tmp_path, estimator=estimator(0)).fit(store).estimator_[-1]
    expected = trainer_of(estimator=estimator(0)).fit(store).estimator_[-1]
    assert resumed.coef_.tobytes() == expected.coef_.tobytes()


def test_what_cannot_be_compared_is_refused():
    link = FunctionTransformer(kw_args={"lock": threading.Lock()})
    with pytest.raises(CheckpointError, match=r"holds a _thread\.lock, which cannot be compared"):
        describe_estimator(make_pipeline(link, SGDClassifier()))


def test_other_data_are_refused(tmp_path, data, store):
    begun(tmp_path / "run", store)
    X, y = data
    other = sf.ingest(X + 1, tmp_path / "other", y=y, chunk_rows=20)
    with pytest.raises(CheckpointMismatchError, match=r"data was '.*' and is"):
        trainer_of(tmp_path / "run").fit(other)


def test_data_in_memory_are_known_again(tmp_path, data):
    X, y = data
    trainer = trainer_of(tmp_path, callbacks=[InterruptAfter(7)])
    with pytest.raises(Interrupted):
        trainer.fit(X, y)
    observer = InterruptAfter()
    trainer_of(tmp_path, callbacks=[observer]).fit(X, y)
    assert observer.began == (1, 1)


def test_what_does_not_define_the_order_may_change(tmp_path, store):
    begun(tmp_path, store)
    stream = sf.StreamOptions(window=4, prefetch=0, verify="never")
    callbacks = [sf.callbacks.History(), sf.callbacks.EarlyStopping(patience=50, restore_best=False)]
    changed = trainer_of(tmp_path, stream=stream, callbacks=callbacks, metrics=["accuracy"])
    changed.fit(store, validation_data=store)
    assert bits(changed)[1] == bits(trainer_of().fit(store))[1]
    assert [entry["epoch"] for entry in changed.history_] == [0, 1, 2]
    assert changed.callbacks_[0].epochs[-1].keys() == {"epoch", "seconds", "val_accuracy"}


def test_the_window_is_the_runs_and_the_limit_is_checked_again(tmp_path, store):
    loose = {"stream": None, "memory_limit": "1GB"}
    begun(tmp_path, store, **loose)
    window = json.loads((tmp_path / "run.json").read_text())["window_chunks"]
    assert window == 12
    # A limit that would give a smaller window to a new fit; here the fixed part alone is above it.
    with pytest.raises(BudgetError):
        trainer_of(tmp_path, stream=None, memory_limit="10MB").fit(store)
    assert trainer_of(tmp_path, **loose).fit(store).plan_.window_chunks == 12


def test_a_drawn_seed_is_the_runs(tmp_path, store):
    begun(tmp_path, store, random_state=None)
    resumed = trainer_of(tmp_path, random_state=None).fit(store)
    assert bits(resumed) == bits(trainer_of(random_state=resumed.seed_).fit(store))
    assert trainer_of(random_state=None).fit(store).seed_ != resumed.seed_


def test_never_starts_anew_and_always_insists(tmp_path, store):
    with pytest.raises(CheckpointError, match="no checkpoint to go on from"):
        trainer_of(tmp_path).fit(store, resume="always")
    begun(tmp_path, store)
    observer = InterruptAfter()
    anew = trainer_of(tmp_path, batch_size=40, callbacks=[observer]).fit(store, resume="never")
    assert observer.began == (0, 0)
    assert bits(anew) == bits(trainer_of(batch_size=40).fit(store))
    observer = InterruptAfter(1)
    trainer_of(tmp_path, batch_size=40, callbacks=[observer]).fit(store, resume="always")
    with pytest.raises(InvalidParameterError, match="needs checkpoint"):
        trainer_of().fit(store, resume="always")


def test_a_run_that_died_before_its_first_checkpoint_binds_nobody(tmp_path, store):
    with RunFolder(tmp_path) as folder:
        folder.begin({"batch_size": 1})
    assert trainer_of(tmp_path).fit(store).n_steps_ == 5


@pytest.mark.parametrize("resume", ["auto", "always"])
def test_checkpoints_without_a_definition_are_kept_and_refused(tmp_path, store, resume):
    begun(tmp_path, store)
    (tmp_path / "run.json").unlink()
    files = sorted(tmp_path.glob("checkpoint-*"))
    with pytest.raises(CheckpointError, match=r"no run\.json that says of which fit"):
        trainer_of(tmp_path).fit(store, resume=resume)
    assert sorted(tmp_path.glob("checkpoint-*")) == files != []
    assert bits(trainer_of(tmp_path).fit(store, resume="never")) == bits(trainer_of().fit(store))


def test_two_checkpoints_are_kept_and_a_damaged_one_gives_way(tmp_path, store, caplog):
    begun(tmp_path, store)
    files = sorted(tmp_path.glob("checkpoint-*"))
    assert [file.name for file in files] == [
        "checkpoint-000001-00000000.zip",
        "checkpoint-000001-00000001.zip",
    ]
    content = bytearray(files[-1].read_bytes())
    content[len(content) // 2] ^= 1
    files[-1].write_bytes(content)
    observer = InterruptAfter()
    resumed = trainer_of(tmp_path, callbacks=[observer]).fit(store)
    assert observer.began == (1, 0)
    assert "the checkpoint before it is used" in caplog.text
    assert bits(resumed) == bits(trainer_of().fit(store))


@pytest.mark.parametrize("damage", [b"", b"PK", b"not a zip file at all"])
def test_when_all_are_damaged(tmp_path, store, damage):
    begun(tmp_path, store)
    for file in tmp_path.glob("checkpoint-*"):
        file.write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"No checkpoint in .* can be read"):
        trainer_of(tmp_path).fit(store)
    trainer_of(tmp_path).fit(store, resume="never")


def test_one_fit_at_a_time(tmp_path, store):
    with RunFolder(tmp_path), pytest.raises(CheckpointError, match="Another fit writes"):
        trainer_of(tmp_path).fit(store)
    trainer_of(tmp_path).fit(store)


def test_a_folder_that_is_a_file(tmp_path, store):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be used for checkpoints"):
        trainer_of(tmp_path / "file").fit(store)
    with pytest.raises(InvalidParameterError, match="local or mounted folder"):
        trainer_of("s3://bucket/run").fit(store)


def test_a_full_disk_stops_the_fit_and_keeps_the_last_checkpoint(tmp_path, store, monkeypatch):
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 15:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        trainer_of(tmp_path).fit(store)
    monkeypatch.undo()
    observer = InterruptAfter()
    resumed = trainer_of(tmp_path, callbacks=[observer]).fit(store)
    assert observer.began == (1, 1)
    assert bits(resumed) == bits(trainer_of().fit(store))


def test_other_versions_are_refused_unless_they_are_accepted(tmp_path, store):
    begun(tmp_path, store)
    for file in tmp_path.glob("checkpoint-*"):
        checkpoint = Checkpoint.from_bytes(file.read_bytes())
        file.write_bytes(replace(checkpoint, versions=checkpoint.versions | {"numpy": "1.0"}).to_bytes())
    with pytest.raises(CheckpointMismatchError, match=rf"numpy was 1\.0 and is {re.escape(np.__version__)}.*'accept'"):
        trainer_of(tmp_path).fit(store)
    trainer = trainer_of(tmp_path)
    trainer.checkpoint = sf.CheckpointOptions(tmp_path, other_versions="accept")
    assert bits(trainer.fit(store)) == bits(trainer_of().fit(store))


def test_checkpoint_round_trip():
    checkpoint = Checkpoint(
        position=Position(2, 3),
        model=b"\x00model",
        kept=b"",
        history=[{"epoch": 0, "val_roc_auc": float("nan"), "val_accuracy": 0.1 + 0.2}],
        controls={"EarlyStopping-0": {"best": None}},
    )
    again = Checkpoint.from_bytes(checkpoint.to_bytes())
    assert str(again) == str(checkpoint)
    assert again.history[0]["val_accuracy"] == 0.1 + 0.2
    assert Position(1, 9) < Position(2, 0) < Position(2, 1)


# -- codecs ------------------------------------------------------------------------------------------


class Own(BaseEstimator):
    def partial_fit(self, X):
        self.n_rows_ = getattr(self, "n_rows_", 0) + len(X)
        return self


def test_an_unsupported_estimator_is_found_out_at_the_first_step(tmp_path, store):
    observer = InterruptAfter()
    trainer = sf.StreamTrainer(Birch(), batch_size=50, checkpoint=tmp_path, callbacks=[observer])
    with pytest.raises(CheckpointError, match=r"Birch cannot be written without pickling .* MiniBatchKMeans"):
        trainer.fit(store)
    assert observer.done == [(0, 1)]
    sf.StreamTrainer(Birch(threshold=0.1), batch_size=50).fit(store)


def test_an_own_type_is_read_only_where_it_is_trusted(tmp_path, store):
    name = f"{__name__}.Own"
    with pytest.raises(CheckpointError, match=f"{name}.*trust="):
        sf.StreamTrainer(Own(), batch_size=50, checkpoint=tmp_path).fit(store)
    options = sf.CheckpointOptions(tmp_path, trust=(name,))
    assert sf.StreamTrainer(Own(), batch_size=50, checkpoint=options).fit(store).estimator_.n_rows_ == N_ROWS
    with pytest.raises(CheckpointError, match="not read back without being trusted"):
        sf.StreamTrainer(Own(), batch_size=50, checkpoint=tmp_path).fit(store)


def test_a_pickle_is_not_read():
    class Evil:
        def __reduce__(self):
            return print, ("run",)

    with pytest.raises(CheckpointError):
        decode_estimator(pickle.dumps(Evil()), trust=(), like=None)


def test_codec_round_trip_of_a_fitted_network():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = MLPClassifier((4,), random_state=0).partial_fit(X, np.arange(40) % 2, classes=[0, 1])
    again = decode_estimator(encode_estimator(model, trust=(), complete=False), trust=(), like=model)
    for network in (model, again):
        network.partial_fit(X, np.arange(40) % 2)
    assert [a.tobytes() for a in model.coefs_] == [a.tobytes() for a in again.coefs_]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"path": "run", "every_steps": every}, "every_steps must be") for every in (0, -1, 1.5, "x", True)),
        *(({"path": path}, "checkpoint must be the path of a folder") for path in (3, "", None, True, b"run")),
        *(({"path": "run", "trust": trust}, "trust must be") for trust in ("a.B", [3], None)),
    ],
)
def test_options_are_checked(store, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        sf.CheckpointOptions(**options)


@pytest.mark.parametrize("path", [3, "", True])
def test_a_checkpoint_that_is_no_folder(store, path):
    with pytest.raises(InvalidParameterError, match="checkpoint must be the path of a folder"):
        trainer_of(checkpoint=path).fit(store)


@pytest.mark.parametrize("content", ["{}", "[]", "null", "3", '"text"', "[1]", '{"seed": "a"}', "{", "\xff"])
def test_a_damaged_definition(tmp_path, store, content):
    begun(tmp_path, store, 3)
    (tmp_path / "run.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"is damaged\. Use another folder"):
        trainer_of(tmp_path).fit(store)
    trainer_of(tmp_path, epochs=1).fit(store, resume="never")


def test_the_fits_of_a_grid_search_need_a_folder_each(tmp_path, data):
    search = GridSearchCV(trainer_of(epochs=1, checkpoint=tmp_path), {"epochs": [1]}, cv=2, error_score="raise")
    with pytest.raises(CheckpointMismatchError, match="each fit, such as those of a grid search, needs one of its own"):
        search.fit(*data)
    assert search.set_params(estimator__checkpoint=None).fit(*data).best_score_ > 0.5


def test_observers_hear_of_an_epoch_after_it_was_written(tmp_path, store):
    class Raises:
        def notify(self, event):
            if isinstance(event, EpochEnded):
                raise Interrupted

    with pytest.raises(Interrupted):
        trainer_of(checkpoint=tmp_path, callbacks=[Raises()]).fit(store)
    observer = InterruptAfter()
    trainer_of(checkpoint=tmp_path, callbacks=[observer]).fit(store)
    assert observer.began == (1, 0)
