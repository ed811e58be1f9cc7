"""What exact aggregates of many scores cost in time and memory, beside NumPy, scipy and scikit-learn in memory.

python tests/benchmarks/bench_scores.py [--rows 10000000] [--only NAME ...] [--folder FOLDER]

Each way runs in a process of its own, over the same file of scores and labels. Memory is the growth over what is
resident after imports and a run on few rows; those in memory read the file first, which is part of their time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK_ROWS = 1_000_000


def write_files(folder, n_rows):
    """Write scores, a second detector's scores and labels, block by block."""
    rng = np.random.default_rng(0)
    names = ("scores", "others", "labels")
    files = [(Path(folder) / f"{name}-{n_rows}").open("wb") for name in names]
    for start in range(0, n_rows, BLOCK_ROWS):
        n = min(BLOCK_ROWS, n_rows - start)
        scores = rng.normal(size=n)
        others = scores + rng.normal(size=n)
        labels = (0.8 * scores + rng.normal(size=n) > 3).astype(np.int8)
        for file, values in zip(files, (scores, others, labels), strict=True):
            file.write(values.data)
    for file in files:
        file.close()


def read(folder, name, n_rows, start=0, n=None):
    dtype = np.int8 if name == "labels" else np.float64
    offset = start * np.dtype(dtype).itemsize
    return np.fromfile(Path(folder) / f"{name}-{n_rows}", dtype=dtype, count=-1 if n is None else n, offset=offset)


def lazily(folder, name, n_rows):
    """Give the file as a dask array that reads its blocks when they are computed."""
    import dask.array as da

    rows = da.core.normalize_chunks(BLOCK_ROWS, (n_rows,), dtype=np.float64)[0]
    starts = np.cumsum([0, *rows])

    def block(_, block_id=None):
        at = block_id[0]
        return read(folder, name, n_rows, int(starts[at]), rows[at])

    dtype = np.int8 if name == "labels" else np.float64
    seed = da.arange(len(rows), chunks=1)
    return da.map_blocks(block, seed, name=f"{name}-{n_rows}", dtype=dtype, chunks=(rows,), meta=np.empty(0, dtype))


def ours(what, folder, n_rows):
    import dask

    from streamfit import scores as sfs

    scores, others, labels = (lazily(folder, name, n_rows) for name in ("scores", "others", "labels"))
    build = {
        "threshold": lambda: [sfs.threshold(scores, 0.01)],
        "flags": lambda: [sfs.flags(scores, sfs.threshold(scores, 0.01)).sum()],
        "top 1000": lambda: [sfs.top_k(scores, 1_000).rows],
        "AUC": lambda: [sfs.roc_auc(labels, scores)],
        "average precision": lambda: [sfs.average_precision(labels, scores)],
        "AUC, AP, precision at 1000": lambda: [
            sfs.roc_auc(labels, scores),
            sfs.average_precision(labels, scores),
            sfs.precision_at_k(labels, scores, 1_000),
        ],
        "Spearman": lambda: [sfs.rank_correlation(scores, others)],
        "isotonic": lambda: [sfs.calibrate(scores, labels, method="isotonic").transform(scores).sum()],
        "KS": lambda: [sfs.ks(scores, others).statistic],
        "z-score average": lambda: [sfs.combine([scores, others]).sum()],
        "partitions": lambda: [sfs.partition_summary(scores, 3.0)],
        "histogram": lambda: [sfs.histogram(scores, bins=100)[0]],
    }
    return [float(np.asarray(value).ravel()[0]) for value in dask.compute(*build[what]())]


def in_memory(what, folder, n_rows):
    from scipy.stats import ks_2samp, spearmanr
    from sklearn.isotonic import IsotonicRegression
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores, others, labels = (read(folder, name, n_rows) for name in ("scores", "others", "labels"))

    def z_scored():
        matrix = np.stack([scores, others], axis=1)
        return ((matrix - matrix.mean(axis=0)) / matrix.std(axis=0)).mean(axis=1).sum()

    def partitions():
        import pandas as pd

        blocks = pd.Series(scores).groupby(np.arange(n_rows) // BLOCK_ROWS)
        return blocks.describe().to_numpy()[0, 0]

    ways = {
        "threshold": lambda: [np.percentile(scores, 99)],
        "flags": lambda: [(scores > np.percentile(scores, 99)).sum()],
        "top 1000": lambda: [np.lexsort((np.arange(n_rows), -scores))[:1_000]],
        "AUC": lambda: [roc_auc_score(labels, scores)],
        "average precision": lambda: [average_precision_score(labels, scores)],
        "AUC, AP, precision at 1000": lambda: [
            roc_auc_score(labels, scores),
            average_precision_score(labels, scores),
            labels[np.argpartition(scores, -1_000)[-1_000:]].mean(),
        ],
        "Spearman": lambda: [spearmanr(scores, others).statistic],
        "isotonic": lambda: [IsotonicRegression(out_of_bounds="clip").fit(scores, labels).predict(scores).sum()],
        "KS": lambda: [ks_2samp(scores, others, method="asymp").statistic],
        "z-score average": lambda: [z_scored()],
        "partitions": lambda: [partitions()],
        "histogram": lambda: [np.histogram(scores, bins=100)[0]],
    }
    return [float(np.asarray(value).ravel()[0]) for value in ways[what]()]


NAMES = (
    "threshold",
    "flags",
    "top 1000",
    "AUC",
    "average precision",
    "AUC, AP, precision at 1000",
    "Spearman",
    "isotonic",
    "KS",
    "z-score average",
    "partitions",
    "histogram",
)


def child(side, what, folder, n_rows):
    """Print seconds and growth of one way."""
    import psutil

    from streamfit.reporting.memory import PeakMemory, resident_nbytes

    way = ours if side == "streamfit" else in_memory
    way(what, folder, 1_000)
    with PeakMemory(resident_nbytes()) as peak:
        wall, cpu = time.perf_counter(), psutil.Process().cpu_times()
        values = way(what, folder, n_rows)
        wall, after = time.perf_counter() - wall, psutil.Process().cpu_times()
    cpu = after.user + after.system - cpu.user - cpu.system
    print(json.dumps({"values": values, "wall": wall, "cpu": cpu, "growth": peak.growth_nbytes}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--alone", action="store_true", help="leave out the ways in memory")
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    sides = ("streamfit",) if arguments.alone else ("streamfit", "in memory")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for n_rows in (1_000, arguments.rows):
            write_files(folder, n_rows)
        print(f"{arguments.rows:,} scores in blocks of {BLOCK_ROWS:,}\n")
        print(f"{'':28}{'way':12}{'wall s':>8}{'CPU s':>8}{'growth MB':>11}  value")
        for what in arguments.only:
            for side in sides:
                command = [sys.executable, __file__, "--child", side, what, folder, str(arguments.rows)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                growth = found["growth"] / 1e6
                value = ", ".join(f"{value:.12g}" for value in found["values"])
                print(f"{what:28}{side:12}{found['wall']:8.1f}{found['cpu']:8.1f}{growth:11.0f}  {value}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5], int(sys.argv[5]))
    else:
        main()
