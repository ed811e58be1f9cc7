"""What a writer of chunks holds in memory, for those who project it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamfit.store.format import Compression

__all__ = ["writing_part"]


def writing_part(chunk_nbytes: int, compression: Compression) -> tuple[str, int]:
    """Give the part of a budget that writing takes: its name and its bytes.

    Parameters
    ----------
    chunk_nbytes : int
        Bytes of a chunk that is written, decoded.
    compression : {"auto", "none", "lz4", "zstd"}
        Of the store that is written.

    Examples
    --------
    >>> writing_part(100, "auto"), writing_part(100, "zstd")
    (('3 chunks that are written', 300), ('4 chunks that are written', 400))
    """
    # Being filled; encoded or squared; and a mask or a padded copy. What does not shrink, and is compressed
    # nevertheless, is encoded into one buffer and copied out of it.
    n_chunks = 4 if compression in ("lz4", "zstd") else 3
    return f"{n_chunks} chunks that are written", n_chunks * chunk_nbytes
