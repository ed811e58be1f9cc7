"""The ordered stream: the rows of the plan, from any step, in bounded memory, and no thread left."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.batch import Chunk
from streamfit.errors import BudgetError, InvalidParameterError, StoreCorruptError
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import StoreLayout
from streamfit.run.stream import stream_batches, stream_epochs, stream_segment
from streamfit.store.format import ArraySpec


class RowsReader:
    """Every feature of a row tells its number; counts reads and may fail at a chunk."""

    def __init__(self, layout, *, labels=True, fail_at=None):
        self.layout = layout
        self.dtype = np.dtype(np.float32)
        self.has_labels = labels
        self.label_dtype = np.dtype("<U4") if labels else None
        self.arrays = {"y": ArraySpec("y", np.dtype("<i4"), None, layout.chunk_rows, "raw")}
        self.label_nbytes = 24 if labels else 0
        self.fail_at = fail_at
        self.reads = []
        self.outs = []

    def read_chunk(self, index, *, out):
        if index == self.fail_at:
            raise StoreCorruptError("altered", array="X", chunk=index)
        self.reads.append(index)
        self.outs.append(out)
        start, stop = self.layout.chunk_bounds(index)
        rows = np.arange(start, stop)
        out[:] = rows[:, None]
        if not self.has_labels:
            return Chunk(index, start, out)
        return Chunk(index, start, out, np.where(rows % 2, "odd", "even"), rows.astype(np.float64))


def plan_of(n_rows=103, chunk_rows=10, **changes):
    layout = StoreLayout(n_rows=n_rows, n_features=3, chunk_rows=chunk_rows, itemsize=4)
    options = {"batch_size": 16, "seed": 1, "epoch": 0, "shuffle": "window", "window_chunks": 3}
    return EpochPlan(layout, **(options | changes))


def stream(reader, plan, *, start_step=0, prefetch=1, memory_limit=None):
    return stream_batches(reader, plan, start_step=start_step, prefetch=prefetch, memory_limit=memory_limit)


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("streamfit-read")]


def check(batches, plan, *, start_step=0):
    batches = list(batches)
    assert [batch.step for batch in batches] == list(range(start_step, len(plan)))
    for batch in batches:
        expected = plan[batch.step].rows
        np.testing.assert_array_equal(batch.rows, expected)
        np.testing.assert_array_equal(batch.X, np.repeat(expected[:, None], 3, axis=1))
        np.testing.assert_array_equal(batch.y, np.where(expected % 2, "odd", "even"))
        np.testing.assert_array_equal(batch.sample_weight, expected)
        assert batch.epoch == plan.epoch


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_batches_are_the_plans_from_any_step(data):
    chunk_rows, window = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5))
    n_rows = data.draw(st.integers(1, 200))
    shuffle = data.draw(st.sampled_from(["window", "none"]))
    batch_size = data.draw(st.integers(1, min(n_rows, window * chunk_rows) if shuffle == "window" else n_rows))
    plan = plan_of(
        n_rows,
        chunk_rows,
        batch_size=batch_size,
        window_chunks=window,
        shuffle=shuffle,
        drop_last=data.draw(st.booleans()),
        min_batch=data.draw(st.integers(1, batch_size)),
    )
    start_step = data.draw(st.integers(0, len(plan) - 1))
    prefetch = data.draw(st.integers(0, 3))
    check(
        stream(RowsReader(plan.layout), plan, start_step=start_step, prefetch=prefetch),
        plan,
        start_step=start_step,
    )


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_each_chunk_is_read_once_into_few_buffers(prefetch):
    plan = plan_of()
    reader = RowsReader(plan.layout)
    check(stream(reader, plan, prefetch=prefetch), plan)
    assert sorted(reader.reads) == list(range(plan.layout.n_chunks))
    buffers = {id(out.base) for out in reader.outs}
    assert 1 <= len(buffers) <= min(1 + prefetch, plan.n_windows)  # a window that is used up gives its own


def test_batches_own_their_memory():
    plan = plan_of()
    batches = stream(RowsReader(plan.layout), plan)
    first = next(batches)
    kept = first.X.copy()
    for batch in batches:
        batch.X[:] = -1
        batch.rows[:] = -1
    np.testing.assert_array_equal(first.X, kept)
    assert first.X.base is None


def test_windows_before_the_first_step_and_after_the_last_are_not_read():
    plan = plan_of(n_rows=100, shuffle="none", window_chunks=1, batch_size=30, drop_last=True)
    reader = RowsReader(plan.layout)
    assert [batch.step for batch in stream(reader, plan, start_step=1)] == [1, 2]
    assert sorted(reader.reads) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_epochs_follow_each_other(prefetch):
    plans = [plan_of(epoch=epoch) for epoch in range(3)]
    batches = list(
        stream_epochs(RowsReader(plans[0].layout), iter(plans), start_step=5, prefetch=prefetch, memory_limit=None)
    )
    expected = [(epoch, step) for epoch in range(3) for step in range(5 if epoch == 0 else 0, 7)]
    assert [(batch.epoch, batch.step) for batch in batches] == expected
    for batch in batches:
        np.testing.assert_array_equal(batch.rows, plans[batch.epoch][batch.step].rows)


def test_the_next_epoch_is_read_ahead():
    plans = [plan_of(epoch=epoch) for epoch in range(2)]
    reader = RowsReader(plans[0].layout)
    batches = stream_epochs(reader, plans, start_step=0, prefetch=1, memory_limit=None)
    last_of_first = [next(batches) for _ in range(len(plans[0]))][-1]
    next_epoch = next(batches)
    assert (last_of_first.epoch, next_epoch.epoch) == (0, 1)
    # The chunks of the new epoch's second window are read or asked for while its first batch is used.
    assert len(reader.reads) >= plans[0].layout.n_chunks + 3
    batches.close()


def test_a_segment_reads_no_window_beyond_its_end():
    plan = plan_of(shuffle="none", window_chunks=1)
    reader = RowsReader(plan.layout)
    batches = list(stream_segment(reader, plan, start_step=1, stop_step=3, prefetch=2, memory_limit=None))
    assert [batch.step for batch in batches] == [1, 2]
    assert sorted(reader.reads) == [1, 2, 3, 4]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_an_error_of_the_reader_reaches_the_consumer_and_ends_the_thread(prefetch):
    plan = plan_of(shuffle="none")
    batches = stream(RowsReader(plan.layout, fail_at=7), plan, prefetch=prefetch)
    steps = []
    with pytest.raises(StoreCorruptError, match="altered") as caught:
        steps.extend(batch.step for batch in batches)
    assert caught.value.chunk == 7
    assert not reading_threads()


def test_batches_before_a_bad_chunk_are_given():
    plan = plan_of(shuffle="none")
    batches = stream(RowsReader(plan.layout, fail_at=7), plan)
    assert [next(batches).step for _ in range(3)] == [0, 1, 2]
    batches.close()


def test_closing_early_ends_the_thread_and_frees_the_buffers():
    plan = plan_of()
    reader = RowsReader(plan.layout)
    batches = stream(reader, plan, prefetch=2)
    next(batches)
    assert reading_threads()
    batches.close()
    assert not reading_threads()
    assert len(reader.reads) < plan.layout.n_chunks


def test_a_stream_that_is_never_started_has_no_thread():
    plan = plan_of()
    batches = stream(RowsReader(plan.layout), plan)
    assert not reading_threads()
    batches.close()


def test_the_budget_is_checked_before_the_first_read():
    plan = plan_of()
    reader = RowsReader(plan.layout)
    with pytest.raises(BudgetError, match="lower window or prefetch"):
        stream(reader, plan, memory_limit=2**20)
    assert reader.reads == []
    check(stream(reader, plan, memory_limit=2**30), plan)


@pytest.mark.parametrize(("n_epochs", "prefetch"), [(1, 1), (2, 1), (2, 3), (5, 1), (5, 3), (5, 0)])
def test_all_buffers_of_several_epochs_are_in_the_budget(n_epochs, prefetch):
    # One window holds the whole store: only the edges of epochs are read across.
    layout = StoreLayout(n_rows=40, n_features=3, chunk_rows=10, itemsize=4)
    plans = [EpochPlan(layout, 16, seed=1, epoch=e, shuffle="window", window_chunks=4) for e in range(n_epochs)]
    reader = RowsReader(layout)
    with pytest.raises(BudgetError) as refusal:
        stream_epochs(reader, plans, start_step=0, prefetch=prefetch, memory_limit=1)
    assert len(list(stream_epochs(reader, plans, start_step=0, prefetch=prefetch, memory_limit=None))) == n_epochs * 3
    buffers = {id(out.base) for out in reader.outs}
    projected = int(re.search(r"(\d+) window\(s\) of 4 chunks", str(refusal.value))[1])
    assert 1 <= len(buffers) <= projected == min(1 + prefetch, n_epochs)


def test_without_labels():
    plan = plan_of()
    batches = list(stream(RowsReader(plan.layout, labels=False), plan))
    assert all(batch.y is None and batch.sample_weight is None for batch in batches)


@pytest.mark.parametrize("step", [7, -1, 10**6, 1.0, "1", None])
def test_a_step_outside_is_refused_at_once(step):
    plan = plan_of()
    with pytest.raises(InvalidParameterError, match=r"start_step must be an integer in 0\.\.6, got"):
        stream(RowsReader(plan.layout), plan, start_step=step)


# -- who does the work -------------------------------------------------------------------------------


class WatchedReader(RowsReader):
    """Tells which thread reads; may wait for something before it does."""

    def __init__(self, layout, before=lambda _index: None, **options):
        super().__init__(layout, **options)
        self.before = before
        self.threads = {}

    def read_chunk(self, index, *, out):
        self.before(index)
        self.threads[index] = threading.current_thread().name
        return super().read_chunk(index, out=out)


def test_who_waits_for_rows_reads_a_share_of_them():
    plan = plan_of(n_rows=30, window_chunks=3)
    both = threading.Barrier(2, timeout=10)  # two threads have to be in a read at the same time
    met = []

    def meet(_index):
        if not met:
            both.wait()
            met.append(True)

    reader = WatchedReader(plan.layout, meet)
    check(stream(reader, plan, prefetch=1), plan)
    assert len(set(reader.threads.values())) == 2


def test_the_next_batch_is_cut_while_the_model_computes():
    plan = plan_of(n_rows=96, batch_size=16, window_chunks=10)
    batches = stream(RowsReader(plan.layout), plan, prefetch=1)
    next(batches)
    ahead = batches.gi_frame.f_locals["ahead"]
    with ahead._changed:
        assert ahead._changed.wait_for(lambda: ahead._ready is not None, timeout=10)
    assert ahead._ready.step == 1
    check(batches, plan, start_step=1)


def test_without_prefetch_the_asking_thread_does_all():
    plan = plan_of()
    reader = WatchedReader(plan.layout)
    check(stream(reader, plan, prefetch=0), plan)
    assert set(reader.threads.values()) == {threading.current_thread().name}


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_an_interrupt_while_rows_are_read_is_raised_at_once(prefetch):
    plan = plan_of(n_rows=400, shuffle="none")
    interrupted = threading.Event()

    def interrupt(_index):
        if threading.current_thread() is threading.main_thread():
            interrupted.set()
            raise KeyboardInterrupt
        interrupted.wait(10)  # the thread leaves chunks to who waits for them

    with pytest.raises(KeyboardInterrupt):
        list(stream(WatchedReader(plan.layout, interrupt), plan, prefetch=prefetch))
    assert not reading_threads()


def test_what_ends_the_reading_thread_reaches_the_consumer():
    plan = plan_of(n_rows=400, shuffle="none")
    main_may_read = threading.Event()

    def leave(_index):
        if threading.current_thread() is not threading.main_thread():
            main_may_read.set()
            raise SystemExit(3)
        main_may_read.wait(10)

    with pytest.raises(SystemExit):
        list(stream(WatchedReader(plan.layout, leave), plan, prefetch=1))
    assert not reading_threads()


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_batch_that_cannot_be_cut_is_an_error(prefetch, monkeypatch):
    def no_memory(*_arguments):
        raise MemoryError("no room for the batch")

    plan = plan_of()
    monkeypatch.setattr("streamfit.run.batch_cutter._Filling", no_memory)
    with pytest.raises(MemoryError, match="no room"):
        list(stream(RowsReader(plan.layout), plan, prefetch=prefetch))
    assert not reading_threads()
