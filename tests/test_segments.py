"""How long the segments of a fit on workers are; that no bit depends on them is in test_trainer_bit_equal."""

from __future__ import annotations

import pickle

import pytest

import streamfit as sf
from streamfit.run import segments
from streamfit.run.checkpoint import Position
from streamfit.run.segments import StreamTask, WorkerRun


class Counting:
    """A learner that counts rows."""

    def step(self, model, batch):
        model.append(batch.n_rows)


class Worker:
    """An engine whose steps take a second each, after the seconds that a window takes to read."""

    def __init__(self, read_seconds):
        self.read_seconds = read_seconds
        self.now = 0.0
        self.lengths = []

    def run(self, function, task, epoch, start, stop, state):
        state, records, measured = function(task, epoch, start, stop, state)
        assert records == [()] * (stop - start)
        assert measured >= 0
        self.now += self.read_seconds + stop - start
        self.lengths.append(stop - start)
        return state, records, self.read_seconds


@pytest.mark.parametrize(
    ("read_seconds", "lengths"),
    [
        pytest.param(0, [8, 10, 10, 10], id="ten seconds"),
        # 8 steps took 28 seconds of wanted 80, then 22 took 42, and 41 took 61.
        pytest.param(20, [8, 22, 41, 53], id="four times as long as a window that takes long to read"),
    ],
)
def test_segments_are_long_beside_reading_a_window_anew(tmp_path, monkeypatch, read_seconds, lengths):
    store = sf.ingest([[float(row)] for row in range(200)], tmp_path / "store", chunk_rows=50)
    plan = store.plan(batch_size=1)
    worker = Worker(read_seconds)
    monkeypatch.setattr(segments.time, "perf_counter", lambda: worker.now)
    task = StreamTask(store.ref, plan, Counting(), n_epochs=1, prefetch=1, memory_limit=None, tests=())
    done = []
    run = WorkerRun(task, [], Position(0, 0), lambda _, step, _records: done.append(step), worker)
    run.advance(Position(1, 0), paused=lambda: False)
    assert worker.lengths[: len(lengths)] == lengths
    assert sum(worker.lengths) == done[-1] == 200
    assert pickle.loads(pickle.dumps(run.model)) == [1] * 200
