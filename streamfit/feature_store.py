"""A stored feature matrix and the verbs over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamfit.plan.budget import parse_memory_limit
from streamfit.rewriting import RewritableMatrix
from streamfit.store.describe import store_info, view_html
from streamfit.store.format import local_folder
from streamfit.store.integrity import VerifyReport, verify
from streamfit.store.manifest import load_manifest
from streamfit.store.reader import StoreRef
from streamfit.streaming import StreamableMatrix

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    import dask.array as da
    from numpy.typing import DTypeLike, NDArray

    from streamfit.maths.summaries.protocol import Summary
    from streamfit.options import VerifyMode
    from streamfit.run.engine import Engine
    from streamfit.store.info import StoreInfo
    from streamfit.store.reader import Reader

__all__ = ["FeatureStore", "open_store"]


def open_store(path: str | PathLike[str], *, verify: VerifyMode = "always") -> FeatureStore:
    """Open a store that `streamfit.ingest` wrote.

    Parameters
    ----------
    path : path-like
        Folder of the store.
    verify : {"always", "first", "never"}
        Compare checksums at every read, at the first read of each chunk in a process, or never. With ``"first"`` a
        chunk that is altered after its first read, and with ``"never"`` any altered chunk, gives other rows without
        an error. A lost or shortened one is an error in every mode, and `FeatureStore.verify` always compares.

    Returns
    -------
    FeatureStore
        The rows that are committed now; rows that are appended later are seen after opening again.

    Raises
    ------
    StoreNotFoundError
        There is no store at this path.
    StoreIncompleteError
        Its writer has not reached the end.
    StoreCorruptError
        Its manifest is damaged.
    InvalidParameterError
        `path` is no path, or `verify` is none of the above.
    """
    folder = local_folder(path)
    return FeatureStore(StoreRef(str(folder), load_manifest(folder).digest, verify))


class FeatureStore(RewritableMatrix, StreamableMatrix):
    """A matrix of features on disk, ``(n_rows, n_features)``, with optional labels and weights.

    Nothing is read until a verb asks for it, and every read is verified. The object pickles as its `ref`.

    Parameters
    ----------
    ref : StoreRef
        The store and its version; see `open_store`.
    """

    # -- about it ------------------------------------------------------------------------------------

    def info(self, memory_limit: str | float | None = None) -> StoreInfo:
        """Tell what the store holds: types, chunks, bytes, classes, ranges. Print it, or ask its fields.

        Reads no rows of a store. For a view its rows are read once in this process, for its ranges and classes.

        Parameters
        ----------
        memory_limit : int or str, optional
            Tell how many rows fit in so many bytes; a text such as ``"2GB"`` is understood.

        Raises
        ------
        InvalidParameterError
            `memory_limit` is no number of bytes.
        """
        return store_info(Path(self.path), self.manifest, memory_limit=memory_limit, view=self._view_reader)

    def _repr_html_(self) -> str:
        view = self._view_reader
        return self.info()._repr_html_() if view is None else view_html(Path(self.path), view)

    @property
    def _view_reader(self) -> Reader | None:
        return None if self.reader.digest == self.manifest.digest else self.reader

    def verify(self, *, on_progress: Callable[[int, int], object] | None = None) -> VerifyReport:
        """Read every chunk of every array and compare checksums, and what Zarr is told with the manifest.

        Of a view the stored chunks are read that hold one of its rows; the report names them as the store does.

        Parameters
        ----------
        on_progress : callable, optional
            Called after each chunk with the number of chunks done and of all.

        Returns
        -------
        VerifyReport
            Whether all is ``ok``, and the ``bad_chunks``. Damage is reported, not raised.
        """
        return verify(Path(self.path), self.manifest, chunks=self.reader.stored_chunks, on_chunk=on_progress)

    # -- verbs ---------------------------------------------------------------------------------------

    def reduce(
        self,
        summary: Summary[Any, Any],
        *,
        memory_limit: str | float | None = None,
        engine: Engine | None = None,
    ) -> Any:
        """Give the result of a summary over all rows.

        Parameters
        ----------
        summary : Summary
            What to compute; the same bits on every engine.
        memory_limit : int or str, optional
            Bounds the tasks that run at once.
        engine : Engine, optional
            By default the active cluster, else threads.

        Raises
        ------
        BudgetError
            Not even one task fits `memory_limit`.
        StoreCorruptError
            A chunk is damaged.
        """
        from streamfit.run.engine import current_engine
        from streamfit.run.passes import reduce_store

        return reduce_store(
            self.ref,
            self.layout,
            summary,
            memory_limit=parse_memory_limit(memory_limit),
            engine=engine or current_engine(),
        )

    def map(
        self,
        fn: Callable[[Any, Any], NDArray[Any]],
        *,
        model: Any,
        dtype: DTypeLike,
        n_outputs: int | None = None,
    ) -> da.Array:
        """Give ``fn(model, chunk)`` of all chunks as a dask array in row order; nothing runs yet.

        Parameters
        ----------
        fn : callable
            Takes `model` and a `streamfit.batch.Chunk`; gives ``(n_rows,)`` or ``(n_rows, n_outputs)``.
        model : object
            Passed on; shipped to each worker once.
        dtype : dtype
            Of the result.
        n_outputs : int, optional
            Columns of the result; None for one value a row.

        Raises
        ------
        InvalidParameterError
            `n_outputs` is no positive integer; when it is computed: `fn` gives another shape.
        """
        from streamfit.run.passes import map_array

        return map_array(self.ref, self.layout, fn, model=model, dtype=dtype, n_outputs=n_outputs)
