"""Tables of pandas, in memory or as the partitions of a lazy one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from streamfit.sources.fingerprint import array_hash
from streamfit.sources.source import RowBlock, Source, block_rows
from streamfit.sources.tables import check_no_gaps, common_dtype, refuse_column, select_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from streamfit.sources.source import Names
    from streamfit.sources.tables import TableColumns

__all__ = ["column_dtype", "frame_block", "frame_source"]


def column_dtype(name: Any, dtype: Any, *, has_gaps: bool) -> np.dtype[Any]:
    """Give the numpy type of a feature column; whole numbers with gaps become float64.

    Raises
    ------
    InvalidDataError
        The column does not hold numbers.
    """
    numpy_dtype = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", None)
    if numpy_dtype is None or numpy_dtype.kind not in "biuf" or isinstance(dtype, pd.CategoricalDtype):
        raise refuse_column(name, dtype)
    return np.dtype(np.float64) if has_gaps and numpy_dtype.kind != "f" else np.dtype(numpy_dtype)


def frame_block(frame: pd.DataFrame, columns: TableColumns, dtype: np.dtype[Any], *, start: int) -> RowBlock:
    """Turn rows of a table into a block.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows.
    columns : TableColumns
        What its columns are used for.
    dtype : numpy.dtype
        Type of the features.
    start : int
        Global number of the first row, for messages.
    """
    X = np.empty((len(frame), len(columns.features)), dtype=dtype)
    for place, name in enumerate(columns.features):
        X[:, place] = _numbers(frame[name], dtype, start=start)
    return RowBlock(X, **{role: np.asarray(frame[name]) for role, name in columns.roles.items()})


def _numbers(column: pd.Series[Any], dtype: np.dtype[Any], *, start: int) -> NDArray[Any]:
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    if dtype.kind != "f":
        check_no_gaps(column.isna().to_numpy(), start=start, name=column.name)
        return column.to_numpy(dtype=dtype)
    return column.to_numpy(dtype=dtype, na_value=np.nan)


def frame_source(frame: pd.DataFrame, names: Names) -> Source:
    """Read a pandas DataFrame; the columns that are used are hashed."""
    columns = select_columns(list(frame.columns), names)
    dtype = common_dtype(
        [column_dtype(name, frame[name].dtype, has_gaps=frame[name].hasnans) for name in columns.features]
    )
    step = block_rows(len(columns.features) * dtype.itemsize)

    def blocks(start: int) -> Iterator[RowBlock]:
        for row in range(start, len(frame), step):
            yield frame_block(frame.iloc[row : row + step], columns, dtype, start=row)

    return Source(
        blocks=blocks,
        n_features=len(columns.features),
        dtype=dtype,
        description={
            "kind": "dataframe",
            "columns": columns.describe(),
            "hashes": [array_hash(np.asarray(frame[name])) for name in columns.all],
        },
        recognisable=True,
        seekable=True,
        n_rows=len(frame),
        feature_names=columns.feature_names,
    )
