"""StreamDetector: a PyOD detector fitted on a matrix larger than memory."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from streamfit.detectors.algorithm import FitContext, score_chunk
from streamfit.detectors.canary import check_fitted_attributes
from streamfit.detectors.choice import choose_algorithm
from streamfit.detectors.in_memory import InMemoryAlgorithm
from streamfit.detectors.prefix import PrefixedAlgorithm, score_prefixed, split_detector
from streamfit.detectors.probabilities import outlier_probabilities
from streamfit.detectors.registry import scores_rows_together
from streamfit.detectors.saved import ScoresLeftOut
from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.incremental.transformers import fit_transformers
from streamfit.inputs import as_store, check_cache, transformed_rows
from streamfit.maths.score_statistics import ScoreStatistics
from streamfit.maths.selection import percentile
from streamfit.plan.budget import parse_memory_limit
from streamfit.row_map import is_lazy, map_rows, matched, opened
from streamfit.run.engine import current_engine
from streamfit.run.links import links_of
from streamfit.run.row_mapping import TransformerChain
from streamfit.run.spool import ScoreSpool
from streamfit.store.scratch import Scratch

if TYPE_CHECKING:
    from os import PathLike

    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.transformers import TransformerMethod
    from streamfit.inputs import Cache
    from streamfit.options import BatchWise, Exact

__all__ = ["StreamDetector"]

_SPOOL_BLOCK_ROWS = 1 << 18
_SELECTION_NBYTES = 16 * 2**20
_ORDERED_ROWS = 10_000
"""Rows of a batch for transformers that are fitted by ``partial_fit``, as those of `StreamTrainer`."""


class StreamDetector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Fit a PyOD detector to all rows of a store and score each of them, in bounded memory.

    Parameters
    ----------
    detector : pyod BaseDetector, or a pipeline that ends in one
        What to fit. It is cloned, never changed; its ``contamination`` and ``random_state`` hold. The transformers of a
        pipeline are fitted first, one after the other, to all rows: exactly where the class is known, else by
        ``partial_fit``. The detector is fitted to what they make of each stored chunk, and new rows go through them.
    method : {"auto"}, Exact or BatchWise, default="auto"
        ``"auto"``: exact where the registry has an exact algorithm; else one fit in memory where all rows
        fit `memory_limit`; else an ensemble over batches, with a warning. ``sf.Exact()`` and
        ``sf.BatchWise()`` name a method: an approximation is used silently only when it is named.
    memory_limit : str, int or None, default=None
        Limit of streamfit's own resident memory beyond the start, such as ``"1GB"``. None: no limit for
        streamed passes, and half of the memory that is free now for a fit in memory.
    scratch : path or None, default=None
        Folder for training scores and intermediate results, which stay there. None: a temporary folder that
        is removed with this object and the arrays made from it; such a detector cannot be pickled where it
        needs those files.
    cache : None, True or path, default=None
        Write the rows once as the transformers of a pipeline give them, and fit the detector to those: for detectors
        that read rows often, as KNN does. True: to scratch, where only a detector
        that reads them to score new rows leaves them. A path: to a store that stays, is gone on with where it was
        interrupted, and is used again by a fit with the same rows and transformers; one with others refuses it. The
        result is bit-equal to that without a cache where all chunks but the last have the same number of rows, as those
        of a store have; of a view it is Equal, and a batch-wise one has other batches. Without transformers nothing is
        written.

    Attributes
    ----------
    decision_scores_ : dask.array.Array or ndarray, (n_rows,)
        One training score a row, float64, in row order, higher is more anomalous. They are computed once,
        by `fit`, and read from scratch. An ndarray if `fit` was given data in memory.
    threshold_ : float
        ``np.percentile(decision_scores_, 100 * (1 - contamination))``, bit-equal.
    labels_ : dask.array.Array or ndarray of int, (n_rows,)
        1 where a score exceeds the threshold, else 0.
    method_ : Method
        How the detector was fitted, and its rung of equality with PyOD on all rows in memory.
    detector_ : pyod BaseDetector, Pipeline or None
        A fitted PyOD object, where its class can hold the result at bounded size; of a pipeline the fitted pipeline.
    transformers_ : list of (str, transformer)
        The fitted transformers of a pipeline with their names; else empty.
    transformer_methods_ : tuple of TransformerMethod
        How each of them was fitted, and why so.
    n_features_in_ : int
        Columns of the training rows.
    feature_names_in_ : ndarray of str, (n_features,)
        Their names, where the source had names.

    Examples
    --------
    >>> import numpy as np
    >>> import streamfit as sf
    >>> from pyod.models.hbos import HBOS
    >>> X = np.random.default_rng(0).normal(size=(1_000, 4))
    >>> detector = sf.StreamDetector(HBOS(contamination=0.05)).fit(X)
    >>> int(detector.labels_.sum())
    50
    >>> bool((detector.decision_scores_ == HBOS(contamination=0.05).fit(X).decision_scores_).all())
    True
    >>> print(detector.method_)
    exact (Bit-equal): extremes and counts over all rows; bins scored by PyOD's own function.
    """

    def __init__(
        self,
        detector: Any,
        *,
        method: str | Exact | BatchWise = "auto",
        memory_limit: str | float | None = None,
        scratch: str | PathLike[str] | None = None,
        cache: Cache = None,
    ) -> None:
        self.detector = detector
        self.method = method
        self.memory_limit = memory_limit
        self.scratch = scratch
        self.cache = cache

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002  # scikit-learn's signature
        """Fit the detector to all rows.

        Parameters
        ----------
        X : FeatureStore, path of a store, or anything that ``sf.ingest`` takes
            Training rows ``(n_rows, n_features)``. What is not a store is written to scratch first.
        y : None
            Ignored, present for scikit-learn's sake.

        Returns
        -------
        self

        Raises
        ------
        UnsupportedError
            The method that was named does not exist for this detector.
        BudgetError
            The smallest pass does not fit `memory_limit`.
        InvalidDataError
            Values are not finite, there are too few rows for this detector, or a score is not finite.
        """
        limit = parse_memory_limit(self.memory_limit)
        steps, name, detector = split_detector(self.detector)
        contamination = _contamination(detector)
        check_cache(self.cache)
        engine = current_engine()
        scratch = Scratch.create(self.scratch, keep=self.scratch is not None)
        # A transformer may fill gaps: what it leaves is refused below.
        store = as_store(X, scratch=scratch, memory_limit=limit, nonfinite="keep" if steps else "error")
        # Transformers that were fitted on a table find its columns by name, wherever they stand.
        first = next((link for _, step in steps for link in links_of(step)), None)
        store = matched(store, getattr(first, "feature_names_in_", None))
        fitted_steps = steps
        methods: tuple[TransformerMethod, ...] = ()
        if steps:
            found = fit_transformers(steps, store, batch_size=_ORDERED_ROWS, seed=0, memory_limit=limit, engine=engine)
            fitted_steps, methods = found.steps, found.methods
        rows, prefix = store, None
        if methods:
            transformer = Pipeline(fitted_steps)
            rows = transformed_rows(store, transformer, cache=self.cache, scratch=scratch, memory_limit=limit)
            prefix = TransformerChain.over(store.reader, transformer).after(store.ref.mapping)
        _check_finite(rows)
        algorithm = choose_algorithm(detector, self.method, rows, memory_limit=limit)
        spool = ScoreSpool.create(scratch.path / "scores.npy", n_rows=store.n_rows)
        context = FitContext(
            store=rows,
            engine=engine,
            spool=spool,
            scratch=scratch,
            memory_limit=limit,
        )
        fitted = algorithm.fit(clone(detector), context)
        if self.cache is True and prefix is not None and not fitted.reads_rows:
            scratch.discard(rows.path)
        spool = spool.finish()
        statistics = ScoreStatistics.of(spool.blocks(_SPOOL_BLOCK_ROWS))
        threshold = percentile(
            lambda: spool.blocks(_SPOOL_BLOCK_ROWS),
            n=store.n_rows,
            q=100 * (1 - contamination),
            max_nbytes=_SELECTION_NBYTES,
        )
        scores: Any = spool.as_dask(store.layout, keep=scratch) if is_lazy(X) else spool.read(0, store.n_rows)
        labels = (scores > threshold).astype(np.int64)
        if fitted.detector is not None and not isinstance(algorithm, InMemoryAlgorithm):
            _complete(fitted.detector, scores, labels, threshold, statistics)

        self._fitted = fitted
        self._prefix = prefix
        self._statistics = statistics
        # Held only by those who need its files later; it goes with the last of them.
        self._scratch = scratch if is_lazy(X) or fitted.needs_scratch else None
        self.__dict__.pop("_n_scores_left_out", None)
        self.decision_scores_ = scores
        self.labels_ = labels
        self.threshold_ = threshold
        self.method_ = fitted.method
        self.transformers_, self.transformer_methods_ = fitted_steps, methods
        self.detector_ = fitted.detector
        if isinstance(self.detector, Pipeline) and fitted.detector is not None:
            self.detector_ = Pipeline([*fitted_steps, (name, fitted.detector)])
        self.n_features_in_ = store.n_features
        self.__dict__.pop("feature_names_in_", None)
        if store.feature_names is not None:
            self.feature_names_in_ = np.asarray(store.feature_names, dtype=object)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be pickled while the files it needs would go with this process."""
        scratch: Scratch | None = getattr(self, "_scratch", None)
        if scratch is not None and scratch.is_temporary:
            raise UnsupportedError(
                "The scores or training rows of this StreamDetector lie in a temporary folder that goes with it, so a "
                "pickle of it would be of no use. Name a folder that stays: StreamDetector(…, scratch=folder)."
            )
        state: dict[str, Any] = super().__getstate__()
        return state

    if not TYPE_CHECKING:  # to a type checker it would stand for any attribute

        def __getattr__(self, name: str) -> Any:
            """Say of training scores that a file left out where they are."""
            n_rows = self.__dict__.get("_n_scores_left_out")
            if n_rows is not None and name in ("decision_scores_", "labels_"):
                ScoresLeftOut(n_rows).refuse()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but the scratch folder, which the copy holds too."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        return copied

    def decision_function(self, X: Any) -> Any:
        """Score new rows; a row's score does not depend on the rows it comes with.

        Parameters
        ----------
        X : FeatureStore, path of a store, dask array or dataframe, array-like
            Rows ``(n_rows, n_features)``. For training rows this follows PyOD: a neighbour detector finds
            the row itself; use `decision_scores_` for training scores.

        Returns
        -------
        dask.array.Array or ndarray of float64, (n_rows,)
            Higher is more anomalous. Lazy for lazy `X`.

        Raises
        ------
        UnsupportedError
            PyOD scores rows among each other with this detector (CD, COF, COPOD, ECOD, LMDD, RGraph, ROD, SOD,
            SOS), so that a row has no score of its own.
        """
        check_is_fitted(self, "threshold_")
        detector = split_detector(self.detector)[2]
        if self.method_.name != "exact" and scores_rows_together(detector):
            raise UnsupportedError(
                f"PyOD's {type(detector).__name__} scores rows among each other: a row's score would depend on "
                "those it comes with. Training scores are in decision_scores_; PyOD's own answer for rows in memory is "
                "detector_.decision_function(X)."
            )
        X = matched(opened(X), getattr(self, "feature_names_in_", None))
        if self._prefix is None:
            return map_rows(score_chunk, X, model=self._fitted, n_features=self.n_features_in_, dtype=np.float64)
        model = PrefixedAlgorithm(self._prefix, self._fitted)
        # Values that are not finite are the transformers' to fill; what they leave is refused.
        return map_rows(score_prefixed, X, model=model, n_features=self.n_features_in_, dtype=np.float64, finite=False)

    def predict(self, X: Any) -> Any:
        """Give 1 for rows whose score exceeds the threshold and 0 for the others, ``(n_rows,)``."""
        return (self.decision_function(X) > self.threshold_).astype(np.int64)

    def predict_proba(self, X: Any, method: str = "linear") -> Any:
        """Turn scores into probabilities, as PyOD does.

        Parameters
        ----------
        X : FeatureStore, path of a store, dask array or dataframe, array-like
            Rows ``(n_rows, n_features)``.
        method : {"linear", "unify"}, default="linear"
            Min-max scaling by the training scores, or the error function of standardised scores (Kriegel
            et al., 2011, Interpreting and unifying outlier scores, SDM). Where all training scores are
            equal, "unify" divides by 1; PyOD divides by 0 there.

        Returns
        -------
        dask.array.Array or ndarray of float64, (n_rows, 2)
            Probability of an inlier, and of an outlier.
        """
        return outlier_probabilities(self.decision_function(X), self._statistics, method)

    def fit_predict(self, X: Any, y: None = None) -> Any:
        """Fit, and give `labels_`."""
        return self.fit(X, y).labels_


def _contamination(detector: Any) -> float:
    contamination = getattr(detector, "contamination", None)
    if isinstance(detector, type) or not (
        hasattr(detector, "decision_function") and hasattr(detector, "contamination")
    ):
        raise InvalidParameterError(
            f"detector must be a PyOD detector, such as KNN(n_neighbors=5), or a pipeline that ends in one, got "
            f"{detector!r}."
        )
    if not isinstance(contamination, (int, float)):
        raise UnsupportedError(
            f"{type(detector).__name__} has contamination={contamination!r}. streamfit needs a number in "
            "(0, 0.5]; a thresholder takes the scores afterwards: "
            "streamfit.scores.threshold(detector.decision_scores_, thresholder)."
        )
    if not 0 < contamination <= 0.5:
        raise InvalidParameterError(f"contamination must be in (0, 0.5], got {contamination!r}.")
    return float(contamination)


def _check_finite(store: FeatureStore) -> None:
    counts = store.n_nonfinite
    if counts.any():
        column = store.column_name(int(np.flatnonzero(counts)[0]))
        raise InvalidDataError(
            f"{int(counts.sum())} values are not finite, the first in column {column!r}. PyOD takes finite values "
            'only: ingest with nonfinite="error" to learn the row, then replace or drop it.',
            column=column,
        )


def _complete(detector: Any, scores: Any, labels: Any, threshold: float, statistics: ScoreStatistics) -> None:
    """Give a filled-in PyOD object what its own ``fit`` ends with; its training scores stay on scratch."""
    detector.decision_scores_, detector.labels_, detector.threshold_ = scores, labels, threshold
    detector._mu, detector._sigma = statistics.mean, statistics.std  # noqa: SLF001  # see canary
    detector._classes = 2  # noqa: SLF001  # see canary
    check_fitted_attributes(detector)
