"""One writer a store: a lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
import socket
from typing import TYPE_CHECKING

from streamfit.errors import StoreLockedError
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
    """

    def __init__(self, folder: Path) -> None:
        file = folder / OWN_FOLDER / LOCK_FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._descriptor, 1024).decode(errors="replace").strip() or "another writer"
            os.close(self._descriptor)
            raise StoreLockedError(f"The store {folder} is being written by {owner}. Wait until it is done.") from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        """Let the next writer in. The file stays: removing it would let two writers in at once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
