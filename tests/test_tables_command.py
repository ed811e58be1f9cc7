"""Tables on the command line: categories, the type to store, and what is told where they do not fit."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from typer.testing import CliRunner

import streamfit as sf
from streamfit.cli.app import app

rng = np.random.default_rng(5)
N_ROWS = 400
TABLE = pd.DataFrame(
    {
        "length": rng.normal(size=N_ROWS),
        "town": rng.choice(["Ulm", "Bad Tölz", "Köln"], N_ROWS),
        "car": rng.choice([3, 20, 100], N_ROWS),
        "label": rng.choice(["ham", "spam"], N_ROWS),
    }
)


def run(*args, code=0):
    """Run a command; give all that it says, in one line. `code` None: any that is a failure."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code if code is not None else result.exit_code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def trips(tmp_path):
    TABLE.to_csv(tmp_path / "trips.csv", index=False)
    return tmp_path / "trips.csv"


def test_each_column_has_its_encoding(trips, tmp_path):
    options = ("--y", "label", "--categorical", "town=onehot,car=codes", "--dtype", "float32")
    facts = json.loads(run("ingest", trips, tmp_path / "a", *options, "--json"))
    assert (facts["n_features"], facts["dtype"], facts["classes"], facts["written"]) == (5, "float32", 2, True)
    store = sf.open_store(tmp_path / "a")
    expected = np.column_stack(
        [
            TABLE["length"],
            OneHotEncoder(sparse_output=False).fit_transform(TABLE[["town"]]),
            OrdinalEncoder().fit_transform(TABLE[["car"]]),
        ]
    )
    np.testing.assert_array_equal(store.X.compute(), expected.astype("f4"))
    assert store.feature_names == ("length", "town_Bad Tölz", "town_Köln", "town_Ulm", "car")
    assert [encoding.categories for encoding in store.categories] == [("Bad Tölz", "Köln", "Ulm"), (3, 20, 100)]
    again = ("--y", "label", "--categorical", "town=onehot", "--categorical", "car=codes", "--dtype", "float32")
    assert "nothing was written" in run("ingest", trips, tmp_path / "a", *again)
    assert "town" in run("info", tmp_path / "a")
    # Rows that are added are encoded as those that are there, in any order of the columns.
    TABLE[::-1][["car", "label", "town", "length"]].to_parquet(tmp_path / "more.parquet")
    run("append", tmp_path / "more.parquet", tmp_path / "a", "--y", "label", "--dtype", "float32")
    rows = sf.open_store(tmp_path / "a").X.compute()
    np.testing.assert_array_equal(rows[N_ROWS:], rows[:N_ROWS][::-1])


def test_one_word_is_for_all_text(trips, tmp_path):
    run("ingest", trips, tmp_path / "a", "--y", "label", "--categorical", "codes")
    store = sf.open_store(tmp_path / "a")
    np.testing.assert_array_equal(store.X.compute()[:, 1], OrdinalEncoder().fit_transform(TABLE[["town"]])[:, 0])
    assert store.feature_names == ("length", "town", "car")


def test_a_value_that_comes_later_follows_unknown(trips, tmp_path):
    arguments = ("ingest", trips, tmp_path / "a", "--y", "label", "--categorical", "town=codes")
    run(*arguments, "--unknown", "ignore")
    TABLE[:3].assign(town=["Ulm", "Rom", None]).to_csv(tmp_path / "more.csv", index=False)
    run("append", tmp_path / "more.csv", tmp_path / "a", "--y", "label")
    assert sf.open_store(tmp_path / "a").take([N_ROWS, N_ROWS + 1, N_ROWS + 2])[:, 1].tolist() == [2, -1, -1]
    run(*arguments, "--if-exists", "overwrite")
    said = run("append", tmp_path / "more.csv", tmp_path / "a", "--y", "label", code=1)
    assert "'town' holds 'Rom' in row 1, which is none of its 3 categories" in said
    assert sf.open_store(tmp_path / "a").n_rows == N_ROWS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param((), "'town' of trips.csv holds", id="no-encoding"),
        pytest.param(("--categorical", "hash"), "encode must be", id="word"),
        pytest.param(("--categorical", "town=codes,car"), "COLUMN=codes", id="half"),
        pytest.param(("--categorical", "city=codes"), "no column 'city' for categorical", id="name"),
        pytest.param(("--unknown", "ignore"), "unknown is given", id="unknown-alone"),
        pytest.param(("--categorical", "codes", "--dtype", "float16"), "dtype must be one of float32", id="type"),
        pytest.param(("--categorical", "codes", "--dtype", "int8"), "'length' of trips.csv holds", id="fractions"),
    ],
)
def test_what_does_not_fit_is_said_in_one_paragraph(trips, tmp_path, options, message):
    said = run("ingest", trips, tmp_path / "a", "--y", "label", *options, code=None)
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "a").exists()
