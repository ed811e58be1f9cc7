from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.errors import InvalidDataError
from streamfit.store.label_counts import MAX_CLASSES, distinct, most_classes
from streamfit.store.label_encoder import LabelEncoder
from streamfit.store.label_values import as_label_array
from streamfit.store.labels import LabelInfo


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


@settings(max_examples=80, deadline=None)
@given(
    dtype=st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]),
    data=st.data(),
)
def test_distinct_values_are_those_of_numpy_unique(dtype, data):
    kind = np.dtype(dtype)
    if kind.kind == "f":
        numbers = st.integers(-3, 3)
    else:
        bounds = np.iinfo(kind)
        ends = [st.integers(bounds.min, bounds.min + 3), st.integers(bounds.max - 3, bounds.max)]
        numbers = st.one_of(st.integers(0, 3), *data.draw(st.sampled_from([ends, ends[:1], ends[1:]])))
    stored = np.array(data.draw(st.lists(numbers, max_size=12)), dtype=kind)
    values, first, counts = distinct(stored)
    expected = np.unique(stored, return_index=True, return_counts=True)
    assert values.dtype == kind
    for found, known in zip((values, first, counts), expected, strict=True):
        np.testing.assert_array_equal(found, known)


# -- several labels a row ------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [(), (1,), (2, 3)])
def test_each_of_several_labels_is_known_as_it_would_be_alone(pieces):
    y = np.array([[3, 0, -1], [3, 1, 10_000], [5, 0, 7], [3, 1, -1]])
    info, decoded = through(y, pieces=pieces)
    np.testing.assert_array_equal(decoded, y)
    assert (info.kind, info.n_outputs, info.row_nbytes) == ("outputs", 3, 24)
    for output, column in zip(info.outputs, y.T, strict=True):
        alone, _ = through(column, pieces=pieces)
        assert output.to_json() == alone.to_json()
    part = info.of_part([y[1:2], y[2:]])
    for output, column in zip(part.outputs, y[1:].T, strict=True):
        assert output.to_json() == through(column, pieces=())[0].to_json()


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_restored_encoder_goes_on_with_several_labels(cut):
    y = np.array([[3, 0], [3, 1], [5, 0], [3, 1]], dtype="i2")
    encoder = LabelEncoder()
    encoder.count(encoder.encode(y[:cut], start=0), start=0)
    restored = LabelEncoder.restore(LabelInfo.from_json(encoder.info().to_json()))
    restored.count(restored.encode(y[cut:], start=cut), start=cut)
    assert restored.info().to_json() == through(y, pieces=(cut,))[0].to_json()
    with pytest.raises(InvalidDataError, match=r"y has 3 label\(s\) a row from row 9 on and 2 before"):
        restored.encode(np.ones((1, 3), dtype="i2"), start=9)


def test_many_labels_a_row_have_fewer_classes_each():
    n_outputs = 100_000 // 50
    y = np.zeros((51, n_outputs), dtype="i2")
    y[:, 0], y[:50, 1] = np.arange(51), np.arange(50)
    info, _ = through(y)
    assert [output.kind for output in info.outputs[:3]] == ["target", "classes", "classes"]
    assert len(info.outputs[1].classes) == 50 == most_classes(n_outputs)


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        pytest.param([[1, 2.5], [2, 0.5]], "f8", id="whole-and-fraction"),
        pytest.param([[True, 2], [False, 0]], "i8", id="flag-and-whole"),
        pytest.param(pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), "f8", id="pandas"),
        pytest.param(pd.DataFrame({"a": [1, 2], "b": [True, False]}), "i8", id="pandas-flags"),
        pytest.param(pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": [3, 4]}), "i8", id="pandas-nullable"),
        pytest.param(pl.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), "f8", id="polars"),
        pytest.param(pa.table({"a": [1, 2], "b": [0.5, 1.5]}), "f8", id="arrow"),
        pytest.param(np.asfortranarray([[1, 2], [3, 4]]), "i8", id="fortran"),
        pytest.param(np.array([[1, 2], [3, 4]], dtype=object), "i8", id="objects"),
        pytest.param(np.array([[1, 2], [3, 4]], dtype=">f4"), "f4", id="big-endian"),
        pytest.param(np.array([[1, 2], [3, 4]], dtype="f2"), "f4", id="half"),
    ],
)
def test_several_labels_of_any_form(y, dtype):
    labels = as_label_array(y, start=0)
    rows = np.asarray(y.to_pandas() if isinstance(y, pa.Table) else y).tolist()
    assert labels.dtype == np.dtype(dtype)
    assert labels.flags.c_contiguous
    assert labels.tolist() == rows


def test_labels_that_a_float_does_not_hold_are_refused():
    large = 2**53 + 1
    for y in (
        [large, 0.5],
        [0.5, (1 << 63) + 1, -1],
        [[0, 0.5], [large, 0.5]],
        pd.DataFrame({"a": [0, large], "b": [0.5, 0.5]}),
        pl.DataFrame({"a": [0, large], "b": [0.5, 0.5]}),
        pa.table({"a": [0, large], "b": [0.5, 0.5]}),
        pd.DataFrame({"a": np.array([0, -1]), "b": np.array([0, 2**63 + 1], dtype="u8")}),
    ):
        with pytest.raises(InvalidDataError, match=r"No type holds the labels of row 4\d: \d+ would be float64"):
            as_label_array(y, start=40)
    exact = as_label_array([[2**53, 0.5], [2**54, 0.5]], start=0)
    assert exact.dtype == np.float64


@pytest.mark.parametrize(
    "y",
    [
        pytest.param([[1, 2], [None, 1]], id="None"),
        pytest.param([[1, 2], [1, np.nan]], id="NaN"),
        pytest.param(pd.DataFrame({"a": [1.0, np.nan], "b": [0, 1]}), id="pandas"),
        pytest.param(pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0, 1]}), id="pandas-nullable"),
        pytest.param(pl.DataFrame({"a": [1, None], "b": [0, 1]}), id="polars"),
        pytest.param(pa.table({"a": [1, None], "b": [0, 1]}), id="arrow"),
    ],
)
def test_a_row_that_lacks_one_of_several_labels_is_named(y):
    with pytest.raises(InvalidDataError, match="label of row 41") as caught:
        as_label_array(y, start=40)
    assert caught.value.row == 41


@pytest.mark.parametrize(
    ("y", "message"),
    [
        pytest.param([["a", "b"]], "2 labels a row, and some are texts", id="texts"),
        pytest.param([["a", 1]], "values of type int, str", id="text-and-number"),
        pytest.param(pd.DataFrame({"a": [1], "b": ["x"]}), "2 labels a row, and some are texts", id="pandas"),
        pytest.param(sp.csr_array([[0, 1]]), r"y is sparse, .* y.toarray\(\)", id="sparse"),
        pytest.param(np.array([[1j, 2]]), "complex128", id="complex"),
        pytest.param(np.array([["2024-01-01"] * 2], dtype="M8[D]"), "datetime64", id="datetime64"),
    ],
)
def test_what_cannot_be_several_labels_is_refused(y, message):
    with pytest.raises(InvalidDataError, match=message):
        as_label_array(y, start=0)
