"""Write a source to a store, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from streamfit.errors import StoreNotFoundError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.options import CategoricalChoice, check_choice, check_count
from streamfit.plan.budget import parse_memory_limit
from streamfit.plan.layout import chunk_rows_for, rows_of_a_chunk, sparse_chunk_rows_for
from streamfit.sources.located import naming_files
from streamfit.sources.opening import check_budget, open_rows, write_rows
from streamfit.store.compression import has_compression
from streamfit.store.destination import IfExists
from streamfit.store.format import Compression, local_folder
from streamfit.store.manifest import NonFinite, load_manifest
from streamfit.store.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from pathlib import Path

    from streamfit.sources.opening import OnProgress
    from streamfit.sources.source import Source

__all__ = ["ingest"]


def ingest(
    source: Any,
    path: str | PathLike[str],
    *,
    y: Any = None,
    ids: Any = None,
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    categorical: CategoricalChoice = None,
    dtype: Any = None,
    chunk_rows: int | None = None,
    compression: Compression = "auto",
    nonfinite: NonFinite = "error",
    if_exists: IfExists = "resume",
    memory_limit: str | float | None = None,
    on_progress: OnProgress | None = None,
) -> FeatureStore:
    """Write a feature matrix to a store, in bounded memory, and open it.

    A run that was interrupted goes on when it is called again, at the first row that is not stored yet; called
    again for a complete store it does nothing. Arrays, tables, stores and files are known again by their names,
    sizes and hashes. Dask collections, Zarr arrays and batches are not: their rows are read again and compared
    with those that are stored, as are those of text tables, which have no way to a later row.

    Parameters
    ----------
    source : object
        The rows, ``(n_rows, n_features)``:

        - a numpy array, pandas DataFrame, dask array or dataframe, sparse matrix of scipy, or FeatureStore;
        - a polars DataFrame or LazyFrame, an Arrow Table, RecordBatch, RecordBatchReader or Dataset, or whatever gives
          its rows as an Arrow stream (``__arrow_c_stream__``), such as a DuckDB relation;
        - a Zarr array or group, an h5py Dataset or Group, a torch tensor or TensorDataset, and a Dataset or DataLoader
          of torch that keeps the order of its rows;
        - a path of a file or a pattern, or a list of paths of one kind: ``.npy``, ``.npz``, HDF5, ``.parquet``,
          ``.csv`` or ``.tsv`` (also compressed), svmlight; a folder of Parquet files; a Zarr array or group; a store.
          Of several arrays in a file or group ``X`` is taken, or else the only matrix; ``"file.h5::path/to/dataset"``
          and ``"file.npz::member"`` name another;
        - batches: an iterable of ``X``, ``(X, y)`` or ``(X, y, sample_weight)``, or a callable that gives
          one. Each may be an array, a sparse matrix, or a table.
    path : path-like
        Folder of the store.
    y, ids, sample_weight : str or array-like of shape (n_rows,), optional
        Labels (numbers, booleans or texts), signed integer ids, and weights: the name of a column, of
        a member of a ``.npz`` file, or of an array in the HDF5 or Zarr group that holds the matrix; or values
        matched by position. Several labels a row are an array ``(n_rows, n_outputs)`` of numbers or booleans, the
        name of one, a table, or a list of names of columns.
    columns : sequence of str, optional
        Columns of a table that are features, in this order; by default all that are not named otherwise.
    categorical : {"codes", "onehot"} or mapping from str to these or to Categorical, optional
        How columns of a table become numbers that hold categories: each column that holds no numbers, or those named,
        which may be numbers. `streamfit.Categorical` says which categories there are and what becomes of others. By
        default such columns are refused. Labels need none.
    dtype : str or numpy.dtype, optional
        Type of the stored values: ``"float32"``, ``"float64"``, or one of whole numbers. Floats are rounded to it; a
        value that it does not hold otherwise is refused with row and column. By default the type that the values have.
    chunk_rows : int, optional
        Rows of a chunk, at most 1 GiB; by default about 8 MiB.
    compression : {"auto", "none", "lz4", "zstd"}
        What chunks are compressed by. ``"auto"``: by lz4 where the first chunk shrinks by a fifth, and not at all
        elsewhere; a store that is gone on with keeps what it has. ``"lz4"`` and ``"zstd"`` (level 1) compress whatever
        it saves: of noise-like float32 a tenth, for three and five times the CPU of each read. Which of them takes
        less depends on the values, since only for lz4 bytes or bits are put together by their place before.
    nonfinite : {"error", "keep"}
        Refuse NaN and infinities, with row and column, or keep them.
    if_exists : {"resume", "overwrite", "error"}
        What to do with a store at `path`.
    memory_limit : int or str, optional
        Refuse to begin where more bytes would be needed; a text such as ``"2GB"`` is understood.
    on_progress : callable, optional
        Is called as ``on_progress(n_rows, n_rows_in_all)`` after each block, about 8 MiB, with the rows of the source
        that are done, those of a run that was stopped included; the second is None where it is not known. An
        exception from it stops the call, as any other would.

    Returns
    -------
    FeatureStore
        The complete store.

    Raises
    ------
    InvalidDataError
        The rows cannot be used as they are; row and column are named where one is to blame.
    SourceNotFoundError
        There is nothing at the path of the source.
    InvalidParameterError
        A named column does not exist, or a parameter is out of its range.
    StoreExistsError
        Something else is at `path`, the source changed, or `path` overlaps with the source.
    StoreLockedError
        Another writer holds the store.
    StoreWriteError
        The disk is full, or the folder cannot be written; the message says how many rows are kept.
    StoreCorruptError
        A source that is a store is damaged, or the manifest at `path` is.
    BudgetError
        Not even one chunk and one block of the source fit `memory_limit`.

    Notes
    -----
    Memory holds a chunk and two blocks of about 8 MiB: files are read in a thread, a block ahead of what is written,
    where that fits `memory_limit`. Larger are: a block or partition of a dask collection,
    a batch of an iterable, a ``.npz`` member in Fortran order (decompressed as a whole), labels and weights
    given as arrays, the compressed pages of a Parquet row group, and up to 256 MiB of HDF5 or Zarr chunks that hold
    many rows.

    Chunks that an HDF5 or Zarr array lacks are read as its fill value, as its own library reads them: writers leave
    out chunks of nothing else, and a lost one looks the same. A `FilledChunksWarning` counts them. Where the fill value
    is NaN, their rows are refused as all that are not finite.

    Numbers keep their type. A table gets the one type that holds all its columns; booleans become uint8 and
    float16 becomes float32.

    A file is known again by its name, size and a hash, which covers all of it up to 1 GiB and sixteen parts of
    64 KiB of a larger one. An edit in place that keeps the size of a larger file and misses these parts is not
    noticed: pass ``if_exists="overwrite"`` after such an edit.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = ingest(np.arange(6.0).reshape(3, 2), folder.name + "/a.zarr", y=["ham", "spam", "ham"])
    >>> store.shape, store.classes, store.class_counts
    ((3, 2), array(['ham', 'spam'], dtype='<U4'), array([2, 1]))
    >>> ingest(np.arange(6.0).reshape(3, 2), folder.name + "/b.zarr", y=[0, 1])
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: y has 2 rows and X has 3. Give one value for each row.
    >>> folder.cleanup()
    """
    check_choice("nonfinite", nonfinite, get_args(NonFinite))
    check_choice("if_exists", if_exists, get_args(IfExists))
    check_choice("compression", compression, get_args(Compression))
    if chunk_rows is not None:
        chunk_rows = check_count("chunk_rows", chunk_rows, least=1)
    limit = parse_memory_limit(memory_limit)
    folder = local_folder(path)
    rows = open_rows(
        source,
        folder,
        y=y,
        ids=ids,
        sample_weight=sample_weight,
        columns=columns,
        categorical=categorical,
        encodings=(),
        dtype=dtype,
        memory_limit=limit,
    )
    chunk_rows = chunk_rows or _default_chunk_rows(rows)
    if if_exists == "resume" and _is_same(folder, rows, chunk_rows, nonfinite, compression):
        return open_store(folder)
    ahead = check_budget(
        rows,
        chunk_rows=min(chunk_rows, rows.n_rows or chunk_rows),
        itemsize=rows.dtype.itemsize,
        compression=compression,
        memory_limit=limit,
    )
    writer = StoreWriter.create(
        folder,
        n_features=rows.n_features,
        dtype=rows.dtype,
        chunk_rows=chunk_rows,
        feature_names=rows.feature_names,
        nonfinite=nonfinite,
        source=rows.description,
        if_exists=if_exists,
        n_rows_expected=rows.n_rows,
        continues=rows.recognisable and rows.seekable,
        sparse=rows.sparse,
        categories=rows.categories,
        compression=compression,
    )
    with naming_files(rows):
        write_rows(writer, rows, ahead=ahead, on_progress=on_progress)
    return open_store(folder)


def _default_chunk_rows(rows: Source) -> int:
    # A chunk of labels is one of as many rows.
    most = rows_of_a_chunk(rows.outputs_nbytes)
    if rows.sparse:
        return min(most, sparse_chunk_rows_for(rows.mean_row_nnz or 0.0, rows.dtype.itemsize))
    return min(most, chunk_rows_for(rows.n_features, rows.dtype.itemsize))


def _is_same(folder: Path, rows: Source, chunk_rows: int, nonfinite: NonFinite, compression: Compression) -> bool:
    """Whether the rows are stored already and can be known without reading them."""
    if not rows.recognisable:
        return False
    try:
        stored = load_manifest(folder, allow_incomplete=True)
    except StoreNotFoundError:
        return False
    return (
        stored.complete
        and stored.source == rows.description
        and stored.dtype == rows.dtype
        and stored.categories == rows.categories
        and stored.chunk_rows == chunk_rows
        and stored.nonfinite == nonfinite
        and has_compression(stored, compression)
    )
