"""Saved models come back as they were, go on to the same bits, and no file runs code."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import skops.io
from estimator_kinds import differing, kinds
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from pyod.models.lof import LOF
from pyod.models.pca import PCA
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import streamfit as sf
from streamfit.errors import CheckpointError, InvalidParameterError, SourceNotFoundError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore:Class PassiveAggressive.*:FutureWarning")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    KINDS = kinds()


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS])
def test_each_estimator_goes_on_to_the_same_bits(tmp_path, kind):
    trainer = sf.StreamTrainer(kind.estimator, batch_size=30).fit(kind.X, kind.y)
    file = tmp_path / "model.skops"
    if kind.name == "Birch":
        with pytest.raises(UnsupportedError, match="Birch cannot be written without pickling"):
            sf.save(trainer.estimator_, file)
        assert not file.exists()
        return
    sf.save(trainer, file)
    loaded = sf.load(file)
    assert differing(loaded.estimator_, trainer.estimator_) == []
    for one in (trainer, loaded):
        one.partial_fit(kind.X, kind.y)
    assert differing(loaded.estimator_, trainer.estimator_) == []
    assert loaded.n_epochs_ == 2
    sf.save(trainer.estimator_, file)
    alone = sf.load(file)
    assert type(alone) is type(trainer.estimator_)
    assert differing(alone, trainer.estimator_) == []


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(3).normal(size=(300, 4))
    return X, np.where(X[:, 0] > 0, "high", "low")


@pytest.fixture
def trainer(data):
    return sf.StreamTrainer(
        make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss")),
        batch_size=64,
        epochs=2,
        random_state=np.int64(5),
        memory_limit="200MB",
        metrics=["accuracy", "neg_log_loss"],
        stream=sf.StreamOptions(window=2, min_batch=3),
        callbacks=[sf.callbacks.EarlyStopping()],
        cache=True,
    ).fit(*data, validation_data=0.3)


def test_a_trainer_comes_back_with_all_that_it_knows(tmp_path, data, trainer):
    sf.save(trainer, tmp_path / "trainer")
    loaded = sf.load(tmp_path / "trainer")
    assert loaded.history_ == trainer.history_
    for name in ("seed_", "n_epochs_", "n_steps_", "stopped_by_", "n_features_in_", "transformer_methods_"):
        assert getattr(loaded, name) == getattr(trainer, name), name
    np.testing.assert_array_equal(loaded.classes_, trainer.classes_)
    np.testing.assert_array_equal(loaded.predict_proba(data[0]), trainer.predict_proba(data[0]))
    assert loaded.score(*data) == trainer.score(*data)
    # Where it was fitted is not who it is.
    assert (list(loaded.callbacks), loaded.checkpoint, loaded.cache, loaded.callbacks_) == ([], None, None, [])
    for name in ("batch_size", "epochs", "random_state", "memory_limit", "metrics", "stream", "transformers"):
        assert getattr(loaded, name) == getattr(trainer, name), name
    # The user's unfitted estimator is there too: a clone fits anew, to the same bits.
    again, expected = (clone(one).set_params(cache=None, callbacks=()).fit(*data) for one in (loaded, trainer))
    np.testing.assert_array_equal(again.estimator_[-1].coef_, expected.estimator_[-1].coef_)


def test_names_of_columns_come_back(tmp_path, data):
    import pandas as pd

    frame = pd.DataFrame(data[0], columns=list("abcd"))
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=64).fit(frame, data[1])
    sf.save(trainer, tmp_path / "trainer")
    loaded = sf.load(tmp_path / "trainer")
    np.testing.assert_array_equal(loaded.predict(frame[list("dcba")]), trainer.predict(frame))


def test_an_unfitted_trainer_is_its_parameters(tmp_path, data):
    sf.save(sf.StreamTrainer(IncrementalPCA(2), batch_size=7), tmp_path / "trainer")
    loaded = sf.load(tmp_path / "trainer")
    assert (loaded.batch_size, loaded.estimator.n_components) == (7, 2)
    assert not hasattr(loaded, "estimator_")
    loaded.fit(data[0])


@pytest.mark.parametrize("kind", [KNN, IForest, ECOD, LOF, PCA])
def test_pyod_detectors(tmp_path, data, kind):
    detector = kind(contamination=0.05).fit(data[0])
    sf.save(detector, tmp_path / "detector")
    loaded = sf.load(tmp_path / "detector")
    np.testing.assert_array_equal(loaded.decision_function(data[0]), detector.decision_function(data[0]))
    np.testing.assert_array_equal(loaded.predict(data[0]), detector.predict(data[0]))
    np.testing.assert_array_equal(loaded.decision_scores_, detector.decision_scores_)


@pytest.mark.slow  # HBOS is compiled
def test_the_pyod_object_of_a_detector_over_a_store(tmp_path, data):
    store = sf.ingest(data[0], tmp_path / "store", chunk_rows=100)
    detector = sf.StreamDetector(HBOS(contamination=0.05)).fit(store)
    with pytest.raises(UnsupportedError, match=r"Save detector\.detector_"):
        sf.save(detector, tmp_path / "detector")
    sf.save(detector.detector_, tmp_path / "detector")
    loaded = sf.load(tmp_path / "detector")
    np.testing.assert_array_equal(loaded.predict(data[0]), detector.labels_.compute())
    # The one that was saved is as it was.
    assert hasattr(detector.detector_.decision_scores_, "compute")


def test_what_a_callback_wrote_is_read(tmp_path, data):
    callback = sf.callbacks.ModelCheckpoint(tmp_path / "models")
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=64, callbacks=[callback]).fit(*data)
    (path,) = trainer.callbacks_[0].paths_
    np.testing.assert_array_equal(sf.load(path).coef_, trainer.estimator_.coef_)


# -- no code from a file -----------------------------------------------------------------------------


class Own(BaseEstimator):
    """A type that is neither scikit-learn's nor PyOD's."""

    made = 0

    def __setstate__(self, state):
        type(self).made += 1
        self.__dict__.update(state)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def test_types_of_others_are_made_only_where_they_are_trusted(tmp_path):
    own = Own()
    own.value = 3
    with pytest.raises(CheckpointError, match=r"trust=\['test_persist\.Own'\] to save and load"):
        sf.save(own, tmp_path / "own")
    sf.save(own, tmp_path / "own", trust=["test_persist"])
    Own.made = 0
    with pytest.raises(CheckpointError, match=r"holds types .* by name: test_persist\.Own"):
        sf.load(tmp_path / "own")
    assert Own.made == 0
    assert sf.load(tmp_path / "own", trust=["test_persist.Own"]).value == 3
    with pytest.raises(InvalidParameterError, match="trust must be a sequence"):
        sf.load(tmp_path / "own", trust="test_persist")


def test_a_pickle_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "bomb"))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="is no file of a model, or is damaged"):
        sf.load(tmp_path / "pickle")
    # Inside a skops file a function is a type like others.
    data = skops.io.dumps(FunctionTransformer(os.mkdir, kw_args={"mode": 0}))
    (tmp_path / "skops").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"posix\.mkdir|mkdir"):
        sf.load(tmp_path / "skops")
    assert not (tmp_path / "bomb").exists()


# -- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["trainer", "estimator"])
def test_damage_is_found(tmp_path, trainer, what):
    file = tmp_path / "model"
    sf.save(trainer if what == "trainer" else trainer.estimator_, file)
    content = file.read_bytes()
    flipped = [bytearray(content) for _ in range(9)]
    for tenth, copied in enumerate(flipped):
        copied[tenth * len(content) // 10 + 50] ^= 1
    for damaged in (b"", content[:-1], content[: len(content) // 2], b"not a model", content[1:], *flipped):
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"damaged|cannot be read|no file of a model"):
            sf.load(file)


def test_files_of_others_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(CheckpointError, match="holds no model"):
        sf.load(tmp_path / "other.zip")
    with pytest.raises(SourceNotFoundError, match="There is no file"):
        sf.load(tmp_path / "none")
    with pytest.raises(InvalidParameterError, match="is a folder"):
        sf.load(tmp_path)
    for path in ("s3://bucket/model", "", 3):
        with pytest.raises(InvalidParameterError, match="path must be the path of a local file"):
            sf.load(path)


def about_of(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(file, **changes):
    parts = about_of(file)
    about = json.loads(parts["streamfit.json"])
    about.update(changes)
    parts["streamfit.json"] = json.dumps(about).encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    file.write_bytes(content.getvalue())


def test_other_formats_and_versions(tmp_path, trainer, caplog):
    file = tmp_path / "trainer"
    sf.save(trainer, file)
    changed(file, versions={"streamfit": "0.0.1", "scikit-learn": "1.0", "numpy": np.__version__})
    sf.load(file)
    assert "was written with streamfit 0.0.1, here is" in caplog.text
    assert "scikit-learn 1.0, here is" in caplog.text
    assert "numpy" not in caplog.text
    changed(file, format=2)
    with pytest.raises(CheckpointError, match="later version of streamfit"):
        sf.load(file)
    changed(file, format=1, facts={})
    assert sf.load(file).predict(np.zeros((1, 4))).shape == (1,)


def test_a_file_that_is_there_is_replaced_as_a_whole(tmp_path, trainer, monkeypatch):
    file = tmp_path / "model"
    sf.save(trainer.estimator_[-1], file)
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot be written: .*No space left.* What was there is as it was"):
        sf.save(trainer, file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    sf.save(trainer, file)
    assert isinstance(sf.load(file), sf.StreamTrainer)
    with pytest.raises(CheckpointError, match="There is no folder"):
        sf.save(trainer, tmp_path / "none" / "model")


@pytest.mark.parametrize("wrong", [3, SGDClassifier, {"a": 1}, np.zeros(2)])
def test_what_is_no_model_is_refused(tmp_path, wrong):
    with pytest.raises(InvalidParameterError, match="model must be an estimator"):
        sf.save(wrong, tmp_path / "model")


def test_parameters_that_are_functions_are_refused(tmp_path, data):
    scorer = make_scorer(lambda true, predicted: float((true == predicted).mean()))
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=64, metrics={"own": scorer}).fit(*data)
    with pytest.raises(UnsupportedError, match=r"save trainer\.estimator_"):
        sf.save(trainer, tmp_path / "model")
