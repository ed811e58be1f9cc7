"""What a shuffle costs; what it does for training is in sorted_data.py.

python tests/benchmarks/bench_shuffle.py [--rows 2500000] [--memory-limit 256MB] [--scratch FOLDER]

Each way to write a store of random numbers (100 columns, float32) again, in a child process of its own, so that CPU
seconds and the growth of resident memory after imports are its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import streamfit as sf

CHILD = """
import json, resource, sys, time
import numpy as np
import streamfit as sf
from streamfit.reporting.memory import PeakMemory, resident_nbytes

source, target, way, limit = sys.argv[1:]
small = sf.ingest(np.zeros((9, 2)), target + "-small")  # imports
small.shuffle(target + "-small-full")
store = sf.open_store(source)

def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

cpu, began = cpu_seconds(), time.perf_counter()
with PeakMemory(resident_nbytes()) as peak:
    if way == "copy":
        sf.ingest(store, target, memory_limit=limit)
    else:
        store.shuffle(target, passes=way if way == "full" else int(way), memory_limit=limit)
found = {"wall": time.perf_counter() - began, "cpu": cpu_seconds() - cpu, "growth": peak.growth_nbytes}
print(json.dumps(found))
"""

WAYS = {"copy": "plain copy (ingest)", "full": 'passes="full"', "1": "passes=1", "2": "passes=2"}


def random_batches(n_rows, rows=50_000):
    for number, start in enumerate(range(0, n_rows, rows)):
        rng = np.random.default_rng([7, number])
        X = rng.standard_normal((min(rows, n_rows - start), 100), dtype=np.float32)
        yield X, (X[:, 0] > 1).astype(np.int8)


def costs(folder, n_rows, limit):
    store = sf.ingest(random_batches(n_rows), folder / "source")
    gigabytes = store.layout.nbytes / 1e9
    print(f"\n{gigabytes:.2f} GB, memory_limit {limit}\n")
    print(f"{'':22}{'CPU s/GB':>10}{'wall s/GB':>11}{'peak MB':>9}")
    for way, name in WAYS.items():
        target = folder / f"target-{way}"
        command = [sys.executable, "-c", CHILD, store.path, str(target), way, limit]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        cpu, wall = found["cpu"] / gigabytes, found["wall"] / gigabytes
        print(f"{name:22}{cpu:10.2f}{wall:11.2f}{found['growth'] / 1e6:9.0f}", flush=True)
        sf.ingest(np.zeros((1, 1)), target, if_exists="overwrite")  # give the disk back


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_500_000)
    parser.add_argument("--memory-limit", default="256MB")
    parser.add_argument("--scratch", help="Where the stores are written.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        costs(Path(folder), options.rows, options.memory_limit)


if __name__ == "__main__":
    main()
