"""The step size of estimators: read, changed between steps, and truly heeded by the next one."""

from __future__ import annotations

import copy
import json
import math
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import (
    PassiveAggressiveClassifier,
    PassiveAggressiveRegressor,
    Perceptron,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import BernoulliRBM, MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from streamfit.errors import InvalidParameterError
from streamfit.incremental.learning_rate import learning_rate_of, set_learning_rate

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 4))
CLASSES = (X[:, 0] + 0.5 * RNG.normal(size=120) > 0).astype(int) + (X[:, 1] > 1)
NUMBERS = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=120)
BATCHES = [slice(start, start + 20) for start in range(0, 120, 20)]
TWO = np.stack([CLASSES, 2 - CLASSES], axis=1)


def quietly(function, *args, **options):
    """Call what warns of its deprecation at each use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return function(*args, **options)


def learn(model, rows):
    if isinstance(model, (SGDRegressor, PassiveAggressiveRegressor, MLPRegressor)):
        return model.partial_fit(X[rows], NUMBERS[rows])
    if isinstance(model, MultiOutputRegressor):
        return model.partial_fit(X[rows], np.stack([NUMBERS, -NUMBERS], axis=1)[rows])
    if isinstance(model, MultiOutputClassifier):
        return model.partial_fit(X[rows], TWO[rows], classes=[[0, 1, 2]] * 2)
    if isinstance(model, (SGDOneClassSVM, BernoulliRBM)):
        return model.partial_fit(X[rows])
    return model.partial_fit(X[rows], CLASSES[rows], classes=[0, 1, 2])


def weights(model):
    """All that was learnt, as one vector."""
    inner = getattr(model, "estimators_", None)
    if inner is not None:
        return np.concatenate([weights(one) for one in inner])
    for names in (("coefs_", "intercepts_"), ("coef_", "intercept_"), ("coef_", "offset_"), ("components_",)):
        if all(hasattr(model, name) for name in names):
            arrays = [getattr(model, name) for name in names]
            parts = [part for array in arrays for part in (array if isinstance(array, list) else [array])]
            return np.concatenate([np.ravel(part) for part in parts])
    raise AssertionError(model)


# -- the parameters of scikit-learn ------------------------------------------------------------------

PARAMETERS = [
    pytest.param(SGDClassifier(learning_rate="constant", eta0=0.5, random_state=0), "eta0", id="constant"),
    pytest.param(SGDClassifier(learning_rate="invscaling", eta0=0.5, random_state=0), "eta0", id="invscaling"),
    pytest.param(SGDClassifier(learning_rate="adaptive", eta0=0.5, random_state=0), "eta0", id="adaptive"),
    pytest.param(SGDClassifier(learning_rate="pa1", eta0=0.5, random_state=0), "eta0", id="pa1"),
    pytest.param(SGDClassifier(learning_rate="pa2", eta0=0.5, random_state=0), "eta0", id="pa2"),
    pytest.param(SGDRegressor(eta0=0.5, average=True, random_state=0), "eta0", id="averaged"),
    pytest.param(SGDOneClassSVM(learning_rate="constant", eta0=0.5, random_state=0), "eta0", id="one-class"),
    pytest.param(Perceptron(eta0=0.5, penalty="l2", random_state=0), "eta0", id="perceptron"),
    pytest.param(BernoulliRBM(n_components=3, learning_rate=0.5, random_state=0), "learning_rate", id="rbm"),
]


@pytest.mark.parametrize(("estimator", "parameter"), PARAMETERS)
def test_a_change_is_what_a_loop_with_set_params_gives(estimator, parameter):
    changed, by_hand, as_it_was = (clone(estimator) for _ in range(3))
    assert learning_rate_of(changed) == 0.5
    for place, rows in enumerate(BATCHES):
        value = 0.5 / (place + 1)
        set_learning_rate(changed, value)
        by_hand.set_params(**{parameter: value})
        assert learning_rate_of(changed) == value
        for model in (changed, by_hand, as_it_was):
            learn(model, rows)
    np.testing.assert_array_equal(weights(changed), weights(by_hand))
    assert not np.array_equal(weights(changed), weights(as_it_was))


@pytest.mark.parametrize("name", ["PassiveAggressiveClassifier", "PassiveAggressiveRegressor"])
def test_the_aggressiveness_of_passive_aggressive_models(name):
    made = {"PassiveAggressiveClassifier": PassiveAggressiveClassifier}.get(name, PassiveAggressiveRegressor)
    changed = quietly(made, C=0.5, random_state=0)
    by_hand = quietly(made, C=0.5, random_state=0)
    quietly(learn, changed, BATCHES[0])
    quietly(learn, by_hand, BATCHES[0])
    set_learning_rate(changed, 0.01)
    assert learning_rate_of(changed) == 0.01
    fresh = quietly(made, C=0.01, random_state=0)  # what is learnt, in one that was made with the other value
    learnt = copy.deepcopy(vars(by_hand))
    vars(fresh).update({key: value for key, value in learnt.items() if key not in ("C", "eta0")})
    for model in (changed, by_hand, fresh):
        quietly(learn, model, BATCHES[1])
    np.testing.assert_array_equal(weights(changed), weights(fresh))
    assert not np.array_equal(weights(changed), weights(by_hand))


def test_a_rate_of_numpy_is_written_as_a_plain_number():
    model = SGDRegressor()
    set_learning_rate(model, np.float32(0.25))
    assert type(model.eta0) is float
    assert json.dumps(learning_rate_of(model)) == "0.25"


# -- networks of scikit-learn ------------------------------------------------------------------------

NETWORKS = [
    pytest.param(kind(solver=solver, **options), id=f"{kind.__name__}-{label}")
    for kind in (MLPClassifier, MLPRegressor)
    for label, solver, options in (
        ("adam", "adam", {}),
        ("sgd", "sgd", {"momentum": 0}),
        ("invscaling", "sgd", {"momentum": 0, "learning_rate": "invscaling"}),
        ("adaptive", "sgd", {"momentum": 0, "learning_rate": "adaptive"}),
    )
]


@pytest.mark.parametrize("network", NETWORKS)
def test_twice_the_rate_is_twice_the_step(network):
    model = clone(network).set_params(hidden_layer_sizes=(5,), random_state=0, learning_rate_init=0.01)
    for rows in BATCHES[:3]:
        learn(model, rows)
    rate, before = learning_rate_of(model), weights(model)
    assert rate == 0.01
    doubled = copy.deepcopy(model)
    set_learning_rate(doubled, 2 * rate)
    assert learning_rate_of(doubled) == doubled.learning_rate_init == 0.02
    for rows in BATCHES[3:5]:  # also the step after the next, from the same weights
        steps = [weights(learn(one, rows)) - before for one in (model, doubled)]
        for name in ("coefs_", "intercepts_"):
            setattr(doubled, name, [array.copy() for array in getattr(model, name)])
        np.testing.assert_allclose(steps[1], 2 * steps[0], rtol=1e-6, atol=1e-12)
        before = weights(model)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_that_has_not_begun_begins_with_the_rate(network):
    options = {"hidden_layer_sizes": (5,), "random_state": 0}
    changed = clone(network).set_params(learning_rate_init=0.5, **options)
    set_learning_rate(changed, 0.01)
    given = clone(network).set_params(learning_rate_init=0.01, **options)
    np.testing.assert_array_equal(weights(learn(changed, BATCHES[0])), weights(learn(given, BATCHES[0])))


def test_the_rate_that_an_adaptive_network_has_come_to_is_the_one_that_is_read():
    model = learn(MLPRegressor(solver="sgd", learning_rate="adaptive", learning_rate_init=0.5), BATCHES[0])
    model._optimizer.trigger_stopping("", verbose=False)
    assert learning_rate_of(model) == 0.1


# -- estimators made of others -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(OneVsRestClassifier(Perceptron(penalty="l2", random_state=0)), id="one-vs-rest"),
        pytest.param(MultiOutputClassifier(Perceptron(penalty="l2", random_state=0)), id="several-labels"),
        pytest.param(MultiOutputRegressor(SGDRegressor(random_state=0)), id="several-numbers"),
    ],
)
def test_all_that_an_estimator_is_made_of_is_changed(estimator):
    changed, by_hand, as_it_was = (clone(estimator) for _ in range(3))
    for place, rows in enumerate(BATCHES):
        value = 0.5 / (place + 1)
        set_learning_rate(changed, value)
        assert learning_rate_of(changed) == value
        by_hand.set_params(estimator__eta0=value)
        for inner in getattr(by_hand, "estimators_", ()):
            inner.set_params(eta0=value)
        for model in (changed, by_hand, as_it_was):
            learn(model, rows)
    np.testing.assert_array_equal(weights(changed), weights(by_hand))
    assert not np.array_equal(weights(changed), weights(as_it_was))


def test_of_a_pipeline_the_last_link_counts():
    model = make_pipeline(StandardScaler(), "passthrough", make_pipeline(StandardScaler(), Perceptron()))
    set_learning_rate(model, 0.125)
    assert model[-1][-1].eta0 == learning_rate_of(model) == 0.125


# -- optimizers of others ----------------------------------------------------------------------------


class TorchLike:
    def __init__(self, *rates):
        self.param_groups = [{"params": [], "lr": rate} for rate in rates]


class Variable:
    """As Keras holds a rate."""

    def __init__(self, value):
        self.value = np.float32(value)

    def assign(self, value):
        self.value = np.float32(value)

    def __float__(self):
        return float(self.value)


class KerasLike:
    def __init__(self, rate):
        self._rate = rate

    @property
    def learning_rate(self):
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value):
        self._rate = value


class Holder(BaseEstimator):
    def __init__(self, **held):
        vars(self).update(held)

    @classmethod
    def _get_param_names(cls):
        return []


class Wrapped:
    def __init__(self, optimizer):
        self.optimizer = optimizer


def test_the_groups_of_a_torch_optimizer_keep_their_ratio():
    optimizer = TorchLike(0.1, 0.1, 0.2)
    model = Holder(optimizer_=optimizer, optimizer="adam")
    assert learning_rate_of(model) == 0.1
    set_learning_rate(model, 0.03)
    assert [group["lr"] for group in optimizer.param_groups] == [0.03, 0.03, 0.06]
    set_learning_rate(model, 0)
    assert [group["lr"] for group in optimizer.param_groups] == [0, 0, 0]


@pytest.mark.parametrize("where", ["optimizer", "optimizer_", "model", "model_"])
@pytest.mark.parametrize("kind", [float, Variable])
def test_an_optimizer_of_keras_is_found(where, kind):
    optimizer = KerasLike(kind(0.5))
    model = Holder(**{where: optimizer if "optimizer" in where else Wrapped(optimizer)})
    assert learning_rate_of(model) == 0.5
    set_learning_rate(model, 0.25)
    assert type(optimizer.learning_rate) is kind
    assert float(optimizer.learning_rate) == learning_rate_of(model) == 0.25


class Own(BaseEstimator):
    step_size = 1.0

    def get_learning_rate(self):
        return self.step_size

    def set_learning_rate(self, value):
        self.step_size = value


def test_an_estimator_may_say_itself_how():
    model = Own()
    set_learning_rate(model, 0.5)
    assert model.step_size == learning_rate_of(model) == 0.5


def test_torch_takes_the_rate():
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(2))
    model = Holder(optimizer_=torch.optim.SGD([weight], lr=0.5))
    set_learning_rate(model, 0.25)
    weight.sum().backward()
    model.optimizer_.step()
    assert weight.tolist() == [0.75, 0.75]
    assert learning_rate_of(model) == 0.25


def test_skorch_takes_the_rate_before_and_after_its_first_step():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    for options in ({"lr": 0.5}, {"optimizer__lr": 0.5}):
        net = skorch.NeuralNetRegressor(torch.nn.Linear, module__in_features=1, module__out_features=1, **options)
        assert learning_rate_of(net) == 0.5
        set_learning_rate(net, 0.25)
        net.initialize()
        assert [group["lr"] for group in net.optimizer_.param_groups] == [0.25]
        set_learning_rate(net, 0.125)
        assert [group["lr"] for group in net.optimizer_.param_groups] == [0.125]
        assert learning_rate_of(net) == 0.125


# -- none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(SGDClassifier(), "learning_rate='constant' or 'invscaling', with eta0", id="optimal"),
        pytest.param(OneVsRestClassifier(GaussianNB()), "OneVsRestClassifier has none", id="nested-none"),
        pytest.param(GaussianNB(), "GaussianNB has none. Use an estimator that has one", id="none"),
        pytest.param(make_pipeline(StandardScaler(), MiniBatchKMeans()), "MiniBatchKMeans has none", id="pipeline"),
        pytest.param(MLPClassifier(solver="lbfgs"), "Pass solver='adam' or 'sgd'", id="no-steps"),
        pytest.param(Holder(optimizer="adam"), "Holder has none", id="a-name-of-an-optimizer"),
        pytest.param(Holder(optimizer=KerasLike(object())), "Holder has none", id="a-schedule-of-keras"),
        pytest.param(Pipeline([("none", "passthrough")]), "empty pipeline", id="no-link"),
    ],
)
def test_where_there_is_none_it_is_none_and_setting_it_is_refused(model, message):
    assert learning_rate_of(model) is None
    with pytest.raises(InvalidParameterError, match=message):
        set_learning_rate(model, 0.1)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "0.1", True, None])
def test_what_is_no_step_size_is_refused_and_changes_nothing(value):
    model = SGDRegressor(eta0=0.5)
    with pytest.raises(InvalidParameterError, match="learning rate"):
        set_learning_rate(model, value)
    assert model.eta0 == 0.5
