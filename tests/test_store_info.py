"""``info``: what a store holds, against numpy; for programs, terminals and notebooks."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app
from streamfit.errors import InvalidParameterError, StoreCorruptError
from streamfit.store.describe import store_info
from streamfit.store.manifest import commit_manifest, load_manifest
from streamfit.store.writer import StoreWriter

N_ROWS, CHUNK_ROWS = 450, 100
NAMES = ("speed", "load", '<b onclick="x">&amp;', "line\nbreak \x1b[31m")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4)) * [1, 10, 1e-9, 1e12]
    X[7, 1], X[9, 1], X[:, 2] = np.nan, -np.inf, np.nan
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture
def labels():
    return np.where(np.arange(N_ROWS) % 3 == 0, "<script>", "ham")


@pytest.fixture
def store(tmp_path, table, labels):
    sides = {"y": labels, "ids": np.arange(N_ROWS), "sample_weight": np.ones(N_ROWS)}
    return sf.ingest(table, tmp_path / "a<i>.zarr", **sides, chunk_rows=CHUNK_ROWS, nonfinite="keep")


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


# -- values ----------------------------------------------------------------------------------------------


def test_shape_chunks_and_bytes(store):
    info = store.info()
    assert (info.path, info.complete, info.view_of) == (store.path, True, None)
    assert (info.n_rows, info.n_rows_expected, info.n_features, info.dtype) == (N_ROWS, None, 4, "float64")
    assert (info.nonfinite, info.chunk_rows, info.n_chunks) == ("keep", CHUNK_ROWS, 5)
    arrays = {array.name: array for array in info.arrays}
    assert {name: (array.dtype, array.codec) for name, array in arrays.items()} == {
        "X": ("float64", "raw"),
        "y": ("int32", "blosc-lz4"),
        "sample_weight": ("float64", "blosc-lz4-bits"),
        "ids": ("int64", "blosc-lz4"),
    }
    for name, array in arrays.items():
        files = [file for file in Path(store.path, name, "c").rglob("*") if file.is_file()]
        assert array.disk_nbytes == sum(file.stat().st_size for file in files)
        assert array.decoded_nbytes == getattr(store, name).shape[0] * {"X": 32, "y": 4}.get(name, 8)
        assert array.ratio == array.decoded_nbytes / array.disk_nbytes
    assert info.disk_nbytes == sum(array.disk_nbytes for array in arrays.values())
    assert info.decoded_nbytes == N_ROWS * (32 + 4 + 8 + 8)
    assert info.ratio == info.decoded_nbytes / info.disk_nbytes
    assert info.digest == store.digest
    assert info.format_version == 1


def test_columns_as_numpy_sees_them(store, table):
    columns = store.info().columns
    assert tuple(column.name for column in columns) == NAMES
    for number, column in enumerate(columns):
        values = table.to_numpy()[:, number]
        finite = values[np.isfinite(values)]
        assert column.n_nonfinite == N_ROWS - len(finite)
        got = (column.minimum, column.mean, column.maximum, column.std)
        expected = (finite.min(), finite.mean(), finite.max(), finite.std()) if len(finite) else (np.nan,) * 4
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert store.info().n_nonfinite == N_ROWS + 2


def test_classes_with_counts(store, labels):
    info = store.info()
    names, counts = np.unique(labels, return_counts=True)
    assert (info.label_kind, info.label_dtype) == ("classes", "<U8")
    assert info.classes == tuple(names)
    assert info.class_counts == tuple(counts)


@pytest.mark.parametrize(
    ("y", "kind", "classes", "said"),
    [
        pytest.param(None, None, (), None, id="none"),
        pytest.param(np.linspace(0, 1, 30), "target", (), "labels +a target of float64", id="target"),
        pytest.param(np.arange(30) % 2 == 0, "classes", (False, True), "classes +False: 15, True: 15", id="bool"),
        pytest.param([b"a"] * 29 + [b"b"], "classes", ("b'a'", "b'b'"), "classes +b'a': 29", id="bytes"),
        pytest.param(np.arange(30), "classes", tuple(range(30)), "19: 1, and 10 more", id="many"),
    ],
)
def test_kinds_of_labels(tmp_path, y, kind, classes, said):
    info = sf.ingest(np.zeros((30, 2)), tmp_path / "a", y=y).info()
    assert (info.label_kind, info.classes) == (kind, classes)
    assert json.loads(json.dumps(info.to_json()))["labels"] == (
        None
        if kind is None
        else {
            "kind": kind,
            "n_outputs": None,
            "dtype": info.label_dtype,
            "classes": list(classes),
            "counts": list(info.class_counts),
            "output_classes": [],
        }
    )
    assert said is None or re.search(said, str(info))


@pytest.mark.parametrize(
    ("y", "classes", "said"),
    [
        (np.zeros((6, 3)) + 0.5, [None] * 3, "3 a row, of float64\n"),
        (
            np.column_stack([np.arange(6), np.arange(6) % 2]),
            [list(range(6)), [0, 1]],
            "2 a row, of int64: 6 classes, 2 classes\n",
        ),
        (np.column_stack([np.arange(6) / 4, np.zeros(6)]), [None, [0.0]], "2 a row, of float64: target, 1 class\n"),
        (np.ones((6, 30), dtype=bool), [[True]] * 30, "(1 class, ){20}and 10 more"),
    ],
)
def test_several_labels_a_row(tmp_path, y, classes, said):
    store = sf.ingest(np.ones((6, 2)), tmp_path / "a", y=y)
    for info in (store.info(), store[1:].info()):
        labels = json.loads(json.dumps(info.to_json()))["labels"]
        assert (labels["kind"], labels["n_outputs"], labels["classes"]) == ("outputs", y.shape[1], [])
        assert info.row_nbytes == 16 + y[0].nbytes
    assert json.loads(json.dumps(store.info().to_json()))["labels"]["output_classes"] == classes
    assert re.search(said, str(store.info()))
    assert re.search(said.strip(), store.info()._repr_html_())


def test_rows_that_fit(store):
    info = store.info()
    # Features, ids and weights, and eight characters of a label, of four bytes each.
    assert info.row_nbytes == 32 + 8 + 8 + 32
    in_memory = sum(getattr(store, name).compute().nbytes for name in ("X", "y", "sample_weight", "ids"))
    assert info.row_nbytes * N_ROWS == in_memory
    assert info.rows_that_fit(in_memory) == N_ROWS
    assert info.rows_that_fit(in_memory - 1) == N_ROWS - 1
    assert info.rows_that_fit("1GB") == N_ROWS
    assert info.rows_that_fit(79) == 0
    assert info.to_json()["rows_that_fit"] is None
    assert store.info("8kB").to_json()["rows_that_fit"] == {"memory_limit": 8_000, "n_rows": 100, "all": False}
    assert store.info(memory_limit="1GB").to_json()["rows_that_fit"]["all"] is True
    assert "100 of 450 rows fit" in str(store.info(8_000))
    assert "all rows fit" in str(store.info("1GB"))
    with pytest.raises(InvalidParameterError, match="got None"):
        info.rows_that_fit(None)
    for wrong in ("much", 0, -1):
        with pytest.raises(InvalidParameterError, match="memory_limit"):
            info.rows_that_fit(wrong)
        with pytest.raises(InvalidParameterError, match="memory_limit"):
            store.info(wrong)


def test_source_and_what_was_appended(tmp_path, table):
    table = table[["speed", "load"]].fillna(0).replace(-np.inf, 0)
    for number in range(7):
        table.to_csv(tmp_path / f"part-{number}.csv", index=False)
    store = sf.ingest(str(tmp_path / "part-*.csv"), tmp_path / "a", chunk_rows=CHUNK_ROWS)
    assert store.info().source == store.manifest.source
    assert re.search(r"\nsource +csv: part-0.csv, part-1.csv, .*, part-4.csv and 2 more\n", str(store.info()))
    for n_rows in (1, 20):
        with StoreWriter.append_to(store.path, source={"kind": "more", "n": n_rows}, continues=False) as writer:
            writer.append(np.zeros((n_rows, 2)))
    info = sf.open_store(store.path).info()
    assert [(part["source"]["kind"], part["n_rows"]) for part in info.appended] == [("more", 1), ("more", 20)]
    assert "1 rows of more, 20 rows of more" in str(info)


def test_reads_no_rows(store):
    for array in ("X", "y"):
        for file in Path(store.path, array, "c").rglob("*"):
            if file.is_file():
                file.unlink()
    info = sf.open_store(store.path).info()
    assert [array.disk_nbytes for array in info.arrays if array.name in ("X", "y")] == [0, 0]
    assert [array.ratio for array in info.arrays if array.name in ("X", "y")] == [None, None]
    str(info)


def test_a_view_tells_of_its_own_rows(store, table, labels):
    rows = np.arange(3, N_ROWS, 4)
    info = store.select(rows).info("3kB")
    assert (info.view_of, info.n_rows, info.n_features) == (N_ROWS, len(rows), 4)
    assert (info.n_chunks, info.disk_nbytes, info.ratio) == (2, None, None)
    assert info.digest != store.digest
    X = table.to_numpy()[rows]
    assert info.n_nonfinite == np.count_nonzero(~np.isfinite(X))
    got = [(column.minimum, column.maximum) for column in info.columns]
    np.testing.assert_array_equal(got[0], (X[:, 0].min(), X[:, 0].max()))
    names, counts = np.unique(labels[rows], return_counts=True)
    assert (info.classes, info.class_counts) == (tuple(names), tuple(counts))
    assert info.to_json()["rows_that_fit"] == {"memory_limit": 3_000, "n_rows": 37, "all": False}
    assert info.decoded_nbytes == len(rows) * (32 + 4 + 8 + 8)
    assert "rows         112, a view of 450" in str(info)


def test_html_of_a_view_reads_no_rows(store):
    view = store.select(np.arange(N_ROWS) % 2 == 0)
    for array in ("X", "y"):
        shutil.rmtree(Path(store.path, array))
    found = parsed(view._repr_html_())
    assert {"225, a view of 450", "4 of float64", "X, ids, sample_weight, y"} <= set(found.texts)
    with pytest.raises(StoreCorruptError):
        view.info()


# -- stores that are not complete ------------------------------------------------------------------------


def left_with(store, n_rows, n_chunks, **changes):
    """Make the store as a killed writer leaves it."""
    manifest = store.manifest
    sums = {name: values[:n_chunks] for name, values in manifest.checksums.items()}
    left = dataclasses.replace(manifest, n_rows=n_rows, complete=False, checksums=sums, **changes)
    commit_manifest(Path(store.path), left)
    return store_info(Path(store.path), load_manifest(Path(store.path), allow_incomplete=True), memory_limit=None)


def test_a_part_of_known_rows(store):
    info = left_with(store, 200, 2, n_rows_expected=N_ROWS)
    assert (info.complete, info.n_rows, info.n_rows_expected, info.n_chunks) == (False, 200, N_ROWS, 2)
    assert "200 of 450, INCOMPLETE: run the same ingest again" in str(info)
    assert json.loads(run("info", store.path, "--json"))["complete"] is False


def test_nothing_yet(store):
    info = left_with(store, 0, 0, arrays={}, labels=None, statistics=type(store.statistics).empty(4))
    assert (info.n_rows, info.n_chunks, info.arrays, info.disk_nbytes, info.ratio) == (0, 0, (), 0, None)
    said = run("info", store.path, "--memory-limit", "1GB")
    assert "0, INCOMPLETE: nothing is written yet, run the same ingest again" in said
    assert "column" not in said
    assert "nothing is written yet" in info._repr_html_()
    assert json.loads(run("info", store.path, "--json"))["columns"][0]["minimum"] is None


# -- JSON and the command --------------------------------------------------------------------------------


def test_the_command_prints_the_same(store):
    assert run("info", store.path) == f"{store.info()}\n"
    assert run("info", store.path, "--memory-limit", "8kB") == f"{store.info('8kB')}\n"
    facts = json.loads(run("info", store.path, "--memory-limit", "8kB", "--json"))
    assert json.loads(run("info", store.path, "--memory-limit", "x", "--json", code=2))["error"] == (
        "InvalidParameterError"
    )
    assert list(facts) == [
        "path", "view_of", "transformed_by",
        "complete", "n_rows", "n_rows_expected", "n_features", "dtype", "nonfinite", "chunk_rows",
        "n_chunks", "arrays", "columns", "source", "appended", "format_version", "digest", "nnz", "row_nbytes",
        "decoded_nbytes", "disk_nbytes", "ratio", "n_nonfinite", "labels", "rows_that_fit",
    ]  # fmt: skip
    info = store.info("8kB")
    assert facts["arrays"]["X"] == {
        "dtype": "float64",
        "codec": "raw",
        "decoded_nbytes": info.arrays[0].decoded_nbytes,
        "disk_nbytes": info.arrays[0].disk_nbytes,
        "ratio": info.arrays[0].ratio,
    }
    assert list(facts["columns"][0]) == ["name", "minimum", "mean", "maximum", "std", "n_nonfinite"]
    assert facts["columns"][2] == dict.fromkeys(("minimum", "mean", "maximum", "std")) | {
        "name": NAMES[2],
        "n_nonfinite": N_ROWS,
    }
    assert facts["rows_that_fit"] == {"memory_limit": 8_000, "n_rows": 100, "all": False}
    assert facts["source"]["kind"] == "dataframe"


def test_a_text_for_people(store):
    lines = str(store.info()).splitlines()
    assert lines[0] == store.path
    assert lines[1] == "rows        450"
    assert "features    4 of float64" in lines
    assert "chunks      5 of 100 rows" in lines
    assert "not finite  452 values, kept" in lines
    assert "classes     <script>: 150, ham: 300" in lines
    assert any(re.fullmatch(r"X +float64 +raw +14\.06 kiB +[\d.]+ kiB +[\d.]+", line) for line in lines)
    # What a name holds neither ends the line nor reaches the terminal.
    (line,) = (line for line in lines if line.startswith("line"))
    assert line.startswith("line\\nbreak \\x1b[31m ")
    assert "\x1b" not in str(store.info())


def test_many_columns_are_cut(tmp_path):
    said = str(sf.ingest(np.zeros((3, 25)), tmp_path / "a").info())
    assert "and 15 more columns" in said
    assert len(said.splitlines()) < 30


# -- notebooks -------------------------------------------------------------------------------------------


class Strict(HTMLParser):
    """Collects tags, attributes and texts; tags must be closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], set(), []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def parsed(content):
    parser = Strict()
    parser.feed(content)
    parser.close()
    assert parser.open == []
    return parser


def test_html_is_escaped_and_stands_alone(store):
    found = parsed(store._repr_html_())
    assert set(found.tags) == {"div", "strong", "table", "tr", "th", "td"}
    assert found.attributes == {"style"}
    assert {store.path, "450", '<b onclick="x">&amp;', "<script>: 150, ham: 300", "line\\nbreak \\x1b[31m"} <= set(
        found.texts
    )
    assert len(store._repr_html_()) < 20_000


def test_html_has_the_colours_of_the_page(store):
    content = store._repr_html_()
    assert set(re.findall(r"(?:color|background): ?([^;\"]+)", content)) == {"inherit", "transparent"}


def test_html_equals_the_text(store):
    texts = parsed(store.info("1MB")._repr_html_()).texts
    for word in re.split(r"\s{2,}|\n", str(store.info("1MB"))):
        assert word.strip() in " ".join(texts)
