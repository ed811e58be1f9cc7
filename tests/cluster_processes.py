"""Schedulers and workers of distributed as processes of their own, to be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

TESTS = str(Path(__file__).parent)


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@contextmanager
def started(*command, **environment):
    """A process of distributed's command line, killed at the end with all it has started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + command[0], *command[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def scheduler(port, *options, **environment):
    address = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show")
    return started("dask_scheduler", *address, *options, **environment)


def worker(*options, **environment):
    how = ("--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--no-nanny")
    return started("dask_worker", *options, *how, **environment)


class Supervised:
    """A scheduler and workers that are started again when they end, as an orchestrator does."""

    def __init__(self, n_workers, *, memory_limit="0"):
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._commands = [("scheduler", ())] + [("worker", (memory_limit,))] * n_workers
        self._processes = [self._start(*command) for command in self._commands]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self, kind, options):
        if kind == "scheduler":
            how = ("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-show")
        else:
            how = ("dask_worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny")
            how = (*how, "--memory-limit", *options, "--death-timeout", "120")
        command = [sys.executable, "-m", f"distributed.cli.{how[0]}", *how[1:]]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # What tests send to workers may be functions of their own modules.
        return subprocess.Popen(command, start_new_session=True, env=os.environ | {"PYTHONPATH": TESTS}, **quiet)

    def _watch(self):
        while not self._ended.wait(0.05):
            for place, process in enumerate(self._processes):
                if process.poll() is not None and not self._ended.is_set():
                    self._processes[place] = self._start(*self._commands[place])

    def kill(self, place):
        """Kill the scheduler (0) or a worker (from 1 on) at once; it comes back by itself."""
        self._processes[place].send_signal(signal.SIGKILL)

    def signal(self, place, number):
        """Send another signal, such as SIGSTOP."""
        self._processes[place].send_signal(number)

    @property
    def n_workers(self):
        return len(self._processes) - 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        for process in self._processes:
            process.kill()
            process.wait()
