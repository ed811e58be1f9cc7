"""What a store's manifest tells about an estimator that could not learn from it, before anything is read."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.utils import get_tags

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.incremental.partial_fit import links_of

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore

__all__ = ["check_suitable", "rows_needed"]


def rows_needed(model: Any, store: FeatureStore, batch_size: int) -> int:
    """Rows that each batch must have for every link of the model to take it.

    Raises
    ------
    InvalidParameterError
        It is more than `batch_size`.
    """
    needed = 1
    for link in links_of(model):
        if isinstance(link, IncrementalPCA):
            least = _count(link, "n_components", most=batch_size, of="rows in each batch; batch_size is")
            needed = max(needed, least if link.n_components is not None else min(batch_size, store.n_features))
        elif isinstance(link, MiniBatchKMeans):
            # In its first batch only, so that a short last one stays as it is.
            _count(link, "n_clusters", most=batch_size, of="rows in the first batch; batch_size is")
    return needed


def _count(link: Any, parameter: str, *, most: int, of: str) -> int:
    value = getattr(link, parameter)
    if not isinstance(value, Integral):  # None, or what the link itself refuses
        return 0
    if int(value) > most:
        raise InvalidParameterError(
            f"{type(link).__name__}({parameter}={value}) needs as many {of} {most}. Lower {parameter}."
        )
    return int(value)


def check_suitable(model: Any, store: FeatureStore, *, n_classes: int | None) -> None:
    """Refuse rows that an estimator of scikit-learn would refuse at its first step, or at a later one.

    Parameters
    ----------
    model : estimator
        The prepared estimator or pipeline.
    store : FeatureStore
        The training rows.
    n_classes : int or None
        Classes that it is told of, which may be more than these rows have; None where it is told of none.

    Raises
    ------
    InvalidDataError
        There is one class only, or there are values that are not finite.
    InvalidParameterError
        There are more components than columns, or more clusters than rows.
    """
    links = links_of(model)
    last = links[-1]
    _check_takes_numbers(links[0])
    if _needs_two_classes(last) and store.classes is not None and (n_classes or 0) < 2:
        raise InvalidDataError(
            f"{type(last).__name__} needs at least 2 classes, and there is 1 class: y is {store.classes[0].item()!r} "
            f"in each of the {store.n_rows} rows. Give rows of another class."
        )
    for position, link in enumerate(links):
        # How many columns come from other transformers than these, the manifest cannot tell.
        same_width = all(isinstance(before, OneToOneFeatureMixin) for before in links[:position])
        if isinstance(link, MiniBatchKMeans):
            _count(link, "n_clusters", most=store.n_rows, of="rows; n_rows is")
        elif isinstance(link, IncrementalPCA) and same_width:
            _count(link, "n_components", most=store.n_features, of="columns; n_features is")
    _check_finite(links[0], store)
    if store.is_sparse:
        _check_takes_sparse(links[0], store)


_NEED_TWO_CLASSES = {"SGDClassifier", "Perceptron", "PassiveAggressiveClassifier", "OneVsOneClassifier"}


def _needs_two_classes(last: Any) -> bool:
    # By name: scikit-learn 1.8 deprecates one of them.
    return any(
        kind.__module__.startswith("sklearn.") and kind.__name__ in _NEED_TWO_CLASSES for kind in type(last).__mro__
    )


def _check_takes_numbers(first: Any) -> None:
    tags = get_tags(first)
    if tags.input_tags.string and not tags.input_tags.two_d_array:
        raise InvalidParameterError(
            f"{type(first).__name__} takes texts, and a store holds numbers. Transform the texts at ingest: "
            "sf.ingest(lambda: (vectorizer.transform(part) for part in parts), path)."
        )


def _check_takes_sparse(first: Any, store: FeatureStore) -> None:
    known = type(first).__module__.startswith("sklearn.") and not get_tags(first).no_validation
    if known and not get_tags(first).input_tags.sparse:
        raise InvalidDataError(
            f"{type(first).__name__} takes dense rows only, and the store {store.path} is sparse with "
            f"{store.n_features:,} columns. Use an estimator that takes sparse rows (SGDClassifier, MultinomialNB, "
            "MiniBatchKMeans, StandardScaler(with_mean=False)), or put a transformer before it that makes few dense "
            "columns of them."
        )


def _check_finite(first: Any, store: FeatureStore) -> None:
    columns = np.flatnonzero(store.n_nonfinite)
    # Whoever writes an estimator may leave its tags as they are; scikit-learn's own are right.
    tags = get_tags(first)
    knows = type(first).__module__.startswith("sklearn.") and not tags.no_validation
    if len(columns) and knows and not tags.input_tags.allow_nan:
        column = int(columns[0])
        name = store.column_name(column)
        raise InvalidDataError(
            f"{type(first).__name__} takes finite values only, and column {name!r} holds "
            f"{store.n_nonfinite[column]} others. Impute or drop them before ingest.",
            column=name,
        )
