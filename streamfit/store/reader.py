"""From a ref to the reader of its rows: all of a store, those of a view, or either with its rows transformed."""

from __future__ import annotations

import copyreg
import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from streamfit.store.ref import StoreRef
from streamfit.store.stored_reader import Reader
from streamfit.store.transformed_reader import TransformedReader
from streamfit.store.versions import load_version
from streamfit.store.view_reader import ViewReader

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Reader", "StoreRef", "open_reader"]


@lru_cache(maxsize=64)
def open_reader(ref: StoreRef) -> Reader:
    """Open a store, a view of one, or either with its rows transformed, once a process.

    Raises
    ------
    StoreNotFoundError
        There is no store.
    StoreCorruptError
        The store was written anew since `ref` was made, or its manifest is damaged.
    """
    if ref.mapping is not None:
        return TransformedReader(ref, ref.mapping, open_reader(dataclasses.replace(ref, mapping=None)))
    if ref.selection is not None:
        return ViewReader(ref, ref.selection, open_reader(dataclasses.replace(ref, selection=None)))
    return Reader(ref, load_version(Path(ref.path), ref.digest))


def _reopened(reader: Reader) -> tuple[Callable[[StoreRef], Reader], tuple[StoreRef]]:
    return open_reader, (reader.ref,)


# Here and not in the classes: how a reader is opened is known above them.
for _kind in (Reader, ViewReader, TransformedReader):
    copyreg.pickle(_kind, _reopened)
