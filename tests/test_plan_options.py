"""Options are values that are right or not there."""

from __future__ import annotations

import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import InvalidParameterError

NO_COUNTS = [0.5, "1", None, True, [1], -1]


@pytest.mark.parametrize("wrong", NO_COUNTS)
@pytest.mark.parametrize(
    ("options", "name"),
    [
        *((sf.StreamOptions, name) for name in ("window", "min_batch", "prefetch")),
        *((sf.BatchWise, n) for n in ("batch_size", "epochs", "members_per_row", "max_members", "random_state")),
    ],
)
def test_counts(options, name, wrong):
    assert getattr(options(**{name: np.int64(3)}), name) == 3
    if wrong is None and name in {"window", "prefetch"}:
        return
    with pytest.raises(InvalidParameterError, match=f"{name} must be an integer of at least"):
        options(**{name: wrong})


@pytest.mark.parametrize(
    ("options", "name"),
    [(sf.StreamOptions, "verify"), *((sf.BatchWise, name) for name in ("score", "calibrate", "combine"))],
)
@pytest.mark.parametrize("wrong", ["Always", True, None, np.array(["always", "mean"])], ids=str)
def test_choices(options, name, wrong):
    with pytest.raises(InvalidParameterError, match=f"{name} must be '.*' or '.*', got"):
        options(**{name: wrong})


@pytest.mark.parametrize("wrong", ["a", None, 0, -1.0, float("nan"), True])
def test_hours(wrong):
    with pytest.raises(InvalidParameterError, match="max_hours must be"):
        sf.Exact(wrong)
    assert sf.Exact(0.5).max_hours == 0.5


def test_drop_last_is_a_boolean():
    with pytest.raises(InvalidParameterError, match="drop_last must be True or False, got 'no'"):
        sf.StreamOptions(drop_last="no")
