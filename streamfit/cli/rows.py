"""What ``ingest``, ``append`` and ``repair`` have in common: the options for rows, and what is told of the store."""

# No `from __future__ import annotations`: typer reads the options at run time.

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from streamfit.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from streamfit.feature_store import FeatureStore

__all__ = [
    "Categories",
    "Columns",
    "Dtype",
    "Ids",
    "Labels",
    "Rows",
    "Unknown",
    "Weights",
    "as_array",
    "as_encodings",
    "as_labels",
    "as_names",
    "store_facts",
    "store_line",
]

Rows = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A csv, parquet or npy file, or a pattern such as 'part-*.parquet'.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--y",
        metavar="COLUMN|FILE",
        help="Labels: a column of SOURCE, or a .npy file; repeated, columns of several labels a row.",
    ),
]
Weights = Annotated[
    str | None, typer.Option(metavar="COLUMN|FILE", help="Weights: a column of SOURCE, or a .npy file.")
]
Ids = Annotated[
    str | None, typer.Option(metavar="COLUMN|FILE", help="Ids of the rows: a column of SOURCE, or a .npy file.")
]
Columns = Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Features, comma-separated; may be repeated.")]

Categories = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]HOW",
        help="Encode text: 'codes' or 'onehot' for all such columns, or COLUMN=HOW, comma-separated; may be repeated.",
    ),
]
Unknown = Annotated[
    Literal["error", "ignore"],
    typer.Option(help="Values that are no category, missing ones included: refuse them, or code -1 (one-hot: zeros)."),
]
Dtype = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Type to store, such as float32.", show_default="that of the values")
]


def as_names(columns: list[str] | None) -> list[str] | None:
    """Split what is comma-separated."""
    return [name.strip() for text in columns or () for name in text.split(",")] or None


def as_encodings(categorical: list[str] | None, unknown: Literal["error", "ignore"]) -> Any:
    """Read ``HOW``, or ``COLUMN=HOW`` some times, as ``categorical=`` takes it."""
    from streamfit.options import Categorical

    given = as_names(categorical) or []
    if not given:
        if unknown != "error":
            raise InvalidParameterError("unknown is given, and no categorical that it could be for. Give both.")
        return None
    if len(given) == 1 and "=" not in given[0]:
        return Categorical(cast("Any", given[0]), unknown)
    encodings = {}
    for text in given:
        column, mark, how = text.rpartition("=")
        if not mark:
            raise InvalidParameterError(
                f"categorical must be 'codes' or 'onehot' alone, or COLUMN=codes and the like, got {text!r}."
            )
        encodings[column] = Categorical(cast("Any", how), unknown)
    return encodings


def as_array(text: str | None) -> Any:
    """Open a ``.npy`` file; the name of a column stays as it is."""
    if text is None or not text.endswith(".npy"):
        return text
    import numpy as np

    try:
        return np.load(text, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise InvalidDataError(f"{text} is not an array that can be read without unpickling: {error}") from error


def as_labels(texts: list[str] | None) -> Any:
    """Open the ``.npy`` file of labels, or give the column, or columns of several labels a row."""
    if not texts:
        return None
    if len(texts) == 1:
        return as_array(texts[0])
    if len(set(texts)) < len(texts) or any(text.endswith(".npy") for text in texts):
        raise InvalidParameterError(
            f"--y is given {len(texts)} times, {', '.join(texts)}. Name different columns, or one .npy file of shape "
            "(n_rows, n_outputs)."
        )
    return texts


def store_facts(store: "FeatureStore") -> dict[str, Any]:
    """Give what a program wants to know of a store that was written."""
    return {
        "path": store.path,
        "n_rows": store.n_rows,
        "n_features": store.n_features,
        "dtype": str(store.dtype),
        "n_chunks": store.layout.n_chunks,
        "decoded_nbytes": store.layout.nbytes,
        "classes": None if store.classes is None else len(store.classes),
        "n_outputs": store.n_outputs,
    }


def store_line(store: "FeatureStore") -> str:
    """Give what a reader wants to know of it."""
    from dask.utils import format_bytes

    labels = "" if store.classes is None else f", {len(store.classes):,} classes"
    if store.n_outputs is not None:
        labels = f", {store.n_outputs} labels a row"
    return (
        f"{store.path}: {store.n_rows:,} rows x {store.n_features:,} features of {store.dtype} "
        f"({format_bytes(store.layout.nbytes)}){labels}"
    )
