"""Parts of a stored matrix without a copy: slices, selections, random splits."""

from __future__ import annotations

import reprlib
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.sampling import BLOCK_ROWS, draw_rows, recut, rows_of_classes
from streamfit.options import check_count, check_flag, check_number
from streamfit.store.selection import Selection
from streamfit.store.stored_matrix import StoredMatrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["ViewableMatrix"]


class ViewableMatrix(StoredMatrix):
    """A stored matrix whose rows can be viewed in part."""

    def __getitem__(self, rows: slice | ArrayLike) -> Self:
        """Give a view of a slice with a positive step, of the rows of a mask, or of ascending row numbers.

        Nothing is copied; see `select`.

        Raises
        ------
        InvalidParameterError
            It is one row, or none, or the rows do not ascend.
        """
        if not isinstance(rows, slice):
            if isinstance(rows, tuple) or np.ndim(rows) == 0:
                raise InvalidParameterError(
                    f"A store is sliced by rows, got {reprlib.repr(rows)}. "
                    "Use store[a:b], select(rows), split(fraction) or take([row])."
                )
            return self.select(rows)
        chosen = range(self.n_rows)[rows]
        if chosen.step < 0:
            raise InvalidParameterError(
                f"The rows of a view ascend, got step {chosen.step}. Use take(rows) for rows in another order."
            )
        if len(chosen) == self.n_rows:
            return self
        return self._view(Selection.of_slice(self.n_rows, chosen))

    def select(self, rows: ArrayLike) -> Self:
        """Give a view of some rows; nothing is copied, and nothing is read until a verb asks for it.

        The rows of a view are numbered from 0; `row_numbers` gives their numbers in the store. A pass over a view
        reads and verifies each stored chunk that holds one of its rows, once. Rows that are appended to the store
        later do not belong to it.

        Parameters
        ----------
        rows : array-like of bool, shape (n_rows,), or of int
            A mask, or row numbers that ascend strictly.

        Returns
        -------
        FeatureStore
            Of these rows. A view may be viewed again.

        Raises
        ------
        InvalidParameterError
            No row is selected; the mask has another length; the row numbers do not ascend or are not all there.
        """
        chosen = np.asarray(rows)
        n_rows = self.n_rows
        select = Selection.of_mask if chosen.dtype.kind == "b" else Selection.of_rows
        return self._view(select(n_rows, chosen))

    def select_chunks(self, chunks: ArrayLike) -> Self:
        """Give a view of the rows of some whole chunks; nothing is copied or read.

        Parameters
        ----------
        chunks : array-like of bool, shape (n_chunks,)
            A mask of the chunks, in the order of `layout`.

        Returns
        -------
        FeatureStore
            Of these rows, in the order of the store; its chunks are decoded as they are.

        Raises
        ------
        InvalidParameterError
            No chunk is selected, or the mask has another length.
        """
        chosen = np.asarray(chunks)
        sizes = self.layout.chunk_sizes
        if chosen.dtype.kind != "b" or chosen.shape != sizes.shape:
            raise InvalidParameterError(
                f"The mask of chunks is {chosen.dtype} of shape {chosen.shape}. Give one truth value for each of "
                f"{len(sizes)} chunks."
            )
        masks = (np.full(int(size), whether) for size, whether in zip(sizes, chosen, strict=True))
        return self._view(Selection.of_masks(self.n_rows, masks))

    def split(self, fraction: float, *, seed: int = 0, stratify: bool = False) -> tuple[Self, Self]:
        """Part the rows at random into two views.

        Which rows are drawn follows from the number of rows, `seed` and `fraction` alone (and the labels, where they
        are stratified by), never from chunks.

        Parameters
        ----------
        fraction : float
            Share of the rows in the first view, between 0 and 1: exactly ``round(fraction * n_rows)`` rows.
        seed : int
            Seed, 0 or more.
        stratify : bool
            Draw the same share of each class, to a row. The labels are read for that.

        Returns
        -------
        first, second : FeatureStore
            Both in the order of the store.

        Raises
        ------
        InvalidParameterError
            A parameter is out of its range, or a part would have no row.
        InvalidDataError
            `stratify` needs classes.
        """
        check_count("seed", seed, least=0)
        check_flag("stratify", stratify)
        fraction = check_number("fraction", fraction, least=0)
        if not 0 < fraction < 1:
            raise InvalidParameterError(f"fraction must be between 0 and 1, got {fraction!r}.")
        n_first = round(fraction * self.n_rows)
        if not 0 < n_first < self.n_rows:
            raise InvalidParameterError(
                f"fraction={fraction} parts {self.n_rows} rows into {n_first} and {self.n_rows - n_first}. "
                "Both parts need a row: choose another fraction."
            )
        if stratify:
            labels = self.labels
            if labels is not None and labels.n_outputs is not None:
                raise InvalidDataError(
                    f"stratify=True goes by the classes of one label a row, and y has {labels.n_outputs}. Leave it out."
                )
            if labels is None or labels.kind != "classes":
                raise InvalidDataError("stratify=True needs labels that are classes. Ingest with y=, or leave it out.")
            counts, wanted = labels.counts, rows_of_classes(labels.counts, fraction, seed=seed)
            stored = (self._reader.read_array("y", index) for index in range(self.layout.n_chunks))
            classes = recut((labels.positions(codes) for codes in stored), BLOCK_ROWS)
        else:
            counts, wanted = np.array([self.n_rows]), np.array([n_first])
            lengths = (min(BLOCK_ROWS, self.n_rows - start) for start in range(0, self.n_rows, BLOCK_ROWS))
            classes = (np.zeros(length, dtype=np.int64) for length in lengths)
        first = Selection.of_masks(self.n_rows, draw_rows(classes, counts=counts, wanted=wanted, seed=seed))
        return self._view(first), self._view(first.complement())

    def _view(self, selection: Selection) -> Self:
        if selection.n_rows == 0:
            raise InvalidParameterError(f"None of the {self.n_rows} rows is selected. Select at least one row.")
        if selection.n_rows == self.n_rows:
            return self
        outer = self.ref.selection
        return type(self)(replace(self.ref, selection=selection if outer is None else outer.compose(selection)))
