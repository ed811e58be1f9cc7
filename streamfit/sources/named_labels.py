"""Labels that are given as names of columns, told from labels that are texts, one a row."""

from __future__ import annotations

from numbers import Integral
from os import PathLike
from typing import Any

__all__ = ["named_columns"]


def named_columns(y: Any, source: Any) -> str | tuple[str, ...] | None:
    """Give the names of columns where labels are given by a list of these.

    Parameters
    ----------
    y : object
        What the caller gave for labels.
    source : object
        What the caller gave for rows. The columns of a table in memory are known; of files, any list of different
        texts names columns, since labels of many rows repeat.

    Returns
    -------
    str, tuple of str or None
        One name is that of one label a row. None where `y` is no list of names.

    Examples
    --------
    >>> named_columns(["height", "width"], "rows.csv"), named_columns(["height"], "rows.csv")
    (('height', 'width'), 'height')
    >>> print(named_columns(["ham", "spam"], [[1.0], [2.0]]), named_columns(["ham", "ham"], "rows.csv"))
    None None
    """
    if isinstance(y, list | tuple):
        names = list(y)
    elif type(y).__name__ in {"Index", "ndarray"} and y.ndim == 1 and len(y) <= len(_columns_of(source)):
        names = y.tolist()
    else:
        return None
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    if not _is_of_files(source) and not _are_meant_as_columns(names, source):
        return None
    return names[0] if len(names) == 1 else tuple(names)


def _are_meant_as_columns(names: list[str], source: Any) -> bool:
    columns = set(_columns_of(source))
    if columns.issuperset(names):
        return True
    # A misspelt name is told as such, and not as too few labels.
    n_rows = next(iter(getattr(source, "shape", ())), None)
    if isinstance(n_rows, Integral):
        return bool(columns) and len(names) != n_rows
    return not columns.isdisjoint(names)


def _is_of_files(source: Any) -> bool:
    paths = source if isinstance(source, list | tuple) else [source]
    # One array has no named columns: there a list is of labels.
    return all(isinstance(path, str | PathLike) and not str(path).endswith(".npy") for path in paths)


def _columns_of(source: Any) -> list[Any]:
    """Give the labels of the columns of a table in memory, or of one that is described; none of anything else."""
    if hasattr(source, "collect_schema"):  # of polars, whose own `columns` warns of the cost where it is lazy
        names = source.collect_schema().names()
    elif hasattr(source, "column_names"):  # of Arrow, whose `columns` are the values
        names = source.column_names
    elif hasattr(source, "schema"):
        names = getattr(source.schema, "names", None)
    elif hasattr(source, "columns"):
        names = source.columns
    else:
        names = getattr(getattr(source, "dtype", None), "names", None)  # records
    return [] if names is None or callable(names) else list(names)
