"""A store in another order: the rows of an oracle in memory, whatever the memory, the chunks, or what went wrong."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import (
    BudgetError,
    InvalidParameterError,
    StoreCorruptError,
    StoreExistsError,
    StoreIncompleteError,
    StoreLockedError,
    StoreWriteError,
)
from streamfit.plan.budget import FIXED_NBYTES
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.shuffle_order import ShuffleOrder, passes_seed
from streamfit.run import shuffle as shuffle_module
from streamfit.run import shuffle_full
from streamfit.run.shuffle_buckets import BucketFiles
from streamfit.run.shuffle_rows import block_nbytes, held_row_nbytes
from streamfit.store.reader import Reader
from streamfit.store.writer import StoreWriter


def limit_for(store, n_rows):
    """Give the least memory limit with which so many rows are held at once."""
    besides = FIXED_NBYTES + block_nbytes(store.reader) + 5 * store.layout.chunk_nbytes
    besides += store.layout.aside_nbytes
    return besides + n_rows * held_row_nbytes(store.reader)


def made(path, n_rows=1_003, chunk_rows=50, *, dtype="f4", y=None, **options):
    rng = np.random.default_rng(n_rows)
    X = (rng.normal(size=(n_rows, 3)) * 50).astype(dtype)
    given = {"ids": np.arange(n_rows) - 7, "sample_weight": rng.random(n_rows)}
    y = rng.choice(["ham", "spam", "egg"], n_rows) if y is None else y(rng, n_rows)
    return sf.ingest(X, path, y=y, chunk_rows=chunk_rows, **given, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return made(tmp_path_factory.mktemp("shuffle") / "store.zarr")


def oracle(store, seed):
    keys = ShuffleOrder(store.n_rows, seed).keys(0, store.n_rows)
    return np.lexsort((np.arange(store.n_rows), keys))


def columns(store):
    arrays = {"X": store.X, "y": store.y, "sample_weight": store.sample_weight, "ids": store.ids}
    return {name: array.compute() for name, array in arrays.items() if array is not None}


def assert_same_rows(shuffled, store, order):
    found = columns(shuffled)
    expected = columns(store)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values[order])
    assert not (Path(shuffled.path) / "streamfit" / "shuffle").exists()


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != "lock"
    }


# -- the rows ----------------------------------------------------------------------------------------


EDGES = [
    pytest.param({"n_rows": 1, "chunk_rows": 5}, id="one-row"),
    pytest.param({"n_rows": 2, "chunk_rows": 1}, id="two-rows"),
    pytest.param({"n_rows": 90, "chunk_rows": 90}, id="one-chunk"),
    pytest.param({"n_rows": 200, "chunk_rows": 1}, id="chunks-of-one-row"),
    pytest.param({"n_rows": 301, "chunk_rows": 100}, id="last-chunk-of-one-row"),
    pytest.param({"n_rows": 300, "chunk_rows": 100}, id="whole-chunks"),
    pytest.param({"dtype": "i1"}, id="int8"),
    pytest.param({"dtype": "f8"}, id="float64"),
    pytest.param({"y": lambda rng, n: rng.random(n)}, id="target"),
    pytest.param({"y": lambda rng, n: rng.random(n) < 0.2}, id="boolean-labels"),
    pytest.param({"y": lambda rng, n: np.sort(rng.integers(0, 5, n))}, id="sorted-integers"),
    pytest.param({"y": lambda rng, n: rng.choice([b"a", b"bc"], n)}, id="labels-of-bytes"),
]


@pytest.mark.parametrize("options", EDGES)
def test_the_rows_are_those_of_the_oracle(tmp_path, options):
    store = made(tmp_path / "store", **options)
    shuffled = store.shuffle(tmp_path / "roomy", seed=4)
    assert_same_rows(shuffled, store, oracle(store, 4))
    assert shuffled.layout.chunk_rows == store.layout.chunk_rows
    if store.classes is not None:
        np.testing.assert_array_equal(shuffled.classes, store.classes)
        np.testing.assert_array_equal(shuffled.class_counts, store.class_counts)
    # As little memory as may be: by way of files, where the rows are not as few as that.
    tight = store.shuffle(tmp_path / "tight", seed=4, memory_limit=limit_for(store, max(64, store.layout.chunk_rows)))
    assert files(tight.path) == files(shuffled.path)


def test_neither_labels_nor_weights_nor_ids(tmp_path):
    store = sf.ingest(np.arange(600.0).reshape(300, 2), tmp_path / "store", chunk_rows=9)
    shuffled = store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 64))
    assert_same_rows(shuffled, store, oracle(store, 0))


def test_compressed_chunks(tmp_path):
    store = sf.ingest(np.tile(np.arange(4_000, dtype="f4")[:, None] // 100, 5), tmp_path / "s", chunk_rows=333)
    assert store.manifest.arrays["X"].codec == "blosc-lz4"
    shuffled = store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 500))
    assert_same_rows(shuffled, store, oracle(store, 0))


def test_values_that_are_not_finite_are_kept_where_they_were(tmp_path):
    X = np.arange(400.0).reshape(200, 2)
    X[[3, 150], 1] = np.nan, np.inf
    store = sf.ingest(X, tmp_path / "store", chunk_rows=20, nonfinite="keep")
    shuffled = store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 64))
    np.testing.assert_array_equal(shuffled.X.compute(), X[oracle(store, 0)])
    assert shuffled.statistics.n_nonfinite.tolist() == [0, 2]


def test_more_buckets_than_rows(tmp_path, monkeypatch):
    store = made(tmp_path / "store", n_rows=40, chunk_rows=3)
    monkeypatch.setattr(ShuffleOrder, "buckets_within", lambda self, _: self.bucket_rows(n_buckets=90))
    monkeypatch.setattr(shuffle_module, "_most_rows", lambda *_: 20)
    assert_same_rows(store.shuffle(tmp_path / "shuffled"), store, oracle(store, 0))


def test_memory_decides_nothing_but_the_way(tmp_path, store):
    whole = files(store.shuffle(tmp_path / "whole", seed=1).path)
    for n_rows in (64, 100, 333, 1_002):
        limited = store.shuffle(tmp_path / str(n_rows), seed=1, memory_limit=limit_for(store, n_rows))
        assert files(limited.path) == whole


def test_chunks_decide_nothing(tmp_path, store):
    other = sf.ingest(store, tmp_path / "other", chunk_rows=17)
    for name, values in columns(store.shuffle(tmp_path / "a", seed=1)).items():
        np.testing.assert_array_equal(columns(other.shuffle(tmp_path / "b", seed=1))[name], values)


def test_seeds_differ(tmp_path, store):
    assert_same_rows(store.shuffle(tmp_path / "a", seed=1), store, oracle(store, 1))
    assert_same_rows(store.shuffle(tmp_path / "b", seed=2), store, oracle(store, 2))
    assert (oracle(store, 1) != oracle(store, 2)).any()


def test_a_shuffled_store_can_be_shuffled(tmp_path, store):
    once = store.shuffle(tmp_path / "once")
    assert_same_rows(once.shuffle(tmp_path / "twice"), once, oracle(store, 0))


@pytest.mark.parametrize("passes", ["full", 2])
@pytest.mark.parametrize(
    "choose",
    [
        pytest.param(lambda store: store[117:801], id="slice"),
        pytest.param(lambda store: store.select(np.arange(store.n_rows) % 3 == 1), id="rows-of-every-chunk"),
        pytest.param(lambda store: store.split(0.3, seed=1, stratify=True)[1], id="split"),
        pytest.param(lambda store: store[100:].select(np.arange(0, 900, 2)), id="view-of-a-view"),
        pytest.param(lambda store: store.select(store.y.compute() == "spam"), id="one-class"),
    ],
)
def test_views(tmp_path, store, choose, passes):
    view = choose(store)
    limit = limit_for(view, 2 * view.layout.chunk_rows)
    shuffled = view.shuffle(tmp_path / "shuffled", memory_limit=limit, passes=passes)
    order = oracle(view, 0) if passes == "full" else np.searchsorted(view.ids.compute(), shuffled.ids.compute())
    assert_same_rows(shuffled, view, order)
    assert sorted(order) == list(range(view.n_rows))
    np.testing.assert_array_equal(shuffled.class_counts, view.class_counts)
    np.testing.assert_array_equal(shuffled.classes, view.classes)
    with pytest.raises(StoreExistsError, match="digest"):
        store.shuffle(tmp_path / "shuffled", passes=passes, memory_limit=limit)
    with pytest.raises(StoreExistsError, match="would lie over"):
        view.shuffle(store.path, if_exists="overwrite")


# -- passes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_passes_are_epochs_one_after_the_other(tmp_path, store, passes):
    limit = limit_for(store, 200)  # windows of 4 chunks of 21
    shuffled = store.shuffle(tmp_path / "shuffled", seed=5, passes=passes, memory_limit=limit)
    order = np.arange(store.n_rows)
    for epoch in range(1, passes + 1):
        plan = EpochPlan(store.layout, 100, seed=passes_seed(5), epoch=epoch, shuffle="window", window_chunks=4)
        order = order[np.concatenate([batch.rows for batch in plan])]
    assert_same_rows(shuffled, store, order)
    assert shuffled.manifest.source["window"] == 4


def test_a_pass_with_room_for_all_rows_is_one_window(tmp_path):
    # 3 chunks of 100 rows and one of 1: all are mixed with each other, not 3 and then the one left over.
    store = made(tmp_path / "store", n_rows=301, chunk_rows=100)
    shuffled = store.shuffle(tmp_path / "shuffled", seed=5, passes=1)
    plan = EpochPlan(store.layout, 100, seed=passes_seed(5), epoch=1, shuffle="window", window_chunks=4)
    assert plan.n_windows == 1
    assert shuffled.manifest.source["window"] == 4
    assert_same_rows(shuffled, store, np.concatenate([batch.rows for batch in plan]))


def test_another_window_is_another_store(tmp_path, store):
    store.shuffle(tmp_path / "shuffled", passes=1, memory_limit=limit_for(store, 200))
    with pytest.raises(StoreExistsError, match=r"source\.window=4, now it is 3"):
        store.shuffle(tmp_path / "shuffled", passes=1, memory_limit=limit_for(store, 199))


def test_orders_of_another_numpy_are_not_mixed(store, interrupted, monkeypatch):
    path = interrupted(StoreWriter, "append", 14, passes=2)
    monkeypatch.setattr(shuffle_module, "streams_canary", lambda: "others")
    with pytest.raises(StoreExistsError, match=r"source\.streams="):
        store.shuffle(path, passes=2, memory_limit=limit_for(store, 100))


# -- what is there already ---------------------------------------------------------------------------


def no_rows(*_, **__):
    raise AssertionError("rows were read")


@pytest.mark.parametrize("passes", ["full", 2])
def test_again_is_a_no_op(tmp_path, store, monkeypatch, passes):
    shuffled = store.shuffle(tmp_path / "shuffled", passes=passes)
    monkeypatch.setattr(Reader, "read_array", no_rows)
    monkeypatch.setattr(StoreWriter, "create", no_rows)
    assert store.shuffle(tmp_path / "shuffled", passes=passes).digest == shuffled.digest


def test_another_shuffle_is_refused_or_written_over(tmp_path, store):
    store.shuffle(tmp_path / "shuffled", seed=1)
    with pytest.raises(StoreExistsError, match="seed"):
        store.shuffle(tmp_path / "shuffled", seed=2)
    with pytest.raises(StoreExistsError, match="There is a store"):
        store.shuffle(tmp_path / "shuffled", seed=1, if_exists="error")
    again = store.shuffle(tmp_path / "shuffled", seed=2, if_exists="overwrite")
    assert_same_rows(again, store, oracle(store, 2))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("inner/store.zarr", id="is"),
        pytest.param("inner", id="holds"),
        pytest.param("inner/store.zarr/below", id="lies-in"),
        pytest.param("link", id="is-by-a-link"),
    ],
)
def test_the_store_itself_is_no_place(tmp_path, path):
    store = made(tmp_path / "inner" / "store.zarr", n_rows=20)
    (tmp_path / "link").symlink_to(store.path)
    before = files(tmp_path)
    with pytest.raises(StoreExistsError, match="would lie over"):
        store.shuffle(tmp_path / path, if_exists="overwrite")
    assert files(tmp_path) == before


def test_somebody_elses_folder_is_left_alone(tmp_path, store):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreExistsError, match="not a streamfit store"):
        store.shuffle(tmp_path, if_exists="overwrite")
    assert (tmp_path / "mine.txt").exists()


def test_two_shuffles_at_once(tmp_path, store, monkeypatch):
    """The second one is refused while the first one scatters."""
    append = BucketFiles.append

    def second(self, bucket, block):
        monkeypatch.setattr(BucketFiles, "append", append)
        with pytest.raises(StoreLockedError, match="is being written by process"):
            store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 100))
        return append(self, bucket, block)

    monkeypatch.setattr(BucketFiles, "append", second)
    shuffled = store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 100))
    assert BucketFiles.append is append
    assert_same_rows(shuffled, store, oracle(store, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"passes": 0}, 'passes must be "full" or an integer of at least 1, got 0', id="no-pass"),
        pytest.param({"passes": "half"}, "passes must be \"full\" or .* got 'half'", id="text"),
        pytest.param({"passes": True}, 'passes must be "full" or', id="true"),
        pytest.param({"passes": np.arange(2)}, 'passes must be "full" or', id="array"),
        pytest.param({"passes": None}, 'passes must be "full" or', id="none"),
        pytest.param({"seed": -1}, "seed must be", id="seed"),
        pytest.param({"seed": None}, "seed must be", id="no-seed"),
        pytest.param({"if_exists": "ask"}, "if_exists must be", id="if-exists"),
        pytest.param({"memory_limit": "much"}, "memory_limit must be", id="limit"),
    ],
)
def test_wrong_parameters(tmp_path, store, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        store.shuffle(tmp_path / "shuffled", **options)
    assert not (tmp_path / "shuffled").exists()


@pytest.mark.parametrize("passes", ["full", 2])
def test_too_little_memory_is_refused_before_anything_is_written(tmp_path, store, passes):
    with pytest.raises(BudgetError, match=r"64 rows that are held .*smaller chunk_rows"):
        store.shuffle(tmp_path / "shuffled", passes=passes, memory_limit=limit_for(store, 64) - 1)
    assert not (tmp_path / "shuffled").exists()


# -- what goes wrong ---------------------------------------------------------------------------------


class HaltError(Exception):
    """Ends a shuffle at a chosen place."""


def halting(function, n_calls):
    """Do as `function` does, but for the call after `n_calls` and those that follow."""
    left = [n_calls]

    def halt(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise HaltError
        return function(*arguments, **options)

    return halt


@pytest.fixture
def interrupted(store, tmp_path, monkeypatch):
    """Give a function that begins a shuffle by way of files and halts it inside a method."""
    monkeypatch.setattr(shuffle_full, "_JOURNAL_SECONDS", -1.0)
    monkeypatch.setattr("streamfit.store.committing._COMMIT_SECONDS", -1.0)

    def begin(owner, name, n_calls, *, n_rows=100, **options):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, halting(getattr(owner, name), n_calls))
            with pytest.raises(HaltError):
                store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, n_rows), **options)
        return tmp_path / "shuffled"

    return begin


@pytest.fixture
def read(monkeypatch):
    """Chunks of features that are read, by number, and only those of the store that is shuffled."""
    numbers, read_array = [], Reader.read_array

    def count(self, name, index, **options):
        if name == "X" and "shuffled" not in self.ref.path:
            numbers.append(index)
        return read_array(self, name, index, **options)

    monkeypatch.setattr(Reader, "read_array", count)
    return numbers


def test_scattered_chunks_are_not_read_again(store, interrupted, read):
    path = interrupted(BucketFiles, "append", 40)
    n_read = len(read)
    assert 4 <= n_read <= 10
    shuffled = store.shuffle(path, memory_limit=limit_for(store, 100))
    # The journal tells of all windows but the one that was being scattered, which holds two chunks.
    assert sorted(read) == sorted([*range(store.layout.n_chunks), n_read - 2, n_read - 1])
    assert_same_rows(shuffled, store, oracle(store, 0))


@pytest.mark.parametrize(
    "n_rows", [pytest.param(100, id="same"), pytest.param(400, id="more"), pytest.param(10**5, id="all")]
)
def test_nothing_is_scattered_again_once_rows_are_collected(store, interrupted, read, n_rows):
    path = interrupted(StoreWriter, "append", 8)
    with pytest.raises(StoreIncompleteError, match="incomplete"):
        sf.open_store(path)
    read.clear()
    shuffled = store.shuffle(path, memory_limit=limit_for(store, n_rows))
    assert read == []
    assert_same_rows(shuffled, store, oracle(store, 0))


def test_less_memory_than_before(store, interrupted, read, monkeypatch):
    """Buckets that do not fit any more are made anew, but not those of rows that are in place."""
    path = interrupted(StoreWriter, "append", 12)
    first = []
    begin = shuffle_full._Buckets.scatter
    monkeypatch.setattr(
        shuffle_full._Buckets,
        "scatter",
        lambda self, buffer: (first.append(self._journal.first_bucket), begin(self, buffer)),
    )
    shuffled = store.shuffle(path, memory_limit=limit_for(store, 64))
    assert first[0] > 5
    assert_same_rows(shuffled, store, oracle(store, 0))


def test_halted_again_and_again(store, interrupted):
    for n_calls in (0, 3, 30, 60):
        path = interrupted(BucketFiles, "append", n_calls)
    for n_calls in (1, 2, 5):
        path = interrupted(StoreWriter, "append", n_calls)
    assert_same_rows(store.shuffle(path, memory_limit=limit_for(store, 100)), store, oracle(store, 0))


def test_passes_go_on_where_they_stopped(store, interrupted, read, tmp_path):
    undisturbed = store.shuffle(tmp_path / "other", passes=3, memory_limit=limit_for(store, 100))
    read.clear()
    for n_calls in (3, 4):
        path = interrupted(StoreWriter, "append", n_calls, passes=3)
    path = interrupted(StoreWriter, "append", 15, passes=3)
    assert set(read) == set(range(store.layout.n_chunks))
    read.clear()
    shuffled = store.shuffle(path, passes=3, memory_limit=limit_for(store, 100))
    assert read == []  # the first pass is done
    assert files(path) == files(undisturbed.path)
    assert_same_rows(shuffled, store, shuffled.ids.compute() + 7)


def test_rows_in_scratch_of_another_order_are_not_used(store, interrupted):
    path = interrupted(BucketFiles, "append", 40, seed=8)
    assert_same_rows(store.shuffle(path, seed=9, memory_limit=limit_for(store, 100)), store, oracle(store, 9))


def test_passes_in_scratch_of_another_order_are_not_used(store, interrupted):
    path = interrupted(StoreWriter, "append", 6, passes=2, seed=8)
    shuffled = store.shuffle(path, passes=2, seed=9, memory_limit=limit_for(store, 100))
    other = store.shuffle(path.with_name("other"), passes=2, seed=9, memory_limit=limit_for(store, 100))
    assert files(shuffled.path) == files(other.path)


def test_who_writes_over_a_shuffle_leaves_no_scratch(store, interrupted, read):
    path = interrupted(BucketFiles, "append", 40)
    scratch = path / "streamfit" / "shuffle"
    assert scratch.exists()
    sf.ingest(np.zeros((3, 2)), path, if_exists="overwrite")
    assert not scratch.exists()
    path = interrupted(StoreWriter, "append", 3, if_exists="overwrite")
    read.clear()
    shuffled = store.shuffle(path, if_exists="overwrite", memory_limit=limit_for(store, 100))
    assert read == list(range(store.layout.n_chunks))  # nothing of the earlier attempt was used
    assert_same_rows(shuffled, store, oracle(store, 0))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda scratch: (scratch / "journal.json").write_bytes(b'{"n_rows"'), id="journal-cut"),
        pytest.param(lambda scratch: (scratch / "journal.json").write_bytes(b"[]"), id="journal-of-something-else"),
        pytest.param(lambda scratch: (scratch / "journal.json").unlink(), id="journal-lost"),
        pytest.param(lambda scratch: (scratch / "bucket-9").unlink(), id="bucket-lost"),
        pytest.param(lambda scratch: (scratch / "bucket-9").write_bytes(b"short"), id="bucket-cut"),
        pytest.param(lambda scratch: longer(scratch / "bucket-9"), id="bucket-longer"),
    ],
)
def test_scratch_that_cannot_be_used_is_made_again(store, interrupted, damage):
    path = interrupted(StoreWriter, "append", 3)
    damage(path / "streamfit" / "shuffle")
    assert_same_rows(store.shuffle(path, memory_limit=limit_for(store, 100)), store, oracle(store, 0))


def longer(file):
    file.write_bytes(file.read_bytes() + b"half a block")


def flip(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda scratch: flip(scratch / "bucket-9", 0), id="rows-of-a-block"),
        pytest.param(lambda scratch: flip(scratch / "bucket-9", 8), id="hash"),
        pytest.param(lambda scratch: flip(scratch / "bucket-9", 20), id="key"),
        pytest.param(lambda scratch: flip(scratch / "bucket-9", -1), id="value"),
        pytest.param(
            lambda scratch: (scratch / "bucket-9").write_bytes((scratch / "bucket-10").read_bytes() * 3),
            id="other-bucket",
        ),
    ],
)
def test_damaged_scratch_is_found_and_made_again(store, interrupted, damage):
    path = interrupted(StoreWriter, "append", 3)
    damage(path / "streamfit" / "shuffle")
    with pytest.raises(StoreCorruptError, match=r"bucket-9 is not as it was written\. Shuffle again"):
        store.shuffle(path, memory_limit=limit_for(store, 100))
    assert_same_rows(store.shuffle(path, memory_limit=limit_for(store, 100)), store, oracle(store, 0))


def test_a_damaged_pass_is_found(store, interrupted):
    path = interrupted(StoreWriter, "append", 14, passes=2)
    flip(path / "streamfit" / "shuffle" / "pass-1" / "X" / "c" / "20" / "0", 3)
    with pytest.raises(StoreCorruptError, match="Chunk 20 of X"):
        store.shuffle(path, passes=2, memory_limit=limit_for(store, 100))


@pytest.mark.parametrize("limited", [pytest.param(True, id="files"), pytest.param(False, id="memory")])
def test_damaged_rows_never_get_a_good_checksum(tmp_path, limited):
    store = made(tmp_path / "store")
    flip(tmp_path / "store" / "X" / "c" / "3" / "0", 5)
    trusting = sf.open_store(tmp_path / "store", verify="never")
    with pytest.raises(StoreCorruptError, match="rows 150 to 199"):
        trusting.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 100) if limited else None)


@pytest.mark.parametrize("n_calls", [0, 25])
def test_a_full_disk_is_told_and_gone_on_from(tmp_path, store, monkeypatch, n_calls):
    monkeypatch.setattr(shuffle_full, "_JOURNAL_SECONDS", -1.0)
    append, left = BucketFiles.append, [n_calls]

    def full(self, bucket, block):
        left[0] -= 1
        if left[0] < 0:
            with self._file(bucket).open("ab") as file:
                file.write(b"half a block")
            raise OSError(errno.ENOSPC, "No space left on device")
        return append(self, bucket, block)

    with monkeypatch.context() as patch:
        patch.setattr(BucketFiles, "append", full)
        with pytest.raises(StoreWriteError, match=r"No space left on device.* rows are scattered\. Free space"):
            store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 100))
    shuffled = store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 100))
    assert_same_rows(shuffled, store, oracle(store, 0))


def test_scratch_left_beside_a_complete_store_goes(tmp_path, store, monkeypatch):
    """A process may be killed between the last commit and the removal of scratch."""
    monkeypatch.setattr(shuffle_module, "_sweep", lambda _: None)
    store.shuffle(tmp_path / "shuffled", memory_limit=limit_for(store, 100))
    assert (tmp_path / "shuffled" / "streamfit" / "shuffle").exists()
    monkeypatch.undo()
    assert_same_rows(store.shuffle(tmp_path / "shuffled"), store, oracle(store, 0))


def test_files_of_committed_rows_go_while_others_are_written(tmp_path, store, monkeypatch, interrupted):
    path = interrupted(StoreWriter, "append", 12)
    left = [int(file.name.split("-")[1]) for file in (path / "streamfit" / "shuffle").glob("bucket-*")]
    assert min(left) > 5
    assert_same_rows(store.shuffle(path, memory_limit=limit_for(store, 100)), store, oracle(store, 0))


def test_progress_is_told_to_others(store, interrupted):
    n = store.n_rows
    assert shuffle_module.rows_moved(Path(store.path).with_name("nothing")) is None
    assert shuffle_module.rows_moved(Path(store.path)) is None  # ingested
    path = interrupted(BucketFiles, "append", 40)
    assert shuffle_module.rows_moved(path) is None  # nothing is committed: there is no store yet
    path = interrupted(StoreWriter, "append", 9)
    done, total = shuffle_module.rows_moved(path)
    assert total == 2 * n
    assert n < done < 2 * n
    store.shuffle(path)
    assert shuffle_module.rows_moved(path) == (n, n)
