"""What a trainer is given besides its rows, checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, get_args

from streamfit.callbacks.control import Control, Stepwise
from streamfit.errors import InvalidParameterError
from streamfit.events import Observer
from streamfit.incremental.fit_state import Resume
from streamfit.incremental.scorers import metrics_of
from streamfit.inputs import check_cache
from streamfit.options import Shuffle, StreamOptions, TransformersFitted, check_choice, check_count

__all__ = ["check_callbacks", "check_metric_names", "check_parameters", "validation_pair"]


def check_parameters(trainer: Any, resume: Any) -> None:
    """Refuse parameters of a `StreamTrainer` that are out of their range or clash, whatever the rows.

    Parameters
    ----------
    trainer : StreamTrainer
        With its parameters as they were given.
    resume : str
        As in its ``fit``.

    Raises
    ------
    InvalidParameterError
        The message says which.
    """
    for name in ("batch_size", "epochs"):
        check_count(name, getattr(trainer, name), least=1)
    if not isinstance(trainer.shuffle, bool):
        check_choice("shuffle", trainer.shuffle, get_args(Shuffle))
    check_choice("resume", resume, get_args(Resume))
    check_cache(trainer.cache)
    check_choice("transformers", trainer.transformers, get_args(TransformersFitted))
    if trainer.validate_every_steps is not None:
        check_count("validate_every_steps", trainer.validate_every_steps, least=1)
    if resume == "always" and trainer.checkpoint is None:
        raise InvalidParameterError("resume='always' needs checkpoint, the folder of the run.")
    if trainer.stream is not None and not isinstance(trainer.stream, StreamOptions):
        raise InvalidParameterError(f"stream must be StreamOptions, got {type(trainer.stream).__name__}.")
    check_metric_names(trainer.metrics)
    check_callbacks(trainer.callbacks)


def check_metric_names(metrics: Any) -> None:
    """Refuse what names no metrics, see `metrics_of`; None takes the default ones.

    Raises
    ------
    InvalidParameterError
        It is something else, or a name is unknown.
    """
    if metrics is not None:
        metrics_of(metrics)


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is no sequence of observers and controls.

    Raises
    ------
    InvalidParameterError
        It is something else, or one of them has no method that a fit calls.
    """
    if not _is_list_of(object, callbacks):
        raise InvalidParameterError(f"callbacks must be a sequence, got {callbacks!r}. Put it into a list.")
    for callback in callbacks:
        if isinstance(callback, type):
            raise InvalidParameterError(f"A callback is the class {callback.__name__}. Pass an object: call it.")
        if not isinstance(callback, (Observer, Control)):
            raise InvalidParameterError(
                f"{type(callback).__name__} is no callback: it has neither notify nor judge, state and "
                "restore. See streamfit.callbacks."
            )
        if isinstance(callback, Stepwise) and callback.every_steps is not None:
            check_count(f"every_steps of {type(callback).__name__}", callback.every_steps, least=1)


def validation_pair(validation_data: Any) -> tuple[Any, Any]:
    """Give the rows and the labels of validation data; a store or a path brings its own.

    Raises
    ------
    InvalidParameterError
        It is a list, or a tuple of another length.
    """
    if isinstance(validation_data, list) or (isinstance(validation_data, tuple) and len(validation_data) != 2):
        raise InvalidParameterError(
            f"validation_data must be a store, a path or a tuple (X, y), got a {type(validation_data).__name__} of "
            f"{len(validation_data)}. Metrics take no weights."
        )
    return validation_data if isinstance(validation_data, tuple) else (validation_data, None)


def _is_list_of(kind: type, value: Any) -> bool:
    listed = isinstance(value, Iterable) and isinstance(value, Sized) and not isinstance(value, str | dict)
    return listed and all(isinstance(item, kind) for item in value)
