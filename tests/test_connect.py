"""How a cluster is reached, and what is said where that fails: real schedulers and workers, each a process."""

from __future__ import annotations

import shutil
import subprocess
import time

import distributed
import numpy as np
import pytest
from cluster_processes import free_port, scheduler, worker

import streamfit as sf
from streamfit.errors import ClusterError, InvalidParameterError, VersionMismatchError
from streamfit.maths.summaries.moments import Moments
from streamfit.run import clients

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(2_000, 3))
    return sf.ingest(X, tmp_path_factory.mktemp("connect") / "x.zarr", chunk_rows=100)


def means(store):
    return store.reduce(Moments(store.n_features)).mean


def test_an_address_a_scheduler_file_and_a_client_reach_the_same_cluster(store, tmp_path):
    port, file = free_port(), tmp_path / "scheduler.json"
    address = f"tcp://127.0.0.1:{port}"
    with scheduler(port, "--scheduler-file", str(file)), worker("--scheduler-file", str(file)):
        # Neither is up yet: both are waited for.
        for target in (address, file, str(file)):
            with sf.connect(target, timeout="60s") as engine:
                assert engine.n_workers == 1
                np.testing.assert_array_equal(means(store), means(store[:]))
        with distributed.Client(address) as client:
            with sf.connect(client):
                np.testing.assert_array_equal(means(store), means(store[:]))
            assert client.status == "running"


def test_a_cluster_object_is_used_and_left_alone(store):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        with sf.connect(cluster) as engine:
            assert engine.n_workers == 1
            means(store)
        assert cluster.status.name == "running"


def test_no_scheduler_and_no_worker_are_told_apart(tmp_path):
    port = free_port()
    began = time.monotonic()
    with (
        pytest.raises(ClusterError, match=rf"No scheduler answers at tcp://127.0.0.1:{port} within 1 s"),
        sf.connect(f"tcp://127.0.0.1:{port}", timeout=1),
    ):
        pass
    with (
        pytest.raises(ClusterError, match=r"no scheduler file .*scheduler\.json after 0\.3 s"),
        sf.connect(tmp_path / "scheduler.json", timeout=0.3),
    ):
        pass
    assert time.monotonic() - began < 30
    with (
        scheduler(port),
        pytest.raises(ClusterError, match="has had no worker"),
        sf.connect(f"tcp://127.0.0.1:{port}", timeout=5),
    ):
        pass


def test_other_versions_are_named_and_refused_or_accepted(monkeypatch):
    packages = (*clients._PACKAGES, "not-installed-anywhere")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        monkeypatch.setattr(clients, "_PACKAGES", packages)
        with sf.connect(client):
            pass  # missing on both sides
        run = client.run

        def run_elsewhere(function, **how):
            return {worker: found | {"numpy": "1.0", "pyod": "2.0"} for worker, found in run(function, **how).items()}

        monkeypatch.setattr(client, "run", run_elsewhere)
        expected = rf"numpy 1\.0 \(here {np.__version__}\), pyod 2\.0 .*other_versions=\"accept\""
        with pytest.raises(VersionMismatchError, match=expected), sf.connect(client):
            pass
        with sf.connect(client, other_versions="accept"):
            pass
        without = lambda function, **how: {  # noqa: E731
            worker: found | {"streamfit": "missing"} for worker, found in run(function, **how).items()
        }
        monkeypatch.setattr(client, "run", without)
        with (
            pytest.raises(VersionMismatchError, match="streamfit missing"),
            sf.connect(client, other_versions="accept"),
        ):
            pass


@pytest.mark.parametrize(
    ("how", "message"),
    [
        pytest.param({"target": "somewhere"}, "got 'somewhere'", id="target"),
        pytest.param({"target": None}, "got None", id="none"),
        pytest.param({"target": "tcp://127.0.0.1:1", "timeout": "soon"}, "timeout must be", id="timeout"),
        pytest.param({"target": "tcp://127.0.0.1:1", "timeout": 0}, "timeout must be a time above 0", id="no-time"),
        pytest.param({"target": "tcp://127.0.0.1:1", "n_workers": 2}, "Leave n_workers out", id="n_workers"),
        pytest.param({"target": "tls://127.0.0.1:1", "security": "x"}, "security must be", id="security"),
        pytest.param({"target": "tls://127.0.0.1:1", "security": {"ca_file": "x"}}, "ca_file, cert, key", id="files"),
        pytest.param(
            {"target": "tls://127.0.0.1:1", "security": {"ca_file": "no", "cert": "no", "key": "no"}},
            "There is no file no",
            id="no-file",
        ),
        pytest.param({"target": "threads", "other_versions": "ignore"}, "other_versions", id="versions"),
    ],
)
def test_parameters_that_are_refused(how, message):
    with pytest.raises(InvalidParameterError, match=message), sf.connect(**how):
        pass


# -- certificates ------------------------------------------------------------------------------------


def certificates(folder, authority):
    """Make an authority of its own and a certificate of it."""

    def openssl(*arguments):
        subprocess.run([OPENSSL, *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    ca, one = f"{authority}-ca", authority
    openssl("req", "-x509", *key, "-days", "2", "-keyout", f"{ca}.key", "-out", f"{ca}.crt", "-subj", f"/CN={ca}")
    openssl("req", *key, "-keyout", f"{one}.key", "-out", f"{one}.csr", "-subj", f"/CN={one}")
    signed = ("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "2", "-out", f"{one}.crt")
    openssl("x509", "-req", "-in", f"{one}.csr", *signed)
    return {"ca_file": folder / f"{ca}.crt", "cert": folder / f"{one}.crt", "key": folder / f"{one}.key"}


@needs_openssl
def test_only_certificates_of_the_clusters_own_authority_are_let_in(store, tmp_path):
    ours, rogue = certificates(tmp_path, "ours"), certificates(tmp_path, "rogue")
    port = free_port()
    address = f"tls://127.0.0.1:{port}"
    options = ("--tls-ca-file", str(ours["ca_file"]), "--tls-cert", str(ours["cert"]), "--tls-key", str(ours["key"]))
    with scheduler(port, "--protocol", "tls", *options), worker(address, *options):
        with sf.connect(address, security=ours, timeout="60s"):
            np.testing.assert_array_equal(means(store), means(store[:]))
        security = distributed.Security(
            tls_ca_file=str(ours["ca_file"]),
            tls_client_cert=str(ours["cert"]),
            tls_client_key=str(ours["key"]),
            require_encryption=True,
        )
        with sf.connect(address, security=security):
            pass
        for wrong in (rogue, rogue | {"ca_file": ours["ca_file"]}):
            with (
                pytest.raises(ClusterError, match=r"No scheduler answers at tls://.*security="),
                sf.connect(address, security=wrong, timeout=3),
            ):
                pass
        with (
            pytest.raises(ClusterError, match="No scheduler answers"),
            sf.connect(f"tcp://127.0.0.1:{port}", timeout=3),
        ):
            pass
