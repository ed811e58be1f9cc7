"""Sampled epochs of stores, views and fits: the stream is the plan, and a fit is a loop over it in memory."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import distributed
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.errors import (
    BudgetError,
    CheckpointMismatchError,
    InvalidDataError,
    InvalidParameterError,
    StoreCorruptError,
)
from streamfit.events import StepsDone
from streamfit.store.row_sampling import stored_sampling

N_ROWS = 1_013
SAMPLINGS = ["stratified", "balanced", "weighted"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    y = np.array(["common", "rare", "seldom"])[rng.choice(3, size=N_ROWS, p=[0.9, 0.03, 0.07])]
    weights = np.where(rng.random(N_ROWS) < 0.2, 0.0, rng.exponential(size=N_ROWS))
    return X, y, weights


@pytest.fixture(scope="module")
def stores(data, tmp_path_factory):
    X, y, weights = data
    folder = tmp_path_factory.mktemp("sampled")
    options = {"y": y, "sample_weight": weights, "chunk_rows": 50}
    store = sf.ingest(X, folder / "dense", **options)
    return {
        "store": store,
        "view": store.select(np.arange(N_ROWS) % 3 != 1),
        "sparse": sf.ingest(scipy.sparse.csr_array(np.where(X > 1, X, 0)), folder / "sparse", **options),
        "transformed": store.transformed(StandardScaler().fit(X)),
    }


def rows_held(kind):
    return np.flatnonzero(np.arange(N_ROWS) % 3 != 1) if kind == "view" else np.arange(N_ROWS)


# -- streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kind", ["store", "view", "sparse", "transformed"])
def test_the_stream_is_the_plan_for_any_prefetch_and_from_any_step(stores, data, kind, sampling):
    rows, held = stores[kind], rows_held(kind)
    X = rows.take(np.arange(rows.n_rows))
    X = X.toarray() if kind == "sparse" else X
    plan = rows.plan(batch_size=64, window=4, seed=3, epoch=1, sampling=sampling)
    for prefetch, start in ((0, 0), (1, 0), (3, 5), (1, len(plan) - 1)):
        batches = list(rows.stream(plan, start_step=start, prefetch=prefetch))
        assert [batch.step for batch in batches] == list(range(start, len(plan)))
        for batch in batches:
            np.testing.assert_array_equal(batch.rows, plan[batch.step].rows)
            found = batch.X.toarray() if kind == "sparse" else batch.X
            np.testing.assert_array_equal(found, X[batch.rows])
            np.testing.assert_array_equal(batch.y, data[1][held][batch.rows])
            if sampling == "weighted":
                assert batch.sample_weight is None
            else:
                np.testing.assert_array_equal(batch.sample_weight, data[2][held][batch.rows])
    state = replace(plan, epoch=4).state(2)
    resumed = list(rows.stream(plan, state=sf.StreamState.from_dict(json.loads(json.dumps(state.to_dict())))))
    assert [(batch.epoch, batch.step) for batch in resumed] == [(4, step) for step in range(2, len(plan))]
    np.testing.assert_array_equal(resumed[0].rows, replace(plan, epoch=4)[2].rows)


@pytest.mark.parametrize("kind", ["store", "view"])
def test_what_an_epoch_takes_follows_from_labels_and_weights(stores, data, kind):
    rows, held = stores[kind], rows_held(kind)
    y, weights = data[1][held], data[2][held]
    copies = {
        sampling: np.bincount(np.concatenate([b.rows for b in rows.stream(plan)]), minlength=rows.n_rows)
        for sampling in SAMPLINGS
        for plan in [rows.plan(batch_size=64, window=4, sampling=sampling)]
    }
    assert set(copies["stratified"]) == {1}
    whole, more = divmod(rows.n_rows, 3)
    draws = [int(copies["balanced"][y == name].sum()) for name in ("common", "rare", "seldom")]
    assert draws == [whole + (place < more) for place in range(3)]
    expected = rows.n_rows * weights / weights.sum()
    assert (np.abs(copies["weighted"] - expected) < 1).all()
    assert not copies["weighted"][weights == 0].any()


def test_stratified_batches_hold_the_classes_of_their_window(tmp_path):
    y = np.random.default_rng(0).random(4_000) < 0.1
    store = sf.ingest(np.zeros((4_000, 2)), tmp_path / "store", y=y, chunk_rows=100)
    plan = store.plan(batch_size=100, window=10, sampling="stratified")
    for batch in store.stream(plan):
        window = plan[batch.step].pieces[0].window
        share = y[plan.window_rows(window, np.arange(1_000))].mean()
        assert abs(batch.y.sum() - 100 * share) < 1


@pytest.mark.parametrize("labels", [[3, -1, 7], [False, True, True], [b"x", b"y", b"z"], [0.0, 2.0, 5.0]])
def test_labels_of_every_type_have_classes(tmp_path, labels):
    y = np.array(labels)[np.arange(300) % 7 % 3]
    store = sf.ingest(np.zeros((300, 2)), tmp_path / "store", y=y, chunk_rows=40)
    plan = store.plan(batch_size=30, window=3, sampling="balanced")
    found = np.concatenate([batch.y for batch in store.stream(plan)])
    counts = np.unique(found, return_counts=True)[1]
    assert len(counts) == len(np.unique(y))
    assert counts.max() - counts.min() <= 1


def test_a_view_without_a_class_balances_the_others(stores, data):
    view = stores["store"].select(data[1] != "rare")
    plan = view.plan(batch_size=64, window=4, sampling="balanced")
    names, counts = np.unique(np.concatenate([batch.y for batch in view.stream(plan)]), return_counts=True)
    assert names.tolist() == ["common", "seldom"]
    assert counts.max() - counts.min() <= 1


def test_labels_are_counted_once_a_process_and_do_not_travel(stores, monkeypatch):
    store = stores["store"]
    counted = store.plan(batch_size=64, window=4, sampling="balanced")
    monkeypatch.setattr(type(store.reader), "read_array", None)
    again = store.plan(batch_size=64, window=4, epoch=3, sampling="balanced")
    assert again.sampling is counted.sampling
    monkeypatch.undo()
    plan = pickle.loads(pickle.dumps(again))
    assert plan == again
    np.testing.assert_array_equal(plan[1].rows, again[1].rows)
    assert len(pickle.dumps(again.sampling.values)) < 1_000
    # Verified or not, these are the same rows; features do not matter.
    assert stored_sampling(replace(store.ref, verify="never"), "balanced", layout=store.layout) == counted.sampling


def test_ranks_share_a_sampled_epoch(stores):
    store = stores["store"]
    for sampling in SAMPLINGS:
        whole = store.plan(batch_size=64, window=2, sampling=sampling)
        parts = [store.plan(batch_size=64, window=2, sampling=sampling, n_ranks=3, rank=rank) for rank in range(3)]
        taken = np.concatenate([batch.rows for plan in parts for batch in store.stream(plan)])
        expected = np.concatenate([batch.rows for batch in store.stream(whole)])
        np.testing.assert_array_equal(np.sort(taken), np.sort(expected))


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "weights", "sampling", "error", "message"),
    [
        (None, None, "stratified", InvalidDataError, "has no labels"),
        (None, None, "balanced", InvalidDataError, "has no labels"),
        (None, None, "weighted", InvalidDataError, "has no sample_weight"),
        (np.arange(60) / 7, None, "balanced", InvalidDataError, "has fractions, too many distinct values"),
        (None, np.zeros(60), "weighted", InvalidDataError, r"add up to 0\.0"),
        (None, np.r_[np.ones(41), -1.5, np.ones(18)], "weighted", InvalidDataError, r"of row 41 is -1\.5"),
        (None, np.ones(60), "even", InvalidParameterError, "sampling must be 'stratified', 'balanced' or 'weighted'"),
    ],
)
def test_what_cannot_be_sampled_is_refused(tmp_path, y, weights, sampling, error, message):
    store = sf.ingest(np.zeros((60, 2)), tmp_path / "store", y=y, sample_weight=weights, chunk_rows=20)
    with pytest.raises(error, match=message):
        store.plan(batch_size=10, sampling=sampling)


def test_sampled_rows_have_no_order_of_the_store(stores):
    with pytest.raises(InvalidParameterError, match="keeps their order"):
        stores["store"].plan(batch_size=10, shuffle="none", sampling="stratified")
    with pytest.raises(InvalidParameterError, match="sampling must be"):
        sf.StreamOptions(sampling="even")


def test_counts_that_take_too_much_are_refused(stores, monkeypatch, tmp_path):
    monkeypatch.setattr("streamfit.store.row_sampling._MOST_COUNTS_NBYTES", 100)
    store = sf.ingest(np.zeros((60, 2)), tmp_path / "store", y=np.arange(60) % 5, chunk_rows=10)
    with pytest.raises(InvalidDataError, match="To balance 5 classes in 6 chunks takes 280 B"):
        store.plan(batch_size=10, sampling="balanced")


@pytest.mark.parametrize(("sampling", "name"), [("stratified", "y"), ("balanced", "y"), ("weighted", "sample_weight")])
@pytest.mark.parametrize("verify", ["always", "never"])
def test_damaged_labels_and_weights_are_named(tmp_path, sampling, name, verify):
    y, weights = np.arange(90) % 3, 1.0 + np.arange(90) % 2
    store = sf.ingest(
        np.zeros((90, 2)), tmp_path / "store", y=y, sample_weight=weights, chunk_rows=30, compression="none"
    )
    store = sf.open_store(store.path, verify=verify)
    plan = store.plan(batch_size=10, sampling=sampling)
    chunk = next((tmp_path / "store" / name).glob("**/c/1*"))
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-8] + np.array([0 if name == "y" else 5.0]).tobytes())
    if verify == "always":
        with pytest.raises(StoreCorruptError, match=f"Chunk 1 of {name}"):
            list(store.stream(plan))
    elif sampling == "stratified":
        list(store.stream(plan))  # other rows without an error: so `verify` says
    else:
        with pytest.raises(InvalidDataError, match="are not those that were counted"):
            list(store.stream(plan))


@pytest.mark.filterwarnings("ignore::streamfit.errors.ShuffleWarning")
def test_sampling_is_in_the_budget(tmp_path):
    # Half of all rows come from one chunk of 32.
    y = np.arange(64_000) < 500
    store = sf.ingest(np.zeros((64_000, 1), dtype=np.float32), tmp_path / "store", y=y, chunk_rows=2_000)
    for options in ({"window": 1}, {"window": 4}, {}):
        once, balanced = (store.project(batch_size=100, sampling=s, **options) for s in (None, "balanced"))
        assert balanced.own_nbytes > once.own_nbytes + 100 * 32_000
        plan = store.plan(batch_size=100, sampling="balanced", **options)
        list(store.stream(plan, memory_limit=balanced.own_nbytes))
        with pytest.raises(BudgetError, match="balanced sampling"):
            store.stream(plan, memory_limit=balanced.own_nbytes - 1, prefetch=balanced.prefetch)


# -- fits --------------------------------------------------------------------------------------------


def trainer_of(sampling, **changes):
    options = {
        "estimator": SGDClassifier(loss="log_loss", random_state=1),
        "batch_size": 64,
        "epochs": 2,
        "random_state": 5,
        "stream": sf.StreamOptions(window=4, sampling=sampling),
    }
    return sf.StreamTrainer(**(options | changes))


def in_memory(trainer, model, X, y, weights):
    classes = np.unique(y)
    with threadpool_limits(limits=1):
        for epoch in range(trainer.epochs):
            for batch in replace(trainer.plan_, epoch=epoch):
                options = {} if weights is None else {"sample_weight": weights[batch.rows]}
                model.partial_fit(X[batch.rows], y[batch.rows], classes=classes, **options)
    return model


def same(left, right):
    assert vars(left).keys() == vars(right).keys()
    for name, value in vars(left).items():
        assert pickle.dumps(value) == pickle.dumps(getattr(right, name)), name


@pytest.mark.parametrize(
    ("sampling", "kind"), [("stratified", "store"), ("balanced", "view"), ("weighted", "store"), ("weighted", "view")]
)
def test_a_fit_is_a_loop_over_the_plan_in_memory(stores, data, sampling, kind):
    X, y, weights = (values[rows_held(kind)] for values in data)
    trainer = trainer_of(sampling).fit(stores[kind])
    given = None if sampling == "weighted" else weights  # they are in how often a row comes
    same(trainer.estimator_, in_memory(trainer, clone(trainer.estimator), X, y, given))
    assert trainer.plan_.sampling.name == sampling
    assert [entry["n_rows"] for entry in trainer.history_] == [len(X)] * 2


def test_weights_reach_an_estimator_that_takes_none(stores, data, caplog):
    X, y, weights = data
    trainer = trainer_of("weighted", estimator=MLPClassifier((4,), random_state=1))
    trainer.fit(stores["store"])
    same(trainer.estimator_, in_memory(trainer, MLPClassifier((4,), random_state=1), X, y, None))
    trainer.fit(X, y, sample_weight=weights)
    assert "takes no sample_weight" not in caplog.text


@pytest.mark.parametrize(("kind", "cache"), [("store", None), ("view", True), ("sparse", True)])
def test_pipelines_and_caches(stores, data, cache, kind):
    held = rows_held(kind)
    X, y, weights = (values[held] for values in data)
    scaler = StandardScaler(with_mean=False) if kind == "sparse" else MinMaxScaler()
    trainer = trainer_of("balanced", estimator=make_pipeline(scaler, GaussianNB()), cache=cache)
    if kind == "sparse":
        trainer.set_params(estimator=make_pipeline(scaler, SGDClassifier(random_state=1)))
        X = scipy.sparse.csr_array(np.where(X > 1, X, 0))
    trainer.fit(stores[kind])
    fitted = trainer.estimator_[0]
    same(trainer.estimator_[-1], in_memory(trainer, clone(trainer.estimator[-1]), fitted.transform(X), y, weights))


def test_a_cluster_samples_the_same_rows(stores):
    expected = trainer_of("balanced").fit(stores["store"]).estimator_
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as local,
        distributed.Client(local) as client,
        sf.connect(client),
    ):
        same(trainer_of("balanced").fit(stores["store"]).estimator_, expected)


class Interrupted(Exception):  # noqa: N818  # not an error of the library
    pass


class InterruptAfter:
    def __init__(self, n_steps):
        self.left = n_steps

    def notify(self, event):
        self.left -= isinstance(event, StepsDone)
        if self.left == 0:
            raise Interrupted


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_interrupted_fit_goes_on_bit_for_bit(stores, tmp_path, sampling):
    store = stores["store"]
    expected = trainer_of(sampling).fit(store).estimator_
    checkpoint = sf.CheckpointOptions(tmp_path / "run", every_steps=1)
    for n_steps in (3, 9):
        with pytest.raises(Interrupted):
            trainer_of(sampling, checkpoint=checkpoint, callbacks=[InterruptAfter(n_steps)]).fit(store)
    same(trainer_of(sampling, checkpoint=checkpoint).fit(store).estimator_, expected)
    for other in {None, *SAMPLINGS} - {sampling}:
        with pytest.raises(CheckpointMismatchError, match=f"sampling was '{sampling}' and is {other!r}"):
            trainer_of(other, checkpoint=checkpoint).fit(store)


def test_a_run_of_before_there_was_a_choice_took_each_row_once(stores, tmp_path):
    store, run = stores["store"], tmp_path / "run"
    expected = trainer_of(None, checkpoint=run).fit(store).estimator_
    file = run / "run.json"
    definition = json.loads(file.read_text())
    assert definition.pop("sampling") is None
    file.write_text(json.dumps(definition))
    same(trainer_of(None, checkpoint=run).fit(store).estimator_, expected)
    with pytest.raises(CheckpointMismatchError, match="sampling was None and is 'balanced'"):
        trainer_of("balanced", checkpoint=run).fit(store)


def test_rare_classes_are_not_made_up_for_twice(stores):
    twice = SGDClassifier(class_weight="balanced")
    for estimator in (twice, make_pipeline(StandardScaler(), twice)):
        with pytest.raises(InvalidParameterError, match="both make up for rare classes"):
            trainer_of("balanced", estimator=estimator).fit(stores["store"])
    trainer_of("stratified", estimator=twice).fit(stores["store"])


def test_a_fit_refuses_an_order_that_is_none(stores):
    with pytest.raises(InvalidParameterError, match="keeps their order"):
        trainer_of("balanced", shuffle=False).fit(stores["store"])


@pytest.mark.parametrize(
    ("sampling", "cache", "kind"),
    [
        ("stratified", None, "store"),
        ("balanced", True, "view"),
        ("weighted", None, "view"),
        ("weighted", True, "store"),
    ],
)
def test_a_projection_is_that_of_the_fit(stores, sampling, cache, kind):
    trainer = trainer_of(sampling, estimator=make_pipeline(MinMaxScaler(), SGDClassifier()), cache=cache)
    found = trainer.plan(stores[kind])
    trainer.fit(stores[kind])
    assert found.n_steps == trainer.n_steps_
    assert found.window_chunks == trainer.plan_.window_chunks
    assert any(name == f"{sampling} sampling" for name, _ in found.memory)


# -- on the command line -----------------------------------------------------------------------------


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_line_fits_what_the_library_fits(stores, tmp_path):
    store, model = stores["store"], "sklearn.linear_model.SGDClassifier"
    options = ["--batch-size", 64, "--window", 4, "--sampling", "weighted", "--seed", 5]
    out = json.loads(run("fit", store.path, model, "--out", tmp_path / "out", *options, "--json"))
    trainer = trainer_of("weighted", estimator=SGDClassifier(), epochs=1).fit(store)
    fitted = tmp_path / "scores.npy"
    run("score", store.path, tmp_path / "out", "--out", fitted)
    assert out["history"][0]["n_rows"] == N_ROWS
    labels = np.load(fitted)
    np.testing.assert_array_equal(labels, trainer.predict(store).compute())
    assert "weighted sampling" in run("plan", store.path, model, *options[:-2])
    told = run("fit", store.path, model, "--out", tmp_path / "no", *options[:-2], "--shuffle", "none", code=2)
    assert "keeps their order" in " ".join(told.split())


@pytest.mark.parametrize("option", [["--sampling", "balanced"], ["--shuffle", "none"], ["--window", "3"]])
def test_detectors_have_no_order_of_rows(stores, tmp_path, option):
    told = run("fit", stores["store"].path, "pyod.models.hbos.HBOS", "--out", tmp_path / "out", *option, code=2)
    assert f"{option[0]} is for an estimator" in " ".join(told.split())
