"""What streamed rows cost, beside other ways to the same rows in the same run.

python tests/benchmarks/stream.py [PART ...] [--repetitions 5] [--folder FOLDER] [--quick]

Four parts, each with a table of CPU and wall seconds and one of the ratios that are asked for:

epochs    one shuffled epoch, nothing done with the batches: streamfit, annbatch, torch, Zarr, and by hand
training  an SGDClassifier over all rows, beside the loop over the chunks of a Zarr array
overlap   steps that cost half, once and twice the read: what of the read is hidden behind them
memory    growth of resident memory with slow steps, beside dask-ml's Incremental; in processes of their own

The ways take turns in one process, the first turn is not counted, files are in the page cache, and a ratio is the
median of the ratios of each turn. CPU seconds are those of the process with all its threads, and of worker processes.
What is not installed is named and left out: annbatch and zarrs need Python 3.12, and torch is large.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from pathlib import Path

import numpy as np
import stream_epochs
import stream_memory
import stream_overlap
import stream_training
import zarr

import streamfit as sf
from streamfit.run.threads import available_cores

PARTS = {
    "epochs": stream_epochs.run,
    "training": stream_training.run,
    "overlap": stream_overlap.run,
    "memory": stream_memory.run,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--repetitions", type=int, default=5, help="turns that are counted")
    parser.add_argument("--folder", type=Path, help="where the rows are, or will be: made once, 4 GB")
    parser.add_argument("--quick", action="store_true", help="few rows: seconds instead of minutes, and no verdict")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(
        f"streamfit {sf.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"zarr {zarr.__version__}, {available_cores()} cores"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for part in options.parts or PARTS:
            PARTS[part](folder, quick=options.quick, n_repetitions=options.repetitions)


if __name__ == "__main__":
    main()
