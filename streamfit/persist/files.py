"""Fitted models as files: ``sf.save`` and ``sf.load``. Reading a file never runs code that it brings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from streamfit.detector import StreamDetector
from streamfit.detectors.saved import scores_to_save, with_scores, without_scores
from streamfit.errors import (
    CheckpointError,
    InvalidParameterError,
    ModelNotFoundError,
    StreamfitError,
    UnsupportedError,
)
from streamfit.persist.detectors import detector_bytes, read_detector
from streamfit.persist.trainers import read_trainer, trainer_bytes
from streamfit.run.model_file import model_bytes, read_model_file
from streamfit.store.atomic import write_atomically
from streamfit.trainer import StreamTrainer

if TYPE_CHECKING:
    from collections.abc import Collection
    from os import PathLike

__all__ = ["load", "save"]


def save(model: Any, path: str | PathLike[str], *, trust: Collection[str] = ()) -> None:
    """Write a model to one file, without pickling.

    A fitted estimator or pipeline of scikit-learn, and a PyOD detector, become a file in the format of
    `skops <https://skops.readthedocs.io>`_, which ``skops.io.load`` reads as well; a net of skorch is written with its
    weights, the state of its optimizer, and the classes that make it, which must be importable where it is read. A
    `StreamTrainer` is written with its parameters, its fitted estimator and what it knows of the fit: afterwards it
    predicts, scores and goes on by ``partial_fit``, to the same bits. A `StreamDetector` is written where all that it
    scores new rows with is a PyOD object (`StreamDetector.detector_`), with threshold and method; training scores are
    in the file up to 64 MiB (8,388,608 rows), and beyond that left out: asking for them afterwards is an error that
    says so.

    What belongs to the place of the fit is left out: callbacks, and the paths ``checkpoint``, ``cache`` and
    ``scratch``.

    Parameters
    ----------
    model : estimator, pipeline, PyOD detector, StreamTrainer or StreamDetector
        Fitted or not.
    path : path
        The file, with any suffix. One that is there is replaced as a whole: it has the old content or the new one,
        whatever happens.
    trust : collection of str, default=()
        Full names of types in the model that are neither scikit-learn's nor PyOD's, or of packages that hold them.

    Raises
    ------
    UnwritableError
        The model cannot be written without pickling.
    UnsupportedError
        It is a `StreamDetector` that scores by its training rows or by an ensemble on scratch.
    UntrustedTypesError
        The model holds types that could not be read back without `trust`.
    InvalidParameterError
        It is no model, or the path is no path of a file.
    CheckpointError
        The file cannot be written.

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
    _check_trust(trust)
    if not file.parent.is_dir():
        raise CheckpointError(f"There is no folder {file.parent}. Make it, or use another path.")
    content = _content(model, trust)
    try:
        write_atomically(file, content)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be written: {error}. What was there is as it was.") from error


def load(path: str | PathLike[str], *, trust: Collection[str] = ()) -> Any:
    """Read a model that `save` or the callback `ModelCheckpoint` wrote.

    Only types of NumPy, SciPy, scikit-learn and PyOD are made, and those that `trust` names. What numbers in a file
    make a model compute is not looked at.

    Parameters
    ----------
    path : path
        The file.
    trust : collection of str, default=()
        Full names of further types, or of packages that hold them. Trust what you know: a file may ask for anything
        that has such a name to be called.

    Returns
    -------
    estimator, pipeline, PyOD detector, StreamTrainer or StreamDetector
        As it was saved.

    Raises
    ------
    ModelNotFoundError
        There is no such file.
    UntrustedTypesError
        It holds types that nobody vouches for; the error lists them.
    CheckpointError
        It is damaged, is no file of a model, or has a later format.
    InvalidParameterError
        The path is no path of a file.

    Warns
    -----
    OtherVersionsWarning
        It was written by other versions of scikit-learn, NumPy or another package that it needs.
    """
    file = _as_file(path)
    _check_trust(trust)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelNotFoundError(f"There is no file {file}.") from None
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error}.") from error
    held = read_model_file(content, str(file))
    held.warn_of_versions(str(file), stacklevel=2)
    readers = {"model": lambda held, *, trust: held.decode("model", trust=trust), "trainer": read_trainer}
    reader = (readers | {"detector": read_detector}).get(held.kind)
    if reader is None:
        raise CheckpointError(f"{file} holds a {held.kind!r}, which this streamfit does not know. Use a later one.")
    try:
        return reader(held, trust=trust)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, StreamfitError):
            raise
        raise CheckpointError(f"{file} is not made as sf.save makes it: {error!r}. Save the model again.") from error


def _as_file(path: Any) -> Path:
    if not (isinstance(path, str | os.PathLike) and os.fspath(path)) or "://" in os.fspath(path):
        raise InvalidParameterError(f"path must be the path of a local file, got {path!r}.")
    file = Path(path).expanduser()
    if file.is_dir():
        raise InvalidParameterError(f"{file} is a folder. Name a file, such as {file / 'model.skops'}.")
    return file


def _check_trust(trust: Any) -> None:
    if isinstance(trust, str) or not all(isinstance(name, str) and name for name in trust):
        raise InvalidParameterError(f"trust must be a sequence of full names of types or packages, got {trust!r}.")


def _content(model: Any, trust: Collection[str]) -> bytes:
    if isinstance(model, StreamTrainer):
        return trainer_bytes(model, trust=trust)
    if isinstance(model, StreamDetector):
        return detector_bytes(model, trust=trust)
    is_detector = any(base.__module__ == "pyod.models.base" for base in type(model).__mro__)
    if isinstance(model, type) or not (isinstance(model, BaseEstimator) or is_detector):
        raise InvalidParameterError(
            "model must be an estimator of scikit-learn, a PyOD detector, a StreamTrainer or a StreamDetector, got "
            f"{model!r:.200}."
        )
    return model_bytes(_in_memory(model) if is_detector else model, trust=trust)


def _in_memory(detector: Any) -> Any:
    """Give a PyOD detector whose training scores are arrays; a `StreamDetector` over a store leaves them lazy."""
    scores: Any = getattr(detector, "decision_scores_", None)
    if not hasattr(scores, "dask"):
        return detector
    values = scores_to_save(scores)
    if values is None:
        raise UnsupportedError(
            f"The training scores of {scores.shape[0]:,} rows are too many for the file of a PyOD detector. Save the "
            "StreamDetector itself, which leaves them out."
        )
    return with_scores(without_scores(detector), values, (values > detector.threshold_).astype(int))
