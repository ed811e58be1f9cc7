"""One file that is written piece by piece and appears when it is complete."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
from typing import TYPE_CHECKING, Any

from streamfit.errors import StoreLockedError, StoreWriteError
from streamfit.store.atomic import flush_file, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["part_file"]


@contextlib.contextmanager
def part_file(path: Path) -> Iterator[io.BufferedWriter]:
    """Write a file beside its place, ``<path>.part``, and move it there at the end of the ``with`` block.

    Whatever happens, at `path` is the old file, or nothing, or all of the new one, a power cut included. What a killed
    writer leaves behind is written over by the next.

    Parameters
    ----------
    path : Path
        Where the file goes; folders above it are made.

    Raises
    ------
    StoreLockedError
        Somebody is writing this file.
    StoreWriteError
        The disk is full, or the folder cannot be written.
    """
    part = path.with_name(path.name + ".part")
    with _telling(path):
        make_folder(path.parent)
        file = _opened(path, part)
    try:
        yield file
        with _telling(path):
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)
            flush_file(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    finally:
        # Not flushed any more where it failed: what is in the buffer would fail again.
        file.raw.close()


class _Writer(io.BufferedWriter):
    """Tells a full disk from an error of whoever makes what is written."""

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        super().__init__(raw)
        self._path = path

    def write(self, data: Any, /) -> int:
        with _telling(self._path):
            return super().write(data)


@contextlib.contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except StoreLockedError:
        raise
    except OSError as error:
        raise StoreWriteError(
            f"{path} cannot be written ({error.strerror or error}). Free space, make the folder writable, or choose "
            "another path."
        ) from error


def _opened(path: Path, part: Path) -> _Writer:
    while True:
        raw = io.FileIO(os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "w")
        try:
            # It dies with its process, so that a part that was left behind stands in nobody's way.
            fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its writer may have moved it to its place after it was opened here.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(raw.fileno()), part.stat()):
                    raw.truncate(0)
                    return _Writer(raw, path)
        except BlockingIOError:
            raw.close()
            raise StoreLockedError(f"{path} is being written by another process. Wait until it is done.") from None
        except BaseException:
            raw.close()
            raise
        raw.close()
