"""The benchmark of the stream runs, judges rightly, and compares ways that do the same work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import streamfit as sf

BENCHMARKS = Path(__file__).parent / "benchmarks"
sys_path_only = pytest.mark.usefixtures("importable")


@pytest.fixture
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def ran(*arguments):
    """Run on few rows, with one turn, as a user does: in a process of its own."""
    command = [sys.executable, BENCHMARKS / "stream.py", *arguments, "--quick", "--repetitions", "1"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def seconds_of(output, name):
    """Give the four times and the rate of a way's row."""
    line = next(line for line in output.splitlines() if line.startswith(name + "  "))  # before the ratios
    return [float(text) for text in line.removeprefix(name).split()]


def test_epochs_of_all_ways_are_timed_and_missing_peers_named(tmp_path):
    done = ran("epochs", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    names = [f"streamfit {mode}, {codec}" for mode in ("unverified", "verified (default)") for codec in ("raw", "zstd")]
    for name in [*names, "pread, 8 chunks permuted", "readinto, in order", "zarr, a slice a chunk, raw"]:
        *seconds, rate = seconds_of(done.stdout, name)
        assert len(seconds) == 4, name
        assert rate > 0, name
    for package in ("annbatch", "zarrs", "torch"):
        skipped = f"pip install {package}" in done.stdout
        assert skipped != any(line.startswith(package) for line in done.stdout.splitlines()), package
    assert "held" not in done.stdout, "few rows tell nothing"
    assert "MISSED" not in done.stdout, "few rows tell nothing"


@sys_path_only
def test_unknown_parts_are_refused(monkeypatch, capsys):
    import stream

    monkeypatch.setattr(sys, "argv", ["stream.py", "epoch"])
    with pytest.raises(SystemExit, match="2"):
        stream.main()
    assert "no such part: epoch" in capsys.readouterr().err


@pytest.mark.slow
def test_all_parts_run(tmp_path):
    done = ran("--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for name in ("plain loop over Zarr", "fit, 2 x", "dask-ml Incremental, threads", "streamfit, in order, 1 chunk"):
        assert any(line.startswith(name + " ") for line in done.stdout.splitlines()), name


@sys_path_only
def test_rows_are_made_once_and_alike_in_every_form(tmp_path):
    import stream_data
    import zarr

    sizes = stream_data.Sizes(n_rows=1_000, n_features=3, chunk_rows=300, labels=True, zstd=True)
    rows = stream_data.make_rows(tmp_path / "rows", sizes)
    for codec in ("raw", "zstd"):
        store, plain = sf.open_store(rows.store(codec)), zarr.open_group(rows.plain(codec), mode="r")
        np.testing.assert_array_equal(store.X.compute(), rows.mapped())
        np.testing.assert_array_equal(store.y.compute(), rows.labels())
        np.testing.assert_array_equal(plain["X"][:], rows.mapped())
        np.testing.assert_array_equal(plain["y"][:], rows.labels())
        assert store.manifest.arrays["X"].codec == codec
    written = rows.flat.stat().st_mtime_ns
    stream_data.make_rows(tmp_path / "rows", sizes)
    assert rows.flat.stat().st_mtime_ns == written
    smaller = stream_data.Sizes(n_rows=500, n_features=3, chunk_rows=300, labels=True, zstd=True)
    assert len(stream_data.make_rows(tmp_path / "rows", smaller).mapped()) == 500


@sys_path_only
def test_peers_give_each_row_once_and_own_their_batches(tmp_path):
    import stream_data
    import stream_peers as peers

    sizes = stream_data.Sizes(n_rows=10_000, n_features=2, chunk_rows=700, labels=False, zstd=False)
    rows = stream_data.make_rows(tmp_path / "rows", sizes)
    array, X = peers.open_plain(rows), np.array(rows.mapped())
    epochs = {
        "pread": lambda: peers.pread_shuffled(rows),
        "readinto": lambda: peers.readinto_in_order(rows),
        "memmap": lambda: peers.memmap_in_order(rows),
        "memmap, random": lambda: peers.memmap_random(rows),
        "memory": lambda: peers.memory_random(X),
        "slices": lambda: peers.zarr_slices(rows, array),
        "bulk": lambda: peers.zarr_bulk(rows, array),
    }
    for name, epoch in epochs.items():
        found = np.concatenate(list(epoch()))
        order, expected = np.lexsort(found.T), np.lexsort(X.T)
        np.testing.assert_array_equal(found[order], X[expected], err_msg=name)
        in_order = np.array_equal(found, X)
        assert in_order == (name in {"readinto", "memmap"}), name


@sys_path_only
def test_ratios_are_those_of_each_turn(monkeypatch, capsys):
    import stream_table as table

    assert table.pairs([1.0, 10.0, 4.0], [2.0, 10.0, 1.0]) == 1.0
    # Of all; the beginning of each run in the first turn, which is not counted; beginnings and ends; of all.
    ticks = iter([0.0, 0.0, 1.0, 5.0, 7.0, 5.0, 9.0, 10.0])
    machine = iter([0.0, 5.0])
    monkeypatch.setattr(table, "machine_cpu_seconds", lambda: next(machine))
    monkeypatch.setattr(table, "process_cpu_seconds", lambda: 0.0)
    monkeypatch.setattr(table, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    calls = []
    ways = [table.Way("one", lambda: calls.append(1)), table.Way("other", lambda: calls.append(2), scale=10.0)]
    found = table.measure(ways, 1)
    assert calls == [1, 2, 1, 2]
    assert "other processes took 0.50 of" in capsys.readouterr().out
    assert (found["one"].wall, found["other"].wall) == ([2.0], [40.0])
    rows = [table.at_most("least", 0.5, 0.6), table.at_most("most", 0.7, 0.6), table.at_least("rate", 5, 5.0, "M")]
    table.print_verdicts([*rows, table.at_most("open", 3.0, None)], judged=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[2:]] == ["held", "MISSED", "held", "3.000"]


@sys_path_only
def test_epochs_that_lose_rows_end_the_run():
    import stream_epochs

    stream_epochs.consumed(lambda: [np.zeros(3), np.zeros(2)], 5)
    with pytest.raises(SystemExit, match="gave 4 of 5 rows"):
        stream_epochs.consumed(lambda: [np.zeros(3), np.zeros(1)], 5)
