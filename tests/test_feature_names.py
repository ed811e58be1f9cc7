"""Columns of new rows are found by name, as those that the model was fitted on, or refused by name."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyod.models.hbos import HBOS
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

import streamfit as sf
from streamfit.errors import InvalidDataError

NAMES = ["low", "high", "age", "size"]
OTHER = ["size", "low", "age", "high"]
X = np.random.default_rng(3).normal([0, 5, -3, 20], [1, 4, 2, 9], (300, 4))
Y = (X[:, 0] + X[:, 2] > -3).astype(int)
NEW, NEW_Y = X[:60] + 0.25, Y[:60]


def frame(values=NEW, names=None):
    return pd.DataFrame(values, columns=NAMES)[names or NAMES]


def stored(folder, names=None, values=NEW, y=NEW_Y):
    return sf.ingest(frame(values, names), folder, y=y, chunk_rows=17)


KINDS = {
    "pandas": lambda table, _: table,
    "polars": lambda table, _: pl.from_pandas(table),
    "arrow": lambda table, _: pa.Table.from_pandas(table, preserve_index=False),
    "dask": lambda table, _: dd.from_pandas(table, npartitions=3),
    "store": lambda table, folder: sf.ingest(table, folder / "new", y=NEW_Y, chunk_rows=17),
    "path": lambda table, folder: sf.ingest(table, folder / "new", y=NEW_Y, chunk_rows=17).path,
    "view": lambda table, folder: sf.ingest(
        pd.concat([table[:5], table]), folder / "new", y=np.r_[NEW_Y[:5], NEW_Y], chunk_rows=17
    )[5:],
    "transformed": lambda table, folder: sf.ingest(table, folder / "new", y=NEW_Y, chunk_rows=17).transformed(
        StandardScaler(with_mean=False, with_std=False).fit(table)
    ),
}
"""A table of 60 rows in everything that has names."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("names") / "a", values=X, y=Y)


@pytest.fixture(scope="module")
def trainer(store):
    estimator = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0))
    return sf.StreamTrainer(estimator, batch_size=50, epochs=4).fit(store)


@pytest.fixture(scope="module")
def detector(store):
    return sf.StreamDetector(HBOS()).fit(store)


MODELS = [
    ("trainer", "predict"),
    ("trainer", "predict_proba"),
    ("trainer", "decision_function"),
    ("detector", "predict"),
    ("detector", "predict_proba"),
    ("detector", "decision_function"),
]


@pytest.fixture(params=MODELS, ids="-".join)
def method(request):
    name, called = request.param
    return getattr(request.getfixturevalue(name), called)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_in_another_order_are_found(method, kind, tmp_path):
    wanted = np.asarray(method(NEW))
    assert len(np.unique(wanted)) > 1
    np.testing.assert_allclose(np.asarray(method(KINDS[kind](frame(names=OTHER), tmp_path))), wanted, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_other_columns_are_refused_by_name(method, kind, tmp_path):
    missing = KINDS[kind](frame(names=["size", "low", "high"]), tmp_path)
    with pytest.raises(InvalidDataError, match=r"'age' is missing.*4 columns of the training rows, in any order"):
        method(missing)
    more = frame().assign(weight=1.0, id=2.0)
    with pytest.raises(InvalidDataError, match="'id', 'weight' were not there"):
        method(KINDS[kind](more, tmp_path / "more"))
    renamed = frame().rename(columns={"low": "Low"})
    with pytest.raises(InvalidDataError, match="'low' is missing; 'Low' was not there") as caught:
        method(KINDS[kind](renamed, tmp_path / "renamed"))
    assert caught.value.column == "low"


def test_a_name_that_is_there_twice_is_refused(method):
    with pytest.raises(InvalidDataError, match="'age' is there twice"):
        method(pd.DataFrame(NEW[:, [0, 1, 2, 3, 2]], columns=[*NAMES, "age"]))


def test_rows_without_names_go_by_position(method, tmp_path):
    wanted = np.asarray(method(NEW))
    unnamed = sf.ingest(NEW, tmp_path / "unnamed", chunk_rows=17)
    for rows in (NEW, NEW.tolist(), pd.DataFrame(NEW), unnamed, unnamed.X):
        np.testing.assert_allclose(np.asarray(method(rows)), wanted, rtol=1e-9)
    with pytest.raises(InvalidDataError):
        np.asarray(method(NEW[:, :3]))


def test_a_model_that_was_fitted_without_names_goes_by_position():
    unnamed = sf.StreamDetector(HBOS()).fit(X)
    np.testing.assert_array_equal(unnamed.predict(frame()), unnamed.predict(NEW))
    np.testing.assert_array_equal(unnamed.predict(frame(names=OTHER)), unnamed.predict(frame(names=OTHER).to_numpy()))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_of_the_right_columns(trainer, kind, tmp_path):
    rows = KINDS[kind](frame(names=OTHER), tmp_path)
    labels = () if kind in ("store", "path", "view", "transformed") else (NEW_Y,)
    wanted = trainer.score(NEW, NEW_Y)
    assert wanted > 0.8
    assert trainer.score(rows, *labels) == wanted
    with pytest.raises(InvalidDataError, match="'age' is missing"):
        trainer.score(KINDS[kind](frame().drop(columns="age"), tmp_path / "b"), *labels)


@pytest.mark.parametrize("kind", KINDS)
def test_validation_is_of_the_right_columns(store, trainer, kind, tmp_path):
    def fitted(validation):
        return sf.StreamTrainer(trainer.estimator, batch_size=50, epochs=4).fit(store, validation_data=validation)

    rows = KINDS[kind](frame(names=OTHER), tmp_path)
    wanted = fitted((NEW, NEW_Y)).history_
    labelled = rows if kind in ("store", "path", "view", "transformed") else (rows, NEW_Y)
    for found, expected in zip(fitted(labelled).history_, wanted, strict=True):
        assert found["val_log_loss"] == pytest.approx(expected["val_log_loss"], rel=1e-9)
    bad = KINDS[kind](frame().drop(columns="age"), tmp_path / "b")
    with pytest.raises(InvalidDataError, match="'age' is missing"):
        fitted(bad if kind in ("store", "path", "view", "transformed") else (bad, NEW_Y))


def test_transform_takes_the_right_columns(store):
    reduced = sf.StreamTrainer(IncrementalPCA(2), batch_size=100).fit(store)
    wanted = reduced.transform(NEW)
    np.testing.assert_allclose(reduced.transform(frame(names=OTHER)), wanted)
    lazy = reduced.transform(dd.from_pandas(frame(names=OTHER), npartitions=2))
    np.testing.assert_allclose(lazy.compute(), wanted)


@pytest.mark.parametrize("order", [NAMES, OTHER])
def test_transformers_of_tables_meet_stores_of_another_order(store, tmp_path, order):
    quantiles = QuantileTransformer(n_quantiles=50).fit(frame(X, OTHER))
    pca = PCA(3).set_output(transform="pandas").fit(quantiles.transform(frame(X, OTHER)))
    pipeline = make_pipeline(quantiles, pca, SGDRegressor())
    rows = stored(tmp_path / "a", order, X, Y.astype(float))
    fitted = sf.StreamTrainer(pipeline, batch_size=300, shuffle="none").fit(rows)
    reduced = pca.transform(quantiles.transform(frame(X, OTHER)))
    last = SGDRegressor(random_state=fitted.estimator_[-1].random_state).partial_fit(reduced.to_numpy(), Y)
    np.testing.assert_allclose(fitted.estimator_[-1].coef_, last.coef_, rtol=1e-9)
    wanted = last.predict(pca.transform(quantiles.transform(frame(NEW, OTHER))).to_numpy())
    for new in (frame(), frame(names=OTHER), stored(tmp_path / "b"), dd.from_pandas(frame(names=OTHER), npartitions=2)):
        np.testing.assert_allclose(np.asarray(fitted.predict(new)), wanted, rtol=1e-9)
    detector = sf.StreamDetector(make_pipeline(quantiles, HBOS())).fit(rows)
    straight = HBOS().fit(quantiles.transform(frame(X, OTHER)))
    np.testing.assert_allclose(
        detector.decision_function(frame(names=OTHER)),
        straight.decision_function(quantiles.transform(frame(NEW, OTHER))),
    )


def test_a_transformer_of_other_columns_is_refused(store):
    pca = PCA(2).fit(frame(X).rename(columns={"age": "year"}))
    for model in (
        sf.StreamDetector(make_pipeline(pca, HBOS())),
        sf.StreamTrainer(make_pipeline(pca, SGDClassifier()), batch_size=50),
    ):
        with pytest.raises(InvalidDataError, match="'year' is missing; 'age' was not there"):
            model.fit(store)


TYPES = {
    "whole numbers": lambda table: table.astype({"age": "int64"}),
    "booleans": lambda table: table.astype({"low": bool}),
    "nullable whole numbers": lambda table: table.astype({"size": "Int64", "age": "Int16"}),
    "nullable booleans": lambda table: table.astype({"low": "boolean"}),
    "nullable floats": lambda table: table.astype("Float64"),
    "arrow": lambda table: table.astype("float64[pyarrow]").astype({"age": "int32[pyarrow]"}),
    "float16": lambda table: table.astype("float16"),
}


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (kind, types)
        for kind in ("pandas", "polars", "dask")
        for types in TYPES
        if (kind, types) != ("polars", "float16")
    ],
)
@pytest.mark.parametrize("n_rows", [1, 4])
def test_columns_of_several_types_are_numbers(method, types, kind, n_rows, tmp_path):
    whole = pd.DataFrame(np.round(NEW[:n_rows]), columns=NAMES).assign(low=1.0)
    table = KINDS["pandas" if kind == "dask" and n_rows == 1 else kind](TYPES[types](whole)[OTHER], tmp_path)
    np.testing.assert_allclose(
        np.asarray(method(table)), np.asarray(method(whole.to_numpy())), rtol=1e-4 if types == "float16" else 1e-9
    )


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pd.Series(list("xyz")), id="text"),
        pytest.param(pd.Series(["1", "2", "3"], dtype="string"), id="digits"),
        pytest.param(pd.Series(["1", "2", "3"], dtype="category"), id="category"),
        pytest.param(pd.Series(pd.date_range("2020-01-01", periods=3)), id="dates"),
        pytest.param(pd.Series([1j, 2, 3]), id="complex"),
        pytest.param(pd.Series([1, None, "a"], dtype=object), id="object"),
    ],
)
@pytest.mark.parametrize("kind", ["pandas", "dask"])
def test_columns_without_numbers_are_refused_by_name(method, column, kind, tmp_path):
    table = frame(NEW[:3]).assign(age=column)
    with pytest.raises(InvalidDataError, match=r"'age' holds .* no numbers") as caught:
        method(KINDS[kind](table, tmp_path))
    assert caught.value.column == "age"


def test_gaps_are_refused_by_row_and_column(detector):
    table = frame(np.round(NEW[:3])).astype("Int64")
    table.loc[1, "age"] = pd.NA
    with pytest.raises(InvalidDataError, match="Row 1, column 2 holds nan"):
        detector.predict(table)


def test_a_refit_forgets_names(store):
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=50).fit(store)
    assert trainer.feature_names_in_.tolist() == NAMES
    assert not hasattr(trainer.fit(X, Y), "feature_names_in_")
    trainer.predict(frame(names=OTHER))


def test_the_estimator_alone_agrees_with_scikit_learn(store):
    trainer = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=50).fit(store)
    straight = LogisticRegression().fit(X, Y)
    straight.coef_, straight.intercept_ = trainer.estimator_.coef_, trainer.estimator_.intercept_
    for rows in (frame(), frame(names=OTHER)):
        np.testing.assert_allclose(trainer.predict_proba(rows), straight.predict_proba(NEW))
