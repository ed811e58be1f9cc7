from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.errors import InvalidDataError
from streamfit.store.label_values import as_label_array
from streamfit.store.labels import MAX_CLASSES, LabelEncoder, LabelInfo


def through(y, *, pieces=(3,)):
    """Encode in pieces, count each, and give info and decoded labels after a trip through JSON."""
    encoder = LabelEncoder()
    stored, start = [], 0
    bounds = [0, *pieces, len(y)]
    for first, last in itertools.pairwise(bounds):
        piece = encoder.encode(y[first:last], start=start)
        encoder.count(piece, start=start)
        stored.append(piece.astype(encoder.stored_dtype))
        start += last - first
    info = LabelInfo.from_json(encoder.info().to_json())
    return info, info.decode(np.concatenate(stored))


@pytest.mark.parametrize(
    "y",
    [
        pytest.param(np.array([3, -1, 3, 7, -1]), id="int64"),
        pytest.param(np.array([3, 1, 3, 7, 1], dtype="u1"), id="uint8"),
        pytest.param(np.array([3, 1, 3, 7, 1], dtype=">i4"), id="big-endian"),
        pytest.param(np.array([True, False, False, False, True]), id="bool"),
        pytest.param(np.array([2.0, 1.0, 2.0, 2.0, 0.0]), id="whole-floats"),
        pytest.param(np.array(["b", "a", "b", "ccc", "a"]), id="str"),
        pytest.param(np.array(["b", "a", "b", "ccc", "a"], dtype=np.dtypes.StringDType()), id="StringDType"),
        pytest.param(np.array(["ß", "", "ß", "日本", ""], dtype=object), id="object-of-str"),
        pytest.param(np.array([b"b", b"a", b"b", b"\xff\x01", b"a"]), id="bytes"),
        pytest.param(pd.Series(["b", "a", "b", "ccc", "a"], dtype="category"), id="categorical"),
        pytest.param(pd.Series(["b", "a", "b", "ccc", "a"], dtype="string[pyarrow]"), id="arrow-string"),
        pytest.param(pd.Series([3, 1, 3, 7, 1], dtype="Int64"), id="nullable-int"),
        pytest.param([3, 1, 3, 7, 1], id="list"),
    ],
)
def test_classes_are_those_of_numpy_unique_and_labels_come_back(y):
    info, decoded = through(y)
    plain = np.array(list(y))
    classes, first, counts = np.unique(plain, return_index=True, return_counts=True)
    assert info.kind == "classes"
    np.testing.assert_array_equal(info.classes, classes)
    np.testing.assert_array_equal(info.counts, counts)
    np.testing.assert_array_equal(info.first_rows, first)
    np.testing.assert_array_equal(decoded, plain)
    assert decoded.dtype == info.dtype
    assert decoded.dtype.kind == plain.dtype.kind


@settings(max_examples=60, deadline=None)
@given(y=st.lists(st.text(max_size=3).filter(lambda text: "\0" not in text), min_size=1, max_size=30), data=st.data())
def test_pieces_do_not_matter(y, data):
    cut = data.draw(st.integers(0, len(y)))
    whole, _ = through(y, pieces=())
    split, decoded = through(y, pieces=(cut,)) if 0 < cut < len(y) else through(y, pieces=())
    assert split.to_json() == whole.to_json()
    assert decoded.tolist() == y


def test_classes_that_are_not_written_yet_are_not_told():
    encoder = LabelEncoder()
    stored = encoder.encode(["b", "a", "z"], start=0)
    encoder.count(stored[:2], start=0)
    assert encoder.info().classes.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "y",
    [
        pytest.param(np.linspace(0, 1, 7), id="fractions"),
        pytest.param(np.arange(MAX_CLASSES + 1), id="too-many-whole-numbers"),
        pytest.param(np.r_[np.arange(5.0), 0.5], id="fraction-at-the-end"),
    ],
)
def test_other_numbers_are_a_target(y):
    info, decoded = through(y)
    assert info.kind == "target"
    assert len(info.classes) == 0
    np.testing.assert_array_equal(decoded, y)


def test_as_many_classes_as_allowed_are_counted():
    info, _ = through(np.arange(MAX_CLASSES)[::-1].copy())
    assert info.kind == "classes"
    assert info.first_rows[0] == MAX_CLASSES - 1


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_a_restored_encoder_goes_on_with_the_same_codes(cut):
    y = ["b", "a", "b", "c", "a", "d"]
    encoder = LabelEncoder()
    encoder.count(encoder.encode(y[:cut], start=0), start=0)
    restored = LabelEncoder.restore(LabelInfo.from_json(encoder.info().to_json()))
    restored.count(restored.encode(y[cut:], start=cut), start=cut)
    assert restored.info().to_json() == through(y, pieces=(cut,))[0].to_json()


@pytest.mark.parametrize(
    "y",
    [
        pytest.param([1, None, 2], id="None-among-numbers"),
        pytest.param(["a", None, "b"], id="None-among-texts"),
        pytest.param(np.array(["a", np.nan], dtype=object), id="NaN-among-texts"),
        pytest.param(np.array([1.0, np.nan]), id="NaN"),
        pytest.param(np.array([1.0, -np.inf]), id="infinity"),
        pytest.param(pd.Series(["a", None], dtype="string"), id="pandas-NA"),
        pytest.param(pd.Series([1, None], dtype="Int64"), id="nullable-int"),
        pytest.param(pd.Series(["a", None], dtype="category"), id="categorical"),
        pytest.param(np.array(["a", None], dtype=np.dtypes.StringDType(na_object=None)), id="StringDType"),
    ],
)
def test_a_missing_label_is_named_by_its_row(y):
    with pytest.raises(InvalidDataError, match="label of row 41") as caught:
        as_label_array(y, start=40)
    assert caught.value.row == 41


@pytest.mark.parametrize(
    ("y", "message"),
    [
        pytest.param(["a", 1], "values of type int, str", id="mixed"),
        pytest.param([[[1]], [[2]]], r"shape \(2, 1, 1\)", id="three-dimensions"),
        pytest.param(np.array([1j]), "complex128", id="complex"),
        pytest.param(np.array(["2024-01-01"], dtype="M8[D]"), "datetime64", id="datetime64"),
        pytest.param([dt.date(2024, 1, 1)], "values of type date", id="date"),
    ],
)
def test_what_is_no_label_is_refused(y, message):
    with pytest.raises(InvalidDataError, match=message):
        as_label_array(y, start=0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(["a"], [1], id="numbers-after-texts"),
        pytest.param([1], ["a"], id="texts-after-numbers"),
        pytest.param([1], [0.5], id="floats-after-ints"),
        pytest.param(["a"], [b"a"], id="bytes-after-texts"),
    ],
)
def test_a_change_of_type_is_named_by_its_row(first, second):
    encoder = LabelEncoder()
    encoder.encode(first, start=0)
    with pytest.raises(InvalidDataError, match="from row 1 on"):
        encoder.encode(second, start=1)


def test_too_many_texts_are_refused():
    with pytest.raises(InvalidDataError, match=f"more than {MAX_CLASSES} distinct texts"):
        LabelEncoder().encode([str(number) for number in range(MAX_CLASSES + 1)], start=0)
