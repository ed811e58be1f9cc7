"""Any history of a store against a plain numpy model: writers that commit, die and go on, readers, views."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import streamfit as sf
from streamfit.errors import StoreExistsError, StoreIncompleteError, StoreLockedError, StoreNotFoundError
from streamfit.store.attach import attach_columns
from streamfit.store.integrity import verify
from streamfit.store.manifest import load_manifest
from streamfit.store.writer import StoreWriter

N_FEATURES = 3
TEXTS = np.array(["ham", "spam", "eggs", "a long one"])


@dataclass
class Rows:
    """What a source gives: all that numpy has to know."""

    X: np.ndarray
    y: np.ndarray | None

    def __len__(self):
        return len(self.X)

    def __getitem__(self, cut):
        return Rows(self.X[cut], None if self.y is None else self.y[cut])

    def __add__(self, other):
        return Rows(np.concatenate([self.X, other.X]), None if self.y is None else np.concatenate([self.y, other.y]))


LABELS = ["none", "texts", "several"]


def draw_labels(rng, n_rows, labels):
    if labels == "none":
        return None
    # Of several labels one is now and then no class, from any row on.
    several = np.column_stack([rng.integers(-1, 2, n_rows), rng.random(n_rows) < 0.5, rng.integers(0, 9, n_rows) / 8])
    return TEXTS[rng.integers(0, len(TEXTS), n_rows)] if labels == "texts" else several


def draw_rows(seed, n_rows, *, labels, compressible):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES)).astype("f4")
    if compressible:
        X = np.round(X)
    return Rows(X, draw_labels(rng, n_rows, labels))


def check_rows(store, expected):
    """Every way to read gives the rows of the model."""
    n = len(expected)
    assert store.shape == expected.X.shape
    np.testing.assert_array_equal(store.X.compute(), expected.X)
    order = np.random.default_rng(n).permutation(n)[:20]
    np.testing.assert_array_equal(store.take(order), expected.X[order])
    plan = store.plan(batch_size=min(7, n, store.layout.chunk_rows), seed=n)
    batches = list(store.stream(plan))
    rows = np.concatenate([batch.rows for batch in batches])
    np.testing.assert_array_equal(np.sort(rows), np.arange(n))
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), expected.X[rows])
    if expected.y is None:
        assert store.y is None
    else:
        np.testing.assert_array_equal(store.y.compute(), expected.y)
        np.testing.assert_array_equal(np.concatenate([batch.y for batch in batches]), expected.y[rows])
        check_classes(store, expected.y)
    np.testing.assert_array_equal(store.statistics.maximum, expected.X.max(axis=0))


def check_classes(store, y):
    if y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        np.testing.assert_array_equal(store.classes, classes)
        np.testing.assert_array_equal(store.class_counts, counts)
        return
    assert (store.classes, store.n_outputs) == (None, y.shape[1])
    for place, (known, column) in enumerate(zip(store.output_classes, y.T, strict=True)):
        if known is not None:
            np.testing.assert_array_equal(known, np.unique(column))
        elif store.ref.selection is None:
            assert (column != np.trunc(column)).any()
        else:  # of a view it is a target where it is one of the whole store
            assert store.manifest.labels.outputs[place].kind == "target"


class StoreHistory(RuleBasedStateMachine):
    """`committed` is what the manifest must tell, `source` what the writer under way or stopped is to write."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="streamfit-history-"))
        self.path = self.folder / "a.zarr"
        self.n_sources = 0
        self.writer = None  # under way
        self.given = 0  # rows of the source that it was given
        self.known = 0  # rows of the source that a killed writer left committed
        self.source = None
        self.appends = False
        self.committed = None  # rows of the last complete state
        self.complete = False
        self.stopped = False  # a writer died and has not been gone on with
        self.snapshots = []

    def teardown(self):
        if self.writer is not None:
            self.writer.close(complete=False)
        shutil.rmtree(self.folder)

    # -- making a writer ---------------------------------------------------------------------------------

    @initialize(
        chunk_rows=st.integers(1, 12),
        labels=st.sampled_from(LABELS),
        compressible=st.booleans(),
        n_rows=st.integers(0, 60),
    )
    def choose(self, chunk_rows, labels, compressible, n_rows):
        """Most histories begin with a complete store: few would come to appends otherwise."""
        self.chunk_rows = chunk_rows
        self.settings = {"labels": labels, "compressible": compressible}
        if n_rows:
            self.new_source(n_rows)
            self.begin(self.create(continues=True))
            self.finish()

    def new_source(self, n_rows):
        self.n_sources += 1
        self.source = draw_rows(self.n_sources, n_rows, **self.settings)
        self.name = {"kind": "history", "number": self.n_sources}

    def create(self, *, continues, if_exists="resume"):
        return StoreWriter.create(
            self.path,
            n_features=N_FEATURES,
            dtype=np.dtype("f4"),
            chunk_rows=self.chunk_rows,
            feature_names=None,
            nonfinite="error",
            source=self.name,
            if_exists=if_exists,
            continues=continues,
            n_rows_expected=len(self.source),
        )

    def begin(self, writer):
        self.writer = writer
        self.given = writer.next_row
        self.stopped = False

    @precondition(lambda self: self.writer is None)
    @rule(n_rows=st.integers(1, 60), overwrite=st.sampled_from([False, False, False, True]), n_given=st.integers(0, 60))
    def create_store(self, n_rows, overwrite, n_given):
        exists = self.complete or (self.stopped and not self.appends and self.known)
        if exists and not overwrite:
            kept = self.source, self.name
            self.new_source(n_rows)
            with pytest.raises(StoreExistsError, match="source"):
                self.create(continues=True)
            self.source, self.name = kept
            return
        self.new_source(n_rows)
        self.begin(self.create(continues=True, if_exists="overwrite"))
        assert self.given == 0
        self.appends, self.complete, self.committed, self.known = False, False, None, 0
        self.snapshots = []
        self.give(n_given)

    @precondition(lambda self: self.writer is None and self.complete)
    @rule(n_rows=st.integers(1, 40), continues=st.booleans(), n_given=st.integers(0, 40))
    def append(self, n_rows, continues, n_given):
        self.new_source(n_rows)
        self.begin(StoreWriter.append_to(self.path, source=self.name, continues=continues, n_rows_expected=n_rows))
        assert self.given == 0
        self.appends, self.known = True, 0
        self.give(n_given)

    @precondition(lambda self: self.writer is None and self.stopped)
    @rule(continues=st.booleans())
    def resume(self, continues):
        if self.appends:
            self.begin(
                StoreWriter.append_to(
                    self.path, source=self.name, continues=continues, n_rows_expected=len(self.source)
                )
            )
        else:
            self.begin(self.create(continues=continues))
        assert self.given == (self.known if continues else 0)

    @precondition(lambda self: self.writer is None and self.stopped and self.appends)
    @rule(n_rows=st.integers(0, 40), continues=st.booleans())
    def resume_after_another_append_was_killed(self, n_rows, continues):
        """That may have written over the chunks of the one that stopped: nothing of it is known any more."""
        other = draw_rows(1_000_000 + self.n_sources, n_rows, **self.settings)
        writer = StoreWriter.append_to(self.path, source={"kind": "another"}, continues=True)
        writer.append(other.X, other.y)
        writer._lock.release()
        self.known = 0
        self.resume(continues=continues)

    # -- a writer's life ---------------------------------------------------------------------------------

    @precondition(lambda self: self.writer is not None)
    @rule(n_rows=st.integers(0, 25))
    def give(self, n_rows):
        part = self.source[self.given : self.given + n_rows]
        self.writer.append(part.X, part.y)
        self.given += len(part)

    @property
    def n_before(self):
        return len(self.committed) if self.appends else 0

    def note_progress(self):
        """Whole chunks that are committed now; what an earlier writer committed is never taken back."""
        whole = (self.n_before + self.given) // self.chunk_rows * self.chunk_rows
        self.known = max(self.known, whole - self.n_before)

    @precondition(lambda self: self.writer is not None)
    @rule()
    def commit(self):
        self.writer._chunks.commit_progress()
        self.note_progress()

    @precondition(lambda self: self.writer is not None)
    @rule(torn=st.booleans(), committed=st.booleans())
    def kill(self, torn, committed):
        """What SIGKILL leaves: no lock, and files that nobody promised, whole or torn."""
        if committed:
            self.commit()
        self.writer._lock.release()
        if torn:
            (self.path / "streamfit/manifest.json.partial").write_bytes(b"{")
            n_promised = -(-(self.n_before + self.known) // self.chunk_rows)
            for file in (self.path / "X" / "c").glob("*/0"):
                if int(file.parent.name) >= n_promised:
                    file.write_bytes(file.read_bytes()[:-3])
        self.writer, self.stopped = None, True

    @precondition(lambda self: self.writer is not None)
    @rule()
    def stop(self):
        """What an exception leaves."""
        self.writer.close(complete=False)
        self.note_progress()
        self.writer, self.stopped = None, True

    @precondition(lambda self: self.writer is not None)
    @rule()
    def finish(self):
        rest = self.source[self.given :]
        self.writer.append(rest.X, rest.y)
        self.writer.close()
        self.committed = self.committed + self.source if self.appends else self.source
        self.writer, self.complete, self.known = None, True, 0

    @precondition(lambda self: self.writer is not None)
    @rule()
    def a_second_writer_is_refused(self):
        with pytest.raises(StoreLockedError):
            self.create(continues=True, if_exists="overwrite")

    # -- readers -----------------------------------------------------------------------------------------

    @rule()
    def open(self):
        if self.complete:
            store = sf.open_store(self.path)
            check_rows(store, self.committed)
            self.snapshots.append((store, self.committed, np.arange(len(self.committed))))
            del self.snapshots[:-5]
        elif self.writer is None and not (self.stopped and self.known):
            with pytest.raises((StoreNotFoundError, StoreIncompleteError)):
                sf.open_store(self.path)
        else:
            with pytest.raises(StoreIncompleteError, match=f"{self.known} of {len(self.source)} rows"):
                sf.open_store(self.path)

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def read_what_was_opened_before(self, data):
        store, expected, _ = data.draw(st.sampled_from(self.snapshots))
        check_rows(store, expected)
        assert store.verify().ok

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def view(self, data):
        store, expected, stored = data.draw(st.sampled_from(self.snapshots))
        n = len(expected)
        kind = data.draw(st.sampled_from(["slice", "mask", "rows", "nested", "split"]))
        numbers = np.arange(n)
        seed = data.draw(st.integers(0, 99))
        mask = np.random.default_rng(seed).random(n) < 0.6
        mask[seed % n] = True
        if kind == "slice":
            start = data.draw(st.integers(0, n - 1))
            stop = data.draw(st.integers(start + 1, n))
            view, rows = store[start:stop], numbers[start:stop]
        elif kind == "mask":
            view, rows = store.select(mask), numbers[mask]
        elif kind == "rows":
            view, rows = store.select(numbers[mask]), numbers[mask]
        elif kind == "nested":
            view = store.select(mask)
            half = -(-len(view) // 2)
            view, rows = view[:half], numbers[mask][:half]
        elif n < 2:
            return
        else:
            view, rest = store.split(0.5, seed=seed)
            rows = np.searchsorted(stored, view.row_numbers())
            others = np.searchsorted(stored, rest.row_numbers())
            assert sorted([*rows, *others]) == list(range(n))
            check_rows(rest, expected[others])
        np.testing.assert_array_equal(view.row_numbers(), stored[rows])
        check_rows(view, expected[rows])
        self.snapshots.append((view, expected[rows], stored[rows]))

    @precondition(lambda self: self.writer is None and self.complete)
    @rule(seed=st.integers(0, 99), labels=st.sampled_from(LABELS[1:]))
    def attach(self, seed, labels):
        y = draw_labels(np.random.default_rng(seed), len(self.committed), labels)
        attach_columns(self.path, {"y": [y[:1], y[1:]]}, if_exists="overwrite")
        self.committed = Rows(self.committed.X, y)
        self.settings["labels"] = labels
        self.stopped = False  # an append that had stopped went on from the version before

    @invariant()
    def the_manifest_tells_what_is_committed(self):
        if self.complete:
            manifest = load_manifest(self.path)
            assert manifest.n_rows == len(self.committed)
            assert verify(self.path, manifest).ok
        elif self.known:
            manifest = load_manifest(self.path, allow_incomplete=True)
            assert (manifest.n_rows, manifest.complete) == (self.known, False)
            assert not verify(self.path, manifest).bad_chunks


def test_any_history_of_a_store():
    run_state_machine_as_test(
        StoreHistory, settings=settings(max_examples=15, stateful_step_count=25, deadline=None, derandomize=True)
    )


@pytest.mark.slow
def test_any_history_of_a_store_at_length():
    run_state_machine_as_test(StoreHistory, settings=settings(max_examples=600, stateful_step_count=30, deadline=None))
