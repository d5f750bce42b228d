"""A cluster of Kubernetes' own programs: etcd, kube-apiserver and, where asked for, kube-controller-manager.

``KUBEBUILDER_ASSETS`` names the folder they lie in, as for everybody's envtest. TLS, RBAC, the Node authorizer and
NodeRestriction are on, admission is the default, ports are free ones.

with RealCluster(tmp_path) as cluster:
    cluster.start_controller_manager("--controllers=*,-csrsigning")
    cluster.kubectl("get", "nodes")
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import pytest

import processes
from fixed_ports import free_port
from kubevouch.client.kubeconfig import load
from kubevouch.client.rest_config import RESTConfig, resolve
from throwaway_ca import ThrowawayCA

# Only a hang is a failure; kube-apiserver takes 5 s to start on a quiet machine.
PATIENCE_SECONDS = 200.0
_SERVICES = "10.96.0.0/12"


def program(name: str) -> Path:
    """A program of Kubernetes; fails the test where the folder has none."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    found = Path(folder) / name
    if not folder or not found.is_file():
        pytest.fail(
            f"got no {name} in KUBEBUILDER_ASSETS={folder!r}, expected the folder of Kubernetes' programs",
            pytrace=False,
        )
    return found


class RealCluster:
    """A running cluster without nodes; everything it has written is in ``folder``.

    Args:
        folder: for keys, logs and etcd's data.
        flags: more flags of kube-apiserver; one that is given here replaces the default of the same name.
        etcd_url: an etcd that runs already, instead of one of its own.
        administrator: a kubeconfig of a cluster that was there before, whose CA and flags are given in ``flags``; its
            programs act with it, too.
    """

    def __init__(
        self, folder: Path, *, flags: Sequence[str] = (), etcd_url: str = "", administrator: Path | None = None
    ) -> None:
        self.folder = folder
        self.administrator = administrator
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.flags = tuple(flags)
        self.etcd_url = etcd_url
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ca = ThrowawayCA("kubernetes")
        self.ca_certificate, self.ca_key = self._ca.pair.write(folder, "ca")

    # ------------------------------------------------------------------ programs

    def __enter__(self) -> RealCluster:
        try:
            if not self.etcd_url:
                self.start_etcd()
            self.start_api_server()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for name in reversed(tuple(self._running)):
            self.stop(name, signal.SIGKILL)

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End one program, and wait until it has."""
        process = self._running.pop(name)
        process.send_signal(number)
        process.wait(PATIENCE_SECONDS)

    def start_etcd(self) -> None:
        """Start the cluster's own, empty."""
        client, peer = free_port(), free_port()
        self.etcd_url = f"http://127.0.0.1:{client}"
        self._start(
            "etcd", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={self.etcd_url}", f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )  # fmt: skip
        self._until("etcd", lambda: _answers(f"{self.etcd_url}/health"))

    def start_api_server(self, *flags: str) -> None:
        """Start kube-apiserver on the same port, with ``flags`` before those that the cluster was made with."""
        serving, key = self._pair("kube-apiserver", "kube-apiserver", ())
        defaults = [
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={serving}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.ca_certificate}",
            f"--service-cluster-ip-range={_SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._service_account_key()}",
            f"--service-account-signing-key-file={self._service_account_key()}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-bootstrap-token-auth=true",
            f"--cert-dir={self.folder / 'kube-apiserver'}",
            *self._request_headers(),
        ]
        given = (*flags, *self.flags)
        replaced = {each.partition("=")[0] for each in given}
        if "--authorization-config" in replaced:
            replaced.add("--authorization-mode")
        kept = [each for each in defaults if each.partition("=")[0] not in replaced]
        self._start("kube-apiserver", *kept, *given)
        self._until("kube-apiserver", self._is_ready)

    def start_controller_manager(self, *flags: str, signs: bool = True) -> None:
        """Start kube-controller-manager, which signs with the cluster's CA unless it ``signs`` nothing."""
        kubeconfig = self.kubeconfig_of("system:kube-controller-manager")
        signing = (
            f"--cluster-signing-cert-file={self.ca_certificate}", f"--cluster-signing-key-file={self.ca_key}",
        ) if signs else ()  # fmt: skip
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}", "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._service_account_key()}",
            f"--root-ca-file={self.ca_certificate}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'kube-controller-manager'}", *signing, *flags,
        )  # fmt: skip
        self._until("kube-controller-manager", self._manager_leads)

    def log(self, name: str) -> str:
        """What a program has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    # ------------------------------------------------------------------ clients

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator: a certificate of the group ``system:masters``."""
        return self.kubeconfig_of("admin", "system:masters")

    @property
    def config(self) -> RESTConfig:
        return resolve(load(self.kubeconfig))

    def kubeconfig_of(self, user: str, *groups: str) -> Path:
        """Of somebody with a certificate of the cluster's CA; made when it is asked for first."""
        if self.administrator is not None:
            return self.administrator
        path = self.folder / f"{user.replace(':', '_')}.conf"
        if not path.exists():
            certificate, key = self._pair(user.replace(":", "_"), user, groups)
            self.write_kubeconfig(path, {"client-certificate": str(certificate), "client-key": str(key)})
        return path

    def write_kubeconfig(self, path: Path, user: dict[str, str]) -> Path:
        """A kubeconfig of whoever ``user`` says, such as ``{"token": …}``."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca_certificate)}
        tree = {
            "apiVersion": "v1", "kind": "Config", "current-context": "real",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "real", "user": user}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        }  # fmt: skip
        path.touch(mode=0o600)
        path.write_text(json.dumps(tree))
        return path

    def kubectl(self, *arguments: str | Path, given: str | None = None, user: Path | None = None) -> processes.Ended:
        """Run the kubectl of the folder as the administrator, or with the kubeconfig ``user``."""
        return processes.run(
            program("kubectl"), *arguments, cwd=self.folder, text=given, KUBECONFIG=str(user or self.kubeconfig),
            HOME=str(self.folder),
        )  # fmt: skip

    def kubevouch(self, *arguments: str | Path, user: Path | None = None, **more: str) -> processes.Ended:
        """Run a command of ours as the administrator, or with the kubeconfig ``user``."""
        return processes.kubevouch(*arguments, cwd=self.folder, KUBECONFIG=str(user or self.kubeconfig), **more)

    # ------------------------------------------------------------------ inside

    def _start(self, name: str, *flags: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [program(name), *flags], cwd=self.folder, env=processes.environment(), stdout=log, stderr=log
            )

    def _until(self, name: str, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            code = self._running[name].poll()
            assert code is None, f"{name} ended with {code}:\n{self.log(name)[-3000:]}"
            assert time.monotonic() < end, f"{name} did not get ready:\n{self.log(name)[-3000:]}"
            threading.Event().wait(0.1)

    def _is_ready(self) -> bool:
        return _answers(f"{self.url}/readyz", ssl.create_default_context(cafile=str(self.ca_certificate)))

    def _manager_leads(self) -> bool:
        lease = self.kubectl("-n", "kube-system", "get", "lease", "kube-controller-manager", "-o", "json")
        if lease.code:
            return False
        return bool(json.loads(lease.stdout)["spec"].get("holderIdentity"))

    def _pair(self, name: str, common_name: str, groups: tuple[str, ...]) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if not certificate.exists():
            self._ca.issue(common_name, organizations=groups).write(self.folder, name)
        return certificate, key

    def _request_headers(self) -> tuple[str, ...]:
        """As kubeadm sets them: a certificate of another CA is then refused, and not taken for nobody's."""
        if not (self.folder / "front-proxy-ca.crt").exists():
            front = ThrowawayCA("front-proxy-ca")
            front.pair.write(self.folder, "front-proxy-ca")
            front.issue("front-proxy-client").write(self.folder, "front-proxy-client")
        return (
            f"--requestheader-client-ca-file={self.folder / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.folder / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={self.folder / 'front-proxy-client.key'}",
        )

    def _service_account_key(self) -> Path:
        return self._pair("service-accounts", "service-accounts", ())[1]


def _answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
