"""What a stored matrix is: everything that its reader alone can answer, lazy arrays included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from dask.utils import format_bytes

from streamfit.errors import InvalidDataError
from streamfit.store.lazy import lazy_array
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dask.array as da
    from numpy.typing import ArrayLike, NDArray

    from streamfit.plan.layout import StoreLayout
    from streamfit.store.categories import ColumnCategories
    from streamfit.store.labels import LabelInfo
    from streamfit.store.manifest import Manifest
    from streamfit.store.reader import Reader, StoreRef
    from streamfit.store.statistics import Statistics

__all__ = ["StoredMatrix"]

_BLOCK_NBYTES = 64 * 2**20
"""Most bytes of one block of ``X``."""


class StoredMatrix:
    """A matrix of features on disk, ``(n_rows, n_features)``, with optional labels, weights and ids.

    Nothing is read until it is asked for, and every read is verified. The object pickles as its `ref`.

    Parameters
    ----------
    ref : StoreRef
        The store and its version.
    """

    def __init__(self, ref: StoreRef) -> None:
        self.ref = ref
        # Held: what a reader has counted lives as long as somebody uses it.
        self._reader = open_reader(ref)

    def __reduce__(self) -> tuple[Any, tuple[StoreRef]]:
        return type(self), (self.ref,)

    @property
    def reader(self) -> Reader:
        """The verified reader, shared by all who read these rows in this process."""
        return self._reader

    @property
    def manifest(self) -> Manifest:
        """The manifest of the stored files."""
        return self._reader.manifest

    @property
    def path(self) -> str:
        """Absolute folder of the store."""
        return self.ref.path

    @property
    def digest(self) -> str:
        """Identity of exactly these rows."""
        return self._reader.digest

    @property
    def layout(self) -> StoreLayout:
        """Geometry: rows, chunks, partitions."""
        return self._reader.layout

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return self._reader.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the features are sparse: chunks and batches then hold a ``scipy.sparse.csr_array``."""
        return self._reader.is_sparse

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.layout.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.layout.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None where the source had none."""
        return self._reader.feature_names

    @property
    def categories(self) -> tuple[ColumnCategories, ...]:
        """How columns of categories became numbers: their values by code, or by column where encoded one-hot."""
        return self._reader.categories

    def column_name(self, column: int) -> str:
        """Name of a column, or its number where the columns have no names."""
        return self._reader.column_name(column)

    @property
    def has_sample_weight(self) -> bool:
        """Whether each row has a weight."""
        return self._reader.has_sample_weight

    @property
    def has_ids(self) -> bool:
        """Whether each row has an id."""
        return self._reader.has_ids

    @property
    def label_dtype(self) -> np.dtype[Any] | None:
        """Type of the labels; None without labels."""
        return self._reader.label_dtype

    @property
    def label_nbytes(self) -> int:
        """Bytes of the label and the weight of one row, decoded."""
        return self._reader.label_nbytes

    @property
    def labels(self) -> LabelInfo | None:
        """What is known about the labels; None without labels."""
        return self._reader.labels

    @property
    def classes(self) -> NDArray[Any] | None:
        """Distinct labels as `numpy.unique` gives them; None without labels, of a target or several labels a row."""
        labels = self.labels
        return labels.classes if labels is not None and labels.kind == "classes" else None

    @property
    def n_outputs(self) -> int | None:
        """Labels of a row where there are several; None where it has one or none."""
        stored = self.manifest.labels
        return None if stored is None else stored.n_outputs

    @property
    def output_classes(self) -> tuple[NDArray[Any] | None, ...]:
        """Of several labels a row, the distinct values of each as in `classes`; empty where a row has one or none."""
        labels = self.labels
        if labels is None:
            return ()
        return tuple(output.classes if output.kind == "classes" else None for output in labels.outputs)

    @property
    def class_counts(self) -> NDArray[np.int64] | None:
        """Rows of each class, ``(n_classes,)``; None where `classes` is."""
        labels = self.labels
        return labels.counts if labels is not None and labels.kind == "classes" else None

    @property
    def statistics(self) -> Statistics:
        """Per column: ``minimum``, ``maximum``, ``mean``, ``variance``, ``n_nonfinite``."""
        return self._reader.statistics

    @property
    def n_nonfinite(self) -> NDArray[np.int64]:
        """NaN and infinite values of each column, ``(n_features,)``."""
        return self._reader.n_nonfinite

    def __len__(self) -> int:
        """Give the number of rows."""
        return self.n_rows

    def __repr__(self) -> str:
        view = "" if self.ref.selection is None else f", {self.n_rows} of its {self.manifest.n_rows} rows"
        rows = view if self.ref.mapping is None else f"{view}, transformed by {self.ref.mapping.name}"
        parts = [f"{self.n_rows} x {self.n_features} {self.dtype}", f"{self.layout.n_chunks} chunks"]
        parts.append(format_bytes(self.layout.nbytes))
        stored = self.manifest.labels
        if stored is not None:
            # A view would have to count its classes.
            counted = "labels" if view else f"{len(stored.classes)} classes"
            parts.append({"target": "target", "outputs": f"{stored.n_outputs} labels a row"}.get(stored.kind, counted))
        if self.has_sample_weight:
            parts.append("weights")
        return f"<{type(self).__name__} {self.path}{rows}: {', '.join(parts)}>"

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"A {type(self).__name__} of {self.n_rows} x {self.n_features} is not turned into one array by accident. "
            "Use store.X (a dask array) or store.take(rows)."
        )

    # -- lazy arrays ---------------------------------------------------------------------------------

    @property
    def X(self) -> da.Array:  # noqa: N802  # as everywhere in this field
        """Features as a dask array, ``(n_rows, n_features)``, in blocks of whole chunks up to 64 MiB."""
        return lazy_array(self._reader, "X", block_nbytes=_BLOCK_NBYTES)

    @property
    def y(self) -> da.Array | None:
        """Labels as a dask array, ``(n_rows,)`` or ``(n_rows, n_outputs)``; None without labels.

        Its blocks have the same rows as those of `X`.
        """
        return self._column("y", _BLOCK_NBYTES)

    @property
    def sample_weight(self) -> da.Array | None:
        """Weights as a dask array, ``(n_rows,)``, in blocks as `y`; None without weights."""
        return self._column("sample_weight", _BLOCK_NBYTES)

    @property
    def ids(self) -> da.Array | None:
        """Ids as a dask array, ``(n_rows,)``, in blocks as `y`; None without ids."""
        return self._column("ids", _BLOCK_NBYTES)

    def to_dask(self, *, block_nbytes: int) -> tuple[da.Array, da.Array | None]:
        """Give `X` and `y` in blocks of a size of your choice, for work that copies blocks several times.

        Parameters
        ----------
        block_nbytes : int
            Most bytes of a block of `X`; a block holds at least one chunk.
        """
        return lazy_array(self._reader, "X", block_nbytes=block_nbytes), self._column("y", block_nbytes)

    def _column(self, name: str, block_nbytes: int) -> da.Array | None:
        has = name in self._reader.arrays
        return lazy_array(self._reader, name, block_nbytes=block_nbytes) if has else None

    # -- some rows -----------------------------------------------------------------------------------

    def row_numbers(self, rows: ArrayLike | None = None) -> NDArray[np.int64]:
        """Give the numbers that rows have in the store, ``(n,)``: in a view other ones than here.

        Parameters
        ----------
        rows : array-like of int, shape (n,), optional
            Row numbers from 0 in any order; None for all rows.

        Raises
        ------
        InvalidParameterError
            A row number is negative or too large.
        """
        return self._reader.row_numbers(np.arange(self.n_rows) if rows is None else np.asarray(rows))

    def take(self, rows: ArrayLike | Sequence[int]) -> Any:
        """Read some rows, in the order asked, each chunk once.

        Parameters
        ----------
        rows : array-like of int, shape (n,)
            Row numbers from 0; a row may be named more than once.

        Returns
        -------
        ndarray of shape (n, n_features)
            The rows; a ``csr_array`` of a sparse store.

        Raises
        ------
        InvalidParameterError
            A row number is negative or too large.
        StoreCorruptError
            A chunk is damaged.
        """
        return self._reader.take("X", rows)

    def take_labels(self, rows: ArrayLike | Sequence[int]) -> NDArray[Any]:
        """Read the labels of some rows, in the order asked; see `take`.

        Raises
        ------
        InvalidDataError
            The store has no labels.
        """
        labels = self._reader.manifest.labels
        if labels is None:
            raise InvalidDataError(f"The store {self.path} has no labels. Give it some with streamfit.attach.")
        return labels.decode(self._reader.take("y", rows))
