"""Four times the rows take no more memory: a bare stream and a fit, inside one limit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

CHILD = """
import json, sys
import numpy as np
from sklearn.linear_model import SGDClassifier
import streamfit as sf
from streamfit.reporting.memory import PeakMemory

path, n_rows, limit, job = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

def batches(n_rows, rows=50_000):
    for number, start in enumerate(range(0, n_rows, rows)):
        X = np.random.default_rng([7, number]).standard_normal((min(rows, n_rows - start), 16), dtype=np.float32)
        yield X, (X[:, 0] + X[:, 1] > 1).astype(np.int8)

def run(store):
    trainer = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=10_000, memory_limit=limit)
    if job == "fit":
        return trainer.plan(store).own_nbytes, trainer.fit(store).history_[0]["n_rows"]
    plan = store.plan(batch_size=10_000, memory_limit=limit)
    n_rows = sum(batch.n_rows for batch in store.stream(plan, memory_limit=limit))
    return store.project(batch_size=10_000, memory_limit=limit).own_nbytes, n_rows

if job == "ingest":
    sf.ingest(lambda: batches(n_rows), path, memory_limit=limit)
    sf.ingest(lambda: batches(1_000), path + "-small", memory_limit=limit)
else:
    run(sf.open_store(path + "-small"))  # imports and compilation
    with PeakMemory() as peak:
        projected, done = run(sf.open_store(path))
    assert done == n_rows
    print(json.dumps({"growth": peak.growth_nbytes, "projected": projected}))
"""


def child(tmp_path, n_rows, limit, job):
    command = [sys.executable, "-c", CHILD, str(tmp_path / str(n_rows)), str(n_rows), limit, job]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_800, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def test_16_million_rows_take_no_more_than_4_million(tmp_path):
    if shutil.disk_usage(tmp_path).free < 3_000_000_000:
        pytest.skip(f"needs 3 GB of disk under {tmp_path}")
    limit = "300MB"
    found = {}
    for n_rows in (4_000_000, 16_000_000):
        child(tmp_path, n_rows, limit, "ingest")
        for job in ("stream", "fit"):
            found[job, n_rows] = child(tmp_path, n_rows, limit, job)
            print(f"\n{n_rows:,} rows x 16, limit {limit}: {job} {found[job, n_rows]}")
        shutil.rmtree(tmp_path / str(n_rows))
    for (job, n_rows), measured in found.items():
        assert measured["growth"] <= measured["projected"] <= 300_000_000, (job, n_rows)
    for job in ("stream", "fit"):
        assert found[job, 16_000_000]["growth"] <= 1.1 * found[job, 4_000_000]["growth"], job
