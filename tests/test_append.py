"""Rows added to a store: the right columns, all or none, once."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamfit as sf
from streamfit.errors import (
    AlreadyStoredWarning,
    BudgetError,
    InvalidDataError,
    InvalidParameterError,
    StoreExistsError,
    StoreIncompleteError,
    StoreLockedError,
    StoreNotFoundError,
)
from streamfit.sources import npy
from streamfit.store.versions import load_journal
from streamfit.store.writer import StoreWriter

N_ROWS, N_OLD, CHUNK = 237, 120, 50
NAMES = ("a", "b", "c", "d", "e")
ROLES = {"y": "label", "sample_weight": "weight", "ids": "number"}
rng = np.random.default_rng(11)
X = rng.normal(size=(N_ROWS, len(NAMES))).astype("f4")
SIDES = {"y": rng.choice(["ham", "spam"], N_ROWS), "sample_weight": rng.random(N_ROWS), "ids": np.arange(N_ROWS)}
OLD, NEW = slice(0, N_OLD), slice(N_OLD, N_ROWS)


def sides(rows):
    return {name: values[rows] for name, values in SIDES.items()}


def frame(rows=slice(None)):
    table = pd.DataFrame(X, columns=list(NAMES)).assign(
        label=SIDES["y"], weight=SIDES["sample_weight"], number=SIDES["ids"]
    )
    return table[rows]


@pytest.fixture
def store(tmp_path):
    """The first rows, with names, labels, weights and ids."""
    return sf.ingest(frame(OLD), tmp_path / "s", chunk_rows=CHUNK, **ROLES)


@pytest.fixture
def plain(tmp_path):
    """The first rows of an array, without anything."""
    return sf.ingest(X[OLD], tmp_path / "p", chunk_rows=CHUNK)


def assert_equal(store, rows=slice(None), *, X=X):
    np.testing.assert_array_equal(store.X.compute(), X[rows])
    for name, values in SIDES.items():
        np.testing.assert_array_equal(getattr(store, name).compute(), values[rows])
    assert store.verify().ok


# -- sources -------------------------------------------------------------------------------------------


def parquet(path):
    frame(NEW).to_parquet(path / "new.parquet", row_group_size=30)
    return path / "new.parquet"


def npz(path):
    names = {"y": "label", "sample_weight": "weight", "ids": "number"}
    np.savez(path / "new.npz", X=X[NEW], **{names[name]: values[NEW] for name, values in SIDES.items()})
    return path / "new.npz"


SOURCES = {
    "frame": lambda _: (frame(NEW), ROLES),
    "frame-in-another-order": lambda _: (frame(NEW)[["weight", "c", "e", "label", "a", "number", "d", "b"]], ROLES),
    "parquet": lambda path: (parquet(path), ROLES),
    "npz": lambda path: (npz(path), ROLES),
    "array": lambda _: (X[NEW], sides(NEW)),
    "dask": lambda _: (da.from_array(X[NEW], chunks=(40, 5)), sides(NEW)),
    "dask-frame": lambda _: (dd.from_pandas(frame(NEW), npartitions=3), ROLES),
    "store": lambda path: (sf.ingest(frame(NEW), path / "other", chunk_rows=17, **ROLES), {}),
    "path-of-a-store": lambda path: sf.ingest(frame(NEW), path / "other", **ROLES) and (path / "other", {}),
    "batches": lambda _: ([(X[NEW], SIDES["y"][NEW], SIDES["sample_weight"][NEW])], {"ids": SIDES["ids"][NEW]}),
}
COMPARED = ("dask", "dask-frame", "batches")


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_of_any_source_follow_those_of_the_store(tmp_path, store, kind):
    source, options = SOURCES[kind](tmp_path)
    assert_equal(sf.append(source, store, **options))
    # Who had it open reads what it was.
    assert_equal(store, OLD)
    assert store.class_counts.sum() == N_OLD


@pytest.mark.parametrize("give", [str, lambda path: path, sf.open_store], ids=["text", "path", "store"])
def test_a_store_is_given_as_it_suits(plain, give):
    assert sf.append(X[NEW], give(plain.path)).n_rows == N_ROWS


def test_the_mode_of_verification_stays(plain):
    assert sf.append(X[NEW], sf.open_store(plain.path, verify="first")).ref.verify == "first"


def test_what_is_appended_equals_what_is_written_at_once(tmp_path, store):
    appended = sf.append(frame(NEW), store, **ROLES)
    whole = sf.ingest(frame(), tmp_path / "whole", chunk_rows=CHUNK, **ROLES)
    assert appended.manifest.checksums == whole.manifest.checksums
    np.testing.assert_array_equal(appended.classes, whole.classes)
    np.testing.assert_array_equal(appended.class_counts, whole.class_counts)
    np.testing.assert_allclose(appended.statistics.mean, whole.statistics.mean, rtol=1e-12)
    np.testing.assert_array_equal(appended.statistics.maximum, whole.statistics.maximum)


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 140), min_size=2, max_size=5), chunk_rows=st.integers(20, 90))
def test_any_number_of_appends(tmp_path_factory, cuts, chunk_rows):
    rows = np.arange(3 * sum(cuts)).reshape(-1, 3)
    ends = np.cumsum(cuts).tolist()
    path = tmp_path_factory.mktemp("appends") / "s"
    store = sf.ingest(rows[: ends[0]], path, chunk_rows=chunk_rows, y=rows[: ends[0], 0] % 2)
    for start, end in itertools.pairwise(ends):
        store = sf.append(rows[start:end], path, y=rows[start:end, 0] % 2)
    np.testing.assert_array_equal(store.X.compute(), rows)
    np.testing.assert_array_equal(store.y.compute(), rows[:, 0] % 2)
    np.testing.assert_array_equal(store.statistics.mean, rows.mean(axis=0))
    assert [part["n_rows"] for part in store.manifest.appended] == cuts[1:]


# -- once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind not in COMPARED])
def test_a_known_source_is_appended_once(tmp_path, store, kind):
    source, options = SOURCES[kind](tmp_path)
    first = sf.append(source, store, **options)
    with pytest.warns(AlreadyStoredWarning, match="left as it is"):
        assert sf.append(source, store, **options).manifest.digest == first.manifest.digest
    with pytest.raises(StoreExistsError, match=r'/s has the rows of .* already.*if_exists="again"'):
        sf.append(source, store, if_exists="error", **options)
    again = sf.append(source, store, if_exists="again", **options)
    assert again.n_rows == 2 * N_ROWS - N_OLD
    np.testing.assert_array_equal(again.take(np.arange(N_ROWS, again.n_rows)), X[NEW])


def test_the_first_source_counts_as_well(plain):
    with pytest.warns(AlreadyStoredWarning):
        assert sf.append(X[OLD], plain).manifest.digest == plain.manifest.digest
    assert sf.append(X[OLD], plain, if_exists="again").n_rows == 2 * N_OLD


@pytest.mark.parametrize("kind", COMPARED)
def test_what_is_not_known_again_is_always_added(tmp_path, store, kind):
    for n_times in (1, 2, 3):
        source, options = SOURCES[kind](tmp_path)
        store = sf.append(source, store, if_exists="error", **options)
        assert store.n_rows == N_OLD + n_times * (N_ROWS - N_OLD)


@pytest.mark.filterwarnings("ignore::streamfit.errors.AlreadyStoredWarning")
def test_the_ingest_of_the_first_source_stays_done(tmp_path):
    for number, chunk in enumerate([slice(0, 120), slice(120, 200)]):
        frame(chunk).to_parquet(tmp_path / f"{number}.parquet")
    for _ in range(2):  # a script that is run again
        sf.ingest(tmp_path / "0.parquet", tmp_path / "s", chunk_rows=CHUNK, **ROLES)
        store = sf.append(tmp_path / "1.parquet", tmp_path / "s", **ROLES)
        assert_equal(store, slice(0, 200))


def test_files_are_known_by_their_content(tmp_path):
    for number, chunk in enumerate([slice(0, 120), slice(120, 160), slice(160, 200)]):
        frame(chunk).to_parquet(tmp_path / f"day{number}.parquet")
    sf.ingest(tmp_path / "day0.parquet", tmp_path / "s", chunk_rows=CHUNK, **ROLES)
    store = sf.append(tmp_path / "day1.parquet", tmp_path / "s", **ROLES)
    (tmp_path / "day1.parquet").rename(tmp_path / "day1b.parquet")
    with pytest.warns(AlreadyStoredWarning, match=r"has the rows of day1b\.parquet already"):
        assert len(sf.append(tmp_path / "day1b.parquet", store, **ROLES)) == 160
    with pytest.raises(StoreExistsError, match=r"rows of day0\.parquet, day1b\.parquet already, and not .* 1 files"):
        sf.append(str(tmp_path / "day*.parquet"), store, **ROLES)
    assert_equal(sf.append(tmp_path / "day2.parquet", store, **ROLES), slice(0, 200))
    assert len(sf.append(str(tmp_path / "day*.parquet"), store, if_exists="again", **ROLES)) == 400


# -- all or none ---------------------------------------------------------------------------------------


def failing(after):
    """Rows that end in an error."""
    for start in range(N_OLD, N_ROWS, 20):
        if start - N_OLD >= after:
            raise RuntimeError("the network is gone")
        yield X[start : start + 20]


def test_an_append_that_fails_leaves_the_store_as_it_was(plain):
    with pytest.raises(RuntimeError, match="network"):
        sf.append(failing(80), plain)
    now = sf.open_store(plain.path)
    assert now.manifest.digest == plain.manifest.digest
    np.testing.assert_array_equal(now.X.compute(), X[OLD])
    assert now.verify().ok


def test_an_append_that_failed_is_gone_on_with(tmp_path, plain, monkeypatch):
    np.save(tmp_path / "new.npy", X[NEW])
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 10 * X.itemsize * len(NAMES))
    monkeypatch.setattr("streamfit.store.committing._COMMIT_SECONDS", 0.0)
    write, calls = StoreWriter.append, []

    def fail_at_the_seventh(self, *rows):
        calls.append(len(rows[0]))
        if len(calls) == 7:
            raise RuntimeError("killed")
        write(self, *rows)

    monkeypatch.setattr(StoreWriter, "append", fail_at_the_seventh)
    with pytest.raises(RuntimeError, match="killed"):
        sf.append(tmp_path / "new.npy", plain)
    assert sf.open_store(plain.path).n_rows == N_OLD
    # 120 rows and 50 of 60 new ones fill whole chunks: 150 rows are noted.
    assert load_journal(tmp_path / "p").n_rows == 150
    del calls[:]
    calls.extend([0] * 7)
    store = sf.append(tmp_path / "new.npy", plain)
    assert sum(calls[7:]) == N_ROWS - 150
    np.testing.assert_array_equal(store.X.compute(), X)
    assert store.verify().ok
    assert load_journal(tmp_path / "p") is None


KILLED = """
    import sys
    import numpy as np
    import streamfit as sf
    from streamfit.store import committing, writer

    committing._COMMIT_SECONDS = 0.0
    write = writer.StoreWriter.append

    def slowly(self, X, *sides):
        write(self, X, *sides)
        if self.next_row > 0:  # what lies behind the last whole chunk of the store is given again
            print(self.next_row, flush=True)
            sys.stdin.readline()

    writer.StoreWriter.append = slowly
    sf.append(sys.argv[1], sys.argv[2])
"""


def test_a_killed_append_is_gone_on_with_to_the_same_bytes(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).random((60_000, 20))  # two blocks of 8 MiB
    np.save(tmp_path / "new.npy", rows)
    for name in ("killed", "whole"):
        sf.ingest(rows[:1_000], tmp_path / name, chunk_rows=3_000)
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path / "new.npy", tmp_path / "killed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    n_given = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert 0 < n_given < len(rows)
    assert sf.open_store(tmp_path / "killed").n_rows == 1_000
    began = load_journal(tmp_path / "killed").appended[-1]["n_rows"]
    read, read_rows = [], npy._read_rows

    def spy(stream, header, start, stop, name):
        read.append(start)
        return read_rows(stream, header, start, stop, name)

    monkeypatch.setattr(npy, "_read_rows", spy)
    killed = sf.append(tmp_path / "new.npy", tmp_path / "killed")
    assert min(read) == began > 0
    whole = sf.append(tmp_path / "new.npy", tmp_path / "whole")
    assert killed.manifest.digest == whole.manifest.digest
    for file in sorted((tmp_path / "whole").rglob("c/*/*")):
        assert file.read_bytes() == (tmp_path / "killed" / file.relative_to(tmp_path / "whole")).read_bytes()


def test_an_append_of_other_rows_forgets_one_that_stopped(tmp_path, plain):
    with pytest.raises(RuntimeError, match="network"):
        sf.append(failing(80), plain)
    np.testing.assert_array_equal(sf.append([X[NEW] + 1], plain).X.compute(), np.concatenate([X[OLD], X[NEW] + 1]))


def test_one_writer_at_a_time(plain):
    with (
        StoreWriter.append_to(plain.path, source={}, continues=False),
        pytest.raises(StoreLockedError, match="is being written by process"),
    ):
        sf.append(X[NEW], plain)


# -- what does not fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "options", "message", "column"),
    [
        pytest.param(
            lambda table: table.drop(columns="c"), ROLES, "has not the column 'c' of the store", "c", id="missing"
        ),
        pytest.param(
            lambda table: table.rename(columns={"c": "C", "d": "D"}),
            ROLES,
            "has not the columns 'c', 'd' of the store .* and has the columns 'C', 'D' instead",
            "c",
            id="renamed",
        ),
        pytest.param(
            lambda table: table.assign(f=1.0), ROLES, "has the column 'f', which the store .*columns=", "f", id="extra"
        ),
        pytest.param(
            lambda table: table.drop(columns="label"),
            {"sample_weight": "weight", "ids": "number"},
            r"Each row of the store .* has y, and the source gives none. Give y=\.",
            None,
            id="no-labels",
        ),
        pytest.param(
            lambda table: table,
            {"y": "label", "sample_weight": "weight"},
            "has the column 'number', .*name it as y, sample_weight or ids",
            "number",
            id="ids-not-named",
        ),
        pytest.param(
            lambda table: table.astype({"a": "f8"}),
            ROLES,
            "values of float64, and the store .* holds float32",
            None,
            id="wider-type",
        ),
        pytest.param(
            lambda table: table.assign(label=1), ROLES, "y has dtype int64", None, id="labels-of-another-type"
        ),
    ],
)
def test_tables_that_do_not_fit(store, change, options, message, column):
    with pytest.raises(InvalidDataError, match=message) as caught:
        sf.append(change(frame(NEW)), store, **options)
    assert caught.value.column == column
    assert sf.open_store(store.path).manifest.digest == store.manifest.digest
    assert_equal(sf.append(frame(NEW), store, **ROLES))


def test_columns_say_what_is_taken_of_a_wider_table(store):
    wider = frame(NEW).assign(z=1.0, text="x")
    assert_equal(sf.append(wider, store, columns=NAMES[::-1], **ROLES))
    with pytest.raises(InvalidDataError, match="has the column 'z'"):
        sf.append(wider, store, columns=[*NAMES, "z"], if_exists="again", **ROLES)
    with pytest.raises(InvalidDataError, match="has not the column 'e'"):
        sf.append(wider, store, columns=NAMES[:4], if_exists="again", **ROLES)


def test_columns_without_names_are_taken_by_position(tmp_path, plain):
    renamed = frame(NEW)[list(NAMES)].rename(columns=str.upper)
    np.testing.assert_array_equal(sf.append(renamed, plain).X.compute(), X)
    named = sf.ingest(frame(OLD)[list(NAMES)], tmp_path / "named")
    np.testing.assert_array_equal(sf.append(X[NEW], named).X.compute(), X)


def test_what_the_store_has_not_is_refused(plain):
    with pytest.raises(InvalidDataError, match=r"gives sample_weight and y, and the store .*streamfit\.attach"):
        sf.append(X[NEW], plain, y=SIDES["y"][NEW], sample_weight=SIDES["sample_weight"][NEW])


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        pytest.param(X[NEW, :4], {}, InvalidDataError, "4 columns of features and the store .* has 5", id="width"),
        pytest.param(X[NEW].astype("f8"), {}, InvalidDataError, "begin a store with a wider dtype", id="type"),
        pytest.param(X[:0], {}, InvalidDataError, "0 rows", id="no-rows"),
        pytest.param(X[NEW], {"y": "label"}, InvalidParameterError, "names a column", id="name-in-an-array"),
        pytest.param(X[NEW], {"columns": "a"}, InvalidParameterError, "sequence of names", id="columns"),
        pytest.param(X[NEW], {"if_exists": "overwrite"}, InvalidParameterError, "if_exists", id="if_exists"),
        pytest.param(X[NEW], {"memory_limit": "1MB"}, BudgetError, "lower chunk_rows", id="memory"),
    ],
)
def test_what_cannot_be_appended(plain, source, options, error, message):
    with pytest.raises(error, match=message):
        sf.append(source, plain, **options)
    assert sf.open_store(plain.path).manifest.digest == plain.manifest.digest


def test_messages_count_the_rows_of_the_source(plain, store):
    rows = X[NEW].copy()
    rows[71, 3] = np.nan
    with pytest.raises(InvalidDataError, match="X has NaN in row 71, column 3") as caught:
        sf.append(rows, plain)
    assert caught.value.row == 71
    weights = np.ones(N_ROWS - N_OLD)
    weights[33] = np.inf
    with pytest.raises(InvalidDataError, match="sample_weight of row 33 is inf"):
        sf.append(X[NEW], store, **{**sides(NEW), "sample_weight": weights})
    labels = [*SIDES["y"][NEW]]
    labels[44] = None
    with pytest.raises(InvalidDataError, match="label of row 44 is missing"):
        sf.append([(X[NEW], labels, SIDES["sample_weight"][NEW])], store, ids=SIDES["ids"][NEW])
    lying = da.map_blocks(lambda block: np.repeat(block, 2, axis=0), da.from_array(X[NEW], chunks=(50, 5)), dtype="f4")
    with pytest.raises(InvalidDataError, match="more rows than it says it has: row 117"):
        sf.append(lying, plain)
    assert sf.open_store(plain.path).manifest.digest == plain.manifest.digest
    assert sf.open_store(store.path).manifest.digest == store.manifest.digest


def test_a_narrower_type_fits(plain):
    rows = rng.integers(0, 9, size=(30, 5)).astype("i2")
    store = sf.append(rows, plain)
    assert store.dtype == np.dtype("f4")
    np.testing.assert_array_equal(store.take(np.arange(N_OLD, N_OLD + 30)), rows)


def test_values_that_are_kept_stay_kept(tmp_path):
    store = sf.ingest(X[OLD], tmp_path / "s", nonfinite="keep")
    rows = np.full((1, 5), np.nan, "f4")
    assert sf.append(rows, store).statistics.n_nonfinite.tolist() == [1] * 5


def test_a_store_is_not_appended_to_itself(plain):
    for source in (plain, plain.path, plain.X, plain[10:20]):
        with pytest.raises(StoreExistsError, match="over its source"):
            sf.append(source, plain)


def test_a_view_is_no_store_to_append_to(plain):
    with pytest.raises(InvalidParameterError, match=r"a view of 10 rows of .*p, and only whole stores"):
        sf.append(X[NEW], plain[10:20])


def test_a_store_is_there_and_complete(tmp_path):
    with pytest.raises(StoreNotFoundError):
        sf.append(X[NEW], tmp_path / "none")
    with pytest.raises(RuntimeError, match="network"):
        sf.ingest(failing(80), tmp_path / "s", chunk_rows=CHUNK)
    with pytest.raises(StoreIncompleteError):
        sf.append(X[NEW], tmp_path / "s")


def test_a_journal_that_outlived_its_commit_is_swept(tmp_path, monkeypatch):
    store = sf.ingest(np.arange(20.0).reshape(10, 2), tmp_path / "a.zarr", chunk_rows=4)
    monkeypatch.setattr("streamfit.store.committing.drop_journal", lambda _: None)  # killed before this line
    more = np.arange(30.0).reshape(15, 2)
    longer = sf.append(more, store)
    monkeypatch.undo()
    journal = Path(store.path, "streamfit/journal.json")
    assert journal.exists()
    with pytest.warns(AlreadyStoredWarning):
        assert sf.append(more, longer).digest == longer.digest
    assert not journal.exists()
