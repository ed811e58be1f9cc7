"""Add rows to a store, as one transaction."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from streamfit.errors import AlreadyStoredWarning, InvalidDataError, StoreExistsError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.options import check_choice
from streamfit.plan.budget import parse_memory_limit
from streamfit.sources.located import naming_files
from streamfit.sources.matching import check_categories, column_order, listed
from streamfit.sources.opening import check_budget, open_rows, whole_store, write_rows
from streamfit.sources.typed import in_dtype
from streamfit.store.destination import sweep_journal
from streamfit.store.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from streamfit.sources.opening import OnProgress
    from streamfit.sources.source import RowBlock, Source

__all__ = ["IfAppended", "append"]

IfAppended = Literal["resume", "again", "error"]

_SIDES = ("y", "sample_weight", "ids")


def append(
    source: Any,
    store: FeatureStore | str | PathLike[str],
    *,
    y: Any = None,
    ids: Any = None,
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    dtype: Any = None,
    if_exists: IfAppended = "resume",
    memory_limit: str | float | None = None,
    on_progress: OnProgress | None = None,
) -> FeatureStore:
    """Add the rows of a source behind those of a store: all of them, or none.

    The rows count once the last one is written. Until then, and where the call fails or is killed, the store is
    as it was; the same call then goes on where it stopped. Those who have the store open go on reading the rows
    that they know.

    Parameters
    ----------
    source : object
        The rows, ``(n_rows, n_features)``: whatever `streamfit.ingest` takes.
    store : FeatureStore or path-like
        The store, complete and no view.
    y, ids, sample_weight : str or array-like of shape (n_rows,), optional
        As for `streamfit.ingest`. The rows must bring what the rows of the store have, as many labels of each, no less
        and no more; `streamfit.attach` gives a store what it lacks.
    columns : sequence of str, optional
        Columns of a table that are features; by default all that are not named otherwise.
    dtype : str or numpy.dtype, optional
        As for `streamfit.ingest`: say the store's type where the rows have a wider one.
    if_exists : {"resume", "again", "error"}
        What to do with a source whose rows the store has already, from ``ingest`` or an earlier ``append``:
        leave the store as it is, with a warning; add them once more; or refuse. Sources that are not known again
        (dask collections, Zarr arrays, batches) are always added.
    memory_limit : int or str, optional
        Refuse to begin where more bytes would be needed; a text such as ``"2GB"`` is understood.
    on_progress : callable, optional
        As for `streamfit.ingest`: the rows of the source, not those of the store.

    Returns
    -------
    FeatureStore
        The store with the new rows.

    Raises
    ------
    InvalidDataError
        The rows do not fit the store: a column is missing or too many, the type holds values that the store's
        does not, labels, weights or ids are missing or too many; or a value cannot be used.
    SourceNotFoundError
        There is nothing at the path of the source.
    InvalidParameterError
        The store is a view, a named column does not exist, or a parameter is out of its range.
    StoreExistsError
        The store has these rows already and ``if_exists="error"``; or the source lies in the store.
    StoreNotFoundError, StoreIncompleteError
        There is no complete store.
    StoreLockedError
        Another writer holds the store.
    StoreWriteError
        The disk is full, or the folder cannot be written; the same call goes on.
    StoreCorruptError
        The rows behind the last whole chunk of the store are damaged, or a source that is a store is.
    BudgetError
        Not even one chunk and one block of the source fit `memory_limit`.

    Notes
    -----
    Columns of categories are encoded as those of the store are (``store.categories``): give them as the first source
    had them. Rows without names of columns are taken as encoded.

    Columns are matched by name where both the source and the store have names, whatever their order; a column
    that the store lacks is refused rather than dropped: leave it out with `columns`. Where one of them has no
    names, columns are matched by position.

    A file or an array is known by its content, whatever its name: two equal ones are the same source. Say
    ``if_exists="again"`` where equal rows are to be added. A file that was corrected since is another one, and its
    rows are added to those of before.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd, streamfit as sf
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pd.DataFrame({"height": [1.5, 2.5], "width": [3.0, 4.0]})
    >>> before = sf.ingest(table, folder.name + "/a.zarr")
    >>> more = pd.DataFrame({"width": [5.0], "height": [0.5]})
    >>> store = append(more, before)
    >>> store.X.compute().tolist(), before.n_rows
    ([[1.5, 3.0], [2.5, 4.0], [0.5, 5.0]], 2)
    >>> append(more, store, if_exists="again").n_rows
    4
    >>> append(more.assign(depth=1.0), store)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: The source has the column 'depth', which the store ... has not. ...
    >>> folder.cleanup()
    """
    check_choice("if_exists", if_exists, get_args(IfAppended))
    limit = parse_memory_limit(memory_limit)
    whole = whole_store(store)
    folder = Path(whole.path)
    rows = open_rows(
        source,
        folder,
        y=y,
        ids=ids,
        sample_weight=sample_weight,
        columns=columns,
        categorical=None,
        encodings=whole.categories,
        dtype=dtype,
        memory_limit=limit,
    )
    # Opening may have taken minutes: what matters is what the store holds by now.
    present = whole_store(store)
    fitted = _fitted(rows, present)
    if if_exists != "again" and _has(present, rows):
        return _left_alone(present, rows, if_exists)
    ahead = check_budget(
        fitted,
        chunk_rows=present.layout.chunk_rows,
        itemsize=present.dtype.itemsize,
        compression=present.manifest.compression,
        memory_limit=limit,
    )
    writer = StoreWriter.append_to(
        folder,
        source=rows.description,
        continues=rows.recognisable and rows.seekable,
        n_rows_expected=rows.n_rows,
    )
    with writer:
        if writer.base.digest != present.manifest.digest:  # another process was quicker
            present = open_store(folder, verify=present.ref.verify)
            fitted = _fitted(rows, present)
            if if_exists != "again" and _has(present, rows):
                writer.close(complete=False)
                return _left_alone(present, rows, if_exists)
        with naming_files(rows):
            write_rows(writer, fitted, ahead=ahead, on_progress=on_progress)
    return open_store(folder, verify=present.ref.verify)


def _left_alone(store: FeatureStore, rows: Source, if_exists: IfAppended) -> FeatureStore:
    sweep_journal(Path(store.path))
    names = [str(file["name"]) for file in rows.description.get("files", ())]
    message = f"The store {store.path} has the rows of {listed(names) if names else 'this source'} already"
    if if_exists == "error":
        raise StoreExistsError(f'{message}. Say if_exists="again" to add them once more.')
    warnings.warn(
        f'{message} and is left as it is. Say if_exists="again" to add them once more.',
        AlreadyStoredWarning,
        stacklevel=3,
    )
    return store


def _has(store: FeatureStore, rows: Source) -> bool:
    """Whether the store has these rows, also of files that have other names by now.

    Raises
    ------
    StoreExistsError
        It has some of the files.
    """
    if not rows.recognisable:
        return False
    known = [store.manifest.source, *(part["source"] for part in store.manifest.appended)]
    if rows.description in known:
        return True
    stored = {(file["nbytes"], file["hash"]) for source in known for file in source.get("files", ())}
    files = rows.description.get("files", ())
    names = [str(file["name"]) for file in files if (file["nbytes"], file["hash"]) in stored]
    if names and len(names) < len(files):
        raise StoreExistsError(
            f"The store {store.path} has the rows of {listed(names)} already, and not those of the other "
            f'{len(files) - len(names)} files. Give the others alone, or say if_exists="again" to add all of them.'
        )
    return bool(names)


# -- the rows as the store has them --------------------------------------------------------------------


def _fitted(rows: Source, store: FeatureStore) -> Source:
    """Bring the columns into the store's order, and refuse what the store cannot hold."""
    check_categories(rows, store)
    order = column_order(rows, store)
    if not np.can_cast(rows.dtype, store.dtype, "safe"):
        raise InvalidDataError(
            f"The source has values of {rows.dtype}, and the store {store.path} holds {store.dtype}, which does not "
            f'hold every such value. Say dtype="{store.dtype}", which rounds floats and refuses any other '
            "change of a value, or begin a store with a wider dtype."
        )
    rows = in_dtype(rows, store.dtype)
    wanted = {name for name in _SIDES if name in store.manifest.arrays}

    def blocks(start: int) -> Iterator[RowBlock]:
        for block in rows.blocks(start):
            if block.n_rows:
                _check_sides({name for name in _SIDES if getattr(block, name) is not None}, wanted, store)
            yield block if order is None else dataclasses.replace(block, X=block.X[:, order])

    copied = 1 if order is None else 2
    return dataclasses.replace(
        rows,
        blocks=blocks,
        block_nbytes=copied * rows.block_nbytes,
        outputs_nbytes=store.layout.outputs_nbytes,
    )


def _check_sides(given: set[str], wanted: set[str], store: FeatureStore) -> None:
    if missing := sorted(wanted - given):
        raise InvalidDataError(
            f"Each row of the store {store.path} has {_joined(missing)}, and the source gives none. Give "
            f"{_joined(f'{name}=' for name in missing)}."
        )
    if surplus := sorted(given - wanted):
        raise InvalidDataError(
            f"The source gives {_joined(surplus)}, and the store {store.path} has none. Leave it out, or give it to "
            "the store first with streamfit.attach."
        )


def _joined(names: Iterable[str]) -> str:
    return " and ".join(names)
