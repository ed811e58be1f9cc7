"""One or several arrays of scores as columns of equal rows, with ids, on their way to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.plan.layout import rows_of_a_chunk
from streamfit.run.ordered_blocks import blocks_in_order
from streamfit.scores.blockwise import is_lazy
from streamfit.scores.checked import as_vector, require_rows
from streamfit.sources.stores import stores_behind
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from numpy.typing import NDArray

__all__ = ["RESERVED_NAMES", "ScoreColumns", "checked_ids", "opened_store"]

RESERVED_NAMES = ("row", "id")
"""What scores cannot be called: columns of these names are written beside them."""
_ONLY = "score"


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumns:
    """Columns of equal length, cut into the same blocks."""

    columns: dict[str, Any]
    """Scores by name: either all of them NumPy arrays or all lazy with the same blocks."""
    named: bool
    """Whether they came with names."""
    ids: Any
    """Of the same kind, or None."""
    paths: tuple[Path, ...]
    """Stores that are read when blocks are computed."""

    @classmethod
    def of(cls, scores: Any, *, ids: Any, store: FeatureStore | None) -> ScoreColumns:
        """Look at what is to be written.

        Raises
        ------
        InvalidDataError
            There is no score, lengths differ, or something is no vector of numbers.
        InvalidParameterError
            A name is no text, or one that is taken.
        """
        columns = _named(scores)
        n_rows = next(iter(columns.values())).shape[0]
        for name, values in columns.items():
            require_rows(values, purpose="A file")
            if values.shape[0] != n_rows:
                raise InvalidDataError(
                    f"There are {values.shape[0]} scores called {name!r} and {n_rows} called {next(iter(columns))!r}. "
                    "Give one of each for each row."
                )
        if store is not None and store.n_rows != n_rows:
            raise InvalidDataError(f"{store.path} has {store.n_rows} rows and there are {n_rows} scores. Give its own.")
        if ids is None and store is not None:
            ids = store.ids
        ids = None if ids is None else checked_ids(ids, n_rows=n_rows)
        paths = {Path(store.path)} if store is not None else set()
        if is_lazy(*columns.values(), ids):
            # By the first lazy scores: their blocks are partitions, those of ids are not.
            cut = next(values for values in (*columns.values(), ids) if is_lazy(values)).chunks
            columns = {name: _cut(values, cut) for name, values in columns.items()}
            ids = None if ids is None else _cut(ids, cut)
            for values in (*columns.values(), ids):
                paths.update(stores_behind(values) if values is not None else ())
        return cls(columns, isinstance(scores, Mapping), ids, tuple(paths))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._first.shape[0])

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each block; some may have none."""
        if is_lazy(self._first):
            return tuple(int(length) for length in self._first.chunks[0])
        block_rows = rows_of_a_chunk(sum(values.dtype.itemsize for values in self._all))
        return tuple(min(block_rows, self.n_rows - start) for start in range(0, self.n_rows, block_rows))

    @property
    def token(self) -> str:
        """Equal for the same values in memory, and for what dask takes for the same work."""
        values = [array.name if is_lazy(array) else array for array in self._all]
        return str(tokenize(list(self.columns), values))

    def blocks(self, start: int = 0) -> Iterator[tuple[int, dict[str, NDArray[Any]], NDArray[Any] | None]]:
        """Give the rows from `start` on, block by block: number of the first row, scores by name, ids.

        Blocks without rows are left out.

        Raises
        ------
        InvalidDataError
            A block has not as many rows as its array says.
        """
        lengths = self.lengths
        edges = np.concatenate(([0], np.cumsum(lengths)))
        first = int(np.searchsorted(edges, start, side="right")) - 1
        for block, arrays in enumerate(self._pieces(edges, first), first):
            for name, values in zip((*self.columns, "id"), arrays, strict=False):
                if values.shape != (lengths[block],):
                    raise InvalidDataError(
                        f"Block {block} of {name!r} has the shape {values.shape} and was announced with "
                        f"{lengths[block]} rows. Call compute_chunk_sizes() of the array before."
                    )
            since = max(0, start - int(edges[block]))
            kept = [array[since:] for array in arrays]
            ids = kept.pop() if self.ids is not None else None
            if lengths[block] > since:
                yield int(edges[block]) + since, dict(zip(self.columns, kept, strict=True)), ids

    def _pieces(self, edges: NDArray[np.int64], first: int) -> Iterator[tuple[NDArray[Any], ...]]:
        if is_lazy(self._first):
            return blocks_in_order(self._all, first=first)
        bounds = zip(edges[first:-1].tolist(), edges[first + 1 :].tolist(), strict=True)
        return (tuple(values[start:stop] for values in self._all) for start, stop in bounds)

    @property
    def _first(self) -> Any:
        return next(iter(self.columns.values()))

    @property
    def _all(self) -> list[Any]:
        return [*self.columns.values(), *([] if self.ids is None else [self.ids])]


def checked_ids(ids: Any, *, n_rows: int) -> Any:
    """Give ids as a vector of integers or texts, one a row; a dask array stays lazy.

    Raises
    ------
    InvalidDataError
        They are something else, or not as many.
    """
    vector = ids if isinstance(ids, da.Array) else np.asarray(unmasked(ids, what="ids"))
    if vector.ndim != 1 or vector.dtype.kind not in "iuU":
        raise InvalidDataError(
            f"ids must be integers or texts of one dimension, got {vector.dtype} of shape {vector.shape}. "
            "Give one id a row."
        )
    if vector.shape != (n_rows,):
        raise InvalidDataError(f"There are {vector.shape[0]} ids and {n_rows} scores. Give one of each for each row.")
    return vector


def opened_store(store: FeatureStore | str | PathLike[str] | None) -> FeatureStore | None:
    """Open a store that is named by its path."""
    return store if store is None or isinstance(store, FeatureStore) else open_store(store)


def _named(scores: Any) -> dict[str, Any]:
    if not isinstance(scores, Mapping):
        return {_ONLY: as_vector(scores, name="scores")}
    if not scores:
        raise InvalidDataError("A file of no scores does not exist. Pass at least 1 array.")
    for name in scores:
        if not isinstance(name, str) or not name or name in RESERVED_NAMES:
            raise InvalidParameterError(
                f"Scores are called by texts other than {' and '.join(RESERVED_NAMES)}, got {name!r}. Choose another."
            )
    return {name: as_vector(values, name=f"the scores {name!r}") for name, values in scores.items()}


def _cut(values: Any, chunks: Any) -> da.Array:
    # In-memory values are hashed for a name: the same values are the same work.
    cut: da.Array = da.asarray(values).rechunk(chunks)
    return cut
