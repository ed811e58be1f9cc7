"""What users call a metric: names of scikit-learn's scorers, those names without ``neg_``, and scorers of their own."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import sklearn.metrics as sk
from sklearn.base import is_classifier, is_clusterer, is_outlier_detector, is_regressor
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer

from streamfit.errors import InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Metric", "Metrics", "check_metrics", "default_metrics", "goes_with", "metrics_of", "of_numbers"]

Metrics: TypeAlias = "Sequence[Any] | Mapping[str, Any]"
"""Names and scorers one after the other, or by the name that their value gets."""

_Scorer = type(make_scorer(sk.accuracy_score))

_OF_NUMBERS = {
    getattr(sk, name)
    for name in (
        "d2_absolute_error_score",
        "d2_pinball_score",
        "d2_tweedie_score",
        "explained_variance_score",
        "max_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_gamma_deviance",
        "mean_pinball_loss",
        "mean_poisson_deviance",
        "mean_squared_error",
        "mean_squared_log_error",
        "mean_tweedie_deviance",
        "median_absolute_error",
        "r2_score",
        "root_mean_squared_error",
        "root_mean_squared_log_error",
    )
}


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric as scikit-learn's scorer defines it."""

    name: str
    """Name of its value."""
    function: Callable[..., Any]
    """Called with true labels and what the model gives."""
    options: Mapping[str, Any]
    """Keywords of the function."""
    sign: float
    """What the function's value is multiplied with."""
    methods: tuple[str, ...]
    """Methods of a model that the function takes the result of; the first that the model has."""
    raw: bool
    """Whether the function takes the probabilities of both of two classes, not of the second one only."""
    named: bool
    """Whether it was given by scikit-learn's name, and not as a scorer."""

    @property
    def ours(self) -> bool:
        """Whether the function is scikit-learn's, so that it is known what it does."""
        return (getattr(self.function, "__module__", None) or "").startswith("sklearn.metrics.")

    def method_of(self, model: Any) -> str | None:
        """Name the method of a model that gives what the function takes; None where it has none."""
        return next((method for method in self.methods if hasattr(model, method)), None)

    @property
    def positive(self) -> Any:
        """Label that the function takes for positive, if none is given; None where it is the second class."""
        if "pos_label" in self.options:
            return self.options["pos_label"]
        parameter = inspect.signature(self.function).parameters.get("pos_label")
        return None if parameter is None else parameter.default

    @property
    def takes_positive(self) -> bool:
        """Whether the positive class is a parameter of the function that nobody has set."""
        return "pos_label" not in self.options and "pos_label" in inspect.signature(self.function).parameters


def of_numbers(metric: Metric) -> bool:
    """Tell whether a metric compares numbers, and not classes."""
    return metric.function in _OF_NUMBERS


def metrics_of(metrics: Metrics) -> tuple[Metric, ...]:
    """Make metrics of what users name.

    Parameters
    ----------
    metrics : sequence of str or scorer, or mapping of str to str or scorer
        Names that ``sklearn.metrics.get_scorer_names()`` gives, or these without ``neg_`` for the value that is less
        where it is better, and scorers that ``sklearn.metrics.make_scorer`` gives. Without a name of its own a scorer
        has that of its function, with ``neg_`` before it where less is better.

    Raises
    ------
    InvalidParameterError
        A name is unknown (the message has those that are like it), or given twice; or it is no scorer.

    Examples
    --------
    >>> [metric.name for metric in metrics_of(["roc_auc", make_scorer(sk.fbeta_score, beta=2)])]
    ['roc_auc', 'fbeta_score']
    >>> [(metric.name, metric.sign) for metric in metrics_of({"error": "max_error", "loss": "neg_log_loss"})]
    [('error', 1.0), ('loss', -1.0)]
    """
    named: list[tuple[Any, Any]]
    if isinstance(metrics, Mapping):
        named = list(metrics.items())
        if not all(name and isinstance(name, str) for name, _ in named):
            raise InvalidParameterError(f"The names of metrics are text, got {list(metrics)!r}.")
    elif isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise InvalidParameterError(
            f"metrics must be a sequence of names and scorers, or a mapping of names to them, got {metrics!r}."
        )
    else:
        named = [(None, metric) for metric in metrics]
    chosen = tuple(_metric(name, metric) for name, metric in named)
    names = [metric.name for metric in chosen]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidParameterError(
            f"Metrics are given twice: {', '.join(twice)}. Give each once, or names of your own: {{'name': scorer}}."
        )
    return chosen


def _metric(name: str | None, metric: Any) -> Metric:
    if isinstance(metric, str):
        scorer, sign = _scorer_named(metric)
        return _of_scorer(name or metric, scorer, sign, raw=metric == "log_loss", named=True)
    if not isinstance(metric, _Scorer):
        hint = (
            "Wrap the function: sklearn.metrics.make_scorer."
            if callable(metric) and not isinstance(metric, type)
            else "Give a name of sklearn.metrics.get_scorer_names(), or what sklearn.metrics.make_scorer gives."
        )
        raise InvalidParameterError(
            f"A metric is {metric!r}, which is no scorer that can be computed in pieces. {hint}"
        )
    function = metric._score_func  # noqa: SLF001  # a scorer says in no public way what it is made of
    own = getattr(function, "__name__", "<lambda>")
    if name is None and own == "<lambda>":
        raise InvalidParameterError(f"The function of {metric!r} has no name. Give one: {{'name': scorer}}.")
    default = f"{'neg_' if metric._sign < 0 else ''}{own}"  # noqa: SLF001
    return _of_scorer(name or default, metric, 1.0, raw=False, named=False)


def _of_scorer(name: str, scorer: Any, sign: float, *, raw: bool, named: bool) -> Metric:
    methods = scorer._response_method  # noqa: SLF001
    return Metric(
        name=name,
        function=scorer._score_func,  # noqa: SLF001
        options=scorer._kwargs,  # noqa: SLF001
        sign=sign * scorer._sign,  # noqa: SLF001
        methods=(methods,) if isinstance(methods, str) else tuple(methods),
        raw=raw,
        named=named,
    )


def _scorer_named(name: str) -> tuple[Any, float]:
    names = set(get_scorer_names())
    if name in names:
        return get_scorer(name), 1.0
    if f"neg_{name}" in names:
        return get_scorer(f"neg_{name}"), -1.0
    known = _known_names()
    near = difflib.get_close_matches(name, known, n=3)
    raise InvalidParameterError(
        f"There is no metric {name!r}. "
        + (f"Names like it are: {', '.join(near)}. " if near else "")
        + f"Known are: {', '.join(sorted(known))}."
    )


def _known_names() -> list[str]:
    names = get_scorer_names()
    return [*names, *(name.removeprefix("neg_") for name in names if name.startswith("neg_"))]


# -- which go with an estimator ------------------------------------------------------------------------


def check_metrics(metrics: Metrics, estimator: Any) -> None:
    """Refuse metrics that are not known, or that do not go with this kind of estimator.

    Parameters
    ----------
    metrics : sequence or mapping
        See `metrics_of`.
    estimator : estimator
        Fitted or not.

    Raises
    ------
    InvalidParameterError
        The message lists those that do.
    """
    wrong = [metric.name for metric in metrics_of(metrics) if not goes_with(metric, estimator)]
    if wrong:
        known = [name for name in _known_names() if goes_with(_metric(None, name), estimator)]
        raise InvalidParameterError(
            f"No such metrics for {type(estimator).__name__}: {', '.join(wrong)}. "
            f"Known are: {', '.join(sorted(known)) or 'none'}."
        )


def goes_with(metric: Metric, estimator: Any) -> bool:
    """Tell whether a metric is for this kind of estimator, and the estimator has a method that it needs."""
    if metric.method_of(estimator) is None:
        return False
    if not metric.named:  # who makes a scorer knows what it is for
        return True
    if is_regressor(estimator):
        return of_numbers(metric)
    return not of_numbers(metric) or not (
        is_classifier(estimator) or is_clusterer(estimator) or is_outlier_detector(estimator)
    )


def default_metrics(model: Any, classes: Any) -> tuple[str, ...]:
    """Give the metrics that are computed where none are asked for.

    Parameters
    ----------
    model : estimator
        Fitted or not.
    classes : ndarray or None
        Classes that it is trained on; None where it is no classifier, or one of several outputs.
    """
    if is_regressor(model):
        return ("r2", "mean_squared_error")
    if not is_classifier(model):
        return ()
    if classes is None:
        return ("accuracy",)
    names = ["accuracy"]
    if hasattr(model, "predict_proba"):
        names.append("log_loss")
    if len(classes) == 2 and (hasattr(model, "decision_function") or hasattr(model, "predict_proba")):
        names.append("roc_auc")
    return tuple(names)
