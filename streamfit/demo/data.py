"""Data for the demonstration: made here, or read from files that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.sources.damaged import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["LabelledRows", "load_npz", "load_triples", "snapshots", "wide_batches"]

_WIDE_FEATURES = 100
_WIDE_SEED = 0
_SNAPSHOTS_SEED = 3
_EMBEDDING_FEATURES = 100
_BATCH_ROWS = 20_000


class LabelledRows(NamedTuple):
    """Rows that fit memory, with 1 for anomalies, in the order of their arrival."""

    name: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    batch_rows: int
    """Rows of a batch of the classic loop: a day, or 10,000."""


def wide_batches(n_rows: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Make transactions batch by batch: 100 columns of very different scale, 2 % anomalies.

    An anomaly is shifted by 1.5 standard deviations in 10 columns, so that a linear model can learn it and a
    histogram can suspect it.
    """
    scales = np.geomspace(0.01, 1_000, _WIDE_FEATURES).astype(np.float32)
    for number, start in enumerate(range(0, n_rows, _BATCH_ROWS)):
        rng = np.random.default_rng([_WIDE_SEED, number])
        rows = min(_BATCH_ROWS, n_rows - start)
        X = rng.standard_normal((rows, _WIDE_FEATURES), dtype=np.float32)
        y = (rng.random(rows) < 0.02).astype(np.int64)
        X[:, ::10] += 1.5 * y[:, None].astype(np.float32)
        X *= scales
        yield X, y


def snapshots(n_rows: int) -> LabelledRows:
    """Make nine daily snapshots of recurring entities, with 2 % one-off entities a day.

    98 % of a day's rows are the same entities as on every other day, slightly changed; the anomalies are
    entities that appear once. Within one day both look alike: only the other days tell them apart.
    """
    rng = np.random.default_rng(_SNAPSHOTS_SEED)
    n_days, n_groups, n_features = 9, 20, 100
    day_rows = n_rows // n_days
    n_once = max(1, day_rows // 50)
    centres = rng.normal(0, 3, (n_groups, n_features))

    def entities(n: int) -> NDArray[np.float64]:
        return centres[rng.integers(0, n_groups, n)] + rng.standard_normal((n, n_features))

    recurring = entities(day_rows - n_once)
    days, labels = [], []
    for _ in range(n_days):
        rows = np.concatenate([recurring + 0.2 * rng.standard_normal(recurring.shape), entities(n_once)])
        order = rng.permutation(day_rows)
        days.append(rows[order].astype(np.float32))
        labels.append((order >= len(recurring)).astype(np.int64))
    return LabelledRows("daily snapshots", np.concatenate(days), np.concatenate(labels), day_rows)


def load_npz(path: str | Path) -> LabelledRows:
    """Read a labelled set: an ``.npz`` file with ``X`` (n_rows, n_features) and ``y`` (n_rows,) of 0 and 1.

    Raises
    ------
    InvalidDataError
        The file cannot be read, a key is missing, or there are not two classes.
    """
    with reading(path), np.load(path) as arrays:
        missing = [key for key in ("X", "y") if key not in arrays]
        if missing:
            raise InvalidDataError(f"{path} holds {sorted(arrays)}, not {missing}. Save it with keys X and y.")
        X, y = arrays["X"], arrays["y"].ravel()
    if len(X) != len(y) or X.ndim != 2:
        raise InvalidDataError(f"{path}: X has shape {X.shape} and y {y.shape}. Give one label for each row.")
    if not np.array_equal(np.unique(y), [0, 1]):
        raise InvalidDataError(f"{path}: y holds {np.unique(y)[:5]}. It must hold 0 (normal) and 1 (anomaly).")
    return LabelledRows(Path(path).stem, X, y.astype(np.int64), 10_000)


def load_triples(folder: str | Path) -> LabelledRows:
    """Read a knowledge graph and corrupt 5 % of its triples; an embedding tells how well a triple fits.

    Entities are embedded by a truncated SVD of the normalised adjacency matrix; the features of a triple
    are the absolute differences of its two entities' embeddings. All seeds are fixed.

    Parameters
    ----------
    folder : path
        Holds ``train.txt``, ``valid.txt``, ``test.txt``: a line is head, relation, tail, tab-separated.
        ``entities.dict`` (number, entity) fixes the order of entities; without it they are sorted.

    Raises
    ------
    InvalidDataError
        A file is missing, or a line is not as it has to be; file and line are named.
    """
    from scipy import sparse
    from sklearn.utils.extmath import randomized_svd

    folder = Path(folder)
    triples = [
        line for split in ("train", "valid", "test") for line in _lines(folder / f"{split}.txt", "head, relation, tail")
    ]
    if not triples:
        raise InvalidDataError(f"{folder} holds no triples. Give one a line in train.txt: head, relation, tail.")
    listed = folder / "entities.dict"
    if listed.exists():
        names = [line.fields[1] for line in _lines(listed, "number, entity")]
    else:
        names = sorted({name for line in triples for name in (line.fields[0], line.fields[2])})
    number = {name: i for i, name in enumerate(names)}
    for line in triples:
        for name in (line.fields[0], line.fields[2]):
            if name not in number:
                raise InvalidDataError(f"{line.place}: {listed} does not list the entity {name!r}. Add it there.")
    heads = np.array([number[line.fields[0]] for line in triples])
    tails = np.array([number[line.fields[2]] for line in triples])
    n = len(names)
    links = sparse.coo_matrix((np.ones(len(heads)), (heads, tails)), shape=(n, n)).tocsr()
    adjacency = links + links.T + sparse.identity(n)  # a link that is there twice counts twice
    degree = sparse.diags_array(1 / np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel()))
    U, S, _ = randomized_svd(degree @ adjacency @ degree, n_components=_EMBEDDING_FEATURES, n_iter=7, random_state=0)
    embedding = U * np.sqrt(S)
    embedding /= np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    embedding = embedding.astype(np.float32)
    rng = np.random.default_rng(0)
    y = (rng.random(len(heads)) < 0.05).astype(np.int64)
    tails[y == 1] = rng.integers(0, n, int(y.sum()))
    return LabelledRows(f"triples of {folder.name}", np.abs(embedding[heads] - embedding[tails]), y, 10_000)


class _Line(NamedTuple):
    """The fields of a line, and where it stands."""

    fields: list[str]
    place: str


def _lines(path: Path, fields: str) -> Iterator[_Line]:
    if not path.exists():
        raise InvalidDataError(f"{path} does not exist. The folder must hold train.txt, valid.txt and test.txt.")
    with reading(path):
        text = path.read_text(encoding="utf-8")  # ends of lines of other systems are read as "\n"
    n_fields = fields.count(",") + 1
    # Not splitlines: that also splits names at rarer characters.
    for number, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        line = _Line(content.split("\t"), f"{path}, line {number}")
        if len(line.fields) != n_fields:
            raise InvalidDataError(f"{line.place} has {len(line.fields)} fields. Give {fields}, with tabs between.")
        yield line
