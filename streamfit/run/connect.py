"""One call from a laptop's threads to a cluster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidParameterError
from streamfit.run.engine import current_engine
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
        Processes of a local cluster; None: one for each core.

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
    if target == "threads":
        yield ThreadsEngine()
        return
    import distributed

    if isinstance(target, distributed.Client):
        with target.as_current():
            yield current_engine()
    elif target == "processes":
        with (
            distributed.LocalCluster(
                n_workers=n_workers or available_cores(),
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster) as client,
            client.as_current(),
        ):
            yield current_engine()
    elif isinstance(target, str) and "://" in target:
        with distributed.Client(target) as client, client.as_current():
            # Differences in versions are a common cause of odd failures: say so before any work.
            client.get_versions(check=True)
            yield current_engine()
    else:
        raise InvalidParameterError(
            f"target must be 'threads', 'processes', the address of a scheduler or a Client, got {target!r}."
        )
