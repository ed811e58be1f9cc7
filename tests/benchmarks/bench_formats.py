"""Size on disk, and CPU seconds of a write and of a full read, of the same matrices in several formats.

python tests/benchmarks/bench_formats.py [--megabytes 128] [--folder FOLDER]

Three kinds of data: embeddings like noise, sensors of few levels, and one-hot rows (dense bytes, and CSR). Reads give
all rows as arrays; streamfit compares every chunk with its checksum meanwhile, and no other does. Files are in the
system's cache. "... unverified" compares no checksums; "... decoding" reads and decodes the same files with numcodecs
and nothing else, into buffers that are used again: what a scan could take at best. "blosc ..." are other encodings of
streamfit's chunks, for the choice of its codec: a store is written raw unless lz4 saves a fifth on its first chunk.

Each is read three times, in turns, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from numcodecs.blosc import Blosc
from numcodecs.zstd import Zstd

N_FEATURES = 100


def data_sets(nbytes):
    from scipy import sparse

    rng = np.random.default_rng(0)
    n_rows = nbytes // 4 // N_FEATURES
    yield "embeddings float32", rng.standard_normal((n_rows, N_FEATURES), dtype="f4")
    drift = np.cumsum(rng.integers(-1, 2, (n_rows, N_FEATURES), dtype="i4"), axis=0) + rng.integers(-3, 4, N_FEATURES)
    yield "sensors float32", (drift * np.float32(0.25)).astype("f4")
    yield "sensors int16", np.clip(drift, -(2**15), 2**15 - 1).astype("i2")
    width = 256
    codes = rng.integers(0, width // 8, (nbytes // width, 8)) + np.arange(0, width, width // 8)
    dense = np.zeros((len(codes), width), dtype="u1")
    np.put_along_axis(dense, codes, 1, axis=1)
    yield "one-hot uint8", dense
    yield "one-hot CSR", sparse.csr_array(dense)


def streamfit_format(compression, verify="always"):
    def write(X, path):
        import streamfit as sf

        sf.ingest(X, path, compression=compression)

    def read(path):
        import streamfit as sf

        reader = sf.open_store(path, verify=verify).reader
        size = (reader.layout.chunk_rows, reader.layout.n_features)
        out = None if reader.is_sparse else np.empty(size, dtype=reader.dtype)
        return (reader.read_chunk(index, out=out).X for index in range(reader.layout.n_chunks))

    return write, read


def decoded(compression):
    """Read the chunk files of a store and decode them with numcodecs alone, into buffers that are used again."""
    codec = Zstd(level=1) if compression == "zstd" else Blosc(cname="lz4")

    def read(path):
        spec = json.loads((path / "X/zarr.json").read_bytes())
        out = np.empty(spec["chunk_grid"]["configuration"]["chunk_shape"], dtype=spec["data_type"])
        encoded, n_left = np.empty(2 * out.nbytes, dtype="u1").data, spec["shape"][0]
        for index in range(-(-spec["shape"][0] // len(out))):
            with (path / f"X/c/{index}/0").open("rb", buffering=0) as file:
                n_bytes = file.readinto(encoded)
            codec.decode(encoded[:n_bytes], out=out)
            yield out[:n_left]
            n_left -= len(out)

    return streamfit_format(compression)[0], read


def blosc_format(cname, shuffle):
    codec = Blosc(cname=cname, clevel=5, shuffle=shuffle)

    def write(X, path):
        path.mkdir()
        step = max(1, 2**23 // X[:1].nbytes)
        for number, start in enumerate(range(0, len(X), step)):
            (path / f"{number:06}").write_bytes(codec.encode(np.ascontiguousarray(X[start : start + step])))
        np.save(path / "like", X[:1])

    def read(path):
        like = np.load(path / "like.npy")
        for file in sorted(path.glob("0*")):
            yield np.frombuffer(codec.decode(file.read_bytes()), dtype=like.dtype).reshape(-1, like.shape[1])

    return write, read


def parquet():
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(X, path):
        columns = [pa.array(np.ascontiguousarray(X[:, place])) for place in range(X.shape[1])]
        pq.write_table(pa.table(columns, names=[str(place) for place in range(X.shape[1])]), path)

    def read(path):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=2**14):
            X = np.empty((batch.num_rows, batch.num_columns), dtype=batch.column(0).type.to_pandas_dtype())
            for place, column in enumerate(batch.columns):
                X[:, place] = column.to_numpy(zero_copy_only=False)
            yield X

    return write, read


def npy():
    return (lambda X, path: np.save(path.open("wb"), X)), (lambda path: iter([np.load(path)]))


def hdf5(compression):
    import h5py

    def write(X, path):
        with h5py.File(path, "w") as file:
            settings = {} if compression is None else {"compression": compression, "chunks": True}
            file.create_dataset("X", data=X, **settings)

    def read(path):
        with h5py.File(path) as file:
            yield file["X"][:]

    return write, read


def plain_zarr():
    import zarr

    def write(X, path):
        zarr.create_array(store=path, data=X)

    return write, (lambda path: iter([np.asarray(zarr.open_array(path, mode="r")[:])]))


def formats(X):
    """Name, and how it is written and read."""
    yield "streamfit", *streamfit_format("auto")
    yield "streamfit raw", *streamfit_format("none")
    yield "streamfit lz4", *streamfit_format("lz4")
    yield "streamfit zstd", *streamfit_format("zstd")
    if not isinstance(X, np.ndarray):
        return
    for compression in ("lz4", "zstd"):
        yield f"{compression} unverified", *streamfit_format(compression, verify="never")
        yield f"{compression} decoding", *decoded(compression)
    yield "parquet", *parquet()
    yield "npy", *npy()
    yield "hdf5", *hdf5(None)
    yield "hdf5 lzf", *hdf5("lzf")
    yield "zarr", *plain_zarr()
    for cname in ("lz4", "zstd"):
        yield f"blosc {cname} shuffle", *blosc_format(cname, Blosc.SHUFFLE)
        yield f"blosc {cname} bits", *blosc_format(cname, Blosc.BITSHUFFLE)


def ways_of(X):
    return {name: (write, read) for name, write, read in formats(X)}


def size_of(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def measure(X, folder, ways):
    """Give size, CPU seconds of a write and CPU seconds of a read of each format, by its name."""
    sizes, written, done = {}, {}, {name: [] for name in ways}
    for place, (name, (write, _)) in enumerate(ways.items()):
        began = time.process_time()
        write(X, folder / str(place))
        written[name] = time.process_time() - began
        sizes[name] = size_of(folder / str(place))
    for _ in range(3):
        for place, (name, (_, read)) in enumerate(ways.items()):
            began = time.process_time()
            n_rows = sum(part.shape[0] for part in read(folder / str(place)))
            done[name].append(time.process_time() - began)
            if n_rows != X.shape[0]:
                raise AssertionError(f"{n_rows} of {X.shape[0]} rows came back")
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return {name: (sizes[name], written[name], statistics.median(done[name])) for name in ways}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=128)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # zarr's, of what is not in its specification yet
    print(f"{'data':<20}{'format':<20}{'MB':>8}{'of raw':>8}{'write CPU s':>12}{'/ streamfit':>12}", end="")
    print(f"{'read CPU s':>12}{'/ streamfit':>12}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for _, X in data_sets(2**22):  # compiles, imports
            measure(X, Path(folder), ways_of(X))
        for name, X in data_sets(options.megabytes * 2**20):
            raw = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
            found = measure(X, Path(folder), ways_of(X))
            _, first_written, first_done = found["streamfit"]
            for what, (size, written, done) in found.items():
                print(f"{name:<20}{what:<20}{size / 1e6:8.1f}{size / raw:8.2f}", end="")
                print(f"{written:12.2f}{written / first_written:12.2f}", end="")
                print(f"{done:12.2f}{done / first_done:12.2f}", flush=True)


if __name__ == "__main__":
    main()
