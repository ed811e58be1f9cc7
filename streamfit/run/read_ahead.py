"""Windows read and batches cut ahead of the model: by a thread, and by the model's own thread where it has to wait."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from streamfit.run.batch_cutter import BatchCutter
from streamfit.run.windows import Window, new_buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from streamfit.batch import Batch
    from streamfit.run.windows import Visit
    from streamfit.store.reader import Reader

__all__ = ["batches_of"]


def batches_of(reader: Reader, visits: Iterator[Visit], *, prefetch: int) -> Generator[Batch]:
    """Give the batches of some windows in order.

    One thread reads up to `prefetch` windows ahead and cuts the batch that comes next, so that a model that computes
    keeps all other cores. Where that batch is not ready, the thread that asks for it takes a share of the same work
    instead of waiting: it cuts the batch itself, or reads chunks of the windows that are missing. Neither changes what
    a batch holds.

    Parameters
    ----------
    reader : Reader
        Where the rows come from.
    visits : iterator of Visit
        The windows; it is consumed ahead of the batches.
    prefetch : int
        Windows read ahead; with 0 there is no thread.

    Returns
    -------
    generator of Batch
        Closing it ends the thread and frees the buffers.

    Raises
    ------
    StoreCorruptError
        A chunk is not what was committed; the batches before its window were given.
    """
    ahead = _ReadAhead(reader, visits, most_windows=1 + prefetch)
    if prefetch:
        ahead.start()
    try:
        while (batch := ahead.next_batch()) is not None:
            yield batch
            del batch  # it belongs to the caller: do not hold a second one while the next is cut
    finally:
        ahead.close()


class _Progress:
    """How far a window has come."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.n_claimed = 0
        self.n_done = 0
        self.loaded = False
        self.error: Exception | None = None


class _ReadAhead:
    """The work that is left, handed out task by task to the threads that ask.

    All but the tasks themselves is done under one lock. A task is a chunk to be read, a window's order, or the next
    batch to be cut, of which one at a time is in hand.
    """

    def __init__(self, reader: Reader, visits: Iterator[Visit], *, most_windows: int) -> None:
        self._reader = reader
        self._visits = visits
        self._most_windows = most_windows
        self._windows: deque[_Progress] = deque()
        self._buffers: list[NDArray[Any] | None] = []
        self._all_begun = False
        self._cutter = BatchCutter()
        self._cutting = False
        self._ready: Batch | None = None
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Work ahead in a thread, until `close`."""
        self._thread = threading.Thread(target=self._work, name="streamfit-read", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, once the task that it does is done, and drop all rows."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._windows.clear()
        self._buffers.clear()
        self._ready = None

    def next_batch(self) -> Batch | None:
        """Give the next batch, working on it where it is not ready; None after the last one."""
        while True:
            with self._changed:
                if self._ready is not None:
                    batch, self._ready = self._ready, None
                    self._changed.notify_all()
                    return batch
                task = self._claim()
                if self._error is not None:
                    raise self._error
                if task is None:
                    if not self._windows and self._all_begun:
                        return None
                    self._changed.wait()
                    continue
            task()
            del task  # it holds a window

    def _work(self) -> None:
        try:
            while (task := self._task_of_thread()) is not None:
                task()
                del task
        except BaseException as error:  # noqa: BLE001  # such as SystemExit of a user's transformer
            with self._changed:
                self._fail(error)

    def _task_of_thread(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                task = self._claim()
                if task is not None:
                    return task
                self._changed.wait()
        return None

    # -- under the lock ------------------------------------------------------------------------------

    def _claim(self) -> Callable[[], None] | None:
        """Give the most urgent task that nobody does yet; None while there is none."""
        if self._error is not None:
            return None
        front = self._windows[0] if self._windows else None
        if front is not None and self._ready is None and not self._cutting:
            if front.error is not None:
                self._fail(front.error)
                return None
            if front.loaded:
                self._cutting = True
                return partial(self._cut, front)
        for progress in self._windows:
            task = self._claim_of(progress)
            if task is not None:
                return task
        if len(self._windows) < self._most_windows and not self._all_begun:
            return self._begin_window()
        return None

    def _claim_of(self, progress: _Progress) -> Callable[[], None] | None:
        if progress.error is not None or progress.n_claimed == progress.window.n_tasks:
            return None
        progress.n_claimed += 1
        return partial(self._load, progress, progress.n_claimed - 1)

    def _begin_window(self) -> Callable[[], None] | None:
        try:
            visit = next(self._visits, None)
            if visit is None:
                self._all_begun = True
                self._changed.notify_all()
                return None
            buffer = self._buffers.pop() if self._buffers else new_buffer(self._reader, visit.plan)
            self._windows.append(_Progress(Window(self._reader, visit, buffer)))
        except Exception as error:  # noqa: BLE001  # raised where batches are asked for
            self._fail(error)
            return None
        return self._claim_of(self._windows[-1])

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._changed.notify_all()

    # -- tasks ---------------------------------------------------------------------------------------

    def _load(self, progress: _Progress, task: int) -> None:
        try:
            progress.window.do(task)
            with self._changed:
                progress.n_done += 1
                complete = progress.n_done == progress.window.n_tasks
            if complete:
                progress.window.finish()
        except Exception as error:  # noqa: BLE001  # raised once the batches before the window are given
            with self._changed:
                progress.error = progress.error or error
                self._changed.notify_all()
            return
        if complete:
            with self._changed:
                progress.loaded = True
                self._changed.notify_all()

    def _cut(self, front: _Progress) -> None:
        try:
            batch, used_up = self._cutter.cut(front.window)
        except Exception as error:  # noqa: BLE001  # raised where batches are asked for
            with self._changed:
                self._fail(error)
            return
        with self._changed:
            self._cutting = False
            self._ready = batch
            if used_up:
                self._windows.popleft()
                self._buffers.append(front.window.buffer)
            self._changed.notify_all()
