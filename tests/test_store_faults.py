"""Single faults in chunk files: each is met on every way to the rows, and named; nothing else is.

One fault a time is drawn by seed, the ways that read the damaged array must refuse it with the right array, chunk and
rows, the others must not notice, and after the file is put back all read again.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numcodecs
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

import streamfit as sf
from streamfit.errors import StoreCorruptError
from streamfit.store.chunk_files import write_chunk_file
from streamfit.store.format import ARRAY_NAMES, CODECS
from streamfit.store.writer import StoreWriter

CHUNK_ROWS, N_ROWS, N_TAIL = 100, 410, 50
"""Five chunks, the last one short. The fourth was short, too, before the last rows were appended."""


# -- the stores --------------------------------------------------------------------------------------------


@dataclass
class World:
    """A store with four arrays, and the chunk files of the store that lay there before and of its shorter version."""

    store: sf.FeatureStore
    rows: dict[str, np.ndarray]
    older: dict[tuple[str, int], bytes] = field(default_factory=dict)
    shorter: dict[str, bytes] = field(default_factory=dict)

    def file(self, array: str, chunk: int) -> Path:
        return self.store.manifest.arrays[array].chunk_file(Path(self.store.path), chunk)

    @property
    def n_chunks(self) -> int:
        return self.store.layout.n_chunks

    def bounds(self, chunk: int) -> tuple[int, int]:
        return chunk * CHUNK_ROWS, min(chunk * CHUNK_ROWS + CHUNK_ROWS, N_ROWS)

    def committed(self, array: str, chunk: int) -> bytes:
        start, stop = self.bounds(chunk)
        return self.rows[array][start:stop].tobytes()

    def on_disk(self, array: str, chunk: int) -> bytes | None:
        """Decode by other means the rows that a file holds now; None where there are none."""
        spec = self.store.manifest.arrays[array]
        try:
            content = self.file(array, chunk).read_bytes()
            if spec.codec == "zstd":
                content = bytes(numcodecs.Zstd().decode(content))
            elif spec.codec != "raw":
                if int.from_bytes(content[4:8], "little") != spec.chunk_nbytes:  # it would be believed
                    return None
                content = bytes(numcodecs.Blosc().decode(content))
        except (FileNotFoundError, RuntimeError, ValueError):
            return None
        start, stop = self.bounds(chunk)
        return content[: (stop - start) * spec.row_nbytes] if len(content) == spec.chunk_nbytes else None


def noise(rng: np.random.Generator, n_features: int) -> dict[str, np.ndarray]:
    return {
        "X": rng.normal(size=(N_ROWS, n_features)),
        "y": rng.normal(size=N_ROWS),
        "sample_weight": rng.random(N_ROWS),
        "ids": rng.integers(0, 2**62, N_ROWS),
    }


def compressible(rng: np.random.Generator, n_features: int) -> dict[str, np.ndarray]:
    return {
        "X": rng.integers(0, 9, (N_ROWS, n_features)).astype("f4"),
        "y": rng.integers(0, 3, N_ROWS),
        "sample_weight": rng.integers(1, 4, N_ROWS).astype("f8"),
        "ids": np.sort(rng.integers(0, 5_000, N_ROWS)),
    }


def several(make, rng: np.random.Generator, n_features: int) -> dict[str, np.ndarray]:
    """Give rows as many labels as features: a chunk of both has as many bytes."""
    rows = make(rng, n_features=n_features)
    return {**rows, "y": make(rng, n_features=n_features)["X"][::-1].astype("f4").copy()}


MAKERS = {
    "raw": functools.partial(noise, n_features=3),
    # A chunk of any array has as many bytes as one of any other.
    "raw-narrow": functools.partial(noise, n_features=1),
    "blosc-lz4": functools.partial(compressible, n_features=5),
    "blosc-lz4-bits": functools.partial(compressible, n_features=5),
    "zstd": functools.partial(compressible, n_features=5),
    "raw-outputs": functools.partial(several, noise, n_features=3),
    "blosc-lz4-outputs": functools.partial(several, compressible, n_features=5),
    "zstd-outputs": functools.partial(several, compressible, n_features=5),
}


def codec_of(name: str) -> str:
    return name.removesuffix("-narrow").removesuffix("-outputs")


def build(folder: Path, codec: str) -> World:
    """Write a store over another one, and then append to it."""
    with mock.patch("streamfit.store.committing.choose_codec", return_value=codec_of(codec)):
        return _build(folder, codec)


def _build(folder: Path, codec: str) -> World:
    make, path = MAKERS[codec], folder / "store.zarr"

    def write(rows: dict[str, np.ndarray], n_rows: int) -> World:
        sides = {name: values[:n_rows] for name, values in rows.items() if name != "X"}
        store = sf.ingest(rows["X"][:n_rows], path, **sides, chunk_rows=CHUNK_ROWS, if_exists="overwrite")
        return World(store, rows)

    before = write(make(np.random.default_rng(1)), N_ROWS)
    older = {
        (array, chunk): before.file(array, chunk).read_bytes()
        for array in ARRAY_NAMES
        for chunk in range(before.n_chunks)
    }
    rows = make(np.random.default_rng(2))
    short = write(rows, 3 * CHUNK_ROWS + N_TAIL)
    shorter = {array: short.file(array, 3).read_bytes() for array in ARRAY_NAMES}
    with StoreWriter.append_to(path, source={"kind": "more"}, continues=False) as writer:
        writer.append(*(rows[name][short.store.n_rows :] for name in ARRAY_NAMES))
    world = World(sf.open_store(path), rows, older, shorter)
    assert world.store.shape[0] == N_ROWS
    assert {spec.codec for spec in world.store.manifest.arrays.values()} == {codec_of(codec)}
    return world


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return {codec: build(tmp_path_factory.mktemp(codec), codec) for codec in MAKERS}


# -- the ways to the rows ----------------------------------------------------------------------------------


class Sums:
    """A summary that notices any other row: sums of the bits, as whole numbers."""

    state_nbytes = 64

    def empty(self):
        return 0

    def update(self, state, chunk):
        return state + sum(_bits(values) for values in (chunk.X, chunk.y, chunk.sample_weight) if values is not None)

    def merge(self, left, right):
        return left + right

    def finalize(self, state):
        return state


def _bits(values: np.ndarray) -> int:
    if values.dtype.kind not in "iufb":
        values = np.unique(values, return_inverse=True)[1]
    return int(np.ascontiguousarray(values).view(np.uint8).sum(dtype=np.uint64))


def _first_column(_, chunk):
    return chunk.X[:, 0]


def read_stream(world, rows):
    """In the order of the store."""
    store = world.store
    batches = list(store.stream(store.plan(batch_size=64, shuffle="none")))
    return {name: np.concatenate([getattr(b, name) for b in batches]) for name in ("X", "y", "sample_weight")}


def read_shuffled_stream(world, rows):
    store = world.store
    batches = list(store.stream(store.plan(batch_size=64, seed=3, window=2)))
    order = np.argsort(np.concatenate([b.rows for b in batches]))
    return {name: np.concatenate([getattr(b, name) for b in batches])[order] for name in ("X", "y", "sample_weight")}


def read_reduce(world, rows):
    got = world.store.reduce(Sums())
    assert got == sum(_bits(world.rows[name]) for name in ("X", "y", "sample_weight"))
    return {}


def read_map(world, rows):
    got = world.store.map(_first_column, model=None, dtype=world.store.dtype).compute()
    np.testing.assert_array_equal(got, world.rows["X"][:, 0])
    return {}


def read_take(world, rows):
    np.testing.assert_array_equal(world.store.take(rows), world.rows["X"][rows])
    return {}


def read_take_labels(world, rows):
    np.testing.assert_array_equal(world.store.take_labels(rows), world.rows["y"][rows])
    return {}


def read_ingest(world, rows):
    target = Path(world.store.path).parent / "copy.zarr"
    copy = sf.ingest(world.store, target, chunk_rows=130, if_exists="overwrite")
    return {name: getattr(copy, name).compute() for name in ARRAY_NAMES}


def read_shuffle(world, rows):
    store = world.store.shuffle(Path(world.store.path).parent / "shuffled.zarr", seed=1, if_exists="overwrite")

    # Ids may repeat: the rows as a whole are compared, sorted by all that they hold.
    def table(arrays):
        columns = [np.asarray(arrays[name]).reshape(N_ROWS, -1).astype("f8") for name in ARRAY_NAMES]
        values = np.concatenate(columns, axis=1)
        return values[np.lexsort(values.T)]

    np.testing.assert_array_equal(
        table({name: getattr(store, name).compute() for name in ARRAY_NAMES}), table(world.rows)
    )
    return {}


THIRD = np.arange(1, N_ROWS, 3)
"""Rows of each stored chunk; three stored chunks make one of the view."""


def read_view(name, world, rows):
    np.testing.assert_array_equal(getattr(world.store.select(THIRD), name).compute(), world.rows[name][THIRD])
    return {}


def read_stream_of_view(world, rows):
    view = world.store.select(THIRD)
    batches = list(view.stream(view.plan(batch_size=32, seed=1)))
    order = np.argsort(np.concatenate([b.rows for b in batches]))
    for name in ("X", "y", "sample_weight"):
        got = np.concatenate([getattr(b, name) for b in batches])[order]
        np.testing.assert_array_equal(got, world.rows[name][THIRD])
    return {}


def read_take_of_view(world, rows):
    view = world.store[world.bounds(rows[0] // CHUNK_ROWS)[0] :]
    np.testing.assert_array_equal(view.take(rows - rows[0] // CHUNK_ROWS * CHUNK_ROWS), world.rows["X"][rows])
    return {}


class Turned(TransformerMixin, BaseEstimator):
    """The columns from the last to the first, bit for bit."""

    __sklearn_is_fitted__ = staticmethod(lambda: True)

    def transform(self, X):
        return X[:, ::-1]


def read_transformed(name, world, rows):
    got = getattr(world.store.transformed(Turned()), name).compute()
    return {name: got[:, ::-1] if name == "X" else got}


def read_stream_of_transformed(world, rows):
    store = world.store.transformed(Turned())
    batches = list(store.stream(store.plan(batch_size=64, shuffle="none")))
    read = {name: np.concatenate([getattr(b, name) for b in batches]) for name in ("X", "y", "sample_weight")}
    return {**read, "X": read["X"][:, ::-1]}


def read_take_of_transformed(world, rows):
    got = world.store.transformed(Turned()).take(rows)
    np.testing.assert_array_equal(got, world.rows["X"][rows, ::-1])
    return {}


def read_transform(world, rows):
    target = Path(world.store.path).parent / "transformed.zarr"
    store = world.store.transform(Turned(), target, chunk_rows=130, if_exists="overwrite")
    read = {name: getattr(store, name).compute() for name in ARRAY_NAMES}
    return {**read, "X": read["X"][:, ::-1]}


def read_array(name, world, rows):
    return {name: getattr(world.store, name).compute()}


WITH_X = {"X", "y", "sample_weight"}
WAYS: dict[str, tuple[Any, set[str]]] = {
    "stream": (read_stream, WITH_X),
    "shuffled stream": (read_shuffled_stream, WITH_X),
    "store.X": (functools.partial(read_array, "X"), {"X"}),
    "store.y": (functools.partial(read_array, "y"), {"y"}),
    "store.sample_weight": (functools.partial(read_array, "sample_weight"), {"sample_weight"}),
    "store.ids": (functools.partial(read_array, "ids"), {"ids"}),
    "take": (read_take, {"X"}),
    "take_labels": (read_take_labels, {"y"}),
    "reduce": (read_reduce, WITH_X),
    "map": (read_map, WITH_X),
    "ingest": (read_ingest, set(ARRAY_NAMES)),
    "shuffle": (read_shuffle, set(ARRAY_NAMES)),
    "X of a view": (functools.partial(read_view, "X"), {"X"}),
    "ids of a view": (functools.partial(read_view, "ids"), {"ids"}),
    "stream of a view": (read_stream_of_view, WITH_X),
    "take of a view": (read_take_of_view, {"X"}),
    "transformed X": (functools.partial(read_transformed, "X"), {"X"}),
    "ids of transformed rows": (functools.partial(read_transformed, "ids"), {"ids"}),
    "stream of transformed rows": (read_stream_of_transformed, WITH_X),
    "take of transformed rows": (read_take_of_transformed, {"X"}),
    "transform": (read_transform, set(ARRAY_NAMES)),
}
"""By name: what reads, and which arrays it reads."""


def check_rows(world, rows, way):
    for name, values in WAYS[way][0](world, rows).items():
        assert values.tobytes() == world.rows[name].tobytes(), (way, name)


# -- the faults --------------------------------------------------------------------------------------------


def flip(world, array, chunk, rng):
    content = bytearray(world.file(array, chunk).read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return {(array, chunk): bytes(content)}


def truncate(world, array, chunk, rng):
    content = world.file(array, chunk).read_bytes()
    return {(array, chunk): content[: rng.integers(1, len(content))]}


def delete(world, array, chunk, rng):
    return {(array, chunk): None}


def empty(world, array, chunk, rng):
    return {(array, chunk): b""}


def swap_in_array(world, array, chunk, rng):
    other = int(rng.choice([index for index in range(world.n_chunks) if index != chunk]))
    return _swapped(world, (array, chunk), (array, other))


def swap_across_arrays(world, array, chunk, rng):
    """The same rows, or others, of an array whose values have as many bytes where there is one."""
    sizes = {name: world.store.manifest.arrays[name].chunk_nbytes for name in ARRAY_NAMES if name != array}
    alike = [name for name, size in sizes.items() if size == world.store.manifest.arrays[array].chunk_nbytes]
    other = str(rng.choice(alike or list(sizes)))
    return _swapped(world, (array, chunk), (other, int(rng.integers(world.n_chunks))))


def _swapped(world, one, other):
    return {one: world.file(*other).read_bytes(), other: world.file(*one).read_bytes()}


def before_append(world, array, chunk, rng):
    return {(array, 3): world.shorter[array]}


def before_overwrite(world, array, chunk, rng):
    return {(array, chunk): world.older[array, chunk]}


def zeros(world, array, chunk, rng):
    spec = world.store.manifest.arrays[array]
    aside = Path(world.store.path).parent / "zeros"
    write_chunk_file(aside, spec, 0, np.zeros(spec.shape(CHUNK_ROWS), spec.dtype))
    return {(array, chunk): spec.chunk_file(aside, 0).read_bytes()}


def extend(world, array, chunk, rng):
    return {(array, chunk): world.file(array, chunk).read_bytes() + rng.bytes(int(rng.integers(1, 900)))}


FAULTS = {
    "bit flip": flip,
    "truncate": truncate,
    "delete": delete,
    "zero length": empty,
    "swap in the array": swap_in_array,
    "swap with another array": swap_across_arrays,
    "tail before an append": before_append,
    "chunk before an overwrite": before_overwrite,
    "zeros": zeros,
    "extended": extend,
}


def put(world, contents):
    for place, content in contents.items():
        file = world.file(*place)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)


@dataclass
class Tally:
    effective: Counter = field(default_factory=Counter)
    detected: Counter = field(default_factory=Counter)
    harmless: Counter = field(default_factory=Counter)
    refusals: Counter = field(default_factory=Counter)
    by_codec: Counter = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"{'fault':<28}{'injected':>9}{'detected':>9}{'without effect':>16}"]
        lines += [
            f"{kind:<28}{self.effective[kind]:>9}{self.detected[kind]:>9}{self.harmless[kind]:>16}" for kind in FAULTS
        ]
        totals = (sum(counts.values()) for counts in (self.effective, self.detected, self.harmless))
        lines.append("{:<28}{:>9}{:>9}{:>16}".format("all", *totals))
        lines.append(", ".join(f"{way}: {n}" for way, n in sorted(self.refusals.items())) + " refusals")
        lines.append(", ".join(f"{codec}: {n}" for codec, n in sorted(self.by_codec.items())))
        return "\n".join(lines)


def try_fault(world, kind, array, chunk, rng, tally):
    """Inject one fault, read on every way, put the file back. Tells whether the fault changed committed rows."""
    contents = FAULTS[kind](world, array, chunk, rng)
    saved = {place: world.file(*place).read_bytes() for place in contents}
    put(world, contents)
    try:
        changed = {place for place in contents if world.on_disk(*place) != world.committed(*place)}
        # A file of another length is refused whatever its rows are.
        changed |= {place for place in contents if len(contents[place] or b"") != len(saved[place])}
        report = world.store.verify()
        bad = {(found.array, found.chunk): found for found in report.bad_chunks}
        # A changed file whose rows are the same may be refused, as where a flag of its header is not one we write.
        assert changed <= bad.keys() <= contents.keys(), (kind, contents.keys(), changed, bad)
        assert report.bad_metadata == ()
        assert all(found.rows == world.bounds(found.chunk) for found in bad.values())
        beside = [index for index in range(world.n_chunks) if index not in {place[1] for place in bad}]
        view = world.store.select(np.concatenate([np.arange(*world.bounds(index)) for index in beside]))
        assert view.verify().ok
        np.testing.assert_array_equal(view.X.compute(), world.rows["X"][view.row_numbers()])
        start, stop = world.bounds(chunk if (array, chunk) in contents else 3)
        rows = rng.integers(start, stop, 5)
        for way, (read, arrays) in WAYS.items():
            touched = {place for place in bad if place[0] in arrays}
            if way.startswith("take"):
                touched = {place for place in touched if world.bounds(place[1])[0] == start}
            if not touched:
                check_rows(world, rows, way)
                continue
            with pytest.raises(StoreCorruptError) as caught:
                read(world, rows)
            error = caught.value
            assert (error.array, error.chunk) in touched, (kind, way, touched, str(error))
            assert error.rows == world.bounds(error.chunk), (kind, way)
            assert f"Chunk {error.chunk} of {error.array} " in str(error)
            tally.refusals[way] += 1
    finally:
        put(world, saved)
    if changed:
        tally.effective[kind] += 1
        tally.detected[kind] += changed <= bad.keys()
        tally.by_codec[world.store.manifest.arrays[array].codec] += 1
    else:
        tally.harmless[kind] += 1
    return bool(changed)


def inject(worlds, n_faults, seed):
    rng = np.random.default_rng(seed)
    tally, n_effective, n_drawn = Tally(), 0, 0
    while n_effective < n_faults:
        # Kinds and arrays take turns: every pair comes as often.
        kind = list(FAULTS)[n_drawn % len(FAULTS)]
        array = ARRAY_NAMES[n_drawn // len(FAULTS) % len(ARRAY_NAMES)]
        world = worlds[str(rng.choice(list(MAKERS)))]
        n_effective += try_fault(world, kind, array, int(rng.integers(world.n_chunks)), rng, tally)
        n_drawn += 1
    print(f"\n{tally}")
    for world in worlds.values():
        assert world.store.verify().ok
        for way in WAYS:
            check_rows(world, np.arange(0, N_ROWS, 7), way)
    return tally


def test_two_dozen_faults_are_met_on_every_way(worlds):
    assert sum(inject(worlds, 24, seed=0).detected.values()) == 24


@pytest.mark.slow
def test_a_thousand_faults_are_met_on_every_way(worlds):
    tally = inject(worlds, 1_000, seed=1)
    assert sum(tally.detected.values()) == 1_000
    assert min(tally.detected[kind] for kind in FAULTS) > 50


@pytest.mark.parametrize("array", ARRAY_NAMES)
@pytest.mark.parametrize("codec", CODECS)
def test_a_flip_behind_the_last_row_changes_nothing(worlds, codec, array):
    """The padding of the last chunk is not committed: it may be anything, and the rows are the same."""
    world = worlds[codec]
    file, spec = world.file(array, 4), world.store.manifest.arrays[array]
    saved = file.read_bytes()
    padded = np.zeros(spec.shape(CHUNK_ROWS), spec.dtype)
    padded[: N_ROWS % CHUNK_ROWS] = world.rows[array][4 * CHUNK_ROWS :]
    write_chunk_file(Path(world.store.path), spec, 4, padded)
    try:
        assert file.read_bytes() != saved
        assert world.store.verify().ok
        for way in WAYS:
            check_rows(world, np.arange(N_ROWS), way)
    finally:
        file.write_bytes(saved)


# -- no false alarms ---------------------------------------------------------------------------------------


def _odd_rows():
    """Chunks of 50 rows, each with something that a careless check would take for damage."""
    rng = np.random.default_rng(0)
    chunks = {
        "zeros": np.zeros((50, 3)),
        "NaN": np.full((50, 3), np.nan),
        "negative zeros": np.full((50, 3), -0.0),
        "NaN with payloads": (np.arange(150, dtype=np.uint64) | 0x7FF8_0000_0000_0000).view("f8").reshape(50, 3),
        "negative NaN": (np.arange(1, 151, dtype=np.uint64) | 0xFFF0_0000_0000_0000).view("f8").reshape(50, 3),
        "infinite": np.full((50, 3), -np.inf),
        "subnormal": np.full((50, 3), 5e-324) * np.arange(150).reshape(50, 3),
        "largest": np.full((50, 3), np.finfo("f8").max),
        "constant columns": np.tile([1.0, 2.0, 3.0], (50, 1)),
        "equal to its neighbour": np.tile([1.0, 2.0, 3.0], (50, 1)),
        "noise": rng.normal(size=(50, 3)),
        "noise again, and short": rng.normal(size=(17, 3)),
    }
    return np.concatenate(list(chunks.values()))


@pytest.mark.parametrize("order", [1, -1], ids=["compressed", "raw"])
def test_no_false_alarms(tmp_path, order):
    X = _odd_rows()[::order].copy()
    labels = np.where(np.arange(len(X)) % 5 < 2, "", "x")
    weights = np.where(np.arange(len(X)) < 200, 0.0, 5e-324)
    ids = np.where(np.arange(len(X)) < 300, np.iinfo("i8").min, -1)
    store = sf.ingest(X, tmp_path / "a", y=labels, sample_weight=weights, ids=ids, chunk_rows=50, nonfinite="keep")
    assert store.manifest.arrays["X"].codec == ("blosc-lz4" if order == 1 else "raw")
    world = World(store, {"X": X, "y": labels, "sample_weight": weights, "ids": ids})
    assert store.verify().ok
    rows = np.arange(0, len(X), 3)
    for way in WAYS:
        # The others compare values, or refuse what is not finite.
        if "view" in way or way in ("take", "map", "ingest", "shuffle"):
            continue
        check_rows(world, rows, way)
    assert store.take(rows).tobytes() == X[rows].tobytes()
    assert store.map(_first_column, model=None, dtype="f8").compute().tobytes() == X[:, 0].tobytes()
    copy = sf.ingest(store, tmp_path / "copy", chunk_rows=64, nonfinite="keep")
    assert copy.verify().ok
    assert copy.X.compute().tobytes() == X.tobytes()


# -- the other modes ---------------------------------------------------------------------------------------


def test_first_does_not_see_what_is_damaged_after_the_first_read(tmp_path):
    """As `open_store` says; each array and chunk has a first read of its own."""
    world = build(tmp_path, "raw")
    store = sf.open_store(world.store.path, verify="first")
    np.testing.assert_array_equal(store.X.compute(), world.rows["X"])
    for array in ("X", "y"):
        put(world, flip_the_first_bit(world, array, 1))
    assert store.X.compute()[100, 0] != world.rows["X"][100, 0]
    np.testing.assert_array_equal(store.X.compute()[101:], world.rows["X"][101:])
    with pytest.raises(StoreCorruptError, match="Chunk 1 of y"):
        store.y.compute()
    assert [bad.array for bad in store.verify().bad_chunks] == ["X", "y"]  # verify always compares
    with pytest.raises(StoreCorruptError, match="Chunk 1 of X"):
        sf.open_store(world.store.path).X.compute()


def test_never_sees_no_other_bytes_but_every_other_length(tmp_path):
    world = build(tmp_path, "raw")
    store = sf.open_store(world.store.path, verify="never")
    put(world, flip_the_first_bit(world, "X", 1))
    assert store.X.compute()[100, 0] != world.rows["X"][100, 0]
    assert not store.verify().ok
    put(world, {("X", 2): world.file("X", 2).read_bytes()[:-1]})
    with pytest.raises(StoreCorruptError, match="Chunk 2 of X"):
        store.X.compute()


def flip_the_first_bit(world, array, chunk):
    content = bytearray(world.file(array, chunk).read_bytes())
    content[0] ^= 1
    return {(array, chunk): bytes(content)}


@pytest.mark.parametrize("codec", CODECS[1:])
def test_no_bit_of_a_compressed_header_gives_other_rows_even_unverified(worlds, codec):
    world = worlds[codec]
    reader = sf.open_store(world.store.path, verify="never").reader
    for array in ARRAY_NAMES:
        saved = world.file(array, 0).read_bytes()
        n_refused, n_bits = 0, 8 * (7 if codec == "zstd" else 16)  # zstd: magic number, flags, decoded size
        for bit in range(n_bits):
            damaged = bytearray(saved)
            damaged[bit // 8] ^= 1 << bit % 8
            put(world, {(array, 0): bytes(damaged)})
            try:
                assert reader.read_array(array, 0).tobytes() == world.committed(array, 0)
            except StoreCorruptError:
                n_refused += 1
        put(world, {(array, 0): saved})
        assert n_refused > 0.93 * n_bits
