from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.errors import InvalidDataError, InvalidParameterError, StoreIncompleteError, StoreLockedError
from streamfit.store.writer import StoreWriter

N_ROWS, CHUNK_ROWS = 450, 100
X = np.random.default_rng(0).standard_normal((N_ROWS, 4)).astype("f4")
SIDES = {
    "y": np.array(["spam", "ham", "eggs"])[np.arange(N_ROWS) * 7 % 3],
    "sample_weight": np.linspace(1, 2, N_ROWS),
    "ids": np.arange(N_ROWS) * 3,
}
NAMES = ["a", "b", "c", "d"]


def table(rows=slice(None)):
    return pd.DataFrame(X[rows], columns=NAMES).assign(**{name: values[rows] for name, values in SIDES.items()})


ROLES = {name: name for name in SIDES}


def as_batches(_):
    return [(X[start : start + 70], SIDES["y"][start : start + 70]) for start in range(0, N_ROWS, 70)]


def as_npy(folder):
    np.save(folder / "X.npy", X)
    return folder / "X.npy"


def as_parquet(folder):
    table().to_parquet(folder / "X.parquet")
    return folder / "X.parquet"


def as_csv(folder):
    table().to_csv(folder / "X.csv", index=False)
    return folder / "X.csv"


SOURCES = {
    "array": (lambda _: X, SIDES),
    "npy": (as_npy, SIDES),
    "table": (lambda _: table(), ROLES),
    "parquet": (as_parquet, ROLES),
    "csv": (as_csv, ROLES),
    "batches": (as_batches, {}),
}


def damage(store, *chunks):
    """Damage chunks in four ways, one after the other."""
    spoil = [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(bytes(255 - byte for byte in file.read_bytes())),
    ]
    for number, (name, index) in enumerate(chunks):
        spec = store.manifest.arrays[name]
        spoil[number % 4](spec.chunk_file(Path(store.path), index))


def content_of(store):
    root = Path(store.path)
    return {
        file.relative_to(root): file.read_bytes() for file in root.rglob("*") if file.name != "lock" and file.is_file()
    }


@pytest.mark.parametrize("kind", SOURCES)
def test_damaged_chunks_are_those_of_before(tmp_path, kind):
    make, options = SOURCES[kind]
    source = make(tmp_path)
    store = sf.ingest(source, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS, **options)
    before = content_of(store)
    damage(store, ("X", 0), ("X", 3), ("y", 4), ("X", 4), *[("ids", 1), ("sample_weight", 2)] * (kind != "batches"))
    assert not store.verify().ok
    report = sf.repair(make(tmp_path), store, **options)
    assert report.ok
    assert content_of(store) == before


def test_only_the_damaged_rows_are_read(tmp_path, monkeypatch):
    from streamfit.sources import npy

    np.save(tmp_path / "X.npy", np.repeat(X, 20, axis=0))
    store = sf.ingest(tmp_path / "X.npy", tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    damage(store, ("X", 70))
    read = []
    real = npy._read_rows
    monkeypatch.setattr(npy, "block_rows", lambda _: 50)
    monkeypatch.setattr(npy, "_read_rows", lambda *args: (read.append(args[2:4]), real(*args))[1])
    assert sf.repair(tmp_path / "X.npy", store).ok
    assert read == [(7000, 7050), (7050, 7100)]


def test_a_store_that_is_whole_is_left_alone(tmp_path):
    store = sf.ingest(X, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "s.zarr").rglob("*")}
    assert sf.repair(X, store.path).ok
    assert {file: file.stat().st_mtime_ns for file in times} == times


def test_rows_that_changed_repair_nothing_and_the_others_do(tmp_path):
    store = sf.ingest(X, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    damage(store, ("X", 1), ("X", 2))
    changed = X.copy()
    changed[250] += 1
    assert sf.repair(changed, store).bad_rows() == ((200, 300),)
    assert sf.repair(X, store).ok


def test_what_is_not_given_stays_damaged(tmp_path):
    store = sf.ingest(X, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS, **SIDES)
    damage(store, ("X", 1), ("y", 1))
    report = sf.repair(X, store)
    assert (report.bad_rows("X"), report.bad_rows("y")) == ((), ((100, 200),))
    # Attached labels come from nowhere else: any source of the rows does, with the labels beside it.
    assert sf.repair(X, store, y=SIDES["y"]).ok


def test_a_source_that_ends_before(tmp_path):
    store = sf.ingest(X, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    damage(store, ("X", 1), ("X", 4))
    assert sf.repair(X[:420], store).bad_rows() == ((400, 450),)


def test_appended_rows_come_from_their_own_source(tmp_path):
    store = sf.ingest(X[:200], tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    store = sf.append(X[200:350], store)
    store = sf.append(X[350:], store)
    damage(store, ("X", 1), ("X", 2), ("X", 3), ("X", 4))
    assert sf.repair(X[200:350], store).bad_rows() == ((100, 200), (300, 450))
    assert sf.repair(X[350:], store).bad_rows() == ((100, 200), (300, 400))  # two sources share a chunk
    assert sf.repair(X[:200], store).bad_rows() == ((300, 400),)
    assert sf.repair(X, store).ok


def test_columns_in_another_order(tmp_path):
    store = sf.ingest(table(), tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS, **ROLES)
    damage(store, ("X", 1))
    assert sf.repair(table()[[*NAMES[::-1], *SIDES]], store, **ROLES).ok


def test_metadata_are_written_again(tmp_path):
    store = sf.ingest(X, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    before = content_of(store)
    (tmp_path / "s.zarr/X/zarr.json").unlink()
    (tmp_path / "s.zarr/zarr.json").write_text("{")
    assert len(store.verify().bad_metadata) == 2
    assert sf.repair(X, store).ok
    assert content_of(store) == before


def test_what_cannot_be_repaired_is_refused(tmp_path):
    store = sf.ingest(X, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS)
    with pytest.raises(InvalidParameterError, match="view"):
        sf.repair(X, store[:10])
    with pytest.raises(InvalidDataError, match="3 columns"):
        sf.repair(X[:, :3], store)
    damage(store, ("X", 0))
    with StoreWriter.append_to(store.path, source={}, continues=False), pytest.raises(StoreLockedError):
        sf.repair(X, store)

    def broken():
        yield X[:200]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        sf.ingest(broken(), tmp_path / "t.zarr", chunk_rows=CHUNK_ROWS)
    with pytest.raises(StoreIncompleteError):
        sf.repair(X, tmp_path / "t.zarr")


def test_the_command_ends_with_1_while_something_is_bad(tmp_path):
    source = as_parquet(tmp_path)
    store = sf.ingest(source, tmp_path / "s.zarr", chunk_rows=CHUNK_ROWS, **ROLES)
    damage(store, ("X", 1), ("y", 2))
    named = [part for name in SIDES for part in (f"--{name.replace('_', '-')}", name)]
    command = ["repair", str(source), store.path]
    some = CliRunner().invoke(app, [*command, "--columns", ",".join(NAMES)])
    assert (some.exit_code, some.output.splitlines()[0][:9]) == (1, "y chunk 2")
    whole = CliRunner().invoke(app, [*command, *named])
    assert (whole.exit_code, whole.output) == (0, "ok: 20 chunks are as they were written\n")
