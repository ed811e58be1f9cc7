"""What names exactly some rows of a store: where they lie, which version, which of them, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from streamfit.options import VerifyMode, check_choice

if TYPE_CHECKING:
    from streamfit.store.selection import Selection
    from streamfit.store.transformed import RowMapping

__all__ = ["StoreRef"]


@dataclass(frozen=True, slots=True)
class StoreRef:
    """What travels in tasks instead of data: where a store is, and which of its versions was opened."""

    path: str
    """Absolute folder of the store."""
    digest: str
    """Hash of the manifest that was opened."""
    verify: VerifyMode = "always"
    """Compare checksums at every read, at the first read of each chunk in this process, or never."""
    selection: Selection | None = None
    """Which rows of the store; None for all."""
    mapping: RowMapping | None = None
    """What these rows are mapped by at each read; None where they are given as they are stored."""

    def __post_init__(self) -> None:
        # Any other value would turn the checksums off.
        check_choice("verify", self.verify, get_args(VerifyMode))
