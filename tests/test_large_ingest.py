"""A gigabyte of Parquet becomes a store in a process that may not hold half of it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamfit as sf

N_FEATURES = 100
GROUP_ROWS = (1, 200_003, 1_000_000, 77, 650_000, 8_191, 700_001)
"""Of row groups, in files of three: neither they nor the files end where a block or a chunk does."""
LIMIT = 512 * 10**6

CHILD = """
import json, sys, threading
import numpy as np, psutil, pyarrow.parquet
import streamfit as sf
import streamfit.sources.ingest
from streamfit.maths.column_moments import column_moments

column_moments(np.zeros((1, 1), dtype="f4"))  # compiles

process, peak, done = psutil.Process(), [0], threading.Event()
before = process.memory_info().rss

def watch():
    while not done.wait(0.01):
        peak[0] = max(peak[0], process.memory_info().rss)

watcher = threading.Thread(target=watch)
watcher.start()
store = sf.ingest(sys.argv[1], sys.argv[2], y="label", memory_limit="512MB")
done.set()
watcher.join()
print(json.dumps({"growth": peak[0] - before, "n_rows": store.n_rows}))
"""


def rows_of(group, n_rows):
    rng = np.random.default_rng(group)
    return rng.standard_normal((n_rows, N_FEATURES), dtype="f4"), rng.integers(0, 3, n_rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"compression": "none", "use_dictionary": False}], ids=["default", "uncompressed"]
)
def test_a_gigabyte_of_parquet_under_half_of_it(tmp_path, settings):
    names = [f"c{place}" for place in range(N_FEATURES)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int64())])
    files = tmp_path / "files"
    files.mkdir()
    for first in range(0, len(GROUP_ROWS), 3):
        with pq.ParquetWriter(files / f"{first}.parquet", schema, **settings) as file:
            for group in range(first, min(first + 3, len(GROUP_ROWS))):
                X, y = rows_of(group, GROUP_ROWS[group])
                columns = [pa.array(np.ascontiguousarray(X[:, place])) for place in range(N_FEATURES)]
                file.write_table(pa.table([*columns, pa.array(y)], schema=schema), row_group_size=GROUP_ROWS[group])
    command = [sys.executable, "-c", CHILD, str(files), str(tmp_path / "a")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    print(f"{sum(GROUP_ROWS):,} rows: resident memory grew by {found['growth'] / 1e6:.0f} MB")
    assert found["n_rows"] == sum(GROUP_ROWS)
    assert found["growth"] < LIMIT

    store, start = sf.open_store(tmp_path / "a"), 0
    for group, n_rows in enumerate(GROUP_ROWS):
        X, y = rows_of(group, n_rows)
        for at in range(0, n_rows, 100_000):
            some = store[start + at : start + min(at + 100_000, n_rows)]
            np.testing.assert_array_equal(some.X.compute(scheduler="sync"), X[at : at + 100_000])
            np.testing.assert_array_equal(some.y.compute(scheduler="sync"), y[at : at + 100_000])
        start += n_rows
