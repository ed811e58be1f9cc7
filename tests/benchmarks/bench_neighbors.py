"""Time exact neighbours against PyOD's KNN and scikit-learn, on the same data in the same run.

python tests/benchmarks/bench_neighbors.py [--data NAME=FILE.npy ...] [--memory-limit 100MB] [--skip-peers]

Each contestant runs in a child process of its own, so that CPU seconds and the growth of resident memory
(after imports, compilation and loading) are its own. `FILE` is a ``.npy`` matrix, or an ``.npz`` with one
named ``X``. Without ``--data`` the data are made here. The last columns say how far the k-th distances are
from the float64 sum of squared differences over all pairs, on a sample of rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

K = 5
_TRUTH_ROWS = 200


def ours(X, memory_limit, n_workers):
    from streamfit.batch import Chunk
    from streamfit.neighbor_search import neighbors_of_rows
    from streamfit.plan.layout import StoreLayout, chunk_rows_for

    class Rows:
        def __init__(self, X):
            n_rows, n_features = X.shape
            self.X, self.dtype = X, X.dtype
            self.layout = StoreLayout(n_rows, n_features, chunk_rows_for(n_features, X.itemsize), X.itemsize)

        def read_chunk(self, index, *, out=None, features=True):  # noqa: ARG002
            start, stop = self.layout.chunk_bounds(index)
            return Chunk(index, start, self.X[start:stop])

    def fit(X, memory_limit):
        blocks = neighbors_of_rows(Rows(X), n_neighbors=K, memory_limit=memory_limit, n_workers=n_workers)
        scores, report = np.empty(len(X)), None
        for block in blocks:
            scores[block.start : block.stop] = block.distances[:, -1]
            report = block.report if report is None else report + block.report
        return scores, report

    fit(X[:2000], None)  # compiles
    return lambda: fit(X, memory_limit)


def pyod(X, memory_limit, n_workers):
    from pyod.models.knn import KNN

    KNN(n_neighbors=K).fit(X[:2000])
    return lambda: (KNN(n_neighbors=K).fit(X).decision_scores_, None)


def sklearn(X, memory_limit, n_workers):
    from sklearn.neighbors import NearestNeighbors

    def fit(X):
        return NearestNeighbors(n_neighbors=K, n_jobs=n_workers).fit(X).kneighbors()[0][:, -1], None

    fit(X[:2000])
    return lambda: fit(X)


def load(path):
    loaded = np.load(path)
    return np.ascontiguousarray(loaded if isinstance(loaded, np.ndarray) else loaded["X"])


def run_child(contestant, path, memory_limit, n_workers, scores_path):
    X = load(path)
    fit = {"streamfit": ours, "PyOD KNN": pyod, "scikit-learn": sklearn}[contestant](X, memory_limit, n_workers)
    process, peak, done = psutil.Process(), [0], threading.Event()
    before = process.memory_info().rss

    def watch():
        while not done.wait(0.02):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, cpu = time.perf_counter(), time.process_time()
    scores, report = fit()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done.set()
    watcher.join()
    np.save(scores_path, scores)
    rows = np.linspace(0, len(X) - 1, _TRUTH_ROWS).astype(int)
    truth = np.empty(len(rows))
    X64 = X.astype(np.float64)
    for at, row in enumerate(rows):
        squared = ((X64 - X64[row]) ** 2).sum(axis=1)
        squared[row] = np.inf
        truth[at] = np.sqrt(np.partition(squared, K - 1)[K - 1])
    off = np.abs(scores[rows] - truth)
    relative = float((off / np.maximum(truth, np.finfo(float).tiny))[off > 0].max(initial=0.0))
    row = {"cpu": cpu, "wall": wall, "growth": peak[0] - before, "absolute": float(off.max()), "relative": relative}
    if report is not None:
        row["report"] = f"{report.float64_share:.2%} float64, {report.measured_share:.3%} measured"
    print(json.dumps(row))


def made_data(folder):
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((60, 100))
    made = {
        "normal 20,000 x 50": rng.standard_normal((20_000, 50)).astype(np.float32),
        "clusters 30,000 x 100": (centres[rng.integers(0, 60, 30_000)] + rng.standard_normal((30_000, 100))).astype(
            np.float32
        ),
        "plane 100,000 x 2": rng.standard_normal((100_000, 2)),
        "grid 50,000 x 6": rng.integers(0, 6, (50_000, 6)),
    }
    for name, X in made.items():
        path = Path(folder) / f"{name.replace(' ', '_')}.npy"
        np.save(path, X)
        yield name, path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[], metavar="NAME=FILE")
    parser.add_argument("--memory-limit", default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds a contestant")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    from streamfit.plan.budget import parse_memory_limit

    limit = parse_memory_limit(options.memory_limit)
    if options.child:
        contestant, path, scores_path = options.child
        run_child(contestant, path, limit, options.workers, scores_path)
        return
    contestants = ["streamfit"] if options.skip_peers else ["streamfit", "PyOD KNN", "scikit-learn"]
    with tempfile.TemporaryDirectory() as folder:
        data = [entry.split("=", 1) for entry in options.data] or list(made_data(folder))
        print(f"{'data':<24}{'by':<14}{'CPU s':>9}{'wall s':>9}{'RSS +MB':>9}{'max abs':>10}{'max rel':>10}")
        for name, path in data:
            for contestant in contestants:
                command = [sys.executable, __file__, "--child", contestant, str(path), f"{folder}/scores.npy"]
                command += ["--workers", str(options.workers)]
                command += ["--memory-limit", options.memory_limit] if options.memory_limit else []
                try:
                    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=options.timeout)
                except subprocess.TimeoutExpired:
                    print(f"{name:<24}{contestant:<14} more than {options.timeout} s", flush=True)
                    continue
                row = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"{name:<24}{contestant:<14}{row['cpu']:9.1f}{row['wall']:9.1f}{row['growth'] / 1e6:9.0f}"
                    f"{row['absolute']:10.1e}{row['relative']:10.1e}  {row.get('report', '')}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
