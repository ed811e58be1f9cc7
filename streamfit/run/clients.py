"""Clients of a cluster: from an address, a scheduler file or a cluster object, and looked at before they are used."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import distributed
from distributed.deploy.cluster import Cluster

from streamfit.errors import ClusterError, InvalidParameterError, VersionMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["as_security", "check_versions", "connected_client", "is_cluster", "is_scheduler_file"]

_PACKAGES = ("streamfit", "dask", "distributed", "numpy", "scipy", "scikit-learn", "pyod", "numba", "zarr", "skops")
"""What results, or the messages between processes, depend on."""
_TLS_FILES = {"ca_file": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}


def is_cluster(target: Any) -> bool:
    """Tell whether something is a cluster of distributed, such as those of dask-jobqueue, or of dask-gateway."""
    return isinstance(target, Cluster) or (
        not isinstance(target, (str, type))
        and all(hasattr(target, name) for name in ("scheduler_address", "get_client"))
    )


def is_scheduler_file(target: Any) -> bool:
    """Tell whether something names a scheduler file, as ``dask scheduler --scheduler-file`` writes it."""
    return isinstance(target, Path) or (isinstance(target, str) and "://" not in target and target.endswith(".json"))


def as_security(security: Any) -> distributed.Security | None:
    """Give what was asked for as distributed takes it.

    Raises
    ------
    InvalidParameterError
        It is neither a ``distributed.Security`` nor the three files of a client, or a file is not there.
    """
    if security is None or isinstance(security, distributed.Security):
        return security
    if not isinstance(security, Mapping) or set(security) != set(_TLS_FILES):
        raise InvalidParameterError(
            f"security must be a distributed.Security or a mapping with {', '.join(_TLS_FILES)}, got "
            f"{type(security).__name__}{list(security) if isinstance(security, Mapping) else ''}."
        )
    files = {name: Path(path).expanduser() for name, path in security.items()}
    for name, path in files.items():
        if not path.is_file():
            raise InvalidParameterError(f"There is no file {path}, which security names as {name}. Check the path.")
    named = {ours: str(files[name]) for name, ours in _TLS_FILES.items()}
    return distributed.Security(require_encryption=True, **named)


@contextmanager
def connected_client(
    target: Any, *, security: Any, seconds: float, other_versions: str
) -> Iterator[distributed.Client]:
    """Give a client of a scheduler that answers and has a worker, for the length of a ``with`` block.

    Parameters
    ----------
    target : distributed.Client, cluster object, str or Path
        A client stays open behind the block; an address, a scheduler file or a cluster gets a client of its own.
    security : distributed.Security, mapping or None
        Certificates, see `as_security`; None: those of dask's configuration.
    seconds : float
        How long to try.
    other_versions : {"refuse", "accept"}
        What to do where workers have other versions.

    Raises
    ------
    ClusterError
        No scheduler answers in time, it refuses the certificates, or no worker comes.
    VersionMismatchError
        Workers have other versions than this process.
    """
    with ExitStack() as stack:
        if isinstance(target, distributed.Client):
            client = target
        else:
            began = time.monotonic()
            client = stack.enter_context(_opened(target, as_security(security), seconds))
            seconds = max(1.0, seconds - (time.monotonic() - began))
        _wait_for_worker(client, seconds)
        check_versions(client, other_versions)
        yield client


def _opened(target: Any, security: distributed.Security | None, seconds: float) -> distributed.Client:
    # An explicit security=None would leave out the certificates of dask's configuration.
    how: dict[str, Any] = {"timeout": seconds} | ({} if security is None else {"security": security})
    if is_scheduler_file(target):
        file = Path(target).expanduser()
        deadline = time.monotonic() + seconds
        while not file.exists():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"There is no scheduler file {file} after {seconds:g} s. Start the scheduler with "
                    f"--scheduler-file {file}, or check the path."
                )
            time.sleep(min(0.2, seconds))
        how["scheduler_file"] = str(file)
        where = str(file)
    else:
        how["address"] = target
        where = str(target)
    try:
        return distributed.Client(**how)
    except (OSError, TimeoutError, RuntimeError, ValueError) as error:
        raise ClusterError(_unreachable(where, seconds, error)) from error


def _unreachable(where: str, seconds: float, error: Exception) -> str:
    causes = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    reason = next((text for text in causes if "SSL" in text or "TLS" in text), causes[0])
    if "SSL" in reason or "TLS" in reason or "certificate" in reason.lower():
        advice = "It wants certificates of its own authority: give security=, or set them in dask's configuration"
    else:
        advice = "Start it, check the address, or give it longer: timeout="
    return f"No scheduler answers at {where} within {seconds:g} s ({reason}). {advice}."


def _wait_for_worker(client: distributed.Client, seconds: float) -> None:
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        raise ClusterError(
            f"The scheduler has had no worker for {seconds:g} s. Start workers, or wait longer: timeout=."
        ) from error


# -- versions ----------------------------------------------------------------------------------------


def check_versions(client: distributed.Client, other_versions: str) -> None:
    """Compare each worker's versions with those of this process.

    Raises
    ------
    VersionMismatchError
        They differ, and that is to be refused, or a worker has no streamfit at all.
    """

    def versions_there() -> dict[str, str]:
        # Made here, it is pickled by value: a worker without streamfit could not look up a function of a module.
        import platform as there
        from importlib import metadata

        found = {"python": ".".join(there.python_version_tuple()[:2])}
        for package in packages:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                found[package] = "missing"
        return found

    packages = _PACKAGES
    here = versions_there()
    there: dict[str, Any] = client.run(versions_there, on_error="return")
    differing = []
    for worker, found in sorted(there.items()):
        if isinstance(found, BaseException):
            differing.append(f"{worker} cannot tell its versions ({type(found).__name__}: {found})")
            continue
        unlike = [f"{name} {found[name]} (here {mine})" for name, mine in here.items() if found[name] != mine]
        if unlike:
            differing.append(f"{worker} has {', '.join(unlike)}")
    missing = any(isinstance(found, dict) and found["streamfit"] == "missing" for found in there.values())
    if differing and (other_versions == "refuse" or missing):
        more = f", and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise VersionMismatchError(
            f"Workers differ from this process: {'; '.join(differing[:3])}{more}. Install the same versions there, or, "
            'where streamfit is there, accept results that may differ in bits: other_versions="accept".'
        )
