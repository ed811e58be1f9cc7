"""Size on disk, and CPU seconds of a write and of a full read, of the same matrices in several formats.

python tests/benchmarks/bench_formats.py [--megabytes 128] [--folder FOLDER]

Three kinds of data: embeddings like noise, sensors of few levels, and one-hot rows (dense bytes, and CSR). Reads give
all rows as arrays; streamfit compares every chunk with its checksum meanwhile, and no other does. Files are in the
system's cache. "blosc ..." are other encodings of streamfit's chunks, for the choice of its codec: a store is written
raw unless blosc-lz4 saves a fifth on its first chunk.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from numcodecs.blosc import Blosc

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


def streamfit_format(codec):
    from streamfit.store import committing

    def write(X, path):
        import streamfit as sf

        chosen = committing.choose_codec
        if codec is not None:
            committing.choose_codec = lambda *_: codec
        try:
            sf.ingest(X, path)
        finally:
            committing.choose_codec = chosen

    def read(path):
        import streamfit as sf

        reader = sf.open_store(path).reader
        return (reader.read_chunk(index).X for index in range(reader.layout.n_chunks))

    return write, read


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
    yield "streamfit", *streamfit_format(None)
    yield "streamfit raw", *streamfit_format("raw")
    if not isinstance(X, np.ndarray):
        yield "streamfit lz4", *streamfit_format("blosc-lz4")
        return
    yield "parquet", *parquet()
    yield "npy", *npy()
    yield "hdf5", *hdf5(None)
    yield "hdf5 lzf", *hdf5("lzf")
    yield "zarr", *plain_zarr()
    for cname in ("lz4", "zstd"):
        yield f"blosc {cname} shuffle", *blosc_format(cname, Blosc.SHUFFLE)
        yield f"blosc {cname} bits", *blosc_format(cname, Blosc.BITSHUFFLE)


def size_of(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def measure(X, path, write, read):
    began = time.process_time()
    write(X, path)
    written = time.process_time()
    n_rows = sum(part.shape[0] for part in read(path))
    done = time.process_time()
    if n_rows != X.shape[0]:
        raise AssertionError(f"{n_rows} of {X.shape[0]} rows came back")
    size = size_of(path)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return size, written - began, done - written


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
            for _, write, read in formats(X):
                measure(X, Path(folder) / "warm", write, read)
        for name, X in data_sets(options.megabytes * 2**20):
            raw = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
            first = None
            for what, write, read in formats(X):
                size, written, done = measure(X, Path(folder) / "data", write, read)
                first = first or (written, done)
                print(
                    f"{name:<20}{what:<20}{size / 1e6:8.1f}{size / raw:8.2f}{written:12.2f}{written / first[0]:12.2f}"
                    f"{done:12.2f}{done / first[1]:12.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
