"""StreamTrainer: a scikit-learn estimator trained batch by batch on a matrix larger than memory."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags

from streamfit.callbacks.control import Control
from streamfit.errors import InvalidDataError
from streamfit.events import Observer
from streamfit.incremental.arguments import check_parameters
from streamfit.incremental.defined_fit import define_fit
from streamfit.incremental.definition import resolve_seed
from streamfit.incremental.fit_projection import project_fit
from streamfit.incremental.fit_state import Checkpoints, Resume
from streamfit.incremental.fitted_methods import FittedMethods
from streamfit.incremental.partial_fit import links_of
from streamfit.incremental.running import run_fit, run_further
from streamfit.incremental.validation import check_metrics, check_validation, evaluate_epoch
from streamfit.incremental.validation_rows import with_validation
from streamfit.inputs import as_store
from streamfit.options import StreamOptions, TransformersFitted
from streamfit.plan.budget import parse_memory_limit
from streamfit.row_map import matched
from streamfit.run.checkpoint import RunFolder, as_checkpoint_options, definition_to_go_on
from streamfit.run.engine import current_engine
from streamfit.run.shuffle_warning import warn_of_order
from streamfit.store.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.defined_fit import DefinedFit
    from streamfit.incremental.scorers import Metrics
    from streamfit.inputs import Cache
    from streamfit.run.checkpoint import Checkpoint, CheckpointOptions
    from streamfit.run.engine import Engine
    from streamfit.run.projection import FitProjection

__all__ = ["StreamTrainer"]


class StreamTrainer(FittedMethods, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Train any estimator with ``partial_fit`` on all rows of a store, in a reproducible order.

    The result is bit-equal to calling ``partial_fit`` in memory with the same batches, on every engine, and
    after any interruption.

    Parameters
    ----------
    estimator : estimator
        A scikit-learn estimator with ``partial_fit``, or a pipeline that ends in one; its transformers are
        fitted first, one after the other, to all rows: exactly where the class is known (see
        `streamfit.preprocessing`), else by ``partial_fit`` in the order of the rows. It is cloned, never changed;
        transformers that are fitted and have no ``partial_fit`` are kept as they are.
    batch_size : int, default=10_000
        Rows of a batch.
    epochs : int, default=1
        Times that each row is trained on.
    shuffle : {"window", "none"} or bool, default="window"
        Shuffle rows within windows of shuffled chunks, or keep the order of the rows.
    random_state : int, RandomState or None, default=0
        Seed of the order, and of every ``random_state`` in the estimator that is None. None draws a seed,
        which is recorded.
    memory_limit : str, int or None, default=None
        Limit of streamfit's own memory, such as ``"2GB"``; what the estimator needs comes on top.
    metrics : sequence of str or scorer, mapping of str to str or scorer, or None, default=None
        Metrics of `validation_data`: names of scikit-learn's scorers, these without ``neg_``, scorers of
        ``make_scorer``, or a mapping of names to them; see `streamfit.evaluate`. None: accuracy, and log_loss and
        roc_auc where the estimator gives them, for classifiers; r2 and mean_squared_error for regressors.
    callbacks : sequence of Observer or Control, default=()
        Told about the fit, or acting at control points: the ends of epochs, and within them where a callback asks for
        it; see `streamfit.callbacks`.
    checkpoint : path, CheckpointOptions or None, default=None
        Folder that the state is written to at the end of each epoch (and more often, see
        `CheckpointOptions`). Each fit needs one of its own, so that those of a grid search take none.
    stream : StreamOptions or None, default=None
        Window, tail, prefetch, checksums; None: the defaults.
    cache : None, True or path, default=None
        Write the rows once as the fitted transformers of a pipeline give them, and train on those: for several epochs
        and transformers that cost more than a read. True: to a folder that goes after the fit. A path: to a store that
        stays, is gone on with where it was interrupted, and is used again by a fit with the same rows and transformers;
        one with others refuses it. The result is bit-equal to that without a cache where transformers work element
        by element, as scalers do, and Equal where they add along a row, as PCA does, since whole chunks are transformed
        instead of batches. (Of a view whose chunks have different numbers of rows the order is that of the written
        chunks, and so another one.) A window holds as many rows as without a cache, so that rows which become
        wider take more memory; `memory_limit` refuses that before anything is written. Without transformers nothing is
        written.
    validate_every_steps : int or None, default=None
        Steps of an epoch after which the metrics of `validation_data` are measured, besides the end of the epoch.
    transformers : {"before", "online"}, default="before"
        "before": the transformers of a pipeline are fitted to all rows before the first step. "online": each batch
        updates them by ``partial_fit``, then goes through them to the model, so that nothing is known of later rows, as
        for rows in the order of time (``shuffle=False``) that are tested before they are trained on
        (`streamfit.callbacks.PrequentialMetrics`).

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, a plain one of scikit-learn.
    history_ : list of dict
        For each epoch ``epoch``, ``step`` and ``n_rows`` (done in it), ``seconds`` (without validation),
        ``learning_rate`` where the estimator has one that can be changed, and the metrics, named ``val_...``; the same
        for each measurement within an epoch.
    callbacks_ : list
        The callbacks; those that act on the fit are copies with their state at its end.
    classes_ : ndarray of shape (n_classes,)
        All classes, for classifiers; of several labels a row a list of these.
    n_features_in_ : int
        Columns of the training rows.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where the source had names.
    transformer_methods_ : tuple of TransformerMethod
        How each transformer of the pipeline was fitted, and why so.
    n_steps_ : int
        Steps in one epoch.
    n_epochs_ : int
        Epochs that have been trained, those of `partial_fit` included.
    stopped_by_ : str or None
        Class and number of the callback that ended the fit before its last epoch, such as ``"EarlyStopping-0"``.
    seed_ : int
        Seed of the order of the rows.
    plan_ : EpochPlan
        Order of the first epoch; ``dataclasses.replace(plan_, epoch=e)`` is that of another one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X = np.arange(40, dtype=np.float32).reshape(20, 2)
    >>> trainer = StreamTrainer(GaussianNB(), batch_size=6, epochs=2)
    >>> trainer.fit(X, ["low"] * 10 + ["high"] * 10).n_steps_
    4
    >>> trainer.predict(X[:1])
    array(['low'], dtype='<U4')
    """

    def __init__(
        self,
        estimator: Any,
        *,
        batch_size: int = 10_000,
        epochs: int = 1,
        shuffle: Literal["window", "none"] | bool = "window",
        random_state: int | np.random.RandomState | None = 0,
        memory_limit: str | float | None = None,
        metrics: Metrics | None = None,
        callbacks: Sequence[Observer | Control] = (),
        checkpoint: str | PathLike[str] | CheckpointOptions | None = None,
        stream: StreamOptions | None = None,
        cache: Cache = None,
        validate_every_steps: int | None = None,
        transformers: TransformersFitted = "before",
    ) -> None:
        self.estimator = estimator
        self.batch_size = batch_size
        self.epochs = epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.metrics = metrics
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.stream = stream
        self.cache = cache
        self.validate_every_steps = validate_every_steps
        self.transformers = transformers

    history_: list[dict[str, Any]]
    n_epochs_: int
    seed_: int

    # -- fit -----------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation_data: Any = None,
        resume: Resume = "auto",
    ) -> Self:
        """Train on all rows.

        Parameters
        ----------
        X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
            Training rows, ``(n_rows, n_features)``. What is not a store is written to scratch first.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), str or None, default=None
            Labels, where `X` is no store.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights, where `X` is no store.
        validation_data : FeatureStore, path, (X, y), float or None, default=None
            Rows for the metrics at the end of each epoch. A number between 0 and 1 is the share of the training rows
            that is split off for that: drawn by the seed, exact to a row, for classifiers with the shares of the
            classes; these rows are not trained on.
        resume : {"auto", "always", "never"}, default="auto"
            With `checkpoint`: go on where an earlier fit stopped if there was one, insist that there was
            one, or begin anew. A fit that a callback ended stays ended, also with more `epochs`, since it
            would have ended there with these as well; without that callback it goes on.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            A parameter is out of its range or clashes with another one.
        InvalidDataError
            The data are not what the estimator needs.
        BudgetError
            `memory_limit` is too small.
        CheckpointError
            The estimator cannot be written without pickling, or there is nothing to go on from.
        CheckpointMismatchError
            The run in the folder was defined otherwise; the message names the differences.
        StoreCorruptError
            A chunk is damaged.

        Warns
        -----
        ShuffleWarning
            Rows lie sorted by label, or nearly so, and no window can make up for that; see `FeatureStore.plan`.
        """
        check_parameters(self, resume)
        limit = parse_memory_limit(self.memory_limit)
        engine = current_engine()
        with ExitStack() as stack:
            scratch = Scratch.create()
            stack.callback(scratch.remove)
            store = self._rows(X, y, sample_weight, scratch, limit)
            checkpoints = None
            if self.checkpoint is not None:
                options = as_checkpoint_options(self.checkpoint)
                checkpoints = Checkpoints(stack.enter_context(RunFolder(options.path)), options)
            found = None if checkpoints is None else checkpoints.find(resume)
            earlier = None if found is None else found[0]
            seed = resolve_seed(self.random_state, earlier)
            store, validation = with_validation(
                store, validation_data, links_of(self.estimator)[-1], seed=seed, scratch=scratch, memory_limit=limit
            )
            defined = self._define(
                store,
                earlier,
                seed=seed,
                limit=limit,
                weights_given=sample_weight is not None,
            )
            warn_of_order(store.reader, defined.task.plan, stacklevel=2)
            self._fit(defined, store, validation, checkpoints, found, scratch=scratch, engine=engine)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on further rows for one epoch, going on from what has been learnt.

        After ``fit`` with the same rows the result is bit-equal to ``fit`` with one more of `epochs`. Observers among
        `callbacks` are told; controls act in `fit` alone, and nothing is written to `checkpoint`. Transformers of a
        pipeline are fitted to the rows of the first call, and stay so unless they are "online".

        Parameters
        ----------
        X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
            Rows, ``(n_rows, n_features)``, streamed in batches of `batch_size`.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), str or None, default=None
            Labels, where `X` is no store.
        classes : array-like of shape (n_classes,) or None, default=None
            All classes, where the rows of the first call lack some; of several labels a row a list of these.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights, where `X` is no store.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, InvalidDataError, BudgetError, StoreCorruptError
            As `fit`; a label that is none of the classes is refused too.
        """
        check_parameters(self, "auto")
        limit = parse_memory_limit(self.memory_limit)
        fitted = getattr(self, "estimator_", None)
        n_epochs_done = self.n_epochs_ if fitted is not None else 0
        scratch = Scratch.create()
        try:
            store = matched(self._rows(X, y, sample_weight, scratch, limit), getattr(self, "feature_names_in_", None))
            if fitted is not None and store.n_features != self.n_features_in_:
                raise InvalidDataError(
                    f"X has {store.n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                    "features as input. Give the columns of the first rows."
                )
            defined = self._define(
                store,
                None,
                seed=resolve_seed(self.random_state, None) if fitted is None else self.seed_,
                limit=limit,
                weights_given=sample_weight is not None,
                fitted=fitted,
                classes=getattr(self, "classes_", None) if fitted is not None else classes,
                n_epochs=n_epochs_done + 1,
            )
            if fitted is None:
                self._fit(defined, store, None, None, None, scratch=scratch, engine=current_engine(), controls=False)
                return self
            observers = [callback for callback in self.callbacks if isinstance(callback, Observer)]
            state = run_further(
                defined,
                n_epochs_done=n_epochs_done,
                history=self.history_,
                observers=observers,
                engine=current_engine(),
            )
        finally:
            scratch.remove()
        self.estimator_, self.n_epochs_ = state.model, n_epochs_done + 1
        self.history_ = state.history
        return self

    def plan(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> FitProjection:
        """Tell what `fit` with the same rows will take, without fitting.

        Window, steps, prefetch and the projected parts of memory are those of the fit; with `checkpoint`, of the run
        that it would go on with. A few chunks are read, and copies of the estimator trained on some of their rows, to
        see how long that takes and how much the estimator allocates. Nothing that was given is changed; rows that are
        in no store are written to scratch, which goes.

        Parameters
        ----------
        X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
            Training rows, ``(n_rows, n_features)``.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), str or None, default=None
            Labels, where `X` is no store.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights, where `X` is no store.

        Returns
        -------
        FitProjection
            Print it, or ask its fields. Metrics of validation rows, and passes that fit transformers, are not in its
            seconds. On a cluster the workers may be quicker or slower.

        Raises
        ------
        InvalidParameterError, InvalidDataError, UnsupportedError
            As `fit` would.
        BudgetError
            `memory_limit` is too small; the message has the numbers.
        CheckpointError
            What defines the run in the folder of `checkpoint` is damaged.
        StoreCorruptError
            A chunk is damaged.
        """
        check_parameters(self, "auto")
        limit = parse_memory_limit(self.memory_limit)
        stream = self.stream or StreamOptions()
        earlier = None
        if self.checkpoint is not None:
            earlier = definition_to_go_on(as_checkpoint_options(self.checkpoint).path)
        scratch = Scratch.create()
        try:
            store = self._rows(X, y, sample_weight, scratch, limit)
            defined = self._define(
                store,
                earlier,
                seed=resolve_seed(self.random_state, earlier),
                limit=limit,
                weights_given=sample_weight is not None,
            )
            return project_fit(defined, store, stream=stream, earlier=earlier)
        finally:
            scratch.remove()

    def _rows(self, X: Any, y: Any, sample_weight: Any, scratch: Scratch, limit: int | None) -> FeatureStore:
        store = as_store(X, y, sample_weight=sample_weight, scratch=scratch, memory_limit=limit)
        # Transformers that were fitted on a table find its columns by name, wherever they stand.
        first = next(iter(links_of(self.estimator)), None)
        rows: FeatureStore = matched(store, getattr(first, "feature_names_in_", None))
        return rows

    def _define(
        self,
        store: FeatureStore,
        earlier: Mapping[str, Any] | None,
        *,
        seed: int,
        limit: int | None,
        weights_given: bool,
        fitted: Any = None,
        classes: Any = None,
        n_epochs: int | None = None,
    ) -> DefinedFit:
        return define_fit(
            self.estimator,
            store,
            batch_size=int(self.batch_size),
            n_epochs=int(self.epochs) if n_epochs is None else n_epochs,
            shuffle="window" if self.shuffle in ("window", True) else "none",
            seed=seed,
            stream=self.stream or StreamOptions(),
            cache=self.cache if fitted is None else None,
            memory_limit=limit,
            earlier=earlier,
            weights_given=weights_given,
            when=self.transformers,
            fitted=fitted,
            classes=classes,
        )

    def _fit(
        self,
        defined: DefinedFit,
        store: FeatureStore,
        validation: FeatureStore | None,
        checkpoints: Checkpoints | None,
        found: tuple[dict[str, Any], Checkpoint] | None,
        *,
        scratch: Scratch,
        engine: Engine,
        controls: bool = True,
    ) -> None:
        limit = defined.task.memory_limit
        last = links_of(defined.model)[-1]
        if self.metrics is not None:
            check_metrics(self.metrics, last)
        if validation is not None:
            check_validation(validation, store, last, self.metrics, memory_limit=limit, engine=engine)
        outcome = run_fit(
            defined,
            store,
            evaluate=None
            if validation is None
            else partial(evaluate_epoch, store=validation, names=self.metrics, memory_limit=limit, engine=engine),
            validate_every_steps=self.validate_every_steps,
            callbacks=[c for c in self.callbacks if controls or not isinstance(c, Control)],
            checkpoints=checkpoints,
            found=found,
            stream=self.stream or StreamOptions(),
            cache=self.cache,
            scratch=scratch,
            engine=engine,
        )

        for name in ("classes_", "feature_names_in_"):  # of an earlier fit, where this one has none
            self.__dict__.pop(name, None)
        self.estimator_ = outcome.state.result
        self.history_ = outcome.state.history
        self.stopped_by_ = outcome.state.stopped_by or outcome.state.paused_by
        self.n_epochs_ = outcome.state.position.epoch
        self.plan_, self.n_steps_, self.seed_ = outcome.plan, len(outcome.plan), defined.seed
        self.transformer_methods_ = defined.methods
        self.callbacks_ = outcome.callbacks
        self.n_features_in_ = store.n_features
        if store.feature_names is not None:
            self.feature_names_in_ = np.asarray(store.feature_names, dtype=object)
        if is_classifier(self.estimator_):
            # MultiOutputClassifier has none after partial_fit.
            self.classes_ = getattr(self.estimator_, "classes_", defined.learner.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.transformer_tags = inner.transformer_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = inner.input_tags
        # Rows in memory are stored first, and stores refuse NaN unless they are told to keep it.
        tags.input_tags.allow_nan = False
        tags.non_deterministic = inner.non_deterministic
        return tags
