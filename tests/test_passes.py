"""What a function that is mapped over a store may give."""

from __future__ import annotations

import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import InvalidParameterError
from streamfit.run.passes import spool_scores
from streamfit.run.spool import ScoreSpool

N_ROWS = 250


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X = np.arange(2.0 * N_ROWS).reshape(N_ROWS, 2)
    return sf.ingest(X, tmp_path_factory.mktemp("passes") / "a", chunk_rows=100)


WRONG = {
    "two-columns": lambda chunk: chunk.X,
    "one-column": lambda chunk: chunk.X[:, :1],
    "a-row-less": lambda chunk: chunk.X[1:, 0],
    "one-row": lambda chunk: chunk.X[:1, 0],
    "one-number": lambda chunk: chunk.X.mean(),
    "nothing": lambda _: None,
}


def give(what, chunk):
    return WRONG[what](chunk)


@pytest.mark.parametrize("what", WRONG)
def test_a_result_that_is_not_one_value_a_row_is_refused(store, what):
    lazy = store.map(give, model=what, dtype="f8")
    with pytest.raises(InvalidParameterError, match=r"The function gave values of shape .* and \(100,\) is needed"):
        lazy[:100].compute()


@pytest.mark.parametrize("what", ["a-row-less", "one-row", "one-column", "one-number"])
def test_a_result_without_the_columns_that_were_said_is_refused(store, what):
    lazy = store.map(give, model=what, dtype="f8", n_outputs=2)
    with pytest.raises(InvalidParameterError, match=r"and \(100, 2\) is needed"):
        lazy[:100].compute()


def test_lists_are_arrays(store):
    lazy = store.map(lambda _, chunk: chunk.X[:, 0].tolist(), model=None, dtype="f8")
    np.testing.assert_array_equal(lazy.compute(), np.arange(0.0, 2 * N_ROWS, 2))


@pytest.mark.parametrize("n_outputs", [0, -1, 1.5, "a", True])
def test_columns_are_counted(store, n_outputs):
    with pytest.raises(InvalidParameterError, match="n_outputs must be an integer of at least 1"):
        store.map(give, model="two-columns", dtype="f8", n_outputs=n_outputs)


@pytest.mark.parametrize("what", ["two-columns", "a-row-less"])
def test_scores_that_are_not_one_a_row_are_not_spooled(store, tmp_path, what):
    spool = ScoreSpool.create(tmp_path / "scores.npy", n_rows=N_ROWS)
    with pytest.raises(InvalidParameterError, match="The function gave values of shape"):
        spool_scores(
            store.ref,
            store.layout,
            give,
            model=what,
            spool=spool,
            task_nbytes=0,
            memory_limit=None,
            engine=None,
        )
