"""Time the ingest of Parquet files against a bare scan with pyarrow, on the same files in the same run.

python tests/benchmarks/bench_ingest.py [--gigabytes 1] [--memory-limit 512MB] [--repeats 2] [--folder FOLDER]

The files hold normal float32 values in 100 columns: as pyarrow writes them by default, and neither compressed nor as
dictionaries. Each contestant runs in a child process of its own, so that CPU seconds and the growth of resident memory
(after imports and compilation) are its own; contestants take turns, and the best time of each counts.

- "pyarrow": `pyarrow.dataset`, all threads; each batch is copied column by column to a row-major matrix, which is
  written to one file. Nothing is checked, and nothing is flushed to the disk.
- "pyarrow, tiles": the same in batches of 32,768 rows, the matrix being filled in parts that stay in the cache.
- "streamfit": `sf.ingest` under the memory limit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

N_FEATURES = 100
N_FILES = 4
CONTESTANTS = ("pyarrow", "pyarrow, tiles", "streamfit")
VARIANTS = {"default": {}, "uncompressed": {"compression": "none", "use_dictionary": False}}
_TILE_ROWS = 1_024


def make_files(folder, n_rows, settings):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"c{place}" for place in range(N_FEATURES)]
    folder.mkdir()
    for number in range(N_FILES):
        left = n_rows // N_FILES
        with pq.ParquetWriter(
            folder / f"{number}.parquet", pa.schema([(name, pa.float32()) for name in names]), **settings
        ) as file:
            while left:
                n = min(left, 2**19)
                file.write_table(pa.table([pa.array(rng.standard_normal(n, dtype="f4")) for _ in names], names=names))
                left -= n


def scan(source, target, *, tiles):
    import pyarrow.dataset as ds

    settings = {"batch_size": 2**15} if tiles else {}
    with Path(target).open("wb", buffering=0) as file:
        for batch in ds.dataset(source, format="parquet").to_batches(**settings):
            columns = [batch.column(place).to_numpy(zero_copy_only=False) for place in range(batch.num_columns)]
            X = np.empty((batch.num_rows, batch.num_columns), dtype="f4")
            step = _TILE_ROWS if tiles else max(1, len(X))
            for start in range(0, len(X), step):
                for place, values in enumerate(columns):
                    X[start : start + step, place] = values[start : start + step]
            file.write(X.data)


def run_child(contestant, source, target, memory_limit):
    import psutil
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401

    import streamfit as sf

    files = sorted(Path(source).glob("*.parquet"))
    if contestant == "streamfit":
        from streamfit.maths.column_moments import column_moments

        column_moments(np.zeros((1, 1), dtype="f4"))  # compiles
        sf.ingest(np.zeros((1, 1), dtype="f4"), f"{target}.warm")
        shutil.rmtree(f"{target}.warm")
    process, peak, done = psutil.Process(), [0], threading.Event()
    before = process.memory_info().rss

    def watch():
        while not done.wait(0.02):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, cpu = time.perf_counter(), time.process_time()
    if contestant == "streamfit":
        sf.ingest(files, target, memory_limit=memory_limit)
    else:
        scan(source, target, tiles="tiles" in contestant)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done.set()
    watcher.join()
    print(json.dumps({"wall": wall, "cpu": cpu, "growth": peak[0] - before}))


def measure(contestant, source, target, memory_limit):
    command = [sys.executable, __file__, "--child", contestant, str(source), str(target)]
    command += ["--memory-limit", memory_limit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--memory-limit", default="512MB")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folder", default=None, help="where the files are made; five times their size is needed")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(*options.child, options.memory_limit)
        return
    n_rows = int(options.gigabytes * 1e9) // (4 * N_FEATURES) // N_FILES * N_FILES
    nbytes = n_rows * N_FEATURES * 4
    print(f"{n_rows:,} rows x {N_FEATURES} float32, {nbytes / 1e9:.1f} GB; streamfit under {options.memory_limit}")
    print(f"{'files':<14}{'by':<16}{'wall s':>8}{'MB/s':>7}{'CPU s/GB':>10}{'RSS +MB':>9}{'rate / pyarrow':>16}")
    for variant, settings in VARIANTS.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            source = Path(folder) / "files"
            make_files(source, n_rows, settings)
            runs = {contestant: [] for contestant in CONTESTANTS}
            for _ in range(options.repeats):
                for contestant in CONTESTANTS:
                    runs[contestant].append(measure(contestant, source, Path(folder) / "out", options.memory_limit))
        best = {contestant: min(run["wall"] for run in found) for contestant, found in runs.items()}
        for contestant, found in runs.items():
            cpu = min(run["cpu"] for run in found) / nbytes * 1e9
            growth = max(run["growth"] for run in found) / 1e6
            wall = best[contestant]
            print(
                f"{variant:<14}{contestant:<16}{wall:8.2f}{nbytes / wall / 1e6:7.0f}{cpu:10.2f}{growth:9.0f}"
                f"{best['pyarrow'] / wall:16.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
