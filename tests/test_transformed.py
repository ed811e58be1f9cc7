"""The rows of a store as fitted transformers give them, at each read: scikit-learn in memory is the oracle."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from dask.base import tokenize
from distributed import Client
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.maths.summaries.extremes import MinMax
from streamfit.store.reader import open_reader

N_ROWS, CHUNK_ROWS = 730, 100
NAMES = ("a", "b", "c", "d")


def rows(seed=0):
    return np.random.default_rng(seed).gamma(4, 1.3, (N_ROWS, 4))


X = rows()
Y = np.where(np.arange(N_ROWS) % 3, "ham", "spam")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("transformed") / "a.zarr"
    return sf.ingest(X, path, y=Y, sample_weight=np.arange(N_ROWS) + 1.0, ids=np.arange(N_ROWS), chunk_rows=CHUNK_ROWS)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    path = tmp_path_factory.mktemp("named") / "a.zarr"
    return sf.ingest(pd.DataFrame(X, columns=NAMES), path, chunk_rows=CHUNK_ROWS)


def by_chunks(transformer, values, chunk_rows=CHUNK_ROWS):
    return np.concatenate(
        [transformer.transform(values[i : i + chunk_rows]) for i in range(0, len(values), chunk_rows)]
    )


TRANSFORMERS = {
    "scaler": StandardScaler(),
    "robust": RobustScaler(),
    "in place": StandardScaler(copy=False),
    "pca": PCA(2),
    "quantiles": QuantileTransformer(n_quantiles=20),
    "power": PowerTransformer(),
    "bins": KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    "one-hot": make_pipeline(
        KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        OneHotEncoder(sparse_output=False),
    ),
    "sparse within": make_pipeline(
        KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf"),
        FunctionTransformer(lambda S: S.toarray(), accept_sparse=True),
    ),
    "polynomial": PolynomialFeatures(2),
    "logarithm": FunctionTransformer(np.log1p),
    "columns": ColumnTransformer([("scale", StandardScaler(), [2, 0])], remainder="drop"),
    "pipeline": make_pipeline(StandardScaler(), "passthrough", make_pipeline(PCA(3), Normalizer())),
    "nothing": Pipeline([("none", "passthrough")]),
    "flags": FunctionTransformer(lambda values: values > 5),
    "halves": FunctionTransformer(lambda values: values.astype("f2")),
    "tables": StandardScaler().set_output(transform="pandas"),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
class TestEveryTransformer:
    def fitted(self, name):
        return TRANSFORMERS[name].fit(X.copy())

    def wanted(self, name):
        return np.asarray(by_chunks(self.fitted(name), X.copy()))

    def test_rows_are_those_of_scikit_learn_on_each_chunk(self, store, name):
        transformed, wanted = store.transformed(self.fitted(name)), self.wanted(name)
        stored = {"bool": "u1", "float16": "f4"}.get(str(wanted.dtype), wanted.dtype)
        got = transformed.X.compute()
        assert got.dtype == transformed.dtype == stored
        assert transformed.shape == wanted.shape
        assert got.tobytes() == wanted.astype(stored).tobytes()

    def test_every_verb_gives_the_same_bits(self, store, name):
        transformed, wanted = store.transformed(self.fitted(name)), self.wanted(name)
        asked = [N_ROWS - 1, 0, 5, 0, 350]
        assert transformed.take(asked).tobytes() == wanted[asked].astype(transformed.dtype).tobytes()
        for batch in transformed.stream(transformed.plan(batch_size=90, seed=3, window=2)):
            assert batch.X.tobytes() == wanted[batch.rows].astype(transformed.dtype).tobytes()
            assert (batch.y == Y[batch.rows]).all()
        extremes = transformed.reduce(MinMax(transformed.n_features, transformed.dtype))
        np.testing.assert_array_equal(extremes.maximum, wanted.max(axis=0))
        first = transformed.map(lambda _, chunk: chunk.X[:, 0], model=None, dtype=transformed.dtype).compute()
        np.testing.assert_array_equal(first, wanted[:, 0].astype(transformed.dtype))

    def test_the_whole_is_what_scikit_learn_makes_of_all_rows_at_once(self, store, name):
        fitted = self.fitted(name)
        wanted = np.asarray(fitted.transform(X.copy()))
        np.testing.assert_allclose(store.transformed(fitted).X.compute(), wanted, rtol=1e-6, atol=1e-9)

    def test_statistics_are_measured(self, store, name):
        transformed, wanted = store.transformed(self.fitted(name)), self.wanted(name).astype("f8")
        np.testing.assert_array_equal(transformed.statistics.minimum, wanted.min(axis=0))
        np.testing.assert_allclose(transformed.statistics.variance, wanted.var(axis=0), rtol=1e-9, atol=1e-12)
        assert not transformed.n_nonfinite.any()


class TestWhatItIs:
    def test_labels_weights_and_ids_go_with_the_rows(self, store):
        transformed = store.transformed(StandardScaler().fit(X))
        for name in ("y", "sample_weight", "ids"):
            np.testing.assert_array_equal(getattr(transformed, name).compute(), getattr(store, name).compute())
        assert transformed.class_counts.tolist() == store.class_counts.tolist()
        assert transformed.take_labels([4]).tolist() == [Y[4]]
        assert transformed.verify().ok
        assert transformed.path == store.path

    def test_digests_follow_from_rows_and_transformer(self, store):
        one = store.transformed(StandardScaler().fit(X))
        assert one.digest == store.transformed(StandardScaler().fit(X)).digest
        others = [
            store,
            store[10:].transformed(StandardScaler().fit(X)),
            store.transformed(StandardScaler().fit(X * 2)),
            store.transformed(StandardScaler(with_mean=False).fit(X)),
            store.transformed(FunctionTransformer(lambda values: values + 1)),
            store.transformed(FunctionTransformer(lambda values: values + 2)),
            *(store.transformed(FunctionTransformer(_adder(number))) for number in (1, 2)),
        ]
        assert len({one.digest, *(other.digest for other in others)}) == len(others) + 1
        assert len({tokenize(other.ref) for other in others}) == len(others)

    def test_it_keeps_a_copy_of_the_transformer(self, store):
        scaler = StandardScaler().fit(X)
        transformed, wanted = store.transformed(scaler), by_chunks(scaler, X)
        scaler.fit(X * 3)
        np.testing.assert_array_equal(transformed.X.compute(), wanted)

    def test_it_pickles(self, store):
        transformed = store[5:].transformed(PCA(2).fit(X))
        again = pickle.loads(pickle.dumps(transformed))
        assert again.digest == transformed.digest
        assert open_reader(again.ref) is open_reader(transformed.ref)
        np.testing.assert_array_equal(again.take([1]), transformed.take([1]))

    def test_transformers_follow_each_other(self, store):
        scaler = StandardScaler().fit(X)
        pca = PCA(2).fit(scaler.transform(X))
        both, together = store.transformed(scaler).transformed(pca), store.transformed(make_pipeline(scaler, pca))
        assert both.digest == together.digest
        assert both.X.compute().tobytes() == together.X.compute().tobytes()

    def test_rows_are_selected_first(self, store):
        scaler, pca = StandardScaler().fit(X), PCA(2).fit(X)
        one, other = store.transformed(scaler)[33:500:2], store[33:500:2].transformed(scaler)
        assert one.digest == other.digest
        # Element by element, bits do not depend on which rows come together.
        assert one.X.compute().tobytes() == scaler.transform(X[33:500:2]).tobytes()
        np.testing.assert_allclose(store.transformed(pca)[33:].X.compute(), pca.transform(X[33:]), rtol=1e-6)
        assert one.row_numbers([1]).tolist() == [35]
        first, second = store.transformed(scaler).split(0.3, seed=1, stratify=True)
        assert len(first) + len(second) == N_ROWS
        assert first.take_labels([0]) == Y[first.row_numbers([0])]

    def test_names_are_those_that_the_transformer_tells(self, store, named):
        scaler, pca = StandardScaler().fit(X), PCA(2).fit(X)
        assert named.transformed(scaler).feature_names == NAMES
        assert named.transformed(pca).feature_names == ("pca0", "pca1")
        assert named.transformed(SelectKBest(k=2).fit(X, Y)).n_features == 2
        assert store.transformed(pca).column_name(1) == "pca1"
        assert store.transformed(scaler).feature_names is None
        assert named.transformed(FunctionTransformer(np.log1p)).feature_names is None
        assert named.transformed(FunctionTransformer(np.log1p)).column_name(3) == "3"

    def test_repr_and_info_say_so(self, named):
        transformed = named.transformed(PCA(2).fit(X))
        assert "transformed by PCA: 730 x 2 float64" in repr(transformed)
        assert "10 of its 730 rows, transformed by PCA" in repr(transformed[:10])
        info = transformed.info()
        assert (info.n_features, [column.name for column in info.columns]) == (2, ["pca0", "pca1"])
        assert info.arrays[0].decoded_nbytes == N_ROWS * 16
        assert "transformed by PCA" in str(info)
        assert "a view" not in str(info)
        assert "PCA" in transformed._repr_html_()
        assert "a view of 730" in str(transformed[:10].info())

    def test_arrays_are_computed_on_a_cluster(self, store):
        transformed = store.transformed(PCA(2).fit(X))
        local = transformed.X.compute()
        total = transformed.reduce(MinMax(2, np.dtype("f8")))
        with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
            assert transformed.X.compute().tobytes() == local.tobytes()
            assert transformed.reduce(MinMax(2, np.dtype("f8"))).maximum.tobytes() == total.maximum.tobytes()

    def test_budgets_count_what_is_below(self, store):
        narrow = store.transformed(PCA(1).fit(X))
        assert narrow.layout.aside_nbytes >= 2 * store.layout.chunk_nbytes
        plan = narrow.plan(batch_size=50, window=1)
        with pytest.raises(BudgetError):
            next(narrow.stream(plan, memory_limit="1MB"))

    def test_it_is_written_by_ingest_and_shuffle(self, store, tmp_path):
        transformed = store.transformed(StandardScaler().fit(X))
        wanted = by_chunks(StandardScaler().fit(X), X)
        copy = sf.ingest(transformed, tmp_path / "copy.zarr", chunk_rows=90)
        assert copy.X.compute().tobytes() == wanted.tobytes()
        mixed = transformed.shuffle(tmp_path / "mixed.zarr", seed=4)
        assert mixed.X.compute().tobytes() == wanted[mixed.ids.compute()].tobytes()

    def test_estimators_and_detectors_take_it(self, store):
        from pyod.models.hbos import HBOS
        from pyod.models.knn import KNN

        scaler = StandardScaler().fit(X)
        transformed, wanted = store.transformed(scaler), scaler.transform(X)
        trainer = sf.StreamTrainer(SGDClassifier(random_state=1), batch_size=100).fit(transformed)
        straight = SGDClassifier(random_state=1)
        for step in range(len(trainer.plan_)):
            taken = trainer.plan_[step]
            batch_rows = taken if isinstance(taken, np.ndarray) else taken.rows
            straight.partial_fit(
                wanted[batch_rows], Y[batch_rows], classes=np.unique(Y), sample_weight=batch_rows + 1.0
            )
        assert trainer.estimator_.coef_.tobytes() == straight.coef_.tobytes()
        for detector, rtol in ((HBOS(), 0), (KNN(), 1e-6)):
            fitted = sf.StreamDetector(detector).fit(transformed)
            wanted_scores = detector.fit(wanted).decision_scores_
            np.testing.assert_allclose(np.asarray(fitted.decision_scores_), wanted_scores, rtol=rtol)


def _adder(number):
    return lambda values: values + number


class TestNonFinite:
    def test_it_is_refused_with_row_and_column(self, named):
        broken = FunctionTransformer(np.log, feature_names_out="one-to-one")
        shifted = named.transformed(FunctionTransformer(lambda values: values - values.mean()))
        with (
            pytest.raises(InvalidDataError, match="FunctionTransformer gives nan in row") as caught,
            np.errstate(all="ignore"),
        ):
            shifted.transformed(broken).X.compute()
        assert caught.value.row is not None
        assert caught.value.column in {"0", "1", "2", "3"}

    def test_the_column_has_its_name(self, named):
        broken = FunctionTransformer(_log_of(X.min()), feature_names_out="one-to-one").fit(X)
        with pytest.raises(InvalidDataError, match=r"-inf in row [0-9]+, column '[abcd]'"), np.errstate(all="ignore"):
            named.transformed(broken).X.compute()

    def test_large_values_are_finite(self, store):
        large = store.transformed(FunctionTransformer(lambda values: np.full_like(values, 1e308)))
        assert large.X.compute().min() == 1e308

    def test_a_store_that_keeps_them_gives_them_on(self, tmp_path):
        values = X.copy()
        values[[3, 400], [1, 2]] = np.nan
        store = sf.ingest(values, tmp_path / "a.zarr", chunk_rows=CHUNK_ROWS, nonfinite="keep")
        assert store.transformed(StandardScaler().fit(X)).n_nonfinite.tolist() == [0, 1, 1, 0]
        imputed = store.transformed(SimpleImputer().fit(values))
        assert imputed.n_nonfinite.tolist() == [0, 0, 0, 0]
        np.testing.assert_array_equal(imputed.X.compute(), SimpleImputer().fit_transform(values))


def _log_of(minimum):
    return lambda values: np.log(values - minimum)


class Broken(TransformerMixin, BaseEstimator):
    """Makes of two rows what it should, and of more something else."""

    def __init__(self, make=None):
        self.make = make

    __sklearn_is_fitted__ = staticmethod(lambda: True)

    def transform(self, X):
        return X if len(X) == 2 else self.make(X)


def drop_rows(values):
    return values[1:]


def drop_columns(values):
    return values[:, 1:]


def widen(values):
    return values.astype("c16")


def refuse(values):
    raise ValueError("not these")


class TestRefusals:
    @pytest.mark.parametrize(
        ("transformer", "told"),
        [
            (StandardScaler(), "not fitted"),
            (make_pipeline(StandardScaler(), PCA(2)), "StandardScaler is not fitted"),
            (StandardScaler, "transformer with transform"),
            (SGDClassifier(), "transformer with transform"),
            (None, "transformer with transform"),
            (42, "transformer with transform"),
        ],
    )
    def test_no_fitted_transformer(self, store, transformer, told):
        with pytest.raises(InvalidParameterError, match=told):
            store.transformed(transformer)

    def test_other_columns(self, store):
        with pytest.raises(InvalidDataError, match="refuses the first rows of 4 columns"):
            store.transformed(StandardScaler().fit(X[:, :3]))

    @pytest.mark.parametrize("make", [lambda X: X.astype(complex), lambda X: X.astype(object), lambda X: X.astype(str)])
    def test_no_numbers(self, store, make):
        with pytest.raises(InvalidDataError):
            store.transformed(FunctionTransformer(make))

    @pytest.mark.parametrize("make", [lambda X: X[:, 0], lambda X: X[:, :0], lambda X: X.sum(axis=0, keepdims=True)])
    def test_no_matrix(self, store, make):
        with pytest.raises(InvalidDataError, match="of 2 rows"):
            store.transformed(FunctionTransformer(make))

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (drop_rows, "a row of its own for each row"),
            (drop_columns, r"\(100, 4\) is needed"),
            (widen, "complex128 for the rows from 0 on"),
            (refuse, "Broken refuses the rows 0 to 99: not these"),
        ],
    )
    def test_something_else_than_announced(self, store, make, told):
        with pytest.raises(InvalidDataError, match=told):
            store.transformed(Broken(make)).take([0])

    def test_what_cannot_be_compared(self, store):
        with pytest.raises(UnsupportedError, match="cannot be told from another one"):
            store.transformed(FunctionTransformer(kw_args={"by": np.load}, func=_with_generator(i for i in range(3))))


def _with_generator(generator):
    return lambda values, by: values if generator else by


class TestColumnsByName:
    def test_tables_and_stores_agree_without_warnings(self, named):
        frame = pd.DataFrame(X, columns=NAMES)
        fitted = make_pipeline(StandardScaler(), PCA(3)).fit(frame)
        np.testing.assert_array_equal(named.transformed(fitted).X.compute(), by_chunks(fitted, frame))

    def test_a_column_transformer_finds_columns_by_name(self, named):
        frame = pd.DataFrame(X, columns=NAMES)
        fitted = ColumnTransformer([("scale", StandardScaler(), ["d", "a"])], remainder="passthrough").fit(frame)
        transformed = named.transformed(fitted)
        np.testing.assert_array_equal(transformed.X.compute(), fitted.transform(frame))
        assert transformed.feature_names == tuple(fitted.get_feature_names_out())

    def test_columns_in_another_order_are_matched_by_name(self, named):
        frame = pd.DataFrame(X, columns=NAMES)
        fitted = StandardScaler().fit(frame[["c", "a", "d", "b"]])
        transformed = named.transformed(fitted)
        np.testing.assert_array_equal(transformed.X.compute(), fitted.transform(frame[["c", "a", "d", "b"]]))
        assert transformed.feature_names == ("c", "a", "d", "b")
        assert transformed.digest != named.transformed(StandardScaler().fit(X[:, [2, 0, 3, 1]])).digest

    def test_other_names_are_refused(self, named):
        fitted = StandardScaler().fit(pd.DataFrame(X, columns=["a", "b", "c", "e"]))
        with pytest.raises(InvalidDataError, match="'e' is missing; 'd' was not there") as caught:
            named.transformed(fitted)
        assert caught.value.column == "e"

    def test_a_store_without_names_is_matched_by_position(self, store):
        frame = pd.DataFrame(X, columns=NAMES)
        fitted = StandardScaler().fit(frame)
        np.testing.assert_array_equal(store.transformed(fitted).X.compute(), fitted.transform(frame))
