"""Other stores that are made of a stored matrix: with its rows transformed, or in another order."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from streamfit.plan.budget import parse_memory_limit
from streamfit.store.format import local_folder
from streamfit.store.manifest import load_manifest
from streamfit.store.reader import StoreRef
from streamfit.store.row_views import ViewableMatrix

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from streamfit.options import Passes
    from streamfit.store.destination import IfExists
    from streamfit.store.format import Compression

__all__ = ["RewritableMatrix"]


class RewritableMatrix(ViewableMatrix):
    """A stored matrix whose rows can be transformed and written anew."""

    def transformed(self, transformer: Any) -> Self:
        """Give these rows as a fitted transformer makes them: computed at each read, nothing is written.

        Every verb takes the result as any store; labels, weights and ids are those of the rows. A chunk is read,
        verified and transformed as a whole, whoever asks for it, so that all who read a row get the same bits. Use
        `transform` to write the rows once where they are read often.

        Parameters
        ----------
        transformer : transformer
            With ``transform``, such as a fitted `sklearn.preprocessing.StandardScaler` or a pipeline of transformers.
            A copy of it is kept. Each row of its result has to follow from that row alone. Where it was fitted on a
            table, columns are matched by name.

        Returns
        -------
        FeatureStore
            ``(n_rows, n_outputs)``. ``store.transformed(t)[rows]`` and ``store[rows].transformed(t)`` are the same:
            rows are selected first. A value that depends on which rows are transformed together, as in a matrix
            product, may then have other last bits than in ``store.transformed(t)``.

        Raises
        ------
        InvalidParameterError
            It is no transformer, or it is not fitted.
        InvalidDataError
            The columns are not those that it was fitted on. When rows are read: it refuses them, or it gives a value
            that is not finite, and the store was written with ``nonfinite="error"``.
        UnsupportedError
            It holds something that cannot be compared with that of another transformer.

        Notes
        -----
        A transformer is known by its parameters and by what it learnt; a function in it by its name, its code and what
        it closes over, not by the globals that it reads.
        """
        from streamfit.run.row_mapping import TransformerChain

        mapping = TransformerChain.over(self.reader, transformer)
        return type(self)(dataclasses.replace(self.ref, mapping=mapping))

    def transform(
        self,
        transformer: Any,
        path: str | PathLike[str],
        *,
        memory_limit: str | float | None = None,
        if_exists: IfExists = "resume",
        chunk_rows: int | None = None,
        compression: Compression | None = None,
    ) -> Self:
        """Write these rows as a fitted transformer makes them to a new store, once, and open it.

        Labels, weights and ids go with the rows. A run that was interrupted goes on when it is called again, at the
        first row that is not stored yet; called again for a complete store it does nothing.

        Parameters
        ----------
        transformer : transformer
            As for `transformed`, of which this store has the rows, bit for bit.
        path : path-like
            Folder of the new store.
        memory_limit : int or str, optional
            Refuse to begin where more bytes would be needed; a text such as ``"2GB"`` is understood.
        if_exists : {"resume", "overwrite", "error"}
            What to do with a store at `path`.
        chunk_rows : int, optional
            Rows of a chunk of the new store; by default about 8 MiB.
        compression : {"auto", "none", "lz4", "zstd"}, optional
            As for `streamfit.ingest`; by default what this store was written with.

        Returns
        -------
        FeatureStore
            The complete store, ``(n_rows, n_outputs)``.

        Raises
        ------
        InvalidParameterError
            It is no transformer, it is not fitted, or a parameter is out of its range.
        InvalidDataError
            The columns are not those that it was fitted on; it refuses the rows; or it gives a value that is not
            finite, and this store was written with ``nonfinite="error"``.
        StoreExistsError
            Something else is at `path`, such as the rows of another transformer, or `path` overlaps with this store.
        StoreLockedError
            Another writer holds the new store.
        StoreCorruptError
            A chunk is damaged.
        StoreWriteError
            The disk is full, or the folder cannot be written.
        BudgetError
            Not even one chunk fits `memory_limit`.
        UnsupportedError
            It holds something that cannot be compared with that of another transformer.
        """
        from streamfit.run.transform import write_transformed

        folder = local_folder(path)
        write_transformed(
            self.transformed(transformer).reader,
            folder,
            chunk_rows=chunk_rows,
            compression=compression,
            memory_limit=parse_memory_limit(memory_limit),
            if_exists=if_exists,
        )
        return self._opened(folder)

    def shuffle(
        self,
        path: str | PathLike[str],
        *,
        seed: int = 0,
        passes: Passes = "full",
        memory_limit: str | float | None = None,
        if_exists: IfExists = "resume",
        compression: Compression | None = None,
    ) -> Self:
        """Write the same rows to a new store in another order, in bounded memory, and open it.

        Features, labels, weights and ids move together. A run that was interrupted goes on when it is called again.

        Parameters
        ----------
        path : path-like
            Folder of the new store.
        seed : int
            Seed of the order, 0 or more.
        passes : "full" or int
            ``"full"``: a uniform permutation of all rows. It follows from `seed` and the number of rows alone: the
            same for any chunks, memory limit, or interruption. A number: rewrite the rows so many times in the order
            of a window-shuffled epoch, with as many chunks in a window as fit `memory_limit`.
        memory_limit : int or str, optional
            Bytes, or a text such as ``"2GB"``; by default 512 MiB.
        if_exists : {"resume", "overwrite", "error"}
            What to do with a store at `path`.
        compression : {"auto", "none", "lz4", "zstd"}, optional
            As for `streamfit.ingest`; by default what this store was written with.

        Returns
        -------
        FeatureStore
            The complete store.

        Raises
        ------
        InvalidParameterError
            A parameter is out of its range.
        StoreExistsError
            Something else is at `path`, or `path` overlaps with this store.
        StoreLockedError
            Another writer holds the new store.
        StoreCorruptError
            A chunk is damaged.
        StoreWriteError
            The disk is full, or the folder cannot be written.
        BudgetError
            Not even the rows of one chunk fit `memory_limit`.

        Notes
        -----
        A full shuffle reads and writes all rows twice, unless they all fit the limit: they are scattered to files in
        the folder of the new store, by ranges of random keys, and each file is then sorted in memory. So it needs
        disk for these files too, about as much as for the new store. ``passes=1`` needs none, and reads and writes
        the rows once; each further pass does so again, and needs disk for the store in between.

        One pass with ``n`` chunks in a window thins what the rows of a chunk have in common (their intraclass
        correlation) to about an ``n``-th, and the next pass thins that again. It is no uniform permutation: the rows
        of one chunk stay within one window. If in doubt, ``"full"``.
        """
        from streamfit.run.shuffle import shuffle_store

        folder = local_folder(path)
        shuffle_store(
            self.reader,
            folder,
            seed=seed,
            passes=passes,
            compression=compression,
            memory_limit=parse_memory_limit(memory_limit),
            if_exists=if_exists,
        )
        return self._opened(folder)

    def _opened(self, folder: Path) -> Self:
        return type(self)(StoreRef(str(folder), load_manifest(folder).digest, self.ref.verify))
