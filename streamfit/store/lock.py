"""One writer a store: a lock that dies with its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from typing import TYPE_CHECKING

from streamfit.errors import StoreLockedError, StoreWriteError
from streamfit.store.atomic import make_folder
from streamfit.store.format import LOCK_FILE, OWN_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["StoreLock"]


class StoreLock:
    """An flock on a file of the store. The owner's name in the file is for the message only.

    Raises
    ------
    StoreLockedError
        Another writer holds it.
    OSError
        The folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / OWN_FOLDER / LOCK_FILE
        self._descriptor = -1
        while self._descriptor < 0:
            make_folder(self._file.parent)
            try:
                descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:  # a writer that leaves nothing behind removed the folder again
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A writer that leaves nothing behind removes the file, perhaps after it was opened here.
                if self._is_file_of(descriptor):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                    self._descriptor = descriptor
            except BlockingIOError:
                owner = os.read(descriptor, 1024).decode(errors="replace").strip() or "another writer"
                raise StoreLockedError(
                    f"The store {folder} is being written by {owner}. Wait until it is done."
                ) from None
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)

    def _is_file_of(self, descriptor: int) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(os.fstat(descriptor), self._file.stat())
        return False

    def check(self) -> None:
        """Make sure that the folder is still the one that was locked: another writer may hold a new one.

        Raises
        ------
        StoreWriteError
            It was removed, moved or replaced.
        """
        if not self._is_file_of(self._descriptor):
            raise StoreWriteError(
                f"The store {self._folder} was removed or moved while it was written. Do the same again, and leave "
                "the folder in its place."
            )

    def remove(self) -> None:
        """Remove the file while the lock is held; whoever opened it meanwhile notices."""
        self._file.unlink(missing_ok=True)

    def release(self) -> None:
        """Let the next writer in."""
        if self._descriptor >= 0:
            # A process that was forked meanwhile has the file open too, and would go on holding the lock.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1
