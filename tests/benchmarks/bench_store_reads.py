"""Time what a verified read costs, beside an unverified one and plain Zarr, on the same bytes in the same run.

python tests/benchmarks/bench_store_reads.py [--mebibytes 512] [--repetitions 7] [--folder FOLDER]

But for `verify`, one thread reads all chunks of a store of noise (raw) and of quantised values (blosc-lz4), from a warm
page cache. The ways take turns in each repetition, so that a busy machine disturbs all of them. CPU seconds are those
of the process with all its threads. ``zarr crc32c`` is a Zarr array with the same chunks and codec, and Zarr's own
checksum.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

import streamfit as sf

N_FEATURES = 64
N_TAKEN = 1_000


def blocks(n_rows, *, quantised):
    rng = np.random.default_rng(0)
    for start in range(0, n_rows, 65_536):
        X = rng.standard_normal((min(65_536, n_rows - start), N_FEATURES), dtype=np.float32)
        yield np.round(X * 8) / 8 if quantised else X


def with_zarr_checksums(store, path):
    """Write the rows of a store as a Zarr array of the same chunks and codec, with a checksum a chunk."""
    codecs = [Crc32cCodec()]
    if store.manifest.arrays["X"].codec == "blosc-lz4":
        codecs.insert(0, BloscCodec(typesize=4, cname="lz4", clevel=5, shuffle="shuffle", blocksize=0))
    array = zarr.create_array(
        path, shape=store.shape, chunks=(store.layout.chunk_rows, N_FEATURES), dtype=store.dtype, compressors=codecs
    )
    for index in range(store.layout.n_chunks):
        start, stop = store.layout.chunk_bounds(index)
        array[start:stop] = store.reader.read_array("X", index)
    return zarr.open_array(path, mode="r")


def ways(store, folder):
    """Give what is timed, by name; each call reads all rows, or those that its name tells."""
    layout, spec = store.layout, store.manifest.arrays["X"]
    bounds = [layout.chunk_bounds(index) for index in range(layout.n_chunks)]
    files = [spec.chunk_file(Path(store.path), index) for index in range(layout.n_chunks)]
    buffer = np.empty((layout.chunk_rows, N_FEATURES), dtype=np.float32)
    plain = zarr.open_array(f"{store.path}/X", mode="r")
    checked = with_zarr_checksums(store, str(folder / "crc32c.zarr"))
    rng = np.random.default_rng(1)
    rows = rng.choice(store.n_rows, N_TAKEN, replace=False)
    view = store.select(rng.random(store.n_rows) < 0.8)

    def scan(matrix):
        reader = matrix.reader
        for index in range(matrix.layout.n_chunks):
            reader.read_array("X", index, out=buffer)

    def slices(array):
        for start, stop in bounds:
            array[start:stop]

    modes = {mode: sf.open_store(store.path, verify=mode) for mode in ("always", "first", "never")}
    scan(modes["first"])
    return {
        "streamfit verified (always)": lambda: scan(modes["always"]),
        "streamfit first, second scan": lambda: scan(modes["first"]),
        "streamfit unverified (never)": lambda: scan(modes["never"]),
        "zarr": lambda: slices(plain),
        "zarr crc32c": lambda: slices(checked),
        "np.fromfile, encoded bytes": lambda: [np.fromfile(file, dtype=np.uint8) for file in files],
        "view of 80 % of rows, verified": lambda: scan(view),
        "store.verify(), all cores": store.verify,
        f"take {N_TAKEN:,} rows, verified": lambda: store.take(rows),
    }


def measured(calls, n_repetitions):
    """Give CPU and wall seconds of each repetition, by name."""
    seconds = {name: [] for name in calls}
    for repetition in range(n_repetitions + 1):
        for name, call in calls.items():
            cpu, wall = time.process_time(), time.perf_counter()
            call()
            if repetition:  # the first one warms the page cache
                seconds[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {name: tuple(zip(*pairs, strict=True)) for name, pairs in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--folder", help="where stores are written; by default the temporary folder")
    arguments = parser.parse_args()
    n_rows = arguments.mebibytes * 2**20 // (4 * N_FEATURES)
    heading = ("CPU best", "median", "wall best", "median", "MiB/s", "CPU / zarr")
    for quantised in (False, True):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            folder = Path(name)
            store = sf.ingest(lambda quantised=quantised: blocks(n_rows, quantised=quantised), folder / "X.zarr")
            array = store.info().arrays[0]
            found = measured(ways(store, folder), arguments.repetitions)
        print(
            f"\n{array.codec}: {store.n_rows:,} x {N_FEATURES} float32, {array.decoded_nbytes / 2**20:.0f} MiB, "
            f"{store.layout.n_chunks} chunks, ratio {array.ratio:.2f}; seconds, {arguments.repetitions} repetitions"
        )
        print(f"{'':<34}" + "".join(f"{text:>12}" for text in heading))
        zarr_cpu = min(found["zarr"][0])
        for way, (cpu, wall) in found.items():
            times = (min(cpu), statistics.median(cpu), min(wall), statistics.median(wall))
            speed = f"{array.decoded_nbytes / 2**20 / min(wall):,.0f}" if "take" not in way else "-"
            ratio = f"{min(cpu) / zarr_cpu:.2f}" if "take" not in way else "-"
            print(f"{way:<34}" + "".join(f"{value:>12.3f}" for value in times) + f"{speed:>12}{ratio:>12}")


if __name__ == "__main__":
    main()
