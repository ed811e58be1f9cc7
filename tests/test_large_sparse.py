"""Hashed text of more bytes than the memory limit: written, trained on, and scored inside it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

CHILD = """
import json, sys
import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import SGDClassifier
import streamfit as sf
from streamfit.demo.runs import warm_up
from streamfit.reporting.memory import PeakMemory, resident_nbytes

path, n_rows, limit = sys.argv[1], int(sys.argv[2]), sys.argv[3]
WIDTH = 2**18

def batches(rows=20_000):
    # As a HashingVectorizer gives them: some tens of words a row, a few of them telling.
    for number, start in enumerate(range(0, n_rows, rows)):
        rng = np.random.default_rng([7, number])
        y = rng.integers(0, 2, min(rows, n_rows - start))
        counts = rng.poisson(30, len(y)) + 1
        indptr = np.concatenate(([0], np.cumsum(counts)))
        words = (rng.zipf(1.3, indptr[-1]) % WIDTH).astype(np.int32)
        telling = rng.random(indptr[-1]) < 0.05
        words[telling] = 1_000 + 10 * np.repeat(y, counts)[telling] + rng.integers(0, 10, telling.sum())
        X = csr_array((np.ones(indptr[-1], dtype=np.float32), words, indptr), shape=(len(y), WIDTH))
        X.sum_duplicates()
        yield X, y

warm_up()
base = resident_nbytes()
found = {}
with PeakMemory(base) as peak:
    store = sf.ingest(batches, path, memory_limit=limit)
found["ingest"] = peak.growth_nbytes
with PeakMemory(base) as peak:
    trainer = sf.StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=10_000, memory_limit=limit).fit(store)
found["fit"] = peak.growth_nbytes
with PeakMemory(base) as peak:
    found["accuracy"] = trainer.score(store)
found["score"] = peak.growth_nbytes
found["nbytes"] = store.layout.nbytes
print(json.dumps(found))
"""


def test_text_of_four_limits_is_trained_on_inside_one(tmp_path):
    command = [sys.executable, "-c", CHILD, str(tmp_path / "a.zarr"), "7000000", "250MB"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3_000, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n7,000,000 rows of 262,144 columns, limit 250MB: {found}")
    assert found["nbytes"] > 1_000_000_000
    assert found["accuracy"] > 0.8
    # The estimator's own memory comes on top: some copies of 262,144 coefficients.
    for job, more in (("ingest", 0), ("fit", 10_000_000), ("score", 0)):
        assert found[job] < 250_000_000 + more, job
