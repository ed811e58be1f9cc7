"""Saved models come back as they were, go on to the same bits, and no file runs code."""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io
import xxhash
from estimator_kinds import differing, kinds
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from pyod.models.lmdd import LMDD
from pyod.models.lof import LOF
from pyod.models.pca import PCA
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import IncrementalPCA
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import streamfit as sf
from streamfit.detectors import saved
from streamfit.errors import (
    CheckpointError,
    InvalidParameterError,
    ModelNotFoundError,
    OtherVersionsWarning,
    ScoresNotSavedError,
    UnsupportedError,
    UntrustedTypesError,
    UnwritableError,
)
from streamfit.run.codecs import decode_estimator, encode_estimator
from streamfit.run.sealed import sealed_archive

pytestmark = pytest.mark.filterwarnings("ignore:Class PassiveAggressive.*:FutureWarning")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    KINDS = kinds()


def there_and_back(model, folder, *, trust=()):
    sf.save(model, folder / "model", trust=trust)
    return sf.load(folder / "model", trust=trust)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS])
def test_each_estimator_goes_on_to_the_same_bits(tmp_path, kind):
    trainer = sf.StreamTrainer(kind.estimator, batch_size=30).fit(kind.X, kind.y)
    if kind.name == "Birch":
        with pytest.raises(UnwritableError, match="Birch cannot be written without pickling"):
            sf.save(trainer.estimator_, tmp_path / "model")
        assert list(tmp_path.iterdir()) == []
        return
    loaded = there_and_back(trainer, tmp_path)
    alone = there_and_back(trainer.estimator_, tmp_path)
    assert differing(loaded.estimator_, trainer.estimator_) == []
    assert differing(alone, trainer.estimator_) == []
    for one in (trainer, loaded):
        one.partial_fit(kind.X, kind.y)
    assert differing(loaded.estimator_, trainer.estimator_) == []
    assert loaded.n_epochs_ == 2


# -- trainers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(3).normal(size=(300, 4))
    return X, np.where(X[:, 0] > 0, "high", "low")


@pytest.fixture(scope="module")
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
    loaded = there_and_back(trainer, tmp_path)
    known = (
        "history_",
        "seed_",
        "n_epochs_",
        "n_steps_",
        "stopped_by_",
        "n_features_in_",
        "transformer_methods_",
        "plan_",
    )
    for name in known:
        assert getattr(loaded, name) == getattr(trainer, name), name
    assert loaded.plan_.fingerprint == trainer.plan_.fingerprint
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


def test_plans_of_sparse_rows_views_and_samples(tmp_path, data):
    from scipy.sparse import csr_array

    sparse = sf.StreamTrainer(SGDClassifier(), batch_size=64).fit(csr_array(data[0]), data[1])
    assert there_and_back(sparse, tmp_path).plan_ == sparse.plan_
    store = sf.ingest(data[0], tmp_path / "store", y=data[1], chunk_rows=32)
    view = store[np.random.default_rng(0).random(300) < 0.6]
    of_view = sf.StreamTrainer(SGDClassifier(), batch_size=64).fit(view)
    assert of_view.plan_.layout.starts is not None
    assert there_and_back(of_view, tmp_path).plan_ == of_view.plan_
    sampled = sf.StreamTrainer(SGDClassifier(), batch_size=64, stream=sf.StreamOptions(sampling="balanced")).fit(store)
    loaded = there_and_back(sampled, tmp_path)
    assert not hasattr(loaded, "plan_")
    assert loaded.n_steps_ == sampled.n_steps_


def test_names_of_columns_come_back(tmp_path, data):
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=64).fit(frame, data[1])
    loaded = there_and_back(trainer, tmp_path)
    np.testing.assert_array_equal(loaded.predict(frame[list("dcba")]), trainer.predict(frame))


def test_an_unfitted_trainer_is_its_parameters(tmp_path, data):
    loaded = there_and_back(sf.StreamTrainer(IncrementalPCA(2), batch_size=7), tmp_path)
    assert (loaded.batch_size, loaded.estimator.n_components) == (7, 2)
    assert not hasattr(loaded, "estimator_")
    loaded.fit(data[0])


def test_parameters_that_are_functions_are_refused(tmp_path, data):
    scorer = make_scorer(lambda true, predicted: float((true == predicted).mean()))
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=64, metrics={"own": scorer}).fit(*data)
    with pytest.raises(UnwritableError, match=r"save trainer\.estimator_"):
        sf.save(trainer, tmp_path / "model")


def test_classes_that_are_flags_keep_their_weights(tmp_path, data):
    # As keys of a dict in text, True and False would become one.
    X, y = data[0], data[0][:, 0] > 0.5
    trainer = sf.StreamTrainer(SGDClassifier(class_weight="balanced"), batch_size=64).fit(X, y)
    loaded = there_and_back(trainer, tmp_path)
    for one in (trainer, loaded):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(loaded.estimator_.coef_, trainer.estimator_.coef_)
    weights = dict(zip([False, True], [300 / 2 / (~y).sum(), 300 / 2 / y.sum()], strict=True))
    plain = SGDClassifier(class_weight=weights, random_state=trainer.estimator_.random_state)
    for epoch in range(2):
        for batch in replace(trainer.plan_, epoch=epoch):
            plain.partial_fit(X[batch.rows], y[batch.rows], classes=[False, True])
    np.testing.assert_array_equal(loaded.estimator_.coef_, plain.coef_)


@pytest.mark.parametrize("weights", [{False: 1, True: 2}, {None: 1}, {1: 2, "1": 3}], ids=repr)
def test_keys_that_a_file_would_change_are_refused(tmp_path, weights):
    with pytest.raises(UnwritableError, match="cannot be written without pickling"):
        sf.save(SGDClassifier(class_weight=weights), tmp_path / "model")


# -- detectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KNN, IForest, ECOD, LOF, PCA])
def test_pyod_detectors(tmp_path, data, kind):
    detector = kind(contamination=0.05).fit(data[0])
    loaded = there_and_back(detector, tmp_path)
    np.testing.assert_array_equal(loaded.decision_function(data[0]), detector.decision_function(data[0]))
    np.testing.assert_array_equal(loaded.predict(data[0]), detector.predict(data[0]))
    np.testing.assert_array_equal(loaded.decision_scores_, detector.decision_scores_)


OTHERS = "ABOD CD COF COPOD GMM INNE KDE KPCA LOCI LODA MCD OCSVM QMCD ROD Sampling SOD SOS"


@pytest.mark.slow  # imports and compilation
@pytest.mark.parametrize("name", OTHERS.split())
@pytest.mark.filterwarnings("ignore")  # of PyOD, about such rows
def test_other_pyod_detectors(tmp_path, data, name):
    kind = getattr(importlib.import_module(f"pyod.models.{name.lower()}"), name)
    detector = kind().fit(data[0].copy())
    expected = detector.decision_function(data[0][:20].copy())
    np.testing.assert_array_equal(there_and_back(detector, tmp_path).decision_function(data[0][:20].copy()), expected)


def test_detectors_that_hold_generators_are_refused(tmp_path, data):
    with pytest.raises(UnwritableError, match="LMDD cannot be written without pickling"):
        sf.save(LMDD().fit(data[0][:50]), tmp_path / "model")


def same_detector(loaded, detector, X):
    np.testing.assert_array_equal(loaded.decision_function(X), detector.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), detector.predict(X))
    for method in ("linear", "unify"):
        np.testing.assert_array_equal(loaded.predict_proba(X, method), detector.predict_proba(X, method))
    np.testing.assert_array_equal(loaded.decision_scores_, np.asarray(detector.decision_scores_))
    np.testing.assert_array_equal(loaded.labels_, np.asarray(detector.labels_))
    assert loaded.labels_.dtype == np.int64
    for name in ("threshold_", "method_", "n_features_in_", "transformer_methods_"):
        assert getattr(loaded, name) == getattr(detector, name), name


@pytest.fixture(scope="module")
def outlying(data, tmp_path_factory):
    return sf.ingest(data[0], tmp_path_factory.mktemp("outlying") / "store", chunk_rows=100)


@pytest.mark.parametrize(
    "model", [IForest(20, contamination=0.05, random_state=0), PCA(contamination=0.05)], ids=["IForest", "PCA"]
)
def test_a_detector_over_a_store(tmp_path, data, outlying, model):
    detector = sf.StreamDetector(model, memory_limit="300MB", scratch=tmp_path / "scratch")
    detector.fit(outlying)
    loaded = there_and_back(detector, tmp_path)
    same_detector(loaded, detector, data[0][:50])
    np.testing.assert_array_equal(loaded.decision_function(outlying).compute(), detector.decision_function(data[0]))
    np.testing.assert_array_equal(loaded.detector_.predict_proba(data[0]), detector.detector_.predict_proba(data[0]))
    assert (loaded.memory_limit, loaded.scratch) == ("300MB", None)
    # What was loaded can be saved, copied, pickled, and fitted again.
    same_detector(there_and_back(pickle.loads(pickle.dumps(loaded)), tmp_path), detector, data[0][:50])
    refitted = clone(loaded).fit(data[0])
    np.testing.assert_array_equal(refitted.decision_scores_, loaded.decision_scores_)


@pytest.mark.slow  # HBOS is compiled
@pytest.mark.parametrize("n_bins", [10, "auto"])
def test_an_exact_detector_over_a_store(tmp_path, data, outlying, n_bins):
    detector = sf.StreamDetector(HBOS(n_bins, contamination=0.05), method=sf.Exact(max_hours=2)).fit(outlying)
    loaded = there_and_back(detector, tmp_path)
    same_detector(loaded, detector, data[0])
    assert loaded.method == sf.Exact(max_hours=2)
    # PyOD's own object alone, whose training scores were lazy; the one that was saved is as it was.
    alone = there_and_back(detector.detector_, tmp_path)
    np.testing.assert_array_equal(alone.predict(data[0]), detector.labels_.compute())
    assert hasattr(detector.detector_.decision_scores_, "compute")


def test_a_detector_behind_transformers(tmp_path, data):
    frame = pd.DataFrame(data[0] * [1, 10, 100, 1000], columns=list("abcd"))
    steps = make_pipeline(StandardScaler(), IncrementalPCA(3), PCA(contamination=0.1))
    detector = sf.StreamDetector(steps).fit(frame)
    loaded = there_and_back(detector, tmp_path)
    same_detector(loaded, detector, frame[list("bdca")])
    assert [name for name, _ in loaded.transformers_] == ["standardscaler", "incrementalpca"]
    np.testing.assert_array_equal(
        loaded.detector_.decision_function(frame.to_numpy()), detector.detector_.decision_function(frame.to_numpy())
    )


def test_a_detector_behind_fitted_transformers_of_other_columns(tmp_path, data):
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    scaler = StandardScaler().fit(frame)
    detector = sf.StreamDetector(make_pipeline(FunctionTransformer(), scaler, PCA())).fit(frame[list("dcba")])
    same_detector(there_and_back(detector, tmp_path), detector, frame)


def test_an_unfitted_detector_is_its_parameters(tmp_path, data):
    loaded = there_and_back(sf.StreamDetector(PCA(), method=sf.BatchWise(batch_size=50)), tmp_path)
    assert loaded.method == sf.BatchWise(batch_size=50)
    assert not hasattr(loaded, "threshold_")


def test_training_scores_of_many_rows_are_left_out_and_said_to_be(tmp_path, data, monkeypatch):
    detector = sf.StreamDetector(PCA(contamination=0.05)).fit(data[0])
    monkeypatch.setattr(saved, "SAVED_SCORES_NBYTES", 299 * 8)
    loaded = there_and_back(detector, tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(data[0]), detector.predict_proba(data[0]))
    np.testing.assert_array_equal(loaded.detector_.predict(data[0]), detector.detector_.predict(data[0]))
    for ask in (
        lambda: loaded.decision_scores_,
        lambda: loaded.labels_,
        lambda: np.asarray(loaded.detector_.decision_scores_),
        lambda: loaded.detector_.decision_scores_.shape,
        lambda: loaded.detector_.labels_[0],
        lambda: len(loaded.detector_.labels_),
    ):
        with pytest.raises(ScoresNotSavedError, match="training scores of 300 rows are no part of the saved detector"):
            ask()
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = loaded.other
    again = there_and_back(pickle.loads(pickle.dumps(loaded)), tmp_path)
    assert not hasattr(again, "decision_scores_")
    np.testing.assert_array_equal(again.predict(data[0]), detector.predict(data[0]))
    assert again.fit(data[0]).decision_scores_.shape == (300,)


@pytest.mark.filterwarnings("ignore::streamfit.errors.ApproximationWarning")
@pytest.mark.parametrize(
    ("method", "says"), [(sf.Exact(), "its training rows"), (sf.BatchWise(batch_size=100), "an ensemble")]
)
def test_detectors_that_are_more_than_an_object_are_refused(tmp_path, data, method, says):
    detector = sf.StreamDetector(KNN(), method=method, scratch=tmp_path / "scratch").fit(data[0])
    with pytest.raises(UnsupportedError, match=rf"KNN fitted by method .* scores new rows by {says}.*scratch=folder"):
        sf.save(detector, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_a_callback_wrote_is_read(tmp_path, data):
    callback = sf.callbacks.ModelCheckpoint(tmp_path / "models")
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=64, callbacks=[callback]).fit(*data)
    (path,) = trainer.callbacks_[0].paths_
    np.testing.assert_array_equal(sf.load(path).coef_, trainer.estimator_.coef_)
    # And by skops alone.
    np.testing.assert_array_equal(skops.io.load(path).coef_, trainer.estimator_.coef_)


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
    with pytest.raises(UntrustedTypesError, match=r"pass trust=\('test_persist\.Own',\): to sf\.save and sf\.load"):
        sf.save(own, tmp_path / "own")
    sf.save(own, tmp_path / "own", trust=["test_persist"])
    Own.made = 0
    with pytest.raises(UntrustedTypesError, match=r"holds types .* by name: test_persist\.Own") as caught:
        sf.load(tmp_path / "own")
    assert caught.value.types == ("test_persist.Own",)
    assert Own.made == 0
    assert sf.load(tmp_path / "own", trust=["test_persist.Own"]).value == 3
    for trust in ("test_persist", [3], [""]):
        with pytest.raises(InvalidParameterError, match="trust must be a sequence"):
            sf.load(tmp_path / "own", trust=trust)


def test_a_pickle_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "bomb"))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="is no file that sf"):
        sf.load(tmp_path / "pickle")
    # Also where the rest of the file is as it should be.
    content = about("model", {"schema.json": pickle.dumps(Bomb())})
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        sf.load(tmp_path / "model")
    array = np.empty(1, dtype=object)
    array[0] = Bomb()
    for kind, name in (("detector", "scores.npy"), ("model", "array.npy")):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=True)
        facts = {"parameters": {}, "method": "auto", "stream": None, "fitted": {"threshold": 0.0, "n_rows": 1}}
        node = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy"}
        schema = json.dumps(node | {"file": name, "protocol": 2, "_skops_version": "0.16.0"})
        parts = {name: buffer.getvalue(), "schema.json": schema}
        parts["estimator.skops"] = encode_estimator(PCA(), trust=(), complete=True)
        (tmp_path / "model").write_bytes(about(kind, parts, facts=facts))
        with pytest.raises(CheckpointError, match=r"allow_pickle|Object arrays"):
            sf.load(tmp_path / "model")
    assert not (tmp_path / "bomb").exists()


def about(kind, parts, *, facts=None, **more):
    told = {"format": 1, "kind": kind, "versions": {}, "facts": facts or {}} | more
    return sealed_archive({"streamfit.json": json.dumps(told), **parts})


def calling(module, name, *arguments):
    """Give a file that asks for something to be called while it is read, as skops writes types with a constructor."""
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(arguments))) as archive:
        content = json.loads(archive.read("schema.json"))
    known = {key: content.pop(key) for key in ("protocol", "_skops_version")}
    node = {"__class__": name, "__module__": module, "__loader__": "ConstructorFromReduceNode", "content": content}
    return {"schema.json": json.dumps(node | known)}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("posix", "rmdir"),
        ("shutil", "rmtree"),
        ("sklearn.datasets", "clear_data_home"),
        ("sklearn.datasets._base", "clear_data_home"),
        ("sklearn.datasets._base", "rmtree"),
        ("sklearn.datasets._base", "makedirs"),
        ("pyod.models.base", "clone"),
        ("streamfit.store.atomic", "remove_file"),
        ("numpy", "memmap"),
        ("builtins", "open"),
    ],
)
def test_nothing_is_called_that_a_file_names(tmp_path, module, name):
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "model").write_bytes(about("model", calling(module, name, str(victim))))
    with pytest.raises(UntrustedTypesError, match="not read back without being trusted"):
        sf.load(tmp_path / "model")
    with pytest.raises(UntrustedTypesError):
        decode_estimator((tmp_path / "model").read_bytes(), trust=(), like=None)
    assert victim.exists()


def test_functions_that_choose_columns_are_known(tmp_path, data):
    chosen = SelectKBest(k=2).fit(*data)
    np.testing.assert_array_equal(there_and_back(chosen, tmp_path).scores_, chosen.scores_)
    with pytest.raises(UntrustedTypesError, match=r"posix\.mkdir"):
        sf.save(FunctionTransformer(os.mkdir), tmp_path / "model")


# -- files -------------------------------------------------------------------------------------------


def test_any_byte_that_is_changed_is_found(tmp_path):
    file = tmp_path / "model"
    sf.save(GaussianNB().fit([[0.0], [1.0]], [0, 1]), file)
    content = file.read_bytes()
    for place in range(0, len(content), 23):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="is damaged"):
            sf.load(file)


@pytest.mark.parametrize("what", ["trainer", "estimator"])
def test_cut_files_are_found(tmp_path, trainer, what):
    file = tmp_path / "model"
    sf.save(trainer if what == "trainer" else trainer.estimator_, file)
    content = file.read_bytes()
    for cut in (b"", content[:-1], content[: len(content) // 2], b"not a model", content[1:], content + b"0"):
        file.write_bytes(cut)
        with pytest.raises(CheckpointError, match="is damaged, or is no file that"):
            sf.load(file)


def test_files_of_others_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(CheckpointError, match=r"is no file that sf\.save wrote"):
        sf.load(tmp_path / "other.zip")
    skops.io.dump(GaussianNB(), tmp_path / "skops")
    with pytest.raises(CheckpointError, match=r"Read it by skops\.io\.load"):
        sf.load(tmp_path / "skops")
    (tmp_path / "sealed").write_bytes(sealed_archive({"readme.txt": "hello"}))
    with pytest.raises(CheckpointError, match=r"is no file that sf\.save wrote"):
        sf.load(tmp_path / "sealed")
    (tmp_path / "kind").write_bytes(about("forest", {}))
    with pytest.raises(CheckpointError, match="holds a 'forest'"):
        sf.load(tmp_path / "kind")
    (tmp_path / "empty").write_bytes(about("trainer", {}))
    with pytest.raises(CheckpointError, match=r"is not made as sf\.save makes it: KeyError"):
        sf.load(tmp_path / "empty")
    for path in (tmp_path / "none", tmp_path / "kind" / "below"):
        with pytest.raises(ModelNotFoundError, match="There is no file"):
            sf.load(path)
    with pytest.raises(InvalidParameterError, match="is a folder"):
        sf.load(tmp_path)
    for path in ("s3://bucket/model", "", 3):
        with pytest.raises(InvalidParameterError, match="path must be the path of a local file"):
            sf.load(path)


def changed(file, **changes):
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    told = json.loads(parts.pop("streamfit.json")) | changes
    file.write_bytes(sealed_archive({"streamfit.json": json.dumps(told), **parts}))


@pytest.mark.parametrize("what", ["trainer", "estimator"])
def test_other_versions_are_warned_of_once(tmp_path, data, trainer, what, monkeypatch):
    file = tmp_path / "model"
    import sklearn.base

    monkeypatch.setattr(sklearn.base, "__version__", "1.0")  # what scikit-learn itself would warn of, for each part
    sf.save(trainer if what == "trainer" else trainer.estimator_, file)
    monkeypatch.undo()
    versions = {"streamfit": sf.__version__, "scikit-learn": "1.0", "numpy": np.__version__, "pyod": "9"}
    changed(file, versions=versions)
    with pytest.warns(OtherVersionsWarning) as caught:
        loaded = sf.load(file)
    (warning,) = caught
    assert f"written with scikit-learn 1.0, and here is {sklearn.__version__}; pyod 9, and here is" in str(
        warning.message
    )
    assert warning.filename == __file__
    np.testing.assert_array_equal(loaded.predict(data[0]), trainer.predict(data[0]))
    changed(file, versions={"torch": "2"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OtherVersionsWarning)
        sf.load(file)
    changed(file, format=2)
    with pytest.raises(CheckpointError, match=r"has format 2; this streamfit reads format 1\. Use a later one"):
        sf.load(file)


def test_packages_of_a_model_are_among_its_versions(tmp_path, data):
    sf.save(PCA().fit(data[0]), tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        told = json.loads(archive.read("streamfit.json"))
    assert set(told["versions"]) == {"streamfit", "numpy", "scikit-learn", "pyod"}
    assert (told["format"], told["kind"]) == (1, "model")
    content = (tmp_path / "model").read_bytes()
    assert content.endswith(xxhash.xxh3_64_hexdigest(content[:-16]).encode())


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
