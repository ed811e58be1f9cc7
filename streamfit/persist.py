"""Fitted models as files: ``sf.save`` and ``sf.load``. Reading a file never runs code that it brings."""

from __future__ import annotations

import copy
import io
import json
import logging
import os
import zipfile
from dataclasses import asdict
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from streamfit.detector import StreamDetector
from streamfit.errors import CheckpointError, InvalidParameterError, SourceNotFoundError, UnsupportedError
from streamfit.incremental.transformers import TransformerMethod
from streamfit.options import StreamOptions
from streamfit.run.codecs import decode_model, encode_model, refused_types
from streamfit.store.atomic import write_atomically
from streamfit.trainer import StreamTrainer

if TYPE_CHECKING:
    from collections.abc import Collection
    from os import PathLike

__all__ = ["load", "save"]

logger = logging.getLogger(__name__)

_FORMAT = 1
_END_NBYTES = 22
"""Of the record that a zip file without a comment ends with."""
_ABOUT = "streamfit.json"
_FITTED, _UNFITTED = "fitted.skops", "estimator.skops"
_SHIPPED_TRUST = ("pyod", "sklearn.tree._tree", "sklearn.neighbors", "sklearn.metrics._dist_metrics")
"""Packages and modules whose types may be made besides those that skops trusts by itself: PyOD's, and the trees in
them, which skops leaves to the user since a forged one may be walked beyond its end."""
_FACTS = ("history_", "seed_", "n_epochs_", "n_steps_", "stopped_by_", "n_features_in_")
_LEFT_OUT = ("callbacks", "checkpoint", "cache")
"""Parameters of a trainer that belong to the place where it was fitted."""


def save(model: Any, path: str | PathLike[str], *, trust: Collection[str] = ()) -> None:
    """Write a model to one file, without pickling.

    A fitted estimator or pipeline of scikit-learn, and a PyOD detector, become a file in the format of
    `skops <https://skops.readthedocs.io>`_, which ``skops.io.load`` reads as well. A `StreamTrainer` becomes a file
    that holds its parameters, its fitted estimator and what it knows of the fit; it predicts, scores and goes on by
    ``partial_fit`` afterwards, to the same bits. Its callbacks, checkpoint, cache and `plan_` belong to the place where
    it was fitted and are left out.

    Parameters
    ----------
    model : estimator, pipeline, PyOD detector or StreamTrainer
        Fitted or not.
    path : path
        The file. One that is there is replaced as a whole: it has the old content or the new one, whatever happens.
    trust : collection of str, default=()
        Full names of types in the model that are neither scikit-learn's nor PyOD's, or of packages that hold them.

    Raises
    ------
    UnsupportedError
        The model cannot be written without pickling, or is a `StreamDetector`, whose model may be a whole store.
    InvalidParameterError
        It is no model, or the path is no path of a file.
    CheckpointError
        The model holds a type that could not be read back without `trust`, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.naive_bayes import GaussianNB
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(GaussianNB().fit([[0.0], [1.0]], ["low", "high"]), f"{folder}/model.skops")
    ...     load(f"{folder}/model.skops").predict([[0.9]]).tolist()
    ['high']
    """
    file = _as_file(path)
    if isinstance(model, StreamDetector):
        raise UnsupportedError(
            "A StreamDetector may need its training rows, so it is no file. Save detector.detector_, which is a PyOD "
            "object, where it is not None; or name a folder that stays, StreamDetector(…, scratch=folder), and pickle "
            "it."
        )
    content = _trainer_bytes(model, trust) if isinstance(model, StreamTrainer) else _model_bytes(model, trust)
    if not file.parent.is_dir():
        raise CheckpointError(f"There is no folder {file.parent}. Make it, or use another path.")
    try:
        write_atomically(file, content)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be written: {error}. What was there is as it was.") from error


def load(path: str | PathLike[str], *, trust: Collection[str] = ()) -> Any:
    """Read a model that `save` or the callback `ModelCheckpoint` wrote.

    Only types of NumPy, SciPy, scikit-learn and PyOD are made, and those that `trust` names.

    Parameters
    ----------
    path : path
        The file.
    trust : collection of str, default=()
        Full names of further types, or of packages that hold them. Trust what you know: making a type runs its code.

    Returns
    -------
    estimator, pipeline, PyOD detector or StreamTrainer
        As it was saved. scikit-learn warns where the model is of another version.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    CheckpointError
        It is damaged, is no file of a model, or holds types that nobody vouches for.
    InvalidParameterError
        The path is no path of a file.
    """
    file = _as_file(path)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise SourceNotFoundError(f"There is no file {file}.") from None
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error}.") from error
    # zipfile takes any end that it finds: in a cut file that of a part which is an archive itself.
    if content[-_END_NBYTES:][:4] != b"PK\x05\x06":
        raise CheckpointError(f"{file} is no file of a model, or is damaged: its end is missing. Save the model again.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            damaged = archive.testzip()
            names = archive.namelist()
            parts = {name: archive.read(name) for name in (_ABOUT, _FITTED, _UNFITTED) if name in names}
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
        raise CheckpointError(f"{file} is no file of a model, or is damaged: {error}. Save the model again.") from error
    if damaged is not None:
        raise CheckpointError(f"{file} is damaged in its part {damaged}. Save the model again.")
    if _ABOUT in names:
        return _read_trainer(parts, file, trust)
    if "schema.json" not in names:
        raise CheckpointError(f"{file} holds no model: it was written by something else than streamfit or skops.")
    return _read_model(content, file, trust)


def _as_file(path: Any) -> Path:
    if not (isinstance(path, str | os.PathLike) and os.fspath(path)) or "://" in os.fspath(path):
        raise InvalidParameterError(f"path must be the path of a local file, got {path!r}.")
    file = Path(path)
    if file.is_dir():
        raise InvalidParameterError(f"{file} is a folder. Name a file, such as {file / 'model.skops'}.")
    return file


# -- models ------------------------------------------------------------------------------------------


def _trusted(trust: Collection[str]) -> tuple[str, ...]:
    if isinstance(trust, str) or not all(isinstance(name, str) for name in trust):
        raise InvalidParameterError(f"trust must be a sequence of full names of types or packages, got {trust!r}.")
    return (*_SHIPPED_TRUST, *trust)


def _model_bytes(model: Any, trust: Collection[str]) -> bytes:
    name = type(model).__name__
    is_detector = any(base.__module__.startswith("pyod.") for base in type(model).__mro__)
    if isinstance(model, type) or not (isinstance(model, BaseEstimator) or is_detector):
        raise InvalidParameterError(
            f"model must be an estimator of scikit-learn, a PyOD detector or a StreamTrainer, got {model!r:.200}."
        )
    if is_detector:
        model = _with_scores_in_memory(model)
    try:
        data = encode_model(model)
    except Exception as error:
        # skops lets through whatever the parts of a model raise.
        raise UnsupportedError(
            f"{name} cannot be written without pickling ({error}). Save another estimator, or pickle it for machines "
            "and versions that you know."
        ) from error
    refused = refused_types(data, trust=_trusted(trust))
    if refused:
        raise CheckpointError(
            f"{name} holds types that are not read back without being trusted by name: {', '.join(refused)}. If you "
            f"know them, pass trust={refused!r} to save and load."
        )
    return data


def _with_scores_in_memory(detector: Any) -> Any:
    """Give a copy whose training scores are arrays; a `StreamDetector` leaves them lazy."""
    detector = copy.copy(detector)
    for name in ("decision_scores_", "labels_"):
        values: Any = getattr(detector, name, None)
        if hasattr(values, "compute"):
            setattr(detector, name, values.compute())
    return detector


def _read_model(data: bytes, file: Path, trust: Collection[str]) -> Any:
    try:
        refused = refused_types(data, trust=_trusted(trust))
        if not refused:
            return decode_model(data)
    except InvalidParameterError:
        raise
    except Exception as error:
        # skops lets through whatever a damaged file leads to.
        raise CheckpointError(f"The model in {file} cannot be read: {error}. Save it again.") from error
    raise CheckpointError(
        f"{file} holds types that are not made without being trusted by name: {', '.join(refused)}. If you know them "
        f"and where the file comes from, pass trust={refused!r}."
    )


# -- trainers ----------------------------------------------------------------------------------------


def _trainer_bytes(trainer: StreamTrainer, trust: Collection[str]) -> bytes:
    parameters = {
        name: value
        for name, value in trainer.get_params(deep=False).items()
        if name not in _LEFT_OUT and name != "estimator"
    }
    stream = parameters.pop("stream")
    fitted = hasattr(trainer, "estimator_")
    seed = parameters["random_state"]
    if seed is not None and not isinstance(seed, Integral):
        # A RandomState: the seed that the fit drew from it.
        parameters["random_state"] = trainer.seed_ if fitted else None
    about: dict[str, Any] = {
        "format": _FORMAT,
        "versions": {name: version(name) for name in ("streamfit", "scikit-learn", "numpy")},
        "parameters": parameters,
        "stream": None if stream is None else asdict(stream),
    }
    if fitted:
        about["facts"] = {name: getattr(trainer, name) for name in _FACTS}
        about["feature_names"] = list(getattr(trainer, "feature_names_in_", ())) or None
        about["transformer_methods"] = [asdict(method) for method in trainer.transformer_methods_]
    try:
        text = json.dumps(about, default=_plain)
    except TypeError as error:
        raise UnsupportedError(
            f"A parameter of the StreamTrainer cannot be written as text: {error}. Name metrics instead of giving "
            "functions, or save trainer.estimator_."
        ) from error
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_ABOUT, text)
        archive.writestr(_UNFITTED, _model_bytes(trainer.estimator, trust))
        if fitted:
            archive.writestr(_FITTED, _model_bytes(trainer.estimator_, trust))
    return content.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no plain value")


def _read_trainer(parts: dict[str, bytes], file: Path, trust: Collection[str]) -> StreamTrainer:
    try:
        about = json.loads(parts[_ABOUT])
        if about["format"] != _FORMAT:
            raise CheckpointError(f"{file} was written by a later version of streamfit. Use that one.")
        stream = None if about["stream"] is None else StreamOptions(**about["stream"])
        trainer = StreamTrainer(_read_model(parts[_UNFITTED], file, trust), stream=stream, **about["parameters"])
        if _FITTED not in parts:
            return trainer
        _warn_of_versions(file, about["versions"])
        trainer.estimator_ = _read_model(parts[_FITTED], file, trust)
        for name, value in about["facts"].items():
            setattr(trainer, name, value)
        if about["feature_names"] is not None:
            trainer.feature_names_in_ = np.asarray(about["feature_names"], dtype=object)
        trainer.transformer_methods_ = tuple(TransformerMethod(**method) for method in about["transformer_methods"])
        trainer.callbacks_ = []
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{file} is damaged: {error!r}. Save the model again.") from error
    if hasattr(trainer.estimator_, "classes_"):
        trainer.classes_ = trainer.estimator_.classes_
    return trainer


def _warn_of_versions(file: Path, versions: dict[str, str]) -> None:
    differences = [
        f"{name} {written}, here is {version(name)}" for name, written in versions.items() if written != version(name)
    ]
    if differences:
        logger.warning("%s was written with %s: it may predict or learn otherwise.", file, "; ".join(differences))
