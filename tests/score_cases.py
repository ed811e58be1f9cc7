"""Scores as dask arrays in odd blocks, for all tests of aggregates."""

from __future__ import annotations

from itertools import pairwise

import dask.array as da
import numpy as np
from dask.base import tokenize
from hypothesis import strategies as st

from streamfit.scores import rank_agreement, sorting

N_CHUNKS = (1, 7, 100)
"""How many irregular blocks an aggregate has to be equal for, empty ones among them."""
FEW_CHUNKS = (1, 9)
"""The same for drawn scores, which are few, and drawn often."""


def on_scratch(monkeypatch):
    """Send small arrays the way of large ones: to scratch, in runs of 50 rows and pages of 3."""
    monkeypatch.setattr(sorting, "HELD_NBYTES", 0)
    for module in (sorting, rank_agreement):
        monkeypatch.setattr(module, "RUN_ROWS", 50)
    for bound in ("_LEAST_PAGE_ROWS", "_MOST_PAGE_ROWS"):
        monkeypatch.setattr(sorting, bound, 3)


def lazy(values, cuts=()):
    """Give an array in blocks between cuts; equal cuts make empty blocks."""
    bounds = [0, *sorted(cuts), len(values)]
    blocks = [values[start:stop] for start, stop in pairwise(bounds)]
    # As a graph by hand: da.concatenate and rechunking from one block leave empty blocks out.
    name = f"cut-{tokenize(values, bounds)}"
    chunks = (tuple(map(len, blocks)),)
    graph = {(name, place): block for place, block in enumerate(blocks)}
    return da.Array(graph, name, chunks, dtype=values.dtype)


def irregular(values, n_chunks, seed=0):
    """Give an array in so many blocks of random lengths, many of them empty where rows are few."""
    cuts = np.random.default_rng([seed, n_chunks]).integers(0, len(values) + 1, size=n_chunks - 1)
    return lazy(np.asarray(values), cuts.tolist())


def score_arrays(*, least=1, most=60):
    """Draw scores, with few distinct values in half of the cases, so that ties are common."""
    rounded = st.sampled_from([0.0, 1.0, 2.5, -1.0, 1e300, -1e-300])
    any_value = st.floats(-1e6, 1e6, allow_subnormal=False)
    return st.one_of(
        st.lists(rounded, min_size=least, max_size=most), st.lists(any_value, min_size=least, max_size=most)
    ).map(np.array)


def same_bits(found, values):
    """Hold an array to the very bits and the type of another one."""
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()
