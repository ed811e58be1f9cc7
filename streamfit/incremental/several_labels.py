"""Several labels a row: which estimators take them, in which form they take the classes, and what they have learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils import get_tags

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore

__all__ = ["check_learnt", "check_outputs", "classes_of_outputs"]


def check_outputs(estimator: Any, name: str, store: FeatureStore) -> None:
    """Refuse several labels a row for an estimator of one, and the other way round.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.
    name : str
        Its name, for messages.
    store : FeatureStore
        The training rows.

    Raises
    ------
    InvalidDataError
        The rows have another number of labels than the estimator takes, or has learnt.
    """
    if store.n_outputs is None and isinstance(estimator, MultiOutputClassifier | MultiOutputRegressor):
        raise InvalidDataError(
            f"{name} takes several labels a row, and y has one. Give y of shape (n_rows, n_outputs), or the estimator "
            "that it holds."
        )
    if store.n_outputs is not None and get_tags(estimator).target_tags.required and not _takes_several(estimator):
        around = "MultiOutputClassifier" if is_classifier(estimator) else "MultiOutputRegressor"
        raise InvalidDataError(
            f"{name} takes one label a row, and y has {store.n_outputs}. Put it into sklearn.multioutput.{around}, or "
            "give one of them."
        )
    check_learnt(estimator, name, store)


def check_learnt(estimator: Any, name: str, store: FeatureStore) -> None:
    """Refuse another number of labels a row than an estimator has learnt, where that is known.

    Parameters
    ----------
    estimator, name, store
        As in `check_outputs`.

    Raises
    ------
    InvalidDataError
        The numbers differ.
    """
    learnt = _n_learnt(estimator)
    if learnt is not None and learnt != (store.n_outputs or 1):
        raise InvalidDataError(
            f"{name} has learnt {learnt} label(s) a row, and y has {store.n_outputs or 1}. Give as many, or fit anew."
        )


def _takes_several(estimator: Any) -> bool:
    tags = get_tags(estimator)
    if tags.target_tags.multi_output or (tags.classifier_tags is not None and tags.classifier_tags.multi_label):
        return True
    # Networks take them and do not say so; whoever writes an estimator may leave its tags as they are.
    return isinstance(estimator, MLPRegressor) or not type(estimator).__module__.startswith("sklearn.")


def _n_learnt(estimator: Any) -> int | None:
    """Give how many labels a row an estimator has learnt; None where that is not known, or it has learnt none yet."""
    if isinstance(estimator, MLPClassifier):
        if not hasattr(estimator, "n_outputs_"):
            return None
        # Of one label a row it has an output for each class, which add up to 1.
        return 1 if estimator.out_activation_ == "softmax" else int(estimator.n_outputs_)
    if isinstance(estimator, MultiOutputClassifier | MultiOutputRegressor):
        return len(estimator.estimators_) if hasattr(estimator, "estimators_") else None
    if not _takes_several(estimator):
        return 1 if get_tags(estimator).target_tags.required else None
    n_outputs = getattr(estimator, "n_outputs_", None)  # of networks and trees
    return None if n_outputs is None else int(n_outputs)


def classes_of_outputs(estimator: Any, name: str, store: FeatureStore, given: Any) -> Any:
    """Give the classes of several labels a row in the form in which a classifier takes them.

    Parameters
    ----------
    estimator : estimator
        A classifier that takes several labels a row.
    name : str
        Its name, for messages.
    store : FeatureStore
        The training rows.
    given : sequence or None
        All classes as the user, or an earlier fit, gave them; None: those of the rows.

    Returns
    -------
    list of ndarray, or ndarray of shape (n_outputs,)
        The classes of each label; or the numbers of the labels, each of which may be 1.

    Raises
    ------
    InvalidDataError
        Labels are no classes, or others than those that are given.
    """
    classes = store.output_classes
    if isinstance(estimator, MultiOutputClassifier):
        if given is not None and (np.ndim(given[0] if len(given) else 0) != 1 or len(given) != len(classes)):
            raise InvalidDataError(
                f"classes are those of each of {len(classes)} labels for {name}: [array_0, array_1, …]. Give as many "
                "arrays."
            )
        pairs = enumerate(zip(classes, classes if given is None else given, strict=True))
        return [_classes_of_output(name, place, present, named) for place, (present, named) in pairs]
    if not all(known is not None and np.isin(known, [0, 1]).all() for known in classes):
        raise InvalidDataError(
            f"{name} takes several labels a row that are 0 or 1, and y holds others. Put it into "
            "sklearn.multioutput.MultiOutputClassifier."
        )
    columns = np.arange(len(classes))  # those that may be 1
    if given is not None and not np.array_equal(given, columns):
        raise InvalidDataError(
            f"classes are the numbers of the {len(classes)} labels of a row for {name}, of which each may be 0 or 1. "
            "Leave them out."
        )
    return columns


def _classes_of_output(name: str, place: int, present: NDArray[Any] | None, named: Any) -> NDArray[Any]:
    """Give all classes of one of several labels, of which these rows have some."""
    if present is None:
        raise InvalidDataError(
            f"{name} is a classifier, and label {place} of a row has fractions or too many distinct values to be "
            "classes. Give class numbers, or use a regressor."
        )
    known = np.unique(np.asarray(named))
    others = np.setdiff1d(present, known)
    if len(others):
        raise InvalidDataError(
            f"Label {place} of a row holds {others[0].item()!r}, which is none of its {len(known)} classes for {name}. "
            "Name all classes at the first partial_fit (classes=), or fit anew."
        )
    return known
