"""What a store was asked to be compressed by, against what is asked for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from streamfit.options import check_choice
from streamfit.store.format import Compression

if TYPE_CHECKING:
    from streamfit.store.manifest import Manifest

__all__ = ["asked_or_stored", "has_compression"]


def asked_or_stored(compression: Compression | None, manifest: Manifest) -> Compression:
    """Give what a store is written with that is made of another one.

    Raises
    ------
    InvalidParameterError
        It is none of the choices.
    """
    if compression is None:
        return manifest.compression
    check_choice("compression", compression, get_args(Compression))
    return compression


def has_compression(stored: Manifest, asked: Compression) -> bool:
    """Whether a store may be gone on with: without a wish, whatever it has is right."""
    return asked in ("auto", stored.compression)
