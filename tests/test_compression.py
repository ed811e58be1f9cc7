"""Compression by choice: what lies on disk, who follows the choice, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from scipy.sparse import random_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import SGDClassifier

import streamfit as sf
from streamfit.cli.app import app
from streamfit.errors import (
    InvalidParameterError,
    StoreExistsError,
    UnsupportedError,
)
from streamfit.store.manifest import load_manifest
from streamfit.store.writer import StoreWriter

CHUNK_ROWS, N_ROWS = 100, 350


def noise(n_rows=N_ROWS):
    return np.random.default_rng(0).normal(size=(n_rows, 4)).astype("f4")


def levels(n_rows=N_ROWS):
    return np.random.default_rng(0).integers(0, 4, (n_rows, 40)).astype("f4")


def sparse_rows(n_rows=N_ROWS):
    rows = random_array((n_rows, 50), density=0.1, format="csr", rng=np.random.default_rng(0))
    rows.sort_indices()
    return rows


def labels(n_rows=N_ROWS):
    return np.array(["ham", "spam", "egg"])[np.arange(n_rows) % 3]


def written(X, path, **changes):
    return sf.ingest(X, path, **{"y": labels(X.shape[0]), "chunk_rows": CHUNK_ROWS, "compression": "zstd", **changes})


def codecs(store):
    return {name: spec.codec for name, spec in store.manifest.arrays.items()}


def dense(values):
    return values if isinstance(values, np.ndarray) else values.toarray()


def same_rows(store, X):
    found = dense(store.X.compute())
    return found.dtype == X.dtype and found.tobytes() == dense(X).tobytes()


# -- what lies on disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "compression", "codec"),
    [
        (noise, "auto", "raw"),
        (noise, "none", "raw"),
        (noise, "lz4", "blosc-lz4 or blosc-lz4-bits"),
        (noise, "zstd", "zstd"),
        (levels, "auto", "blosc-lz4-bits"),
        (levels, "none", "raw"),
        (levels, "lz4", "blosc-lz4 or blosc-lz4-bits"),
        (levels, "zstd", "zstd"),
        (sparse_rows, "none", "raw"),
        (sparse_rows, "lz4", "blosc-lz4 or blosc-lz4-bits"),
        (sparse_rows, "zstd", "zstd"),
    ],
)
def test_what_is_asked_for_is_written_and_is_read_by_zarr(tmp_path, make, compression, codec):
    X = make()
    store = written(X, tmp_path / "a", compression=compression)
    assert codecs(store)["X"] in codec.split(" or ")
    assert codecs(store)["y"] in ("blosc-lz4 or blosc-lz4-bits" if compression == "auto" else codec).split(" or ")
    assert store.info().format_version == (3 if codec == "zstd" else 2 if make is sparse_rows else 1)
    assert {array.name: array.codec for array in store.info().arrays} == codecs(store)
    assert same_rows(store, X)
    assert store.y.compute().tolist() == labels().tolist()
    assert store.verify().ok
    group = zarr.open_group(tmp_path / "a", mode="r")
    read = group["X/1/data"][:] if store.is_sparse else group["X"][:]
    assert read.tobytes() == (X[100:200].data if store.is_sparse else X).tobytes()


@pytest.mark.parametrize("make", [noise, levels, sparse_rows])
def test_files_are_those_that_zarr_writes(tmp_path, make):
    """Every byte of every chunk file, the padded last one included."""
    X = make()
    store = written(X, tmp_path / "a", ids=np.arange(N_ROWS), sample_weight=np.linspace(0.5, 1, N_ROWS))
    names = ["X/0/data", "X/1/indices", "X/3-50/indptr"] if store.is_sparse else ["X"]
    for name in [*names, "y", "ids", "sample_weight"]:
        ours = zarr.open_array(tmp_path / "a" / name, mode="r")
        theirs = zarr.create_array(
            tmp_path / "zarr" / name,
            shape=ours.shape,
            chunks=ours.chunks,
            dtype=ours.dtype,
            fill_value=ours.fill_value,
            compressors=zarr.codecs.ZstdCodec(level=1, checksum=False),
        )
        theirs[:] = ours[:]
        files = {file.relative_to(tmp_path / "zarr") for file in (tmp_path / "zarr" / name / "c").rglob("*")}
        assert len(files) >= 1
        for file in files:
            if (tmp_path / "zarr" / file).is_file():
                assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "zarr" / file).read_bytes(), file
        metadata = [json.loads((tmp_path / side / name / "zarr.json").read_bytes()) for side in ("a", "zarr")]
        assert metadata[0] == metadata[1]


@pytest.mark.parametrize("make", [noise, sparse_rows])
def test_an_older_version_refuses_zstd_by_name_and_nothing_else(tmp_path, monkeypatch, make):
    for compression in ("auto", "none", "lz4", "zstd"):
        written(make(), tmp_path / compression, compression=compression)
    monkeypatch.setattr("streamfit.store.manifest.FORMAT_VERSION", 2)
    for compression in ("auto", "none", "lz4"):
        load_manifest(tmp_path / compression)
    with pytest.raises(UnsupportedError, match=r"format 3; this streamfit reads formats up to 2. Update"):
        load_manifest(tmp_path / "zstd")


def test_without_a_choice_the_manifest_is_what_it_always_was(tmp_path):
    stores = {name: written(noise(), tmp_path / name, compression=name) for name in ("auto", "none")}
    manifests = {name: json.loads(store.manifest.to_bytes()) for name, store in stores.items()}
    assert "compression" not in manifests["auto"]
    assert manifests["none"].pop("compression") == "none"
    assert manifests["auto"].keys() == manifests["none"].keys()


# -- the same call goes on, another one is refused -----------------------------------------------------


def stopped(path, X, compression, *, continues):
    """Write two chunks and a half, and stop; then give the writer that goes on."""

    def writer(compression):
        return StoreWriter.create(
            path,
            n_features=X.shape[1],
            dtype=X.dtype,
            chunk_rows=CHUNK_ROWS,
            feature_names=None,
            nonfinite="error",
            source={"kind": "test"},
            if_exists="resume",
            continues=continues,
            compression=compression,
        )

    first = writer(compression)
    first.append(X[:250])
    first.close(complete=False)
    assert load_manifest(path, allow_incomplete=True).n_rows == 200
    return writer


@pytest.mark.parametrize("continues", [True, False])
@pytest.mark.parametrize("again", ["auto", "zstd"])
def test_a_stopped_run_goes_on_with_what_it_has(tmp_path, again, continues):
    X = noise()
    with stopped(tmp_path / "a", X, "zstd", continues=continues)(again) as writer:
        writer.append(X[writer.next_row :])
    store = sf.open_store(tmp_path / "a")
    assert same_rows(store, X)
    assert store.manifest.compression == "zstd"
    assert store.info().format_version == 3
    whole = sf.ingest(X, tmp_path / "b", chunk_rows=CHUNK_ROWS, compression="zstd")
    for index in range(4):
        assert (tmp_path / f"a/X/c/{index}/0").read_bytes() == (tmp_path / f"b/X/c/{index}/0").read_bytes()
    assert whole.manifest.checksums == store.manifest.checksums


@pytest.mark.parametrize(("first", "second"), [("zstd", "lz4"), ("auto", "none"), ("auto", "zstd"), ("lz4", "none")])
def test_another_compression_is_refused_by_name(tmp_path, first, second):
    X = noise()
    store = written(X, tmp_path / "a", compression=first)
    for compression in ("auto", first):
        assert written(X, tmp_path / "a", compression=compression).digest == store.digest
    with pytest.raises(StoreExistsError, match=f"with compression='{first}', now it is '{second}'"):
        written(X, tmp_path / "a", compression=second)
    assert sf.open_store(tmp_path / "a").digest == store.digest
    over = written(X, tmp_path / "a", compression=second, if_exists="overwrite")
    assert over.manifest.compression == second
    assert same_rows(over, X)
    with stopped(tmp_path / "b", X, first, continues=True)(first):
        pass
    with pytest.raises(StoreExistsError, match="now it is"):
        stopped(tmp_path / "b", X, second, continues=True)


def test_batches_that_come_again_are_compared_whatever_their_files(tmp_path):
    X = noise()
    batches = lambda: (X[start : start + 70] for start in range(0, N_ROWS, 70))  # noqa: E731
    store = sf.ingest(batches, tmp_path / "a", chunk_rows=CHUNK_ROWS, compression="zstd")
    assert sf.ingest(batches, tmp_path / "a", chunk_rows=CHUNK_ROWS).digest == store.digest
    assert store.verify().ok


@pytest.mark.parametrize("wrong", ["zlib", "ZSTD", None, 1, ["zstd"]])
def test_an_unknown_compression_is_refused_before_anything_is_written(tmp_path, wrong):
    with pytest.raises(InvalidParameterError, match="compression must be 'auto', 'none', 'lz4' or 'zstd'"):
        written(noise(), tmp_path / "a", compression=wrong)
    assert not (tmp_path / "a").exists()
    store = written(noise(), tmp_path / "b")
    for verb in (store.shuffle, lambda path, **how: store.transform(Doubled(), path, **how)):
        if wrong is not None:
            with pytest.raises(InvalidParameterError, match="compression must be"):
                verb(tmp_path / "c", compression=wrong)
    assert not (tmp_path / "c").exists()


# -- who follows ---------------------------------------------------------------------------------------


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer whose values are exact."""

    __sklearn_is_fitted__ = staticmethod(lambda: True)

    def transform(self, X):
        return X * 2


@pytest.mark.parametrize("make", [noise, sparse_rows])
def test_what_is_added_later_is_compressed_alike(tmp_path, make):
    X = make()
    store = sf.ingest(X, tmp_path / "a", chunk_rows=CHUNK_ROWS, compression="zstd")
    more = make(N_ROWS + 130)[N_ROWS:]
    longer = sf.append(more, store)
    assert same_rows(store, X)
    assert dense(longer.X.compute())[N_ROWS:].tobytes() == dense(more).tobytes()
    longer = sf.attach(longer, y=np.arange(N_ROWS + 130) % 2, sample_weight=np.ones(N_ROWS + 130))
    assert set(codecs(longer).values()) == {"zstd"}
    assert longer.info().format_version == 3
    report = longer.verify()
    assert report.ok, str(report)


def test_columns_of_an_uncompressed_store_stay_uncompressed(tmp_path):
    store = sf.ingest(noise(), tmp_path / "a", compression="none")
    assert codecs(sf.attach(store, y=np.zeros(N_ROWS))) == {"X": "raw", "y": "raw"}
    store = sf.ingest(noise(), tmp_path / "b")
    assert codecs(sf.attach(store, y=np.zeros(N_ROWS))) == {"X": "raw", "y": "blosc-lz4"}


VERBS = {
    "full shuffle": lambda store, path, **how: store.shuffle(path, seed=1, **how),
    "two passes": lambda store, path, **how: store.shuffle(path, seed=1, passes=2, **how),
    "transform": lambda store, path, **how: store.transform(Doubled(), path, chunk_rows=CHUNK_ROWS, **how),
}


@pytest.mark.parametrize("verb", VERBS)
def test_rows_written_anew_keep_the_compression_or_take_another(tmp_path, verb):
    store = written(noise(), tmp_path / "a")
    plain = VERBS[verb](written(noise(), tmp_path / "raw", compression="none"), tmp_path / "plain")
    assert set(codecs(plain).values()) == {"raw"}
    for compression, expected in [(None, "zstd"), ("none", "none"), ("lz4", "lz4")]:
        path = tmp_path / str(compression)
        made = VERBS[verb](store, path, compression=compression)
        assert made.manifest.compression == expected
        assert made.X.compute().tobytes() == plain.X.compute().tobytes()
        assert made.y.compute().tolist() == plain.y.compute().tolist()
        assert VERBS[verb](store, path, compression=compression).digest == made.digest
    with pytest.raises(StoreExistsError, match="compression='none', now it is 'zstd'"):
        VERBS[verb](store, tmp_path / "none")
    with pytest.raises(StoreExistsError, match="compression='none', now it is 'lz4'"):
        VERBS[verb](store, tmp_path / "none", compression="lz4")


def test_views_streams_and_fits_give_what_an_uncompressed_store_gives(tmp_path):
    X, y = levels(), np.arange(N_ROWS) // 3 % 2
    stores = [written(X, tmp_path / name, y=y, compression=name) for name in ("none", "zstd")]
    found = []
    for store in stores:
        view = store[7:301:2]
        batches = [batch.X for batch in store.stream(store.plan(batch_size=64, seed=3))]
        trainer = sf.StreamTrainer(SGDClassifier(random_state=0), batch_size=64).fit(view)
        found.append([view.X.compute(), store.take([349, 0, 7, 7]), *batches, trainer.estimator_.coef_])
    assert len(found[0]) > 5
    assert all(one.tobytes() == other.tobytes() for one, other in zip(*found, strict=True))


def test_the_command_line_takes_it(tmp_path, capsys):
    np.save(tmp_path / "x.npy", noise())
    for verb in (
        ["ingest", "x.npy", "a", "--compression", "zstd"],
        ["shuffle", "a", "b"],
        ["shuffle", "a", "c", "--compression", "none"],
    ):
        name, *places = verb
        places = [str(tmp_path / place) if place in ("x.npy", "a", "b", "c") else place for place in places]
        app([name, *places], standalone_mode=False)
    assert [codecs(sf.open_store(tmp_path / name))["X"] for name in "abc"] == ["zstd", "zstd", "raw"]
    app(["info", str(tmp_path / "a")], standalone_mode=False)
    assert "zstd" in capsys.readouterr().out.split("codec")[1]
