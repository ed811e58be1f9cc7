"""Top rows as a table, and as csv and JSON text."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pandas as pd
from scipy.sparse import issparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["described", "json_text", "table"]


def described(*, rows: Any, ids: Any, scores: Any, labels: Any) -> dict[str, Any]:
    """Give what is known of rows besides features, by name: ``row``, ``id``, ``score``, ``label``.

    Several labels a row are ``label_0``, ``label_1``, ….
    """
    columns = {"row": rows}
    if ids is not None:
        columns["id"] = ids
    columns["score"] = scores
    if labels is not None and labels.ndim == 1:
        columns["label"] = labels
    elif labels is not None:
        columns.update({f"label_{place}": labels[:, place] for place in range(labels.shape[1])})
    return columns


def table(columns: Mapping[str, Any], features: Any, names: Sequence[str] | None) -> pd.DataFrame:
    """Give columns, and features behind them.

    Parameters
    ----------
    columns : mapping of str to ndarray, (n,)
        As `described` gives them.
    features : ndarray or csr_array, (n, n_features), or None
        A feature that is called like one of `columns` gets ``feature_`` before its name.
    names : sequence of str or None
        Names of the features.
    """
    if features is None:
        return pd.DataFrame(columns)
    distinct = _distinct(_names(features, names), taken=list(columns))
    if issparse(features):
        sparse: Any = pd.DataFrame.sparse
        rows: pd.DataFrame = sparse.from_spmatrix(features, columns=distinct)
    else:
        rows = pd.DataFrame(features, columns=distinct)
    frame: pd.DataFrame = pd.concat([pd.DataFrame(columns), rows], axis=1)
    return frame


def json_text(columns: Mapping[str, Any], features: Any, names: Sequence[str] | None) -> str:
    """Give a list with an object a row, each on a line of its own; NaN and infinities are null. See `table`."""
    plain = [values.tolist() for values in columns.values()]
    records: list[dict[str, Any]] = [dict(zip(columns, values, strict=True)) for values in zip(*plain, strict=True)]
    if features is not None:
        called = _names(features, names)
        for place, record in enumerate(records):
            record["features"] = _feature_values(features, place, called)
    lines = ",\n".join(json.dumps(_plain(record), allow_nan=False) for record in records)
    return f"[\n{lines}\n]\n"


def _names(features: Any, names: Sequence[str] | None) -> list[str]:
    return [f"x{place}" for place in range(features.shape[1])] if names is None else list(names)


def _distinct(names: Sequence[str], *, taken: Sequence[str]) -> list[str]:
    used, distinct = {*names, *taken}, []
    for name in names:
        chosen = name
        if name in taken:
            while chosen in used:
                chosen = f"feature_{chosen}"
            used.add(chosen)
        distinct.append(chosen)
    return distinct


def _feature_values(features: Any, place: int, names: Sequence[str]) -> dict[str, Any]:
    """Give the features of a row by name; of sparse rows those that are stored."""
    if not issparse(features):
        return dict(zip(names, features[place].tolist(), strict=True))
    stored = slice(features.indptr[place], features.indptr[place + 1])
    return {
        names[column]: value
        for column, value in zip(features.indices[stored].tolist(), features.data[stored].tolist(), strict=True)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return None if isinstance(value, float) and not math.isfinite(value) else value
