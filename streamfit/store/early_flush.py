"""Files that go to the disk soon after they are written, and not all at once when a manifest is to promise them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from streamfit.store.atomic import flush_file, flush_names

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

__all__ = ["EarlyFlush"]


class EarlyFlush:
    """Flushes the files of a folder in one thread, in the order in which they were written.

    Parameters
    ----------
    folder : Path
        The store.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool: ThreadPoolExecutor | None = None
        self._begun: dict[Path, Future[None]] = {}

    def begin(self, file: Path) -> None:
        """Take a file that was written and has its name."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="streamfit-flush")
        self._begun[file] = self._pool.submit(flush_file, file)

    def finish(self) -> None:
        """Return when the files are on the disk, and the names of all folders down to them.

        Raises
        ------
        OSError
            One of them is not. It is raised each time from then on: the system forgets what it could not write, and
            would say the next time that all is well.
        """
        for future in self._begun.values():
            future.result()
        flush_names(self._folder, self._begun)
        self._begun.clear()

    def close(self) -> None:
        """End the thread. Files that are not finished count for nothing."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
