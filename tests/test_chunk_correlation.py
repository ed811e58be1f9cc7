"""The correlation of labels and features within the chunks of stores, the windows chosen by it, and the warning."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import streamfit as sf
from streamfit.errors import InvalidParameterError, StoreCorruptError
from streamfit.incremental.definition import plan_fit
from streamfit.maths.chunk_variance import MeanSquares
from streamfit.plan.budget import FIXED_NBYTES, stream_budget
from streamfit.plan.layout import StoreLayout, chunk_rows_for
from streamfit.plan.shuffle_quality import rewritten_chunks, shuffle_quality
from streamfit.run.correlation import chunk_correlation, sampled_chunks
from streamfit.run.label_correlation import sampled_outputs
from streamfit.run.shuffle import _DEFAULT_LIMIT_NBYTES
from streamfit.run.shuffle_rows import block_nbytes, held_row_nbytes

N_CHUNKS, CHUNK_ROWS = 40, 50
N_ROWS = N_CHUNKS * CHUNK_ROWS - 13  # a short last chunk


def textbook(columns, edges):
    """Sums of squares of each column over the sampled chunks, and the correlation that they add up to."""
    between, within = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    parts = [columns[edges[i] : edges[i + 1]] for i in sampled_chunks(len(edges) - 1)]
    parts = [part[np.isfinite(part).all(axis=1)] for part in parts]
    parts = [part for part in parts if len(part)]
    sizes = np.array([len(part) for part in parts])
    mean = np.concatenate(parts).mean(axis=0)
    for part in parts:
        between += len(part) * (part.mean(axis=0) - mean) ** 2 / (len(parts) - 1)
        within += ((part - part.mean(axis=0)) ** 2).sum(axis=0) / (sizes.sum() - len(parts))
    size = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(parts) - 1)
    return between, within, size


def of_sums(between, within, size):
    return (between.sum() - within.sum()) / (between.sum() + (size - 1) * within.sum())


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    alike = np.repeat(rng.normal(size=N_CHUNKS), CHUNK_ROWS)[:N_ROWS]
    X = rng.normal(size=(N_ROWS, 4)).astype("f4") + alike[:, None].astype("f4") * [0, 0.5, 1, 2]
    return X.astype("f4"), alike + rng.normal(size=N_ROWS)


def ingest(path, X, y=None, **options):
    return sf.ingest(X, path, y=y, **{"chunk_rows": CHUNK_ROWS, **options})


@pytest.mark.parametrize("kind", ["codes", "texts", "flags", "float classes", "many classes", "target"])
def test_labels_are_as_alike_as_the_analysis_of_variance_says(tmp_path, rows, kind):
    X, value = rows
    classes = np.digitize(value, [-1, 0, 1.5])
    y = {
        "codes": classes,
        "texts": np.array(["zeta", "alpha", "mu", "beta"])[classes],
        "flags": value > 0,
        "float classes": classes.astype(float),
        "many classes": (value * 100).astype(np.int64),
        "target": np.append(value[1:] * 1e200, 0.5),  # of which no square is finite
    }[kind]
    store = ingest(tmp_path / "s", X, y)
    found = chunk_correlation(store.reader)
    columns = (y / np.abs(y).max())[:, None] if kind == "target" else (y[:, None] == np.unique(y)).astype(float)
    expected = of_sums(*textbook(columns, store.layout.chunk_edges))
    if kind in ("codes", "float classes", "many classes"):  # which may be a target of whole numbers
        by_value = of_sums(*textbook(y[:, None].astype(float), store.layout.chunk_edges))
        assert by_value > expected
        expected = by_value
    assert found.rho == pytest.approx(expected, abs=1e-9)
    assert (found.of, found.n_sampled) == ("labels", 32)
    if kind == "target":
        assert found.classes is found.class_counts is found.class_shares is None
    else:
        assert found.classes == tuple(np.unique(y).tolist())
        assert sum(found.class_counts) == N_ROWS
        held = [
            np.mean([(y[i * CHUNK_ROWS : (i + 1) * CHUNK_ROWS] == c).any() for i in sampled_chunks(N_CHUNKS)])
            for c in np.unique(y)
        ]
        np.testing.assert_allclose(found.class_shares, held)


@pytest.mark.parametrize("kind", ["dense", "sparse", "transformed", "view", "with gaps"])
def test_features_are_as_alike_as_their_columns_on_average(tmp_path, rows, kind):
    X = rows[0].copy()
    X[:, 0] = 3  # nothing to be alike
    options = {}
    if kind == "with gaps":
        X[5:30, 1] = np.nan
        X[N_ROWS // 2 :, 2] = np.inf
        options["nonfinite"] = "keep"
    store = ingest(tmp_path / "s", csr_array(X) if kind == "sparse" else X, **options)
    if kind == "transformed":
        store = store.transformed(StandardScaler().fit(X))
    if kind == "view":
        store, X = store[100:1_800:2], X[100:1_800:2]
    found = chunk_correlation(store.reader, of="features")
    X = X.astype(np.float64)
    X[np.isinf(X)] = np.nan
    expected = [of_sums(*textbook(X[:, [j]], store.layout.chunk_edges)) for j in (1, 2, 3)]
    assert found.rho == pytest.approx(np.mean(expected), abs=1e-5)
    assert (found.of, found.classes) == ("features", None)


def test_chunks_of_a_view_are_its_own(tmp_path, rows):
    X, value = rows
    y = (value > 0).astype(int)
    view = ingest(tmp_path / "s", X, y)[np.arange(N_ROWS) % 3 == 1]
    found = chunk_correlation(view.reader)
    kept = y[1::3]
    expected = textbook((kept[:, None] == [0, 1]).astype(float), view.layout.chunk_edges)
    assert found.rho == pytest.approx(of_sums(*expected), abs=1e-9)
    assert found.class_counts == tuple(np.bincount(kept))


@pytest.mark.parametrize(
    ("y", "chunk_rows"),
    [
        pytest.param(np.arange(60) // 30, 60, id="one chunk"),
        pytest.param(np.arange(60) // 30, 1, id="chunks of one row"),
        pytest.param(np.zeros(60, int), 10, id="one class"),
        pytest.param(np.full(60, 0.5), 10, id="a constant target"),
        pytest.param(np.zeros(60) + 1e-310, 10, id="a tiny target"),
    ],
)
def test_what_cannot_be_alike_has_no_correlation(tmp_path, y, chunk_rows):
    store = ingest(tmp_path / "s", np.ones((60, 2), "f4"), y, chunk_rows=chunk_rows)
    assert chunk_correlation(store.reader).rho == 0.0
    assert chunk_correlation(store.reader, of="features").rho == 0.0
    assert store.plan(batch_size=7).window_chunks == min(store.layout.n_chunks, 16)


def test_a_store_without_labels_has_none(tmp_path, rows):
    store = ingest(tmp_path / "s", rows[0])
    assert chunk_correlation(store.reader) is None
    assert store.plan(batch_size=9).window_chunks == 16
    with pytest.raises(InvalidParameterError, match="of must be 'labels' or 'features', got 'rows'"):
        chunk_correlation(store.reader, of="rows")


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_class_in_chunks_that_were_not_sampled_is_not_overlooked(tmp_path, share):
    n_chunks = 90
    unseen = sorted(set(range(n_chunks)) - set(sampled_chunks(n_chunks)))
    held = [chunk for chunk in unseen if chunk + 1 in unseen][:6]
    chunks = np.zeros((n_chunks, CHUNK_ROWS), dtype=int)
    chunks[held, : int(share * CHUNK_ROWS)] = 1
    found = chunk_correlation(ingest(tmp_path / "s", np.zeros((chunks.size, 1), "f4"), chunks.ravel()).reader)
    assert found.class_shares == (1.0, 0.0)
    between = CHUNK_ROWS * chunks.mean(axis=1).var(ddof=1)
    within = chunks.var(axis=1, ddof=1).mean()
    everywhere = (between - within) / (between + (CHUNK_ROWS - 1) * within)
    assert found.rho == pytest.approx(everywhere, rel=1e-9)


def test_a_class_that_chance_would_not_show_tells_nothing(tmp_path):
    y = np.zeros(90 * CHUNK_ROWS, dtype=int)
    y[min(set(range(90)) - set(sampled_chunks(90))) * CHUNK_ROWS] = 1
    assert chunk_correlation(ingest(tmp_path / "s", np.zeros((len(y), 1), "f4"), y).reader).rho == 0.0


@pytest.mark.parametrize("kind", ["numbers", "classes", "mixed", "flags"])
def test_of_several_labels_the_one_that_is_most_alike_decides(tmp_path, rows, kind):
    X, value = rows
    shuffled = np.random.default_rng(0).permutation(value)
    classes = [np.digitize(column, [-1, 0, 1]) for column in (shuffled, value)]
    y = np.column_stack(
        {
            "numbers": [shuffled, value, value + shuffled],
            "classes": [*classes, np.arange(N_ROWS) % 3],
            "mixed": [shuffled, classes[1].astype(float)],
            "flags": [shuffled > 0, value > 0],
        }[kind]
    )
    found = chunk_correlation(ingest(tmp_path / "s", X, y).reader)
    alone = [
        chunk_correlation(ingest(tmp_path / f"s{place}", X, column.copy()).reader) for place, column in enumerate(y.T)
    ]
    assert found == max(alone, key=lambda one: one.rho)
    assert found.rho == alone[1].rho > 0.2


def test_of_very_many_labels_some_are_looked_at_and_each_chunk_is_read_once(tmp_path, monkeypatch):
    y = np.random.default_rng(1).normal(size=(N_ROWS, 100))
    y[:, sampled_outputs(100)[7]] = np.arange(N_ROWS)
    store = ingest(tmp_path / "s", np.zeros((N_ROWS, 1), "f4"), y)
    read = []
    reader = store.reader
    plain = type(reader).read_array
    monkeypatch.setattr(
        type(reader), "read_array", lambda self, name, *given: read.append(name) or plain(self, name, *given)
    )
    assert chunk_correlation(reader).rho > 0.9
    assert read == ["y"] * 32


def test_sampled_chunks_follow_from_their_number():
    assert sampled_chunks(32) == list(range(32))
    for n_chunks in (33, 40, 1_000, 10**12):
        chosen = sampled_chunks(n_chunks)
        assert len(set(chosen)) == 32
        assert chosen == sorted(chosen)
        assert 0 <= chosen[0] <= chosen[-1] < n_chunks
    # Another NumPy or machine must choose the same, or another window would follow.
    assert sampled_chunks(1_000)[:8] == [34, 98, 122, 198, 207, 208, 213, 226]


def test_labels_are_read_once(tmp_path, rows, monkeypatch):
    X, value = rows
    store = ingest(tmp_path / "s", X, (value > 0).astype(int))
    found = chunk_correlation(store.reader)
    monkeypatch.setattr(type(store.reader), "read_array", None)
    assert chunk_correlation(sf.open_store(tmp_path / "s").reader) is found


def test_labels_are_verified(tmp_path, rows):
    X, value = rows
    store = ingest(tmp_path / "s", X, (value > 0).astype(int))
    damaged = tmp_path / "s" / "y" / "c" / str(sampled_chunks(N_CHUNKS)[3])
    data = bytearray(damaged.read_bytes())
    data[3] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(StoreCorruptError, match="of y"):
        store.plan(batch_size=10)
    assert store.plan(batch_size=10, shuffle="none").window_chunks == 16  # asks for no labels


def test_a_large_offset_costs_no_digits():
    rng = np.random.default_rng(0)
    chunks = rng.normal(size=(20, 30, 2)) + rng.normal(size=(20, 1, 2))
    for offset in (0.0, 1e9):
        squares = MeanSquares(2)
        for chunk in chunks + offset:
            squares.add(n_rows=30, mean=chunk.mean(axis=0), deviations=chunk.var(axis=0) * 30)
        np.testing.assert_allclose(squares.between(), 30 * chunks.mean(axis=1).var(axis=0, ddof=1), rtol=1e-5)


# -- windows -----------------------------------------------------------------------------------------


@pytest.fixture
def sorted_store(tmp_path):
    y = np.repeat(np.arange(4), 1_000)
    X = np.random.default_rng(0).normal(size=(4_000, 3)).astype("f4") + y[:, None].astype("f4")
    return ingest(tmp_path / "sorted", X, y)


def test_a_fit_has_the_window_of_the_plan_and_a_resumed_one_keeps_its_own(tmp_path, rows):
    X, value = rows
    store = ingest(tmp_path / "s", X, value)
    wanted = store.plan(batch_size=100, window=None)
    assert wanted.window_chunks > 16
    trainer = sf.StreamTrainer(SGDRegressor(random_state=0), batch_size=100).fit(store)
    assert trainer.plan_.window_chunks == wanted.window_chunks
    kept = plan_fit(
        store,
        SGDRegressor(),
        batch_size=100,
        n_epochs=1,
        shuffle="window",
        stream=sf.StreamOptions(),
        seed=0,
        memory_limit=None,
        earlier={"window_chunks": 7},
    )
    assert kept.window_chunks == 7


@pytest.mark.parametrize("n_features", [4, 20, 300, 5_000])
def test_the_advice_counts_on_no_more_chunks_than_a_shuffle_holds(tmp_path, n_features):
    reader = ingest(tmp_path / "s", np.zeros((3, n_features), "f4"), np.zeros(3, int)).reader
    chunk_rows = chunk_rows_for(n_features, reader.dtype.itemsize)
    layout = StoreLayout(10**9, n_features, chunk_rows, reader.dtype.itemsize)
    room = _DEFAULT_LIMIT_NBYTES - FIXED_NBYTES - block_nbytes(reader) - 6 * layout.chunk_nbytes
    held = layout.chunks_within_rows(room // held_row_nbytes(reader))
    assert held / 3 < rewritten_chunks(layout) <= held


# -- the warning -------------------------------------------------------------------------------------


def test_sorted_rows_are_warned_of_once_with_the_call_that_helps(tmp_path, sorted_store):
    with pytest.warns(sf.ShuffleWarning) as told:
        plan = sorted_store.plan(batch_size=50, window=8)
    (warning,) = told
    assert Path(warning.filename).name == "test_chunk_correlation.py"
    message = str(warning.message)
    assert message.startswith("With 8 of 80 chunks in a window, labels are so much alike within chunks (correlation 1)")
    (passes,) = re.findall(r"store\.shuffle\(path, passes=(\d)\)", message)
    shuffled = sorted_store.shuffle(tmp_path / "shuffled", passes=int(passes))
    shuffled.plan(batch_size=50, window=8)  # warnings are errors here
    quality = shuffle_quality(
        shuffled.layout,
        batch_size=50,
        window_chunks=plan.window_chunks,
        correlation=chunk_correlation(shuffled.reader),
        shuffle="window",
    )
    assert quality.batch_variance == pytest.approx(1, abs=0.1)
    assert quality.remaining_drift < 2


def test_a_fit_warns_once_where_the_user_wrote_it(sorted_store):
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=50, epochs=2, stream=sf.StreamOptions(window=8))
    with pytest.warns(sf.ShuffleWarning, match=r"lacks a class .* with a probability of 0\.\d+, most often") as told:
        trainer.fit(sorted_store)
    assert [Path(warning.filename).name for warning in told] == ["test_chunk_correlation.py"]


def test_what_was_asked_for_is_not_warned_of(sorted_store):
    sorted_store.plan(batch_size=50, shuffle="none")
    sorted_store.plan(batch_size=50, window=80)
    sf.StreamTrainer(SGDClassifier(), batch_size=50, shuffle="none").fit(sorted_store)


def test_the_command_line_says_it_in_one_line_as_a_command(tmp_path, sorted_store):
    from streamfit.cli.app import app

    limit = stream_budget(
        sorted_store.layout, batch_size=50, window_chunks=5, prefetch=0, label_nbytes=8, n_epochs=1, sampling=None
    ).nbytes
    command = ["fit", sorted_store.path, "sklearn.linear_model.SGDClassifier", "--out", str(tmp_path / "out")]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = CliRunner().invoke(app, [*command, "--memory-limit", str(limit), "--batch-size", "50"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stderr.splitlines() if "arning" in line]
    assert re.match(r"warning: With \d of 80 chunks in a window, labels are so much alike", line)
    assert "streamfit shuffle STORE DEST --passes 1" in line
