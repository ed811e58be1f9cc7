"""One step of a scikit-learn estimator, or of one link of a pipeline."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from streamfit.errors import InvalidDataError
from streamfit.incremental.several_labels import check_outputs, classes_of_outputs
from streamfit.run.links import as_it_was_fitted, links_of
from streamfit.run.net_state import is_net, own_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Batch
    from streamfit.feature_store import FeatureStore

__all__ = ["PartialFit", "as_text", "checked_classes", "classes_of", "learner_of", "links_of"]


def as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Turn bytes into text, since scikit-learn takes no bytes for classes; others are left as they are.

    Raises
    ------
    InvalidDataError
        The bytes are not UTF-8.
    """
    if labels.dtype.kind != "S":
        return labels
    try:
        return np.char.decode(labels, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDataError(
            f"The labels are bytes that are not UTF-8 text ({error}), and scikit-learn takes no bytes. "
            "Store text or class numbers."
        ) from error


def classes_of(store: FeatureStore, name: str) -> NDArray[Any]:
    """Give the classes of a store for a classifier.

    Raises
    ------
    InvalidDataError
        The store has no labels, or they are no classes.
    """
    if store.label_dtype is None:
        raise InvalidDataError(
            f"{name} is a classifier and the data have no y: it requires y to be passed, but the target y is None. "
            "Give y, or ingest with y=."
        )
    if store.n_outputs is not None:
        raise InvalidDataError(f"{name} takes one label a row here, and y has {store.n_outputs}. Give one of them.")
    if store.classes is None:
        raise InvalidDataError(
            f"{name} is a classifier, and y has fractions or too many distinct values to be classes. (Unknown label "
            "type: continuous.) Give class numbers or texts, or use a regressor."
        )
    return as_text(store.classes)


@dataclass(frozen=True, slots=True, eq=False)
class PartialFit:
    """How one link of a pipeline takes a batch, after the links before it have transformed it."""

    link: int
    """Position among the links."""
    supervised: bool
    """Whether it takes labels."""
    classes: Any
    """All classes, for a link that wants them at its first step: an array, of several labels a row a list of arrays."""
    weighted: bool
    """Whether it takes the weights of the rows."""
    n_done: int = 0
    """How many of the links before it the rows have gone through already."""
    online: tuple[PartialFit, ...] = ()
    """How links before it take the batch right before it is transformed by them, in their order."""

    def remaining(self, model: Any) -> Any:
        """Give the links that the rows of a batch have not gone through, as a pipeline where there are several."""
        if self.n_done == 0:
            return model
        links = links_of(model)[self.n_done :]
        return links[0] if len(links) == 1 else Pipeline([(str(place), link) for place, link in enumerate(links)])

    def step(self, model: Any, batch: Batch) -> None:
        """Call ``partial_fit`` with one batch.

        Raises
        ------
        InvalidDataError
            The estimator refuses the batch.
        """
        links = links_of(model)
        online = {learner.link: learner for learner in self.online}
        X: Any = batch.X
        link = links[0]
        try:
            for place in range(self.n_done, self.link):  # the one that refuses is named
                link = links[place]
                if place in online:
                    online[place].learn(link, X, batch)
                X = link.transform(as_it_was_fitted(link, X))
            link = links[self.link]
            self.learn(link, X, batch)
        except (ValueError, RuntimeError) as error:
            if not isinstance(error, ValueError) and not is_net(link):
                raise
            raise InvalidDataError(
                f"{type(link).__name__} refuses step {batch.step} of epoch {batch.epoch}: {error}"
            ) from error

    def learn(self, link: Any, X: Any, batch: Batch) -> None:
        """Call ``partial_fit`` of the link alone, with rows that reach it and the labels and weights of a batch."""
        options: dict[str, Any] = {}
        if self.classes is not None:
            options["classes"] = self.classes
        if self.weighted:
            options["sample_weight"] = batch.sample_weight
        labels = (as_text(batch.y),) if self.supervised and batch.y is not None else ()
        with own_draws(link):
            link.partial_fit(X, *labels, **options)


def checked_classes(store: FeatureStore, name: str, classes: Any) -> NDArray[Any]:
    """Give all classes that rows may have, of which these rows have some.

    Parameters
    ----------
    store : FeatureStore
        The rows.
    name : str
        Name of the estimator.
    classes : array-like of shape (n_classes,)
        As the user, or an earlier fit, gave them.

    Raises
    ------
    InvalidDataError
        A label is none of them.
    """
    known: NDArray[Any] = np.unique(as_text(np.asarray(classes)))
    present = classes_of(store, name)
    others = np.setdiff1d(present, known) if (present.dtype.kind == "U") == (known.dtype.kind == "U") else present
    if len(others):
        raise InvalidDataError(
            f"y holds {others[0].item()!r}, which is none of the {len(known)} classes of {name} "
            f"({', '.join(map(repr, known[:5].tolist()))}{', …' if len(known) > 5 else ''}). Name all classes at the "
            "first partial_fit (classes=), or fit anew."
        )
    return known


def learner_of(model: Any, link: int, store: FeatureStore, *, classes: Any) -> PartialFit:
    """Find out what a link's ``partial_fit`` takes, from its signature and the store.

    Parameters
    ----------
    model : estimator
        The estimator or pipeline.
    link : int
        Position among its links.
    store : FeatureStore
        The training rows.
    classes : array-like of shape (n_classes,) or None
        All classes where these rows may lack some; None: those of the rows.

    Raises
    ------
    InvalidDataError
        The link needs labels of another kind than the store has.
    """
    links = links_of(model)
    name = type(links[link]).__name__
    # It hands on all that it is given to the one inside.
    estimator = links[link].estimator if isinstance(links[link], SelectFromModel) else links[link]
    parameters = inspect.signature(estimator.partial_fit).parameters
    # scikit-learn's own take any keyword for metadata routing, and refuse it without.
    # A net hands them to its module.
    takes_any = not (type(estimator).__module__.startswith("sklearn.") or is_net(estimator)) and any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    wants_classes, wants_weights = (takes_any or option in parameters for option in ("classes", "sample_weight"))
    check_outputs(estimator, name, store)
    known: Any = None
    if is_classifier(estimator):
        if store.n_outputs is not None:
            known = classes_of_outputs(estimator, name, store, classes)
        else:
            known = classes_of(store, name) if classes is None else checked_classes(store, name, classes)
    supervised = get_tags(estimator).target_tags.required
    if supervised and store.label_dtype is None:
        raise InvalidDataError(
            f"{name} needs y and the data have none: it requires y to be passed, but the target y is None. "
            "Give y, or ingest with y=."
        )
    if is_regressor(estimator) and store.label_dtype is not None and store.label_dtype.kind in "US":
        raise InvalidDataError(f"{name} is a regressor and y is text. Give numbers, or use a classifier.")
    return PartialFit(
        link=link,
        supervised=supervised,
        classes=known if wants_classes else None,
        # As in a scikit-learn pipeline, weights are for the last link only.
        weighted=store.has_sample_weight and wants_weights and link == len(links) - 1,
    )
