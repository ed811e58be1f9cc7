"""Exact fits leave a transformer as scikit-learn's own ``fit`` on all rows in memory leaves it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.preprocessing.registry import entries, find

N_ROWS, N_FEATURES = 403, 5


def fit_exactly(transformer, store, memory_limit=None):
    fitted = clone(transformer)
    exact = find(fitted).load()
    assert exact.refusal(fitted, sparse=store.is_sparse) is None
    exact.fit(fitted, store, memory_limit=memory_limit, engine=None)
    return fitted


def assert_like(ours, theirs, *, scale=1.0, single=False):
    """The same attributes, of the same types, with values at the rung Equal."""
    left, right = dict(vars(ours)), dict(vars(theirs))
    assert left.pop("_fit_svd_solver", None) in (None, "covariance_eigh")
    right.pop("_fit_svd_solver", None)
    assert left.keys() == right.keys()
    for name, attribute in right.items():
        value, expected = (part.toarray() if sparse.issparse(part) else part for part in (left[name], attribute))
        if isinstance(expected, np.ndarray | np.generic):
            assert (type(value), value.dtype, value.shape) == (type(expected), expected.dtype, expected.shape), name
            if expected.dtype == object:
                assert value.tolist() == expected.tolist()
                continue
            # Sums are in float64 here and may be in float32 there.
            rtol, atol = (1e-5, 1e-6) if single else (1e-6, 1e-9)
            np.testing.assert_allclose(value, expected, rtol=rtol, atol=atol * scale, err_msg=name)
        elif name == "indicator_" and expected is not None:
            assert_like(value, expected)
        else:
            assert (type(value), value) == (type(expected), expected), name


def rows_of(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * [1, 10, 0.1, 3, 1] + [0, 5, 0, -2, 0]
    X[:, 4] = X[:, 0] + 0.3 * rng.normal(size=N_ROWS)
    if kind == "float32":
        return X.astype(np.float32)
    if kind in ("int32", "int8", "uint8"):
        return np.clip(X * 10, 0 if kind == "uint8" else -128, 127).astype(kind)
    if kind in ("nan", "nan32"):
        X[rng.random(X.shape) < 0.1] = np.nan
        X[:, 3] = np.nan
        X[:, 1] = 3.5
        return X.astype(np.float32 if kind == "nan32" else np.float64)
    if kind == "constant":
        X[:, 1], X[:, 2], X[:, 3] = 0.1, 0.0, 7.0
    if kind == "offset":
        X[:, :3] += 1e8
    if kind == "one-row":
        return X[:1]
    if kind == "few-rows":
        return X[:3]
    return X


KINDS = ["float64", "float32", "int32", "uint8", "nan", "nan32", "constant", "offset", "one-row", "few-rows"]

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(),
    MinMaxScaler(feature_range=(-2, 5), clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(quantile_range=(7.3, 98), unit_variance=True),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False),
    SimpleImputer(),
    SimpleImputer(add_indicator=True),
    SimpleImputer(strategy="median"),
    SimpleImputer(strategy="median", keep_empty_features=True, add_indicator=True),
    SimpleImputer(strategy="constant", fill_value=7),
    VarianceThreshold(),
    VarianceThreshold(0.05),
]


@pytest.fixture(scope="module")
def store_of(tmp_path_factory):
    """Give the store of a kind of rows, written once."""
    folder = tmp_path_factory.mktemp("stores")
    stores = {}

    def of(kind):
        if kind not in stores:
            stores[kind] = sf.ingest(rows_of(kind), folder / kind, chunk_rows=57, nonfinite="keep")
        return stores[kind]

    return of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transformer", SCALERS, ids=str)
def test_canary_of_columns_one_by_one(store_of, transformer, kind):
    X, store = rows_of(kind), store_of(kind)
    with warnings.catch_warnings():  # columns of NaN alone
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            theirs = clone(transformer).fit(X)
        except ValueError as error:
            rows_are_refused = "variance threshold" in str(error)
            with pytest.raises(InvalidDataError if rows_are_refused else InvalidParameterError):
                fit_exactly(transformer, store)
            return
        ours = fit_exactly(transformer, store)
        assert_like(ours, theirs, single=kind in ("float32", "nan32"))
        if "SimpleImputer" not in str(transformer):
            np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["float64", "float32", "int32", "uint8", "nan", "constant", "offset"])
def test_quantiles_and_ranges_are_bit_equal(store_of, kind):
    X, store = rows_of(kind), store_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for transformer in (RobustScaler(), RobustScaler(quantile_range=(1, 64.7)), MinMaxScaler(), MaxAbsScaler()):
            ours, theirs = fit_exactly(transformer, store), clone(transformer).fit(X)
            for name, expected in vars(theirs).items():
                np.testing.assert_array_equal(getattr(ours, name), expected)


@pytest.mark.parametrize("kind", ["float64", "float32", "int32", "offset", "few-rows"])
@pytest.mark.parametrize(
    "transformer",
    [
        PCA(),
        PCA(2),
        PCA(0),
        PCA(0.9),
        PCA("mle"),
        PCA(2, whiten=True),
        PCA(2, svd_solver="full"),
        PCA(svd_solver="covariance_eigh"),
    ],
    ids=str,
)
def test_canary_of_principal_components(store_of, transformer, kind):
    X, store = rows_of(kind), store_of(kind)
    if kind == "few-rows" and transformer.n_components == "mle":
        with pytest.raises(InvalidParameterError, match="at least as many rows as columns"):
            fit_exactly(transformer, store)
        return
    ours = fit_exactly(transformer, store)
    # The uncentred products of "covariance_eigh" lose digits with an offset, and float32 loses more: the truth is
    # the decomposition of all rows in float64.
    truth = clone(transformer).set_params(svd_solver="full").fit(X.astype(np.float64))
    typed = clone(transformer).fit(X)
    assert_like(ours, typed) if kind in ("float64", "int32") else None
    n = len(ours.components_) if kind != "few-rows" else min(2, len(ours.components_))
    for name, expected in vars(truth).items():
        value = getattr(ours, name)
        if isinstance(expected, np.ndarray):
            np.testing.assert_allclose(
                value[:n], expected[:n], rtol=1e-6, atol=2e-6 if kind == "float32" else 1e-7, err_msg=name
            )
            assert value.dtype == getattr(typed, name).dtype
    assert type(ours.noise_variance_) is type(typed.noise_variance_)


@pytest.mark.parametrize(
    "transformer",
    [
        PolynomialFeatures(2, interaction_only=True),
        GaussianRandomProjection(3, random_state=4),
        SparseRandomProjection(3, random_state=4),
        GaussianRandomProjection(eps=0.9, random_state=4),
        SparseRandomProjection(eps=0.9, random_state=4),
        RBFSampler(gamma=0.3, n_components=7, random_state=4),
        SkewedChi2Sampler(n_components=7, random_state=4),
        PolynomialCountSketch(n_components=7, random_state=4),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_canary_of_shapes(tmp_path, transformer, dtype):
    X = np.random.default_rng(0).integers(0, 9, size=(90, 120)).astype(dtype)
    store = sf.ingest(X, tmp_path / "store", chunk_rows=40)
    ours, theirs = fit_exactly(transformer, store), clone(transformer).fit(X)
    if getattr(transformer, "n_components", None) == "auto":
        # scikit-learn leaves "auto" here, with which it has no names for its columns.
        theirs._n_features_out = int(theirs.n_components_)
    assert_like(ours, theirs)


@pytest.mark.parametrize(
    "transformer", [TfidfTransformer(), TfidfTransformer(smooth_idf=False), TfidfTransformer(use_idf=False)], ids=str
)
def test_canary_of_document_frequencies(tmp_path, transformer):
    X = np.random.default_rng(0).poisson(0.4, size=(120, 6)).astype(np.float32)
    X[0] = 1
    store = sf.ingest(X, tmp_path / "store", chunk_rows=50)
    assert_like(fit_exactly(transformer, store), clone(transformer).fit(X))


def test_every_class_in_the_registry_is_compared():
    compared = {type(t).__name__ for t in SCALERS} | {
        "PCA",
        "PolynomialFeatures",
        "GaussianRandomProjection",
        "SparseRandomProjection",
        "RBFSampler",
        "SkewedChi2Sampler",
        "PolynomialCountSketch",
        "TfidfTransformer",
    }
    assert {entry.transformer.rpartition(".")[2] for entry in entries()} == compared


def test_a_subclass_has_no_exact_fit():
    class Other(StandardScaler):
        pass

    assert find(Other()) is None
    assert find(StandardScaler()) is not None


def test_missing_values_by_number(store_of):
    X, store = rows_of("int32"), store_of("int32")
    for strategy in ("mean", "median"):
        transformer = SimpleImputer(missing_values=-1, strategy=strategy)
        assert_like(fit_exactly(transformer, store), clone(transformer).fit(X))


def test_limits_and_chunks_change_nothing(tmp_path):
    X = np.random.default_rng(1).normal(size=(3_000, 40)) * 1e3
    first = sf.ingest(X, tmp_path / "first", chunk_rows=100)
    second = sf.ingest(X, tmp_path / "second", chunk_rows=997)
    for transformer in (StandardScaler(), RobustScaler(), PCA(5)):
        wide = fit_exactly(transformer, first)
        # The counts of all columns take 4 MB a state: with this limit the columns are taken in blocks.
        narrow = fit_exactly(transformer, first, memory_limit=60_000_000)
        for name, value in vars(wide).items():
            np.testing.assert_array_equal(value, getattr(narrow, name), err_msg=name)
        other = fit_exactly(transformer, second)
        for name, value in vars(wide).items():
            if isinstance(value, np.ndarray):
                np.testing.assert_allclose(getattr(other, name), value, rtol=1e-9, atol=1e-9, err_msg=name)
    with pytest.raises(BudgetError):
        fit_exactly(RobustScaler(), first, memory_limit=1_000_000)


def test_an_offset_costs_no_digits(tmp_path):
    rng = np.random.default_rng(3)
    small = rng.normal(size=(5_000, 3))
    X = small + 1e8
    store = sf.ingest(X, tmp_path / "store", chunk_rows=100)
    exactly = (X - 1e8).var(axis=0)
    ours = np.abs(fit_exactly(StandardScaler(), store).var_ / exactly - 1).max()
    assert ours < 1e-13
    batchwise = StandardScaler()
    for start in range(0, 5_000, 100):
        batchwise.partial_fit(X[start : start + 100])
    assert ours < np.abs(batchwise.var_ / exactly - 1).max()
    np.testing.assert_allclose(
        fit_exactly(PCA(), store).explained_variance_, PCA().fit(X - 1e8).explained_variance_, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (StandardScaler(), "no infinite values, and column 'b' .* holds 2"),
        (MinMaxScaler(), "no infinite values"),
        (RobustScaler(), "no infinite values"),
        (SimpleImputer(strategy="median"), "no infinite values"),
        (VarianceThreshold(), "no infinite values"),
        (PCA(), "no values that are not finite, and column 'b'"),
    ],
    ids=str,
)
def test_infinite_values_are_refused_by_column(tmp_path, transformer, message):
    import pandas as pd

    frame = pd.DataFrame(rows_of("float64"), columns=list("abcde"))
    frame.loc[[3, 200], "b"] = [np.inf, -np.inf]
    store = sf.ingest(frame, tmp_path / "store", chunk_rows=57, nonfinite="keep")
    with pytest.raises(InvalidDataError, match=message):
        fit_exactly(transformer, store)


@pytest.mark.parametrize(
    ("transformer", "refusal"),
    [
        (PCA(svd_solver="randomized"), "an approximation"),
        (SimpleImputer(strategy="most_frequent"), "has no exact form"),
        (RBFSampler(gamma="scale"), "give a number"),
    ],
    ids=str,
)
def test_parameters_without_an_exact_form(transformer, refusal):
    assert refusal in find(transformer).load().refusal(transformer, sparse=False)


@pytest.mark.parametrize("transformer", [StandardScaler(), MinMaxScaler(), RobustScaler(), PCA()], ids=str)
def test_sparse_rows_that_scikit_learn_refuses(transformer):
    assert find(transformer).load().refusal(transformer, sparse=True) is not None


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (PCA(6), "must be between 0 and"),
        (MinMaxScaler(feature_range=(3, 2)), "Minimum of desired feature range"),
        (RobustScaler(quantile_range=(80, 20)), "quantile range"),
        (GaussianRandomProjection(), "Raise eps"),
    ],
    ids=str,
)
def test_parameters_that_scikit_learn_refuses(store_of, transformer, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit_exactly(transformer, store_of("float64"))
