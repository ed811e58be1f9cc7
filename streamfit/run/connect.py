"""One call from a laptop's threads to a cluster."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import dask.config

from streamfit.errors import InvalidParameterError
from streamfit.options import check_count
from streamfit.run.engine import chosen_engine
from streamfit.run.threads import ThreadsEngine, available_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.run.engine import Engine

__all__ = ["connect"]


@contextmanager
def connect(target: Any = "threads", *, n_workers: int | None = None) -> Iterator[Engine]:
    """Choose where the verbs run, for the length of a ``with`` block.

    Parameters
    ----------
    target : {"threads", "processes"}, str or distributed.Client, default="threads"
        ``"threads"``: this process. ``"processes"``: a local cluster of single-threaded processes, stopped
        at the end of the block. Otherwise the address of a scheduler (``"tcp://host:8786"``,
        ``"tls://…"``) or a client.
    n_workers : int or None, default=None
        Threads, or processes of a local cluster; None: one for each core.

    Yields
    ------
    Engine
        The engine that is used by all fits and scores inside the block.

    Raises
    ------
    InvalidParameterError
        The target is none of these.

    Examples
    --------
    >>> import streamfit as sf
    >>> with sf.connect("threads") as engine:
    ...     engine.name
    'threads'
    """
    if n_workers is not None:
        check_count("n_workers", n_workers, least=1)
    if isinstance(target, str) and target == "threads":
        n_threads = n_workers or available_cores()
        # Lazy arrays that are computed inside the block follow, also where a client is active.
        with (
            chosen_engine(ThreadsEngine(n_threads)) as engine,
            dask.config.set(scheduler="threads", num_workers=n_threads),
        ):
            yield engine
        return
    if n_workers is not None and target != "processes":
        raise InvalidParameterError(
            f"n_workers is for 'threads' and 'processes'; {target!r} has its own. Leave n_workers out."
        )
    import distributed

    from streamfit.run.distributed import DistributedEngine

    with ExitStack() as stack:
        if isinstance(target, distributed.Client):
            client = target
        elif target == "processes":
            cluster = distributed.LocalCluster(
                n_workers=n_workers or available_cores(),
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free port: two clusters on one machine must not clash
            )
            client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
        elif isinstance(target, str) and "://" in target:
            client = stack.enter_context(distributed.Client(target))
            # Differences in versions are a common cause of odd failures: say so before any work.
            client.get_versions(check=True)
        else:
            raise InvalidParameterError(
                f"target must be 'threads', 'processes', the address of a scheduler or a Client, got {target!r}."
            )
        stack.enter_context(client.as_current())
        yield stack.enter_context(chosen_engine(DistributedEngine(client)))
