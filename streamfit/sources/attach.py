"""Give the rows of a store labels, weights or ids that were not there when it was written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.options import check_choice
from streamfit.sources.opening import whole_store
from streamfit.sources.side_columns import SideColumn
from streamfit.store.attach import IfAttached, attach_columns

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["attach"]


def attach(
    store: FeatureStore | str | PathLike[str],
    *,
    y: Any = None,
    sample_weight: Any = None,
    ids: Any = None,
    if_exists: IfAttached = "resume",
) -> FeatureStore:
    """Give each row of a store a label, a weight or an id, without writing the features again.

    All that is given counts at once, when the last value is written; until then, and where the call fails, the
    store is as it was. Those who have the store open go on reading what they know.

    Parameters
    ----------
    store : FeatureStore or path-like
        The store, complete and no view.
    y, sample_weight, ids : array-like or dask collection of shape (n_rows,), optional
        Labels (numbers, booleans or texts; several a row as numbers of shape ``(n_rows, n_outputs)``), weights, and
        signed integer ids, in the order of the rows; at least one of them. A dask collection is computed one partition
        at a time. For a ``.npy`` file give ``numpy.load(file, mmap_mode="r")``.
    if_exists : {"resume", "overwrite", "error"}
        What to do with what the store has already: leave it where the values are the same and refuse others, replace
        it, or refuse it.

    Returns
    -------
    FeatureStore
        The store with what was attached.

    Raises
    ------
    InvalidDataError
        There is not one value for each row, a value cannot be used, or the index of a pandas Series is not
        0, 1, 2, …: values are matched by position.
    InvalidParameterError
        Nothing is given, the store is a view, or a parameter is out of its range.
    StoreExistsError
        The store has other values already, or has any and ``if_exists="error"``.
    StoreNotFoundError, StoreIncompleteError
        There is no complete store.
    StoreLockedError
        Another writer holds the store.
    StoreWriteError
        The disk is full, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile, numpy as np, streamfit as sf
    >>> folder = tempfile.TemporaryDirectory()
    >>> before = sf.ingest(np.arange(6.0).reshape(3, 2), folder.name + "/a.zarr")
    >>> store = attach(before, y=["ham", "spam", "ham"])
    >>> store.classes, store.class_counts, before.classes
    (array(['ham', 'spam'], dtype='<U4'), array([2, 1]), None)
    >>> attach(store, sample_weight=[1.0, 2.0])
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: sample_weight has 2 values and the store has 3 rows. Give one value for each row.
    >>> attach(store, y=[0, 1, 0], if_exists="overwrite").classes
    array([0, 1])
    >>> folder.cleanup()
    """
    check_choice("if_exists", if_exists, get_args(IfAttached))
    sides = {"y": y, "sample_weight": sample_weight, "ids": ids}
    given = {name: values for name, values in sides.items() if values is not None}
    if not given:
        raise InvalidParameterError("Nothing is given to attach. Give y=, sample_weight= or ids=.")
    for name, values in given.items():
        if isinstance(values, (str, os.PathLike)):
            raise InvalidParameterError(
                f"{name}={os.fspath(values)!r} is no array. Give values; those of a .npy file with "
                'numpy.load(file, mmap_mode="r").'
            )
        _refuse_other_index(name, values)
    present = whole_store(store)
    columns = {name: SideColumn(name, values) for name, values in given.items()}
    for column in columns.values():
        if column.n_rows not in (None, present.n_rows):
            raise InvalidDataError(
                f"{column.name} has {column.n_rows} values and the store has {present.n_rows} rows. "
                "Give one value for each row."
            )
    pieces = {name: column.pieces() for name, column in columns.items()}
    attach_columns(present.path, pieces, if_exists=if_exists)
    return open_store(present.path, verify=present.ref.verify)


def _refuse_other_index(name: str, values: Any) -> None:
    """Refuse a Series that is in another order than its index says, or is a part of another one."""
    is_series = type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "index")
    if is_series and not np.array_equal(values.index, np.arange(len(values))):
        raise InvalidDataError(
            f"The index of {name} is not 0, 1, 2, …, and values are matched to the rows by position. Give "
            f"{name}.to_numpy() where the order is that of the rows, or {name}.reindex(store.ids.compute()).to_numpy() "
            "where the index has the ids of the store."
        )
