"""Scores to files that outlive the process, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError, SourceNotFoundError
from streamfit.scores.score_columns import ScoreColumns, opened_store
from streamfit.store.format import local_folder

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import dask.array as da

    from streamfit.feature_store import FeatureStore

__all__ = ["SUFFIXES", "check_target", "open", "save"]

SUFFIXES = (".zarr", ".parquet")
"""What is written, by the end of the path."""


def save(
    scores: Any,
    path: str | PathLike[str],
    *,
    ids: Any = None,
    store: FeatureStore | str | PathLike[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write scores, flags or anything else with a number a row to a file, in bounded memory.

    Lazy scores are computed a few blocks at a time by the current engine, each block once. Values are Identical when
    they are read, NaN and infinities included.

    Parameters
    ----------
    scores : dask.array.Array or array-like of shape (n_rows,), or mapping from str to these
        One array, which is called ``score``, or several of equal length by name; types are kept. Several lazy ones are
        cut as the first of them is.
    path : path-like
        Its end says what is written:

        - ``.zarr``: a store, as `streamfit.ingest` writes them, whose features are the scores: chunks of about 8 MiB of
          whole blocks, each with a checksum. `streamfit.open_store` reads it, and any reader of Zarr. A call that was
          stopped or killed leaves an unfinished store, and the same call goes on: where dask knows the work by the same
          name, from the last block that is stored, else all is computed again and compared.
        - ``.parquet``: one file, a row group a block, with the columns ``row``, ``id`` (where there are ids) and the
          scores. It appears when it is complete; a call that was stopped leaves what was there before.
    ids : dask.array.Array or array-like of shape (n_rows,), optional
        Integers, or texts in a ``.parquet`` file; by default those of `store`, if it has any.
    store : FeatureStore or path-like, optional
        The rows that were scored, for their ids.
    overwrite : bool, default=False
        Replace scores that are there. An old ``.zarr`` is gone from the start of the call, an old ``.parquet`` file
        stays until its end.

    Raises
    ------
    InvalidParameterError
        `path` ends in something else, or a name is ``row`` or ``id``.
    InvalidDataError
        There are no scores, they are no vectors of numbers, or lengths differ. Of several types in one ``.zarr``: the
        type that holds them all does not hold a value.
    StoreExistsError
        Something is there already; or `path` overlaps with a store that is read for the scores.
    StoreLockedError
        Another process is writing there.
    StoreWriteError
        The disk is full, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import dask.array as da
    >>> folder = tempfile.TemporaryDirectory()
    >>> save(da.arange(5, chunks=2, dtype=float), f"{folder.name}/scores.zarr", ids=[7, 5, 3, 2, 1])
    >>> open(f"{folder.name}/scores.zarr").compute()
    array([0., 1., 2., 3., 4.])
    >>> save({"score": [0.5, 2.0], "flag": [False, True]}, f"{folder.name}/both.parquet")
    >>> {name: values.compute().tolist() for name, values in open(f"{folder.name}/both.parquet").items()}
    {'score': [0.5, 2.0], 'flag': [False, True]}
    >>> folder.cleanup()
    """
    target = local_folder(path)
    check_target(target, overwrite=overwrite)
    columns = ScoreColumns.of(scores, ids=ids, store=opened_store(store))
    if target.suffix == ".zarr":
        from streamfit.scores.saved_zarr import write_zarr

        write_zarr(columns, target, overwrite=overwrite)
        return
    from streamfit.scores.saved_parquet import write_parquet

    write_parquet(columns, target)


def open(path: str | PathLike[str]) -> da.Array | dict[str, da.Array]:  # noqa: A001  # as scores.open, beside scores.save
    """Open scores that `save` wrote; nothing is read yet, and every read is compared with checksums.

    Parameters
    ----------
    path : path-like
        Of a ``.zarr`` store or a ``.parquet`` file of scores.

    Returns
    -------
    dask.array.Array of shape (n_rows,), or dict from str to these
        With the types and the blocks of the scores that were saved, those without rows left out: Identical. Many
        thousand blocks of unequal length come from a ``.zarr`` store by its chunks. By name where they were saved so.

    Raises
    ------
    SourceNotFoundError
        Nothing is there.
    InvalidParameterError
        `path` ends in something else.
    InvalidDataError
        It was not written by `save`.
    StoreIncompleteError
        The call that wrote it was stopped.
    StoreCorruptError
        It is damaged: at once, or when the damaged part is read.
    """
    source = local_folder(path)
    _check_suffix(source)
    if not source.exists():
        raise SourceNotFoundError(f"There are no scores at {source}. Check the path.")
    if source.suffix == ".zarr":
        from streamfit.scores.saved_zarr import open_zarr

        return open_zarr(source)
    from streamfit.scores.saved_parquet import open_parquet

    return open_parquet(source)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a path where scores cannot be written, before they are computed.

    Raises
    ------
    InvalidParameterError
        It ends in something else.
    StoreExistsError
        Something is there.
    """
    _check_suffix(path)
    if path.suffix == ".zarr":
        from streamfit.scores.saved_zarr import check_zarr_target

        check_zarr_target(path, overwrite=overwrite)
        return
    from streamfit.scores.saved_parquet import check_parquet_target

    check_parquet_target(path, overwrite=overwrite)


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise InvalidParameterError(f"Scores are kept as {' or '.join(SUFFIXES)}, got {path.name!r}. Choose one.")
