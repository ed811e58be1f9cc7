"""How far a shuffle has scattered the rows: one small file, replaced as a whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from streamfit.store.atomic import write_atomically
from streamfit.store.format import OWN_FOLDER, SHUFFLE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Journal", "scratch_of"]

_FILE = "journal.json"


def scratch_of(folder: Path) -> Path:
    """Give the folder where a shuffle into this store keeps rows on their way; it goes when the store is complete."""
    return folder / OWN_FOLDER / SHUFFLE_FOLDER


@dataclass(frozen=True, slots=True)
class Journal:
    """What is known to lie in the files of the buckets."""

    source: Mapping[str, Any]
    """What is shuffled and how, in plain values."""
    n_rows: int
    """Rows of the store that are scattered, the first ones; whole chunks."""
    first_bucket: int
    """The rows of the buckets before this one were in their place already, and are left out."""
    sizes: tuple[int, ...]
    """Bytes of each bucket's file; what lies behind them does not count."""

    def save(self, scratch: Path) -> None:
        """Replace the journal."""
        write_atomically(scratch / _FILE, json.dumps(asdict(self)).encode())

    @classmethod
    def load(cls, scratch: Path) -> Journal | None:
        """Read the journal; None where there is none that can be read."""
        try:
            values = json.loads((scratch / _FILE).read_bytes())
            return cls(**{**values, "sizes": tuple(values["sizes"])})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def remove(scratch: Path) -> None:
        """Forget what is scattered."""
        (scratch / _FILE).unlink(missing_ok=True)
