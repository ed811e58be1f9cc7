"""Knowledge graphs as people have them."""

from __future__ import annotations

import numpy as np
import pytest

from streamfit.demo import data
from streamfit.errors import InvalidDataError

TRIPLES = [f"e{i % 7}\tlinks\te{(3 * i + 1) % 11}" for i in range(40)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "_EMBEDDING_FEATURES", 4)
    write(tmp_path / "train.txt", "\n".join(TRIPLES[:30]) + "\n")
    write(tmp_path / "valid.txt", "\n".join(TRIPLES[30:35]) + "\n")
    write(tmp_path / "test.txt", "\n".join(TRIPLES[35:]) + "\n")
    write(tmp_path / "entities.dict", "".join(f"{i}\te{i}\n" for i in range(11)))
    return tmp_path


def write(path, text):
    path.write_bytes(text.encode())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.removesuffix("\n"), id="no-final-newline"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="windows"),
        pytest.param(lambda text: text.replace("\n", "\n\n") + "\n", id="blank-lines"),
    ],
)
def test_ends_of_lines_are_no_matter(folder, change):
    expected = data.load_triples(folder)
    assert expected.X.shape == (len(TRIPLES), 4)
    for file in folder.iterdir():
        write(file, change(file.read_text()))
    rows = data.load_triples(folder)
    np.testing.assert_array_equal(rows.X, expected.X)
    np.testing.assert_array_equal(rows.y, expected.y)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("valid.txt", "e1\tlinks\te2\n\ne1\te2\n", r"valid\.txt, line 3 has 2 fields", id="triple"),
        pytest.param("entities.dict", "0\te0\n1\n", r"entities\.dict, line 2 has 1 fields", id="short-entity"),
        pytest.param("test.txt", "e1\tlinks\tother\n", r"test\.txt, line 1: .*'other'", id="unknown-entity"),
        pytest.param("test.txt", "e1\tlinks\t\udcff", r"test\.txt cannot be read: 'utf-8'", id="no-utf-8"),
    ],
)
def test_a_bad_line_is_named(folder, name, text, message):
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InvalidDataError, match=message):
        data.load_triples(folder)


def test_no_triples(folder):
    for split in ("train", "valid", "test"):
        write(folder / f"{split}.txt", "")
    with pytest.raises(InvalidDataError, match="no triples"):
        data.load_triples(folder)
