"""What the library that reads a file cannot read, told in one way."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamfit.errors import InvalidDataError, StreamfitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

__all__ = ["reading"]


@contextmanager
def reading(file: str | PathLike[str]) -> Iterator[None]:
    """Name the file in whatever the library that reads it raises for content that it cannot read.

    Parameters
    ----------
    file : path-like
        What the ``with`` block reads.

    Raises
    ------
    InvalidDataError
        It cannot be read. What the system says (no file, no permission, a bad disk) stays as it is.
    """
    try:
        yield
    except (StreamfitError, MemoryError, ImportError):
        raise
    except Exception as error:
        # Decompressors raise OSErrors without a number; those of the system have one. EINVAL is of content as well: a
        # place before the beginning, as damaged archives name it.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InvalidDataError(f"{file} cannot be read: {reason}. Mend the file, or write it again.") from error
