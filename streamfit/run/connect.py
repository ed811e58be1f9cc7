"""One call from a laptop's threads to a cluster."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import dask.config

from streamfit.durations import parse_seconds
from streamfit.errors import InvalidParameterError
from streamfit.options import check_choice, check_count
from streamfit.run.engine import chosen_engine
from streamfit.run.threads import ThreadsEngine, available_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.run.engine import Engine

__all__ = ["connect"]


@contextmanager
def connect(
    target: Any = "threads",
    *,
    n_workers: int | None = None,
    security: Any = None,
    timeout: str | float = "30s",
    other_versions: Literal["refuse", "accept"] = "refuse",
) -> Iterator[Engine]:
    """Choose where the verbs run, for the length of a ``with`` block. Results are Bit-equal wherever that is.

    Parameters
    ----------
    target : {"threads", "processes"}, str, Path, distributed.Client or cluster, default="threads"
        - ``"threads"``: this process.
        - ``"processes"``: a local cluster of single-threaded processes, stopped at the end of the block.
        - the address of a scheduler, ``"tcp://host:8786"`` or ``"tls://host:8786"``, or a file that ``dask scheduler
          --scheduler-file`` has written (a path, or a text that ends in ``.json``).
        - a client, which stays open, or a cluster object, such as those of dask-jobqueue, dask-gateway and Coiled.
    n_workers : int or None, default=None
        Threads, or processes of a local cluster; None: one for each core.
    security : distributed.Security, mapping or None, default=None
        Certificates for ``tls://``: an object of distributed, or the paths ``{"ca_file": …, "cert": …, "key": …}``.
        None: what dask's configuration says (``distributed.comm.tls``, or the environment).
    timeout : str or float, default="30s"
        Seconds, or such as ``"5min"``: how long to try to reach a scheduler that does not answer yet, and to wait for
        its first worker; and how long to wait for it when it is lost during work.
    other_versions : {"refuse", "accept"}, default="refuse"
        What to do where a worker has another version of Python, NumPy, scikit-learn or whatever else results depend on.

    Yields
    ------
    Engine
        The engine that is used by all fits and scores inside the block.

    Raises
    ------
    InvalidParameterError
        The target is none of these, or another parameter is outside its range.
    ClusterError
        No scheduler answers in time, it refuses the certificates, or it has no worker.
    VersionMismatchError
        A worker has other versions.

    Examples
    --------
    >>> import streamfit as sf
    >>> with sf.connect("threads") as engine:
    ...     engine.name
    'threads'
    """
    if n_workers is not None:
        check_count("n_workers", n_workers, least=1)
    check_choice("other_versions", other_versions, ("refuse", "accept"))
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

    from streamfit.run.clients import connected_client, is_cluster, is_scheduler_file
    from streamfit.run.distributed import DistributedEngine

    patience = parse_seconds("timeout", timeout)
    with ExitStack() as stack:
        if isinstance(target, str) and target == "processes":
            target = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=n_workers or available_cores(),
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",  # any free port: two clusters on one machine must not clash
                )
            )
        elif not (
            isinstance(target, distributed.Client)
            or is_cluster(target)
            or is_scheduler_file(target)
            or (isinstance(target, str) and "://" in target)
        ):
            raise InvalidParameterError(
                "target must be 'threads', 'processes', the address of a scheduler, a scheduler file, a Client or a "
                f"cluster, got {target!r}."
            )
        client = stack.enter_context(
            connected_client(target, security=security, seconds=patience, other_versions=other_versions)
        )
        stack.enter_context(client.as_current())
        yield stack.enter_context(chosen_engine(DistributedEngine(client, patience)))
