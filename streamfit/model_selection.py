"""Cross-validation over rows that are larger than memory: folds of whole chunks, or of rows."""

from __future__ import annotations

import copy
import dataclasses
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import KFold

from streamfit.errors import InvalidParameterError, ShuffleWarning
from streamfit.incremental.partial_fit import as_text, links_of
from streamfit.incremental.validation import check_metrics, default_metrics, evaluate, known_classes
from streamfit.inputs import as_store
from streamfit.options import check_count
from streamfit.plan.budget import FIXED_NBYTES, Budget, parse_memory_limit
from streamfit.plan.folds import folds_of_chunks
from streamfit.row_map import matched
from streamfit.run.checkpoint import as_checkpoint_options
from streamfit.run.engine import current_engine
from streamfit.store.scratch import Scratch
from streamfit.trainer import StreamTrainer

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.scorers import Metrics

__all__ = ["ChunkKFold", "cross_validate"]


@dataclass(frozen=True, slots=True)
class ChunkKFold:
    """Part the rows of a store into folds of whole chunks, each of which is tested on once.

    Nothing is copied or read for that: a fold is two views, and a pass over one reads only its own chunks. What stands
    together in a chunk is in one fold, so rows that lie sorted should be shuffled once before
    (``store.shuffle(path)``). To part row by row, give a splitter of scikit-learn to `cross_validate`.

    Examples
    --------
    >>> import tempfile
    >>> import streamfit as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = sf.ingest(np.arange(60.0).reshape(30, 2), f"{folder}/store", chunk_rows=10)
    ...     [(train.n_rows, test.n_rows) for train, test in ChunkKFold(3).split(store)]
    [(20, 10), (20, 10), (20, 10)]
    """

    n_splits: int = 5
    """Folds, at least 2."""
    seed: int = 0
    """Seed of which chunks go together, 0 or more."""

    def __post_init__(self) -> None:
        check_count("n_splits", self.n_splits, least=2)
        check_count("seed", self.seed, least=0)

    def split(self, store: FeatureStore) -> Iterator[tuple[FeatureStore, FeatureStore]]:
        """Give the training rows and the test rows of each fold, as views.

        Which chunks are in which fold follows from the seed and the rows of the chunks alone. The rows of two folds
        differ by those of one chunk at the most.

        Parameters
        ----------
        store : FeatureStore
            The rows; a view is parted by its own chunks.

        Raises
        ------
        InvalidParameterError
            There are fewer chunks than folds.
        """
        layout = store.layout
        if layout.n_chunks < self.n_splits:
            raise InvalidParameterError(
                f"{self.n_splits} folds of whole chunks are asked for, and the number of chunks is {layout.n_chunks}. "
                "Ask for fewer folds, write the store with a smaller chunk_rows, or part row by row: "
                "cv=sklearn.model_selection.KFold(5)."
            )
        folds = folds_of_chunks(layout.chunk_sizes, n_folds=self.n_splits, seed=self.seed)
        tested = (folds == fold for fold in range(self.n_splits))
        return ((store.select_chunks(~chunks), store.select_chunks(chunks)) for chunks in tested)


def cross_validate(
    trainer: StreamTrainer,
    X: Any,
    y: Any = None,
    *,
    cv: Any = 5,
    metrics: Metrics | None = None,
    fit_params: Mapping[str, Any] | None = None,
    return_train_score: bool = False,
    return_estimator: bool = False,
) -> dict[str, Any]:
    """Train and measure a trainer on folds, as ``sklearn.model_selection.cross_validate`` does in memory.

    Each fold is trained by a copy of the trainer on a view of its training rows, one fold after the other, and
    measured over all its test rows. Nothing is written anew.

    Parameters
    ----------
    trainer : StreamTrainer
        Not changed. With `checkpoint` each fold writes to a folder of its own below that, ``fold-0`` and so on, and the
        same call goes on where it was interrupted; folds that are done are not trained again. A `cache` with a path
        is likewise parted.
    X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
        Rows ``(n_rows, n_features)``. What is not a store is written to scratch first.
    y : array-like of shape (n_rows,), str or None, default=None
        Labels, where `X` is no store.
    cv : int, ChunkKFold, splitter or iterable, default=5
        A `ChunkKFold` parts whole chunks, and so does an int where there are as many chunks; where there are fewer, an
        int parts rows drawn by a fixed seed, which are few then. A splitter of scikit-learn, or an iterable of
        ``(train_rows, test_rows)`` (row numbers or masks), parts rows; row numbers of all rows, and for a splitter
        the labels, are held in memory then.
    metrics : sequence of str or scorer, mapping of str to str or scorer, or None, default=None
        As in `evaluate`.
    fit_params : mapping or None, default=None
        Keywords of each ``fit``, such as ``{"validation_data": 0.1}`` for callbacks that watch a metric.
    return_train_score : bool, default=False
        Measure the training rows too.
    return_estimator : bool, default=False
        Keep the fitted trainers.

    Returns
    -------
    dict
        Of arrays with one value a fold: ``fit_time`` and ``score_time`` in seconds, ``test_<name>`` and, if asked for,
        ``train_<name>`` of each metric; and a list ``estimator``, if asked for.

    Raises
    ------
    InvalidParameterError
        There are more folds than rows, or than chunks of a `ChunkKFold`; a fold has no row, or names a row twice or one
        that is not there; a metric is not known.
    InvalidDataError, UnsupportedError, BudgetError, CheckpointError, CheckpointMismatchError, StoreCorruptError
        As ``trainer.fit`` and `evaluate`.

    Warns
    -----
    ShuffleWarning
        The training rows of a fold lack a class that its test rows have.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.model_selection import KFold
    >>> X, y = np.arange(40.0).reshape(40, 1), np.arange(40) % 2
    >>> trainer = StreamTrainer(GaussianNB())
    >>> cross_validate(trainer, X, y, cv=KFold(2), metrics=["accuracy"])["test_accuracy"]
    array([0.5, 0.5])
    """
    if not isinstance(trainer, StreamTrainer):
        raise InvalidParameterError(
            f"cross_validate trains a StreamTrainer, got {trainer!r}. Wrap the estimator: StreamTrainer(estimator)."
        )
    last = links_of(trainer.estimator)[-1]
    metrics = trainer.metrics if metrics is None else metrics
    if metrics is not None:
        check_metrics(metrics, last)
    limit = parse_memory_limit(trainer.memory_limit)
    outcomes: dict[str, list[Any]] = {}
    scratch = Scratch.create()
    try:
        store = as_store(X, y, scratch=scratch, memory_limit=limit)
        for number, (train, test) in enumerate(_folds(cv, store, limit)):
            if is_classifier(last):
                _warn_of_classes(number, train, test)
            outcome = _outcome(
                _trainer_of_fold(trainer, number),
                train,
                test,
                metrics=metrics,
                fit_params=dict(fit_params or {}),
                with_train=return_train_score,
                with_estimator=return_estimator,
                limit=limit,
            )
            for name, value in outcome.items():
                outcomes.setdefault(name, []).append(value)
    finally:
        scratch.remove()
    if not outcomes:
        raise InvalidParameterError("cv gives no folds. Give an int, a splitter, or pairs of row numbers.")
    return {name: values if name == "estimator" else np.array(values) for name, values in outcomes.items()}


def _outcome(
    trainer: StreamTrainer,
    train: FeatureStore,
    test: FeatureStore,
    *,
    metrics: Metrics | None,
    fit_params: dict[str, Any],
    with_train: bool,
    with_estimator: bool,
    limit: int | None,
) -> dict[str, Any]:
    began = time.perf_counter()
    trainer.fit(train, **fit_params)
    fitted = time.perf_counter()
    model = trainer.estimator_
    names = metrics
    if names is None:
        names = default_metrics(model, known_classes(model, test))
    if not len(names):
        raise InvalidParameterError(
            f"{type(links_of(model)[-1]).__name__} is measured by no metric unless asked. Name some: "
            "metrics=['adjusted_rand_score']."
        )
    outcome: dict[str, Any] = {}
    parts = {"test": test, "train": train} if with_train else {"test": test}
    for part, rows in parts.items():
        store = matched(rows, getattr(trainer, "feature_names_in_", None))
        values = evaluate(model, store, names, memory_limit=limit, engine=current_engine())
        outcome |= {f"{part}_{name}": value for name, value in values.items()}
        if part == "test":
            times = {"fit_time": fitted - began, "score_time": time.perf_counter() - fitted}
    return {**times, **({"estimator": trainer} if with_estimator else {}), **outcome}


def _trainer_of_fold(trainer: StreamTrainer, fold: int) -> StreamTrainer:
    """Copy a trainer that is not fitted; what it writes lies in a folder of the fold's own."""
    # Not sklearn.clone: transformers that were brought fitted stay so, and a fit never changes the estimator.
    parameters = trainer.get_params(deep=False) | {"callbacks": copy.deepcopy(trainer.callbacks)}
    if trainer.checkpoint is not None:
        options = as_checkpoint_options(trainer.checkpoint)
        parameters["checkpoint"] = dataclasses.replace(options, path=_folder(options.path, fold))
    if isinstance(trainer.cache, str | os.PathLike):
        parameters["cache"] = _folder(trainer.cache, fold)
    return type(trainer)(**parameters)


def _folder(path: str | os.PathLike[str], fold: int) -> str:
    return os.path.join(os.fspath(path), f"fold-{fold}")  # noqa: PTH118  # remote paths stay as they are


# -- folds ---------------------------------------------------------------------------------------------


def _folds(cv: Any, store: FeatureStore, limit: int | None) -> Iterator[tuple[FeatureStore, FeatureStore]]:
    if isinstance(cv, ChunkKFold):
        return cv.split(store)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        folds = ChunkKFold(int(cv))
        if folds.n_splits <= store.layout.n_chunks or folds.n_splits > store.n_rows:
            return folds.split(store)
        cv = KFold(folds.n_splits, shuffle=True, random_state=folds.seed)
    if hasattr(cv, "split") and not isinstance(cv, str):
        label_nbytes = 0 if store.label_dtype is None else store.label_dtype.itemsize * (store.n_outputs or 1)
        Budget((("labels and row numbers", store.n_rows * (label_nbytes + 24)), ("fixed", FIXED_NBYTES))).check(
            limit, "Raise memory_limit, or part whole chunks: cv=5."
        )
        labels = None if store.label_dtype is None else as_text(store.take_labels(np.arange(store.n_rows)))
        pairs = cv.split(np.zeros((store.n_rows, 1), dtype=np.bool_), labels)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = iter(cv)
    else:
        raise InvalidParameterError(
            "cv must be a number of folds, a ChunkKFold, a splitter of scikit-learn or pairs of row numbers, got "
            f"{cv!r}."
        )
    return (_pair_of_views(number, pair, store) for number, pair in enumerate(pairs))


def _pair_of_views(number: int, pair: Any, store: FeatureStore) -> tuple[FeatureStore, FeatureStore]:
    try:
        train, test = pair
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"Fold {number} of cv is no pair (train_rows, test_rows). Give row numbers or masks."
        ) from None
    return _view(store, train, f"training rows of fold {number}"), _view(store, test, f"test rows of fold {number}")


def _view(store: FeatureStore, rows: Any, what: str) -> FeatureStore:
    chosen = np.asarray(rows)
    if chosen.dtype.kind != "b":
        chosen = np.sort(chosen)
        twice = np.flatnonzero(chosen[1:] == chosen[:-1])
        if len(twice):
            raise InvalidParameterError(
                f"The {what} have row {chosen[twice[0]]} twice. A view has each row once: leave repeats out."
            )
    try:
        return store.select(chosen)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"The {what} are no rows of the store: {error}") from error


def _warn_of_classes(number: int, train: FeatureStore, test: FeatureStore) -> None:
    if train.classes is None or test.classes is None:
        return
    missing = np.setdiff1d(test.classes, train.classes)
    if len(missing):
        shown = ", ".join(str(label) for label in as_text(missing[:5]))
        warnings.warn(
            f"The training rows of fold {number} lack {len(missing)} of the classes of its test rows ({shown}): no "
            "model can predict those. Shuffle the store once before (store.shuffle(path)), or part row by row with "
            "sklearn.model_selection.StratifiedKFold.",
            ShuffleWarning,
            stacklevel=3,
        )
