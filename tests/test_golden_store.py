"""Small stores that were written with format 1 and are kept: every later version reads them as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

import streamfit as sf
from streamfit.feature_store import FeatureStore
from streamfit.store.reader import StoreRef
from streamfit.store.versions import kept_versions

GOLDEN = Path(__file__).parent / "golden/v1"
CHUNK_ROWS, N_FIRST, N_ROWS = 100, 230, 330
"""230 rows were ingested, so that the third chunk was short, and 100 appended, so that the fourth is."""

NAMES = ("speed", "load, mean", "größe")


# -- what is in them -------------------------------------------------------------------------------------


def hashed(rows: np.ndarray) -> np.ndarray:
    """Mix whole numbers to 64 bits that no codec shrinks (SplitMix64), the same on every machine."""
    with np.errstate(over="ignore"):
        z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def expected(name: str) -> dict[str, np.ndarray]:
    """Values of the store ``raw`` (noise, some not finite, text labels) or ``blosc`` (few small integers)."""
    rows = np.arange(1, N_ROWS + 1)
    cells = np.arange(1, N_ROWS * len(NAMES) + 1).reshape(N_ROWS, len(NAMES))
    if name == "blosc":
        return {
            "X": (cells % 7 - 3).astype("i2"),
            "y": (rows % 3).astype("i8"),
            "sample_weight": np.where(rows % 2, 0.5, 2.0),
            "ids": rows * 1_000 - 5,
        }
    X = (hashed(cells) >> np.uint64(40)).astype("f4") / np.float32(2**24)
    X[5::37, 1], X[6, 0], X[7, 0], X[8, 0], X[299, 2] = np.nan, np.inf, -np.inf, -0.0, np.nan
    labels = np.array(["spam", "", "häm"])[rows % 3]
    labels[250:] = np.where(rows[250:] % 2, "later", "spam")
    return {"X": X, "y": labels, "sample_weight": (hashed(rows) >> 11) / 2.0**53, "ids": (hashed(rows) >> 1).view("i8")}


CODECS = {
    "raw": {"X": "raw", "y": "blosc-lz4", "sample_weight": "raw", "ids": "raw"},
    "blosc": dict.fromkeys(("X", "y", "sample_weight", "ids"), "blosc-lz4"),
}


def write_golden(folder: Path) -> None:
    """Write both stores. Those that are kept were made by this, with format 1, and are never made again."""
    for name in ("raw", "blosc"):
        values = expected(name)

        def part(start, stop, values=values):
            frame = pd.DataFrame(values["X"][start:stop], columns=NAMES)
            return frame, {side: values[side][start:stop] for side in ("y", "sample_weight", "ids")}

        frame, sides = part(0, N_FIRST)
        if name == "blosc":  # labels that were attached later, and then replaced by those that are expected
            labels = sides.pop("y")
        store = sf.ingest(frame, folder / name, **sides, chunk_rows=CHUNK_ROWS, nonfinite="keep")
        if name == "blosc":
            store = sf.attach(store, y=labels[::-1].copy())
            store = sf.attach(store, y=labels, if_exists="overwrite")
        frame, sides = part(N_FIRST, N_ROWS)
        sf.append(frame, store, **sides)
        (folder / name / "streamfit/lock").write_bytes(b"")  # it names a process and its machine


# -- they are read as they were written ------------------------------------------------------------------


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    write_golden(folder)
    return folder


@pytest.fixture(params=["kept", "fresh"])
def folder(request, fresh):
    """The kept stores; and the same written now, so that a change of format is seen from both sides."""
    return GOLDEN if request.param == "kept" else fresh


def check_values(store, values, n_rows):
    assert store.n_rows == n_rows
    for side, wanted in values.items():
        got = getattr(store, side).compute()
        assert got.dtype == wanted.dtype or side == "y", side  # texts may be as long as the longest of these rows
        assert got.astype(wanted.dtype).tobytes() == wanted[:n_rows].tobytes(), side


@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_values_names_and_counts(folder, name):
    store, values = sf.open_store(folder / name), expected(name)
    check_values(store, values, N_ROWS)
    assert store.feature_names == NAMES
    assert {array: spec.codec for array, spec in store.manifest.arrays.items()} == CODECS[name]
    classes, counts = np.unique(values["y"], return_counts=True)
    np.testing.assert_array_equal(store.classes, classes)
    np.testing.assert_array_equal(store.class_counts, counts)
    X = np.where(np.isfinite(values["X"]), values["X"], np.nan).astype("f8")
    np.testing.assert_array_equal(store.statistics.minimum, np.nanmin(X, axis=0))
    np.testing.assert_allclose(store.statistics.mean, np.nanmean(X, axis=0), rtol=1e-12)
    np.testing.assert_array_equal(store.n_nonfinite, np.isnan(X).sum(axis=0))
    rows = [329, 0, 299, 5]
    np.testing.assert_array_equal(store.take(rows), values["X"][rows])
    np.testing.assert_array_equal(store[220:301].X.compute(), values["X"][220:301])


@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_they_verify(folder, name):
    report = sf.open_store(folder / name).verify()
    assert report.ok, str(report)
    assert report.n_chunks == 16


@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_what_was_opened_before_the_append_is_still_read(folder, name):
    store = sf.open_store(folder / name)
    versions = {version.digest: version for version in kept_versions(folder / name)}
    before = FeatureStore(StoreRef(store.path, store.manifest.extends))
    assert before.manifest.digest in versions
    check_values(before, expected(name), N_FIRST)
    assert before.verify().ok
    if name == "blosc":  # the first labels, and none
        reversed_labels = FeatureStore(StoreRef(store.path, before.manifest.extends))
        np.testing.assert_array_equal(reversed_labels.y.compute(), expected(name)["y"][:N_FIRST][::-1])
        assert FeatureStore(StoreRef(store.path, reversed_labels.manifest.extends)).y is None
        assert len(versions) == 3


@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_zarr_reads_them(folder, name):
    store, values = sf.open_store(folder / name), expected(name)
    group = zarr.open_group(str(folder / name), mode="r")
    for side in ("X", "sample_weight", "ids"):
        assert group[store.manifest.arrays[side].folder][:].tobytes() == values[side].tobytes()
    stored = group[store.manifest.arrays["y"].folder][:]
    np.testing.assert_array_equal(store.manifest.labels.decode(stored), values["y"])


@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_a_copy_takes_more_rows(folder, name, tmp_path):
    shutil.copytree(folder / name, tmp_path / name)
    values = expected(name)
    old = sf.open_store(tmp_path / name)
    frame = pd.DataFrame(values["X"][:150], columns=NAMES)
    longer = sf.append(frame, old, **{side: values[side][:150] for side in ("y", "sample_weight", "ids")})
    check_values(longer, {side: np.concatenate([rows, rows[:150]]) for side, rows in values.items()}, N_ROWS + 150)
    assert longer.verify().ok
    check_values(old, values, N_ROWS)


@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_info_tells_their_format(name):
    info = sf.open_store(GOLDEN / name).info()
    assert info.format_version == 1
    assert [part["n_rows"] for part in info.appended] == [N_ROWS - N_FIRST]


def test_they_are_small_and_name_no_machine():
    files = [file for file in GOLDEN.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 200_000
    assert {file.stat().st_size for file in files if file.name == "lock"} == {0}
    for file in files:
        if file.suffix == ".json":
            assert b"/tmp" not in file.read_bytes()
            assert b"/home" not in file.read_bytes()
