"""Top rows as a table, and as csv and JSON text."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamfit.scores.top import TopK

__all__ = ["csv_text", "json_text", "table"]


def table(top: TopK, *, features: bool) -> pd.DataFrame:
    """Give what is known of each row: ``row``, ``id``, ``score``, ``label``, features.

    Parameters
    ----------
    top : TopK
        Computed.
    features : bool
        Whether features are among the columns. One that is called like a column before them gets ``feature_`` before
        its name.
    """
    columns = _described(top)
    if top.features is None or not features:
        return pd.DataFrame(columns)
    names = _distinct(_names(top), taken=list(columns))
    if issparse(top.features):
        sparse: Any = pd.DataFrame.sparse
        rows: pd.DataFrame = sparse.from_spmatrix(top.features, columns=names)
    else:
        rows = pd.DataFrame(top.features, columns=names)
    frame: pd.DataFrame = pd.concat([pd.DataFrame(columns), rows], axis=1)
    return frame


def csv_text(top: TopK, *, features: bool) -> str:
    """Give the table below a heading; numbers read back are the same."""
    text: str = table(top, features=features).to_csv(index=False, lineterminator="\n", na_rep="nan")
    return text


def json_text(top: TopK, *, features: bool) -> str:
    """Give a list with an object a row, each on a line of its own; NaN and infinities are null."""
    columns = {name: values.tolist() for name, values in _described(top).items()}
    records: list[dict[str, Any]] = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    if top.features is not None and features:
        names = _names(top)
        for place, record in enumerate(records):
            record["features"] = _feature_values(top.features, place, names)
    lines = ",\n".join(json.dumps(_plain(record), allow_nan=False) for record in records)
    return f"[\n{lines}\n]\n"


def _described(top: TopK) -> dict[str, Any]:
    columns = {"row": top.rows}
    if top.ids is not None:
        columns["id"] = top.ids
    columns["score"] = top.scores
    if top.labels is not None:
        labels = top.labels if top.labels.ndim == 2 else top.labels[:, np.newaxis]
        for place in range(labels.shape[1]):
            columns["label" if labels.shape[1] == 1 else f"label_{place}"] = labels[:, place]
    return columns


def _names(top: TopK) -> list[str]:
    return list(top.feature_names or (f"x{place}" for place in range(top.features.shape[1])))


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
