"""The rows with the highest scores."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import compute, tokenize
from dask.delayed import delayed
from scipy.sparse import csr_array

from streamfit.errors import InvalidDataError
from streamfit.options import check_count
from streamfit.scores import top_files
from streamfit.scores.blockwise import MERGED_AT_ONCE, is_lazy
from streamfit.scores.checked import block_starts, checked_scores, require_rows
from streamfit.scores.score_columns import checked_ids, opened_store
from streamfit.store.format import local_folder
from streamfit.store.lazy import ref_node
from streamfit.store.part_file import part_file
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.store.reader import StoreRef

__all__ = ["TopK", "top_k"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopK:
    """Rows with the highest scores, highest first, and what is known of them.

    Of lazy scores it holds lazy arrays: `compute` runs all of them in one pass, and so does ``dask.compute`` of it
    together with other aggregates.
    """

    rows: Any
    """Global row numbers, int64, ``(k,)``."""
    scores: Any
    """Their scores, float64, ``(k,)``."""
    ids: Any = None
    """Their ids, ``(k,)``, where there are ids."""
    labels: Any = None
    """Their labels, ``(k,)`` or ``(k, n_outputs)``, where a store with labels was given."""
    features: Any = None
    """Their features, ``(k, n_features)``, where a store was given: of a sparse one a ``csr_array``."""
    feature_names: tuple[str, ...] | None = None
    """Names of the features, where the store has names."""

    def __repr__(self) -> str:
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in known if value is not None)})"

    def compute(self) -> TopK:
        """Give the same with NumPy arrays."""
        computed: tuple[TopK] = compute(self)
        return computed[0]

    def to_frame(self, *, features: bool = True) -> pd.DataFrame:
        """Give a table, highest score first; computes it where it is lazy.

        Parameters
        ----------
        features : bool, default=True
            Whether features are among the columns.

        Returns
        -------
        pandas.DataFrame
            Columns ``row``, ``id``, ``score``, ``label`` (``label_0``, ``label_1``, … of several labels a row) and the
            features by name, or as ``x0``, ``x1``, … where they have none; those that are known. A feature that is
            called like one of the first is given as ``feature_row`` and so on.
        """
        return top_files.table(*self._columns(features=features))

    def to_csv(self, path: str | PathLike[str], *, features: bool = True) -> None:
        """Write the table of `to_frame` to a csv file, which is replaced as a whole; computes it where it is lazy.

        Parameters
        ----------
        path : path-like
            The file.
        features : bool, default=True
            Whether features are among the columns.

        Raises
        ------
        StoreLockedError
            Another process is writing it.
        StoreWriteError
            The disk is full, or the folder cannot be written.
        """
        _write(path, self.to_frame(features=features).to_csv(index=False, lineterminator="\n", na_rep="nan"))

    def to_json(self, path: str | PathLike[str], *, features: bool = True) -> None:
        """Write a list with an object a row to a JSON file, which is replaced as a whole; computes it where it is lazy.

        Features are an object within, of sparse rows those that are stored. NaN and infinities, which JSON has no
        words for, become null.

        Parameters
        ----------
        path : path-like
            The file.
        features : bool, default=True
            Whether features are in it.

        Raises
        ------
        StoreLockedError
            Another process is writing it.
        StoreWriteError
            The disk is full, or the folder cannot be written.
        """
        _write(path, top_files.json_text(*self._columns(features=features)))

    def _columns(self, *, features: bool) -> tuple[dict[str, Any], Any, tuple[str, ...] | None]:
        top = self.compute()
        columns = top_files.described(rows=top.rows, ids=top.ids, scores=top.scores, labels=top.labels)
        return columns, top.features if features else None, top.feature_names


def top_k(scores: Any, k: int, *, store: FeatureStore | str | PathLike[str] | None = None, ids: Any = None) -> TopK:
    """Find the rows with the `k` highest scores, and what a store knows of them. Identical for any blocks.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous.
    k : int
        Rows to give, at least 1; all of them where there are fewer.
    store : FeatureStore or path-like, optional
        The rows that were scored: their features, labels and ids come with the result. Only chunks that hold one of
        the `k` rows are read for them, by one task.
    ids : dask.array.Array or array-like, (n_rows,), optional
        Integers or texts; by default those of `store`, if it has any.

    Returns
    -------
    TopK
        Row numbers and scores, highest first; of equal scores the row with the lower number comes first, and
        is kept.

    Raises
    ------
    InvalidDataError
        There is no score, a score is NaN, or `store` or `ids` have another number of rows.
    InvalidParameterError
        `k` is below 1, or no integer.

    Examples
    --------
    >>> top_k([1.0, 3.0, 3.0, 2.0], k=2)
    TopK(rows=array([1, 2]), scores=array([3., 3.]))
    >>> top_k(da.from_array(np.array([1.0, 3.0, 3.0, 2.0]), chunks=3), k=3, ids=[4, 3, 2, 1]).compute()
    TopK(rows=array([1, 2, 3]), scores=array([3., 3., 2.]), ids=array([3, 2, 1]))
    """
    k = check_count("k", k, least=1)
    checked = checked_scores(scores)
    n_rows = checked.shape[0]
    require_rows(checked, purpose="A top")
    store = opened_store(store)
    if store is not None and store.n_rows != n_rows:
        raise InvalidDataError(
            f"{store.path} has {store.n_rows} rows and there are {n_rows} scores. Give the rows that were scored."
        )
    ids = None if ids is None else checked_ids(ids, n_rows=n_rows)
    k = min(k, n_rows)
    dtype = np.dtype([("score", np.float64), ("row", np.int64), *([] if ids is None else [("id", ids.dtype)])])
    if is_lazy(checked, ids):
        top: Any = _lazy_best(da.asarray(checked), ids, dtype, k)
    else:
        top = _sorted_best(_with_rows(checked, ids, np.zeros(1, dtype=np.int64), dtype, block_id=(0,)), k=k)
    found = TopK(rows=top["row"], scores=top["score"], ids=None if ids is None else top["id"])
    return found if store is None else _with_store(found, store)


def _lazy_best(scores: da.Array, ids: Any, dtype: np.dtype[Any], k: int) -> da.Array:
    meta = np.empty(0, dtype=dtype)
    cut = None if ids is None else da.asarray(ids).rechunk(scores.chunks)
    ranked = da.map_blocks(_with_rows, scores, cut, block_starts(scores), dtype, dtype=dtype, meta=meta)
    best: da.Array = da.reduction(
        ranked,
        chunk=partial(_best, k=k),
        combine=partial(_best, k=k),
        aggregate=partial(_sorted_best, k=k),
        axis=0,
        keepdims=True,
        output_size=k,
        split_every=MERGED_AT_ONCE,
        dtype=dtype,
        meta=meta,
    )
    return best


def _with_rows(
    scores: NDArray[np.float64],
    ids: NDArray[Any] | None,
    starts: NDArray[np.int64],
    ranked_dtype: np.dtype[Any],
    *,
    block_id: tuple[int],
) -> NDArray[Any]:
    ranked = np.empty(len(scores), dtype=ranked_dtype)
    ranked["score"] = scores
    ranked["row"] = np.arange(len(scores)) + starts[block_id[0]]
    if ids is not None:
        ranked["id"] = ids
    return ranked


def _best(ranked: NDArray[Any], *, k: int, axis: Any = 0, keepdims: bool = True) -> NDArray[Any]:  # noqa: ARG001  # dask's signature
    """Keep the k best, in the order of the rows, which is the order in which dask joins the pieces."""
    surplus = len(ranked) - k
    if surplus <= 0:
        return ranked
    scores = ranked["score"]
    cut = np.partition(scores, surplus)[surplus]
    kept = scores > cut
    tied = np.flatnonzero(scores == cut)
    kept[tied[: k - np.count_nonzero(kept)]] = True
    best: NDArray[Any] = ranked[kept]
    return best


def _sorted_best(ranked: NDArray[Any], *, k: int, axis: Any = 0, keepdims: bool = True) -> NDArray[Any]:
    best = _best(ranked, k=k, axis=axis, keepdims=keepdims)
    return best[np.lexsort((best["row"], -best["score"]))]


def _with_store(found: TopK, store: FeatureStore) -> TopK:
    """Add what the store knows of the rows: now, or lazily by one task."""
    reader = store.reader
    arrays = [name for name in ("X", "y", "ids") if name in reader.arrays and (name != "ids" or found.ids is None)]
    if is_lazy(found.rows):
        ref = ref_node(store.ref)
        key = f"taken-{tokenize(store.digest, store.ref.verify, found.rows.name, arrays)}"
        # As the one block that it is: a dask array as an argument is optimised apart, and reads the scores once more.
        rows = found.rows.to_delayed(optimize_graph=False).item()
        parts = delayed(_taken)(ref, rows, arrays, dask_key_name=key)
        taken = {name: _lazy_part(parts, name, store, len(found.rows)) for name in arrays}
    else:
        taken = _taken(store.ref, found.rows, arrays)
    return replace(
        found,
        ids=taken.get("ids", found.ids),
        labels=taken.get("y"),
        features=taken["X"],
        feature_names=store.feature_names,
    )


def _taken(ref: StoreRef, rows: NDArray[np.int64], arrays: list[str]) -> dict[str, Any]:
    reader = open_reader(ref)
    taken = {name: reader.take(name, rows) for name in arrays}
    if "y" in taken and reader.manifest.labels is not None:
        taken["y"] = reader.manifest.labels.decode(taken["y"])
    return taken


def _lazy_part(parts: Any, name: str, store: FeatureStore, k: int) -> da.Array:
    spec = store.reader.arrays[name]
    dtype = store.label_dtype if name == "y" else store.dtype if name == "X" else spec.dtype
    shape: tuple[int, ...] = (k, store.n_features) if name == "X" else spec.shape(k)
    empty = (0, *shape[1:])
    meta = csr_array(empty, dtype=dtype) if name == "X" and store.is_sparse else np.empty(empty, dtype=dtype)
    key = f"{name}-{parts.key}"
    part = delayed(_part)(parts, name, dask_key_name=key)
    array: da.Array = da.from_delayed(part, shape=shape, dtype=dtype, meta=meta, name=f"array-{key}")
    return array


def _part(parts: dict[str, Any], name: str) -> Any:
    return parts[name]


def _write(path: str | PathLike[str], text: str) -> None:
    with part_file(local_folder(path)) as file:
        file.write(text.encode())
